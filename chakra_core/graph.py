"""Algorithms on the dependency graph (``trace.Edges``), compiled: order, cycles, longest path, slack, neighbourhood."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from chakra_core.trace import Edges

__all__ = [
    "LongestPath",
    "break_cycles",
    "longest_path",
    "neighbourhood",
    "reverse",
    "shortest_path",
    "topological_order",
]

I8 = NDArray[np.int8]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
Mask = NDArray[np.bool_]

_OPTIONS: Mapping[str, bool] = {"cache": True, "_nrt": False}
"""The kernels fill arrays they are given and make none, so they are compiled without reference counting."""


@dataclass(frozen=True, slots=True)
class LongestPath:
    """The longest chain through an acyclic graph and how far every node is from it.

    Attributes:
        length_ns: sum of the durations on the path.
        rows: the path, first node first; ties go to the lowest row.
        earliest_ns: int64 per row, earliest start when every node starts as soon as its dependencies end (from 0).
        slack_ns: int64 per row, how much longer the node may take before the whole gets longer; >= 0, 0 on the path.
    """

    length_ns: int
    rows: I64
    earliest_ns: I64
    slack_ns: I64


@njit(**_OPTIONS)
def _goes_forward(indptr: I64, sources: I32) -> bool:
    """Whether every row waits only for lower ones: then there is no cycle, and the rows are in order as they are."""
    for row in range(len(indptr) - 1):
        for edge in range(indptr[row], indptr[row + 1]):
            if sources[edge] >= row:
                return False
    return True


@njit(**_OPTIONS)
def _back_edges(indptr: I64, sources: I32, state: I8, stack: I32, cursor: I64, closing: Mask) -> int:
    """Mark the edges that close a cycle, by depth-first search from row 0 upwards along dependencies; their number."""
    count = 0
    for root in range(len(state)):
        if state[root]:
            continue
        stack[0] = root
        depth = 1
        state[root] = 1
        while depth:
            row = stack[depth - 1]
            edge = cursor[row]
            if edge == indptr[row + 1]:
                state[row] = 2
                depth -= 1
                continue
            cursor[row] += 1
            source = sources[edge]
            if state[source] == 1:
                closing[edge] = True
                count += 1
            elif state[source] == 0:
                state[source] = 1
                stack[depth] = source
                depth += 1
    return count


def break_cycles(edges: Edges) -> tuple[Edges, Mask]:
    """The graph without the edges that close cycles, and which those are (bool per edge). Deterministic, O(V + E).

    A graph without cycles is returned as it is.
    """
    n = len(edges.indptr) - 1
    closing = np.zeros(len(edges), np.bool_)
    if _goes_forward(edges.indptr, edges.sources):
        return edges, closing
    state, stack = np.zeros(n, np.int8), np.empty(n, np.int32)
    if not _back_edges(edges.indptr, edges.sources, state, stack, edges.indptr[:-1].copy(), closing):
        return edges, closing
    kept = ~closing
    indptr = np.zeros(len(edges.indptr), np.int64)
    np.cumsum(np.bincount(edges.targets()[kept], minlength=len(indptr) - 1), out=indptr[1:])
    return Edges(indptr, edges.sources[kept], edges.kinds[kept]), closing


@njit(**_OPTIONS)
def _reverse(indptr: I64, sources: I32, kinds: I8, cursor: I64, targets: I32, out_kinds: I8) -> None:
    """Fill the reversed edges; ``cursor`` is where the edges of each row begin, and is used up."""
    for row in range(len(indptr) - 1):
        for edge in range(indptr[row], indptr[row + 1]):
            source = sources[edge]
            at = cursor[source]
            cursor[source] = at + 1
            targets[at] = row
            out_kinds[at] = kinds[edge]


def reverse(edges: Edges) -> Edges:
    """The edges seen from the other end, like ``Edges.reversed`` but O(V + E) and compiled."""
    n = len(edges.indptr) - 1
    indptr = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(edges.sources, minlength=n), out=indptr[1:])
    reversed_ = Edges(indptr, np.empty(len(edges), np.int32), np.empty(len(edges), np.int8))
    _reverse(edges.indptr, edges.sources, edges.kinds, indptr[:-1].copy(), reversed_.sources, reversed_.kinds)
    return reversed_


@njit(**_OPTIONS)
def _order(indptr: I64, awaited: I32, waiting: I64, order: I64) -> int:
    """Kahn's algorithm, first in first out; ``awaited`` are the dependents of each row in CSR. Number of rows ordered."""
    tail = 0
    for row in range(len(waiting)):
        if waiting[row] == 0:
            order[tail] = row
            tail += 1
    head = 0
    while head < tail:
        row = order[head]
        head += 1
        for edge in range(indptr[row], indptr[row + 1]):
            target = awaited[edge]
            left = waiting[target] - 1
            waiting[target] = left
            if left == 0:
                order[tail] = target
                tail += 1
    return tail


def topological_order(edges: Edges) -> I64:
    """Rows such that every dependency comes first; rows on or behind a cycle are missing. O(V + E).

    Rows that are in order as they stand keep it; else those that wait for nothing come first (Kahn).
    """
    n = len(edges.indptr) - 1
    if _goes_forward(edges.indptr, edges.sources):
        return np.arange(n, dtype=np.int64)
    dependents = reverse(edges)
    order = np.empty(n, np.int64)
    return order[: _order(dependents.indptr, dependents.sources, np.diff(edges.indptr), order)]


@njit(**_OPTIONS)
def _forward(order: I64, indptr: I64, sources: I32, durations: I64, earliest: I64, via: I32) -> int:
    """Fill the earliest starts, and the dependency that each row waits for last (-1: none); the latest end."""
    total = 0
    for at in range(len(order)):
        row = order[at]
        begin, last = np.int64(0), np.int32(-1)
        for edge in range(indptr[row], indptr[row + 1]):
            source = sources[edge]
            ready = earliest[source] + durations[source]
            if ready > begin or (ready == begin and (last < 0 or source < last)):
                begin, last = ready, source
        earliest[row], via[row] = begin, last
        total = max(total, begin + durations[row])
    return total


@njit(**_OPTIONS)
def _slack(order: I64, indptr: I64, sources: I32, durations: I64, earliest: I64, slack: I64) -> None:
    """Turn ``slack``, which holds the latest start of rows nobody waits for in every row, into slack."""
    for at in range(len(order) - 1, -1, -1):
        row = order[at]
        latest = slack[row]
        for edge in range(indptr[row], indptr[row + 1]):
            source = sources[edge]
            slack[source] = min(slack[source], latest - durations[source])
        slack[row] = latest - earliest[row]


def longest_path(edges: Edges, durations: I64) -> LongestPath:
    """Longest path by node durations, earliest starts and slack. O(V + E).

    Args:
        edges: an acyclic graph (see ``break_cycles``).
        durations: int64 ns per row, >= 0.

    Raises:
        ValueError: the graph has a cycle.
    """
    n = len(durations)
    if n == 0:
        empty = np.zeros(0, np.int64)
        return LongestPath(0, empty, empty, empty)
    order = topological_order(edges)
    if len(order) < n:
        raise ValueError(f"{n - len(order)} nodes are on or behind a cycle")
    durations = np.ascontiguousarray(durations, np.int64)
    earliest, via = np.empty(n, np.int64), np.empty(n, np.int32)
    total = int(_forward(order, edges.indptr, edges.sources, durations, earliest, via))
    slack = total - durations
    rows = [int(np.argmax(earliest + durations))]
    _slack(order, edges.indptr, edges.sources, durations, earliest, slack)
    while via[rows[-1]] >= 0:
        rows.append(int(via[rows[-1]]))
    return LongestPath(total, np.array(rows[::-1], np.int64), earliest, slack)


@njit(cache=True, nogil=True)
def _reach(starts: I64, indptr: I64, others: I32, hops: int, limit: int, distance: I32) -> int:
    """Breadth-first search that marks ``distance`` (-1: not reached); stops at ``limit`` marked rows."""
    queue = np.empty(min(limit, len(distance)) + len(starts), np.int64)
    tail = 0
    for row in starts:
        distance[row] = max(distance[row], 0)
        queue[tail] = row
        tail += 1
    count = tail
    head = 0
    while head < tail:
        row = queue[head]
        head += 1
        if distance[row] >= hops:
            continue
        for edge in range(indptr[row], indptr[row + 1]):
            other = others[edge]
            if distance[other] < 0:
                if count >= limit:
                    return count
                distance[other] = distance[row] + 1
                queue[tail] = other
                tail += 1
                count += 1
    return count


def neighbourhood(edges: Edges, row: int, hops: int, limit: int) -> tuple[I64, bool]:
    """Rows at most ``hops`` steps before or after ``row``, nearest first, and whether ``limit`` cut them.

    Ancestors and descendants are followed apart (no zig-zag), as a reader of a dependency graph expects.
    """
    n = len(edges.indptr) - 1
    start = np.array([row], np.int64)
    reached: dict[int, int] = {}
    cut = False
    for side in (edges, reverse(edges)):
        distance = np.full(n, -1, np.int32)
        cut |= _reach(start, side.indptr, side.sources, hops, limit, distance) >= limit
        for found in np.flatnonzero(distance >= 0).tolist():
            reached[found] = min(reached.get(found, hops), int(distance[found]))
    ordered = sorted(reached, key=lambda at: (reached[at], at))
    return np.array(ordered[:limit], np.int64), cut or len(ordered) > limit


@njit(cache=True, nogil=True)
def _trace_back(first: int, last: int, indptr: I64, awaited: I32) -> I64:
    n = len(indptr) - 1
    via = np.full(n, -1, np.int64)
    queue = np.empty(n, np.int64)
    queue[0] = first
    via[first] = first
    head, tail = 0, 1
    while head < tail and via[last] < 0:
        row = queue[head]
        head += 1
        for edge in range(indptr[row], indptr[row + 1]):
            other = awaited[edge]
            if via[other] < 0:
                via[other] = row
                queue[tail] = other
                tail += 1
    return via


def shortest_path(edges: Edges, first: int, last: int) -> I64:
    """Rows of a chain of dependencies with the fewest steps from ``first`` to ``last``; empty where there is none."""
    dependents = reverse(edges)
    via = _trace_back(first, last, dependents.indptr, dependents.sources)
    if via[last] < 0:
        return np.zeros(0, np.int64)
    rows = [last]
    while rows[-1] != first:
        rows.append(int(via[rows[-1]]))
    return np.array(rows[::-1], np.int64)
