"""Compiled loops under ``lod``: sub-lanes, the pyramid over the events, and the rectangles of a window.

Events are kept row after row (a row is one line of the timeline), by start within a row. The pyramid holds, per block
of ``BLOCK`` events, the longest duration (then per block of blocks, and so on), and the running sum of duration per
category. Every loop releases the GIL, so that requests of several users are answered side by side.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = [
    "BLOCK",
    "CATEGORIES",
    "MAX_DEPTH",
    "assign_depths",
    "bucket_order",
    "busy_bins",
    "category_mass",
    "count_rectangles",
    "fill_rectangles",
    "peak_pyramid",
    "sort_ties",
    "window_bounds",
]

BLOCK = 64
"""Events per block, and blocks per block of the next level."""

CATEGORIES = 16
"""Columns of the category sums (codes above the last one count as the first)."""

MAX_DEPTH = 512
"""Sub-lanes per lane. What is nested or overlaps deeper shares the last one, the only row whose events may overlap."""

Array = NDArray[Any]


@numba.njit(cache=True, nogil=True)
def sort_ties(order: Array, start: Array, dur: Array) -> None:
    """Reorder, in place, runs of equal start: longest first, then lowest row (``order`` is sorted by start)."""
    n = len(order)
    at = 0
    while at < n:
        stop = at + 1
        while stop < n and start[order[stop]] == start[order[at]]:
            stop += 1
        if stop - at > 1:
            run = order[at:stop].copy()
            by_length = np.argsort(-dur[run], kind="mergesort")
            for k in range(len(run)):
                order[at + k] = run[by_length[k]]
        at = stop


@numba.njit(cache=True, nogil=True)
def bucket_order(keys: Array, buckets: int) -> Array:
    """Stable order of keys in [0, buckets), by counting (int64)."""
    at = np.zeros(buckets + 1, np.int64)
    for key in keys:
        at[key + 1] += 1
    for k in range(buckets):
        at[k + 1] += at[k]
    order = np.empty(len(keys), np.int64)
    for i in range(len(keys)):
        order[at[keys[i]]] = i
        at[keys[i]] += 1
    return order


@numba.njit(cache=True, nogil=True)
def assign_depths(bounds: Array, start: Array, end: Array, depth: Array, used: Array) -> None:
    """Sub-lane of each event of each lane: below everything that encloses it, on the first one that is free.

    ``bounds`` delimits the lanes; within one, events are by (start, longest first). Writes ``depth`` per event and the
    number of sub-lanes per lane into ``used``.
    """
    busy_until = np.empty(MAX_DEPTH, np.int64)
    for lane in range(len(bounds) - 1):
        open_, most = 0, 0
        for i in range(bounds[lane], bounds[lane + 1]):
            s, e = start[i], end[i]
            while open_ > 0 and busy_until[open_ - 1] <= s:
                open_ -= 1
            d = open_ - 1
            while d >= 0 and not (busy_until[d] > s and busy_until[d] >= e):
                d -= 1
            d += 1
            while d < open_ and busy_until[d] > s:
                d += 1
            if d >= MAX_DEPTH:
                d = MAX_DEPTH - 1
                busy_until[d] = max(busy_until[d], e)
            else:
                busy_until[d] = e
            depth[i] = d
            open_ = max(open_, d + 1)
            most = max(most, open_)
        used[lane] = most


@numba.njit(cache=True, nogil=True)
def peak_pyramid(dur: Array, bounds: Array) -> Array:
    """Longest duration per block, level after level; ``bounds`` delimits the levels in the result (flat int64)."""
    peaks = np.zeros(bounds[-1], np.int64)
    for i in range(len(dur)):
        k = i // BLOCK
        peaks[k] = max(peaks[k], dur[i])
    for level in range(1, len(bounds) - 1):
        below, here = bounds[level - 1], bounds[level]
        for i in range(here - below):
            k = here + i // BLOCK
            peaks[k] = max(peaks[k], peaks[below + i])
    return peaks


@numba.njit(cache=True, nogil=True)
def category_mass(dur: Array, category: Array) -> Array:
    """Running sum of duration per category before each block: int64 of shape (blocks + 1, CATEGORIES)."""
    blocks = (len(dur) + BLOCK - 1) // BLOCK
    mass = np.zeros((blocks + 1, CATEGORIES), np.int64)
    for i in range(len(dur)):
        mass[i // BLOCK + 1, category[i] % CATEGORIES] += dur[i]
    for block in range(blocks):
        for c in range(CATEGORIES):
            mass[block + 1, c] += mass[block, c]
    return mass


@numba.njit(cache=True, nogil=True)
def first_at(start: Array, low: int, high: int, time: int) -> int:
    """First index in [low, high) whose start is at or after ``time``; ``high`` where there is none."""
    while low < high:
        middle = (low + high) // 2
        if start[middle] < time:
            low = middle + 1
        else:
            high = middle
    return low


@numba.njit(cache=True, nogil=True)
def window_bounds(
    rows: Array, row_ptr: Array, crowded: Array, start: Array, dur: Array, t0: int, t1: int, low: Array, high: Array
) -> None:
    """Events of each row that touch [t0, t1), as index ranges written to ``low`` and ``high``."""
    for k in range(len(rows)):
        row = rows[k]
        begin, stop = row_ptr[row], row_ptr[row + 1]
        high[k] = first_at(start, begin, stop, t1)
        first = first_at(start, begin, stop, t0)
        if crowded[row]:
            first_open = begin
            while first_open < first and start[first_open] + dur[first_open] <= t0:
                first_open += 1
            first = first_open
        elif first > begin and start[first - 1] + dur[first - 1] > t0:
            first -= 1
        low[k] = first


@numba.njit(cache=True, nogil=True)
def next_wide(dur: Array, peaks: Array, bounds: Array, i: int, stop: int, least: int) -> int:
    """First index in [i, stop) whose duration is at least ``least``; ``stop`` where there is none."""
    levels = len(bounds) - 1
    while i < stop:
        if i % BLOCK == 0:
            k, level, size = i // BLOCK, 0, BLOCK
            if peaks[k] < least:
                while level + 1 < levels and k % BLOCK == 0 and peaks[bounds[level + 1] + k // BLOCK] < least:
                    k //= BLOCK
                    level += 1
                    size *= BLOCK
                i += size
                continue
        if dur[i] >= least:
            return i
        i += 1
    return stop


@numba.njit(cache=True, nogil=True)
def longest(dur: Array, peaks: Array, bounds: Array, i: int, stop: int) -> int:
    """Index of the (first) longest event of the non-empty range [i, stop)."""
    levels = len(bounds) - 1
    best, found, in_level, in_block = -1, i, -1, 0
    while i < stop:
        if i % BLOCK == 0 and i + BLOCK <= stop:
            k, level, size = i // BLOCK, 0, BLOCK
            while level + 1 < levels and k % BLOCK == 0 and i + size * BLOCK <= stop:
                k //= BLOCK
                level += 1
                size *= BLOCK
            if peaks[bounds[level] + k] > best:
                best, in_level, in_block = peaks[bounds[level] + k], level, k
            i += size
            continue
        if dur[i] > best:
            best, found, in_level = dur[i], i, -1
        i += 1
    while in_level > 0:
        k = in_block * BLOCK
        while peaks[bounds[in_level - 1] + k] != best:
            k += 1
        in_block, in_level = k, in_level - 1
    if in_level == 0:
        found = in_block * BLOCK
        while dur[found] != best:
            found += 1
    return found


@numba.njit(cache=True, nogil=True)
def count_rectangles(
    low: Array, high: Array, start: Array, dur: Array, peaks: Array, bounds: Array, least: int, bin_ns: int, cap: int
) -> int:
    """How many rectangles ``fill_rectangles`` would write; stops counting above ``cap``."""
    count = 0
    for k in range(len(low)):
        i, stop = low[k], high[k]
        while i < stop:
            wide = next_wide(dur, peaks, bounds, i, stop, least)
            while i < wide:
                i = first_at(start, i + 1, wide, (start[i] // bin_ns + 1) * bin_ns)
                count += 1
                if count > cap:
                    return count
            if wide < stop:
                count += 1
                i = wide + 1
    return count


@numba.njit(cache=True, nogil=True)
def _dominant(dur: Array, category: Array, mass: Array, i: int, stop: int, sums: Array) -> int:
    """Category with the most time in [i, stop), lowest code first; -1 where all durations are zero."""
    sums[:] = 0
    first, last = (i + BLOCK - 1) // BLOCK, stop // BLOCK
    if first < last:
        for c in range(CATEGORIES):
            sums[c] = mass[last, c] - mass[first, c]
        for at in range(i, first * BLOCK):
            sums[category[at] % CATEGORIES] += dur[at]
        for at in range(last * BLOCK, stop):
            sums[category[at] % CATEGORIES] += dur[at]
    else:
        for at in range(i, stop):
            sums[category[at] % CATEGORIES] += dur[at]
    best = 0
    for c in range(1, CATEGORIES):
        if sums[c] > sums[best]:
            best = c
    return best if sums[best] > 0 else -1


@numba.njit(cache=True, nogil=True)
def fill_rectangles(
    rows: Array, low: Array, high: Array, start: Array, dur: Array, category: Array, peaks: Array, bounds: Array,
    mass: Array, least: int, bin_ns: int, out: Array,
) -> int:  # fmt: skip
    """Write (row, start, end, event, count, category, busy) per rectangle to ``out`` of shape (room, 7).

    An event of at least ``least`` ns is a rectangle of its own; the run of shorter ones that start in one bin of
    ``bin_ns``, up to the next long one, is one rectangle: its event is the longest of them, its category the one with
    the most time, ``busy`` the sum of their durations.
    """
    sums = np.empty(CATEGORIES, np.int64)
    at = 0
    for k in range(len(low)):
        i, stop = low[k], high[k]
        while i < stop:
            wide = next_wide(dur, peaks, bounds, i, stop, least)
            while i < wide:
                after = first_at(start, i + 1, wide, (start[i] // bin_ns + 1) * bin_ns)
                event = longest(dur, peaks, bounds, i, after)
                code = _dominant(dur, category, mass, i, after, sums)
                end = max(start[after - 1] + dur[after - 1], start[event] + dur[event])
                out[at, 0], out[at, 1], out[at, 2], out[at, 3] = rows[k], start[i], end, event
                out[at, 4], out[at, 5] = after - i, category[event] if code < 0 else code
                out[at, 6] = sums.sum()
                at += 1
                i = after
            if wide < stop:
                out[at, 0], out[at, 1], out[at, 2], out[at, 3] = rows[k], start[wide], start[wide] + dur[wide], wide
                out[at, 4], out[at, 5], out[at, 6] = 1, category[wide], dur[wide]
                at += 1
                i = wide + 1
    return at


@numba.njit(cache=True, nogil=True)
def busy_bins(
    start: Array, dur: Array, category: Array, begin: int, stop: int, t0: int, bin_ns: int, group: Array, busy: Array
) -> None:
    """Add the time of events [begin, stop) to ``busy`` (int64 ns, bins of ``bin_ns`` from ``t0`` on x groups).

    ``group`` maps a category to a column of ``busy``; -1 leaves it out.
    """
    for i in range(begin, stop):
        column = group[category[i] % CATEGORIES]
        if column < 0:
            continue
        s, e = start[i] - t0, start[i] + dur[i] - t0
        k = max(s // bin_ns, 0)
        while k < len(busy) and k * bin_ns < e:
            busy[k, column] += min(e, (k + 1) * bin_ns) - max(s, k * bin_ns)
            k += 1
