"""Compiled walk over the wire format of an XSpace: fields of a message, and the events of a line with their stats.

Field numbers are those of OpenXLA's ``xplane.proto`` (see ``proto/xplane.proto``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from chakra_core.readers import _et_wire as wire

__all__ = ["EVENT", "KIND", "STAT", "fields_of", "scan_line"]

I64 = NDArray[np.int64]


class EVENT:
    """Columns of the event table: metadata id, offset and duration (ps), the event's bytes, its line."""

    METADATA, OFFSET, DURATION, START, STOP, LINE = range(6)


class STAT:
    """Columns of the stat table: event, stat's metadata id, field of the value, the value (or where its bytes lie)."""

    EVENT, ID, KIND, VALUE, STOP = range(5)


class KIND:
    """Fields of XStat that hold the value."""

    DOUBLE, UNSIGNED, SIGNED, TEXT, BYTES, REFERENCE = range(2, 8)


@njit(**wire.OPTIONS)
def _fields(buf: Any, start: int, end: int, out: Any) -> Any:
    """Fill ``out`` with (field, wire type, start of content or value, stop); returns their number and where it stopped."""
    pos = np.int64(start)
    count = 0
    while pos < end:
        begin = pos
        field, kind, pos = wire.tag(buf, pos, end)
        if pos < 0:
            return count, begin
        content, stop, value = pos, np.int64(-1), np.uint64(0)
        if kind == 2:
            content, stop = wire.span(buf, pos, end)
            pos = stop
        elif kind == 0:
            value, pos = wire.varint(buf, pos, end)
        else:
            pos = wire.skip(buf, pos, end, kind)
        if pos < 0:
            return count, begin
        if count < len(out):
            out[count, 0], out[count, 1], out[count, 3] = field, kind, stop
            out[count, 2] = content if kind == 2 else np.int64(value)
            out[count, 4], out[count, 5] = begin, pos
        count += 1
    return count, pos


def fields_of(buffer: NDArray[np.uint8], start: int, end: int) -> tuple[I64, int]:
    """The fields of the message in a range, and the position of the first byte that is none (``end``: all are).

    Rows are (number, wire type, value or start of content, end of content, start and end of the whole field).
    """
    empty = np.zeros((0, 6), np.int64)
    count, _ = _fields(buffer, start, end, empty)
    out = np.zeros((count, 6), np.int64)
    _, stopped = _fields(buffer, start, end, out)
    return out, int(stopped)


@njit(**wire.OPTIONS)
def _stat(buf: Any, pos: int, end: int, row: Any) -> bool:
    """Read one XStat; the last value it states counts."""
    row[1], row[2], row[3], row[4] = 0, 0, 0, 0
    while pos < end:
        field, kind, pos = wire.tag(buf, pos, end)
        if pos < 0:
            return False
        if kind == 0:
            value, pos = wire.varint(buf, pos, end)
            if field == 1:
                row[1] = np.int64(value)
            elif field in (3, 4, 7):
                row[2], row[3] = field, np.int64(value)
        elif kind == 2:
            start, stop = wire.span(buf, pos, end)
            pos = stop
            if field in (5, 6):
                row[2], row[3], row[4] = field, start, stop
        else:
            start = pos
            pos = wire.skip(buf, pos, end, kind)
            if field == 2 and kind == 1:
                row[2], row[3] = field, start
        if pos < 0:
            return False
    return True


@njit(**wire.OPTIONS)
def _event(buf: Any, pos: int, end: int, at: int, event: Any, stats: Any, count: int) -> int:
    """Read one XEvent; returns the number of stats so far, -1 where it is damaged."""
    event[0], event[1], event[2], event[3], event[4] = 0, 0, 0, pos, end
    while pos < end:
        field, kind, pos = wire.tag(buf, pos, end)
        if pos < 0:
            return -1
        if kind == 0:
            value, pos = wire.varint(buf, pos, end)
            if field in (1, 2, 3):
                event[field - 1] = np.int64(value)
        elif kind == 2 and field == 4:
            start, stop = wire.span(buf, pos, end)
            pos = stop
            if pos < 0 or not _stat(buf, start, stop, stats[count]):
                return -1
            stats[count, 0] = at
            count += 1
        else:
            pos = wire.skip(buf, pos, end, kind)
        if pos < 0:
            return -1
    return count


@njit(**wire.OPTIONS)
def _entries(buf: Any, pos: int, end: int) -> int:
    """Number of messages in field 4 of a message: a line's events, an event's stats."""
    count = 0
    while pos < end:
        field, kind, pos = wire.tag(buf, pos, end)
        if pos >= 0:
            pos = wire.skip(buf, pos, end, kind)
        if pos < 0:
            break
        count += field == 4 and kind == 2
    return count


@njit(**wire.OPTIONS)
def _count(buf: Any, pos: int, end: int) -> Any:
    """Number of events of a line and of their stats, up to the first damage."""
    events = 0
    stats = 0
    while pos < end:
        field, kind, pos = wire.tag(buf, pos, end)
        if pos < 0:
            break
        if field == 4 and kind == 2:
            start, pos = wire.span(buf, pos, end)
            if pos < 0:
                break
            events += 1
            stats += _entries(buf, start, pos)
        else:
            pos = wire.skip(buf, pos, end, kind)
            if pos < 0:
                break
    return events, stats


@njit(**wire.OPTIONS)
def _line(buf: Any, pos: int, end: int, events: Any, stats: Any) -> Any:
    """Read the events of a line; returns how many there are, how many stats, and whether all could be read."""
    at = 0
    count = 0
    while pos < end:
        field, kind, pos = wire.tag(buf, pos, end)
        if pos < 0:
            return at, count, False
        if field == 4 and kind == 2:
            start, stop = wire.span(buf, pos, end)
            pos = stop
            if pos < 0:
                return at, count, False
            count = _event(buf, start, stop, at, events[at], stats, count)
            if count < 0:
                return at, 0, False
            at += 1
        else:
            pos = wire.skip(buf, pos, end, kind)
            if pos < 0:
                return at, count, False
    return at, count, True


def scan_line(buffer: NDArray[np.uint8], start: int, end: int, number: int) -> tuple[I64, I64] | None:
    """Event table and stat table (with events counted from 0) of the XLine in a range; None where it is damaged."""
    counted = _count(buffer, start, end)
    events, stats = np.zeros((counted[0], 6), np.int64), np.zeros((counted[1], 5), np.int64)
    found, count, whole = _line(buffer, start, end, events, stats)
    if not whole:
        return None
    events[:, EVENT.LINE] = number
    return events[:found], stats[:count]
