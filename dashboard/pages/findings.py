"""Findings: what could be saved, most first, each with its numbers and the place that proves it; and a board of pins."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from dash import ALL, Dash, Input, Output, State, ctx, dcc, html, no_update
from dash.development.base_component import Component

from chakra_core.analysis.findings import Thresholds
from chakra_core.errors import AnalysisError
from dashboard.library import Library, LoadedRun
from dashboard.page import Context, Page
from dashboard.pages._findings_view import card, findings_of, limits_of, limits_text
from dashboard.scopes import ScopeChoice, scope_of
from dashboard.state import Ids, Selection, ViewState
from dashboard.words import count, plain

__all__ = ["PAGE"]

_LIMIT = "findings-limit"
_FACTORS = {"share": (100.0, "%"), "ns": (0.001, "µs"), "count": (1.0, "")}
"""From a threshold to what its control shows, by unit."""


def layout(context: Context) -> Component:
    """The page."""
    state = context.state
    limits = limits_of(state.params.get("limits"))
    return html.Div(
        [
            html.H1("Findings"),
            html.P(
                "What could be saved, most first. A saving is an upper bound on the time of one rank: savings of several "
                "findings overlap and do not add up.",
                className="ck-lead",
            ),
            _controls(limits),
            html.Div(_lists(context.runs, state, limits), id=PAGE.id("lists")),
            _board(),
        ]
    )


def _lists(runs: tuple[LoadedRun, ...], state: ViewState, limits: Thresholds) -> list[Component]:
    choice = ScopeChoice.parse(state.scope)
    parts: list[Component] = []
    for at, loaded in enumerate(runs):
        scope = scope_of(choice, loaded, at, state.nodes, state.selection)
        found = findings_of(loaded, scope, limits)
        largest = max((one.saving_ns for one in found), default=0)
        if len(runs) > 1:
            parts.append(html.H2(plain(loaded.run.label, 200), className="ck-run-title"))
        if not found:
            parts.append(html.P("No rule finds anything worth a look under these thresholds.", className="ck-hint"))
        cards = [card(one, number, loaded.run, at, largest) for number, one in enumerate(found, 1)]
        parts.append(html.Ol(cards, className="ck-findings"))
    return parts


def _controls(limits: Thresholds) -> Component:
    boxes = []
    for entry in fields(limits):
        factor, unit = _FACTORS[entry.metadata["unit"]]
        value = round(getattr(limits, entry.name) * factor, 6)
        box = dcc.Input(
            id={"type": _LIMIT, "name": entry.name},
            type="number",
            min=0,
            value=value,
            debounce=True,
            className="ck-input",
        )
        boxes.append(html.Label([html.Span(entry.metadata["words"]), html.Span([box, f" {unit}"])]))
    changed = limits_text(limits)
    note = count(len(changed.split(",")), "threshold") + " changed" if changed else "as usual"
    return html.Details(
        [
            html.Summary(["Thresholds ", html.Span(note, id=PAGE.id("changed"), className="ck-note")]),
            html.Div(boxes, className="ck-limits"),
        ],
        className="ck-panel ck-limits-box",
    )


def _board() -> Component:
    """The board of pins; ``assets/board.js`` fills it from the browser's own storage."""
    return html.Section(
        [
            html.Div(
                [
                    html.H2("Board"),
                    html.Span("Pinned findings, selections and notes; kept in this browser only.", className="ck-note"),
                ],
                className="ck-card-title",
            ),
            html.Div(
                [
                    dcc.Input(id=PAGE.id("note"), type="text", placeholder="A note", className="ck-input ck-board-note", maxLength=500),
                    html.Button("Pin note", className="ck-button ck-small", **{"data-pin": "note"}),
                    html.Button("Pin selected node", className="ck-button ck-small", **{"data-pin": "selection"}),
                ],
                className="ck-row",
            ),
            html.Div(id=PAGE.id("board"), className="ck-board"),
        ],
        className="ck-panel",
    )  # fmt: skip


def register(app: Dash, library: Library) -> None:
    """Connect the thresholds."""

    def change(
        values: list[Any], runs: list[str], params: dict[str, str] | None, scope: str | None, nodes: str | None,
        selection: Any,
    ) -> Any:  # fmt: skip
        limits = _limits(values)
        text = limits_text(limits)
        if limits is None or text == (params or {}).get("limits", ""):
            return no_update, no_update, no_update
        state = ViewState(PAGE.slug, tuple(runs), Selection.from_data(selection), nodes=nodes or "", scope=scope or "")
        loaded = tuple(library.get(ref) for ref in runs)
        kept = {key: value for key, value in (params or {}).items() if key != "limits"}
        note = count(len(text.split(",")), "threshold") + " changed" if text else "as usual"
        return _lists(loaded, state, limits), note, {**kept, "limits": text} if text else kept

    app.callback(
        Output(PAGE.id("lists"), "children"),
        Output(PAGE.id("changed"), "children"),
        Output(Ids.PARAMS, "data", allow_duplicate=True),
        Input({"type": _LIMIT, "name": ALL}, "value"),
        *(State(name, "data") for name in (Ids.RUNS, Ids.PARAMS, Ids.SCOPE, Ids.NODES, Ids.SELECTION)),
        prevent_initial_call=True,
    )(change)


def _limits(values: list[Any]) -> Thresholds:
    """Thresholds from the controls; an empty or impossible one is as usual."""
    limits = Thresholds()
    names = [entry["id"]["name"] for entry in ctx.inputs_list[0]]
    for entry in fields(Thresholds):
        if entry.name not in names:
            continue
        value = values[names.index(entry.name)]
        if isinstance(value, int | float):
            try:
                limits = limits.changed({entry.name: value / _FACTORS[entry.metadata["unit"]][0]})
            except AnalysisError:  # a negative number: as usual
                continue
    return limits


PAGE = Page("findings", "Findings", "findings", layout, register, section="Analyse", scoped=True)
