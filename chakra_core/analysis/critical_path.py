"""The dependency critical path of a trace: its longest chain of dependencies by duration, and every node's slack.

Longest path over the trace's dependencies, each node weighing its duration; a node's *slack* is how much longer it
could take before the chain got longer, 0 on the path (Kelley and Walker, *Critical-Path Planning and Scheduling*,
1959). Edges that close a cycle are left out; health reports them.

Where times were measured, host operators enclose each other and work goes on beside them, so the chain runs over the
segments of the lanes (see ``chakra_core.segments``): what follows on one thread or stream waits for what came before,
and a dependency leads from the last segment of its source that had ended to the first of its target. Every step goes
forward in time, so the path is never longer than the trace. Where times are reconstructed or simulated, durations are
taken as they are and nothing but dependencies counts; waiting for a busy lane is not part of that path, which bounds
the time from below.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakra_core.analysis import measured_path
from chakra_core.analysis.scope import WHOLE, Scope, clip_rows
from chakra_core.graph import break_cycles, longest_path
from chakra_core.schema import NO_TIME, Category, EdgeKind, TimeKind
from chakra_core.segments import Segments, cut
from chakra_core.trace import Edges, Trace

__all__ = ["DependencyPath", "as_json", "dependency_path", "path_by_category"]

I64 = NDArray[np.int64]


@dataclass(frozen=True)
class DependencyPath:
    """The path and the slack of every node.

    Attributes:
        length_ns: time on the path.
        rows: its nodes, first to last, int64; an operator that goes on after what it called appears again.
        spent_ns: int64, parallel to ``rows``: time on the path there; sums to the length.
        slack_ns: int64 per row of the trace; -1 for rows outside the scope or without a time.
        ignored_edges: edges left out because they close a cycle.
        clipped: durations were cut to a window.
    """

    length_ns: int
    rows: I64
    spent_ns: I64
    slack_ns: I64
    ignored_edges: int
    clipped: bool


def dependency_path(
    trace: Trace, scope: Scope = WHOLE, *, factors: Mapping[Category, float] | None = None
) -> DependencyPath:
    """The longest chain of dependencies and every node's slack. O(V log V + E).

    Args:
        trace: the trace.
        scope: durations are clipped to its window; nodes outside it, its lanes and its selection weigh nothing.
        factors: what-if: multiply the durations of a category, e.g. ``{Category.COMMUNICATION: 0.5}``.
    """
    edges, closing = break_cycles(trace.edges)
    measured = trace.meta.time_kind == TimeKind.MEASURED and trace.has_times
    find = _over_segments if measured else _over_nodes
    length, rows, spent, slack = find(trace, edges, scope, _scale(factors or {}))
    if scope.clips:
        outside = np.ones(len(trace), np.bool_)
        outside[clip_rows(trace, np.arange(len(trace), dtype=np.int64), scope).rows] = False
        slack = np.where(outside, -1, slack)
    return DependencyPath(length, rows[spent > 0], spent[spent > 0], slack, int(closing.sum()), scope.clips)


def _scale(factors: Mapping[Category, float]) -> NDArray[np.float64]:
    scale = np.ones(len(Category))
    for category, factor in factors.items():
        scale[category] = factor
    return scale


def _weigh(durations: I64, category: NDArray[np.int8], scale: NDArray[np.float64]) -> I64:
    return durations if (scale == 1.0).all() else np.rint(durations * scale[category]).astype(np.int64)


def _over_nodes(trace: Trace, edges: Edges, scope: Scope, scale: NDArray[np.float64]) -> tuple[int, I64, I64, I64]:
    c = trace.columns
    weights = np.zeros(len(trace), np.int64)
    if scope.clips:
        inside = clip_rows(trace, np.arange(len(trace), dtype=np.int64), scope)
        weights[inside.rows] = inside.dur_ns
    else:
        weights[:] = c.dur_ns
    weights[c.category == Category.ANNOTATION] = 0
    weights = _weigh(weights, c.category, scale)
    result = longest_path(edges, weights)
    return result.length_ns, result.rows, weights[result.rows], result.slack_ns


def _over_segments(trace: Trace, edges: Edges, scope: Scope, scale: NDArray[np.float64]) -> tuple[int, I64, I64, I64]:
    c = trace.columns
    used = np.flatnonzero((c.start_ns != NO_TIME) & (c.lane >= 0) & (c.category != Category.ANNOTATION))
    parts = cut(used, c.lane.astype(np.int64), c.start_ns, c.start_ns + c.dur_ns)
    start, end = parts.start_ns, parts.end_ns
    if scope.window is not None:
        start, end = np.clip(start, *scope.window), np.clip(end, *scope.window)
    weights = _weigh(end - start, c.category[parts.row], scale)
    if scope.narrows:
        chosen = np.zeros(len(trace), np.bool_)
        chosen[clip_rows(trace, used, scope.timeless).rows] = True
        weights[~chosen[parts.row]] = 0
    order = _segment_edges(parts, edges, c.start_ns, strict=False)
    if break_cycles(order)[1].any():
        order = _segment_edges(parts, edges, c.start_ns, strict=True)
    result = longest_path(order, weights)
    slack = np.full(len(trace), np.iinfo(np.int64).max)
    np.minimum.at(slack, parts.row, result.slack_ns)
    slack[parts.first < 0] = -1
    return result.length_ns, parts.row[result.rows], weights[result.rows], slack


def _segment_edges(parts: Segments, edges: Edges, start_ns: I64, *, strict: bool) -> Edges:
    """Order within lanes, and each dependency between the segments that keep it forward in time.

    Events of no length at one moment may wait for each other in a circle; ``strict`` keeps, of the dependencies
    within a moment, only those that go with the order of the segments, and so leaves no circle.
    """
    follow = np.flatnonzero(parts.lane[1:] == parts.lane[:-1])
    sources, targets = edges.sources.astype(np.int64), edges.targets().astype(np.int64)
    known = (parts.first[sources] >= 0) & (parts.first[targets] >= 0)
    sources, targets, kinds = sources[known], targets[known], edges.kinds[known]
    latest = _ended_by(parts, parts.last[sources], start_ns[targets])
    kept = latest >= 0
    if strict:
        first = parts.first[targets]
        kept &= (parts.start_ns[latest] < parts.start_ns[first]) | (latest < first)
    return Edges.from_pairs(
        len(parts.row),
        np.concatenate([follow, latest[kept]]),
        np.concatenate([follow + 1, parts.first[targets[kept]]]),
        np.concatenate([np.full(len(follow), EdgeKind.CONTROL, np.int8), kinds[kept]]),
    )


def _ended_by(parts: Segments, segment: I64, moment: I64) -> I64:
    """For each segment the last on its lane, itself or earlier, that has ended by a moment; -1 where none has."""
    base = np.flatnonzero(np.r_[True, parts.lane[1:] != parts.lane[:-1]]) if len(parts.lane) else np.zeros(0, np.int64)
    begin = base[np.searchsorted(base, segment, side="right") - 1] if len(base) else segment
    low, high = begin - 1, segment.copy()
    while (open_ := low < high).any():
        middle = (low + high + 1) // 2
        ended = parts.end_ns[np.maximum(middle, 0)] <= moment
        low = np.where(open_ & ended, middle, low)
        high = np.where(open_ & ~ended, middle - 1, high)
    return np.where(low < begin, -1, low)


def path_by_category(trace: Trace, path: DependencyPath) -> dict[Category, int]:
    """Time on the path by category, in ns, largest first; the values sum to its length."""
    totals = np.zeros(len(Category), np.int64)
    np.add.at(totals, trace.columns.category[path.rows], path.spent_ns)
    pairs = [(Category(at), int(total)) for at, total in enumerate(totals) if total]
    return dict(sorted(pairs, key=lambda pair: -pair[1]))


def as_json(trace: Trace, scope: Scope = WHOLE) -> dict[str, Any]:
    """The key ``critical_path`` of the command line's ``analyze``."""
    path = dependency_path(trace, scope)
    by_category = {category.label: total for category, total in path_by_category(trace, path).items()}
    return {
        "critical_path": {
            "measured": measured_path.as_json(trace, scope),
            "dependency": {
                "length_ns": path.length_ns,
                "nodes": measured_path.nodes_on(path.rows, len(trace)),
                "by_category": by_category,
                "ignored_edges": path.ignored_edges,
            },
        }
    }
