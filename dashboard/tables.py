"""Tables of the dashboard: one look, text shown as text, and an export that no spreadsheet reads as formulas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dash import html
from dash.development.base_component import Component
from dash_ag_grid import AgGrid

from dashboard.figures.bars import time_unit

__all__ = ["count_column", "csv_button", "table", "text_column", "time_column"]

_ROW_PX = 28
_SHOWN = 12


def table(
    component_id: Any, columns: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]], theme: str, *, file: str
) -> AgGrid:
    """A sortable table in the theme; ``file`` names its CSV export."""
    return AgGrid(
        id=component_id,
        columnDefs=list(columns),
        rowData=list(rows),
        defaultColDef={"sortable": True, "resizable": True, "suppressHeaderMenuButton": True},
        dashGridOptions={
            "rowHeight": _ROW_PX, "headerHeight": 32, "animateRows": False, "suppressCellFocus": True,
            "rowSelection": {"mode": "singleRow", "checkboxes": False, "enableClickSelection": True},
            "tooltipShowDelay": 300, "enableCellTextSelection": True,
            "defaultCsvExportParams": {"processCellCallback": {"function": "ckCell(params)"}},
        },
        csvExportParams={"fileName": f"{file}.csv"},
        className="ag-theme-quartz-dark" if theme == "dark" else "ag-theme-quartz",
        style={"height": f"{max(1, min(len(rows), _SHOWN)) * _ROW_PX + 36}px"},
    )  # fmt: skip


def csv_button(component_id: Any) -> Component:
    """The button that exports a table."""
    return html.Button("CSV", id=component_id, className="ck-button ck-small", title="Save the table as CSV")


def text_column(field: str, title: str, **more: Any) -> dict[str, Any]:
    """A column of text, with the whole of it as tooltip and a filter."""
    return {"field": field, "headerName": title, "tooltipField": field, "filter": True, **more}


def count_column(field: str, title: str, **more: Any) -> dict[str, Any]:
    """A column of whole numbers."""
    return {
        "field": field, "headerName": title, "type": "numericColumn", "flex": 1, "minWidth": 74,
        "valueFormatter": {"function": "params.value == null ? '' : d3.format(',')(params.value)"}, **more,
    }  # fmt: skip


def time_column(field: str, title: str, largest_ns: int, **more: Any) -> dict[str, Any]:
    """A column of times in ns, shown in the unit that suits the largest."""
    factor, unit = time_unit(largest_ns)
    digits = 0 if factor == 1 else 3
    return {
        "field": field, "headerName": f"{title} {unit}", "type": "numericColumn", "flex": 1.2, "minWidth": 92,
        "valueFormatter": {"function": f"params.value == null ? '' : d3.format(',.{digits}f')(params.value / {factor})"},
        **more,
    }  # fmt: skip
