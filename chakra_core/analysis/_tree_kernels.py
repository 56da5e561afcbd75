"""Compiled matching of two ordered trees from the top down: the children of matched nodes are aligned in turn.

What stands between two matches on both sides is opened: its nodes are replaced by their children on the side, or on
both, where that gives the most likeness, up to ``_MOST_LEVELS`` deep. So a wrapper that only one side has does not hide
what is below it. What is left between matches on both sides is a *region*: other work at the same place.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from chakra_core.analysis._sequence_kernels import align_sequences, likeness, score

__all__ = ["hash_trees", "match_trees"]

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
I8 = NDArray[np.int8]

_MOST_LEVELS = 6
_LONGEST_REGION = 16
_MIX = np.uint64(0x9E3779B97F4A7C15)


@njit(cache=True, nogil=True)
def hash_trees(first: I64, child: I32, up: I32, own: I64) -> I64:
    """A number per node, not negative, equal for equal sub-trees (the node's own number and its children in order).

    Args:
        first: int64 (n + 1,), where the children of each node begin in ``child``.
        child: int32, children of all nodes, in order.
        up: int32 (n,), parent of each node; -1 at the top.
        own: int64 (n,), what the node is by itself.
    """
    n = len(own)
    found = own.astype(np.uint64)
    waiting = (first[1:] - first[:-1]).astype(np.int32)
    ready = np.empty(n, np.int32)
    count = 0
    for node in range(n):
        if waiting[node] == 0:
            ready[count] = node
            count += 1
    at = 0
    while at < count:
        node = ready[at]
        at += 1
        value = (found[node] + np.uint64(1)) * _MIX
        for place in range(first[node], first[node + 1]):
            value = (value ^ (value >> np.uint64(29)) ^ found[child[place]]) * np.uint64(0xBF58476D1CE4E5B9)
        found[node] = value ^ (value >> np.uint64(32))
        above = up[node]
        if above >= 0:
            waiting[above] -= 1
            if waiting[above] == 0:
                ready[count] = above
                count += 1
    return (found >> np.uint64(1)).astype(np.int64)


@njit(cache=True, nogil=True)
def _opened(nodes: I32, first: I64, child: I32) -> I32:
    """The nodes with those that have children replaced by them."""
    size = 0
    for node in nodes:
        size += max(1, first[node + 1] - first[node])
    found = np.empty(size, np.int32)
    at = 0
    for node in nodes:
        if first[node] == first[node + 1]:
            found[at] = node
            at += 1
        for place in range(first[node], first[node + 1]):
            found[at] = child[place]
            at += 1
    return found


@njit(cache=True, nogil=True)
def _open_gap(a: I32, b: I32, tree_a: tuple[I64, I32, I64], tree_b: tuple[I64, I32, I64]) -> tuple[I32, I32, bool]:
    """The two sequences with one of them or both opened, as gives the most likeness; whether anything was opened."""
    wide_a, wide_b = _opened(a, tree_a[0], tree_a[1]), _opened(b, tree_b[0], tree_b[1])
    more_a, more_b = len(wide_a) != len(a) or (wide_a != a).any(), len(wide_b) != len(b) or (wide_b != b).any()
    one = score(wide_a, b, tree_a[2], tree_b[2]) if more_a else 0
    two = score(a, wide_b, tree_a[2], tree_b[2]) if more_b else 0
    both = score(wide_a, wide_b, tree_a[2], tree_b[2]) if more_a and more_b else 0
    if one > 0 and one >= two and one >= both:
        return wide_a, b, True
    if two > 0 and two >= both:
        return a, wide_b, True
    return wide_a, wide_b, more_a or more_b


@njit(cache=True, nogil=True)
def _how(like: int) -> int:
    """Place in ``trees.Likeness`` of what ``likeness`` says."""
    for at, value in enumerate((1 << 20, 16, 12, 5, 4)):
        if like >= value:
            return at
    return 5


@njit(cache=True, nogil=True)
def _gaps(met: I32, n: int) -> list[tuple[int, int, int, int]]:
    """What lies between matches on both sides, as begin and end on each."""
    found = [(0, 0, 0, 0)]
    found.pop()
    last_i, last_j = 0, 0
    for i in range(len(met) + 1):
        j = n if i == len(met) else met[i]
        if j >= 0:
            if i > last_i and j > last_j:
                found.append((last_i, i, last_j, j))
            last_i, last_j = i + 1, j + 1
    return found


@njit(cache=True, nogil=True)
def _join(
    x: int, y: int, deep: int, tree_a: tuple[I64, I32, I64], tree_b: tuple[I64, I32, I64], partner: I32, how: I8,
    skipped: I8, tasks: list[tuple[I32, I32, int]],
) -> None:  # fmt: skip
    """Note that two nodes meet, unless they have; their children are to be aligned."""
    if partner[x] >= 0:
        return
    partner[x], skipped[x] = y, deep
    how[x] = _how(likeness(tree_a[2], x, tree_b[2], y))
    below_a, below_b = tree_a[1][tree_a[0][x] : tree_a[0][x + 1]], tree_b[1][tree_b[0][y] : tree_b[0][y + 1]]
    if len(below_a) and len(below_b):
        tasks.append((below_a, below_b, 0))


@njit(cache=True, nogil=True)
def match_trees(
    tree_a: tuple[I64, I32, I64], tree_b: tuple[I64, I32, I64], tops_a: I32, tops_b: I32, bounds: I64, pins: I32
) -> tuple[I32, I8, I8, I32, I32]:
    """Match the nodes of two trees.

    Args:
        tree_a: where children begin (n + 1), children in order, keys (n, LEVELS) of the one side.
        tree_b: of the other.
        tops_a: int32, top nodes of the one side in order, thread after thread.
        tops_b: of the other.
        bounds: int64 (threads, 4): begin and end in ``tops_a`` and in ``tops_b`` of each pair of threads.
        pins: int32 (pins, 2): nodes that meet whatever they look like; their first keys are negative and equal.

    Returns:
        ``(partner, how, skipped, region_a, region_b)``: per node of the one side its partner (-1: none), in what they
        are alike (``trees.Likeness``) and how many levels were opened to find it; per node of each side the number of
        the region that it begins, -1: none.
    """
    n = len(tree_a[0]) - 1
    partner, how, skipped = np.full(n, -1, np.int32), np.zeros(n, np.int8), np.zeros(n, np.int8)
    region_a, region_b = np.full(n, -1, np.int32), np.full(len(tree_b[0]) - 1, -1, np.int32)
    regions = 0
    tasks = [(tops_a[one[0] : one[1]], tops_b[one[2] : one[3]], -1) for one in bounds]
    for x, y in pins:
        _join(x, y, 0, tree_a, tree_b, partner, how, skipped, tasks)
    while tasks:
        seq_a, seq_b, deep = tasks.pop()
        met = align_sequences(seq_a, seq_b, tree_a[2], tree_b[2])
        is_place = deep == 0 or (deep < 0 and (met >= 0).any())
        deep = max(deep, 0)
        for i in range(len(seq_a)):
            if met[i] >= 0:
                _join(seq_a[i], seq_b[met[i]], deep, tree_a, tree_b, partner, how, skipped, tasks)
        for i0, i1, j0, j1 in _gaps(met, len(seq_b)):
            gap_a, gap_b = seq_a[i0:i1], seq_b[j0:j1]
            if is_place and max(len(gap_a), len(gap_b)) <= _LONGEST_REGION:
                region_a[gap_a] = regions
                region_b[gap_b] = regions
                regions += 1
            if deep < _MOST_LEVELS:
                wide_a, wide_b, is_more = _open_gap(gap_a, gap_b, tree_a, tree_b)
                if is_more:
                    tasks.append((wide_a, wide_b, deep + 1))
    return partner, how, skipped, region_a, region_b
