"""Parts of the Critical path page: facts, the path over time, what it consists of, slack."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go
from dash import dcc, html
from dash.development.base_component import Component
from numpy.typing import NDArray

from chakra_core.analysis.critical_path import DependencyPath
from chakra_core.analysis.measured_path import CAUSES, MeasuredPath
from chakra_core.intervals import coverage
from chakra_core.schema import Category
from chakra_core.trace import Run, Trace
from dashboard.figures.path import path_over_time, slack_histogram
from dashboard.nodes import rows_text
from dashboard.tables import count_column, linked, text_column, time_column
from dashboard.words import count, duration, plain, share

__all__ = ["by_name", "card", "facts", "figure_of", "over_time", "slack_card", "top_card"]

_BINS = 160
_ROWS = 300
_CONFIG = {"displaylogo": False, "responsive": True, "displayModeBar": False}


def card(title: str, content: Any, note: str = "", tools: list[Component] | None = None) -> Component:
    """A panel with a heading."""
    head = html.Div([html.H2(title), html.Span(note, className="ck-note")], className="ck-card-title")
    above = [html.Div(tools, className="ck-table-tools")] if tools else []
    return html.Div([head, *above, content], className="ck-panel")


def figure_of(figure: go.Figure, component_id: str | None = None) -> Component:
    """A figure that does not move the page when it is drawn."""
    more = {"id": component_id} if component_id else {}
    return dcc.Graph(figure=figure, style={"height": f"{figure.layout.height}px"}, config=_CONFIG, **more)


def facts(trace: Trace, path: MeasuredPath | DependencyPath, run: Run) -> Component:
    """The figures in a row."""
    rows = np.unique(path.rows[path.rows >= 0])
    device = int(np.isin(rows, trace.device_rows).sum())
    cells = [
        ("Length", duration(path.length_ns)),
        ("Of the trace's span", share(path.length_ns, trace.span_ns)),
        ("Nodes on it", f"{len(rows):,} of {len(trace):,} ({device:,} on devices)"),
        ("Times are", str(run.time_kind)),
    ]
    if isinstance(path, MeasuredPath):
        cells.insert(1, ("From its first to its last point", duration(path.elapsed_ns)))
    elif path.ignored_edges:
        cells.append(("Left out", f"{count(path.ignored_edges, 'dependency', 'dependencies')} that close a cycle"))
    return html.Dl([html.Div([html.Dt(name), html.Dd(text)]) for name, text in cells], className="ck-fact-row")


def over_time(path: MeasuredPath, origin_ns: int, theme: str, component_id: str) -> Component:
    """What the path is spent on, when."""
    first, last = int(path.from_ns.min()), int(path.to_ns.max())
    edges = np.unique(np.linspace(first, max(last, first + 1), _BINS + 1).astype(np.int64))
    spent = np.zeros((len(CAUSES), len(edges) - 1), np.int64)
    for cause in np.unique(path.cause).tolist():
        mine = path.cause == cause  # a piece weighs the last part of the time it spans
        spent[cause] = coverage(path.to_ns[mine] - path.spent_ns[mine], path.to_ns[mine], edges)
    figure = path_over_time(CAUSES, spent, edges, theme, origin_ns=origin_ns)
    return card("When", figure_of(figure, component_id), "click: that stretch on the timeline")


def by_name(trace: Trace, path: MeasuredPath | DependencyPath) -> list[dict[str, Any]]:
    """What is on the path by name and cause, most time first; each with its rows."""
    causes = path.cause if isinstance(path, MeasuredPath) else trace.columns.category[path.rows]
    name = np.where(path.rows >= 0, trace.columns.name[path.rows], -1).astype(np.int64)
    keys, group = np.unique(name * 64 + causes, return_inverse=True)
    total = np.zeros(len(keys), np.int64)
    np.add.at(total, group, path.spent_ns)
    pieces = np.bincount(group, minlength=len(keys))
    order = np.argsort(group, kind="stable")
    bounds = np.r_[0, np.cumsum(pieces)]
    found = []
    for at in np.argsort(-total, kind="stable")[:_ROWS].tolist():
        members = order[bounds[at] : bounds[at + 1]]
        code, cause = divmod(int(keys[at]), 64)
        longest = int(path.rows[members[np.argmax(path.spent_ns[members])]])
        label = CAUSES[cause] if isinstance(path, MeasuredPath) else Category(cause).label
        found.append(
            {
                "name": plain(trace.names[code], 300) if code >= 0 else "time between operators",
                "cause": label,
                "pieces": int(pieces[at]),
                "total_ns": int(total[at]),
                "row": longest,
                "members": path.rows[members],
            }
        )
    return found


def top_card(trace: Trace, found: list[dict[str, Any]], at: int, rank: int, length_ns: int, theme: str) -> Component:
    """The table of what is on the path; a row selects its nodes."""
    del trace
    rows = []
    for entry in found:
        members = entry.pop("members")
        record = {**entry, "run": at, "rank": rank, "share": share(entry["total_ns"], length_ns)}
        if entry["row"] >= 0:
            record["nodes"] = rows_text(at, rank, members[members >= 0].tolist())
        rows.append(record)
    columns = [
        text_column("name", "On the path", flex=3, minWidth=160),
        text_column("cause", "Cause", flex=1.3, minWidth=96),
        count_column("pieces", "Pieces"),
        time_column("total_ns", "Time", max((row["total_ns"] for row in rows), default=1)),
        {
            "field": "share",
            "headerName": "Share",
            "flex": 0.9,
            "minWidth": 74,
            "type": "numericColumn",
            "sortable": False,
        },
    ]
    grid, tools = linked("path-top", columns, rows, theme, at=at, groups={"cause": "cause"})
    return card("Top contributors", grid, "a row selects its nodes", tools)


def slack_card(trace: Trace, slack_ns: NDArray[np.int64], at: int, rank: int, theme: str) -> Component:
    """Histogram of slack, and the nodes that take longest with theirs."""
    dur = trace.columns.dur_ns
    known = np.flatnonzero((slack_ns >= 0) & (dur > 0))
    device = known[np.isin(known, trace.device_rows)]
    chosen = device if len(device) else known
    longest = chosen[np.argsort(-dur[chosen], kind="stable")[:_ROWS]]
    rows = [
        {
            "name": plain(trace.name_of(row), 300), "dur_ns": int(dur[row]), "slack_ns": int(slack_ns[row]),
            "run": at, "rank": rank, "row": row,
        }
        for row in longest.tolist()
    ]  # fmt: skip
    columns = [
        text_column("name", "Node", flex=3, minWidth=160),
        time_column("dur_ns", "Takes", max((row["dur_ns"] for row in rows), default=1), adds=False),
        time_column("slack_ns", "Slack", max((row["dur_ns"] for row in rows), default=1), adds=False),
    ]
    grid, tools = linked("path-slack", columns, rows, theme, at=at)
    what = "device nodes" if len(device) else "nodes"
    figure = slack_histogram(slack_ns, dur, theme)
    return card(
        "Slack: how much longer a node may take",
        html.Div([figure_of(figure), html.Div(tools, className="ck-table-tools"), grid]),
        f"table: the {len(rows):,} longest {what}",
    )
