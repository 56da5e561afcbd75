"""The panel about the selected node: what it is, where it hangs, everything its file says of it."""

from __future__ import annotations

from typing import Any

import numpy as np
from dash import html
from dash.development.base_component import Component
from numpy.typing import NDArray

from chakra_core.errors import ChakraError
from chakra_core.graph import reverse
from chakra_core.schema import NO_TIME, Category, CommOp, Domain, EdgeKind, NodeKind
from chakra_core.trace import Edges, Run, Trace
from dashboard.library import Library, LoadedRun
from dashboard.state import Selection
from dashboard.theme import CATEGORY_COLOURS
from dashboard.words import count, duration, plain, size

__all__ = ["details"]

_LINKS = 20
_LONG = 160
_PARENTS = 30


def details(library: Library, refs: list[str], selection: Selection | None) -> Component:
    """Content of the panel for a selection; a hint where nothing (or nothing that exists) is selected."""
    if selection is None or selection.run >= len(refs):
        return html.P(
            "Select a node in the timeline, the graph or a table to see everything about it here.", className="ck-hint"
        )
    if library.status(refs[selection.run]).state != "ready":
        return html.P("The run of the selected node is not loaded yet.", className="ck-hint")
    try:
        loaded = library.get(refs[selection.run])
        trace = loaded.run.by_rank(selection.rank)
    except (ChakraError, KeyError):
        return html.P("The selected node is in no open run.", className="ck-hint")
    if selection.row >= len(trace):
        return html.P("The trace has no such node.", className="ck-hint")
    return _node(loaded, trace, selection)


def _node(loaded: LoadedRun, trace: Trace, selection: Selection) -> Component:
    row = selection.row
    category = Category(int(trace.columns.category[row]))
    awaited = loaded.result(("dependents", selection.rank), lambda run: _dependents(run, selection.rank))
    children_ns = loaded.result(("children-ns", selection.rank), lambda run: _children_ns(run, selection.rank))
    on_device = trace.columns.domain[row] == Domain.DEVICE
    return html.Div(
        [
            html.Div(
                [
                    html.Span(className="ck-swatch", style={"backgroundColor": CATEGORY_COLOURS[category]}),
                    html.H3(plain(trace.name_of(row), 600)),
                ],
                className="ck-details-title",
            ),
            html.Div(
                [
                    _goto("Timeline", "timeline", loaded.run, trace, selection),
                    _goto("Graph", "graph", loaded.run, trace, selection),
                ],
                className="ck-row",
            ),
            _table(_facts(loaded.run, trace, row, int(children_ns[row]))),
            _links("Launched from" if on_device else "Called from", _ancestors(trace, row), trace, selection),
            _links("Waits for", _edge_rows(trace.edges, row), trace, selection),
            _links("Awaited by", _edge_rows(awaited, row), trace, selection),
            html.Details(
                [
                    html.Summary(html.H4("Attributes")),
                    _table([(key, value) for key, value in sorted(trace.attributes_of(row).items())]),
                ],
                open=True,
                className="ck-attributes",
            ),
        ]
    )


def _dependents(run: Run, rank: int) -> Edges:
    return reverse(run.by_rank(rank).edges)


def _children_ns(run: Run, rank: int) -> NDArray[np.int64]:
    """Summed time of the direct children of each row that run on the same lane, int64 ns."""
    c = run.by_rank(rank).columns
    rows = np.flatnonzero(c.parent >= 0)
    rows = rows[c.lane[rows] == c.lane[c.parent[rows]]]
    return np.bincount(c.parent[rows], weights=c.dur_ns[rows], minlength=len(c)).astype(np.int64)


def _goto(label: str, page: str, run: Run, trace: Trace, selection: Selection) -> Component:
    """A button that shows the node on a page, with the time window around it; handled by ``select.js``."""
    start = int(trace.columns.start_ns[selection.row])
    data: dict[str, Any] = {"data-goto": page}
    if start != NO_TIME:
        dur = max(int(trace.columns.dur_ns[selection.row]), 1000)
        begin = max(start - run.origin_ns - 2 * dur, 0)
        data |= {"data-t0": str(begin), "data-t1": str(begin + 5 * dur)}
    return html.Button(f"Show in {label.lower()}", className="ck-button ck-small", **data)


def _facts(run: Run, trace: Trace, row: int, children_ns: int) -> list[tuple[str, Any]]:
    c = trace.columns
    start = int(c.start_ns[row])
    lane = int(c.lane[row])
    facts: list[tuple[str, Any]] = [
        ("id", int(c.id[row])),
        ("rank", trace.meta.rank if trace.meta.rank >= 0 else "not recorded"),
        (
            "kind",
            f"{NodeKind(int(c.kind[row])).name.lower().replace('_', ' ')} · {Category(int(c.category[row])).label}",
        ),
        ("runs on", f"{Domain(int(c.domain[row])).name.lower()}{' · ' + trace.lanes[lane].name if lane >= 0 else ''}"),
        (
            "start",
            "not recorded" if start == NO_TIME else f"{duration(start - run.origin_ns)} ({trace.meta.time_kind})",
        ),
        ("duration", duration(int(c.dur_ns[row]))),
    ]
    if children_ns:
        facts.append(("self time", duration(max(int(c.dur_ns[row]) - children_ns, 0))))
    if c.shape[row] >= 0:
        facts.append(("inputs", trace.shapes[int(c.shape[row])]))
    if c.comm_op[row] >= 0:
        facts.append(("communication", CommOp(int(c.comm_op[row])).label))
        facts.append(("message", size(int(c.comm_bytes[row])) if c.comm_bytes[row] >= 0 else "size not recorded"))
    if c.comm_group[row] >= 0:
        group = trace.meta.groups[int(c.comm_group[row])]
        members = f" · ranks {', '.join(map(str, group.ranks[:16]))}" if group.ranks else ""
        facts.append(("process group", f"{group.name}{members}"))
    if c.comm_peer[row] >= 0:
        facts.append(("peer", f"rank {int(c.comm_peer[row])}"))
    if c.flops[row] >= 0:
        facts.append(("work", f"{int(c.flops[row]):,} FLOP"))
    if c.bytes_accessed[row] >= 0:
        facts.append(("memory traffic", size(int(c.bytes_accessed[row]))))
    return facts


def _table(rows: list[tuple[str, Any]]) -> Component:
    if not rows:
        return html.P("The file says nothing more.", className="ck-hint")
    return html.Table(
        [html.Tr([html.Th(plain(key, 120)), html.Td(_value(value))]) for key, value in rows], className="ck-facts"
    )


def _value(value: Any) -> Component | str:
    text = plain(value, 20_000)
    if len(text) <= _LONG:
        return text
    return html.Details([html.Summary(f"{text[:_LONG]}…"), html.Pre(text)])


def _ancestors(trace: Trace, row: int) -> list[tuple[int, str]]:
    chain: list[tuple[int, str]] = []
    at = int(trace.columns.parent[row])
    while at >= 0 and len(chain) < _PARENTS and at not in {seen for seen, _ in chain}:
        chain.append((at, ""))
        at = int(trace.columns.parent[at])
    return chain


def _edge_rows(edges: Edges, row: int) -> list[tuple[int, str]]:
    rows, kinds = edges.of(row)
    return [(int(at), EdgeKind(int(kind)).name.lower().replace("_", " ")) for at, kind in zip(rows, kinds, strict=True)]


def _links(title: str, found: list[tuple[int, str]], trace: Trace, selection: Selection) -> Component | None:
    if not found:
        return None
    lines = [
        html.Button(
            [html.Span(plain(trace.name_of(at), 90), className="ck-link-name"), html.Span(kind, className="ck-kind")],
            className="ck-select",
            **{"data-run": str(selection.run), "data-rank": str(selection.rank), "data-row": str(at)},
        )
        for at, kind in found[:_LINKS]
    ]
    more = (
        html.P(f"and {count(len(found) - _LINKS, 'more', 'more')}", className="ck-hint")
        if len(found) > _LINKS
        else None
    )
    return html.Div([html.H4(f"{title} ({len(found):,})"), *lines, more])
