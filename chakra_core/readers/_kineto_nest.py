"""Compiled kernels over slices: pairing begin and end events, nesting by time, binding points to slices."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["bind_points", "first_of_each", "nest_slices", "order_slices", "pair_events", "stream_predecessors"]


@njit(cache=True, nogil=True)
def pair_events(order: Any, track: Any, is_begin: Any) -> tuple[Any, int]:
    """Match begin with end events that nest on one track.

    Args:
        order: rows sorted by track, then time (int64).
        track: track of each row.
        is_begin: whether a row begins a slice (else it ends one).

    Returns:
        ``(partner, unmatched ends)``: for a begin row the row that ends it, -1 where none does.
    """
    partner = np.full(len(track), -1, np.int64)
    stack = np.empty(len(order), np.int64)
    depth = 0
    unmatched = 0
    last = -1
    for row in order:
        if track[row] != last:
            depth = 0
            last = track[row]
        if is_begin[row]:
            stack[depth] = row
            depth += 1
        elif depth > 0:
            depth -= 1
            partner[stack[depth]] = row
        else:
            unmatched += 1
    return partner, unmatched


def order_slices(
    track: NDArray[Any], start: NDArray[np.int64], end: NDArray[np.int64], rank: NDArray[Any]
) -> NDArray[np.int64]:
    """Rows sorted by track, start, longest first, then rank: enclosing slices come before what they enclose."""
    order = np.argsort(start, kind="stable")
    order = order[np.argsort(track[order], kind="stable")]
    _settle_ties(order, track, start, end, rank)
    return order


@njit(cache=True, nogil=True)
def _settle_ties(order: Any, track: Any, start: Any, end: Any, rank: Any) -> None:
    """Order rows of one track that start together by (end descending, rank, row)."""
    n = len(order)
    at = 0
    while at < n:
        stop = at + 1
        while stop < n and start[order[stop]] == start[order[at]] and track[order[stop]] == track[order[at]]:
            stop += 1
        if stop - at > 1:
            rows = order[at:stop].copy()
            by_rank = np.argsort(rank[rows], kind="mergesort")
            rows = rows[by_rank]
            by_end = np.argsort(-end[rows], kind="mergesort")
            order[at:stop] = rows[by_end]
        at = stop


@njit(cache=True, nogil=True)
def nest_slices(order: Any, track: Any, start: Any, end: Any, tolerance: int) -> tuple[Any, Any]:
    """Innermost enclosing slice of each slice on its track.

    ``order`` is from ``order_slices``. A slice encloses a later one that starts before its end and ends at most
    ``tolerance`` ns after it. Of the slices met so far only those are kept that end after all later ones: a slice
    that ends no later than one that started after it can enclose nothing that the later one does not.

    Returns:
        ``(parent, partial)``: int32 rows (-1: none), and whether a slice overlaps an earlier one without being
        enclosed by it.
    """
    n = len(track)
    parent = np.full(n, -1, np.int32)
    partial = np.zeros(n, np.bool_)
    stack = np.empty(len(order), np.int64)
    ends = np.empty(len(order), np.int64)
    depth = 0
    last = -1
    for row in order:
        if track[row] != last:
            depth = 0
            last = track[row]
        stop = end[row]
        while depth > 0 and (ends[depth - 1] <= start[row] or ends[depth - 1] + tolerance < stop):
            depth -= 1
            if ends[depth] > start[row]:
                partial[row] = True
        if depth > 0:
            parent[row] = stack[depth - 1]
            stop = min(stop, ends[depth - 1])
        stack[depth] = row
        ends[depth] = stop
        depth += 1
    return parent, partial


@njit(cache=True, nogil=True)
def bind_points(order: Any, track: Any, start: Any, end: Any, parent: Any, point_track: Any, point_time: Any) -> Any:
    """The innermost slice on the point's track that starts at or before it and ends at or after it (-1: none).

    ``order`` is sorted by (track, start) as from ``order_slices``.
    """
    bound = np.full(len(point_track), -1, np.int32)
    for at in range(len(point_track)):
        low, high = 0, len(order)
        while low < high:
            middle = (low + high) // 2
            row = order[middle]
            if track[row] < point_track[at] or (track[row] == point_track[at] and start[row] <= point_time[at]):
                low = middle + 1
            else:
                high = middle
        row = order[low - 1] if low > 0 else -1
        while row >= 0 and track[row] == point_track[at] and end[row] < point_time[at]:
            row = parent[row]
        if row >= 0 and track[row] == point_track[at] and start[row] <= point_time[at]:
            bound[at] = row
    return bound


@njit(cache=True, nogil=True)
def stream_predecessors(order: Any, track: Any, start: Any, end: Any) -> tuple[Any, Any]:
    """For each slice in stream order the nearest earlier one that had ended (-1: none), and overlap marks.

    ``order`` is sorted by (track, start, end). A slice is marked where it starts before every earlier one has ended.
    """
    n = len(track)
    before = np.full(n, -1, np.int32)
    overlaps = np.zeros(n, np.bool_)
    first = 0
    latest = np.int64(0)
    for at in range(len(order)):
        row = order[at]
        if at == 0 or track[order[at - 1]] != track[row]:
            first = at
            latest = end[row]
            continue
        overlaps[row] = start[row] < latest
        back = at - 1
        while back >= first and at - back <= 64:
            if end[order[back]] <= start[row]:
                before[row] = order[back]
                break
            back -= 1
        latest = max(latest, end[row])
    return before, overlaps


@njit(cache=True, nogil=True)
def _number_values(values: Any, keys: Any, codes: Any, firsts: Any, inverse: Any) -> int:
    """Number the values in order of appearance by an open-addressed table; -1 where it gets too full."""
    mask = np.uint64(len(keys) - 1)
    count = 0
    last_value, last_code = np.int64(0), np.int64(-1)
    for row in range(len(values)):
        value = np.int64(values[row])
        if last_code >= 0 and value == last_value:
            inverse[row] = last_code
            continue
        mixed = np.uint64(value) * np.uint64(0x9E3779B97F4A7C15)
        slot = np.int64((mixed ^ (mixed >> np.uint64(32))) & mask)
        while codes[slot] >= 0 and keys[slot] != value:
            slot = (slot + 1) & np.int64(mask)
        if codes[slot] < 0:
            if 2 * (count + 1) > len(keys):
                return -1
            keys[slot] = value
            codes[slot] = count
            firsts[count] = row
            count += 1
        last_value, last_code = value, codes[slot]
        inverse[row] = last_code
    return count


def first_of_each(values: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Distinct values in order of appearance: ``(row of the first of each, which of them each row has)``."""
    inverse = np.empty(len(values), np.int32)
    size = 1 << 12
    while True:
        firsts = np.empty(size, np.int64)
        count = _number_values(values, np.zeros(size, np.int64), np.full(size, -1, np.int64), firsts, inverse)
        if count >= 0:
            return firsts[:count].copy(), inverse
        size *= 8
