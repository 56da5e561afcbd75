"""Compiled alignment of two sequences of tree nodes: exact where they are short, anchored where they are long.

A node has a key per level of likeness (``LEVELS``): the hash of its whole sub-tree, its name with input shapes, its
name, its family; two nodes are as alike as the first level on which their keys are equal. Short sequences get the
alignment with the most likeness in all (S. Needleman, C. Wunsch, J. Mol. Biol. 48(3), 1970). Long ones are cut at a
longest common subsequence on one level after the other (E. Myers, *An O(ND) difference algorithm*, Algorithmica 1,
1986), found piece by piece: after ``_MOST_EDITS`` edits the furthest point reached is kept and the search begins anew
there. So time stays within ``O(n x _MOST_EDITS)`` and memory within ``O(n)`` plus two tables of fixed size.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["LEVELS", "align_sequences", "likeness", "score"]

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]

LEVELS = 4
_CELLS = 1 << 18
"""Most cells of a table of the exact alignment."""
_MOST_EDITS = 600


@njit(cache=True, nogil=True)
def likeness(keys_a: I64, x: int, keys_b: I64, y: int) -> int:
    """How much nodes ``x`` and ``y`` are alike, from their keys: 0 not at all, 16 where their sub-trees are equal.

    A negative first key is that of a pinned node: it is like its partner alone, which outweighs all else.
    """
    if keys_a[x, 0] < 0 or keys_b[y, 0] < 0:
        return 1 << 20 if keys_a[x, 0] == keys_b[y, 0] else 0
    for level in range(LEVELS):
        if keys_a[x, level] == keys_b[y, level]:
            return (16, 12, 5, 4)[level]
    return 0


@njit(cache=True, nogil=True)
def score(seq_a: I32, seq_b: I32, keys_a: I64, keys_b: I64) -> int:
    """The most likeness of an alignment of two sequences; 0 where a table of them would be too large."""
    m, n = len(seq_a), len(seq_b)
    if m * n > _CELLS:
        return 0
    row = np.zeros(n + 1, np.int64)
    for i in range(m):
        corner = np.int64(0)
        for j in range(n):
            above = row[j + 1]
            like = likeness(keys_a, seq_a[i], keys_b, seq_b[j])
            best = max(above, row[j])
            if like:
                best = max(best, corner + like)
            corner = above
            row[j + 1] = best
    return row[n]


@njit(cache=True, nogil=True)
def _exact(seq_a: I32, seq_b: I32, keys_a: I64, keys_b: I64, met: I32, i0: int, i1: int, j0: int, j1: int) -> None:
    """Align ``seq_a[i0:i1]`` with ``seq_b[j0:j1]``, writing into ``met`` (position in b of each position in a)."""
    m, n = i1 - i0, j1 - j0
    best = np.zeros((m + 1, n + 1), np.int64)
    for i in range(m):
        for j in range(n):
            value = max(best[i, j + 1], best[i + 1, j])
            like = likeness(keys_a, seq_a[i0 + i], keys_b, seq_b[j0 + j])
            if like:
                value = max(value, best[i, j] + like)
            best[i + 1, j + 1] = value
    i, j = m, n
    while i > 0 and j > 0:
        if best[i, j] == best[i - 1, j]:
            i -= 1
        elif best[i, j] == best[i, j - 1]:
            j -= 1
        else:
            i, j = i - 1, j - 1
            met[i0 + i] = j0 + j


@njit(cache=True, nogil=True)
def _reach(
    a: I64, b: I64, i0: int, i1: int, j0: int, j1: int, furthest: I32, history: I32, first: I64
) -> tuple[int, int]:
    """Edits and diagonal (plus edits) of the furthest point reached; ``history`` keeps the rows of all edits."""
    m, n = i1 - i0, j1 - j0
    middle = len(furthest) // 2
    furthest[:] = 0
    best, at = -1, 0
    edits = 0
    for edits in range(_MOST_EDITS + 1):
        best = -1
        for k in range(-edits, edits + 1, 2):
            down = k == -edits or (k != edits and furthest[middle + k - 1] < furthest[middle + k + 1])
            x = furthest[middle + k + 1] if down else furthest[middle + k - 1] + 1
            y = x - k
            while x < m and 0 <= y < n and a[i0 + x] == b[j0 + y]:
                x, y = x + 1, y + 1
            furthest[middle + k] = x
            if x <= m and y <= n and x + y > best:
                best, at = x + y, k
            if x == m and y == n:
                history[first[edits] : first[edits + 1]] = furthest[middle - edits : middle + edits + 1]
                return edits, k
        history[first[edits] : first[edits + 1]] = furthest[middle - edits : middle + edits + 1]
    return edits, at


@njit(cache=True, nogil=True)
def _walk_back(history: I32, first: I64, edits: int, k: int, met: I32, i0: int, j0: int) -> tuple[int, int]:
    """Write the matches on the path that ends on diagonal ``k`` after ``edits`` edits; returns where it ends."""
    x = history[first[edits] + k + edits]
    y = x - k
    end_x, end_y = x, y
    while edits > 0:
        row = first[edits - 1] + edits - 1  # entry of diagonal 0 after one edit less
        down = k == -edits or (k != edits and history[row + k - 1] < history[row + k + 1])
        start = history[row + k + 1] if down else history[row + k - 1] + 1
        while x > start:
            x, y = x - 1, y - 1
            met[i0 + x] = j0 + y
        k = k + 1 if down else k - 1
        edits -= 1
        x = history[first[edits] + k + edits]
        y = x - k
    while x > 0:  # what both begin with, before the first edit
        x -= 1
        met[i0 + x] = j0 + x
    return end_x, end_y


@njit(cache=True, nogil=True)
def _common(a: I64, b: I64, met: I32, block: tuple[int, int, int, int]) -> None:
    """A long common subsequence of two blocks on one level, written into ``met``."""
    i0, i1, j0, j1 = block
    first = np.zeros(_MOST_EDITS + 2, np.int64)
    for edits in range(_MOST_EDITS + 1):
        first[edits + 1] = first[edits] + 2 * edits + 1
    furthest = np.zeros(2 * _MOST_EDITS + 3, np.int32)
    history = np.zeros(first[_MOST_EDITS + 1], np.int32)
    while i0 < i1 and j0 < j1:
        edits, k = _reach(a, b, i0, i1, j0, j1, furthest, history, first)
        x, y = _walk_back(history, first, edits, k, met, i0, j0)
        if x + y <= 0:
            return
        i0, j0 = i0 + x, j0 + y


@njit(cache=True, nogil=True)
def _trim(
    seq_a: I32, seq_b: I32, keys_a: I64, keys_b: I64, met: I32, block: tuple[int, int, int, int]
) -> tuple[int, int, int, int]:
    """Match what is equal at both ends; the block that is left."""
    i0, i1, j0, j1 = block
    while i0 < i1 and j0 < j1 and keys_a[seq_a[i0], 0] == keys_b[seq_b[j0], 0]:
        met[i0] = j0
        i0, j0 = i0 + 1, j0 + 1
    while i0 < i1 and j0 < j1 and keys_a[seq_a[i1 - 1], 0] == keys_b[seq_b[j1 - 1], 0]:
        i1, j1 = i1 - 1, j1 - 1
        met[i1] = j1
    return i0, i1, j0, j1


@njit(cache=True, nogil=True)
def _cut(
    seq_a: I32, seq_b: I32, keys_a: I64, keys_b: I64, met: I32, block: tuple[int, int, int, int], level: int
) -> list[tuple[int, int, int, int]]:
    """Cut a long block at what is common on a level: the blocks between."""
    i0, i1, j0, j1 = block
    a, b = keys_a[seq_a, level], keys_b[seq_b, level]
    _common(a, b, met, block)
    left = [(i0, i0, j0, j0)]
    left.pop()
    last_i, last_j = i0, j0
    for i in range(i0, i1 + 1):
        j = j1 if i == i1 else met[i]
        if j < 0:
            continue
        if i > last_i and j > last_j:
            left.append((last_i, i, last_j, j))
        last_i, last_j = i + 1, j + 1
    return left


@njit(cache=True, nogil=True)
def align_sequences(seq_a: I32, seq_b: I32, keys_a: I64, keys_b: I64) -> I32:
    """Position in ``seq_b`` that each position in ``seq_a`` meets, ascending; -1 where it meets none.

    Args:
        seq_a: int32 (m,), tree nodes of the one side in order.
        seq_b: int32 (n,), of the other.
        keys_a: int64 (nodes, LEVELS), keys of the one side's tree nodes.
        keys_b: of the other's.
    """
    met = np.full(len(seq_a), -1, np.int32)
    blocks = [(0, len(seq_a), 0, len(seq_b))]
    levels = [0]
    while blocks:
        level = levels.pop()
        block = _trim(seq_a, seq_b, keys_a, keys_b, met, blocks.pop())
        i0, i1, j0, j1 = block
        if i0 == i1 or j0 == j1:
            continue
        if (i1 - i0) * (j1 - j0) <= _CELLS:
            _exact(seq_a, seq_b, keys_a, keys_b, met, i0, i1, j0, j1)
        elif level < LEVELS:
            for left in _cut(seq_a, seq_b, keys_a, keys_b, met, block, level):
                blocks.append(left)
                levels.append(level + 1)
    return met
