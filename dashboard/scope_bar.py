"""The scope control above every page that computes: what the numbers are for, and the choices that change it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from dash import Dash, Input, Output, State, ctx, dcc, html, no_update
from dash.development.base_component import Component

from dashboard.library import Library, LoadedRun
from dashboard.scopes import ScopeChoice, scope_of, sentence, steps_of
from dashboard.state import Ids, Selection
from dashboard.words import plain

__all__ = ["layout", "register"]

_MOST_OPTIONS = 1_000
_UNITS = {"": 1.0, "ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}
_TIME = re.compile(r"\s*([\d,]{1,20}(?:\.\d{1,9})?)\s*(ns|us|µs|ms|s|)\s*")
_CONTROLS = ("steps-from", "steps-to", "t0", "t1", "ranks", "lanes", "chosen")


def layout() -> Component:
    """The bar; empty of choices until a run is there."""

    def box(name: str, title: str, *, multi: bool = False) -> Component:
        made = dcc.Dropdown([], None, id=f"scope-{name}", multi=multi, placeholder="all", className="ck-dropdown")
        return html.Label([html.Span(title), made])

    def time(name: str, title: str) -> Component:
        made = dcc.Input(
            id=f"scope-{name}", type="text", debounce=True, placeholder="e.g. 1.5 ms", className="ck-input"
        )
        return html.Label([html.Span(title), made])

    controls = html.Div(
        [
            box("steps-from", "From step"), box("steps-to", "To step"), time("t0", "From time"), time("t1", "To time"),
            box("ranks", "Ranks", multi=True), box("lanes", "Threads and streams", multi=True),
            dcc.Checklist([{"label": " only chosen nodes", "value": "n"}], [], id="scope-chosen", className="ck-check"),
            html.Button("As the timeline", id="scope-window", className="ck-button ck-small",
                        title="The time range that the timeline shows", n_clicks=0),
        ],
        className="ck-scope-controls",
    )  # fmt: skip
    clear = html.Button("Whole run", id="scope-clear", className="ck-button ck-small", n_clicks=0)
    summary = html.Summary([html.Strong("Scope"), html.Span(id="scope-words"), clear])
    return html.Details([summary, controls], id="scope-bar", className="ck-scope", style={"display": "none"})


def parse_time(text: object) -> int | None:
    """A time as typed, in ns; None where it is none.

    >>> parse_time("1.5 ms"), parse_time("12"), parse_time("soon")
    (1500000, 12, None)
    """
    match = _TIME.fullmatch(str(text or ""))
    return round(float(match[1].replace(",", "")) * _UNITS[match[2]]) if match else None


def register(app: Dash, library: Library, scoped: Callable[[str], bool]) -> None:
    """Connect the bar; ``scoped`` says of a page's slug whether it computes within the scope."""

    def show(page: str | None, runs: list[str] | None, text: str | None, nodes: Any, _tick: int, selection: Any) -> Any:
        ready = [ref for ref in runs or [] if library.status(ref).state == "ready"]
        if page is None or not scoped(page) or not ready or len(ready) < len(runs or []):
            return ({"display": "none"}, *[no_update] * 14)
        loaded, choice = library.get(ready[0]), ScopeChoice.parse(text)
        scope = scope_of(choice, loaded, 0, nodes, Selection.from_data(selection))
        words = sentence(choice, loaded, scope)
        hide = {"display": "inline-flex" if choice.text else "none"}
        return ({}, words, hide, *_choices(loaded, choice))

    def change(*values: Any) -> Any:
        *chosen, _use, _clear, window, text = values
        if ctx.triggered_id == "scope-clear":
            return None
        if ctx.triggered_id == "scope-window":
            between = (int(window[0]), int(window[1])) if isinstance(window, list) and len(window) == 2 else None
            was = ScopeChoice.parse(text)
            made = ScopeChoice(None, between, was.ranks, was.lanes, was.chosen)
        else:
            made = _chosen(*chosen)
        return no_update if made.text == (text or "") else made.text or None

    values = [Input(f"scope-{name}", "value") for name in _CONTROLS]
    app.callback(
        Output("scope-bar", "style"), Output("scope-words", "children"), Output("scope-clear", "style"),
        Output("scope-steps-from", "options"), Output("scope-steps-from", "value"),
        Output("scope-steps-to", "options"), Output("scope-steps-to", "value"), Output("scope-steps-from", "disabled"),
        Output("scope-t0", "value"), Output("scope-t1", "value"),
        Output("scope-ranks", "options"), Output("scope-ranks", "value"),
        Output("scope-lanes", "options"), Output("scope-lanes", "value"), Output("scope-chosen", "value"),
        Input(Ids.PAGE, "data"), Input(Ids.RUNS, "data"), Input(Ids.SCOPE, "data"), Input(Ids.NODES, "data"),
        Input("loaded-tick", "data"), State(Ids.SELECTION, "data"),
    )(show)  # fmt: skip
    app.callback(
        Output(Ids.SCOPE, "data", allow_duplicate=True), *values, Input("scope-window", "n_clicks"),
        Input("scope-clear", "n_clicks"), State(Ids.WINDOW, "data"), State(Ids.SCOPE, "data"),
        prevent_initial_call=True,
    )(change)  # fmt: skip


def _choices(loaded: LoadedRun, choice: ScopeChoice) -> list[Any]:
    """Options and values of the controls."""
    steps = [{"label": str(number), "value": number} for number in list(steps_of(loaded))[:_MOST_OPTIONS]]
    run = loaded.run
    names = sorted({lane.name for trace in run.traces for lane in trace.lanes} | (choice.lanes or frozenset()))
    lanes = [{"label": plain(name, 80), "value": name} for name in names[:_MOST_OPTIONS]]
    ranks = [{"label": f"rank {rank}", "value": rank} for rank in run.ranks[:_MOST_OPTIONS]]
    first, last = choice.steps or (None, None)
    begin, end = (f"{ns / 1e6:.6f} ms" for ns in choice.window) if choice.window else (None, None)
    return [
        steps, first, steps, last, not steps, begin, end,
        ranks, sorted(choice.ranks or ()), lanes, sorted(choice.lanes or ()), ["n"] if choice.chosen else [],
    ]  # fmt: skip


def _chosen(
    first: Any,
    last: Any,
    begin: Any,
    end: Any,
    ranks: list[int] | None,
    lanes: list[str] | None,
    chosen: list[str] | None,
) -> ScopeChoice:
    """What the controls say; one end of a range alone means from, or up to, there."""
    steps = None
    if isinstance(first, int) or isinstance(last, int):
        low = first if isinstance(first, int) else min(last, 0)
        high = last if isinstance(last, int) else low
        steps = (low, high) if low <= high else (high, low)
    t0, t1 = parse_time(begin), parse_time(end)
    window = None
    if t0 is not None or t1 is not None:
        low, high = t0 or 0, 2**60 if t1 is None else t1
        window = (low, high) if low < high else None
    return ScopeChoice(
        steps, window, frozenset(ranks) if ranks else None, frozenset(lanes) if lanes else None, bool(chosen)
    )
