# ruff: noqa: C901, PLR0911, PLR1714, SIM109 - compiled: flat comparisons, arrays by position
"""Compiled JSON primitives over byte buffers: skipping values, exact decimal numbers, finding a way on after damage."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

__all__ = [
    "find_resume",
    "hash_range",
    "hash_text",
    "parse_id",
    "parse_int",
    "parse_scaled",
    "skip_space",
    "skip_string",
    "skip_value",
    "unquote",
]

FNV_START = np.uint64(14695981039346656037)
_FNV_PRIME = np.uint64(1099511628211)

_QUOTE, _BACKSLASH, _COLON, _COMMA = 34, 92, 58, 44
_OPEN, _CLOSE, _OPEN_LIST, _CLOSE_LIST = 123, 125, 91, 93
_PLAIN_LIMIT = 922337203685477580


def hash_text(text: str) -> np.uint64:
    """FNV-1a of the text's UTF-8 bytes: what ``hash_range`` gives for the same bytes in a buffer."""
    value = int(FNV_START)
    for byte in text.encode():
        value = ((value ^ byte) * int(_FNV_PRIME)) % 2**64
    return np.uint64(value)


@njit(cache=True)
def skip_space(buf: Any, pos: int, end: int) -> Any:
    """First position at or after ``pos`` that is not white space (``end`` where there is none)."""
    while pos < end and (buf[pos] == 32 or buf[pos] == 10 or buf[pos] == 13 or buf[pos] == 9):
        pos += 1
    return pos


@njit(cache=True)
def skip_string(buf: Any, pos: int, end: int) -> Any:
    """Position after the string whose opening quote is at ``pos``; -1 where the buffer ends inside it."""
    pos += 1
    while pos < end:
        byte = buf[pos]
        if byte == _BACKSLASH:
            pos += 2
        elif byte == _QUOTE:
            return pos + 1
        else:
            pos += 1
    return -1


@njit(cache=True)
def skip_value(buf: Any, pos: int, end: int, final: bool) -> Any:
    """Position after the JSON value at ``pos``; -1 where the buffer ends inside it, -2 where there is no value."""
    byte = buf[pos]
    if byte == _QUOTE:
        return skip_string(buf, pos, end)
    if byte == _OPEN or byte == _OPEN_LIST:
        depth = 0
        while pos < end:
            byte = buf[pos]
            if byte == _QUOTE:
                pos = skip_string(buf, pos, end)
                if pos < 0:
                    return -1
                continue
            if byte == _OPEN or byte == _OPEN_LIST:
                depth += 1
            elif byte == _CLOSE or byte == _CLOSE_LIST:
                depth -= 1
                if depth == 0:
                    return pos + 1
            pos += 1
        return -1
    start = pos
    while pos < end:
        byte = buf[pos]
        if byte == _COMMA or byte == _CLOSE or byte == _CLOSE_LIST or byte <= 32:
            return pos if pos > start else -2
        if byte == _QUOTE or byte == _COLON or byte == _OPEN or byte == _OPEN_LIST:
            return -2
        pos += 1
    return pos if final and pos > start else -1


@njit(cache=True)
def hash_range(buf: Any, start: int, stop: int) -> Any:
    """FNV-1a of the bytes from ``start`` to ``stop`` (uint64)."""
    value = FNV_START
    for at in range(start, stop):
        value = (value ^ np.uint64(buf[at])) * _FNV_PRIME
    return value


@njit(cache=True)
def unquote(buf: Any, start: int, stop: int) -> tuple[int, int]:
    """The range without its quotes, where it has them."""
    if stop - start >= 2 and buf[start] == _QUOTE:
        return start + 1, stop - 1
    return start, stop


@njit(cache=True)
def parse_int(buf: Any, start: int, stop: int) -> Any:
    """Integer (modulo 2**64, as int64) of digits, perhaps quoted; a fraction is cut off. False: not a number."""
    start, stop = unquote(buf, start, stop)
    negative = start < stop and buf[start] == 45
    if negative:
        start += 1
    value = np.uint64(0)
    digits = 0
    while start < stop and 48 <= buf[start] <= 57:
        value = value * np.uint64(10) + np.uint64(buf[start] - 48)
        start += 1
        digits += 1
    if digits == 0 or (start < stop and buf[start] != 46):
        return 0, False
    signed = np.int64(value)
    return (-signed if negative else signed), True


@njit(cache=True)
def parse_id(buf: Any, start: int, stop: int) -> Any:
    """An id as int64: the number it spells, else a hash of its text."""
    value, good = parse_int(buf, start, stop)
    if good:
        return value
    start, stop = unquote(buf, start, stop)
    return np.int64(hash_range(buf, start, stop))


@njit(cache=True)
def parse_scaled(buf: Any, start: int, stop: int, power: int) -> Any:
    """The decimal number in the bytes (perhaps quoted) times ``10**power``, as exact int64, halves away from zero.

    False where it is no finite number or does not fit.
    """
    start, stop = unquote(buf, start, stop)
    negative = start < stop and buf[start] == 45
    if negative:
        start += 1
    mantissa: Any = np.int64(0)
    digits = 0
    point = False
    while start < stop:
        byte = buf[start]
        if 48 <= byte <= 57:
            digits += 1
            if mantissa < _PLAIN_LIMIT:
                mantissa = mantissa * 10 + np.int64(byte - 48)
                power -= 1 if point else 0
            elif not point:
                power += 1
        elif byte == 46 and not point:
            point = True
        else:
            break
        start += 1
    if digits == 0:
        return 0, False
    if start < stop:
        exponent, good = _parse_exponent(buf, start, stop)
        if not good:
            return 0, False
        power += exponent
    return _scale(mantissa, power, negative)


@njit(cache=True)
def _parse_exponent(buf: Any, start: int, stop: int) -> Any:
    if buf[start] != 101 and buf[start] != 69:
        return 0, False
    start += 1
    negative = start < stop and buf[start] == 45
    if start < stop and (buf[start] == 45 or buf[start] == 43):
        start += 1
    if start >= stop:
        return 0, False
    value: Any = 0
    while start < stop:
        if not 48 <= buf[start] <= 57:
            return 0, False
        if value < 100000:
            value = value * 10 + np.int64(buf[start] - 48)
        start += 1
    return (-value if negative else value), True


@njit(cache=True)
def _scale(mantissa: int, power: int, negative: bool) -> Any:
    while power > 0 and mantissa != 0:
        if mantissa > _PLAIN_LIMIT:
            return 0, False
        mantissa *= 10
        power -= 1
    last = 0
    while power < 0 and mantissa != 0:
        last = mantissa % 10
        mantissa //= 10
        power += 1
    if last >= 5 and power == 0:
        mantissa += 1
    return (-mantissa if negative else mantissa), True


@njit(cache=True)
def find_resume(buf: Any, pos: int, end: int) -> Any:
    """Where reading can go on after damage: the next ``{`` that follows ``}`` and a comma; -1 where there is none."""
    while pos < end:
        if buf[pos] == _CLOSE:
            at = skip_space(buf, pos + 1, end)
            if at < end and buf[at] == _COMMA:
                at = skip_space(buf, at + 1, end)
                if at < end and buf[at] == _OPEN:
                    then = skip_space(buf, at + 1, end)
                    if then < end and buf[then] == _QUOTE:
                        return at
        pos += 1
    return -1
