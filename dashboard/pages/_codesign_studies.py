"""The studies of the Co-design page: sensitivities, sweeps, every device; each in the background, with progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dash_mantine_components as dmc
import numpy as np
from dash import Dash, Input, Output, State, ctx, dcc, html, no_update
from dash.development.base_component import Component
from dash_ag_grid import AgGrid

from chakra_core.hardware import get_device, list_devices
from chakra_core.project.devices import OnDevice, on_every_device
from chakra_core.project.projection import project_run, source_device
from chakra_core.project.retime import FACTORS
from chakra_core.project.sweep import Outcome, outcome_of, pareto, sweep, tornado
from dashboard.figures.bars import show_ns
from dashboard.figures.codesign import KNOB_LABELS, contour_figure, pareto_figure, sweep_figure, tornado_figure
from dashboard.jobs import Jobs, JobStatus, Report
from dashboard.library import Library, LoadedRun
from dashboard.projections import Projection, knobs_query
from dashboard.state import Ids
from dashboard.tables import table, text_column, time_column
from dashboard.words import plain

__all__ = ["panels", "register"]

_KINDS = ("tornado", "sweep", "devices")
_TIMES = "\N{MULTIPLICATION SIGN}"
_POINTS = (7, 13, 25)
_EACH = 7

Chooser = Callable[[Mapping[str, str] | None, Sequence[LoadedRun]], tuple[int, Projection]]


def panels(prefix: str) -> list[Component]:
    """The three panels, empty until their study is asked for."""
    knobs = [{"value": name, "label": KNOB_LABELS[name]} for name in FACTORS]
    select = {"allowDeselect": False, "size": "xs", "w": 170}
    choices = [
        dmc.Select(id=f"{prefix}-sweep-x", label="over", data=knobs, value="link", **select),
        dmc.Select(
            id=f"{prefix}-sweep-y", label="and", data=[{"value": "", "label": "nothing else"}, *knobs], value="", **select
        ),
        dmc.Select(
            id=f"{prefix}-sweep-n", label="points", value="13", allowDeselect=False, size="xs", w=80,
            data=[{"value": str(number), "label": str(number)} for number in _POINTS],
        ),
    ]  # fmt: skip
    return [
        html.Div(
            [
                _panel(prefix, "tornado", "Sensitivities", "every knob halved and doubled, the others as set", []),
                _panel(prefix, "sweep", "Sweep", f"from an eighth to eight times; two knobs: {_EACH} by {_EACH}", choices),
            ],
            className="ck-columns",
        ),
        _panel(
            prefix, "devices", "Devices", "this run on every device of the catalogue; enter costs to see what nothing beats in both", []
        ),
    ]  # fmt: skip


def _panel(prefix: str, kind: str, title: str, note: str, choices: list[Component]) -> Component:
    return html.Div(
        [
            html.Div([html.H2(title), html.Span(note, className="ck-note")], className="ck-card-title"),
            html.Div(
                [
                    *choices,
                    html.Button("Compute", id=f"{prefix}-{kind}-go", className="ck-button ck-small", n_clicks=0),
                    html.Button(
                        "Stop", id=f"{prefix}-{kind}-stop", className="ck-button ck-small", n_clicks=0, disabled=True
                    ),
                    html.Span(id=f"{prefix}-{kind}-progress", className="ck-note"),
                ],
                className="ck-row ck-study",
            ),
            html.Div(id=f"{prefix}-{kind}-result"),
            dcc.Interval(id=f"{prefix}-{kind}-poll", interval=400, disabled=True),
            dcc.Store(id=f"{prefix}-{kind}-key"),
        ],
        className="ck-panel",
    )


def register(app: Dash, library: Library, jobs: Jobs, prefix: str, choose: Chooser) -> None:
    """Connect the panels."""
    for kind in _KINDS:
        _register_study(app, library, jobs, prefix, kind, choose)
    _register_costs(app, prefix)


def _register_study(app: Dash, library: Library, jobs: Jobs, prefix: str, kind: str, choose: Chooser) -> None:
    def start(
        clicks: int | None, stops: int | None, x: str, y: str, points: str,
        params: dict[str, str] | None, refs: list[str] | None, key: Any,
    ) -> Any:  # fmt: skip
        del clicks, stops
        if ctx.triggered_id == f"{prefix}-{kind}-stop":
            jobs.stop(_hashable(key))
            return no_update, no_update
        if not refs:
            return no_update, no_update
        runs = [library.get(ref) for ref in refs]
        at, projection = choose(params, runs)
        axes = [name for name in dict.fromkeys((x, y)) if name in FACTORS] or ["link"]
        count = int(points) if points in map(str, _POINTS) else _POINTS[1]
        knobs = sorted(knobs_query(projection.knobs).items())
        key = [
            kind,
            runs[at].ref,
            projection.hardware,
            projection.source,
            knobs,
            axes if kind == "sweep" else [],
            count,
        ]
        jobs.start(_hashable(key), lambda report: _work(kind, runs[at], projection, axes, count, report))
        return key, False

    app.callback(
        Output(f"{prefix}-{kind}-key", "data"),
        Output(f"{prefix}-{kind}-poll", "disabled"),
        Input(f"{prefix}-{kind}-go", "n_clicks"),
        Input(f"{prefix}-{kind}-stop", "n_clicks"),
        *(State(f"{prefix}-sweep-{name}", "value") for name in ("x", "y", "n")),
        State(Ids.PARAMS, "data"),
        State(Ids.RUNS, "data"),
        State(f"{prefix}-{kind}-key", "data"),
        prevent_initial_call=True,
    )(start)

    def poll(_ticks: int, key: Any, theme: str | None) -> Any:
        status = jobs.status(_hashable(key))
        if status.state == "running":
            return no_update, f"{status.share:.0%} ({status.message})", False, False
        return _shown(prefix, kind, key, status, theme or "light"), "", True, True

    app.callback(
        Output(f"{prefix}-{kind}-result", "children"),
        Output(f"{prefix}-{kind}-progress", "children"),
        Output(f"{prefix}-{kind}-stop", "disabled"),
        Output(f"{prefix}-{kind}-poll", "disabled", allow_duplicate=True),
        Input(f"{prefix}-{kind}-poll", "n_intervals"),
        State(f"{prefix}-{kind}-key", "data"),
        State(Ids.THEME, "data"),
        prevent_initial_call=True,
    )(poll)


def _hashable(value: Any) -> Any:
    return tuple(_hashable(entry) for entry in value) if isinstance(value, (list, tuple)) else value


def _work(
    kind: str, loaded: LoadedRun, projection: Projection, axes: Sequence[str], points: int, report: Report
) -> Any:
    """The study itself, in the background."""
    run, device = loaded.run, get_device(projection.hardware)
    source = get_device(projection.source) if projection.source else source_device(run)
    if kind == "tornado":
        now = outcome_of(project_run(run, device, source=source, knobs=projection.knobs), projection.knobs)
        return now, tornado(run, device, source=source, knobs=projection.knobs, progress=report)
    if kind == "devices":
        now = outcome_of(run)
        return now.total_ns, on_every_device(
            run, list_devices(), source=source, knobs=projection.knobs, progress=report
        )
    count = points if len(axes) == 1 else _EACH
    values = [round(float(value), 6) for value in np.geomspace(1 / 8, 8, count)]
    found: list[Outcome] = []
    for outcome in sweep(run, device, [(name, values) for name in axes], source=source, knobs=projection.knobs):
        found.append(outcome)
        report(len(found), count ** len(axes))
    return found


def _shown(prefix: str, kind: str, key: Any, status: JobStatus, theme: str) -> Component:
    if status.state != "done":
        return html.P(plain(status.message or "It is no longer kept; compute it again.", 400), className="ck-hint")
    if kind == "tornado":
        now, swings = status.result
        return _graph(f"{prefix}-tornado-figure", tornado_figure(swings, now, theme))
    if kind == "sweep":
        axes = key[5]
        if len(axes) == 1:
            return _graph(f"{prefix}-sweep-figure", sweep_figure(status.result, axes[0], theme))
        return _graph(f"{prefix}-sweep-figure", contour_figure(status.result, (axes[0], axes[1]), theme))
    source_ns, rows = status.result
    return _devices(prefix, source_ns, rows, theme)


def _graph(component_id: str, figure: Any) -> Component:
    return dcc.Graph(id=component_id, figure=figure, config={"displayModeBar": False, "responsive": True})


def _devices(prefix: str, source_ns: int, rows: Sequence[OnDevice], theme: str) -> Component:
    """The table of devices, with a column for costs of the user's and what follows from them."""
    done = sorted(
        ((row, row.outcome) for row in rows if row.outcome is not None), key=lambda pair: pair[1].total_ns
    )  # fmt: skip
    largest = max((outcome.total_ns for _, outcome in done), default=0)
    records = [
        {
            "name": row.device, "vendor": row.vendor, "ns": outcome.total_ns, "cost": None, "note": row.note,
            "busy": outcome.total_ns - outcome.parts_ns["idle"],
            "gain": round(source_ns / outcome.total_ns, 3) if outcome.total_ns else None,
        }
        for row, outcome in done
    ]  # fmt: skip
    number = {"type": "numericColumn", "flex": 1, "minWidth": 88, "wrapHeaderText": True, "autoHeaderHeight": True}
    columns = [
        text_column("name", "Device", flex=2),
        text_column("vendor", "Vendor", flex=1),
        time_column("ns", "Device", largest, headerTooltip="device time: from the first to the last work of the device that takes longest"),
        time_column("busy", "Busy", largest, headerTooltip="device time without idle"),
        {"field": "gain", "headerName": "Speed-up", "headerTooltip": "device time of the run as it is over that on the device", **number},
        {"field": "cost", "headerName": "Cost", "headerTooltip": "price, power: any unit of yours; double-click to enter", "editable": True, "cellDataType": "number", **number},
        {"colId": "each", "headerName": f"Cost {_TIMES} s", "headerTooltip": "what the run costs on it; energy where the cost is in watts", **number,
         "valueGetter": {"function": "params.data.cost > 0 ? params.data.cost * params.data.ns / 1e9 : null"},
         "valueFormatter": {"function": "params.value == null ? '' : d3.format(',.4~g')(params.value)"}},
        {"colId": "worth", "headerName": "Speed-up / cost", "headerTooltip": "benefit: speed-up over the entered cost", **number,
         "valueGetter": {"function": "params.data.cost > 0 ? params.data.gain / params.data.cost : null"},
         "valueFormatter": {"function": "params.value == null ? '' : d3.format(',.4~g')(params.value)"}},
        text_column("note", "Note", flex=2),
    ]  # fmt: skip
    grid: AgGrid = table(f"{prefix}-devices-grid", columns, records, theme, file="devices")
    left = [f"{row.device}: {plain(row.note, 160)}" for row in rows if row.outcome is None]
    notes = [html.P(text, className="ck-hint") for text in left]
    return html.Div([grid, *notes, html.Div(id=f"{prefix}-pareto")], className="ck-column")


def _register_costs(app: Dash, prefix: str) -> None:
    """Entered costs (a price, a power) put the devices into a chart of time against cost."""

    def draw(_change: Any, rows: list[dict[str, Any]] | None, theme: str | None) -> Any:
        priced = [row for row in rows or [] if isinstance(row.get("cost"), (int, float)) and row["cost"] > 0]
        if len(priced) < 2:
            return html.P("Enter a cost for at least two devices.", className="ck-hint")
        points = [(float(row["cost"]), float(row["ns"])) for row in priced]
        front = pareto(points)
        figure = pareto_figure(
            [row["name"] for row in priced], [cost for cost, _ in points], [row["ns"] for row in priced], front,
            "cost (your unit)", theme or "light",
        )  # fmt: skip
        best = min(priced, key=lambda row: row["cost"] * row["ns"])
        words = f"Least cost x time: {best['name']} ({best['cost']:,.4g} for {show_ns(best['ns'])})."
        return html.Div([_graph(f"{prefix}-pareto-figure", figure), html.P(words, className="ck-hint")])

    app.callback(
        Output(f"{prefix}-pareto", "children"),
        Input(f"{prefix}-devices-grid", "cellValueChanged"),
        State(f"{prefix}-devices-grid", "rowData"),
        State(Ids.THEME, "data"),
        prevent_initial_call=True,
    )(draw)
