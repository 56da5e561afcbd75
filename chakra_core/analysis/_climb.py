"""Compiled walks from device work up its parents: which operators a kernel belongs to."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["MAX_DEPTH", "chains", "owners", "sorted_group_union"]

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
Mask = NDArray[np.bool_]

MAX_DEPTH = 2048
"""Ancestors further up than this are ignored, so that damaged parents (loops) cost bounded time."""


@njit(cache=True, nogil=True)
def owners(rows: I64, parent: I32, is_operator: Mask) -> I64:
    """Row of the innermost operator above each of ``rows``; -1 where there is none. O(rows x depth)."""
    owner = np.full(len(rows), -1, np.int64)
    for at in range(len(rows)):
        row = parent[rows[at]]
        for _ in range(MAX_DEPTH):
            if row < 0:
                break
            if is_operator[row]:
                owner[at] = row
                break
            row = parent[row]
    return owner


@njit(cache=True, nogil=True)
def chains(rows: I64, parent: I32, is_operator: Mask) -> tuple[I64, I64]:
    """All operators above each of ``rows`` as ``(position in rows, operator row)``, innermost first."""
    room = max(64, 4 * len(rows))
    position, ancestor = np.empty(room, np.int64), np.empty(room, np.int64)
    count = 0
    for at in range(len(rows)):
        row = parent[rows[at]]
        for _ in range(MAX_DEPTH):
            if row < 0:
                break
            if is_operator[row]:
                if count == room:
                    room *= 2
                    grown_position, grown_ancestor = np.empty(room, np.int64), np.empty(room, np.int64)
                    grown_position[:count], grown_ancestor[:count] = position, ancestor
                    position, ancestor = grown_position, grown_ancestor
                position[count], ancestor[count] = at, row
                count += 1
            row = parent[row]
    return position[:count].copy(), ancestor[:count].copy()


@njit(cache=True, nogil=True)
def sorted_group_union(group: I64, start: I64, end: I64, groups: int) -> I64:
    """Length of the union of the intervals of each group; input sorted by (group, start)."""
    total = np.zeros(groups, np.int64)
    reached, current = np.int64(0), np.int64(-1)
    for at in range(len(group)):
        if group[at] != current:
            current, reached = group[at], start[at]
        low = max(start[at], reached)
        if end[at] > low:
            total[current] += end[at] - low
            reached = end[at]
    return total
