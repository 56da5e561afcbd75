"""Graph: dependencies as a picture that starts small: groups to open, a neighbourhood, the critical path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import dash_cytoscape as cyto
import numpy as np
from dash import ClientsideFunction, Dash, Input, Output, State, ctx, dcc, html, no_update
from dash.development.base_component import Component

from chakra_core.analysis.critical_path import DependencyPath, dependency_path
from chakra_core.graph_view import GraphView, chain_view, group_view, neighbourhood_view, path_view
from chakra_core.grouping import Grouping, build_grouping
from chakra_core.schema import NO_TIME
from dashboard.figures.graph import COLOURINGS, elements, stylesheet
from dashboard.library import Library, LoadedRun
from dashboard.nodes import nodes_in
from dashboard.page import Context, Page
from dashboard.pages._graph_view import count_line, legend_items, matches
from dashboard.pages.critical_path import path_of
from dashboard.state import Ids, Selection
from dashboard.words import plain

__all__ = ["PAGE"]

_MODES = {
    "groups": "Groups",
    "near": "Neighbourhood",
    "critical": "Critical path (dependencies)",
    "measured": "Critical path (measured)",
    "path": "Path between two",
}
_MAX_OPEN = 200


@dataclass(frozen=True)
class _Choice:
    """What the page shows, as the URL says it (all in the params store)."""

    mode: str
    at: int
    rank: int
    hops: int
    colour: str
    opened: tuple[int, ...] | None
    pinned: int

    @classmethod
    def of(cls, params: Mapping[str, Any], runs: tuple[LoadedRun, ...]) -> _Choice:
        """From the params store; nonsense becomes the default."""

        def number(name: str, default: int) -> int:
            text = str(params.get(name, ""))
            return int(text) if text.isdecimal() and len(text) < 12 else default

        at = min(number("show", 0), len(runs) - 1)
        ranks = runs[at].run.ranks
        rank = number("rank", ranks[0])
        text = params.get("open")
        opened = (
            None
            if text is None
            else tuple(int(part) for part in str(text).split(".")[:_MAX_OPEN] if part.isdecimal() and len(part) < 12)
        )
        mode, colour = str(params.get("mode", "groups")), str(params.get("colour", "category"))
        return cls(
            mode if mode in _MODES else "groups",
            at,
            rank if rank in ranks else ranks[0],
            min(max(number("hops", 2), 1), 6),
            colour if colour in COLOURINGS else "category",
            opened,
            number("from", -1),
        )


def _grouping(loaded: LoadedRun, rank: int) -> Grouping:
    return loaded.result(("grouping", rank), lambda run: build_grouping(run.by_rank(rank)))


def _path(loaded: LoadedRun, rank: int) -> DependencyPath:
    return loaded.result(("dependency-path", rank), lambda run: dependency_path(run.by_rank(rank)))


def _opened(loaded: LoadedRun, choice: _Choice) -> tuple[int, ...]:
    if choice.opened is not None:
        return choice.opened
    return loaded.result(("graph-first", choice.rank), lambda _: _first(loaded, choice.rank))


def _first(loaded: LoadedRun, rank: int) -> tuple[int, ...]:
    """Groups open in the first picture."""
    trace = loaded.run.by_rank(rank)
    weight = trace.columns.dur_ns if len(trace.device_rows) == len(trace) else np.ones(len(trace), np.int64)
    return tuple(_grouping(loaded, rank).default_expanded(weight))


def _marked(loaded: LoadedRun, choice: _Choice, view: GraphView, nodes: Any) -> dict[int, int]:
    """How many of the chosen nodes each box of a picture stands for."""
    rows = nodes_in(nodes, choice.at, loaded.run).get(choice.rank)
    if rows is None:
        return {}
    shown = {node.key for node in view.nodes}
    own = [row for row in shown if row < len(loaded.run.by_rank(choice.rank))]
    found = {int(row): 1 for row in np.intersect1d(np.array(own, np.int64), rows)}
    groups, counts = np.unique(
        _grouping(loaded, choice.rank).representatives(_opened(loaded, choice))[rows], return_counts=True
    )
    return found | {key: int(n) for key, n in zip(groups.tolist(), counts, strict=True) if key in shown}


def _view(loaded: LoadedRun, choice: _Choice, row: int) -> tuple[GraphView, str]:
    """The picture, and a hint where the mode needs something first."""
    trace, grouping, path = loaded.run.by_rank(choice.rank), _grouping(loaded, choice.rank), _path(loaded, choice.rank)
    slack = path.slack_ns
    if choice.mode == "critical" and len(path.rows):
        return chain_view(trace, grouping, path.rows, slack_ns=slack), ""
    if choice.mode == "measured":
        measured = path_of(loaded, choice.rank, "measured")
        known = measured.rows[measured.rows >= 0]
        if len(known):
            chain = known[np.sort(np.unique(known, return_index=True)[1])]  # an operator that goes on later stands once
            return chain_view(trace, grouping, chain, slack_ns=measured.slack_ns), ""
    if choice.mode == "near" and row >= 0:
        return neighbourhood_view(trace, grouping, row, choice.hops, slack_ns=slack), ""
    if choice.mode == "path" and row >= 0 and 0 <= choice.pinned < len(trace):
        return path_view(trace, grouping, choice.pinned, row, slack_ns=slack), ""
    hints = {
        "near": "Select a node (tap it, or search) to see its neighbourhood; until then the groups are shown.",
        "path": "Tap or find the first node, press “Start here”, then select the second; until then the groups are shown.",
        "critical": "No node has a duration, so there is no critical path; the groups are shown.",
        "measured": "There is no measured critical path in this trace; the groups are shown.",
    }
    return group_view(trace, grouping, _opened(loaded, choice), slack_ns=slack), hints.get(choice.mode, "")


def layout(context: Context) -> Component:
    """The page."""
    choice = _Choice.of(context.state.params, context.runs)
    selection = context.state.selection
    follows = selection is not None and "rank" not in context.state.params and selection.run < len(context.runs)
    if selection is not None and follows and selection.rank in context.runs[selection.run].run.ranks:
        choice = replace(choice, at=selection.run, rank=selection.rank)
    loaded = context.runs[choice.at]
    row = _row(selection, choice, loaded)
    view, hint = _view(loaded, choice, row)
    return html.Div(
        [
            dcc.Store(
                id=PAGE.id("choice"), data={"at": choice.at, "rank": choice.rank, "open": list(_opened(loaded, choice))}
            ),
            dcc.Store(id=PAGE.id("tap")),
            dcc.Store(id=PAGE.id("dbl")),
            dcc.Store(id=PAGE.id("selected"), data=selection.to_data() if selection else None),
            dcc.Store(id=PAGE.id("nodes"), data=context.state.nodes or None),
            html.Div(_toolbar(context, choice), className="ck-toolbar"),
            html.Div(matches(None, ""), id=PAGE.id("matches"), className="ck-matches"),
            cyto.Cytoscape(
                id=PAGE.id("cy"),
                elements=elements(
                    view,
                    colour=choice.colour,
                    selected=row,
                    marked=_marked(loaded, choice, view, context.state.nodes),
                ),
                stylesheet=stylesheet(context.state.theme),
                layout={"name": "preset", "fit": True, "padding": 24},
                style={"width": "100%", "height": "100%"},
                minZoom=0.05,
                maxZoom=3,
                boxSelectionEnabled=False,
                responsive=True,
                autoRefreshLayout=False,
            ),
            html.Div(legend_items(view, choice.colour), id=PAGE.id("legend"), className="ck-legend"),
            html.Div(count_line(view, loaded.run, choice.rank, hint), id=PAGE.id("count"), className="ck-status"),
        ],
        className="ck-graph",
    )


def _row(selection: Selection | None, choice: _Choice, loaded: LoadedRun) -> int:
    """Row of the selected node where it is in the trace shown; -1 otherwise."""
    if selection is None or (selection.run, selection.rank) != (choice.at, choice.rank):
        return -1
    return selection.row if selection.row < len(loaded.run.by_rank(choice.rank)) else -1


def _toolbar(context: Context, choice: _Choice) -> list[Component]:
    def choose(name: str, label: str, options: Mapping[str, str], value: str, width: int) -> Component:
        listed = [{"label": text, "value": key} for key, text in options.items()]
        box = dcc.Dropdown(
            listed,
            value,
            id=PAGE.id(name),
            clearable=False,
            searchable=len(listed) > 12,
            style={"minWidth": f"{width}px"},
        )
        hidden = len(listed) < 2
        return html.Label([html.Span(label), box], style={"display": "none"} if hidden else {})

    runs = {str(at): plain(loaded.run.label, 40) for at, loaded in enumerate(context.runs)}
    ranks = {str(rank): f"rank {rank}" for rank in context.runs[choice.at].run.ranks}
    hops = {str(count): f"{count} step{'s' if count > 1 else ''}" for count in range(1, 7)}
    return [
        choose("mode", "Show", _MODES, choice.mode, 158),
        choose("run", "Run", runs, str(choice.at), 150),
        choose("rank", "Rank", ranks, str(choice.rank), 96),
        choose("colour", "Colour by", COLOURINGS, choice.colour, 128),
        choose("hops", "Neighbourhood", hops, str(choice.hops), 96),
        html.Label(
            [
                html.Span("Find by name or id"),
                dcc.Input(
                    id=PAGE.id("find"),
                    type="search",
                    debounce=True,
                    placeholder="e.g. gemm or 1024",
                    className="ck-input",
                ),
            ]
        ),
        html.Div(
            [
                html.Button("Collapse all", id=PAGE.id("collapse"), className="ck-button ck-small"),
                html.Button(
                    "Start here",
                    id=PAGE.id("pin"),
                    className="ck-button ck-small",
                    title="First node of a path between two",
                ),
                html.Button("Fit", id=PAGE.id("fit"), className="ck-button ck-small"),
            ],
            className="ck-row ck-bottom",
        ),
    ]


def register(app: Dash, library: Library) -> None:
    """Connect the page."""

    def draw(
        mode: str, run: str, rank: str, colour: str, hops: str, tapped: Any, collapse: int | None, pin: int | None, selection: Any,
        nodes: Any, runs: list[str], params: dict[str, str] | None, choice: dict[str, Any], theme: str,
    ) -> Any:  # fmt: skip
        del collapse, pin, theme
        changed = {**(params or {}), "mode": mode, "show": run, "rank": rank, "colour": colour, "hops": hops}
        cause = str(ctx.triggered_id or "").removeprefix(f"{PAGE.slug}-")
        chosen = Selection.from_data(selection)
        if cause == "run":
            changed.pop("rank"), changed.pop("open", None)
        if cause == "rank":
            changed.pop("open", None)
        if cause == "collapse":
            changed["open"] = ""
        if cause == "dbl" and tapped and tapped.get("group"):
            changed["open"] = _toggled(choice["open"], int(tapped["key"]))
        if cause == "pin" and chosen is not None:
            changed |= {"from": str(chosen.row), "mode": "path"}
        return _answer(library, runs, changed, chosen, nodes, moved=cause not in ("selected", "nodes"))

    inputs = [Input(PAGE.id(name), "value") for name in ("mode", "run", "rank", "colour", "hops")]
    app.callback(
        Output(PAGE.id("cy"), "elements"),
        Output(PAGE.id("cy"), "layout"),
        Output(PAGE.id("legend"), "children"),
        Output(PAGE.id("count"), "children"),
        Output(PAGE.id("choice"), "data"),
        Output(PAGE.id("rank"), "options"),
        Output(PAGE.id("rank"), "value"),
        Output(PAGE.id("mode"), "value"),
        Output(Ids.PARAMS, "data", allow_duplicate=True),
        *inputs,
        Input(PAGE.id("dbl"), "data"),
        Input(PAGE.id("collapse"), "n_clicks"),
        Input(PAGE.id("pin"), "n_clicks"),
        Input(PAGE.id("selected"), "data"),
        Input(PAGE.id("nodes"), "data"),
        State(Ids.RUNS, "data"),
        State(Ids.PARAMS, "data"),
        State(PAGE.id("choice"), "data"),
        State(Ids.THEME, "data"),
        prevent_initial_call=True,
    )(draw)
    for mine, shared in (("selected", Ids.SELECTION), ("nodes", Ids.NODES)):
        app.clientside_callback(
            ClientsideFunction("ckGraph", "follow"),
            Output(PAGE.id(mine), "data"),
            Input(shared, "data"),
            prevent_initial_call=True,
        )
    _register_taps(app, library)


def _toggled(opened: list[int], key: int) -> str:
    """The opened groups with one added or taken away, as the URL holds them."""
    kept = [node for node in opened if node != key] if key in opened else [*opened, key]
    return ".".join(map(str, kept[-_MAX_OPEN:]))


def _answer(
    library: Library, runs: list[str], params: dict[str, str], chosen: Selection | None, nodes: Any, *, moved: bool
) -> Any:
    """New picture for changed params; the view is fitted only where the picture itself changed."""
    loaded_runs = tuple(library.get(ref) for ref in runs)
    choice = _Choice.of(params, loaded_runs)
    loaded = loaded_runs[choice.at]
    row = _row(chosen, choice, loaded)
    view, hint = _view(loaded, choice, row)
    fit = moved or choice.mode in ("near", "path")
    ranks = [{"label": f"rank {rank}", "value": str(rank)} for rank in loaded.run.ranks]
    return (
        elements(view, colour=choice.colour, selected=row, marked=_marked(loaded, choice, view, nodes)),
        {"name": "preset", "fit": fit, "padding": 24},
        legend_items(view, choice.colour),
        count_line(view, loaded.run, choice.rank, hint),
        {"at": choice.at, "rank": choice.rank, "open": list(_opened(loaded, choice))},
        ranks,
        str(choice.rank),
        choice.mode,
        params,
    )


def _register_taps(app: Dash, library: Library) -> None:
    """Taps select, double taps open groups or lead to the timeline, the search lists matches."""

    def tap(data: dict[str, Any] | None, choice: dict[str, Any]) -> Any:
        if not data or data.get("row", -1) < 0:
            return no_update
        return {"run": choice["at"], "rank": choice["rank"], "row": data["row"]}

    def double(data: dict[str, Any] | None, choice: dict[str, Any], runs: list[str]) -> Any:
        if not data or data.get("group"):
            return no_update, no_update
        run = library.get(runs[choice["at"]]).run
        trace = run.by_rank(choice["rank"])
        start = int(trace.columns.start_ns[data["row"]])
        if start == NO_TIME:
            return no_update, "timeline"
        dur = max(int(trace.columns.dur_ns[data["row"]]), 1000)
        begin = max(start - run.origin_ns - 2 * dur, 0)
        return [begin, begin + 5 * dur], "timeline"

    def find(text: str | None, choice: dict[str, Any], runs: list[str]) -> Any:
        trace = library.get(runs[choice["at"]]).run.by_rank(choice["rank"])
        return matches(trace, text or "", choice["at"], choice["rank"])

    choice, runs = State(PAGE.id("choice"), "data"), State(Ids.RUNS, "data")
    app.callback(
        Output(Ids.SELECTION, "data", allow_duplicate=True),
        Input(PAGE.id("tap"), "data"),
        choice,
        prevent_initial_call=True,
    )(tap)
    app.callback(
        Output(Ids.WINDOW, "data", allow_duplicate=True),
        Output(Ids.NAVIGATE, "data", allow_duplicate=True),
        Input(PAGE.id("dbl"), "data"),
        choice,
        runs,
        prevent_initial_call=True,
    )(double)
    app.callback(
        Output(PAGE.id("matches"), "children"), Input(PAGE.id("find"), "value"), choice, runs, prevent_initial_call=True
    )(find)
    app.clientside_callback(
        ClientsideFunction("ckGraph", "attach"),
        Output(PAGE.id("cy"), "className"),
        Input(PAGE.id("cy"), "elements"),
        State(PAGE.id("cy"), "layout"),
    )
    app.clientside_callback(
        ClientsideFunction("ckGraph", "fit"),
        Output(PAGE.id("fit"), "title"),
        Input(PAGE.id("fit"), "n_clicks"),
        prevent_initial_call=True,
    )


PAGE = Page("graph", "Graph", "graph", layout, register, section="View")
