"""Overlap: what runs at the same time on the devices of a rank, why its streams idle, what the launching thread does."""

from __future__ import annotations

from typing import Any

from dash import Dash, html
from dash.development.base_component import Component

from chakra_core.analysis.breakdown import Breakdown, breakdown
from chakra_core.analysis.host import host_breakdown
from chakra_core.analysis.overlap import COMBINATIONS, DeviceOverlap, overlap
from chakra_core.analysis.scope import WHOLE, Scope
from chakra_core.trace import Trace
from dashboard.figures.overlap import cause_bars, combination_bars, overlap_matrix
from dashboard.later import placeholder
from dashboard.library import Library, LoadedRun
from dashboard.page import Context, Page
from dashboard.pages._critical_view import card, figure_of
from dashboard.pages._host_view import host_card
from dashboard.pages._within import first_rank, heading, within
from dashboard.scopes import scope_in
from dashboard.tables import count_column, linked, text_column, time_column
from dashboard.words import count, plain

__all__ = ["PAGE"]

_SLUG = "overlap"
_BARS = 16
_ROWS = 300
_CAUSES = {
    "host": "the next launch came after the work before had ended",
    "kernel wait": "no launch was late, shorter than 30 µs",
    "other": "no launch was late as far as the trace tells: waits for other streams, ranks, copies",
}
_SHORT = {
    "compute": "Compute", "comm": "Comm.", "memory": "Memory", "compute_comm": "Comp. + comm.",
    "compute_memory": "Comp. + mem.", "comm_memory": "Comm. + mem.", "compute_comm_memory": "All three",
}  # fmt: skip


def layout(context: Context) -> Component:
    """One section per open run."""
    return html.Div([_run(context, at) for at in range(len(context.runs))])


def _found(context: Context, at: int) -> tuple[LoadedRun, int, Scope]:
    loaded, scope = context.runs[at], scope_in(context.state, context.runs[at], at)
    return loaded, first_rank(loaded.run, scope), scope


def _overlap_of(loaded: LoadedRun, rank: int, scope: Scope) -> tuple[DeviceOverlap, ...]:
    return within(loaded, (_SLUG, rank), scope, lambda run: overlap(run.by_rank(rank), scope))


def _breakdown_of(loaded: LoadedRun, rank: int, scope: Scope) -> Breakdown:
    return within(loaded, ("breakdown", rank), scope, lambda run: breakdown(run.by_rank(rank), scope))


def _run(context: Context, at: int) -> Component:
    loaded, rank, scope = _found(context, at)
    theme = context.state.theme
    found = [entry for entry in _overlap_of(loaded, rank, scope) if entry.step < 0]
    if found:
        summed = [sum(entry.parts_ns[part] for entry in found) for part in range(len(COMBINATIONS))]
        whole = sum(entry.total_ns for entry in found)
        devices = f"summed over {count(len(found), 'device')}" if len(found) > 1 else "share of the device's time"
        labels = [f"device {entry.device}" if entry.device >= 0 else "device" for entry in found[:_BARS]]
        cut = f"the first {_BARS} of {len(found)} devices" if len(found) > _BARS else "disjoint parts, exact"
        first: list[Component] = [
            card("Running at once", figure_of(overlap_matrix(summed, whole, theme)), f"diagonal: at all; {devices}"),
            card("What runs, and nothing else", figure_of(combination_bars(labels, found[:_BARS], theme)), cut),
        ]
    else:
        reason = _breakdown_of(loaded, rank, scope).reason or "no device work lies in the chosen range"
        first = [card("Running at once", html.P(f"There is nothing to overlap: {reason}.", className="ck-hint"))]
    return html.Section(
        [
            *heading(loaded.run, rank, "Overlap and idle time"),
            html.Div(
                [
                    html.Div([*first[:1], placeholder(_SLUG, "idle", at, height=360)], className="ck-column"),
                    html.Div([*first[1:], placeholder(_SLUG, "host", at, height=300)], className="ck-column"),
                ],
                className="ck-columns",
                style={"marginTop": "10px"},
            ),
            placeholder(_SLUG, "steps", at, height=120),
        ],
        className="ck-run-section",
    )


def _stream(trace: Trace, lane: int) -> str:
    if lane < 0:
        return "no stream"
    known = trace.lanes[lane]
    several = len({one.device for one in trace.lanes if one.device >= 0}) > 1
    return plain(f"{known.name}, device {known.device}" if several else known.name, 60)


def _idle(context: Context, at: int) -> Component:
    loaded, rank, scope = _found(context, at)
    result, trace = _breakdown_of(loaded, rank, scope), loaded.run.by_rank(rank)
    title = "Why streams stand still"
    causes = [one for one in result.idle_causes if one.idle_ns > 0]
    if not causes:
        words = result.reason or "no stream has a gap between its work"
        return card(title, html.P(f"{words[:1].upper()}{words[1:]}.", className="ck-hint"))
    total: dict[int, int] = {}
    for one in causes:
        total[one.lane] = total.get(one.lane, 0) + one.idle_ns
    lanes = sorted(total, key=lambda lane: -total[lane])
    idle = {(one.lane, one.cause): one.idle_ns for one in causes}
    shown = lanes[:_BARS]
    series = {cause: [idle.get((lane, cause), 0) for lane in shown] for cause in _CAUSES}
    rows: list[dict[str, Any]] = [
        {"stream": _stream(trace, one.lane), "cause": one.cause, "means": _CAUSES.get(one.cause, ""),
         "count": one.count, "idle_ns": one.idle_ns}
        for one in sorted(causes, key=lambda one: -one.idle_ns)[:_ROWS]
    ]  # fmt: skip
    columns = [
        text_column("stream", "Stream", flex=1.3, minWidth=96), text_column("cause", "Cause", flex=1, minWidth=100),
        count_column("count", "Gaps"), time_column("idle_ns", "Idle", max(one.idle_ns for one in causes)),
        text_column("means", "Because", flex=3, minWidth=150),
    ]  # fmt: skip
    grid, tools = linked(
        "overlap-idle", columns, rows, context.state.theme, at=at, groups={"cause": "cause", "stream": "stream"}
    )
    figure = figure_of(cause_bars([_stream(trace, lane) for lane in shown], series, context.state.theme))
    note = "other streams may work meanwhile, so this is more than the device's idle time"
    return card(title, html.Div([figure, html.Div(tools, className="ck-table-tools"), grid]), note)


def _host(context: Context, at: int) -> Component:
    loaded, rank, scope = _found(context, at)
    host = within(loaded, ("host", rank), scope, lambda run: host_breakdown(run.by_rank(rank), scope))
    return host_card(loaded.run.by_rank(rank), host, context.state.theme)


def _steps(context: Context, at: int) -> Component:
    loaded, rank, scope = _found(context, at)
    found = [entry for entry in _overlap_of(loaded, rank, scope) if entry.step >= 0]
    if not found:
        return card(
            "Steps", html.P("The trace has no steps with device work in the chosen range.", className="ck-hint")
        )
    rows = [
        {"step": entry.step, "device": entry.device, "total_ns": entry.total_ns,
         **dict(zip(COMBINATIONS, entry.parts_ns, strict=True)), "idle_ns": entry.idle_ns}
        for entry in found[:_ROWS]
    ]  # fmt: skip
    most = max(entry.total_ns for entry in found)
    columns = [
        count_column("step", "Step", adds=False), count_column("device", "Device", adds=False),
        time_column("total_ns", "Total", most),
        *(time_column(name, _SHORT[name], most) for name in COMBINATIONS
          if any(row[name] for row in rows)),
        time_column("idle_ns", "Idle", most),
    ]  # fmt: skip
    grid, tools = linked("overlap-steps", columns, rows, context.state.theme, at=at)
    cut = f"the first {_ROWS} of {len(found):,}" if len(found) > _ROWS else "parts sum to the total"
    return card("Steps", grid, cut, tools)


def register(app: Dash, library: Library) -> None:
    """Nothing to connect: the shell connects tables and parts."""
    del app, library


def _prepare(loaded: LoadedRun) -> None:
    _overlap_of(loaded, loaded.run.ranks[0], WHOLE)


PAGE = Page(
    _SLUG, "Overlap", "overlap", layout, register, section="Analyse", scoped=True, prepare=_prepare,
    later={"idle": _idle, "host": _host, "steps": _steps},
)  # fmt: skip
