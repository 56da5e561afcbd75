"""Critical path: what decides how long a rank takes, how much room the rest has, and what would happen if."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dash import Dash, Input, Output, State, dcc, html, no_update
from dash.development.base_component import Component

from chakra_core.analysis.critical_path import DependencyPath, dependency_path, path_by_category
from chakra_core.analysis.measured_path import MeasuredGraph, MeasuredPath, causes_of, measured_graph, solve
from chakra_core.analysis.scope import WHOLE, Scope
from chakra_core.analysis.what_if import Factors, what_if
from dashboard.figures.path import cause_bars
from dashboard.library import Library, LoadedRun
from dashboard.nodes import rows_text
from dashboard.page import Context, Page
from dashboard.pages._critical_view import by_name, card, facts, figure_of, over_time, slack_card, top_card
from dashboard.pages._within import SCOPED, scope_from, within
from dashboard.scopes import scope_in
from dashboard.state import Ids
from dashboard.words import duration, plain, share

__all__ = ["PAGE", "graph_of", "path_of"]

KINDS = {
    "measured": "measured",
    "between": "measured, with the time between operators",
    "dependency": "dependency",
}
_SLIDERS = ("host", "launch", "compute", "communication", "copy", "idle")
_WORDS = {
    "measured": "The longest chain of what waited for what: operators on threads, launches, work on streams, synchronisation. "
    "Time between the outermost operators of a thread counts only in the second kind.",
    "dependency": "The longest chain of recorded dependencies by duration.",
}


@dataclass(frozen=True)
class _Choice:
    """What the page shows, as the URL says it."""

    kind: str
    at: int
    rank: int

    @classmethod
    def of(cls, params: Mapping[str, Any], runs: tuple[LoadedRun, ...]) -> _Choice:
        """From the params store; nonsense becomes the default."""
        shown, rank = str(params.get("show", "")), str(params.get("rank", ""))
        at = int(shown) if shown.isdecimal() and int(shown[:6]) < len(runs) else 0
        ranks = runs[at].run.ranks
        number = int(rank) if rank.isdecimal() and len(rank) < 10 and int(rank) in ranks else ranks[0]
        kind = str(params.get("kind", ""))
        if kind not in KINDS:
            kind = "measured" if not graph_of(runs[at], number).reason else "dependency"
        return cls(kind, at, number)


def graph_of(loaded: LoadedRun, rank: int, scope: Scope = WHOLE, *, between: bool = False) -> MeasuredGraph:
    """The graph of the measured path of a rank; that of the whole run is made once."""
    key = ("measured-graph", rank, between)
    return within(loaded, key, scope, lambda run: measured_graph(run.by_rank(rank), scope, between_operators=between))


def path_of(loaded: LoadedRun, rank: int, kind: str, scope: Scope = WHOLE) -> MeasuredPath | DependencyPath:
    """The path of a rank; that of the whole run is found once."""
    if kind == "dependency":
        return within(loaded, ("dependency-path", rank), scope, lambda run: dependency_path(run.by_rank(rank), scope))
    graph = graph_of(loaded, rank, scope, between=kind == "between")
    return within(loaded, ("measured-path", rank, kind), scope, lambda run: solve(graph, len(run.by_rank(rank))))


def layout(context: Context) -> Component:
    """The page."""
    choice = _Choice.of(context.state.params, context.runs)
    loaded = context.runs[choice.at]
    return html.Div(
        [
            html.Div([html.H1("Critical path")], className="ck-heading"),
            html.P(
                "What decides how long the rank takes: shortening anything else does not make it faster.",
                className="ck-lead",
            ),
            html.Div(_controls(context.runs, choice), className="ck-controls"),
            html.Div(
                _body(loaded, choice, context.state.theme, scope_in(context.state, loaded, choice.at)),
                id=PAGE.id("body"),
                className="ck-column",
            ),
        ]
    )


def _controls(runs: tuple[LoadedRun, ...], choice: _Choice) -> list[Component]:
    def choose(label: str, name: str, options: Mapping[str, str], value: str) -> Component:
        listed = [{"label": text, "value": key} for key, text in options.items()]
        box = dcc.Dropdown(listed, value, id=PAGE.id(name), clearable=False, searchable=False, className="ck-dropdown")
        return html.Label([html.Span(label), box], style={} if len(options) > 1 else {"display": "none"})

    return [
        choose("Path", "kind", KINDS, choice.kind),
        choose("Run", "run", {str(at): plain(one.run.label, 60) for at, one in enumerate(runs)}, str(choice.at)),
        choose("Rank", "rank", {str(rank): f"rank {rank}" for rank in runs[choice.at].run.ranks}, str(choice.rank)),
    ]


def _body(loaded: LoadedRun, choice: _Choice, theme: str, scope: Scope) -> list[Component]:
    trace = loaded.run.by_rank(choice.rank)
    path = path_of(loaded, choice.rank, choice.kind, scope)
    reason = path.reason if isinstance(path, MeasuredPath) else ""
    if reason or not path.length_ns:
        words = f"There is no {choice.kind} critical path: {reason or 'nothing on it takes time'}."
        return [html.P(words, className="ck-hint"), html.P("Choose the other kind of path above.", className="ck-hint")]
    causes = (
        causes_of(path)
        if isinstance(path, MeasuredPath)
        else {k.label: v for k, v in path_by_category(trace, path).items()}
    )
    measured = isinstance(path, MeasuredPath)
    columns = [
        card("What it is spent on", figure_of(cause_bars(causes, theme)), "sums to its length"),
        top_card(trace, by_name(trace, path), choice.at, choice.rank, path.length_ns, theme),
    ]
    second = [
        _what_if_card(choice, causes, theme) if measured else None,
        slack_card(trace, path.slack_ns, choice.at, choice.rank, theme),
    ]
    return [
        facts(trace, path, loaded.run),
        html.P(_WORDS["measured" if measured else "dependency"], className="ck-hint"),
        html.Div(_buttons(), className="ck-row"),
        *([over_time(path, loaded.run.origin_ns, theme, PAGE.id("when"))] if isinstance(path, MeasuredPath) else []),
        html.Div(
            [
                html.Div(columns, className="ck-column"),
                html.Div([part for part in second if part], className="ck-column"),
            ],
            className="ck-columns",
        ),
    ]


def _buttons() -> list[Component]:
    return [
        html.Button("Mark on the timeline", id=PAGE.id("timeline"), className="ck-button ck-small"),
        html.Button("Show in the graph", id=PAGE.id("graph"), className="ck-button ck-small"),
    ]


def _what_if_card(choice: _Choice, causes: Mapping[str, int], theme: str) -> Component:
    del choice
    sliders = [
        html.Label(
            [
                html.Span(f"{cause.capitalize()}, times"),
                dcc.Slider(
                    0, 2, 0.05, value=1, id=PAGE.id(f"factor-{cause}"), marks={0: "0", 0.5: "½", 1: "1", 2: "2"},
                    tooltip={"placement": "bottom", "always_visible": False}, updatemode="mouseup",
                ),
            ],
            className="ck-what-if",
        )
        for cause in _SLIDERS
    ]  # fmt: skip
    return card(
        "What if",
        html.Div(
            [
                html.Div(sliders, className="ck-what-if-grid"),
                html.P("Move a slider: 0.5 is twice as fast, 0 takes no time, 2 twice as long.", id=PAGE.id("answer"), role="status"),
                dcc.Graph(
                    id=PAGE.id("after"), figure=cause_bars(causes, theme),
                    config={"displaylogo": False, "responsive": True, "displayModeBar": False},
                ),
            ]
        ),
        "the path is found anew",
    )  # fmt: skip


def register(app: Dash, library: Library) -> None:
    """Connect the page."""

    def change(
        kind: str, at: str, rank: str, runs: list[str], theme: str, params: dict[str, str] | None, *scoped: Any
    ) -> Any:
        loaded = tuple(library.get(ref) for ref in runs)
        choice = _Choice.of({"kind": kind, "show": at, "rank": rank}, loaded)
        ranks = [{"label": f"rank {one}", "value": str(one)} for one in loaded[choice.at].run.ranks]
        changed = {**(params or {}), "kind": choice.kind, "show": str(choice.at), "rank": str(choice.rank)}
        scope = scope_from(scoped, loaded[choice.at], choice.at)
        return _body(loaded[choice.at], choice, theme, scope), ranks, str(choice.rank), changed

    app.callback(
        Output(PAGE.id("body"), "children"),
        Output(PAGE.id("rank"), "options"),
        Output(PAGE.id("rank"), "value"),
        Output(Ids.PARAMS, "data", allow_duplicate=True),
        *(Input(PAGE.id(name), "value") for name in ("kind", "run", "rank")),
        State(Ids.RUNS, "data"),
        State(Ids.THEME, "data"),
        State(Ids.PARAMS, "data"),
        *SCOPED,
        prevent_initial_call=True,
    )(change)
    _register_what_if(app, library)
    _register_links(app, library)


def _register_what_if(app: Dash, library: Library) -> None:
    def ask(*given: Any) -> Any:
        factors, (kind, at, rank, runs, theme, *scoped) = given[: len(_SLIDERS)], given[len(_SLIDERS) :]
        loaded = library.get(runs[int(at)])
        scope = scope_from(scoped, loaded, int(at))
        number, between = int(rank), kind == "between"
        trace = loaded.run.by_rank(number)
        graph = graph_of(loaded, number, scope, between=between)
        causes = {
            cause: float(1 if factor is None else factor) for cause, factor in zip(_SLIDERS, factors, strict=True)
        }
        found = what_if(trace, graph, Factors(causes))
        before = path_of(loaded, number, kind, scope)
        if not isinstance(before, MeasuredPath):
            return no_update, no_update
        saved = found.saved_ns
        verb = "shorter" if saved >= 0 else "longer"
        text = (
            f"{duration(found.path.length_ns)} in place of {duration(found.before_ns)}: "
            f"{duration(abs(saved))} {verb} ({share(abs(saved), found.before_ns)})."
            if saved
            else f"The path stays {duration(found.before_ns)} long."
        )
        return text, cause_bars(causes_of(before), theme, causes_of(found.path))

    app.callback(
        Output(PAGE.id("answer"), "children"),
        Output(PAGE.id("after"), "figure"),
        *(Input(PAGE.id(f"factor-{cause}"), "value") for cause in _SLIDERS),
        *(State(PAGE.id(name), "value") for name in ("kind", "run", "rank")),
        State(Ids.RUNS, "data"),
        State(Ids.THEME, "data"),
        *SCOPED,
        prevent_initial_call=True,
    )(ask)


def _register_links(app: Dash, library: Library) -> None:
    states = [*(State(PAGE.id(name), "value") for name in ("kind", "run", "rank")), State(Ids.RUNS, "data")]

    def mark(clicks: int | None, kind: str, at: str, rank: str, runs: list[str], *scoped: Any) -> Any:
        if not clicks:
            return no_update, no_update
        loaded = library.get(runs[int(at)])
        return marks(loaded, int(at), int(rank), kind, scope_from(scoped, loaded, int(at))), "timeline"

    def draw(clicks: int | None, kind: str, at: str, rank: str, params: dict[str, str] | None) -> Any:
        if not clicks:
            return no_update, no_update
        mode = "critical" if kind == "dependency" else "measured"
        return {**(params or {}), "mode": mode, "show": at, "rank": rank}, "graph"

    def zoom(clicked: dict[str, Any] | None) -> Any:
        if not clicked:
            return no_update, no_update
        begin, end = clicked["points"][0]["customdata"][1:3]
        return [int(begin), int(end)], "timeline"

    def to(store: str) -> Output:
        return Output(store, "data", allow_duplicate=True)

    app.callback(
        to(Ids.NODES),
        to(Ids.NAVIGATE),
        Input(PAGE.id("timeline"), "n_clicks"),
        *states,
        *SCOPED,
        prevent_initial_call=True,
    )(mark)
    app.callback(
        to(Ids.PARAMS), to(Ids.NAVIGATE), Input(PAGE.id("graph"), "n_clicks"), *states[:3], State(Ids.PARAMS, "data"),
        prevent_initial_call=True,
    )(draw)  # fmt: skip
    app.callback(
        to(Ids.WINDOW), to(Ids.NAVIGATE), Input(PAGE.id("when"), "clickData"),
        prevent_initial_call=True,
    )(zoom)  # fmt: skip


def marks(loaded: LoadedRun, at: int, rank: int, kind: str, scope: Scope = WHOLE) -> str:
    """Text of the nodes on a path; of a long one, those on which most of its time is spent."""
    path = path_of(loaded, rank, kind, scope)
    return rows_text(at, rank, most_spent(path))


def most_spent(path: MeasuredPath | DependencyPath, most: int = 2_000) -> list[int]:
    """Rows of a path by the time it spends on them, at most so many."""
    known = path.rows >= 0
    totals: dict[int, int] = {}
    for row, spent in zip(path.rows[known].tolist(), path.spent_ns[known].tolist(), strict=True):
        totals[row] = totals.get(row, 0) + spent
    return sorted(totals, key=lambda row: -totals[row])[:most]


PAGE = Page("critical-path", "Critical path", "critical-path", layout, register, section="Analyse")
