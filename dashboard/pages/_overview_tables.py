"""The tables of the overview: operators and kernels of one rank, each row leading to its longest instance."""

from __future__ import annotations

from typing import Any

from dash import html
from dash.development.base_component import Component

from chakra_core.analysis.operators import Kernels, Operators
from dashboard.tables import count_column, csv_button, table, text_column, time_column
from dashboard.words import count, share

__all__ = ["KINDS", "kernel_table", "operator_table"]

KINDS = ("overview-operators", "overview-kernels")
"""Types of the pattern-matching ids of the tables; ``<kind>-csv`` are their export buttons."""

_ROWS = 500


def operator_table(result: Operators, at: int, rank: int, theme: str, note: str) -> Component:
    """Operators by total time; ``at`` is the run's index, ``rank`` whose they are."""
    rows = result.records(_ROWS)
    for record in rows:
        record |= {"run": at, "rank": rank, "row": record.pop("longest")}
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
    grid = table({"type": KINDS[0], "at": at}, columns, rows, theme, file="operators")
    return _panel(
        "Operators", _note(note, len(result), len(rows)), grid, csv_button({"type": f"{KINDS[0]}-csv", "at": at})
    )


def kernel_table(result: Kernels, at: int, rank: int, theme: str, note: str) -> Component:
    """Device work by total time; ``at`` is the run's index, ``rank`` whose it is."""
    rows = result.records(_ROWS)
    total = int(result.total_ns.sum())
    for record in rows:
        record |= {"run": at, "rank": rank, "row": record.pop("longest"), "share": share(record["total_ns"], total)}
    if not rows:
        return _panel("Kernels", "", html.P("The trace records no device work.", className="ck-hint"))
    largest = max(record["total_ns"] for record in rows)
    columns: list[dict[str, Any]] = [
        text_column("name", "Kernel", flex=3, minWidth=170),
        text_column("category", "Kind", flex=1.3, minWidth=100),
        count_column("count", "Count"),
        time_column("total_ns", "Total", largest),
        time_column("mean_ns", "Mean", largest),
        {
            "field": "share",
            "headerName": "Share",
            "flex": 0.9,
            "minWidth": 78,
            "sortable": False,
            "type": "numericColumn",
        },
    ]
    grid = table({"type": KINDS[1], "at": at}, columns, rows, theme, file="kernels")
    return _panel(
        "Kernels", _note(note, len(result), len(rows)), grid, csv_button({"type": f"{KINDS[1]}-csv", "at": at})
    )


def _note(whose: str, names: int, shown: int) -> str:
    cut = f", the first {shown:,}" if shown < names else ""
    return f"{whose}{count(names, 'name')}{cut}; a row selects its longest instance"


def _panel(title: str, note: str, content: Component, *more: Component) -> Component:
    head = html.Div(
        [html.H2(title), html.Div([html.Span(note, className="ck-note"), *more], className="ck-row ck-flush")],
        className="ck-card-title",
    )
    return html.Div([head, content], className="ck-panel")
