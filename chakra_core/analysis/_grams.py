"""Compiled search for runs of kernels that recur: counts of all runs of 2 to ``most`` codes, by hashing."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["claim", "count_runs"]

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
U64 = NDArray[np.uint64]


@njit(cache=True, nogil=True)
def count_runs(keys: U64, alive: NDArray[np.bool_], gain: I64) -> tuple[I64, I64, I64, I64]:
    """Equal keys among the positions that are alive.

    Args:
        keys: hash of the run that begins at each position.
        alive: which positions are looked at.
        gain: what each of them is worth.

    Returns:
        ``(group, first, count, worth)``: number of the group of each position (-1: not alive), and per group its first
        position, its size and the sum of its gains. O(n) expected.
    """
    n = len(keys)
    bits = 4
    while (1 << bits) < 2 * n:
        bits += 1
    mask = np.uint64((1 << bits) - 1)
    slots = np.full(1 << bits, -1, np.int64)
    group = np.full(n, -1, np.int64)
    first, count, worth = np.empty(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64)
    groups = 0
    for at in range(n):
        if not alive[at]:
            continue
        place = (keys[at] ^ (keys[at] >> np.uint64(29))) & mask
        while slots[place] >= 0 and keys[first[slots[place]]] != keys[at]:
            place = (place + np.uint64(1)) & mask
        if slots[place] < 0:
            slots[place] = groups
            first[groups] = at
            groups += 1
        found = slots[place]
        group[at] = found
        count[found] += 1
        worth[found] += gain[at]
    return group, first[:groups].copy(), count[:groups].copy(), worth[:groups].copy()


@njit(cache=True, nogil=True)
def claim(places: I64, starts: I64, sizes: I64, least: int, n: int, most: int) -> tuple[I64, I64, I64]:
    """Give every position to at most one run, best runs first.

    Args:
        places: positions of the occurrences of all candidates, ascending within each; candidate ``k`` has
            ``places[starts[k]:starts[k + 1]]``.
        starts: int64 of length candidates + 1.
        sizes: codes in a run of each candidate.
        least: occurrences that a run must have left to be taken.
        n: number of positions.
        most: runs to take.

    Returns:
        ``(taken, kept, bounds)``: numbers of the candidates taken, and ``kept[bounds[i]:bounds[i + 1]]`` the
        occurrences of the i-th that overlap neither each other nor a better run.
    """
    used = np.zeros(n, np.bool_)
    taken = np.empty(len(sizes), np.int64)
    bounds = np.zeros(len(sizes) + 1, np.int64)
    kept = np.empty(len(places), np.int64)
    count, filled = 0, 0
    for candidate in range(len(sizes)):
        if count == most:
            break
        size, begin, reached = sizes[candidate], filled, np.int64(-1)
        for at in range(starts[candidate], starts[candidate + 1]):
            place = places[at]
            if place >= reached and not used[place : place + size].any():
                kept[filled] = place
                filled += 1
                reached = place + size
        if filled - begin < least:
            filled = begin
            continue
        for at in range(begin, filled):
            used[kept[at] : kept[at] + size] = True
        taken[count] = candidate
        count += 1
        bounds[count] = filled
    return taken[:count].copy(), kept[:filled].copy(), bounds[: count + 1].copy()
