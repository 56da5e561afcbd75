# ruff: noqa: C901, PLR0912 - compiled: flat comparisons, positions instead of exceptions
"""Compiled primitives of the protobuf wire format: numbers, lengths, skipped fields, attributes, interned text.

Encoding: protobuf.dev/programming-guides/encoding. Every function is given where the enclosing message ends and never
reads past it. A position of -1 means that the bytes are damaged or of a kind (groups) that is not handled here; the
caller then leaves the whole record to protobuf, which decides whether it is valid. Buffers are passed twice, as in
``_kineto_json``: as bytes, and as the 8-byte word that starts at each byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import njit

from chakra_core.readers._kineto_json import hash_range, same_bytes

__all__ = [
    "INTEGER", "KIND", "LIST", "MERGED", "NAME_START", "NAME_STOP", "NOTHING", "OPTIONS", "REAL", "SCRATCH", "START", "STOP", "TEXT",
    "TOO_BIG", "USED_ARENA", "USED_TEXTS", "VALUE", "append_text", "attribute", "intern", "skip", "span", "tag", "varint",
]  # fmt: skip

OPTIONS: Mapping[str, bool] = {"cache": True, "nogil": True, "_nrt": False}
"""Options of every function of the scanner. Nothing here makes or keeps an array, so reference counting is off: the
atomic counts around each call with arrays took six sevenths of the time."""

NOTHING, INTEGER, TOO_BIG, TEXT, LIST, MERGED, REAL = range(7)
"""What an attribute's value is; MERGED is a list that stands twice in one attribute, TOO_BIG no int64."""

NAME_START, NAME_STOP, KIND, VALUE, START, STOP, FIELD, SCRATCH = range(8)
"""Places in the scratch array that ``attribute`` fills; START and STOP are the range of a text or a list."""

USED_TEXTS, USED_ARENA = 0, 1
"""Places in the ``used`` array: number of interned texts, bytes of the arena they take."""

_U7, _U7F, _U80, _ONE, _SEVEN = np.uint64(7), np.uint64(0x7F), np.uint64(0x80), np.uint64(1), np.uint64(7)
_TAG_TOP, _LOW, _TOP = np.uint64(0xFFFFFFFF), np.uint64(0xFFFFFFFF), np.uint64(0x7FFFFFFFFFFFFFFF)
_THREE = np.uint64(3)
_SIGN = 0x80000000
_LAST = 9

_WIDTHS = np.zeros(33, np.int64)
"""Bytes of one entry of the list in each field: 0 a varint, -1 text."""
_WIDTHS[[4, 22, 26]] = 8
_WIDTHS[[6, 20, 24]] = 4
_WIDTHS[[30, 32]] = -1


@njit(**OPTIONS, forceinline=True)
def varint(buf: Any, pos: int, end: int) -> Any:
    """``(number as uint64, position after it)``."""
    if pos < end and buf[pos] < 0x80:
        return np.uint64(buf[pos]), pos + 1
    return _long_varint(buf, pos, end)


@njit(**OPTIONS)
def _long_varint(buf: Any, pos: int, end: int) -> Any:
    value = np.uint64(0)
    shift = np.uint64(0)
    for count in range(10):
        if pos >= end:
            return value, -1
        byte = np.uint64(buf[pos])
        pos += 1
        value |= (byte & _U7F) << shift
        if byte < _U80:
            if count == _LAST and byte > _ONE:
                return value, -1
            return value, pos
        shift += _SEVEN
    return value, -1


@njit(**OPTIONS, forceinline=True)
def tag(buf: Any, pos: int, end: int) -> Any:
    """``(field number, wire type, position after the tag)``."""
    if pos < end and buf[pos] < 0x80:
        byte = np.int64(buf[pos])
        return byte >> 3, byte & 7, (pos + 1 if byte > 7 else -1)
    value, pos = varint(buf, pos, end)
    if pos < 0 or value > _TAG_TOP or value <= _U7:
        return 0, 0, -1
    return np.int64(value >> _THREE), np.int64(value & _U7), pos


@njit(**OPTIONS, forceinline=True)
def span(buf: Any, pos: int, end: int) -> Any:
    """``(start, stop)`` of length-delimited content whose length is at ``pos``."""
    size, start = varint(buf, pos, end)
    if start < 0 or size > np.uint64(end - start):
        return 0, -1
    return start, start + np.int64(size)


@njit(**OPTIONS, forceinline=True)
def skip(buf: Any, pos: int, end: int, wire: int) -> Any:
    """Position after a field's value."""
    if wire == 0:
        _, pos = varint(buf, pos, end)
        return pos
    if wire == 2:
        _, pos = span(buf, pos, end)
        return pos
    if wire in (1, 5):
        pos += 8 if wire == 1 else 4
        return pos if pos <= end else -1
    return -1


@njit(**OPTIONS)
def _list_is_valid(buf: Any, pos: int, end: int, width: int) -> bool:
    """Whether a list message can be decoded: its fields, and the numbers packed in field 1."""
    while pos < end:
        number, wire, pos = tag(buf, pos, end)
        if pos < 0:
            return False
        if number == 1 and wire == 2 and width >= 0:
            start, pos = span(buf, pos, end)
            if pos < 0 or (width > 0 and (pos - start) % width != 0):
                return False
            while width == 0 and start < pos:
                _, start = varint(buf, start, pos)
                if start < 0:
                    return False
        else:
            pos = skip(buf, pos, end, wire)
            if pos < 0:
                return False
    return True


@njit(**OPTIONS)
def _signed(value: Any) -> Any:
    """The low 32 bits as a signed number."""
    low = np.int64(value & _LOW)
    return low - 2 * _SIGN if low >= _SIGN else low


@njit(**OPTIONS, forceinline=True)
def _take_number(scratch: Any, number: int, value: Any) -> None:
    """Keep a number that the member ``number`` of the value's oneof says, by its type; others leave it as it is."""
    kind, result = INTEGER, np.int64(value)
    if number in (7, 23):
        result = _signed(value)
    elif number in (11, 19):
        result = np.int64(value & _LOW)
    elif number in (13, 21):
        kind = INTEGER if value <= _TOP else TOO_BIG
    elif number == 15:
        low = np.int64(value & _LOW)
        result = (low >> 1) ^ -(low & 1)
    elif number == 17:
        result = np.int64(value >> _ONE) ^ -np.int64(value & _ONE)
    elif number == 27:
        result = np.int64(value != np.uint64(0))
    scratch[KIND], scratch[VALUE], scratch[FIELD] = kind, result, number


@njit(**OPTIONS, forceinline=True)
def attribute(buf: Any, words: Any, pos: int, end: int, scratch: Any) -> bool:
    """Note the name and the value of the attribute message from ``pos`` to ``end``; False where it is damaged.

    As in protobuf, the last member of the oneof wins, and a field of another wire type than its own is passed over.
    """
    scratch[NAME_START] = scratch[NAME_STOP] = pos
    scratch[KIND] = NOTHING
    while pos < end:
        number, wire, pos = tag(buf, pos, end)
        if pos < 0:
            return False
        if wire == 0:
            value, pos = varint(buf, pos, end)
            if pos < 0:
                return False
            if number in (7, 9, 11, 13, 15, 17, 27):
                _take_number(scratch, number, value)
        elif wire == 2:
            start, pos = span(buf, pos, end)
            if pos < 0:
                return False
            if number == 1:
                scratch[NAME_START], scratch[NAME_STOP] = start, pos
            elif number in (29, 31):
                scratch[KIND], scratch[START], scratch[STOP], scratch[FIELD] = TEXT, start, pos, number
            elif 4 <= number <= 32 and number % 2 == 0:
                if not _list_is_valid(buf, start, pos, _WIDTHS[number]):
                    return False
                again = scratch[KIND] in (LIST, MERGED) and scratch[FIELD] == number
                scratch[KIND] = MERGED if again else LIST
                scratch[START], scratch[STOP], scratch[FIELD] = start, pos, number
        else:
            start = pos
            pos = skip(buf, pos, end, wire)
            if pos < 0:
                return False
            if (wire == 1 and number in (21, 25)) or (wire == 5 and number in (19, 23)):
                _take_number(scratch, number, words[start])
            elif (wire == 1 and number == 3) or (wire == 5 and number == 5):
                scratch[KIND], scratch[FIELD] = REAL, number
    return True


@njit(**OPTIONS, forceinline=True)
def append_text(words: Any, start: int, stop: int, arena_words: Any, at: int) -> Any:
    """Copy bytes into the arena at ``at`` (up to 7 more are written after them); position after them."""
    while start < stop:
        left = stop - start
        arena_words[at] = words[start]
        step = min(left, 8)
        start += step
        at += step
    return at


@njit(**OPTIONS)
def intern(stop: int, table: Any, hashes: Any, spans: Any, arena_words: Any, used: Any) -> Any:
    """Number of the text that stands at the end of the arena, up to ``stop``; -1 where the table has no room."""
    start = used[USED_ARENA]
    length = stop - start
    hashed = hash_range(arena_words, start, stop)
    mask = len(table) - 1
    slot = np.int64(hashed & np.uint64(mask))
    while table[slot] >= 0:
        entry = np.int64(table[slot])
        if (
            hashes[entry] == hashed
            and spans[entry, 1] == length
            and same_bytes(arena_words, spans[entry, 0], arena_words, start, length)
        ):
            return entry
        slot = (slot + 1) & mask
    entry = used[USED_TEXTS]
    if entry >= len(spans) or 2 * (entry + 1) > len(table):
        return -1
    table[slot] = entry
    hashes[entry] = hashed
    spans[entry, 0], spans[entry, 1] = start, length
    used[USED_TEXTS] += 1
    used[USED_ARENA] = stop
    return entry
