"""Tables of the dashboard: one look, text shown as text, an export that no spreadsheet reads as formulas, and links.

``linked`` makes a whole table with its tools: filter, groups, export. Its rows select what they stand for everywhere;
``register`` (called once, by the shell) connects every such table of every page, in the browser.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dash import MATCH, ClientsideFunction, Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component
from dash_ag_grid import AgGrid

from chakra_core.trace import Trace
from dashboard.figures.bars import time_unit
from dashboard.nodes import names_text
from dashboard.state import Ids

__all__ = [
    "count_column", "csv_button", "linked", "name_codes", "number_column", "register", "stand_for_names", "table",
    "text_column", "time_column",
]  # fmt: skip

_ROW_PX = 28
_SHOWN = 12
_TYPES = ("ck-table", "ck-table-csv", "ck-table-filter", "ck-table-groups")
"""Types of the pattern-matching ids of a linked table and its tools; ``name`` and ``at`` complete them."""


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
            "postSortRows": {"function": "ckGrouped(params)"},
            "defaultCsvExportParams": {"processCellCallback": {"function": "ckCell(params)"}},
        },
        rowClassRules={"ck-group-row": "params.data.ck_group != null"},
        csvExportParams={"fileName": f"{file}.csv"},
        className="ag-theme-quartz-dark" if theme == "dark" else "ag-theme-quartz",
        style={"height": f"{max(2, min(len(rows), _SHOWN)) * _ROW_PX + 36}px"},
    )  # fmt: skip


def linked(
    name: str, columns: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]], theme: str, *,
    at: int = 0, groups: Mapping[str, str] | None = None,
) -> tuple[AgGrid, list[Component]]:  # fmt: skip
    """A table whose rows select, with its tools: ``(grid, tools)``, for a page to place.

    Args:
        name: unique among the tables of all pages, e.g. ``overview-kernels``; also names the export.
        columns: from ``text_column`` and its like.
        rows: records. ``run``, ``rank``, ``row``: the node that a click on the row selects; ``nodes``: text of all
            nodes that the row stands for (``dashboard.nodes``, ``stand_for_names``); ``window``: time range to show.
            Each may be missing.
        theme: ``light`` or ``dark``.
        at: number of the table where a page has several of one name (one per run).
        groups: fields by which rows can be grouped, with their words; numbers of columns that add are summed.
    """
    ids = [{"type": kind, "name": name, "at": at} for kind in _TYPES]
    tools: list[Component] = []
    if len(rows) > 1:
        box = dcc.Input(
            id=ids[2], type="search", placeholder="Filter rows", className="ck-input ck-filter", debounce=False
        )
        tools.append(box)
    if groups and len(rows) > 1:
        options = [{"label": "no groups", "value": ""}, *({"label": f"by {t}", "value": f} for f, t in groups.items())]
        tools.append(dcc.Dropdown(options, "", id=ids[3], clearable=False, searchable=False, className="ck-groups"))
    tools.append(csv_button(ids[1]))
    return table(ids[0], columns, rows, theme, file=name), tools


def name_codes(trace: Trace) -> dict[str, int]:
    """Code of each name of a trace."""
    return {name: code for code, name in enumerate(trace.names)}


def stand_for_names(
    records: Iterable[dict[str, Any]], codes: Mapping[str, int], *, at: int, rank: int
) -> list[dict[str, Any]]:
    """Complete records of names (``name``, ``longest``) with what their rows select: that node, and all of the name."""
    done = []
    for record in records:
        more = {"run": at, "rank": rank, "row": record["longest"]}
        if record["name"] in codes:
            more["nodes"] = names_text(at, rank, [codes[record["name"]]])
        done.append({**{key: value for key, value in record.items() if key != "longest"}, **more})
    return done


def register(app: Dash) -> None:
    """Connect all linked tables: selection, filter, groups, export. Everything happens in the browser."""
    every = {"name": MATCH, "at": MATCH}
    grid, csv, words, groups = ({"type": kind, **every} for kind in _TYPES)
    app.clientside_callback(
        ClientsideFunction("ckTables", "pick"),
        Output(csv, "title"),
        Input(grid, "selectedRows"),
        State(grid, "id"),
        State(Ids.PAGE, "data"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("ckTables", "filter"),
        Output(grid, "dashGridOptions"),
        Input(words, "value"),
        State(grid, "dashGridOptions"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("ckTables", "group"),
        Output(grid, "rowData"),
        Input(groups, "value"),
        State(grid, "rowData"),
        State(grid, "columnDefs"),
        State(grid, "id"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("ckTables", "save"),
        Output(grid, "exportDataAsCsv"),
        Input(csv, "n_clicks"),
        prevent_initial_call=True,
    )


def csv_button(component_id: Any) -> Component:
    """The button that exports a table."""
    return html.Button("CSV", id=component_id, className="ck-button ck-small", title="Save the table as CSV")


def text_column(field: str, title: str, **more: Any) -> dict[str, Any]:
    """A column of text, with the whole of it as tooltip and a filter."""
    return {"field": field, "headerName": title, "tooltipField": field, "filter": True, **more}


def count_column(field: str, title: str, **more: Any) -> dict[str, Any]:
    """A column of whole numbers; groups show their sum (``adds=False``: nothing)."""
    adds = more.pop("adds", True)
    return {
        "field": field, "headerName": title, "type": "numericColumn", "flex": 1, "minWidth": 74,
        "filter": "agNumberColumnFilter", "context": {"adds": adds},
        "valueFormatter": {"function": "params.value == null ? '' : d3.format(',')(params.value)"}, **more,
    }  # fmt: skip


def number_column(field: str, title: str, *, share: bool = False, **more: Any) -> dict[str, Any]:
    """A column of measures that do not add up (bandwidths), to three digits; ``share``: shown in percent."""
    how = ".1%" if share else ",.4~g"
    return {
        "field": field, "headerName": title, "type": "numericColumn", "flex": 1, "minWidth": 78,
        "filter": "agNumberColumnFilter", "context": {"adds": False},
        "valueFormatter": {"function": f"params.value == null ? '' : d3.format('{how}')(params.value)"}, **more,
    }  # fmt: skip


def time_column(field: str, title: str, largest_ns: int, **more: Any) -> dict[str, Any]:
    """A column of times in ns, shown and filtered in the unit that suits the largest; groups show their sum.

    ``adds=False``: groups show nothing (means, for instance).
    """
    factor, unit = time_unit(largest_ns)
    digits = 0 if factor == 1 else 3
    adds = more.pop("adds", True)
    return {
        "field": field, "headerName": f"{title} {unit}", "type": "numericColumn", "flex": 1.2, "minWidth": 92,
        "filter": "agNumberColumnFilter", "context": {"adds": adds},
        "filterValueGetter": {"function": f"params.data.{field} == null ? null : params.data.{field} / {factor}"},
        "valueFormatter": {"function": f"params.value == null ? '' : d3.format(',.{digits}f')(params.value / {factor})"},
        **more,
    }  # fmt: skip
