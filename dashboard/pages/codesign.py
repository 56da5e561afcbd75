"""Co-design: a run projected onto other hardware, with sliders, sensitivities, sweeps, and devices side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dash import Dash, Input, Output, State, ctx, dcc, html, no_update
from dash.development.base_component import Component

from chakra_core.errors import ChakraError
from chakra_core.hardware import list_devices, lookup
from chakra_core.project.mapping import PLACES
from chakra_core.project.projection import source_device
from chakra_core.project.retime import FACTORS, Knobs
from chakra_core.project.sweep import Outcome, outcome_of
from chakra_core.schema import TimeKind
from dashboard.jobs import Jobs
from dashboard.library import Library, LoadedRun
from dashboard.page import Context, Page
from dashboard.pages import _codesign_beside as beside
from dashboard.pages import _codesign_studies as studies
from dashboard.pages import _codesign_view as view
from dashboard.projections import Projection, is_projection, knobs_from, knobs_query
from dashboard.state import Ids
from dashboard.words import plain

__all__ = ["PAGE"]

_SLUG = "codesign"
_FIRST = "H200 SXM"


def _id(name: str) -> str:
    return f"{_SLUG}-{name}"


def _choice(params: Mapping[str, str] | None, runs: Sequence[LoadedRun]) -> tuple[int, Projection]:
    """Which run is projected, and how, as the address states it; defaults for what it leaves out or states wrongly."""
    query = {key: str(value) for key, value in (params or {}).items()}
    show = query.get("show", "")
    at = int(show) if show.isascii() and show.isdigit() and int(show[:6]) < len(runs) else _first_measured(runs)
    known = {device.name for device in list_devices()}
    source = query.get("source", "")
    hardware = query.get("hardware", "")
    try:
        knobs = knobs_from(query)
    except ChakraError:
        knobs = Knobs()
    if hardware not in known:
        here = lookup(source or runs[at].run.hardware)
        hardware = _FIRST if here is None or here.name != _FIRST else "MI300X"
    return at, Projection(runs[at].ref, hardware, knobs, source if source in known else "")


def _first_measured(runs: Sequence[LoadedRun]) -> int:
    """A run that is no projection itself, where there is one."""
    return next((at for at, loaded in enumerate(runs) if not is_projection(loaded.ref)), 0)


def _layout(context: Context) -> Component:
    at, projection = _choice(context.state.params, context.runs)
    chosen = {
        "at": at, "hardware": projection.hardware, "source": projection.source, "knobs": projection.knobs,
    }  # fmt: skip
    shown = _results(context.runs, at, projection, context.state.theme)
    return html.Div(
        [
            html.Div(
                [
                    html.H1("Co-design"),
                    html.Div(
                        [
                            html.Span(id=_id("opened"), className="ck-note"),
                            html.Button("Open as a run", id=_id("open"), className="ck-button ck-small", n_clicks=0),
                        ],
                        className="ck-row ck-compare-choice",
                    ),
                ],
                className="ck-title-row",
            ),
            html.P(
                "What would this run take on other hardware? Every number here is simulated: kernels are scaled by what binds "
                "them, collectives by their model, and all ranks are run again with their dependencies.",
                className="ck-lead",
            ),
            html.Div(
                [
                    view.controls(_SLUG, list_devices(), [loaded.run for loaded in context.runs], chosen),
                    html.Div(
                        [
                            html.Div(shown, id=_id("results"), className="ck-column"), *studies.panels(_SLUG),
                            beside.panel(_SLUG, context.runs),
                        ],
                        className="ck-column",
                    ),
                ],
                className="ck-codesign",
            ),
        ],
        className="ck-compare",
    )  # fmt: skip


def _outcome(loaded: LoadedRun) -> Outcome:
    return loaded.result((_SLUG, "as it is"), outcome_of)


def _results(runs: Sequence[LoadedRun], at: int, projection: Projection, theme: str) -> list[Component]:
    """Cards, bars, assumptions and error; or in words why there are none."""
    loaded = runs[at]
    try:
        before = _outcome(loaded)
        after, said = loaded.result((_SLUG, projection.ref), lambda run: _projected(projection, run))
        source = projection.source or source_device(loaded.run).name
    except ChakraError as error:
        hint = "Choose under “recorded on” which device it ran on." if "catalogue" in str(error) else ""
        return [html.Div([html.P(plain(str(error), 400)), html.P(hint, className="ck-hint")], className="ck-panel")]
    labels = (plain(loaded.run.label, 60), f"on {projection.hardware} (simulated)")
    others = {
        other.run.label: _outcome(other)
        for number, other in enumerate(runs)
        if number != at and _was_measured_on(other, projection.hardware)
    }
    return [
        view.result_cards(before, after),
        html.Div(
            [
                html.Div(
                    [html.Div(html.H2("Where the time goes"), className="ck-card-title"),
                     dcc.Graph(figure=view.result_figure(before, after, labels, theme), config={"displayModeBar": False}, id=_id("bars"))],
                    className="ck-panel",
                ),
                html.Div(
                    [
                        html.Div([html.H2("Assumptions"), html.Span("of the numbers beside", className="ck-note")], className="ck-card-title"),
                        html.Ul([html.Li(plain(text, 400)) for text in said], className="ck-assumptions"),
                        html.H2("Checked against a measurement"),
                        view.error_note(after, source, others),
                    ],
                    className="ck-panel",
                ),
            ],
            className="ck-columns",
        ),
    ]  # fmt: skip


def _projected(projection: Projection, run: Any) -> tuple[Outcome, tuple[str, ...]]:
    projected = projection.apply(run)
    return outcome_of(projected, projection.knobs), projected.assumptions


def _was_measured_on(loaded: LoadedRun, hardware: str) -> bool:
    found = lookup(loaded.run.hardware)
    return (
        found is not None
        and found.name == hardware
        and loaded.run.time_kind == TimeKind.MEASURED
        and any(len(trace.device_rows) for trace in loaded.run.traces)
    )


def _register(app: Dash, library: Library) -> None:
    _register_choice(app, library)
    _register_opening(app, library)
    studies.register(app, library, Jobs(), _SLUG, _choice)
    beside.register(app, library, _SLUG, _choice)


_CHOICES = ("run", "hardware", "source", "algorithm", "domain", "inside", "across", "precision")
"""Controls other than sliders and switches, in the order in which callbacks take them."""


def _chosen_knobs(values: Mapping[str, Any], sliders: Sequence[Any], *, overlap: bool) -> Knobs:
    """Knobs as the controls stand; what they hold wrongly is as usual."""
    factors: dict[str, Any] = {name: view.factor_of(value) for name, value in zip(FACTORS, sliders, strict=True)}
    domain = values["domain"]
    mapping = tuple((str(name), place) for place in PLACES for name in values[place] or ())
    return Knobs(
        **factors, overlap=overlap, algorithm=str(values["algorithm"] or "ring"),
        domain=int(domain) if isinstance(domain, (int, float)) and 0 < domain < 1e6 else 0,
        precision=str(values["precision"] or "bf16"), mapping=mapping,
    )  # fmt: skip


def _register_choice(app: Dash, library: Library) -> None:
    """The controls write the address's parameters; results follow those."""

    def choose(*given: Any) -> Any:
        values = dict(zip(_CHOICES, given, strict=False))
        rest = given[len(_CHOICES) :]
        params = rest[-1]
        knobs = _chosen_knobs(values, rest[: len(FACTORS)], overlap=bool(rest[len(FACTORS)]))
        if ctx.triggered_id == _id("reset"):
            knobs = Knobs()
        kept = {key: value for key, value in (params or {}).items() if key.startswith("sweep")}
        chosen = {
            "show": str(values["run"] or "0"), "hardware": str(values["hardware"] or ""), **knobs_query(knobs), **kept
        }  # fmt: skip
        if values["source"]:
            chosen["source"] = str(values["source"])
        return no_update if chosen == params else chosen

    app.callback(
        Output(Ids.PARAMS, "data", allow_duplicate=True),
        *(Input(_id(name), "value") for name in _CHOICES),
        *(Input(_id(name), "value") for name in FACTORS),
        Input(_id("overlap"), "checked"),
        Input(_id("reset"), "n_clicks"),
        State(Ids.PARAMS, "data"),
        prevent_initial_call=True,
    )(choose)
    _register_results(app, library)


def _register_results(app: Dash, library: Library) -> None:
    def show(params: dict[str, str] | None, refs: list[str] | None, theme: str | None) -> Any:
        runs = [library.get(ref) for ref in refs or ()]
        if not runs:
            return no_update
        at, projection = _choice(params, runs)
        return _results(runs, at, projection, theme or "light")

    app.callback(
        Output(_id("results"), "children"),
        Input(Ids.PARAMS, "data"),
        State(Ids.RUNS, "data"),
        State(Ids.THEME, "data"),
        prevent_initial_call=True,
    )(show)

    def reset(clicks: int | None) -> Any:
        neutral = Knobs()
        sliders = (view.slider_of(getattr(neutral, name)) for name in FACTORS)
        values = (*sliders, neutral.algorithm, "", [], [], neutral.precision, True)
        return values if clicks else (no_update,) * len(values)

    names = (*FACTORS, "algorithm", "domain", "inside", "across", "precision")
    app.callback(
        *(Output(_id(name), "value", allow_duplicate=True) for name in names),
        Output(_id("overlap"), "checked"),
        Input(_id("reset"), "n_clicks"),
        prevent_initial_call=True,
    )(reset)


def _register_opening(app: Dash, library: Library) -> None:
    """The projection becomes a run beside the others, and is compared with its source."""

    def open_run(clicks: int | None, refs: list[str] | None, params: dict[str, str] | None) -> Any:
        if not clicks or not refs:
            return no_update, no_update, no_update
        runs = [library.get(ref) for ref in refs]
        at, projection = _choice(params, runs)
        if projection.ref in refs:
            return no_update, no_update, "It is open already."
        return [*refs, projection.ref], {"base": str(at), "with": str(len(refs))}, "Opened; see Compare."

    app.callback(
        Output(Ids.RUNS, "data", allow_duplicate=True),
        Output(Ids.PARAMS, "data", allow_duplicate=True),
        Output(_id("opened"), "children"),
        Input(_id("open"), "n_clicks"),
        State(Ids.RUNS, "data"),
        State(Ids.PARAMS, "data"),
        prevent_initial_call=True,
    )(open_run)


PAGE = Page(_SLUG, "Co-design", "codesign", _layout, _register, section="Compare")
