# ruff: noqa: C901, PLR0912 - compiled: flat comparisons, arrays by position
"""Compiled scanner of Chakra nodes, schema 0.0.4 to 1.0.0: from framed messages to rows of numbers.

Each node fills one row of ``i64`` (attributes that are columns, interned texts, counts, place in the file) and of
``u64`` (id and times); dependencies are appended to flat arrays. What the scanner does not know for certain (damage,
groups, rare types) makes it stop with ODD in front of the record, which the caller then gives to protobuf.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from chakra_core.readers import _et_wire as wire
from chakra_core.readers._et_table import ABSENT, INTEGERS, TEXTS

__all__ = [
    "AT_END", "DURATION", "EXTRA", "FULL", "ID", "NEED_MORE", "ODD", "START_TIME", "TABLE_FULL", "UNSIGNED",
    "USED", "USED_CTRL", "USED_DATA", "USED_KINDS", "scan",
]  # fmt: skip

NEED_MORE, FULL, TABLE_FULL, ODD, AT_END = range(5)
"""Why the scanner returned: record not complete in the buffer; arrays full; no room for texts; a record for protobuf;
a length that cannot be read, so nothing after it can."""

EXTRA: tuple[str, ...] = (*TEXTS, "name", "kind", "inputs", "n_ctrl", "n_data", "n_kinds", "offset", "size")
"""Columns of ``i64`` after those of ``_et_table.INTEGERS``; ``n_kinds`` is ABSENT where none are stated.

The compiled kernels hold the number of INTEGERS and TEXTS (now 19 and 2): change this file when either changes, so that
kernels kept on disk are compiled anew.
"""

UNSIGNED = (ID, START_TIME, DURATION) = (0, 1, 2)
"""Columns of ``u64``."""

USED_CTRL, USED_DATA, USED_KINDS, USED = 2, 3, 4, 5
"""Places in ``used`` after those of ``_et_wire``, and its length."""

_N = len(INTEGERS)
_PG, _CATEGORY, _NAME, _KIND, _INPUTS, _N_CTRL, _N_DATA, _N_KINDS, _OFFSET, _SIZE = range(_N, _N + len(EXTRA))
_DEP_KINDS = _N + len(TEXTS)

# Ranges in the scratch array, after what wire.attribute keeps there.
_AT_NAME, _AT_SHAPES, _AT_TYPES, _AT_PG, _AT_CATEGORY = (wire.SCRATCH + 2 * at for at in range(5))
SCRATCH = wire.SCRATCH + 10

_SLOTS = 256
_WORD = 8
_WORDS_PER_KEY = 3
_INIT = np.frombuffer(b"process_group:init", np.uint8)
_KINDS_LIST = 10


def _key_table() -> tuple[NDArray[np.int16], NDArray[np.uint64], NDArray[np.int64]]:
    """Open-addressed table of the attributes that matter (-1: empty), their names as words, their lengths."""
    keys = (*INTEGERS, *TEXTS, "dep_kinds")
    table = np.full(_SLOTS, -1, np.int16)
    words = np.zeros((len(keys), _WORDS_PER_KEY), "<u8")
    for at, key in enumerate(keys):
        data = key.encode()
        words[at] = np.frombuffer(data.ljust(_WORD * _WORDS_PER_KEY, b"\0"), "<u8")
        slot = (len(data) * 29 + data[0] * 7 + data[-1] * 131) % _SLOTS
        while table[slot] >= 0:
            slot = (slot + 1) % _SLOTS
        table[slot] = at
    return table, words.astype(np.uint64), np.array([len(key) for key in keys], np.int64)


_KEY_TABLE, _KEY_WORDS, _KEY_LENGTHS = _key_table()
_MASKS = np.array([(1 << (8 * count)) - 1 for count in range(8)], np.uint64)


@njit(**wire.OPTIONS, forceinline=True)
def _key(buf: Any, words: Any, start: int, stop: int) -> Any:
    """Which of the attributes that matter a name is; -1 for any other."""
    length = stop - start
    if length <= 0 or length > _WORD * _WORDS_PER_KEY:
        return -1
    slot = (length * 29 + np.int64(buf[start]) * 7 + np.int64(buf[stop - 1]) * 131) % _SLOTS
    while _KEY_TABLE[slot] >= 0:
        at = np.int64(_KEY_TABLE[slot])
        if _KEY_LENGTHS[at] == length:
            word, pos, left = 0, start, length
            while left >= _WORD and words[pos] == _KEY_WORDS[at, word]:
                word += 1
                pos += _WORD
                left -= _WORD
            if left == 0 or (left < _WORD and words[pos] & _MASKS[left] == _KEY_WORDS[at, word]):
                return at
        slot = (slot + 1) % _SLOTS
    return -1


@njit(**wire.OPTIONS)
def _numbers(buf: Any, pos: int, end: int, out: Any, count: int) -> Any:
    """Append the packed numbers from ``pos`` to ``end``; the count, -1 where they are damaged."""
    while pos < end:
        value, pos = wire.varint(buf, pos, end)
        if pos < 0:
            return -1
        out[count] = value
        count += 1
    return count


@njit(**wire.OPTIONS)
def _kinds(buf: Any, pos: int, end: int, out: Any, used: Any) -> Any:
    """Append the entries of an int64 list message that is known to be valid; how many there are."""
    first = used[USED_KINDS]
    count = first
    while pos < end:
        number, kind, pos = wire.tag(buf, pos, end)
        if number == 1 and kind == 2:
            start, pos = wire.span(buf, pos, end)
            while start < pos:
                value, start = wire.varint(buf, start, pos)
                out[count] = np.int64(value)
                count += 1
        elif number == 1 and kind == 0:
            value, pos = wire.varint(buf, pos, end)
            out[count] = np.int64(value)
            count += 1
        else:
            pos = wire.skip(buf, pos, end, kind)
    used[USED_KINDS] = count
    return count - first


@njit(**wire.OPTIONS, forceinline=True)
def _attribute(
    buf: Any, words: Any, pos: int, end: int, row: Any, kinds: Any, kinds_before: int, scratch: Any, used: Any
) -> bool:
    """Put one attribute where it belongs; False where protobuf must look at the record."""
    if not wire.attribute(buf, words, pos, end, scratch):
        return False
    key = _key(buf, words, scratch[wire.NAME_START], scratch[wire.NAME_STOP])
    if key < 0:
        return True
    kind = scratch[wire.KIND]
    if key < _N:
        row[key] = scratch[wire.VALUE] if kind == wire.INTEGER else ABSENT
        return bool(kind != wire.REAL)
    if key < _DEP_KINDS:
        at = _AT_PG + 2 * (key - _N)
        scratch[at] = -1
        if kind == wire.TEXT:
            scratch[at], scratch[at + 1] = scratch[wire.START], scratch[wire.STOP]
        return bool(kind in (wire.TEXT, wire.NOTHING))
    used[USED_KINDS] = kinds_before
    row[_N_KINDS] = ABSENT
    if kind == wire.LIST:
        if scratch[wire.FIELD] != _KINDS_LIST:
            return False
        row[_N_KINDS] = _kinds(buf, scratch[wire.START], scratch[wire.STOP], kinds, used)
    return bool(kind != wire.MERGED)


@njit(**wire.OPTIONS)
def _tensors(buf: Any, pos: int, end: int, scratch: Any, wanted: bool) -> bool:
    """Note where shapes (field 2) and types (field 3) of an inputs message are."""
    while pos < end:
        number, kind, pos = wire.tag(buf, pos, end)
        if pos < 0:
            return False
        start = pos
        if kind == 2:
            start, pos = wire.span(buf, pos, end)
        else:
            pos = wire.skip(buf, pos, end, kind)
        if pos < 0:
            return False
        if wanted and kind == 2 and 2 <= number <= 3:
            at = _AT_SHAPES if number == 2 else _AT_TYPES
            scratch[at], scratch[at + 1] = start, pos
    return True


@njit(**wire.OPTIONS, forceinline=True)
def _content(
    buf: Any, words: Any, number: int, pos: int, end: int, row: Any, ctrl: Any, data: Any, kinds: Any,
    kinds_before: int, scratch: Any, used: Any,
) -> bool:  # fmt: skip
    """One length-delimited field of a node; False where protobuf must look at the record."""
    if number == 10:
        return _attribute(buf, words, pos, end, row, kinds, kinds_before, scratch, used)
    if number == 2:
        scratch[_AT_NAME], scratch[_AT_NAME + 1] = pos, end
    elif 4 <= number <= 5:
        place = USED_CTRL if number == 4 else USED_DATA
        count = _numbers(buf, pos, end, ctrl if number == 4 else data, used[place])
        if count < 0:
            return False
        used[place] = count
    elif 8 <= number <= 9:
        return _tensors(buf, pos, end, scratch, number == 8)
    return True


@njit(**wire.OPTIONS, forceinline=True)
def _node(
    buf: Any, words: Any, pos: int, end: int, row: Any, unsigned: Any, ctrl: Any, data: Any, kinds: Any, scratch: Any,
    used: Any,
) -> bool:  # fmt: skip
    """Read one node; False where protobuf must look at it."""
    row[:] = ABSENT
    unsigned[:] = 0
    row[_KIND] = 0
    for at in range(_AT_NAME, SCRATCH):
        scratch[at] = -1
    scratch[_AT_NAME] = scratch[_AT_NAME + 1] = 0
    ctrl_before, data_before, kinds_before = used[USED_CTRL], used[USED_DATA], used[USED_KINDS]
    while pos < end:
        number, kind, pos = wire.tag(buf, pos, end)
        if pos < 0:
            return False
        if kind == 0:
            value, pos = wire.varint(buf, pos, end)
            if pos < 0:
                return False
            if number == 1:
                unsigned[ID] = value
            elif number == 3:
                low = np.int64(value & np.uint64(0xFFFFFFFF))
                row[_KIND] = low - 0x100000000 if low >= 0x80000000 else low
            elif number == 4:
                ctrl[used[USED_CTRL]] = value
                used[USED_CTRL] += 1
            elif number == 5:
                data[used[USED_DATA]] = value
                used[USED_DATA] += 1
            elif 6 <= number <= 7:
                unsigned[number - 5] = value
        elif kind == 2:
            start, pos = wire.span(buf, pos, end)
            if pos < 0:
                return False
            if not _content(buf, words, number, start, pos, row, ctrl, data, kinds, kinds_before, scratch, used):
                return False
        else:
            pos = wire.skip(buf, pos, end, kind)
            if pos < 0:
                return False
    row[_N_CTRL] = used[USED_CTRL] - ctrl_before
    row[_N_DATA] = used[USED_DATA] - data_before
    return not _lists_groups(buf, scratch[_AT_NAME], scratch[_AT_NAME + 1])


@njit(**wire.OPTIONS)
def _lists_groups(buf: Any, start: int, stop: int) -> bool:
    """Whether a name is that of PyTorch's list of process groups, whose input values are then needed."""
    for at in range(start, stop - len(_INIT) + 1):
        same = 0
        while same < len(_INIT) and buf[at + same] == _INIT[same]:
            same += 1
        if same == len(_INIT):
            return True
    return False


@njit(**wire.OPTIONS, forceinline=True)
def _texts(
    buf: Any, words: Any, row: Any, scratch: Any, table: Any, hashes: Any, spans: Any, arena_words: Any, used: Any
) -> bool:
    """Intern the texts of a node; False where there is no room. The order is that of ``TableBuilder.add``."""
    row[_INPUTS] = row[_PG] = row[_CATEGORY] = -1
    start, stop = scratch[_AT_SHAPES], scratch[_AT_SHAPES + 1]
    empty = start < 0 or start == stop
    if not empty and not (stop - start == 2 and buf[start] == 91 and buf[start + 1] == 93):
        first, last = scratch[_AT_TYPES], scratch[_AT_TYPES + 1]
        types = max(0, last - first)
        if used[wire.USED_ARENA] + stop - start + types + 24 > len(arena_words):
            return False
        at = wire.append_text(words, start, stop, arena_words, used[wire.USED_ARENA])
        arena_words[at] = np.uint64(0x1F)
        at += 1
        if types:
            at = wire.append_text(words, first, last, arena_words, at)
        row[_INPUTS] = wire.intern(at, table, hashes, spans, arena_words, used)
        if row[_INPUTS] < 0:
            return False
    for column, place in ((_NAME, _AT_NAME), (_PG, _AT_PG), (_CATEGORY, _AT_CATEGORY)):
        start, stop = scratch[place], scratch[place + 1]
        if start < 0:
            continue
        if used[wire.USED_ARENA] + stop - start + 24 > len(arena_words):
            return False
        at = wire.append_text(words, start, stop, arena_words, used[wire.USED_ARENA])
        row[column] = wire.intern(at, table, hashes, spans, arena_words, used)
        if row[column] < 0:
            return False
    return True


@njit(**wire.OPTIONS)
def scan(
    buf: Any, words: Any, pos: int, end: int, base: int, rows: int, i64: Any, u64: Any, ctrl: Any, data: Any, kinds: Any,
    table: Any, hashes: Any, spans: Any, arena_words: Any, used: Any, scratch: Any,
) -> Any:  # fmt: skip
    """Read records from ``pos`` on: ``(status, position of the first record not read, rows filled)``.

    ``base`` is the offset in the file of the buffer's first byte.
    """
    room = len(ctrl)
    while True:
        if pos >= end:
            return NEED_MORE, pos, rows
        size, start = wire.varint(buf, pos, min(end, pos + 10))
        if start < 0:
            return (AT_END if end - pos >= 10 else NEED_MORE), pos, rows
        if size > np.uint64(end - start):
            return NEED_MORE, pos, rows
        if size == np.uint64(0):
            pos = start
            continue
        stop = start + np.int64(size)
        taken = max(used[USED_CTRL], used[USED_DATA], used[USED_KINDS])
        if rows >= len(i64) or taken + (stop - start) > room:
            return FULL, pos, rows
        before = (used[USED_CTRL], used[USED_DATA], used[USED_KINDS])
        status = -1
        if not _node(buf, words, start, stop, i64[rows], u64[rows], ctrl, data, kinds, scratch, used):
            status = ODD
        elif not _texts(buf, words, i64[rows], scratch, table, hashes, spans, arena_words, used):
            status = TABLE_FULL
        if status >= 0:
            used[USED_CTRL], used[USED_DATA], used[USED_KINDS] = before
            return status, pos, rows
        i64[rows, _OFFSET] = base + start
        i64[rows, _SIZE] = stop - start
        rows += 1
        pos = stop
