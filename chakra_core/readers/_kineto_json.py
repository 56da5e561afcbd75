# ruff: noqa: C901, PLR0911, PLR1714, SIM109 - compiled: flat comparisons, arrays by position
"""Compiled JSON primitives over byte buffers: skipping values, exact decimal numbers, finding a way on after damage.

A buffer is passed twice: as bytes, and as ``words``, the same memory seen as the (unaligned) 8-byte word that starts
at each byte, so that strings are passed over and hashed eight bytes at a time. Seven bytes after the last one that is
asked for must exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = [
    "OPTIONS",
    "PADDING",
    "find_resume",
    "hash_range",
    "parse_id",
    "parse_int",
    "parse_scaled",
    "same_bytes",
    "skip_space",
    "skip_string",
    "skip_value",
    "unquote",
    "words_of",
]

OPTIONS: Mapping[str, bool] = {"cache": True, "nogil": True, "_nrt": False}
"""Options of every function of the scanner: none makes an array, so they are compiled without reference counting."""

PADDING = 8
"""Bytes a buffer must have beyond its content."""

_QUOTE, _BACKSLASH, _COLON, _COMMA = 34, 92, 58, 44
_OPEN, _CLOSE, _OPEN_LIST, _CLOSE_LIST = 123, 125, 91, 93
_PLAIN_LIMIT = 922337203685477580

_ONES = np.uint64(0x0101010101010101)
_HIGHS = np.uint64(0x8080808080808080)
_QUOTES = np.uint64(0x2222222222222222)
_BACKSLASHES = np.uint64(0x5C5C5C5C5C5C5C5C)
_PRIME = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)
_MASKS = np.array([(1 << (8 * count)) - 1 for count in range(8)], np.uint64)

_CLASSES = np.zeros(256, np.uint8)
_CLASSES[[_OPEN, _OPEN_LIST]] = 1
_CLASSES[[_CLOSE, _CLOSE_LIST]] = 2
_CLASSES[_QUOTE] = 3


def words_of(buffer: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """The 8-byte word at each byte of the buffer (little endian), sharing its memory; 7 shorter than the buffer."""
    return np.ndarray((len(buffer) - 7,), np.dtype("<u8"), buffer, strides=(1,))


@njit(**OPTIONS)
def skip_space(buf: Any, pos: int, end: int) -> Any:
    """First position at or after ``pos`` that is not white space (``end`` where there is none)."""
    while pos < end and (buf[pos] == 32 or buf[pos] == 10 or buf[pos] == 13 or buf[pos] == 9):
        pos += 1
    return pos


@njit(**OPTIONS)
def skip_string(buf: Any, words: Any, pos: int, end: int) -> Any:
    """Position after the string whose opening quote is at ``pos``; -1 where the buffer ends inside it."""
    pos += 1
    while pos < end:
        while pos + 8 <= end:
            quote = words[pos] ^ _QUOTES
            slash = words[pos] ^ _BACKSLASHES
            if (((quote - _ONES) & ~quote) | ((slash - _ONES) & ~slash)) & _HIGHS:
                break
            pos += 8
        while pos < end:
            byte = buf[pos]
            if byte == _QUOTE:
                return pos + 1
            if byte == _BACKSLASH:
                pos += 2
                break
            pos += 1
    return -1


@njit(**OPTIONS)
def skip_value(buf: Any, words: Any, pos: int, end: int, final: bool) -> Any:
    """Position after the JSON value at ``pos``; -1 where the buffer ends inside it, -2 where there is no value."""
    byte = buf[pos]
    if byte == _QUOTE:
        return skip_string(buf, words, pos, end)
    if byte == _OPEN or byte == _OPEN_LIST:
        depth = 0
        while pos < end:
            what = _CLASSES[buf[pos]]
            if what == 3:
                pos = skip_string(buf, words, pos, end)
                if pos < 0:
                    return -1
                continue
            if what == 1:
                depth += 1
            elif what == 2:
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


@njit(**OPTIONS)
def hash_range(words: Any, start: int, stop: int) -> Any:
    """A 64-bit hash of the bytes from ``start`` to ``stop``."""
    left = stop - start
    value = np.uint64(left) * _PRIME
    while left >= 8:
        value = (value ^ words[start]) * _PRIME
        value ^= value >> _SHIFT
        start += 8
        left -= 8
    if left > 0:
        value = (value ^ (words[start] & _MASKS[left])) * _PRIME
        value ^= value >> _SHIFT
    return value


@njit(**OPTIONS)
def same_bytes(one: Any, at: int, two: Any, start: int, length: int) -> Any:
    """Whether ``length`` bytes at ``at`` of one word view equal those at ``start`` of the other."""
    while length >= 8:
        if one[at] != two[start]:
            return False
        at += 8
        start += 8
        length -= 8
    return length == 0 or (one[at] ^ two[start]) & _MASKS[length] == np.uint64(0)


@njit(**OPTIONS)
def unquote(buf: Any, start: int, stop: int) -> Any:
    """The range without its quotes, where it has them."""
    if stop - start >= 2 and buf[start] == _QUOTE:
        return start + 1, stop - 1
    return start, stop


@njit(**OPTIONS)
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
        return np.int64(0), False
    signed = np.int64(value)
    return (-signed if negative else signed), True


@njit(**OPTIONS)
def parse_id(buf: Any, words: Any, start: int, stop: int) -> Any:
    """An id as int64: the number it spells, else a hash of its text."""
    value, good = parse_int(buf, start, stop)
    if good:
        return value
    start, stop = unquote(buf, start, stop)
    return np.int64(hash_range(words, start, stop))


@njit(**OPTIONS)
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
    dropped = -1
    while start < stop:
        byte = buf[start]
        if 48 <= byte <= 57:
            digits += 1
            if mantissa < _PLAIN_LIMIT:
                mantissa = mantissa * 10 + np.int64(byte - 48)
                power -= 1 if point else 0
            else:
                power += 0 if point else 1
                dropped = byte - 48 if dropped < 0 else dropped
        elif byte == 46 and not point:
            point = True
        else:
            break
        start += 1
    if digits == 0:
        return np.int64(0), False
    if start < stop:
        exponent, good = _parse_exponent(buf, start, stop)
        if not good:
            return np.int64(0), False
        power += exponent
    if power == 0 and dropped >= 5:
        mantissa += 1
    return _scale(mantissa, power, negative)


@njit(**OPTIONS)
def _parse_exponent(buf: Any, start: int, stop: int) -> Any:
    if buf[start] != 101 and buf[start] != 69:
        return np.int64(0), False
    start += 1
    negative = start < stop and buf[start] == 45
    if start < stop and (buf[start] == 45 or buf[start] == 43):
        start += 1
    if start >= stop:
        return np.int64(0), False
    value: Any = np.int64(0)
    while start < stop:
        if not 48 <= buf[start] <= 57:
            return np.int64(0), False
        if value < 100000:
            value = value * 10 + np.int64(buf[start] - 48)
        start += 1
    return (-value if negative else value), True


@njit(**OPTIONS)
def _scale(mantissa: int, power: int, negative: bool) -> Any:
    while power > 0 and mantissa != 0:
        if mantissa > _PLAIN_LIMIT:
            return np.int64(0), False
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


@njit(**OPTIONS)
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
