"""Algebra of half-open integer intervals, compiled: the basis of every time breakdown.

An interval set is a pair of parallel int64 arrays ``(start, end)``. *Merged* means sorted, disjoint and not touching;
``merge`` makes a set so, and the other functions ask for it where they say so. Empty intervals (end <= start) vanish.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["clip", "coverage", "intersect", "length", "merge", "subtract", "union_length"]

I64 = NDArray[np.int64]
Intervals = tuple[I64, I64]


def merge(start: I64, end: I64) -> Intervals:
    """Sorted, disjoint intervals covering the same points: O(n log n)."""
    order = np.argsort(start, kind="stable")
    return _merge_sorted(np.asarray(start, np.int64)[order], np.asarray(end, np.int64)[order])


@njit(cache=True, nogil=True)
def _merge_sorted(start: I64, end: I64) -> Intervals:
    out_start, out_end = np.empty_like(start), np.empty_like(end)
    count = 0
    for at in range(len(start)):
        if end[at] <= start[at]:
            continue
        if count and start[at] <= out_end[count - 1]:
            out_end[count - 1] = max(out_end[count - 1], end[at])
        else:
            out_start[count], out_end[count] = start[at], end[at]
            count += 1
    return out_start[:count].copy(), out_end[:count].copy()


def length(start: I64, end: I64) -> int:
    """Total length of disjoint intervals, in ns."""
    return int((end - start).sum())


def union_length(start: I64, end: I64) -> int:
    """Length of the union of any intervals, in ns."""
    return length(*merge(start, end))


def clip(start: I64, end: I64, first: int, last: int) -> Intervals:
    """The parts inside ``[first, last)``, order kept; intervals outside become empty ones at a border."""
    return np.clip(start, first, last), np.clip(end, first, last)


@njit(cache=True, nogil=True)
def intersect(a_start: I64, a_end: I64, b_start: I64, b_end: I64) -> Intervals:
    """Points in both of two merged sets; the result is merged. O(n + m)."""
    room = len(a_start) + len(b_start)
    out_start, out_end = np.empty(room, np.int64), np.empty(room, np.int64)
    i = j = count = 0
    while i < len(a_start) and j < len(b_start):
        low, high = max(a_start[i], b_start[j]), min(a_end[i], b_end[j])
        if low < high:
            out_start[count], out_end[count] = low, high
            count += 1
        if a_end[i] < b_end[j]:
            i += 1
        else:
            j += 1
    return out_start[:count].copy(), out_end[:count].copy()


@njit(cache=True, nogil=True)
def subtract(a_start: I64, a_end: I64, b_start: I64, b_end: I64) -> Intervals:
    """Points of merged set a that are not in merged set b; the result is merged. O(n + m)."""
    room = len(a_start) + len(b_start)
    out_start, out_end = np.empty(room, np.int64), np.empty(room, np.int64)
    count = j = 0
    for i in range(len(a_start)):
        low = a_start[i]
        while j < len(b_start) and b_end[j] <= low:
            j += 1
        at = j
        while at < len(b_start) and b_start[at] < a_end[i]:
            if b_start[at] > low:
                out_start[count], out_end[count] = low, b_start[at]
                count += 1
            low = max(low, b_end[at])
            at += 1
        if low < a_end[i]:
            out_start[count], out_end[count] = low, a_end[i]
            count += 1
    return out_start[:count].copy(), out_end[:count].copy()


@njit(cache=True, nogil=True)
def coverage(start: I64, end: I64, edges: I64) -> I64:
    """Covered ns per bin: bin k is ``[edges[k], edges[k + 1])``. For a merged set that is the busy time of each bin.

    ``edges`` must ascend. Overlapping intervals count as often as they overlap. O(n + covered bins).
    """
    bins = len(edges) - 1
    covered = np.zeros(bins, np.int64)
    for at in range(len(start)):
        low, high = max(start[at], edges[0]), min(end[at], edges[bins])
        if low >= high:
            continue
        bin_ = np.searchsorted(edges, low, side="right") - 1
        while bin_ < bins and edges[bin_] < high:
            covered[bin_] += min(high, edges[bin_ + 1]) - max(low, edges[bin_])
            bin_ += 1
    return covered
