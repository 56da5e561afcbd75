"""Move a run's events to where changed durations put them, keeping what the measurement showed of their causes.

Every event has two points, its start and its end. A point waits for others: a kernel's start for its launch and for
the kernel before it on the stream, a host event for the one before it on the thread, the end of a synchronising call
for the kernel it waits for, the end of a collective for the last rank to arrive. What the measurement leaves
unexplained (launch latency, gaps) stays: with unchanged durations every point comes out where it was measured, to
the nanosecond.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["Waits", "move_points"]

I64 = NDArray[np.int64]
_NEVER = -(1 << 62)
_UNWAITED = -(1 << 60)


@dataclass(frozen=True, slots=True)
class Waits:
    """Point ``target[k]`` follows ``source[k]`` by at least ``before[k]`` ns as measured, ``after[k]`` as projected."""

    source: I64
    target: I64
    before: I64
    after: I64

    @classmethod
    def join(cls, parts: list[Waits]) -> Waits:
        """All of several."""
        if not parts:
            empty = np.zeros(0, np.int64)
            return cls(empty, empty, empty, empty)
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__slots__))

    @classmethod
    def only_projected(cls, source: I64, target: I64) -> Waits:
        """Waits that did not hold in the measurement: they say nothing of a point's lag, and nothing is added to them."""
        never = np.full(len(source), _NEVER, np.int64)
        return cls(source.astype(np.int64), target.astype(np.int64), never, np.zeros(len(source), np.int64))

    @classmethod
    def at_once(cls, source: I64, target: I64) -> Waits:
        """Waits without a time of their own."""
        zero = np.zeros(len(source), np.int64)
        return cls(source.astype(np.int64), target.astype(np.int64), zero, zero)


def move_points(time: I64, waits: Waits, slack: NDArray[np.float64] | None = None) -> I64:
    """New times (int64 ns) of points measured at ``time`` under changed waits.

    A point's lag is its measured time minus the latest of its waits; it is added again to the latest of the new ones.
    Points that wait for nothing stay. Waits in a circle (clocks that disagree) are broken at the earliest point.
    ``slack`` is a factor on the lag of each point (float64; 1 by default).
    """
    n = len(time)
    order = np.argsort(waits.source, kind="stable")
    indptr = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(waits.source, minlength=n), out=indptr[1:])
    lag = np.full(n, np.iinfo(np.int64).min, np.int64)
    np.maximum.at(lag, waits.target, time[waits.source] + waits.before)
    waiting = np.bincount(waits.target, minlength=n).astype(np.int64)
    waited = lag > _UNWAITED
    lag = np.where(waited, time - lag, 0)
    if slack is not None:
        lag = np.where(lag > 0, np.rint(lag * slack), lag).astype(np.int64)
    by_time = np.argsort(time, kind="stable")
    after = np.where(waits.before == _NEVER, -lag[waits.target], waits.after)
    graph = (indptr, waits.target[order], after[order])
    moved: I64 = _propagate((time, ~waited), lag, waiting, graph, by_time)
    return moved


@njit(cache=True, nogil=True, inline="always")
def _settled(reached: int, lag: int, measured: int, stays: bool) -> int:
    """A point's new time: its lag after the latest of its waits; the measured time where it has none to wait for."""
    if reached == np.iinfo(np.int64).min:
        return measured
    return max(reached + lag, measured) if stays else reached + lag


@njit(cache=True, nogil=True)
def _propagate(
    measured: tuple[I64, NDArray[np.bool_]], lag: I64, waiting: I64, graph: tuple[I64, I64, I64], by_time: I64
) -> I64:
    """New time of each point; ``measured`` holds the old ones and whether a point may not come before its own."""
    time, stays = measured
    indptr, targets, after = graph
    n = len(lag)
    lowest = np.iinfo(np.int64).min
    new = np.full(n, lowest, np.int64)
    done = np.zeros(n, np.bool_)
    queue = np.empty(n, np.int64)
    head = tail = 0
    for point in range(n):
        if waiting[point] == 0:
            queue[tail] = point
            tail += 1
    earliest = 0
    finished = 0
    while finished < n:
        forced = head >= tail  # a circle: the earliest point goes on without what it waits for, no earlier than it did
        if not forced:
            point = queue[head]
            head += 1
        else:
            while done[by_time[earliest]]:
                earliest += 1
            point = by_time[earliest]
        if done[point]:
            continue
        done[point] = True
        finished += 1
        new[point] = _settled(new[point], lag[point], time[point], stays[point] or forced)
        for k in range(indptr[point], indptr[point + 1]):
            target = targets[k]
            if done[target]:
                continue
            new[target] = max(new[target], new[point] + after[k])
            waiting[target] -= 1
            if waiting[target] == 0:
                queue[tail] = target
                tail += 1
    return new
