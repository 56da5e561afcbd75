"""The dependency critical path of a trace: its longest chain of dependencies by duration, and every node's slack.

Longest path over data and control dependencies (and the other edges a reader found), each node weighing its
duration. Edges that close a cycle are left out (health reports them). A node's *slack* is how much longer it could
take before the chain got longer; it is 0 on the path. Method: Kelley and Walker, *Critical-Path Planning and
Scheduling*, 1959. What it does not know is waiting for a busy stream: the path bounds the time from below.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakra_core.analysis.scope import WHOLE, Scope, clip_rows
from chakra_core.graph import break_cycles, longest_path
from chakra_core.schema import Category, Domain, EdgeKind
from chakra_core.trace import Edges, Trace

__all__ = ["DependencyPath", "as_json", "dependency_path", "path_by_category"]

I64 = NDArray[np.int64]


@dataclass(frozen=True)
class DependencyPath:
    """The path and the slack of every node.

    Attributes:
        length_ns: time on the path.
        rows: its nodes, first to last, int64.
        slack_ns: int64 per row of the trace; -1 for rows outside the scope.
        weights_ns: int64 per row, the durations that were used.
        ignored_edges: edges left out because they close a cycle.
        clipped: durations were cut to a window.
    """

    length_ns: int
    rows: I64
    slack_ns: I64
    weights_ns: I64
    ignored_edges: int
    clipped: bool


def _weights(trace: Trace, scope: Scope, factors: Mapping[Category, float]) -> I64:
    """Exclusive durations, clipped and scaled: a host operator that encloses others counts only what is its own."""
    c = trace.columns
    weights = np.zeros(len(trace), np.int64)
    if trace.has_times and scope.clips:
        inside = clip_rows(trace, np.arange(len(trace), dtype=np.int64), scope)
        weights[inside.rows] = inside.dur_ns
    else:
        weights[:] = c.dur_ns
    weights[c.category == Category.ANNOTATION] = 0
    enclosed = np.flatnonzero((c.parent >= 0) & (c.domain == Domain.HOST) & _nested(trace))
    own = weights.copy()
    np.subtract.at(own, c.parent[enclosed], weights[enclosed])
    own = np.maximum(own, 0)
    if factors:
        scale = np.ones(len(Category))
        for category, factor in factors.items():
            scale[category] = factor
        own = np.rint(own * scale[c.category]).astype(np.int64)
    return own


def _nested(trace: Trace) -> NDArray[np.bool_]:
    """Rows that lie inside their parent in time on its lane: only then does the parent's duration hold theirs."""
    c = trace.columns
    parent = np.maximum(c.parent, 0)
    inside = (c.start_ns >= c.start_ns[parent]) & (c.start_ns + c.dur_ns <= c.start_ns[parent] + c.dur_ns[parent])
    return (c.parent >= 0) & (c.lane == c.lane[parent]) & inside


def _with_call_order(trace: Trace) -> Edges:
    """The trace's edges, and for host operators of a measured trace the order of calls on their thread.

    A caller precedes what it calls, and calls of one caller follow each other: without that, host time of a profile
    that records no dependencies would not be connected.
    """
    c = trace.columns
    edges = trace.edges
    if not trace.has_times or (edges.kinds == EdgeKind.CONTROL).any():
        return edges
    host = np.flatnonzero((c.domain == Domain.HOST) & (c.category != Category.ANNOTATION) & (c.lane >= 0))
    order = host[np.lexsort((-c.dur_ns[host], c.start_ns[host], c.lane[host]))]
    same = c.lane[order[1:]] == c.lane[order[:-1]]
    sources = np.concatenate([edges.sources, order[:-1][same]])
    targets = np.concatenate([edges.targets(), order[1:][same]])
    kinds = np.concatenate([edges.kinds, np.full(int(same.sum()), EdgeKind.CONTROL, np.int8)])
    return Edges.from_pairs(len(trace), sources, targets, kinds)


def dependency_path(
    trace: Trace, scope: Scope = WHOLE, *, factors: Mapping[Category, float] | None = None
) -> DependencyPath:
    """The longest chain of dependencies and every node's slack. O(V log V + E).

    Args:
        trace: the trace.
        scope: durations are clipped to its window; nodes outside weigh nothing.
        factors: what-if: multiply the durations of a category, e.g. ``{Category.COMMUNICATION: 0.5}``.
    """
    weights = _weights(trace, scope, factors or {})
    edges, closing = break_cycles(_with_call_order(trace))
    result = longest_path(edges, weights)
    slack = result.slack_ns
    if scope.clips:
        outside = np.ones(len(trace), np.bool_)
        outside[clip_rows(trace, np.arange(len(trace), dtype=np.int64), scope).rows] = False
        slack = np.where(outside, -1, slack)
    on_path = result.rows[weights[result.rows] > 0]
    return DependencyPath(result.length_ns, on_path, slack, weights, int(closing.sum()), scope.clips)


def path_by_category(trace: Trace, path: DependencyPath) -> dict[Category, int]:
    """Time on the path by category, in ns, largest first; the values sum to its length."""
    totals = np.bincount(
        trace.columns.category[path.rows], weights=path.weights_ns[path.rows], minlength=len(Category)
    ).astype(np.int64)
    pairs = [(Category(at), int(total)) for at, total in enumerate(totals) if total]
    return dict(sorted(pairs, key=lambda pair: -pair[1]))


def as_json(trace: Trace, scope: Scope = WHOLE) -> dict[str, Any]:
    """The key ``critical_path`` of the command line's ``analyze``."""
    path = dependency_path(trace, scope)
    by_category = {category.label: total for category, total in path_by_category(trace, path).items()}
    return {
        "critical_path": {
            "dependency": {
                "length_ns": path.length_ns,
                "nodes": len(path.rows),
                "by_category": by_category,
                "ignored_edges": path.ignored_edges,
            }
        }
    }
