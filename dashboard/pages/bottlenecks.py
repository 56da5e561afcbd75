"""Bottlenecks: where in time, and on which rank or lane, a run loses its time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dash import Dash, Input, Output, State, dcc, html, no_update
from dash.development.base_component import Component
from dash_ag_grid import AgGrid

from chakra_core.analysis.bottleneck import METRICS, Heatmap, bottlenecks, worst_cells
from chakra_core.analysis.scope import WHOLE, Scope
from dashboard.figures.heatmap import bin_at, heatmap_figure, row_labels
from dashboard.library import Library, LoadedRun
from dashboard.page import Context, Page
from dashboard.scopes import ScopeChoice, scope_in, scope_of
from dashboard.state import Ids, Selection
from dashboard.words import count, duration, plain

__all__ = ["PAGE", "heatmap_of"]

_BINS = (60, 120, 240)
_ROWS = {"ranks": "ranks", "lanes": "streams and threads"}
_WORST = 60
_CAUSES = {
    "idle": "idle",
    "exposed_comm": "exposed comm.",
    "exposed_memory": "exposed memory",
    "none": "nothing lost",
}


def heatmap_of(loaded: LoadedRun, rows: str, bins: int, scope: Scope = WHOLE) -> Heatmap:
    """The heatmap of a run; that of the whole run is computed once."""
    if scope != WHOLE:
        return bottlenecks(loaded.run, scope, rows=rows, bins=bins)
    return loaded.result(("bottlenecks", rows, bins), lambda run: bottlenecks(run, rows=rows, bins=bins))


def _choices(params: Mapping[str, Any], runs: int) -> tuple[str, str, int, int]:
    """Metric, rows, bins and run as the URL states them; defaults where it states nonsense."""
    metric = str(params.get("metric", "score"))
    rows = str(params.get("rows", "ranks"))
    bins, at = str(params.get("bins", "")), str(params.get("show", ""))
    return (
        metric if metric in METRICS else "score",
        rows if rows in _ROWS else "ranks",
        int(bins) if bins.isdecimal() and int(bins[:6]) in _BINS else 120,
        int(at) if at.isdecimal() and int(at[:6]) < runs else 0,
    )


def layout(context: Context) -> Component:
    """The page."""
    metric, rows, bins, at = _choices(context.state.params, len(context.runs))
    scope = scope_in(context.state, context.runs[at], at)
    figure, grid, note = _content(context.runs[at], metric, rows, bins, context.state.theme, scope)
    return html.Div(
        [
            html.Div(
                [html.H1("Bottlenecks"), html.Span(note, id=PAGE.id("note"), className="ck-note")],
                className="ck-heading",
            ),
            html.P(
                "Each cell is one stretch of time on one row. The score is the share of it in which nothing useful ran: idle, "
                "communication that no compute hides, and copies hidden under neither. Click a cell to see it in the timeline.",
                className="ck-lead",
            ),
            html.Div(_controls(context, metric, rows, bins, at), className="ck-controls"),
            html.Div(
                [
                    html.Div(
                        dcc.Graph(
                            id=PAGE.id("map"),
                            figure=figure,
                            config={"displaylogo": False, "responsive": True, "displayModeBar": False},
                        ),
                        className="ck-panel",
                    ),
                    html.Div(
                        [
                            html.Div(
                                [html.H2("Worst cells"), html.Span("most time lost first", className="ck-note")],
                                className="ck-card-title",
                            ),
                            grid,
                        ],
                        className="ck-panel",
                    ),
                ],
                className="ck-map-columns",
            ),
        ]
    )


def _controls(context: Context, metric: str, rows: str, bins: int, at: int) -> list[Component]:
    def choose(label: str, name: str, options: Mapping[str, str], value: str) -> Component:
        listed = [{"label": text, "value": key} for key, text in options.items()]
        box = dcc.Dropdown(listed, value, id=PAGE.id(name), clearable=False, searchable=False, className="ck-dropdown")
        return html.Label([html.Span(label), box])

    runs = {str(place): plain(loaded.run.label, 60) for place, loaded in enumerate(context.runs)}
    return [
        choose("Metric", "metric", METRICS, metric),
        choose("Rows", "rows", _ROWS, rows),
        choose("Time bins", "bins", {str(number): str(number) for number in _BINS}, str(bins)),
        html.Div(choose("Run", "run", runs, str(at)), style={} if len(runs) > 1 else {"display": "none"}),
    ]


def _content(loaded: LoadedRun, metric: str, rows: str, bins: int, theme: str, scope: Scope) -> tuple[Any, AgGrid, str]:
    """Figure, table and note for a choice."""
    result = heatmap_of(loaded, rows, bins, scope)
    figure = heatmap_figure(result, metric, theme, origin_ns=loaded.run.origin_ns)
    if not result.shape[0]:
        return figure, _grid(loaded, result, metric, theme), "Nothing in this run takes time, so none is lost."
    notes = [
        f"{count(result.shape[0], 'row')}, bins of {duration(int(result.edges_ns[1] - result.edges_ns[0]))}",
        f"times {loaded.run.time_kind}",
    ]
    if result.left_out:
        notes.append(f"{result.left_out:,} more rows are not shown")
    if any(result.on_host):
        notes.append("rows without device work are judged by their host threads")
    return figure, _grid(loaded, result, metric, theme), " · ".join(notes)


def _records(loaded: LoadedRun, result: Heatmap, metric: str) -> list[dict[str, Any]]:
    labels = row_labels(result)
    origin = loaded.run.origin_ns
    records = []
    for cell in worst_cells(result, _WORST, metric):
        name = int(result.top_name[cell.row, cell.bin])
        records.append(
            {
                "where": labels[cell.row],
                "from": duration(cell.start_ns - origin),
                "value": round(cell.score, 4),
                "lost_ns": cell.lost_ns,
                "cause": _CAUSES[cell.cause],
                "operator": plain(result.names[name], 160) if name >= 0 else "",
                "window": [cell.start_ns - origin, cell.end_ns - origin],
                "rank": result.ranks[cell.row],
                "row": int(result.top_row[cell.row, cell.bin]),
            }
        )
    return records


def _grid(loaded: LoadedRun, result: Heatmap, metric: str, theme: str) -> AgGrid:
    columns = [
        {"field": "where", "headerName": "Row", "width": 92, "tooltipField": "where"},
        {"field": "from", "headerName": "From", "width": 88},
        {
            "field": "value",
            "headerName": "Share",
            "headerTooltip": METRICS[metric],
            "width": 64,
            "valueFormatter": {"function": "d3.format('.0%')(params.value)"},
        },
        {"field": "cause", "headerName": "Mostly", "width": 104, "tooltipField": "cause"},
        {"field": "operator", "headerName": "Most time", "flex": 1, "minWidth": 90, "tooltipField": "operator"},
    ]
    return AgGrid(
        id=PAGE.id("worst"),
        columnDefs=columns,
        rowData=_records(loaded, result, metric),
        defaultColDef={"sortable": True, "resizable": True},
        dashGridOptions={
            "rowHeight": 28, "headerHeight": 32, "animateRows": False,
            "rowSelection": {"mode": "singleRow", "checkboxes": False, "enableClickSelection": True},
        },
        className="ag-theme-quartz-dark" if theme == "dark" else "ag-theme-quartz",
        style={"height": "460px"},
    )  # fmt: skip


def register(app: Dash, library: Library) -> None:
    """Connect the page."""

    def change(
        metric: str,
        rows: str,
        bins: str,
        at: str,
        runs: list[str],
        theme: str,
        params: dict[str, str] | None,
        *scoped: Any,
    ) -> Any:
        changed = {**(params or {}), "metric": metric, "rows": rows, "bins": bins, "show": at}
        metric, rows, chosen, place = _choices(changed, len(runs))
        loaded = library.get(runs[place])
        figure, grid, note = _content(loaded, metric, rows, chosen, theme, _scope(loaded, place, *scoped))
        return figure, grid.rowData, grid.columnDefs, note, changed

    app.callback(
        Output(PAGE.id("map"), "figure"),
        Output(PAGE.id("worst"), "rowData"),
        Output(PAGE.id("worst"), "columnDefs"),
        Output(PAGE.id("note"), "children"),
        Output(Ids.PARAMS, "data", allow_duplicate=True),
        *(Input(PAGE.id(name), "value") for name in ("metric", "rows", "bins", "run")),
        State(Ids.RUNS, "data"),
        State(Ids.THEME, "data"),
        State(Ids.PARAMS, "data"),
        *_SCOPED,
        prevent_initial_call=True,
    )(change)

    def click(clicked: dict[str, Any] | None, rows: str, bins: str, at: str, runs: list[str], *scoped: Any) -> Any:
        if not clicked:
            return no_update, no_update, no_update
        loaded = library.get(runs[int(at)])
        result = heatmap_of(loaded, rows, int(bins), _scope(loaded, int(at), *scoped))
        point = clicked["points"][0]
        return _go(loaded, result, int(at), int(point["y"]), bin_at(result, float(point["x"]), loaded.run.origin_ns))

    def choose(chosen: list[dict[str, Any]] | None, at: str) -> Any:
        if not chosen:
            return no_update, no_update, no_update
        cell = chosen[0]
        selection = {"run": int(at), "rank": cell["rank"], "row": cell["row"]} if cell["row"] >= 0 else no_update
        return cell["window"], selection, "timeline"

    targets = [Output(name, "data", allow_duplicate=True) for name in (Ids.WINDOW, Ids.SELECTION, Ids.NAVIGATE)]
    app.callback(
        *targets,
        Input(PAGE.id("map"), "clickData"),
        *(State(PAGE.id(name), "value") for name in ("rows", "bins", "run")),
        State(Ids.RUNS, "data"),
        *_SCOPED,
        prevent_initial_call=True,
    )(click)
    app.callback(
        *targets, Input(PAGE.id("worst"), "selectedRows"), State(PAGE.id("run"), "value"), prevent_initial_call=True
    )(choose)


_SCOPED = (State(Ids.SCOPE, "data"), State(Ids.NODES, "data"), State(Ids.SELECTION, "data"))


def _scope(loaded: LoadedRun, at: int, text: Any, nodes: Any, selection: Any) -> Scope:
    return scope_of(ScopeChoice.parse(text), loaded, at, nodes, Selection.from_data(selection))


def _go(loaded: LoadedRun, result: Heatmap, at: int, row: int, bin_: int) -> Any:
    """Window, selection and page for a cell."""
    origin = loaded.run.origin_ns
    window = [int(result.edges_ns[bin_]) - origin, int(result.edges_ns[bin_ + 1]) - origin]
    top = int(result.top_row[row, bin_])
    selection = {"run": at, "rank": result.ranks[row], "row": top} if top >= 0 else no_update
    return window, selection, "timeline"


PAGE = Page("bottlenecks", "Bottlenecks", "bottlenecks", layout, register, section="Analyse", scoped=True)
