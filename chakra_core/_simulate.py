"""The compiled event loop of ``schedule``: list scheduling over lanes, with rendezvous of collectives and transfers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["Problem", "simulate"]

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
_OPTIONS: Mapping[str, bool] = {"cache": True, "nogil": True, "_nrt": False}
"""No kernel makes an array, so they are compiled without reference counting, which took three quarters of the time."""
_PENDING = -1
_RUNNING, _WAITED, _RELEASED, _GIVEN_UP, _FRESH, _TOUCHED = range(6)


class Problem(NamedTuple):
    """What is to be scheduled; all arrays int64 per node unless said otherwise.

    Attributes:
        dur: duration, ns.
        rank: priority on its lane, distinct; the lowest goes first.
        lane: lane, or -1 for none (then only dependencies hold the node back).
        first: start of each lane's nodes in a lane-ordered layout; length lanes + 1.
        indptr: CSR of dependents, length n + 1.
        awaited: int32, the dependents.
        instance: collective instance, -1 for none.
        member_ptr: CSR of instance members.
        members: the members.
        send_of: for a receive, its send; -1 otherwise.
        recv_of: for a send, its receive; -1 otherwise.
    """

    dur: I64
    rank: I64
    lane: I64
    first: I64
    indptr: I64
    awaited: I32
    instance: I64
    member_ptr: I64
    members: I64
    send_of: I64
    recv_of: I64


class _State(NamedTuple):
    """What changes while the loop runs; ``counts`` holds the fill of each list (see the constants above)."""

    start: I64
    end: I64
    arrived: I64
    waiting: I64
    missing: I64
    running: I64
    waited: I64
    fresh: I64
    ready: I64
    ready_count: I64
    busy: NDArray[np.bool_]
    touched: I64
    is_touched: NDArray[np.bool_]
    counts: I64


@njit(**_OPTIONS, forceinline=True)
def _push_ready(row: int, p: Problem, s: _State) -> None:
    """Add a node to its lane's heap of ready nodes (smallest rank on top)."""
    where = p.lane[row]
    base, at = p.first[where], s.ready_count[where]
    s.ready[base + at] = row
    s.ready_count[where] += 1
    while at > 0:
        above = (at - 1) >> 1
        if p.rank[s.ready[base + above]] <= p.rank[s.ready[base + at]]:
            return
        s.ready[base + above], s.ready[base + at] = s.ready[base + at], s.ready[base + above]
        at = above


@njit(**_OPTIONS, forceinline=True)
def _pop_ready(where: int, p: Problem, s: _State) -> int:
    """Take the ready node of smallest rank from a lane's heap."""
    base = p.first[where]
    s.ready_count[where] -= 1
    count = s.ready_count[where]
    top = s.ready[base]
    s.ready[base] = s.ready[base + count]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= count:
            return top
        if below + 1 < count and p.rank[s.ready[base + below + 1]] < p.rank[s.ready[base + below]]:
            below += 1
        if p.rank[s.ready[base + at]] <= p.rank[s.ready[base + below]]:
            return top
        s.ready[base + at], s.ready[base + below] = s.ready[base + below], s.ready[base + at]
        at = below


@njit(**_OPTIONS, forceinline=True)
def _before(a: int, b: int, p: Problem, s: _State) -> bool:
    """Whether running node a ends before b; ties by rank."""
    return s.end[a] < s.end[b] or (s.end[a] == s.end[b] and p.rank[a] < p.rank[b])


@njit(**_OPTIONS, forceinline=True)
def _begin(row: int, time: int, p: Problem, s: _State) -> None:
    """Start a node and add it to the heap of running nodes (earliest end on top)."""
    s.start[row] = time
    s.end[row] = time + p.dur[row]
    at = s.counts[_RUNNING]
    s.counts[_RUNNING] += 1
    s.running[at] = row
    while at > 0:
        above = (at - 1) >> 1
        if not _before(s.running[at], s.running[above], p, s):
            return
        s.running[above], s.running[at] = s.running[at], s.running[above]
        at = above


@njit(**_OPTIONS, forceinline=True)
def _pop_running(p: Problem, s: _State) -> int:
    """Take the running node that ends first."""
    s.counts[_RUNNING] -= 1
    count = s.counts[_RUNNING]
    top = s.running[0]
    s.running[0] = s.running[count]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= count:
            return top
        if below + 1 < count and _before(s.running[below + 1], s.running[below], p, s):
            below += 1
        if not _before(s.running[below], s.running[at], p, s):
            return top
        s.running[at], s.running[below] = s.running[below], s.running[at]
        at = below


@njit(**_OPTIONS, forceinline=True)
def _wait(row: int, s: _State) -> None:
    s.waited[s.counts[_WAITED]] = row
    s.counts[_WAITED] += 1


@njit(**_OPTIONS, forceinline=True)
def _begin_members(meeting: int, now: int, p: Problem, s: _State) -> None:
    """Start every member of a collective that has arrived and waits."""
    for at in range(p.member_ptr[meeting], p.member_ptr[meeting + 1]):
        other = p.members[at]
        if s.arrived[other] >= 0 and s.start[other] == _PENDING:
            _begin(other, now, p, s)


@njit(**_OPTIONS, forceinline=True)
def _arrive(row: int, now: int, p: Problem, s: _State) -> None:
    """A node holds its lane: start it, or let it wait for the other members, or for the send it receives."""
    s.arrived[row] = now
    meeting = p.instance[row]
    if meeting >= 0:
        s.missing[meeting] -= 1
        if s.missing[meeting] > 0:
            _wait(row, s)
        else:
            _begin_members(meeting, now, p, s)
        return
    send = p.send_of[row]
    if send >= 0 and s.start[send] == _PENDING:
        _wait(row, s)
        return
    _begin(row, now if send < 0 else max(now, s.end[send] - p.dur[row]), p, s)
    receive = p.recv_of[row]
    if receive >= 0 and s.arrived[receive] >= 0 and s.start[receive] == _PENDING:
        _begin(receive, max(now, s.end[row] - p.dur[receive]), p, s)


@njit(**_OPTIONS, forceinline=True)
def _touch(where: int, s: _State) -> None:
    if not s.is_touched[where]:
        s.is_touched[where] = True
        s.touched[s.counts[_TOUCHED]] = where
        s.counts[_TOUCHED] += 1


@njit(**_OPTIONS, forceinline=True)
def _start_what_can(now: int, p: Problem, s: _State) -> None:
    """Queue the nodes that became ready, then start the first of every free lane that changed."""
    for at in range(s.counts[_FRESH]):
        row = s.fresh[at]
        if p.lane[row] < 0:
            _arrive(row, now, p, s)
        else:
            _push_ready(row, p, s)
            _touch(p.lane[row], s)
    s.counts[_FRESH] = 0
    for at in range(s.counts[_TOUCHED]):
        where = s.touched[at]
        s.is_touched[where] = False
        if not s.busy[where] and s.ready_count[where]:
            s.busy[where] = True
            _arrive(_pop_ready(where, p, s), now, p, s)
    s.counts[_TOUCHED] = 0


@njit(**_OPTIONS, forceinline=True)
def _finish_next(p: Problem, s: _State) -> int:
    """Complete everything that ends at the next moment; returns that moment."""
    now = s.end[s.running[0]]
    while s.counts[_RUNNING] and s.end[s.running[0]] == now:
        row = _pop_running(p, s)
        for edge in range(p.indptr[row], p.indptr[row + 1]):
            target = p.awaited[edge]
            s.waiting[target] -= 1
            if s.waiting[target] == 0:
                s.fresh[s.counts[_FRESH]] = target
                s.counts[_FRESH] += 1
        if p.lane[row] >= 0:
            s.busy[p.lane[row]] = False
            _touch(p.lane[row], s)
    return now


@njit(**_OPTIONS, forceinline=True)
def _give_up_one(now: int, p: Problem, s: _State) -> bool:
    """Nothing runs: start what has waited longest without its partners. False where nothing waits."""
    while s.counts[_RELEASED] < s.counts[_WAITED]:
        row = s.waited[s.counts[_RELEASED]]
        s.counts[_RELEASED] += 1
        if s.start[row] == _PENDING:
            s.counts[_GIVEN_UP] += 1
            if p.instance[row] >= 0:
                s.missing[p.instance[row]] = 0
                _begin_members(p.instance[row], now, p, s)
            else:
                _begin(row, now, p, s)
            return True
    return False


@njit(**_OPTIONS)
def _run(p: Problem, s: _State) -> None:
    for row in range(len(s.waiting)):
        if s.waiting[row] == 0:
            s.fresh[s.counts[_FRESH]] = row
            s.counts[_FRESH] += 1
    now = 0
    while True:
        _start_what_can(now, p, s)
        if s.counts[_RUNNING] == 0 and not _give_up_one(now, p, s):
            return
        now = _finish_next(p, s)


def simulate(p: Problem, waiting: I64, missing: I64) -> tuple[I64, int]:
    """Start time per node (from 0; -1 on or behind a cycle) and how many waits had to be given up.

    Args:
        p: the nodes.
        waiting: number of dependencies per node; used up.
        missing: number of members per collective instance; used up.
    """
    n, lanes = len(p.dur), len(p.first) - 1
    state = _State(
        np.full(n, _PENDING, np.int64), np.zeros(n, np.int64), np.full(n, _PENDING, np.int64), waiting, missing,
        np.empty(n + 1, np.int64), np.empty(n + 1, np.int64), np.empty(n + 1, np.int64), np.empty(n + 1, np.int64),
        np.zeros(lanes, np.int64), np.zeros(lanes, np.bool_), np.empty(lanes + 1, np.int64),
        np.zeros(lanes, np.bool_), np.zeros(6, np.int64),
    )  # fmt: skip
    _run(p, state)
    return state.start, int(state.counts[_GIVEN_UP])
