"""Bounded pictures of a trace's graph: groups, the neighbourhood of a node, the critical path, a path between two."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from chakra_core.graph import neighbourhood, shortest_path
from chakra_core.grouping import Grouping
from chakra_core.schema import Category, Domain, EdgeKind
from chakra_core.trace import Trace

__all__ = [
    "MAX_ELEMENTS",
    "GraphView",
    "ViewEdge",
    "ViewNode",
    "chain_view",
    "group_view",
    "neighbourhood_view",
    "path_view",
]

I64 = NDArray[np.int64]

MAX_ELEMENTS = 1500
"""Most nodes and edges in a picture."""

_MAX_NODES = 500


@dataclass(frozen=True, slots=True)
class ViewNode:
    """One box: a node of the trace, or a group of them.

    Attributes:
        key: tree node (a row, or a group of the grouping).
        label: what to write on it.
        rows: how many nodes of the trace it stands for.
        dur_ns: their summed duration; for an operator with its callees, only its own.
        device_ns: the part of it on devices.
        category: the one with the most time.
        slack_ns: smallest slack of its nodes; -1 where slack was not given.
        is_group: it can be expanded.
        row: a row to select for it: the node itself, or the longest one of the group.
    """

    key: int
    label: str
    rows: int
    dur_ns: int
    device_ns: int
    category: Category
    slack_ns: int
    is_group: bool
    row: int


@dataclass(frozen=True, slots=True)
class ViewEdge:
    """Dependencies from one box to another: how many, and of which kind most are."""

    source: int
    target: int
    count: int
    kind: EdgeKind


@dataclass(frozen=True)
class GraphView:
    """A picture: boxes, arrows, how much of the graph it shows, and what was left out."""

    nodes: tuple[ViewNode, ...]
    edges: tuple[ViewEdge, ...]
    rows_shown: int
    rows_total: int
    edges_total: int
    truncated: str = ""


def group_view(
    trace: Trace, grouping: Grouping, expanded: Iterable[int] = (), *, slack_ns: I64 | None = None
) -> GraphView:
    """The groups, with those in ``expanded`` opened. O(n + E) over the trace, bounded in its result."""
    stands = grouping.representatives(expanded)
    of_row = stands[: len(trace)]
    is_shown = np.zeros(len(stands), np.bool_)
    is_shown[of_row] = True
    keys = np.flatnonzero(is_shown)
    place = (np.cumsum(is_shown) - 1)[of_row]
    keys, place, cut = _largest(trace, keys, place)
    nodes = _boxes(trace, grouping, keys, place, slack_ns)
    sources, targets = trace.edges.sources, trace.edges.targets()
    a, b = place[sources], place[targets]
    kept = (a != b) & (a >= 0) & (b >= 0)
    edges, cut_edges = _arrows(keys, a[kept], b[kept], trace.edges.kinds[kept], MAX_ELEMENTS - len(nodes))
    calls = _calls(grouping, keys.tolist(), edges)
    room = max(MAX_ELEMENTS - len(nodes) - len(edges), 0)
    cut_calls = f"{len(calls) - room:,} of {len(calls):,} arrows of calls are left out" if len(calls) > room else ""
    edges += calls[:room]
    said = "; ".join(text for text in (cut, cut_edges, cut_calls) if text)
    return GraphView(nodes, edges, int((place >= 0).sum()), len(trace), len(trace.edges), said)


def _calls(grouping: Grouping, keys: list[int], edges: tuple[ViewEdge, ...]) -> tuple[ViewEdge, ...]:
    """Arrows from an opened operator to what it called, where no dependency says so already."""
    shown = set(keys)
    known = {(edge.source, edge.target) for edge in edges}
    found = []
    for key in keys:
        caller = int(grouping.up[key])
        while caller >= grouping.rows:
            caller = int(grouping.up[caller])
        if caller in shown and (caller, key) not in known:
            found.append(ViewEdge(caller, key, 1, EdgeKind.CONTROL))
    return tuple(found)


def _largest(trace: Trace, keys: I64, place: I64) -> tuple[I64, I64, str]:
    """Keep the boxes with the most time where there are too many."""
    if len(keys) <= _MAX_NODES:
        return keys, place, ""
    spent = np.bincount(place, weights=trace.columns.dur_ns, minlength=len(keys))
    chosen = np.sort(np.argsort(-spent, kind="stable")[:_MAX_NODES])
    renumber = np.full(len(keys), -1, np.int64)
    renumber[chosen] = np.arange(len(chosen))
    text = f"{len(keys) - len(chosen):,} of {len(keys):,} boxes with the least time are left out"
    return keys[chosen], renumber[place], text


def _boxes(trace: Trace, grouping: Grouping, keys: I64, place: I64, slack_ns: I64 | None) -> tuple[ViewNode, ...]:
    c = trace.columns
    inside = place >= 0
    at, n = place[inside], len(keys)
    dur = c.dur_ns[inside].astype(np.float64)
    rows = np.bincount(at, minlength=n)
    total = np.bincount(at, weights=dur, minlength=n)
    device = np.bincount(at, weights=dur * (c.domain[inside] == Domain.DEVICE), minlength=n)
    weight = np.bincount(at * len(Category) + c.category[inside], weights=dur + 1, minlength=n * len(Category))
    category = weight.reshape(n, len(Category)).argmax(axis=1)
    most = np.full(n, -1, np.int64)
    np.maximum.at(most, at, c.dur_ns[inside])
    of_most = np.flatnonzero(c.dur_ns[inside] == most[at])
    longest = np.full(n, -1, np.int64)
    longest[at[of_most]] = np.flatnonzero(inside)[of_most]
    slack = np.full(n, -1, np.int64)
    if slack_ns is not None:
        least = np.full(n, np.iinfo(np.int64).max)
        known = slack_ns[inside] >= 0
        np.minimum.at(least, at[known], slack_ns[inside][known])
        slack = np.where(least == np.iinfo(np.int64).max, -1, least)
    parents = grouping.has_children()
    return tuple(
        ViewNode(
            key, trace.name_of(int(longest[i])) if rows[i] == 1 else grouping.label(trace, key), int(rows[i]), int(total[i]), int(device[i]), Category(int(category[i])),
            int(slack[i]), bool(rows[i] > 1 and parents[key]), key if key < len(trace) else int(longest[i]),
        )
        for i, key in enumerate(keys.tolist())
    )  # fmt: skip


def _arrows(
    keys: I64, a: NDArray[np.int64], b: NDArray[np.int64], kinds: NDArray[np.int8], most: int
) -> tuple[tuple[ViewEdge, ...], str]:
    if not len(a):
        return (), ""
    by_kind = np.bincount((a * len(keys) + b) * len(EdgeKind) + kinds, minlength=len(keys) ** 2 * len(EdgeKind))
    by_kind = by_kind.reshape(-1, len(EdgeKind))
    both = np.flatnonzero(by_kind.any(axis=1))  # at most _MAX_NODES squared pairs, so counting beats sorting
    counts = by_kind[both].sum(axis=1)
    kind = by_kind[both].argmax(axis=1)
    chosen = np.sort(np.argsort(-counts, kind="stable")[: max(most, 0)])
    said = (
        f"{len(both) - len(chosen):,} of {len(both):,} arrows with the fewest dependencies are left out"
        if len(chosen) < len(both)
        else ""
    )
    edges = tuple(
        ViewEdge(
            int(keys[both[i] // len(keys)]), int(keys[both[i] % len(keys)]), int(counts[i]), EdgeKind(int(kind[i]))
        )
        for i in chosen.tolist()
    )
    return edges, said


def _rows_view(trace: Trace, grouping: Grouping, rows: I64, slack_ns: I64 | None, said: str) -> GraphView:
    """Single nodes of the trace and the dependencies among them."""
    place = np.full(len(trace), -1, np.int64)
    keys = np.sort(rows)
    place[keys] = np.arange(len(keys))
    boxes = _boxes(trace, grouping, keys, place, slack_ns)
    nodes = tuple(replace(node, is_group=False, rows=1) for node in boxes)
    sources, targets = trace.edges.sources, trace.edges.targets()
    kept = (place[sources] >= 0) & (place[targets] >= 0)
    edges, cut = _arrows(
        keys, place[sources][kept], place[targets][kept], trace.edges.kinds[kept], MAX_ELEMENTS - len(nodes)
    )
    text = "; ".join(part for part in (said, cut) if part)
    return GraphView(nodes, edges, len(keys), len(trace), len(trace.edges), text)


def neighbourhood_view(
    trace: Trace, grouping: Grouping, row: int, hops: int, *, slack_ns: I64 | None = None, limit: int = 300
) -> GraphView:
    """A node with what it waits for and what waits for it, up to ``hops`` steps; its callers (as many) and callees too."""
    rows, cut = neighbourhood(trace.edges, row, hops, limit)
    parent = trace.columns.parent
    callers: list[int] = []
    caller = int(parent[row])
    while caller >= 0 and len(callers) < hops and caller not in callers:
        callers.append(caller)
        caller = int(parent[caller])
    related = np.concatenate([np.array(callers, np.int64), np.flatnonzero(parent == row)])
    related = related[~np.isin(related, rows)]
    room = max(limit - len(rows), 0)
    said = f"only the nearest {limit:,} nodes are shown" if cut or len(related) > room else ""
    view = _rows_view(trace, grouping, np.unique(np.concatenate([rows, related[:room]])), slack_ns, said)
    known = {(edge.source, edge.target) for edge in view.edges}
    shown = {node.key for node in view.nodes}
    calls = [
        ViewEdge(int(parent[key]), key, 1, EdgeKind.CONTROL)
        for key in sorted(shown)
        if int(parent[key]) in shown and (int(parent[key]), key) not in known and int(parent[key]) != key
    ]
    room = max(MAX_ELEMENTS - len(view.nodes) - len(view.edges), 0)
    return replace(view, edges=view.edges + tuple(calls[:room]))


def chain_view(
    trace: Trace, grouping: Grouping, rows: Sequence[int] | I64, *, slack_ns: I64 | None = None
) -> GraphView:
    """Nodes of a chain (the critical path): where there are too many, the longest are shown, in order, joined."""
    chain = np.asarray(rows, np.int64)
    said = ""
    if len(chain) > _MAX_NODES // 2:
        spent = trace.columns.dur_ns[chain]
        chosen = np.sort(np.argsort(-spent, kind="stable")[: _MAX_NODES // 2])
        said = f"the {len(chosen):,} longest of {len(chain):,} nodes on the path are shown"
        chain = chain[chosen]
    view = _rows_view(trace, grouping, np.unique(chain), slack_ns, said)
    known = {(edge.source, edge.target) for edge in view.edges}
    joins = [
        ViewEdge(a, b, 1, EdgeKind.CONTROL)
        for a, b in itertools.pairwise(chain.tolist())
        if (a, b) not in known and a != b
    ]
    return GraphView(
        view.nodes, view.edges + tuple(joins), view.rows_shown, view.rows_total, view.edges_total, view.truncated
    )


def path_view(trace: Trace, grouping: Grouping, first: int, last: int, *, slack_ns: I64 | None = None) -> GraphView:
    """The shortest chain of dependencies between two nodes, in whichever direction there is one."""
    rows = shortest_path(trace.edges, first, last)
    if not len(rows):
        rows = shortest_path(trace.edges, last, first)
    if not len(rows):
        return _rows_view(trace, grouping, np.unique([first, last]), slack_ns, "no chain of dependencies joins the two")
    return chain_view(trace, grouping, rows, slack_ns=slack_ns)
