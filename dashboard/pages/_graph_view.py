"""Parts of the Graph page: legend, the line that counts, the list of what a search found."""

from __future__ import annotations

import numpy as np
from dash import html
from dash.development.base_component import Component

from chakra_core.graph_view import GraphView
from chakra_core.trace import Run, Trace
from dashboard.figures.graph import legend
from dashboard.words import plain

__all__ = ["count_line", "find_rows", "legend_items", "matches"]

_MATCHES = 50


def legend_items(view: GraphView, colour: str) -> list[Component]:
    """What colours and lines mean."""
    boxes, lines = legend(view, colour)
    shown: list[Component] = [
        html.Span(
            [html.Span(className="ck-swatch", style={"backgroundColor": paint}), text], className="ck-legend-item"
        )
        for text, paint in boxes
    ]
    shown += [
        html.Span(
            [html.Span(className="ck-line", style={"borderTop": f"2px {line} {paint}"}), text],
            className="ck-legend-item",
        )
        for text, paint, line in lines
    ]
    return shown


def count_line(view: GraphView, run: Run, rank: int, hint: str) -> list[Component]:
    """How much of the graph is shown, what was left out, and what to do next."""
    if not view.rows_total:
        return [html.Strong(f"Rank {rank} holds no nodes, so there is no graph to show.")]
    parts = [
        f"{len(view.nodes):,} boxes stand for {view.rows_shown:,} of {view.rows_total:,} nodes; {len(view.edges):,} arrows, {view.edges_total:,} dependencies in the trace",
        f"times {run.time_kind}",
        f"rank {rank}",
    ]
    if view.truncated:
        parts.append(view.truncated)
    line: list[Component] = [html.Span(" · ".join(parts))]
    if hint:
        line.append(html.Strong(hint))
    line.append(html.Span("tap: select · double tap: open a group, or go to the timeline", className="ck-hint"))
    return line


def find_rows(trace: Trace, text: str) -> list[int]:
    """Rows whose id is the text, then rows whose name holds it (whatever its case), by position."""
    wanted = text.strip()
    rows: list[int] = []
    if wanted.isdecimal() and len(wanted) < 20:
        try:
            rows.append(trace.row_of(int(wanted)))
        except KeyError:
            rows = []
    codes = [code for code, name in enumerate(trace.names) if wanted.lower() in name.lower()]
    rows += np.flatnonzero(np.isin(trace.columns.name, codes)).tolist()
    return list(dict.fromkeys(rows))


def matches(trace: Trace | None, text: str, at: int = 0, rank: int = 0) -> list[Component]:
    """Buttons that select what a search found."""
    if trace is None or not text.strip():
        return []
    rows = find_rows(trace, text)
    if not rows:
        return [html.Span(f"Nothing is called “{plain(text, 60)}”.", className="ck-hint")]
    head = html.Span(f"{min(len(rows), _MATCHES):,} of {len(rows):,}", className="ck-hint")
    buttons = [
        html.Button(
            f"{plain(trace.name_of(row), 60)} · {int(trace.columns.id[row])}",
            className="ck-select ck-example",
            **{"data-run": str(at), "data-rank": str(rank), "data-row": str(row)},
        )
        for row in rows[:_MATCHES]
    ]
    return [head, *buttons]
