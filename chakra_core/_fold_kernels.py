"""Compiled loops of ``folding``: hashing sub-graphs bottom up, and finding stretches that repeat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["OPTIONS", "find_repeats", "hash_tree", "meet"]

OPTIONS: Mapping[str, bool] = {"cache": True, "_nrt": False}
"""No function here makes an array, so they are compiled without reference counting."""

I8 = NDArray[np.int8]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]

_PRIME, _OTHER = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_THIRTY, _ONE = np.uint64(30), np.uint64(1)


@njit(**OPTIONS, forceinline=True)
def _mix(value: Any) -> Any:
    value = (value ^ (value >> _THIRTY)) * _PRIME
    return value ^ (value >> _THIRTY)


@njit(**OPTIONS)
def meet(sources: I32, targets: I32, up: I64, depth: I64, left: I32, right: I32) -> None:
    """For each edge the two siblings below the lowest group that holds both of its ends; -1 where one holds the other."""
    for edge in range(len(sources)):
        a, b = np.int64(sources[edge]), np.int64(targets[edge])
        while depth[a] > depth[b]:
            a = up[a]
        while depth[b] > depth[a]:
            b = up[b]
        while a != b and up[a] != up[b]:
            a, b = up[a], up[b]
        left[edge] = right[edge] = -1
        if a != b:
            left[edge], right[edge] = a, b


@njit(**OPTIONS)
def hash_tree(
    nodes: I64, first_node: I64, edges: I64, first_edge: I64, up: I64, left: I32, right: I32, kinds: I8, value: U64, near: U64,
) -> None:  # fmt: skip
    """Add to every group's hash those of its children, each with those of the siblings it waits for or leads to.

    ``nodes`` and ``edges`` are sorted by level (an edge's level is that of the siblings it joins); level k is
    ``[first[k], first[k + 1])``. One round of colour refinement (B. Weisfeiler, A. Lehman, 1968) at each level;
    sums make the order of children and edges immaterial.
    """
    for level in range(len(first_node) - 2, 0, -1):
        for at in range(first_edge[level], first_edge[level + 1]):
            edge = edges[at]
            a, b = left[edge], right[edge]
            kind = np.uint64(kinds[edge] + 1)
            near[a] += _mix(value[b] + kind * _OTHER)
            near[b] += _mix((value[a] ^ _OTHER) + kind * _PRIME)
        for at in range(first_node[level], first_node[level + 1]):
            node = nodes[at]
            value[up[node]] += _mix(value[node] ^ _mix(near[node] + _ONE))


@njit(**OPTIONS, forceinline=True)
def _length(value: U64, at: int, stop: int, period: int, most: int) -> int:
    """How many values from ``at`` on equal those ``period`` later, counted up to ``most``."""
    count = 0
    while count < most and at + period + count < stop and value[at + count] == value[at + period + count]:
        count += 1
    return count


@njit(**OPTIONS)
def find_repeats(value: U64, big: NDArray[np.bool_], bounds: I64, longest: int, fewest: int, found: I64) -> int:
    """Find stretches of siblings that repeat at once, left to right, in each the period that covers most (then least).

    Args:
        value: hash of each sibling, family after family.
        big: siblings of which two in a row are enough.
        bounds: where the families begin, and the end.
        longest: longest period looked for.
        fewest: repeats that are enough in general.
        found: receives ``(first, period, repeats)``, three numbers each.

    Returns:
        The number of stretches.
    """
    count = 0
    for family in range(len(bounds) - 1):
        at, stop = bounds[family], bounds[family + 1]
        while at < stop:
            best, repeats = 0, 0
            for period in range(1, min(longest, (stop - at) // 2) + 1):
                if value[at] != value[at + period]:
                    continue
                needed = 1 if period == 1 and big[at] else fewest - 1
                enough = needed * period
                if _length(value, at, stop, period, enough) < enough:
                    continue
                times = 1 + _length(value, at, stop, period, stop - at) // period
                if times * period > best * repeats:
                    best, repeats = period, times
                if at + times * period >= stop - period:
                    break
            if best:
                found[3 * count], found[3 * count + 1], found[3 * count + 2] = at, best, repeats
                count += 1
                at += best * repeats
            else:
                at += 1
    return count
