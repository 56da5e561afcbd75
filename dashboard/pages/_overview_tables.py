"""The tables of the overview: operators and kernels of one rank, each row leading to its longest instance."""

from __future__ import annotations

from typing import Any

from dash import html
from dash.development.base_component import Component

from chakra_core.analysis.operators import Kernels, Operators
from chakra_core.trace import Trace
from dashboard.tables import count_column, linked, name_codes, stand_for_names, text_column, time_column
from dashboard.words import count, share

__all__ = ["kernel_table", "operator_table"]

_ROWS = 500


def operator_table(result: Operators, trace: Trace, at: int, rank: int, theme: str, note: str) -> Component:
    """Operators by total time; ``at`` is the run's index, ``rank`` whose they are."""
    rows = stand_for_names(result.records(_ROWS), name_codes(trace), at=at, rank=rank)
    if not rows:
        return _panel("Operators", "", html.P("The trace records no operator.", className="ck-hint"))
    largest = max(record["total_ns"] for record in rows)
    columns = [
        text_column("name", "Operator", flex=3, minWidth=170),
        count_column("count", "Calls"),
        time_column("total_ns", "Total", largest),
        time_column("self_ns", "Self", largest),
    ]
    if any(record["device_ns"] for record in rows):
        columns.append(time_column("device_ns", "Device", largest))
    grid, tools = linked("operators", columns, rows, theme, at=at)
    return _panel("Operators", _note(note, len(result), len(rows)), grid, *tools)


def kernel_table(result: Kernels, trace: Trace, at: int, rank: int, theme: str, note: str) -> Component:
    """Device work by total time; ``at`` is the run's index, ``rank`` whose it is."""
    rows = stand_for_names(result.records(_ROWS), name_codes(trace), at=at, rank=rank)
    total = int(result.total_ns.sum())
    for record in rows:
        record["share"] = share(record["total_ns"], total)
    if not rows:
        return _panel("Kernels", "", html.P("The trace records no device work.", className="ck-hint"))
    largest = max(record["total_ns"] for record in rows)
    columns: list[dict[str, Any]] = [
        text_column("name", "Kernel", flex=3, minWidth=170),
        text_column("category", "Kind", flex=1.3, minWidth=100),
        count_column("count", "Count"),
        time_column("total_ns", "Total", largest),
        time_column("mean_ns", "Mean", largest, adds=False),
        {
            "field": "share",
            "headerName": "Share",
            "flex": 0.9,
            "minWidth": 78,
            "sortable": False,
            "type": "numericColumn",
        },
    ]
    grid, tools = linked("kernels", columns, rows, theme, at=at, groups={"category": "kind"})
    return _panel("Kernels", _note(note, len(result), len(rows)), grid, *tools)


def _note(whose: str, names: int, shown: int) -> str:
    cut = f", the first {shown:,}" if shown < names else ""
    return f"{whose}{count(names, 'name')}{cut}; a row selects its nodes"


def _panel(title: str, note: str, content: Component, *more: Component) -> Component:
    head = html.Div([html.H2(title), html.Span(note, className="ck-note")], className="ck-card-title")
    tools = [html.Div(more, className="ck-table-tools")] if more else []
    return html.Div([head, *tools, content], className="ck-panel")
