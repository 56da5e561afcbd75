"""The dialog behind the header's *Export* button: what to write, as which format, and the file when it is there."""

from __future__ import annotations

from typing import Any

import dash_mantine_components as dmc
from dash import Dash, Input, Output, State, dcc, html, no_update
from dash.development.base_component import Component

from chakra_core.errors import ChakraError
from chakra_core.trace import Run
from chakra_core.writers import list_writers
from dashboard.exports import Exports, Job, part_for
from dashboard.library import Library
from dashboard.security import session_key
from dashboard.state import Ids, Selection

__all__ = ["layout", "register"]

_WHAT = (("all", "Whole trace"), ("range", "Visible range"), ("selection", "Selected node and its neighbourhood"))


def layout() -> Component:
    """The dialog, closed."""
    formats = [{"value": writer.name, "label": writer.description} for writer in list_writers()]
    inside = dmc.Stack(
        [
            dmc.Select(id="export-run", label="Run", allowDeselect=False, comboboxProps={"withinPortal": True}),
            dmc.RadioGroup(
                dmc.Stack([dmc.Radio(label=label, value=value) for value, label in _WHAT], gap=6),
                id="export-what", value="all", label="What",
            ),
            dmc.NumberInput(id="export-hops", label="Steps around the selected node", value=3, min=0, max=50, clampBehavior="strict"),
            dmc.Select(id="export-to", label="Format", data=formats, value="et", allowDeselect=False),
            dmc.SegmentedControl(
                id="export-for", value="simulator", fullWidth=True,
                data=[
                    {"value": "simulator", "label": "for a simulator"},
                    {"value": "archive", "label": "keep everything"},
                ],
            ),
            dmc.Checkbox(id="export-gzip", label="Compress (gzip)", checked=False),
            dmc.Group([dmc.Button("Make the file", id="export-make", n_clicks=0)]),
            html.Div(id="export-state", role="status"),
        ],
        gap="sm",
    )  # fmt: skip
    return html.Div(
        [
            dmc.Modal(inside, id="export-dialog", title="Export", opened=False, size="lg"),
            dcc.Store(id="export-job"),
            dcc.Interval(id="export-poll", interval=400, disabled=True),
        ]
    )


def register(app: Dash, library: Library, exports: Exports) -> None:
    """Connect the dialog."""

    def show(clicks: int, refs: list[str] | None) -> Any:
        ready = [ref for ref in refs or [] if library.status(ref).state == "ready"]
        if not clicks:
            return no_update, no_update, no_update, no_update
        if not ready:
            return True, [], None, html.P("Open a trace first.", className="ck-error")
        return True, [{"value": ref, "label": library.get(ref).run.label} for ref in ready], ready[0], None

    def make(
        clicks: int, ref: str | None, what: str, hops: Any, to: str, meant: str, compress: bool,
        refs: list[str] | None, selection: Any, window: Any,
    ) -> Any:  # fmt: skip
        if not clicks or not ref:
            return no_update, no_update, no_update
        chosen = _chosen(selection, hops, ref, refs or [])
        between = (int(window[0]), int(window[1])) if isinstance(window, list) and len(window) == 2 else None

        def wanted() -> Run:
            return part_for(library.get(ref).run, what, between, chosen)

        try:
            key = exports.start(session_key(), wanted, to, meant, compress=bool(compress))
        except ChakraError as error:
            return no_update, html.P(str(error), className="ck-error"), True
        return key, html.P("Writing …", className="ck-hint"), False

    def poll(_ticks: int, key: str | None) -> Any:
        job = exports.of(session_key(), key) if key else None
        if job is None:
            return html.P("The export is gone; make it again.", className="ck-error"), True
        return _state(job, str(key)), job.is_over

    runs = State(Ids.RUNS, "data")
    app.callback(
        Output("export-dialog", "opened"), Output("export-run", "data"), Output("export-run", "value"),
        Output("export-state", "children"), Input("open-export", "n_clicks"), runs, prevent_initial_call=True,
    )(show)  # fmt: skip
    app.callback(Output("export-for", "value"), Input("export-to", "value"), prevent_initial_call=True)(_purpose)
    app.callback(
        Output("export-job", "data"), Output("export-state", "children", allow_duplicate=True),
        Output("export-poll", "disabled"), Input("export-make", "n_clicks"),
        *(State(f"export-{name}", "value") for name in ("run", "what", "hops", "to", "for")),
        State("export-gzip", "checked"), runs, State(Ids.SELECTION, "data"), State(Ids.WINDOW, "data"),
        prevent_initial_call=True,
    )(make)  # fmt: skip
    app.callback(
        Output("export-state", "children", allow_duplicate=True),
        Output("export-poll", "disabled", allow_duplicate=True),
        Input("export-poll", "n_intervals"), State("export-job", "data"), prevent_initial_call=True,
    )(poll)  # fmt: skip


def _purpose(name: str) -> str:
    """What files of a format are for unless the visitor says otherwise."""
    return next(("simulator" if one.for_simulator else "archive") for one in list_writers() if one.name == name)


def _chosen(selection: Any, hops: Any, ref: str, refs: list[str]) -> tuple[Selection, int] | None:
    """The selected node and the steps around it, if it is a node of that run."""
    chosen = Selection.from_data(selection)
    if chosen is None or chosen.run >= len(refs) or refs[chosen.run] != ref:
        return None
    return chosen, min(max(int(hops), 0), 50) if isinstance(hops, int | float) else 3


def _state(job: Job, key: str) -> Component:
    if job.error:
        return html.P(job.error, className="ck-error")
    if job.file is None:
        return html.Div([dmc.Progress(value=round(100 * job.share)), html.P(job.message, className="ck-hint")])
    size = job.file.stat().st_size
    words = f"{size / 1e6:,.1f} MB" if size >= 100_000 else f"{size / 1e3:,.1f} kB"
    link = html.A(
        f"Download {job.name} ({words})",
        href=f"/export/{key}",
        download=job.name,
        id="export-file",
        className="ck-button",
    )
    notes = html.Ul([html.Li(note) for note in job.notes[:12]], className="ck-hint")
    return html.Div([link, notes if job.notes else None])
