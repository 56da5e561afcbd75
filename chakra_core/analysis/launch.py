"""Launches: how long device work waits for its start, how many launches are outstanding, and where the host is too slow.

Definitions (those of HolisticTraceAnalysis where it has them):

* *delay* of a launch: from the end of the call to the start of what it launched; 0 where that starts earlier.
* *queue length* of a stream: launched and not yet started. It rises when a call begins and falls when its work starts.
* *short* kernel: shorter than the call that launched it, of calls that take at most ``SLOW_CALL_NS``: a thread cannot
  launch such kernels as fast as they run.
* *launch-bound* interval: a run of kernels on one stream, each launched only after the one before it had ended.
* *host-bound share* of a stream: the part of its span in which it stands still because the next launch had not begun.

A call that launches several kernels (a CUDA or HIP graph, say) has one delay, that of the first of them; each of its
kernels counts in the queue.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakra_core.analysis.scope import WHOLE, Scope, clip_rows
from chakra_core.schema import NO_TIME, Domain
from chakra_core.trace import Trace

__all__ = ["MIN_RUN", "SLOW_CALL_NS", "LaunchBound", "Launches", "StreamQueue", "as_json", "launches"]

I64 = NDArray[np.int64]

MIN_RUN = 4
"""Kernels in a row that make a launch-bound interval."""

SLOW_CALL_NS = 50_000
"""Calls that take longer are slow for a reason of their own (HTA's threshold)."""

_LISTED = 50


@dataclass(frozen=True, slots=True)
class StreamQueue:
    """One stream: its queue length as a step function, and how much of it the host held up.

    Attributes:
        lane: index into ``Trace.lanes``.
        time_ns: int64, when the length changes (absolute, ascending, each moment once).
        length: int64, the length from that moment on.
        longest: the greatest length.
        mean: mean over time, from the first change to the last.
        span_ns: from the first start to the last end of its kernels (inside the window of the scope).
        host_ns: time in which it stood still and the next launch had not begun.
    """

    lane: int
    time_ns: I64
    length: I64
    longest: int
    mean: float
    span_ns: int
    host_ns: int

    @property
    def host_bound(self) -> float:
        """Share of the span held up by the host."""
        return self.host_ns / self.span_ns if self.span_ns else 0.0


@dataclass(frozen=True, slots=True)
class LaunchBound:
    """A run of kernels each launched after the one before had ended; ``row`` is the first of them."""

    lane: int
    row: int
    kernels: int
    start_ns: int
    end_ns: int
    waited_ns: int


@dataclass(frozen=True)
class Launches:
    """Launches of one trace.

    Attributes:
        call: int64, row of each call that launched something.
        row: int64, the first work that it launched.
        work: int64, how many it launched.
        delay_ns: int64, >= 0.
        short: bool, whether that work is one kernel that is shorter than the call.
        unknown: device work whose launch the trace does not tell.
        streams: per stream, in lane order.
        launch_bound: intervals, most time waited first.
        reason: in words, why there is nothing; empty otherwise.
        clipped: whether only some of the trace was looked at.
    """

    call: I64
    row: I64
    work: I64
    delay_ns: I64
    short: NDArray[np.bool_]
    unknown: int
    streams: tuple[StreamQueue, ...]
    launch_bound: tuple[LaunchBound, ...]
    reason: str
    clipped: bool

    @property
    def graphs(self) -> NDArray[np.bool_]:
        """Which calls launched more than one piece of work (graphs)."""
        return self.work > 1

    @property
    def host_bound(self) -> float:
        """Share of the streams' spans held up by the host, together."""
        span = sum(stream.span_ns for stream in self.streams)
        return sum(stream.host_ns for stream in self.streams) / span if span else 0.0


def launches(trace: Trace, scope: Scope = WHOLE) -> Launches:
    """Launches of the device work in a scope. O(n log n).

    Work counts that lies (partly) in the window; delays are not cut there, queue lengths and waits are.
    """
    inside = clip_rows(trace, trace.device_rows, scope)
    c = trace.columns
    rows = inside.rows[np.lexsort((inside.start_ns, c.lane[inside.rows]))]
    call = _calls(trace, rows)
    known = call >= 0
    order = np.lexsort((c.start_ns[rows], call))
    order = order[known[order]]
    first = np.r_[True, call[order][1:] != call[order][:-1]] if len(order) else np.zeros(0, np.bool_)
    calls, heads = call[order][first], rows[order][first]
    work = np.diff(np.r_[np.flatnonzero(first), len(order)])
    delay = np.maximum(c.start_ns[heads] - c.start_ns[calls] - c.dur_ns[calls], 0)
    short = (work == 1) & (c.dur_ns[heads] < c.dur_ns[calls]) & (c.dur_ns[calls] <= SLOW_CALL_NS)
    streams, bound = _streams(trace, rows, call, scope) if known.any() else ((), ())
    reason = _reason(trace, rows, known)
    return Launches(calls, heads, work, delay, short, int((~known).sum()), streams, bound, reason, scope.clips)


def _reason(trace: Trace, rows: I64, known: NDArray[np.bool_]) -> str:
    if not len(trace.device_rows):
        return "the trace records no device work"
    if not len(rows):
        return "no device work with a start time lies in the chosen range"
    return "" if known.any() else "the trace does not tell which host call launched which device work"


def _calls(trace: Trace, rows: I64) -> I64:
    """Row of the host call that launched each device row; -1: unknown, or without a time."""
    c = trace.columns
    parent = c.parent[rows].astype(np.int64)
    known = parent >= 0
    known[known] = (c.domain[parent[known]] == Domain.HOST) & (c.start_ns[parent[known]] != NO_TIME)
    return np.where(known, parent, -1)


def _streams(
    trace: Trace, rows: I64, call: I64, scope: Scope
) -> tuple[tuple[StreamQueue, ...], tuple[LaunchBound, ...]]:
    """Queue and launch-bound intervals of each stream; ``rows`` are ordered by lane and start."""
    c = trace.columns
    lanes = c.lane[rows]
    bounds = np.r_[0, np.flatnonzero(lanes[1:] != lanes[:-1]) + 1, len(rows)]
    streams, intervals = [], []
    for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        mine, by = rows[low:high], call[low:high]
        start, end = c.start_ns[mine], c.start_ns[mine] + c.dur_ns[mine]
        reached = np.maximum.accumulate(end)
        late = np.zeros(len(mine), np.bool_)
        late[1:] = (by[1:] >= 0) & (c.start_ns[by[1:]] > reached[:-1])
        waited = np.zeros(len(mine), np.int64)
        waited[1:] = np.maximum(_within(start[1:], scope) - _within(reached[:-1], scope), 0)
        waited[~late] = 0
        time, length = _queue(c.start_ns[by[by >= 0]], start[by >= 0], scope)
        span = int(_within(reached[-1:], scope)[0] - _within(start[:1], scope)[0])
        steps = np.diff(time)
        mean = float((length[:-1] * steps).sum() / steps.sum()) if steps.sum() else 0.0
        longest = int(length.max(initial=0))
        streams.append(StreamQueue(int(lanes[low]), time, length, longest, mean, span, int(waited.sum())))
        intervals += _runs(int(lanes[low]), mine, late, waited, reached)
    return tuple(streams), tuple(sorted(intervals, key=lambda run: (-run.waited_ns, run.start_ns)))


def _within(moment: I64, scope: Scope) -> I64:
    return moment if scope.window is None else np.clip(moment, *scope.window)


def _queue(issued: I64, started: I64, scope: Scope) -> tuple[I64, I64]:
    """The step function of a queue: work that starts before its call begins (clocks that disagree) never queues."""
    good = started >= issued
    moments = np.concatenate([_within(issued[good], scope), _within(started[good], scope)])
    change = np.repeat(np.array([1, -1], np.int64), int(good.sum()))
    order = np.argsort(moments, kind="stable")
    moments, length = moments[order], np.cumsum(change[order])
    last = np.r_[moments[1:] != moments[:-1], True] if len(moments) else np.zeros(0, np.bool_)
    return moments[last], length[last]


def _runs(lane: int, rows: I64, late: NDArray[np.bool_], waited: I64, reached: I64) -> list[LaunchBound]:
    """Runs of kernels that came late, at least ``MIN_RUN`` long."""
    edge = np.flatnonzero(np.diff(np.r_[False, late, False].astype(np.int8)))
    begins, ends = edge[::2], edge[1::2]
    total = np.r_[0, np.cumsum(waited)]
    return [
        LaunchBound(lane, int(rows[b]), e - b, int(reached[b - 1]), int(reached[e - 1]), int(total[e] - total[b]))
        for b, e in zip(begins.tolist(), ends.tolist(), strict=True)
        if e - b >= MIN_RUN
    ]


def as_json(trace: Trace, scope: Scope = WHOLE) -> dict[str, Any]:
    """The key ``launch`` of the command line's ``analyze``."""
    result = launches(trace, scope)
    c = trace.columns
    delays = result.delay_ns
    middle, high = np.percentile(delays, [50, 95]) if len(delays) else (0, 0)
    short = result.row[result.short]
    return {
        "launch": {
            "calls": len(result.call),
            "graph_calls": int(result.graphs.sum()),
            "graph_kernels": int(result.work[result.graphs].sum()),
            "kernels_without_launch": result.unknown,
            "delay": {
                "mean_ns": int(delays.mean()) if len(delays) else 0,
                "median_ns": int(middle),
                "p95_ns": int(high),
                "max_ns": int(delays.max(initial=0)),
            },
            "short_kernels": {"count": len(short), "total_ns": int(c.dur_ns[short].sum())},
            "host_bound_share": result.host_bound,
            "queues": [
                {
                    "stream": trace.lanes[stream.lane].name if stream.lane >= 0 else "",
                    "device": trace.lanes[stream.lane].device if stream.lane >= 0 else -1,
                    "longest": stream.longest,
                    "mean": stream.mean,
                    "host_bound_share": stream.host_bound,
                }
                for stream in result.streams
            ],
            "launch_bound": {
                "intervals": len(result.launch_bound),
                "kernels": sum(run.kernels for run in result.launch_bound),
                "waited_ns": sum(run.waited_ns for run in result.launch_bound),
                "longest": [
                    {"start_ns": run.start_ns, "end_ns": run.end_ns, "kernels": run.kernels, "waited_ns": run.waited_ns}
                    for run in result.launch_bound[:_LISTED]
                ],
            },
            "reason": result.reason,
            "clipped": result.clipped,
        }
    }
