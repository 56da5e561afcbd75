# ruff: noqa: C901, FBT003, PLR0911, PLR0912, PLR1714, SIM109 - compiled: flat comparisons, arrays by position
"""Compiled scanner of trace-event JSON: from bytes to arrays, without a Python object per event.

The scanner reads the events of one buffer into fixed-size arrays, keeps strings as codes of an interning table and
times as exact integer nanoseconds read from the digits. It never recurses, so nesting depth costs nothing. The caller
feeds buffers, grows the table and empties the arrays when a *status* asks for it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from chakra_core.readers._kineto_json import (
    hash_range,
    hash_text,
    parse_id,
    parse_int,
    parse_scaled,
    skip_space,
    skip_string,
    skip_value,
    unquote,
)

__all__ = [
    "AT_END",
    "BROKEN",
    "FULL",
    "I32_FIELDS",
    "I64_FIELDS",
    "MISSING",
    "NEED_MORE",
    "TABLE_FULL",
    "Key",
    "rehash",
    "scan_events",
]

NEED_MORE, AT_END, FULL, TABLE_FULL, BROKEN = 0, 1, 2, 3, 4
"""Why the scanner returned: wants more bytes; saw the end of the list; arrays full; table full; syntax error."""

MISSING = int(np.iinfo(np.int64).min)
"""Integer fields that an event does not have."""

I64_FIELDS = ("offset", "ts", "dur", "id", "external", "correlation")
I32_FIELDS = ("length", "name", "cat", "pid", "tid", "stream", "device", "dims", "types")
(_OFFSET, _TS, _DUR, _ID, _EXTERNAL, _CORRELATION) = range(len(I64_FIELDS))
(_LENGTH, _NAME, _CAT, _PID, _TID, _STREAM, _DEVICE, _DIMS, _TYPES) = range(len(I32_FIELDS))


class Key:
    """Codes of the rare arguments, which are kept as (event, key, value) triples."""

    COLLECTIVE, DTYPE, IN_ELEMENTS, OUT_ELEMENTS, GROUP_SIZE, GROUP_NAME, GROUP_DESCRIPTION, GROUP_RANKS = range(8)
    SEQUENCE, SOURCE_RANK, TARGET_RANK, FLOPS, SYNC_KIND, WAIT_STREAM, WAIT_RECORD, BYTES, NUMBER, SCOPE = range(8, 18)


_H_PH, _H_CAT, _H_NAME, _H_PID, _H_TID = (
    hash_text("ph"),
    hash_text("cat"),
    hash_text("name"),
    hash_text("pid"),
    hash_text("tid"),
)
_H_TS, _H_DUR, _H_ID, _H_ARGS, _H_SCOPE = (
    hash_text("ts"),
    hash_text("dur"),
    hash_text("id"),
    hash_text("args"),
    hash_text("scope"),
)
_H_EXTERNAL, _H_EXTERNAL_OLD, _H_CORRELATION = (
    hash_text("External id"),
    hash_text("external id"),
    hash_text("correlation"),
)
_H_STREAM, _H_DEVICE = hash_text("stream"), hash_text("device")
_H_DIMS, _H_DIMS_OLD = hash_text("Input Dims"), hash_text("Input dims")
_H_TYPES = hash_text("Input type")
_H_TEXT_KEYS = np.array(
    [hash_text(text) for text in ("Collective name", "dtype", "Process Group Name", "Process Group Description",
                              "Process Group Ranks", "cuda_sync_kind")], np.uint64)  # fmt: skip
_TEXT_CODES = np.array([Key.COLLECTIVE, Key.DTYPE, Key.GROUP_NAME, Key.GROUP_DESCRIPTION, Key.GROUP_RANKS,
                        Key.SYNC_KIND], np.int8)  # fmt: skip
_H_INT_KEYS = np.array(
    [hash_text(text) for text in ("In msg nelems", "Out msg nelems", "Group size", "Seq", "Src Rank", "Dst Rank",
                                  "flops", "Flops", "wait_on_stream", "wait_on_cuda_event_record_corr_id", "bytes",
                              "size", "Process Group ID", "Total Allocated")], np.uint64)  # fmt: skip
_INT_CODES = np.array([Key.IN_ELEMENTS, Key.OUT_ELEMENTS, Key.GROUP_SIZE, Key.SEQUENCE, Key.SOURCE_RANK,
                       Key.TARGET_RANK, Key.FLOPS, Key.FLOPS, Key.WAIT_STREAM, Key.WAIT_RECORD, Key.BYTES, Key.BYTES,
                       Key.GROUP_NAME, Key.NUMBER], np.int8)  # fmt: skip
_GROUP_ID_AT = 12
_K_NUMBER, _K_SCOPE = Key.NUMBER, Key.SCOPE

_QUOTE, _COLON, _COMMA = 34, 58, 44
_OPEN, _CLOSE, _CLOSE_LIST = 123, 125, 93


@njit(cache=True)
def _intern(
    buf: Any, start: int, stop: int, hashed: Any, table: Any, hashes: Any, spans: Any, arena: Any, used: Any
) -> Any:
    """Code of the bytes; -1 (and ``used[3]`` set) where the table has no room for one more."""
    mask = len(table) - 1
    slot = np.int64(hashed & np.uint64(mask))
    length = stop - start
    while table[slot] >= 0:
        code = table[slot]
        if hashes[code] == hashed and spans[code, 1] == length:
            at = spans[code, 0]
            same = True
            for i in range(length):
                if arena[at + i] != buf[start + i]:
                    same = False
                    break
            if same:
                return code
        slot = (slot + 1) & mask
    code = used[0]
    if code >= len(spans) or used[1] + length > len(arena) or 2 * (code + 1) > len(table):
        used[3] = TABLE_FULL
        return -1
    table[slot] = code
    hashes[code] = hashed
    spans[code, 0] = used[1]
    spans[code, 1] = length
    for i in range(length):
        arena[used[1] + i] = buf[start + i]
    used[0] += 1
    used[1] += length
    return code


@njit(cache=True)
def rehash(table: Any, hashes: Any, count: int) -> None:
    """Fill an empty table (all -1, length a power of two) with the first ``count`` entries."""
    mask = len(table) - 1
    for code in range(count):
        slot = np.int64(hashes[code] & np.uint64(mask))
        while table[slot] >= 0:
            slot = (slot + 1) & mask
        table[slot] = code


@njit(cache=True)
def _put(sparse: Any, used: Any, row: int, key: int, value: int) -> None:
    at = used[2]
    if at >= len(sparse):
        used[3] = FULL
        return
    sparse[at, 0] = row
    sparse[at, 1] = key
    sparse[at, 2] = value
    used[2] += 1


@njit(cache=True)
def _code_of(buf: Any, start: int, stop: int, interner: Any, used: Any) -> Any:
    table, hashes, spans, arena = interner
    start, stop = unquote(buf, start, stop)
    return _intern(buf, start, stop, hash_range(buf, start, stop), table, hashes, spans, arena, used)


@njit(cache=True)
def _scan_args(
    buf: Any, pos: int, end: int, ph: int, row: int, i64: Any, i32: Any, sparse: Any, interner: Any, used: Any
) -> None:
    """Read the arguments object at ``pos``; it is known to be complete (``end`` is the position after it)."""
    pos += 1
    number_seen = False
    while True:
        pos = skip_space(buf, pos, end)
        if pos >= end or buf[pos] != _QUOTE:
            return
        key_end = skip_string(buf, pos, end)
        if key_end < 0:
            return
        hashed = hash_range(buf, pos + 1, key_end - 1)
        pos = skip_space(buf, key_end, end)
        if pos >= end or buf[pos] != _COLON:
            return
        start = skip_space(buf, pos + 1, end)
        if start >= end:
            return
        stop = skip_value(buf, start, end, True)
        if stop < 0:
            return
        number_seen = _take_arg(buf, start, stop, hashed, ph, number_seen, row, i64, i32, sparse, interner, used)
        pos = skip_space(buf, stop, end)
        if pos < end and buf[pos] == _COMMA:
            pos += 1


@njit(cache=True)
def _take_arg(
    buf: Any,
    start: int,
    stop: int,
    hashed: Any,
    ph: int,
    number_seen: bool,
    row: int,
    i64: Any,
    i32: Any,
    sparse: Any,
    interner: Any,
    used: Any,
) -> Any:
    if hashed == _H_EXTERNAL or hashed == _H_EXTERNAL_OLD:
        i64[_EXTERNAL, row] = parse_id(buf, start, stop)
    elif hashed == _H_CORRELATION:
        i64[_CORRELATION, row] = parse_id(buf, start, stop)
    elif hashed == _H_STREAM:
        value, good = parse_int(buf, start, stop)
        if good and -2147483648 < value < 2147483648:
            i32[_STREAM, row] = value
    elif hashed == _H_DEVICE:
        value, good = parse_int(buf, start, stop)
        if good and -2147483648 < value < 2147483648:
            i32[_DEVICE, row] = value
    elif hashed == _H_DIMS or hashed == _H_DIMS_OLD:
        i32[_DIMS, row] = _code_of(buf, start, stop, interner, used)
    elif hashed == _H_TYPES:
        i32[_TYPES, row] = _code_of(buf, start, stop, interner, used)
    elif not _take_rare(buf, start, stop, hashed, row, sparse, interner, used) and not number_seen and ph == 67:
        value, good = parse_scaled(buf, start, stop, 6)
        if good:
            _put(sparse, used, row, _K_NUMBER, value)
            return True
    return number_seen


@njit(cache=True)
def _take_rare(buf: Any, start: int, stop: int, hashed: Any, row: int, sparse: Any, interner: Any, used: Any) -> Any:
    for at in range(len(_H_INT_KEYS)):
        if hashed == _H_INT_KEYS[at]:
            if at == _GROUP_ID_AT:
                _put(sparse, used, row, _INT_CODES[at], _code_of(buf, start, stop, interner, used))
                return True
            value, good = parse_int(buf, start, stop)
            if good:
                scale = 1000000 if _INT_CODES[at] == _K_NUMBER and abs(value) < 2**43 else 1
                _put(sparse, used, row, _INT_CODES[at], value * scale)
            return good
    for at in range(len(_H_TEXT_KEYS)):
        if hashed == _H_TEXT_KEYS[at]:
            _put(sparse, used, row, _TEXT_CODES[at], _code_of(buf, start, stop, interner, used))
            return True
    return False


@njit(cache=True)
def _clear(i64: Any, i32: Any, phases: Any, row: int) -> None:
    phases[row] = 0
    for field in range(i64.shape[0]):
        i64[field, row] = MISSING
    for field in range(i32.shape[0]):
        i32[field, row] = -1
    i32[_STREAM, row] = -2147483648
    i32[_DEVICE, row] = -2147483648


@njit(cache=True)
def _take_field(
    buf: Any,
    start: int,
    stop: int,
    hashed: Any,
    row: int,
    i64: Any,
    i32: Any,
    phases: Any,
    sparse: Any,
    interner: Any,
    used: Any,
) -> None:
    if hashed == _H_PH:
        if stop - start >= 3:
            phases[row] = buf[start + 1]
    elif hashed == _H_TS:
        value, good = parse_scaled(buf, start, stop, 3)
        if good:
            i64[_TS, row] = value
    elif hashed == _H_DUR:
        value, good = parse_scaled(buf, start, stop, 3)
        if good:
            i64[_DUR, row] = value
    elif hashed == _H_NAME:
        i32[_NAME, row] = _code_of(buf, start, stop, interner, used)
    elif hashed == _H_CAT:
        i32[_CAT, row] = _code_of(buf, start, stop, interner, used)
    elif hashed == _H_PID:
        i32[_PID, row] = _code_of(buf, start, stop, interner, used)
    elif hashed == _H_TID:
        i32[_TID, row] = _code_of(buf, start, stop, interner, used)
    elif hashed == _H_ID:
        i64[_ID, row] = parse_id(buf, start, stop)
    elif hashed == _H_SCOPE:
        _put(sparse, used, row, _K_SCOPE, _code_of(buf, start, stop, interner, used))


@njit(cache=True)
def _scan_event(
    buf: Any, pos: int, end: int, row: int, i64: Any, i32: Any, phases: Any, sparse: Any, interner: Any, used: Any
) -> Any:
    """Read the event object at ``pos``; position after it, -1 incomplete, -2 syntax error."""
    _clear(i64, i32, phases, row)
    args_start, args_end = -1, -1
    pos = skip_space(buf, pos + 1, end)
    while pos < end and buf[pos] != _CLOSE:
        if buf[pos] != _QUOTE:
            return -2
        key_end = skip_string(buf, pos, end)
        if key_end < 0:
            return -1
        hashed = hash_range(buf, pos + 1, key_end - 1)
        pos = skip_space(buf, key_end, end)
        if pos >= end:
            return -1
        if buf[pos] != _COLON:
            return -2
        start = skip_space(buf, pos + 1, end)
        if start >= end:
            return -1
        stop = skip_value(buf, start, end, False)
        if stop < 0:
            return stop
        if hashed == _H_ARGS:
            if buf[start] == _OPEN:
                args_start, args_end = start, stop
        else:
            _take_field(buf, start, stop, hashed, row, i64, i32, phases, sparse, interner, used)
        pos = skip_space(buf, stop, end)
        if pos < end and buf[pos] == _COMMA:
            pos = skip_space(buf, pos + 1, end)
        elif pos < end and buf[pos] != _CLOSE:
            return -2
    if pos >= end:
        return -1
    if args_start >= 0:
        _scan_args(buf, args_start, args_end, phases[row], row, i64, i32, sparse, interner, used)
    return pos + 1


@njit(cache=True)
def scan_events(
    buf: Any,
    pos: int,
    end: int,
    base: int,
    row: int,
    i64: Any,
    i32: Any,
    phases: Any,
    sparse: Any,
    interner: Any,
    used: Any,
) -> tuple[int, int, int]:
    """Read list elements from ``pos`` on into the arrays from ``row`` on.

    ``base`` is the file offset of ``buf[0]``; ``used`` holds the interner's entries and bytes, the number of
    triples, and a flag. Returns ``(status, position, row)``; the position is that of the first element not read.
    """
    capacity = len(phases)
    while True:
        pos = skip_space(buf, pos, end)
        if pos < end and buf[pos] == _COMMA:
            pos += 1
            continue
        if pos >= end:
            return NEED_MORE, pos, row
        if buf[pos] == _CLOSE_LIST:
            return AT_END, pos + 1, row
        if row >= capacity:
            return FULL, pos, row
        if buf[pos] == _OPEN:
            triples = used[2]
            after = _scan_event(buf, pos, end, row, i64, i32, phases, sparse, interner, used)
            if after < 0:
                used[2] = triples
                return (NEED_MORE if after == -1 else BROKEN), pos, row
            if used[3]:
                status = used[3]
                used[2], used[3] = triples, 0
                return status, pos, row
            i64[_OFFSET, row] = base + pos
            i32[_LENGTH, row] = after - pos
        else:
            after = skip_value(buf, pos, end, False)
            if after < 0:
                return (NEED_MORE if after == -1 else BROKEN), pos, row
            _clear(i64, i32, phases, row)
            i64[_OFFSET, row] = base + pos
            i32[_LENGTH, row] = after - pos
        row += 1
        pos = after
