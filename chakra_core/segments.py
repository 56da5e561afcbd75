"""Lanes cut into segments: in each stretch of time, the innermost node that runs. Compiled.

A host operator that encloses others is several segments, one per stretch in which nothing inside it runs. Segments of
a lane do not overlap, so a chain of them never counts a moment twice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["Segments", "cut"]

I64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Segments:
    """Segments of all lanes, lane after lane, each lane's in order of time; all arrays int64.

    Attributes:
        row: the node of each segment. Every node has an empty segment where it starts.
        start_ns: where it begins.
        end_ns: where it ends; never before it begins.
        lane: its lane.
        first: per row of the trace, its first segment; -1 for rows left out.
        last: per row, its last segment; -1 for rows left out.
    """

    row: I64
    start_ns: I64
    end_ns: I64
    lane: I64
    first: I64
    last: I64


@njit(cache=True, nogil=True)
def _emit(row: int, begin: int, end: int, count: int, rows: I64, starts: I64, ends: I64) -> int:
    rows[count], starts[count], ends[count] = row, begin, end
    return count + 1


@njit(cache=True, nogil=True)
def _sweep(order: I64, lane: I64, start: I64, end: I64) -> tuple[I64, I64, I64]:
    n = len(order)
    rows, starts, ends = np.empty(3 * n, np.int64), np.empty(3 * n, np.int64), np.empty(3 * n, np.int64)
    stack = np.empty(n + 1, np.int64)
    count = depth = 0
    now = 0
    for at in range(n + 1):
        new_lane = at == n or (at > 0 and lane[order[at]] != lane[order[at - 1]])
        begin = 0 if at == n else start[order[at]]
        while depth and (new_lane or end[stack[depth - 1]] <= begin):
            top = stack[depth - 1]
            if end[top] > now:
                count = _emit(top, now, end[top], count, rows, starts, ends)
                now = end[top]
            depth -= 1
        if at == n:
            break
        if depth and begin > now:
            count = _emit(stack[depth - 1], now, begin, count, rows, starts, ends)
        now = begin if depth == 0 else max(now, begin)
        count = _emit(order[at], now, now, count, rows, starts, ends)
        stack[depth] = order[at]
        depth += 1
    return rows[:count].copy(), starts[:count].copy(), ends[:count].copy()


def cut(rows: I64, lane: I64, start_ns: I64, end_ns: I64) -> Segments:
    """Cut the lanes of some rows into segments. O(n log n).

    Args:
        rows: the rows to use; the others are left out.
        lane: lane per row of the trace.
        start_ns: start per row.
        end_ns: end per row.
    """
    order = rows[np.lexsort((-end_ns[rows], start_ns[rows], lane[rows]))]
    lanes = np.ascontiguousarray(lane, np.int64)
    row, start, end = _sweep(order, lanes, np.ascontiguousarray(start_ns), np.ascontiguousarray(end_ns))
    first, last = np.full(len(lane), -1, np.int64), np.full(len(lane), -1, np.int64)
    places = np.arange(len(row))
    first[row[::-1]] = places[::-1]
    last[row] = places
    return Segments(row, start, end, lanes[row], first, last)
