"""Roofline: what operators achieve beside what the hardware allows, and where time could be won."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from dash import Dash, Input, Output, State, dcc, html, no_update
from dash.development.base_component import Component

from chakra_core.analysis.roofline import Roofline, device_of, roofline
from chakra_core.analysis.scope import WHOLE, Scope
from chakra_core.hardware import Device, list_devices, list_hosts
from chakra_core.trace import Trace
from dashboard.figures.roofline import MOST_POINTS, points_of, roofline_figure
from dashboard.later import placeholder
from dashboard.library import Library, LoadedRun
from dashboard.nodes import names_text
from dashboard.page import Context, Page
from dashboard.pages._critical_view import card, figure_of
from dashboard.pages._within import within
from dashboard.scopes import scope_in
from dashboard.state import Ids, ViewState
from dashboard.tables import count_column, linked, name_codes, stand_for_names, text_column, time_column
from dashboard.words import count, duration, plain, share

__all__ = ["PAGE"]

_SLUG = "roofline"
_RECORDED = "recorded"
_ROWS = 500


@dataclass(frozen=True, slots=True)
class _Choice:
    """What the page shows, as the URL says it; ``device`` is None where the trace's own hardware counts."""

    at: int
    rank: int
    device: Device | None

    @classmethod
    def of(cls, params: Mapping[str, Any], runs: tuple[LoadedRun, ...]) -> _Choice:
        """From the params store; nonsense becomes the default."""
        shown, rank = str(params.get("show", "")), str(params.get("rank", ""))
        at = int(shown) if shown.isdecimal() and int(shown[:6]) < len(runs) else 0
        ranks = runs[at].run.ranks
        number = int(rank) if rank.isdecimal() and len(rank) < 10 and int(rank) in ranks else ranks[0]
        named = {device.name: device for device in _devices()}
        return cls(at, number, named.get(str(params.get("device", ""))))


def _devices() -> tuple[Device, ...]:
    return (*list_devices(), *list_hosts())


def _roofline_of(loaded: LoadedRun, rank: int, device: Device | None, scope: Scope = WHOLE) -> Roofline:
    key = ("roofline", rank, device.name if device else "")
    return within(loaded, key, scope, lambda run: roofline(run.by_rank(rank), scope, device))


def layout(context: Context) -> Component:
    """The page."""
    choice = _Choice.of(context.state.params, context.runs)
    return html.Div(
        [
            html.Div([html.H1("Roofline")], className="ck-heading"),
            html.P(
                "Work over time beside what the hardware allows at best. Far below the slope or a ceiling, time can be won "
                "by a better kernel; close to it, only by less work or fewer bytes.",
                className="ck-lead",
            ),
            html.Div(_controls(context.runs, choice), className="ck-controls"),
            html.Div(_body(context.runs, choice, context.state), id=PAGE.id("body"), className="ck-column"),
        ]
    )


def _controls(runs: tuple[LoadedRun, ...], choice: _Choice) -> list[Component]:
    def choose(label: str, name: str, options: Mapping[str, str], value: str, *, search: bool = False) -> Component:
        listed = [{"label": text, "value": key} for key, text in options.items()]
        box = dcc.Dropdown(listed, value, id=PAGE.id(name), clearable=False, searchable=search, className="ck-dropdown")
        return html.Label([html.Span(label), box], style={} if len(options) > 1 else {"display": "none"})

    return [
        choose("Ceilings of", "device", _device_options(runs, choice), _named(choice.device), search=True),
        choose("Run", "run", {str(at): plain(one.run.label, 60) for at, one in enumerate(runs)}, str(choice.at)),
        choose("Rank", "rank", {str(rank): f"rank {rank}" for rank in runs[choice.at].run.ranks}, str(choice.rank)),
    ]


def _named(device: Device | None) -> str:
    return device.name if device else _RECORDED


def _device_options(runs: tuple[LoadedRun, ...], choice: _Choice) -> dict[str, str]:
    own = device_of(runs[choice.at].run.by_rank(choice.rank))
    recorded = f"as recorded: {own.name}" if own else "as recorded: not known"
    return {_RECORDED: recorded, **{device.name: f"{device.vendor} {device.name}" for device in _devices()}}


def _body(runs: tuple[LoadedRun, ...], choice: _Choice, state: ViewState) -> list[Component]:
    loaded = runs[choice.at]
    trace = loaded.run.by_rank(choice.rank)
    found = _roofline_of(loaded, choice.rank, choice.device, scope_in(state, loaded, choice.at))
    if not len(found):
        return [html.P(_why_nothing(trace), className="ck-hint")]
    figure = roofline_figure(found, state.theme, codes=name_codes(trace))
    return [
        _facts(found),
        html.P(" ".join(_caveats(trace, found)), className="ck-hint"),
        card("Roofline", figure_of(figure, PAGE.id("plot")), "area: time; click a point to select its calls"),
        placeholder(_SLUG, "table", choice.at, height=460),
    ]


def _why_nothing(trace: Trace) -> str:
    """In words, why no work is known."""
    if not len(trace):
        return "The trace is empty."
    if trace.inputs:
        return (
            "No FLOPs are known here: no operator in the chosen part of the trace states its work, and none that launched "
            "device work is one whose inputs a formula understands."
        )
    return (
        "No FLOPs are known: the nodes of this trace do not state their work, and the inputs of its operators are not "
        "recorded (record_shapes=True of the PyTorch profiler does)."
    )


def _caveats(trace: Trace, found: Roofline) -> list[str]:
    """What one must know to read the plot."""
    said = []
    points = points_of(found)
    if found.device is None:
        named = plain(trace.meta.hardware, 80)
        which = f"{named} is not in the catalogue" if named else "the trace does not say which hardware it ran on"
        said.append(f"No ceilings: {which}. Choose a device above to see what it would allow.")
    if found.on_host:
        said.append(
            "The trace records no device work: times are those of the outermost operators on the host, with all that they "
            "do besides computing."
        )
    if points.merged:
        said.append(
            f"The {MOST_POINTS} groups with most time are a point each; the other {points.merged:,} are merged, by kind of work."
        )
    if points.flat:
        said.append(
            f"{count(points.flat, 'group')} without arithmetic (copies and the like, {duration(points.flat_ns)}) have no place "
            "on these axes: see the table."
        )
    return said


def _facts(found: Roofline) -> Component:
    whole = "host time of operators" if found.on_host else "compute time"
    cells = [
        ("Work is known of", f"{share(found.covered_ns, found.total_ns)} of {whole}"),
        ("Achieved", _achieved(found)),
    ]
    if found.device is not None:
        least, above = float(found.roof_ns.sum()), float(found.above_ns.sum())
        cells = [
            ("Ceilings of", f"{found.device.vendor} {found.device.name}"),
            *cells,
            ("Least time on it", duration(least)),
            ("Time above the roofline", f"{duration(above)} of {duration(int(found.time_ns.sum()))}"),
        ]
    return html.Dl([html.Div([html.Dt(name), html.Dd(text)]) for name, text in cells], className="ck-fact-row")


def _achieved(found: Roofline) -> str:
    seconds = int(found.time_ns.sum()) * 1e-9
    flops, moved = (float((np.asarray(one, np.float64) * found.count).sum()) for one in (found.flops, found.moved))
    return f"{flops / seconds / 1e12:,.3g} TFLOP/s, {moved / seconds / 1e12:,.3g} TB/s" if seconds else "takes no time"


def _number(field: str, title: str, form: str, tip: str, **more: Any) -> dict[str, Any]:
    return {
        "field": field, "headerName": title, "type": "numericColumn", "flex": 1, "minWidth": 74, "headerTooltip": tip,
        "valueFormatter": {"function": f"params.value == null ? '' : d3.format('{form}')(params.value)"}, **more,
    }  # fmt: skip


def _table(context: Context, at: int) -> Component:
    choice = _Choice.of(context.state.params, context.runs)
    loaded = context.runs[at]
    rank = choice.rank if at == choice.at else loaded.run.ranks[0]
    trace = loaded.run.by_rank(rank)
    found = _roofline_of(loaded, rank, choice.device, scope_in(context.state, loaded, at))
    rows = stand_for_names(found.records(_ROWS), name_codes(trace), at=at, rank=rank)
    if not rows:
        return card("Operators", html.P(_why_nothing(trace), className="ck-hint"))
    for row in rows:
        row.update(name=plain(row["name"], 300), shapes=plain(row["shapes"], 300), tbps=row["gbps"] / 1e3)
    cut = f", the first {len(rows):,} by time" if len(rows) < len(found) else ""
    columns = _columns(max(row["time_ns"] for row in rows), ceilings=found.device is not None)
    grid, tools = linked("roofline-operators", columns, rows, context.state.theme, at=at, groups={"category": "kind"})
    return card("Operators", grid, f"{count(len(found), 'operator and inputs', 'operators and inputs')}{cut}", tools)


def _columns(largest_ns: int, *, ceilings: bool) -> list[dict[str, Any]]:
    columns = [
        text_column("name", "Operator", flex=2, minWidth=130),
        text_column("shapes", "Inputs", flex=1.6, minWidth=110),
        text_column("category", "Kind", flex=1, minWidth=90),
        text_column("precision", "Type", flex=0.7, minWidth=62),
        count_column("count", "Calls"),
        time_column("time_ns", "Time", largest_ns),
        _number("flops", "FLOP", ".4~s", "operations of one call"),
        _number("bytes", "Bytes", ".4~s", "least bytes that one call moves"),
        _number("intensity", "FLOP/B", ",.3~f", "arithmetic intensity"),
        _number("tflops", "TFLOP/s", ",.3f", "achieved"),
        _number("tbps", "TB/s", ",.3f", "achieved"),
    ]
    if ceilings:
        columns += [
            text_column("bound", "Bound", flex=0.9, minWidth=86),
            _number("roof_share", "Of roof", ".1%", "least time over time taken: 100 % is on the roofline"),
            time_column("above_ns", "Above", largest_ns, headerTooltip="time above the roofline"),
        ]
    return columns


def register(app: Dash, library: Library) -> None:
    """Connect the page."""

    def change(device: str, at: str, rank: str, *stores: Any) -> Any:
        state = ViewState.from_stores(*stores)
        loaded = tuple(library.get(ref) for ref in state.runs)
        choice = _Choice.of({"device": device, "show": at, "rank": rank}, loaded)
        ranks = [{"label": f"rank {one}", "value": str(one)} for one in loaded[choice.at].run.ranks]
        devices = [{"label": text, "value": key} for key, text in _device_options(loaded, choice).items()]
        changed = {**state.params, "device": _named(choice.device), "show": str(choice.at), "rank": str(choice.rank)}
        return _body(loaded, choice, state), ranks, str(choice.rank), devices, changed

    def pick(clicked: dict[str, Any] | None, at: str, rank: str) -> Any:
        said = clicked["points"][0].get("customdata") if clicked else None
        if not said or said[0] < 0:
            return no_update, no_update
        nodes = names_text(int(at), int(rank), [said[1]]) if said[1] >= 0 else None
        return {"run": int(at), "rank": int(rank), "row": said[0]}, nodes

    app.callback(
        Output(PAGE.id("body"), "children"), Output(PAGE.id("rank"), "options"), Output(PAGE.id("rank"), "value"),
        Output(PAGE.id("device"), "options"), Output(Ids.PARAMS, "data", allow_duplicate=True),
        *(Input(PAGE.id(name), "value") for name in ("device", "run", "rank")),
        *(State(name, "data") for name in Ids.VIEW),
        prevent_initial_call=True,
    )(change)  # fmt: skip
    app.callback(
        Output(Ids.SELECTION, "data", allow_duplicate=True), Output(Ids.NODES, "data", allow_duplicate=True),
        Input(PAGE.id("plot"), "clickData"), State(PAGE.id("run"), "value"), State(PAGE.id("rank"), "value"),
        prevent_initial_call=True,
    )(pick)  # fmt: skip


def _prepare(loaded: LoadedRun) -> None:
    """What the page shows of a whole run at first."""
    _roofline_of(loaded, loaded.run.ranks[0], None)


PAGE = Page(
    _SLUG,
    "Roofline",
    "roofline",
    layout,
    register,
    section="Analyse",
    scoped=True,
    prepare=_prepare,
    later={"table": _table},
)
