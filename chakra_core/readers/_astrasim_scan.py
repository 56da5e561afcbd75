"""Compiled scanner for the ``issue`` and ``callback`` lines of simulation logs, with or without a log prefix."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from chakra_core.readers._kineto_json import OPTIONS, words_of

__all__ = ["CALLBACK", "ID", "ISSUE", "START", "STOP", "SYS", "TICK", "TYPE", "WHAT", "scan_events"]

WHAT, SYS, TICK, ID, START, STOP, TYPE = range(7)
"""Columns of the table: what happened, on which NPU, when (cycles), to which node; the name's range; node type."""

ISSUE, CALLBACK = 0, 1

_MASK6 = np.uint64((1 << 48) - 1)
_ISSUE6 = np.uint64(int.from_bytes(b"issue,", "little"))
_CALLBACK8 = np.uint64(int.from_bytes(b"callback", "little"))
_TYPE5 = np.uint64(int.from_bytes(b"type=", "little"))
_MASK5 = np.uint64((1 << 40) - 1)
_MOST = np.uint64(1 << 62)


@njit(**OPTIONS)
def _number(buf: Any, pos: int, end: int) -> Any:
    """The number after the next ``=`` and the position after it; position -1 where there is none."""
    while pos < end and buf[pos] != 61:
        pos += 1
    pos += 1
    while pos < end and buf[pos] == 32:
        pos += 1
    first = pos
    value = np.uint64(0)
    while pos < end and 48 <= buf[pos] <= 57 and pos - first < 20:
        value = value * np.uint64(10) + np.uint64(buf[pos] - 48)
        pos += 1
    if pos == first or (pos < end and buf[pos] != 44 and buf[pos] != 32):
        return np.uint64(0), -1
    return value, pos


@njit(**OPTIONS)
def _name_stop(buf: Any, words: Any, start: int, end: int) -> Any:
    """Where the name ends and the node type after it (-1: none), as ``, node->type=4`` at the end of the line."""
    pos = end
    kind = 0
    scale = 1
    while pos > start and 48 <= buf[pos - 1] <= 57 and end - pos < 3:
        pos -= 1
        kind += (buf[pos] - 48) * scale
        scale *= 10
    if pos == end or pos - 5 < start or words[pos - 5] & _MASK5 != _TYPE5:
        return end, -1
    pos -= 5
    while pos > start and buf[pos] != 44:
        pos -= 1
    return (pos, kind) if pos > start else (end, -1)


@njit(**OPTIONS)
def _line(buf: Any, words: Any, pos: int, end: int, row: Any) -> bool:
    """Read the fields after ``issue`` or ``callback``."""
    sys_id, pos = _number(buf, pos, end)
    if pos < 0 or sys_id >= np.uint64(1 << 31):
        return False
    tick, pos = _number(buf, pos, end)
    if pos < 0 or tick >= _MOST:
        return False
    node, pos = _number(buf, pos, end)
    if pos < 0:
        return False
    while pos < end and buf[pos] != 61:
        pos += 1
    start = pos + 1 if pos < end else end
    while end > start and (buf[end - 1] == 13 or buf[end - 1] == 32):
        end -= 1
    stop, kind = _name_stop(buf, words, start, end)
    row[1], row[2], row[3] = np.int64(sys_id), np.int64(tick), np.int64(node)
    row[4], row[5], row[6] = start, stop, kind
    return True


@njit(**OPTIONS)
def _scan(buf: Any, words: Any, end: int, rows: Any) -> Any:
    """Fill ``rows``; returns how many are filled and how many lines made no sense."""
    count = 0
    bad = 0
    pos = 0
    while pos < end and count < len(rows):
        stop = pos
        what = -1
        found = pos
        while stop < end and buf[stop] != 10:
            if what < 0 and (stop == pos or buf[stop - 1] == 32 or buf[stop - 1] == 58):
                if words[stop] & _MASK6 == _ISSUE6 and buf[stop + 6] != 32:
                    what, found = 0, stop + 5
                elif words[stop] == _CALLBACK8 and buf[stop + 8] == 44:
                    what, found = 1, stop + 8
            stop += 1
        if what >= 0:
            if _line(buf, words, found, stop, rows[count]):
                rows[count, 0] = what
                count += 1
            else:
                bad += 1
        pos = stop + 1
    return count, bad


def scan_events(buffer: NDArray[np.uint8], size: int, most: int) -> tuple[NDArray[np.int64], int]:
    """All events as a table (int64, columns as named above) and how many lines could not be read.

    Args:
        buffer: the log with padding.
        size: bytes of the log.
        most: upper bound of the number of events.
    """
    rows = np.zeros((most, 7), np.int64)
    count, bad = _scan(buffer, words_of(buffer), size, rows)
    return rows[:count], int(bad)
