"""The measured critical path: the longest chain through what host threads, launches and device streams did.

Every event has a begin and an end point. The edges between points, and what each weighs:

* *host*: from point to point along a thread, weighing the time between, owned by the innermost operator or call that
  runs. Between two operators of the outermost level it weighs nothing (unless ``between_operators`` asks for it):
  the trace does not say what the thread did there.
* *device*: from the begin of a kernel or copy to its end, weighing its duration.
* *launch*, *idle*, *sync*: into the begin of device work. Of its launching call, the work before it on its stream and
  the work on other streams that it waits for, the one that came last decided the start: its edge weighs the rest of
  the wait (from the begin of the call, as in HolisticTraceAnalysis). The other edges weigh nothing and keep the order.
* *sync*: from the work that a synchronising call waits for to the end of that call, weighing what the call took after
  that work had ended. The call's own time does not count then. A copy that ends before its own call returns was
  waited for likewise.
* Where the trace does not say what a stream waited for, but makes streams wait, work that starts just when work on
  another stream has ended is taken to have waited for it (``_waits.LIKELY_NS``).
* *inter-thread*, data and control dependencies: order only.

Every edge leads forward in time and weighs at most the time it spans, so the path is never longer than the trace.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakra_core.analysis._points import Built, Given, Options, backward, build, forward, order_points, trace_back
from chakra_core.analysis._waits import find_waits
from chakra_core.analysis.scope import WHOLE, Scope, clip_rows
from chakra_core.schema import NO_TIME, Category, Domain, LaneKind, TimeKind
from chakra_core.trace import Trace

__all__ = [
    "CAUSES",
    "MeasuredGraph",
    "MeasuredPath",
    "as_json",
    "causes_of",
    "measured_graph",
    "measured_path",
    "solve",
]

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]

CAUSES: tuple[str, ...] = (
    "host", "between operators", "launch", "idle", "sync", "compute", "communication", "copy", "data loading",
)  # fmt: skip
"""What a nanosecond of the path is spent on; the place in this list is the cause's number."""

_COMPUTE, _COMMUNICATION, _COPY, _LOADING = 5, 6, 7, 8
_LOADS = ("dataloader", "data_loader")


@dataclass(frozen=True)
class MeasuredGraph:
    """Points and edges, by the point that an edge leads to (all parallel arrays; see ``_points.Built``).

    Attributes:
        rows: row of the trace per slot.
        time_ns: time of each point.
        edges: the edges.
        point_slot: slot of each point.
        reason: in words, why there is nothing; empty otherwise.
        clipped: whether only some of the trace was looked at.
    """

    rows: I64
    time_ns: I64
    edges: Built
    point_slot: I32
    reason: str
    clipped: bool

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class MeasuredPath:
    """The longest chain, piece by piece.

    Attributes:
        length_ns: sum of what its pieces weigh.
        elapsed_ns: time from its first to its last point; what exceeds the length is time that nothing in the trace
            explains, between operators mostly.
        rows: int64, row of the trace that each piece belongs to; -1: time of no node.
        cause: int8, index into ``CAUSES`` of each piece.
        spent_ns: int64, what each piece weighs (> 0); the pieces sum to the length.
        from_ns: int64, when each piece begins (absolute).
        to_ns: int64, when it ends.
        slack_ns: int64 per row of the trace: how much longer it may take before the path gets longer; -1: not looked at.
        reason: in words, why there is no path; empty otherwise.
        clipped: whether only some of the trace was looked at.
    """

    length_ns: int
    elapsed_ns: int
    rows: I64
    cause: NDArray[np.int8]
    spent_ns: I64
    from_ns: I64
    to_ns: I64
    slack_ns: I64
    reason: str
    clipped: bool


def measured_graph(
    trace: Trace, scope: Scope = WHOLE, *, between_operators: bool = False, inter_thread: bool = True,
    order_only: bool = True,
) -> MeasuredGraph:  # fmt: skip
    """Points and edges of a trace. O(n log n).

    Args:
        trace: a trace whose times were measured.
        scope: its window chooses the host events that start in it and the device work that they launch (device work
            without a known launch: by its start); nodes outside its lanes and selection weigh nothing.
        between_operators: count the time of a thread between its outermost operators.
        inter_thread: follow flows between threads and dependencies that the trace states.
        order_only: keep the edges into device work that did not decide its start. They weigh nothing, but hold the
            order when something is made faster.
    """
    reason = _why_not(trace)
    rows = np.zeros(0, np.int64) if reason else _used(trace, scope)
    if not len(rows):
        return _nothing(reason or "nothing of the trace that has a time lies in the chosen range", scope)
    c = trace.columns
    start = c.start_ns[rows]
    first, last, time = order_points(start, start + c.dur_ns[rows])
    waits = find_waits(trace, rows, first, last, inter_thread=inter_thread)
    given = Given(
        start, start + c.dur_ns[rows], c.lane[rows], c.domain[rows] == Domain.DEVICE, _own_cause(trace, rows),
        waits.launch, _outside_ends(trace, rows), waits.blocked, waits.source, waits.target, waits.weight,
    )  # fmt: skip
    edges = build(given, Options(between_operators, order_only), len(trace.lanes), first, last, time)
    if scope.narrows:
        edges = edges._replace(weight=np.where(_outside(trace, rows, scope)[edges.slot], 0, edges.weight))
    point_slot = np.empty(len(time), np.int32)
    point_slot[first] = point_slot[last] = np.arange(len(rows), dtype=np.int32)
    return MeasuredGraph(rows, time, edges, point_slot, "", scope.clips)


def _why_not(trace: Trace) -> str:
    if trace.meta.time_kind != TimeKind.MEASURED:
        return f"the times of this trace are {trace.meta.time_kind}: only measured times tell what waited for what"
    return "" if trace.has_times else "no node of the trace has a start time"


def _nothing(reason: str, scope: Scope) -> MeasuredGraph:
    none, short = np.zeros(0, np.int64), np.zeros(0, np.int32)
    edges = Built(np.zeros(1, np.int64), short, none, np.zeros(0, np.int8), short)
    return MeasuredGraph(none, none, edges, short, reason, scope.clips)


def _used(trace: Trace, scope: Scope) -> I64:
    """Rows with points: operators and calls on threads, work on streams; frames of Python only where nothing else is."""
    c = trace.columns
    threads = np.array([*(lane.kind != LaneKind.ANNOTATION for lane in trace.lanes), False], np.bool_)[c.lane]
    timed = (c.start_ns != NO_TIME) & (c.lane >= 0)
    host = (c.domain == Domain.HOST) & timed & threads
    operators = host & ((c.category == Category.HOST_OP) | (c.category == Category.RUNTIME))
    chosen = operators if operators.any() else host & (c.category == Category.PYTHON)
    device = np.zeros(len(trace), np.bool_)
    device[trace.device_rows] = True
    device &= timed
    if scope.window is not None:
        low, high = scope.window
        inside = (c.start_ns >= low) & (c.start_ns < high)
        launch = np.where(c.parent >= 0, c.parent, -1)
        launched = (launch >= 0) & operators[launch]
        chosen = chosen & inside
        device &= np.where(launched, inside[launch], inside)
    return np.flatnonzero(chosen | device)


def _outside_ends(trace: Trace, rows: I64) -> I64:
    """When the last work on its stream ended before each row began, of the work that is not among the rows.

    A step's first kernels may wait for those of the step before; that wait is not the launch's.
    """
    c = trace.columns
    ends = np.full(len(rows), np.iinfo(np.int64).min)
    others = np.zeros(len(trace), np.bool_)
    others[trace.device_rows] = True
    others[rows] = False
    others &= (c.start_ns != NO_TIME) & (c.lane >= 0)
    places = np.flatnonzero(c.domain[rows] == Domain.DEVICE)
    for lane in np.unique(c.lane[others]).tolist():
        work = np.flatnonzero(others & (c.lane == lane))
        ended = np.sort(c.start_ns[work] + c.dur_ns[work])
        mine = places[c.lane[rows[places]] == lane]
        at = np.searchsorted(ended, c.start_ns[rows[mine]], side="right") - 1
        ends[mine] = np.where(at >= 0, ended[at], ends[mine])
    return ends


def _own_cause(trace: Trace, rows: I64) -> NDArray[np.int8]:
    table = np.full(len(Category), _COMPUTE, np.int8)
    table[Category.COMMUNICATION] = _COMMUNICATION
    table[[Category.COPY, Category.MEMSET]] = _COPY
    c = trace.columns
    loads = np.array([any(word in name.lower() for word in _LOADS) for name in trace.names], np.bool_)
    host = np.where(loads[c.name[rows]], _LOADING, 0).astype(np.int8)
    return np.where(c.domain[rows] == Domain.DEVICE, table[c.category[rows]], host)


def _outside(trace: Trace, rows: I64, scope: Scope) -> NDArray[np.bool_]:
    """Per slot, and for none (the last entry): whether it is left out for what it is."""
    chosen = np.zeros(len(trace), np.bool_)
    chosen[clip_rows(trace, rows, scope.timeless).rows] = True
    return np.r_[~chosen[rows], True]


def solve(graph: MeasuredGraph, nodes: int, weight: I64 | None = None) -> MeasuredPath:
    """The longest path of a graph, with other weights of its edges if given. O(points + edges).

    Args:
        graph: from ``measured_graph``.
        nodes: number of nodes of the trace (the length of ``slack_ns``).
        weight: int64 ns per edge, >= 0.
    """
    edges = graph.edges
    weight = edges.weight if weight is None else weight
    reached, via = np.zeros(len(graph.time_ns), np.int64), np.full(len(graph.time_ns), -1, np.int64)
    slack = np.full(nodes, -1, np.int64)
    none = np.zeros(0, np.int64)
    if not len(graph):
        return MeasuredPath(0, 0, none, np.zeros(0, np.int8), none, none, none, slack, graph.reason, graph.clipped)
    point = int(forward(edges.ptr, edges.source, weight, reached, via))
    total = int(reached[point])
    taken = trace_back(point, edges.source, via)
    own = np.full(len(graph), np.iinfo(np.int64).max)
    backward(edges.ptr, edges.source, weight, edges.slot, reached, total, np.zeros_like(reached), own)
    slack[graph.rows] = np.where(own == np.iinfo(np.int64).max, total, own)
    begin, target = edges.source[taken], np.searchsorted(edges.ptr, taken, side="right") - 1
    elapsed = int(graph.time_ns[point] - graph.time_ns[begin[0]]) if len(taken) else 0
    kept = weight[taken] > 0
    taken, begin, target = taken[kept], begin[kept], target[kept]
    slot = edges.slot[taken]
    return MeasuredPath(
        total, elapsed, np.where(slot >= 0, graph.rows[slot], -1), edges.cause[taken], weight[taken],
        graph.time_ns[begin], graph.time_ns[target], slack, "", graph.clipped,
    )  # fmt: skip


def length_of(graph: MeasuredGraph) -> int:
    """Length of the longest path alone, in ns: several times faster than ``solve``."""
    edges = graph.edges
    reached, via = np.zeros(len(graph.time_ns), np.int64), np.empty(len(graph.time_ns), np.int64)
    return int(reached[forward(edges.ptr, edges.source, edges.weight, reached, via)]) if len(graph) else 0


def measured_path(trace: Trace, scope: Scope = WHOLE, *, between_operators: bool = False) -> MeasuredPath:
    """The measured critical path of a trace and every node's slack. O(n log n)."""
    return solve(measured_graph(trace, scope, between_operators=between_operators), len(trace))


def causes_of(path: MeasuredPath) -> dict[str, int]:
    """Time on the path by cause, in ns, in the order of ``CAUSES``; the values sum to its length."""
    totals = np.zeros(len(CAUSES), np.int64)
    np.add.at(totals, path.cause, path.spent_ns)
    return {cause: int(total) for cause, total in zip(CAUSES, totals, strict=True) if total}


def nodes_on(rows: I64, nodes: int) -> int:
    """How many different nodes a path visits; rows of -1 are none."""
    met = np.zeros(nodes + 1, np.bool_)
    met[rows] = True
    return int(met[:nodes].sum())


def as_json(trace: Trace, scope: Scope = WHOLE) -> dict[str, Any]:
    """What the command line's ``analyze`` says under ``critical_path.measured``."""
    path = measured_path(trace, scope)
    return {
        "length_ns": path.length_ns,
        "elapsed_ns": path.elapsed_ns,
        "nodes": nodes_on(path.rows, len(trace)),
        "by_cause": causes_of(path),
        "reason": path.reason,
        "clipped": path.clipped,
    }
