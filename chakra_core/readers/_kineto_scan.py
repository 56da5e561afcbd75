# ruff: noqa: C901, FBT003, PLR0911, PLR0912 - compiled: flat comparisons, arrays by position
"""Compiled scanner of trace-event JSON: from bytes to arrays, without a Python object per event.

The scanner reads the events of one buffer into fixed-size arrays, keeps strings as codes of an interning table and
times as exact integer nanoseconds read from the digits. It never recurses, so nesting depth costs nothing. The caller
feeds buffers, grows the table and the arrays when a *status* asks for it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from chakra_core.readers._kineto_json import (
    OPTIONS,
    hash_range,
    parse_id,
    parse_int,
    parse_scaled,
    same_bytes,
    skip_space,
    skip_string,
    skip_value,
)

__all__ = [
    "AT_END",
    "BROKEN",
    "FULL",
    "I32_FIELDS",
    "I64_FIELDS",
    "MISSING",
    "NEED_MORE",
    "SCRATCH",
    "TABLE_FULL",
    "Key",
    "rehash",
    "scan_events",
]

NEED_MORE, AT_END, FULL, TABLE_FULL, BROKEN = 0, 1, 2, 3, 4
"""Why the scanner returned: wants more bytes; saw the end of the list; arrays full; table full; syntax error."""

MISSING = int(np.iinfo(np.int64).min)
"""Integer fields that an event does not have."""

I64_FIELDS = ("offset", "ts", "dur", "id", "external", "correlation", "record")
I32_FIELDS = ("length", "name", "cat", "pid", "tid", "stream", "device", "dims", "types", "values")
(_OFFSET, _TS, _DUR, _ID, _EXTERNAL, _CORRELATION, _RECORD) = range(len(I64_FIELDS))
(_LENGTH, _NAME, _CAT, _PID, _TID, _STREAM, _DEVICE, _DIMS, _TYPES, _VALUES) = range(len(I32_FIELDS))


class Key:
    """Codes of the rare arguments, which are kept as (event, key, value) triples."""

    COLLECTIVE, DTYPE, IN_ELEMENTS, OUT_ELEMENTS, GROUP_SIZE, GROUP_NAME, GROUP_DESCRIPTION, GROUP_RANKS = range(8)
    SEQUENCE, SOURCE_RANK, TARGET_RANK, FLOPS, SYNC_KIND, WAIT_STREAM, WAIT_RECORD, BYTES, NUMBER, SCOPE = range(8, 18)
    EVENT_NUMBER, ORDINAL, HLO_OP, STEP, RESERVED, ADDRESS, DEVICE_TYPE, DEVICE_ID, CHANGE = range(18, 27)


_TEXT, _INT = 64, 96
_KEYS: tuple[tuple[str, int], ...] = (
    ("Collective name", _TEXT + Key.COLLECTIVE), ("dtype", _TEXT + Key.DTYPE),
    ("Process Group Name", _TEXT + Key.GROUP_NAME), ("Process Group ID", _TEXT + Key.GROUP_NAME),
    ("Process Group Description", _TEXT + Key.GROUP_DESCRIPTION), ("Process Group Ranks", _TEXT + Key.GROUP_RANKS),
    ("cuda_sync_kind", _TEXT + Key.SYNC_KIND),
    ("In msg nelems", _INT + Key.IN_ELEMENTS), ("Out msg nelems", _INT + Key.OUT_ELEMENTS),
    ("Group size", _INT + Key.GROUP_SIZE), ("Seq", _INT + Key.SEQUENCE), ("Src Rank", _INT + Key.SOURCE_RANK),
    ("Dst Rank", _INT + Key.TARGET_RANK), ("flops", _INT + Key.FLOPS), ("Flops", _INT + Key.FLOPS),
    ("wait_on_stream", _INT + Key.WAIT_STREAM), ("wait_on_cuda_event_record_corr_id", _INT + Key.WAIT_RECORD),
    ("seq_num", _INT + Key.EVENT_NUMBER), ("device_ordinal", _INT + Key.ORDINAL), ("step_num", _INT + Key.STEP),
    ("hlo_op", _TEXT + Key.HLO_OP), ("Total Reserved", _INT + Key.RESERVED), ("Addr", _INT + Key.ADDRESS),
    ("bytes", _INT + Key.BYTES), ("size", _INT + Key.BYTES), ("Total Allocated", _INT + Key.NUMBER),
    ("ph", 0), ("ts", 1), ("dur", 2), ("id", 3), ("args", 4), ("name", 8), ("cat", 9), ("pid", 10), ("tid", 11),
    ("Device Type", _INT + Key.DEVICE_TYPE), ("Device Id", _INT + Key.DEVICE_ID), ("Bytes", _INT + Key.CHANGE),
    ("External id", 16), ("external id", 16), ("correlation", 17), ("stream", 18), ("device", 19), ("scope", 14),
    ("Input Dims", 20), ("Input dims", 20), ("Input type", 21), ("Record function id", 22), ("Concrete Inputs", 23),
)  # fmt: skip
_PH, _TS_KEY, _DUR_KEY, _ID_KEY, _ARGS = range(5)
_FIRST_NUMBER, _SCOPE = 5, 14
_EXTERNAL_ID, _CORRELATION_ID, _STREAM_NUMBER, _DEVICE_NUMBER = range(16, 20)
_RECORD_ID = 22
_CODES = 24
_ID_FIELDS = ((_ID_KEY, _ID), (_EXTERNAL_ID, _EXTERNAL), (_CORRELATION_ID, _CORRELATION), (_RECORD_ID, _RECORD))
_TEXT_KEYS = ((8, _NAME), (9, _CAT), (10, _PID), (11, _TID), (20, _DIMS), (21, _TYPES), (23, _VALUES))
_TEXT_FIELDS = np.array(_TEXT_KEYS, np.int64)
_RARE = 2 * _CODES + 1
_MAX_RARE = 128
SCRATCH = _RARE + 3 * _MAX_RARE
"""Length of the scratch array: (start, stop) of each known value, then (code, start, stop) of the rare ones."""
_UNKNOWN = -1
_MAX_KEY = 40
_SLOTS = 1024
_K_NUMBER, _K_SCOPE = Key.NUMBER, Key.SCOPE

_QUOTE, _COLON, _COMMA = 34, 58, 44
_OPEN, _CLOSE, _CLOSE_LIST = 123, 125, 93
_COUNTER = 67
_NO_NUMBER = -2147483648


def _slot(first: int, middle: int, last: int, length: int) -> int:
    return (length * 29 + first * 7 + last * 131 + middle * 17) % _SLOTS


def _key_table() -> tuple[NDArray[np.int16], NDArray[np.uint8]]:
    """Open-addressed table of the known keys (index into ``_KEYS``, -1 empty), and their bytes, padded."""
    table = np.full(_SLOTS, -1, np.int16)
    texts = np.zeros(len(_KEYS) * 64 + 64, np.uint8)
    for at, (text, _) in enumerate(_KEYS):
        data = text.encode()
        texts[at * 64 : at * 64 + len(data)] = np.frombuffer(data, np.uint8)
        slot = _slot(data[0], data[len(data) // 2], data[-1], len(data))
        while table[slot] >= 0:
            slot = (slot + 1) % _SLOTS
        table[slot] = at
    return table, texts


_KEY_TABLE, _KEY_BYTES = _key_table()
_KEY_WORDS = np.ascontiguousarray(_KEY_BYTES.view(np.uint64))
_KEY_LENGTHS = np.array([len(text) for text, _ in _KEYS], np.int64)
_KEY_CODES = np.array([code for _, code in _KEYS], np.int64)
_TAILS = np.array([(1 << (8 * count)) - 1 for count in range(8)], np.uint64)


@njit(**OPTIONS)
def _key_code(buf: Any, words: Any, start: int, stop: int) -> Any:
    """What a key means: its code in ``_KEYS``, -1 for any other."""
    length = stop - start
    if length <= 0 or length > _MAX_KEY:
        return _UNKNOWN
    first, middle, last = np.int64(buf[start]), np.int64(buf[start + length // 2]), np.int64(buf[stop - 1])
    slot = (length * 29 + first * 7 + last * 131 + middle * 17) % _SLOTS
    while _KEY_TABLE[slot] >= 0:
        at = np.int64(_KEY_TABLE[slot])
        if _KEY_LENGTHS[at] == length:
            word, left, pos = at * 8, length, start
            while left >= 8 and words[pos] == _KEY_WORDS[word]:
                word += 1
                pos += 8
                left -= 8
            if left < 8 and (words[pos] ^ _KEY_WORDS[word]) & _TAILS[left] == np.uint64(0):
                return _KEY_CODES[at]
        slot = (slot + 1) % _SLOTS
    return _UNKNOWN


@njit(**OPTIONS)
def rehash(table: Any, hashes: Any, count: int) -> None:
    """Fill an empty table (all -1, length a power of two) with the first ``count`` entries."""
    mask = len(table) - 1
    for code in range(count):
        slot = np.int64(hashes[code] & np.uint64(mask))
        while table[slot] >= 0:
            slot = (slot + 1) & mask
        table[slot] = code


@njit(**OPTIONS)
def _put(sparse: Any, used: Any, row: int, key: int, value: int) -> None:
    at = used[2]
    if at >= len(sparse):
        used[3] = FULL
        return
    sparse[at, 0] = row
    sparse[at, 1] = key
    sparse[at, 2] = value
    used[2] += 1


@njit(**OPTIONS)
def _collect_args(buf: Any, words: Any, pos: int, end: int, scratch: Any) -> Any:
    """Note where the known arguments of the object at ``pos`` are; position after it, -1 incomplete, -2 an error."""
    pos = skip_space(buf, pos + 1, end)
    while pos < end and buf[pos] != _CLOSE:
        if buf[pos] != _QUOTE:
            return -2
        key_end = skip_string(buf, words, pos, end)
        if key_end < 0:
            return -1
        code = _key_code(buf, words, pos + 1, key_end - 1)
        pos = skip_space(buf, key_end, end)
        if pos >= end:
            return -1
        if buf[pos] != _COLON:
            return -2
        start = skip_space(buf, pos + 1, end)
        if start >= end:
            return -1
        pos = skip_value(buf, words, start, end, False)
        if pos < 0:
            return pos
        if code >= _TEXT:
            count = scratch[_RARE - 1]
            if count < _MAX_RARE:
                at = _RARE + 3 * count
                scratch[at], scratch[at + 1], scratch[at + 2] = code, start, pos
                scratch[_RARE - 1] = count + 1
        elif code >= _EXTERNAL_ID:
            scratch[2 * code], scratch[2 * code + 1] = start, pos
        elif scratch[2 * _FIRST_NUMBER] < 0 and (buf[start] == 45 or 48 <= buf[start] <= 57):
            scratch[2 * _FIRST_NUMBER], scratch[2 * _FIRST_NUMBER + 1] = start, pos
        pos = skip_space(buf, pos, end)
        if pos < end and buf[pos] == _COMMA:
            pos = skip_space(buf, pos + 1, end)
        elif pos < end and buf[pos] != _CLOSE:
            return -2
    return pos + 1 if pos < end else -1


@njit(**OPTIONS)
def _collect_event(buf: Any, words: Any, pos: int, end: int, scratch: Any) -> Any:
    """Note where the known fields of the event at ``pos`` are; position after it, -1 incomplete, -2 an error."""
    for at in range(0, 2 * _CODES, 2):
        scratch[at] = -1
    scratch[_RARE - 1] = 0
    pos = skip_space(buf, pos + 1, end)
    while pos < end and buf[pos] != _CLOSE:
        if buf[pos] != _QUOTE:
            return -2
        key_end = skip_string(buf, words, pos, end)
        if key_end < 0:
            return -1
        code = _key_code(buf, words, pos + 1, key_end - 1)
        pos = skip_space(buf, key_end, end)
        if pos >= end:
            return -1
        if buf[pos] != _COLON:
            return -2
        start = skip_space(buf, pos + 1, end)
        if start >= end:
            return -1
        if code == _ARGS and buf[start] == _OPEN:
            pos = _collect_args(buf, words, start, end, scratch)
        else:
            pos = skip_value(buf, words, start, end, False)
        if pos < 0:
            return pos
        if 0 <= code < _EXTERNAL_ID:
            scratch[2 * code], scratch[2 * code + 1] = start, pos
        pos = skip_space(buf, pos, end)
        if pos < end and buf[pos] == _COMMA:
            pos = skip_space(buf, pos + 1, end)
        elif pos < end and buf[pos] != _CLOSE:
            return -2
    return pos + 1 if pos < end else -1


@njit(**OPTIONS)
def _clear(i64: Any, i32: Any, phases: Any, row: int) -> None:
    phases[row] = 0
    for field in range(i64.shape[0]):
        i64[field, row] = MISSING
    for field in range(i32.shape[0]):
        i32[field, row] = -1
    i32[_STREAM, row] = _NO_NUMBER
    i32[_DEVICE, row] = _NO_NUMBER


@njit(**OPTIONS)
def _take_numbers(buf: Any, words: Any, scratch: Any, row: int, i64: Any, i32: Any, phases: Any) -> None:
    start, stop = scratch[2 * _PH], scratch[2 * _PH + 1]
    if start >= 0 and stop - start >= 3 and buf[start] == _QUOTE:
        phases[row] = buf[start + 1]
    if scratch[2 * _TS_KEY] >= 0:
        value, good = parse_scaled(buf, scratch[2 * _TS_KEY], scratch[2 * _TS_KEY + 1], 3)
        if good:
            i64[_TS, row] = value
    if scratch[2 * _DUR_KEY] >= 0:
        value, good = parse_scaled(buf, scratch[2 * _DUR_KEY], scratch[2 * _DUR_KEY + 1], 3)
        if good:
            i64[_DUR, row] = value
    for code, field in _ID_FIELDS:
        if scratch[2 * code] >= 0:
            i64[field, row] = parse_id(buf, words, scratch[2 * code], scratch[2 * code + 1])
    for code in range(_STREAM_NUMBER, _DEVICE_NUMBER + 1):
        if scratch[2 * code] >= 0:
            value, good = parse_int(buf, scratch[2 * code], scratch[2 * code + 1])
            if good and _NO_NUMBER < value <= -_NO_NUMBER - 1:
                i32[_STREAM if code == _STREAM_NUMBER else _DEVICE, row] = value


@njit(**OPTIONS)
def _take_texts(
    buf: Any, words: Any, scratch: Any, row: int, i32: Any, sparse: Any, table: Any, hashes: Any, spans: Any,
    arena: Any, arena_words: Any, used: Any,
) -> None:  # fmt: skip
    """Give every text of the event its code; ``used[3]`` is set where the table has no room for one more."""
    fields = len(_TEXT_FIELDS)
    rare = scratch[_RARE - 1]
    mask = len(table) - 1
    for which in range(fields + rare + 1):
        if which < fields:
            code = _TEXT_FIELDS[which, 0]
            start, stop = scratch[2 * code], scratch[2 * code + 1]
        elif which == fields:
            code, start, stop = _TEXT + _K_SCOPE, scratch[2 * _SCOPE], scratch[2 * _SCOPE + 1]
        else:
            at = _RARE + 3 * (which - fields - 1)
            code, start, stop = scratch[at], scratch[at + 1], scratch[at + 2]
        if start < 0 or code >= _INT:
            continue
        if buf[start] == _QUOTE:
            start, stop = start + 1, stop - 1
        hashed = hash_range(words, start, stop)
        slot = np.int64(hashed & np.uint64(mask))
        length = stop - start
        found = np.int64(-1)
        while table[slot] >= 0:
            entry = np.int64(table[slot])
            if (
                hashes[entry] == hashed
                and spans[entry, 1] == length
                and same_bytes(arena_words, spans[entry, 0], words, start, length)
            ):
                found = entry
                break
            slot = (slot + 1) & mask
        if found < 0:
            found = used[0]
            if found >= len(spans) or used[1] + length + 8 > len(arena) or 2 * (found + 1) > len(table):
                used[3] = TABLE_FULL
                return
            table[slot] = found
            hashes[found] = hashed
            spans[found, 0] = used[1]
            spans[found, 1] = length
            for i in range(length):
                arena[used[1] + i] = buf[start + i]
            used[0] += 1
            used[1] += length
        if which < fields:
            i32[_TEXT_FIELDS[which, 1], row] = found
        else:
            _put(sparse, used, row, code - _TEXT, found)


@njit(**OPTIONS)
def _take_rare(buf: Any, scratch: Any, row: int, is_counter: bool, sparse: Any, used: Any) -> None:
    if is_counter and scratch[2 * _FIRST_NUMBER] >= 0:
        value, good = parse_scaled(buf, scratch[2 * _FIRST_NUMBER], scratch[2 * _FIRST_NUMBER + 1], 6)
        if good:
            _put(sparse, used, row, _K_NUMBER, value)
    for which in range(scratch[_RARE - 1]):
        at = _RARE + 3 * which
        code = scratch[at]
        if code >= _INT:
            value, good = parse_int(buf, scratch[at + 1], scratch[at + 2])
            if good:
                scale = 1000000 if code == _INT + _K_NUMBER and abs(value) < 2**43 else 1
                _put(sparse, used, row, code - _INT, value * scale)


@njit(**OPTIONS)
def scan_events(
    buf: Any, words: Any, pos: int, end: int, base: int, row: int, i64: Any, i32: Any, phases: Any, sparse: Any,
    table: Any, hashes: Any, spans: Any, arena: Any, arena_words: Any, used: Any, scratch: Any,
) -> tuple[int, int, int]:  # fmt: skip
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
        _clear(i64, i32, phases, row)
        if buf[pos] == _OPEN:
            after = _collect_event(buf, words, pos, end, scratch)
        else:
            after = skip_value(buf, words, pos, end, False)
        if after < 0:
            return (NEED_MORE if after == -1 else BROKEN), pos, row
        if buf[pos] == _OPEN:
            triples = used[2]
            _take_numbers(buf, words, scratch, row, i64, i32, phases)
            _take_texts(buf, words, scratch, row, i32, sparse, table, hashes, spans, arena, arena_words, used)
            if phases[row] == _COUNTER or scratch[_RARE - 1] > 0:
                _take_rare(buf, scratch, row, phases[row] == _COUNTER, sparse, used)
            if used[3]:
                status = used[3]
                used[2], used[3] = triples, 0
                return status, pos, row
        i64[_OFFSET, row] = base + pos
        i32[_LENGTH, row] = after - pos
        row += 1
        pos = after
