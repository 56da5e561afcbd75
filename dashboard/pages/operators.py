"""Operators: which calls, modules and kernels take the time, how their durations spread, and what could be saved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from dash import Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component
from numpy.typing import NDArray

from chakra_core.analysis.kernel_shapes import Durations, durations
from chakra_core.analysis.operator_groups import GROUPINGS, OperatorGroups, operator_groups
from chakra_core.analysis.operators import Kernels, kernels, operator_mask
from chakra_core.analysis.recomputation import Recomputation, recomputation
from chakra_core.analysis.scope import WHOLE, Scope
from chakra_core.analysis.sequences import Sequences, sequences
from dashboard.figures.durations import duration_figure
from dashboard.later import placeholder
from dashboard.library import Library, LoadedRun
from dashboard.nodes import nodes_in
from dashboard.page import Context, Page
from dashboard.pages._critical_view import card, figure_of
from dashboard.pages._operators_view import (
    groups_card,
    kernels_card,
    recomputation_card,
    sequences_card,
    unclassified_card,
)
from dashboard.pages._within import SCOPED, scope_from, within
from dashboard.scopes import scope_in
from dashboard.state import Ids, Selection, ViewState
from dashboard.words import count, plain

__all__ = ["PAGE"]

_SLUG = "operators"
I64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Choice:
    """What the page shows, as the URL says it."""

    by: str
    at: int
    rank: int

    @classmethod
    def of(cls, params: Mapping[str, Any], runs: tuple[LoadedRun, ...]) -> _Choice:
        """From the params store; nonsense becomes the default."""
        shown, rank, by = (str(params.get(key, "")) for key in ("show", "rank", "group"))
        at = int(shown) if shown.isdecimal() and int(shown[:6]) < len(runs) else 0
        ranks = runs[at].run.ranks
        number = int(rank) if rank.isdecimal() and len(rank) < 10 and int(rank) in ranks else ranks[0]
        return cls(by if by in GROUPINGS else "name", at, number)


def _groups_of(loaded: LoadedRun, rank: int, by: str, scope: Scope = WHOLE) -> OperatorGroups:
    return within(
        loaded, ("operator-groups", rank, by), scope, lambda run: operator_groups(run.by_rank(rank), scope, by)
    )


def _kernels_of(loaded: LoadedRun, rank: int, scope: Scope = WHOLE) -> Kernels:
    return within(loaded, ("kernels", rank), scope, lambda run: kernels(run.by_rank(rank), scope))


def _sequences_of(loaded: LoadedRun, rank: int, scope: Scope = WHOLE) -> Sequences:
    return within(loaded, ("sequences", rank), scope, lambda run: sequences(run.by_rank(rank), scope))


def _recomputation_of(loaded: LoadedRun, rank: int, scope: Scope = WHOLE) -> Recomputation:
    return within(loaded, ("recomputation", rank), scope, lambda run: recomputation(run.by_rank(rank), scope))


def _durations_of(loaded: LoadedRun, rank: int, scope: Scope = WHOLE) -> Durations:
    """Of all device work, or of all operators where there is none."""
    trace = loaded.run.by_rank(rank)
    rows = trace.device_rows if len(trace.device_rows) else np.flatnonzero(operator_mask(trace))
    return within(loaded, ("durations", rank), scope, lambda _run: durations(trace, scope, rows))


def layout(context: Context) -> Component:
    """The page."""
    choice = _Choice.of(context.state.params, context.runs)
    return html.Div(
        [
            html.Div([html.H1("Operators")], className="ck-heading"),
            html.P(
                "Host time is that of the calls themselves; device time is that of the work launched from below them. "
                "Select a row to see its calls everywhere, and how their durations spread.",
                className="ck-lead",
            ),
            html.Div(_controls(context.runs, choice), className="ck-controls"),
            html.Div(_body(context.runs, choice, context.state), id=PAGE.id("body"), className="ck-column"),
        ]
    )


def _controls(runs: tuple[LoadedRun, ...], choice: _Choice) -> list[Component]:
    def choose(label: str, name: str, options: Mapping[str, str], value: str) -> Component:
        listed = [{"label": text, "value": key} for key, text in options.items()]
        box = dcc.Dropdown(listed, value, id=PAGE.id(name), clearable=False, searchable=False, className="ck-dropdown")
        return html.Label([html.Span(label), box], style={} if len(options) > 1 else {"display": "none"})

    return [
        choose("Group by", "by", GROUPINGS, choice.by),
        choose("Run", "run", {str(at): plain(one.run.label, 60) for at, one in enumerate(runs)}, str(choice.at)),
        choose("Rank", "rank", {str(rank): f"rank {rank}" for rank in runs[choice.at].run.ranks}, str(choice.rank)),
    ]


def _body(runs: tuple[LoadedRun, ...], choice: _Choice, state: ViewState) -> list[Component]:
    loaded, at = runs[choice.at], choice.at
    scope = scope_in(state, loaded, at)
    figure, note = _spread(loaded, choice, scope, state)
    spread = card("Durations", figure_of(figure, PAGE.id("durations")), "")
    spread.children[0].children[1] = html.Span(note, id=PAGE.id("spread-note"), className="ck-note")
    groups = html.Div(_groups(loaded, choice, scope, state.theme), id=PAGE.id("groups"))
    return [
        html.Div([groups, spread], className="ck-wide-columns"),
        placeholder(_SLUG, "kernels", at, height=460),
        html.Div(
            [
                html.Div(placeholder(_SLUG, "sequences", at, height=420), className="ck-column"),
                html.Div(
                    [
                        placeholder(_SLUG, "recomputation", at, height=160),
                        placeholder(_SLUG, "unclassified", at, height=120),
                    ],
                    className="ck-column",
                ),
            ],
            className="ck-map-columns",
        ),
    ]


def _groups(loaded: LoadedRun, choice: _Choice, scope: Scope, theme: str) -> Component:
    found = _groups_of(loaded, choice.rank, choice.by, scope)
    return groups_card(found, loaded.run.by_rank(choice.rank), choice.at, choice.rank, theme)


def _spread(loaded: LoadedRun, choice: _Choice, scope: Scope, state: ViewState) -> tuple[go.Figure, str]:
    """Durations of what is selected, or of everything, and in words what that is."""
    trace = loaded.run.by_rank(choice.rank)
    what = "kernels" if len(trace.device_rows) else "operators"
    selected = state.selection
    if selected is None or (selected.run, selected.rank) != (choice.at, choice.rank) or selected.row >= len(trace):
        return duration_figure(_durations_of(loaded, choice.rank, scope), state.theme, what=what), f"all {what}"
    rows = _alike(loaded, choice, selected, state.nodes)
    found = durations(trace, scope, rows)
    words = f"{plain(trace.name_of(selected.row), 60)}: {count(int(found.count.sum()), 'time')}"
    return duration_figure(found, state.theme, what="times"), words


def _alike(loaded: LoadedRun, choice: _Choice, selected: Selection, nodes: str) -> I64:
    """What is selected: the chosen nodes if the selected one is among them, else all of its name on the same side."""
    trace = loaded.run.by_rank(choice.rank)
    c = trace.columns
    rows = nodes_in(nodes, choice.at, loaded.run).get(choice.rank, np.zeros(0, np.int64))
    if selected.row not in rows:
        rows = np.flatnonzero(c.name == c.name[selected.row])
    return rows[c.domain[rows] == c.domain[selected.row]]


def _chosen(context: Context, at: int) -> tuple[LoadedRun, int, Scope]:
    """Run, rank and scope of what is shown, where the page shows the ``at``-th run."""
    choice = _Choice.of(context.state.params, context.runs)
    loaded = context.runs[at]
    rank = choice.rank if at == choice.at else loaded.run.ranks[0]
    return loaded, rank, scope_in(context.state, loaded, at)


def _kernels(context: Context, at: int) -> Component:
    loaded, rank, scope = _chosen(context, at)
    return kernels_card(_kernels_of(loaded, rank, scope), loaded.run.by_rank(rank), at, rank, context.state.theme)


def _sequences(context: Context, at: int) -> Component:
    loaded, rank, scope = _chosen(context, at)
    return sequences_card(_sequences_of(loaded, rank, scope), at, rank, context.state.theme)


def _recomputation(context: Context, at: int) -> Component:
    loaded, rank, scope = _chosen(context, at)
    return recomputation_card(_recomputation_of(loaded, rank, scope), at, rank, context.state.theme)


def _unclassified(context: Context, at: int) -> Component:
    loaded, rank, scope = _chosen(context, at)
    return unclassified_card(loaded.run.by_rank(rank), scope, at, rank, context.state.theme)


def register(app: Dash, library: Library) -> None:
    """Connect the page."""

    def regroup(by: str, at: str, rank: str, runs: list[str], theme: str, params: Any, *scoped: Any) -> Any:
        loaded = tuple(library.get(ref) for ref in runs)
        choice = _Choice.of({"group": by, "show": at, "rank": rank}, loaded)
        run = loaded[choice.at]
        made = _groups(run, choice, scope_from(scoped, run, choice.at), theme)
        return made, {**(params or {}), "group": choice.by}

    def change(at: str, rank: str, by: str, *stores: Any) -> Any:
        state = ViewState.from_stores(*stores)
        loaded = tuple(library.get(ref) for ref in state.runs)
        choice = _Choice.of({"group": by, "show": at, "rank": rank}, loaded)
        ranks = [{"label": f"rank {one}", "value": str(one)} for one in loaded[choice.at].run.ranks]
        changed = {**state.params, "show": str(choice.at), "rank": str(choice.rank)}
        return _body(loaded, choice, state), ranks, str(choice.rank), changed

    def spread(_selection: Any, _nodes: Any, by: str, at: str, rank: str, *stores: Any) -> Any:
        state = ViewState.from_stores(*stores)
        loaded = tuple(library.get(ref) for ref in state.runs)
        choice = _Choice.of({"group": by, "show": at, "rank": rank}, loaded)
        run = loaded[choice.at]
        return _spread(run, choice, scope_in(state, run, choice.at), state)

    values = {name: State(PAGE.id(name), "value") for name in ("by", "run", "rank")}
    params = Output(Ids.PARAMS, "data", allow_duplicate=True)
    view = [State(name, "data") for name in Ids.VIEW]
    app.callback(
        Output(PAGE.id("groups"), "children"), params, Input(PAGE.id("by"), "value"), values["run"], values["rank"],
        State(Ids.RUNS, "data"), State(Ids.THEME, "data"), State(Ids.PARAMS, "data"), *SCOPED,
        prevent_initial_call=True,
    )(regroup)  # fmt: skip
    app.callback(
        Output(PAGE.id("body"), "children"), Output(PAGE.id("rank"), "options"), Output(PAGE.id("rank"), "value"), params,
        Input(PAGE.id("run"), "value"), Input(PAGE.id("rank"), "value"), values["by"], *view,
        prevent_initial_call=True,
    )(change)  # fmt: skip
    app.callback(
        Output(PAGE.id("durations"), "figure"), Output(PAGE.id("spread-note"), "children"),
        Input(Ids.SELECTION, "data"), Input(Ids.NODES, "data"), values["by"], values["run"], values["rank"], *view,
        prevent_initial_call=True,
    )(spread)  # fmt: skip


def _prepare(loaded: LoadedRun) -> None:
    """What the page shows of a whole run at first."""
    rank = loaded.run.ranks[0]
    _groups_of(loaded, rank, "name")
    _durations_of(loaded, rank)
    _kernels_of(loaded, rank)
    _sequences_of(loaded, rank)
    _recomputation_of(loaded, rank)


PAGE = Page(
    _SLUG,
    "Operators",
    "operators",
    layout,
    register,
    section="Analyse",
    scoped=True,
    prepare=_prepare,
    later={
        "kernels": _kernels,
        "sequences": _sequences,
        "recomputation": _recomputation,
        "unclassified": _unclassified,
    },
)
