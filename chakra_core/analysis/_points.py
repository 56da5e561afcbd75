"""Kernels of the measured critical path: begin and end points in order of time, the edges between them, and solving.

A *slot* is the place of an event among those used. Each slot has two points, its begin and its end. Points are put in
one order in which every edge leads forward, so that the graph has no cycle and one pass finds the longest path.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["Built", "Given", "Options", "backward", "build", "forward", "order_points", "trace_back"]

I8 = NDArray[np.int8]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
Mask = NDArray[np.bool_]

HOST, BETWEEN, LAUNCH, IDLE, SYNC = 0, 1, 2, 3, 4
"""Causes that the kernels know; those of device work begin after them and come with the slots."""


class Given(NamedTuple):
    """What is known per slot, and the further edges (sorted by the point they lead to)."""

    start: I64
    end: I64
    lane: I32
    device: Mask
    cause: I8  # of the slot's own work
    launch: I32  # slot of the launching call, -1: unknown
    outside: I64  # when the last work before it on its stream ended, of work that has no slot
    blocked: Mask  # host calls that only wait: their own time does not count
    extra_source: I32  # point
    extra_target: I32  # point
    extra_weight: I64


class Options(NamedTuple):
    """Which edges count."""

    between: bool
    order: bool


class Built(NamedTuple):
    """Edges by the point that they lead to: ``source[ptr[p]:ptr[p + 1]]`` lead to point p."""

    ptr: I64
    source: I32
    weight: I64
    cause: I8
    slot: I32  # whose time it is; -1: nobody's


def order_points(start: I64, end: I64) -> tuple[I32, I32, I64]:
    """Put the points of all slots in order: ``(begin point, end point)`` of each slot, and the time of each point.

    At one moment ends come first, inner before outer; then begins, outer before inner; an event of no length has its
    begin and end beside each other, last.
    """
    begins = np.lexsort((start - end, start)).astype(np.int32)
    ends = begins[::-1]
    ends = ends[end[ends] > start[ends]]
    ends = ends[np.argsort(end[ends], kind="stable")]
    first, last = np.empty(len(start), np.int32), np.empty(len(start), np.int32)
    time = np.empty(2 * len(start), np.int64)
    _merge(begins, ends, start, end, first, last, time)
    return first, last, time


@njit(cache=True, _nrt=False)
def _merge(begins: I32, ends: I32, start: I64, end: I64, first: I32, last: I32, time: I64) -> None:
    at = j = 0
    for i in range(len(begins) + 1):
        while j < len(ends) and (i == len(begins) or end[ends[j]] <= start[begins[i]]):
            last[ends[j]] = at
            time[at] = end[ends[j]]
            at += 1
            j += 1
        if i == len(begins):
            break
        slot = begins[i]
        first[slot] = at
        time[at] = start[slot]
        at += 1
        if end[slot] == start[slot]:
            last[slot] = at
            time[at] = end[slot]
            at += 1


@njit(cache=True, _nrt=False)
def _host_edge(
    slot: int, ends: bool, now: int, given: Given, options: Options, top: I32, latest: I32, time: I64
) -> tuple[int, int, int]:
    """Weight, cause and owner of the edge from the last point of the thread to this one."""
    lane = given.lane[slot]
    gap = now - time[latest[lane]]
    if top[lane] < 0:
        return (gap if options.between else 0), BETWEEN, -1
    if ends and given.blocked[slot]:
        return 0, HOST, slot
    return gap, given.cause[top[lane]], top[lane]


@njit(cache=True, _nrt=False)
def _binding(
    slot: int, now: int, launch: int, before: int, low: int, high: int, given: Given, time: I64
) -> tuple[int, int]:
    """Which of a kernel's predecessors was there last, so that the rest of its wait is due to it.

    Returns its kind (LAUNCH, IDLE or SYNC; -1: none, or work that has no slot) and, for SYNC, which further edge.
    """
    kind, which, moment = -1, -1, given.outside[slot]
    if launch >= 0 and given.start[launch] >= moment:
        kind, moment = LAUNCH, given.start[launch]
    if before >= 0 and time[before] > moment:
        kind, moment = IDLE, time[before]
    for edge in range(low, high):
        came = time[given.extra_source[edge]]
        if moment < came <= now:
            kind, which, moment = SYNC, edge, came
    return kind, which


@njit(cache=True, _nrt=False)
def _put(out: Built, count: int, source: int, weight: int, cause: int, slot: int) -> int:
    out.source[count], out.weight[count], out.cause[count], out.slot[count] = source, weight, cause, slot
    return count + 1


@njit(cache=True, _nrt=False)
def _kernel_begins(
    slot: int, at: int, before: int, low: int, high: int, count: int, given: Given, options: Options, first: I32,
    time: I64, out: Built,
) -> int:  # fmt: skip
    """Edges into the begin of a device slot: the binding one weighs the wait it caused, the others only keep order."""
    now, launch = time[at], given.launch[slot]
    if launch >= 0 and first[launch] > at:
        launch = -1  # clocks that disagree: a call cannot follow what it launched
    bound, which = _binding(slot, now, launch, before, low, high, given, time)
    if before >= 0 and (bound == IDLE or options.order):
        count = _put(out, count, before, now - time[before] if bound == IDLE else 0, IDLE, slot)
    if launch >= 0 and (bound == LAUNCH or options.order):
        count = _put(out, count, first[launch], now - given.start[launch] if bound == LAUNCH else 0, LAUNCH, slot)
    for edge in range(low, high):
        source = given.extra_source[edge]
        count = _put(out, count, source, now - time[source] if edge == which else 0, SYNC, slot)
    return count


@njit(cache=True, _nrt=False)
def _leave(slot: int, lane: int, top: I32, below: I32, open_: Mask) -> None:
    open_[slot] = False
    while top[lane] >= 0 and not open_[top[lane]]:
        top[lane] = below[top[lane]]


@njit(cache=True)
def build(given: Given, options: Options, lanes: int, first: I32, last: I32, time: I64) -> Built:
    """Sweep the points in order and make the edges. O(points + edges)."""
    n, used = len(time), len(first)
    slots, is_end = np.empty(n, np.int32), np.zeros(n, np.bool_)
    for slot in range(used):
        slots[first[slot]] = slot
        slots[last[slot]] = slot
        is_end[last[slot]] = True
    room = n + used + len(given.extra_source)
    out = Built(
        np.zeros(n + 1, np.int64), np.empty(room, np.int32), np.empty(room, np.int64), np.empty(room, np.int8),
        np.empty(room, np.int32),
    )  # fmt: skip
    latest, top = np.full(lanes, -1, np.int32), np.full(lanes, -1, np.int32)
    below, open_ = np.full(used, -1, np.int32), np.zeros(used, np.bool_)
    count, more = 0, 0
    for at in range(n):
        slot = slots[at]
        lane = given.lane[slot]
        stop = more
        while stop < len(given.extra_target) and given.extra_target[stop] == at:
            stop += 1
        if given.device[slot] and not is_end[at]:
            count = _kernel_begins(slot, at, latest[lane], more, stop, count, given, options, first, time, out)
        elif given.device[slot]:
            count = _put(out, count, first[slot], time[at] - given.start[slot], given.cause[slot], slot)
            latest[lane] = at
        else:
            if latest[lane] >= 0:
                weight, cause, owner = _host_edge(slot, is_end[at], time[at], given, options, top, latest, time)
                count = _put(out, count, latest[lane], weight, cause, owner)
            latest[lane] = at
            if is_end[at]:
                _leave(slot, lane, top, below, open_)
            else:
                open_[slot] = True
                below[slot] = top[lane]
                top[lane] = slot
        if not given.device[slot]:
            for edge in range(more, stop):
                count = _put(out, count, given.extra_source[edge], given.extra_weight[edge], SYNC, slot)
        more = stop
        out.ptr[at + 1] = count
    return Built(
        out.ptr, out.source[:count].copy(), out.weight[:count].copy(), out.cause[:count].copy(), out.slot[:count].copy()
    )


@njit(cache=True, _nrt=False)
def forward(ptr: I64, source: I32, weight: I64, reached: I64, via: I64) -> int:
    """Fill the longest way to each point and the edge by which it comes (-1: none); the point where the longest ends.

    Of equal ways the edge listed last is taken, and of equal ends the last point.
    """
    best = -1
    for at in range(len(reached)):
        longest, edge_taken = 0, -1
        for edge in range(ptr[at], ptr[at + 1]):
            length = reached[source[edge]] + weight[edge]
            if length >= longest:
                longest, edge_taken = length, edge
        reached[at], via[at] = longest, edge_taken
        if best < 0 or longest >= reached[best]:
            best = at
    return best


@njit(cache=True, _nrt=False)
def backward(ptr: I64, source: I32, weight: I64, owner: I32, reached: I64, total: int, tail: I64, slack: I64) -> None:
    """Lower ``slack`` (per slot) to how much each slot's edges fall short of the longest path. ``tail`` starts as 0."""
    for at in range(len(reached) - 1, -1, -1):
        after = tail[at]
        for edge in range(ptr[at], ptr[at + 1]):
            begin = source[edge]
            tail[begin] = max(tail[begin], after + weight[edge])
            slot = owner[edge]
            if slot >= 0:
                slack[slot] = min(slack[slot], total - reached[begin] - weight[edge] - after)


@njit(cache=True)
def trace_back(point: int, source: I32, via: I64) -> I64:
    """Edges of the longest path, first to last."""
    count = 0
    at = point
    while via[at] >= 0:
        at = source[via[at]]
        count += 1
    edges = np.empty(count, np.int64)
    at = point
    while via[at] >= 0:
        count -= 1
        edges[count] = via[at]
        at = source[via[at]]
    return edges
