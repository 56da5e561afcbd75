"""Compare: two or more runs side by side, operator by operator, with the difference of their totals explained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dash_mantine_components as dmc
from dash import Dash, Input, Output, State, ctx, html, no_update
from dash.development.base_component import Component

from chakra_core.analysis.compare import Comparison, compare
from dashboard.library import Library, LoadedRun
from dashboard.page import Context, Page
from dashboard.pages import _compare_maps as maps
from dashboard.pages import _compare_view as view
from dashboard.state import Ids
from dashboard.timeline_component import follow_stores, store

__all__ = ["PAGE"]

_SLUG = "compare"


def _id(name: str) -> str:
    return f"{_SLUG}-{name}"


_MAP_IDS = [_id(name) for name in ("metric", "map-a", "map-b", "map-difference")]


def _choice(params: Mapping[str, str] | None, count: int) -> tuple[int, int]:
    """Baseline and compared run from the parameters ``base`` and ``with``; what makes no sense gets the default."""

    def index(name: str) -> int:
        text = str((params or {}).get(name, ""))
        return int(text) if text.isascii() and text.isdigit() and int(text[:6]) < count else -1

    base = max(0, index("base"))
    other = index("with")
    return base, other if other >= 0 and other != base else next((at for at in range(count) if at != base), 0)


def _is_share(params: Mapping[str, str] | None) -> bool:
    return (params or {}).get("bars") == "share"


def _comparison(runs: Sequence[LoadedRun], base: int) -> Comparison:
    key = (_SLUG, tuple(loaded.ref for loaded in runs), base)
    return runs[0].result(key, lambda _: compare([loaded.run for loaded in runs], base))


def _layout(context: Context) -> Component:
    base, other = _choice(context.state.params, len(context.runs))
    result = _comparison(context.runs, base)
    share = _is_share(context.state.params)
    bars, steps, categories = view.charts(result, other, context.state.theme, share=share)
    toggle = dmc.SegmentedControl(
        id=_id("bars"), size="xs", value="share" if share else "time",
        data=[{"value": "time", "label": "time"}, {"value": "share", "label": "share"}],
    )  # fmt: skip
    how = (
        "Kernels of different vendors meet under the operator that launched them. A row selects its longest instance: "
        "on a column of a run, the one there."
    )
    return html.Div(
        [
            _controls(result, other),
            html.Div(view.run_badges(result), id=_id("runs")),
            html.Div(view.notices(result), id=_id("notices"), className="ck-column"),
            html.Div(view.cards(result, other), id=_id("cards")),
            html.Div(
                [
                    view.panel("Where the time goes", view.graph(_id("breakdown"), bars), note=toggle),
                    view.panel(
                        "What changed",
                        view.graph(_id("waterfall"), steps),
                        html.Div(view.why_list(result, other), id=_id("why")),
                    ),
                ],
                className="ck-columns",
            ),
            view.panel("Operators", view.operator_grid(result, _id("grid"), other), note=how),
            view.panel(
                "Timelines",
                html.Div(
                    maps.timelines(context.runs, (base, other)), id=_id("timelines"), className="ck-compare-timelines"
                ),
                store(_SLUG),
                note="one window for both, from the start of each run",
            ),
            maps.maps_panel(context.runs, (base, other), context.state.params, context.state.theme, _MAP_IDS),
            html.Div(
                [
                    view.panel("Time by category", view.graph(_id("categories"), categories)),
                    view.panel("Without a counterpart", html.Div(view.unmatched_list(result), id=_id("unmatched"))),
                ],
                className="ck-columns",
            ),
        ],
        className="ck-compare",
    )


def _controls(result: Comparison, other: int) -> Component:
    data = [{"value": str(at), "label": f"{view.letter(at)}  {run.label}"} for at, run in enumerate(result.runs)]
    select = {"data": data, "allowDeselect": False, "size": "xs", "w": 250}
    return html.Div(
        [
            html.H1("Compare"),
            html.Div(
                [
                    dmc.Select(id=_id("base"), value=str(result.baseline), label="baseline", **select),
                    html.Button("Swap", id=_id("swap"), className="ck-button ck-small", n_clicks=0),
                    dmc.Select(id=_id("with"), value=str(other), label="compared run", **select),
                ],
                className="ck-row ck-compare-choice",
            ),
        ],
        className="ck-title-row",
    )


def _loaded(library: Library, refs: Sequence[str] | None) -> list[LoadedRun]:
    return [library.get(ref) for ref in refs or ()]


def _register(app: Dash, library: Library) -> None:
    _register_choice(app)
    _register_content(app, library)
    _register_selection(app, library)
    follow_stores(app, _SLUG)


def _register_choice(app: Dash) -> None:
    """The controls write the parameters; everything else follows those."""

    def choose(base: str, other: str, swaps: int | None, bars: str, metric: str, params: dict[str, str] | None) -> Any:
        del swaps
        if ctx.triggered_id == _id("swap"):
            base, other = other, base
        elif base == other:  # choosing the run of the other side swaps the sides
            was_base, was_other = map(str, _choice(params, 26))
            base, other = (base, was_base) if ctx.triggered_id == _id("base") else (was_other, other)
        shown = (*map(str, _choice(params, 26)), "share" if _is_share(params) else "time", maps.metric_of(params))
        if (base, other, bars, metric) == shown:  # as when the controls appear
            return no_update
        return {**(params or {}), "base": base, "with": other, "bars": bars, "metric": metric}

    app.callback(
        Output(Ids.PARAMS, "data", allow_duplicate=True),
        Input(_id("base"), "value"), Input(_id("with"), "value"), Input(_id("swap"), "n_clicks"),
        Input(_id("bars"), "value"), Input(_id("metric"), "value"), State(Ids.PARAMS, "data"),
        prevent_initial_call=True,
    )(choose)  # fmt: skip


def _register_content(app: Dash, library: Library) -> None:
    """What is shown follows the parameters."""

    def update(params: dict[str, str] | None, refs: Sequence[str] | None, theme: str | None) -> Any:
        runs = _loaded(library, refs)
        if len(runs) < 2:
            return (no_update,) * 16
        base, other = _choice(params, len(runs))
        result = _comparison(runs, base)
        tone = theme or "light"
        grid = view.operator_grid(result, _id("grid"), other)
        return (
            view.run_badges(result), view.notices(result), view.cards(result, other), view.why_list(result, other),
            *view.charts(result, other, tone, share=_is_share(params)),
            grid.columnDefs, grid.rowData, view.unmatched_list(result), str(base), str(other),
            maps.timelines(runs, (base, other)), *maps.heatmaps(runs, (base, other), maps.metric_of(params), tone),
            maps.difference(runs, (base, other), maps.metric_of(params), tone),
        )  # fmt: skip

    app.callback(
        Output(_id("runs"), "children"), Output(_id("notices"), "children"), Output(_id("cards"), "children"),
        Output(_id("why"), "children"),
        Output(_id("breakdown"), "figure"), Output(_id("waterfall"), "figure"), Output(_id("categories"), "figure"),
        Output(_id("grid"), "columnDefs"), Output(_id("grid"), "rowData"), Output(_id("unmatched"), "children"),
        Output(_id("base"), "value"), Output(_id("with"), "value"),
        Output(_id("timelines"), "children"), Output(_id("map-a"), "figure"), Output(_id("map-b"), "figure"),
        Output(_id("map-difference"), "figure"),
        Input(Ids.PARAMS, "data"), State(Ids.RUNS, "data"), State(Ids.THEME, "data"),
        prevent_initial_call=True,
    )(update)  # fmt: skip


def _register_selection(app: Dash, library: Library) -> None:
    """A row of the table and a cell of a heatmap select a node; a cell also sets the time window."""

    def select(clicked: dict[str, Any] | None, refs: Sequence[str] | None, params: dict[str, str] | None) -> Any:
        runs = _loaded(library, refs)
        if not clicked or len(runs) < 2:
            return no_update
        base, other = _choice(params, len(runs))
        return _longest(_comparison(runs, base), clicked, other) or no_update

    def cell(
        above: dict[str, Any] | None, below: dict[str, Any] | None, refs: Sequence[str] | None,
        params: dict[str, str] | None,
    ) -> Any:  # fmt: skip
        is_below = ctx.triggered_id == _id("map-b")
        clicked, runs = below if is_below else above, _loaded(library, refs)
        if not clicked or len(runs) < 2:
            return no_update, no_update
        at = _choice(params, len(runs))[int(is_below)]
        window, selection = maps.clicked_cell(runs[at], at, clicked)
        return window, selection or no_update

    selection, window = (Output(name, "data", allow_duplicate=True) for name in (Ids.SELECTION, Ids.WINDOW))
    state = (State(Ids.RUNS, "data"), State(Ids.PARAMS, "data"))
    app.callback(selection, Input(_id("grid"), "cellClicked"), *state, prevent_initial_call=True)(select)
    app.callback(
        window, selection, Input(_id("map-a"), "clickData"), Input(_id("map-b"), "clickData"), *state,
        prevent_initial_call=True,
    )(cell)  # fmt: skip


def _longest(result: Comparison, clicked: Mapping[str, Any], other: int) -> dict[str, int] | None:
    """Selection of the longest instance of the clicked row, in the run of the clicked column where there is one."""
    row, column = str(clicked.get("rowId", "")), str(clicked.get("colId", ""))
    table = result.operators
    at = int(row[:12]) if row.isascii() and row.isdigit() else len(table)
    if at >= len(table):
        return None
    digits = column.lstrip("abcdefghijklmnopqrstuvwxyz")
    wanted = [int(digits[:12])] if digits.isascii() and digits.isdigit() else []
    for run in (*wanted, other, result.baseline):
        if run < len(result.runs) and table.longest[at, run] >= 0:
            rank = int(table.longest_rank[at, run])
            return {"run": run, "rank": rank, "row": int(table.longest[at, run])}
    return None


PAGE = Page(_SLUG, "Compare", "compare", _layout, _register, runs=2, section="Compare")
