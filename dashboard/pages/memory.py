"""Memory: what is allocated over time, what was live at the peak, and what copies move."""

from __future__ import annotations

from typing import Any

from dash import Dash, html
from dash.development.base_component import Component

from chakra_core.analysis.copies import CopyClass, copies
from chakra_core.analysis.memory import Memory, MemoryCurve, memory
from chakra_core.analysis.scope import WHOLE, Scope
from dashboard.figures.memory import copy_bars, copy_label, memory_curve
from dashboard.later import placeholder
from dashboard.library import Library, LoadedRun
from dashboard.nodes import rows_text
from dashboard.page import Context, Page
from dashboard.pages._critical_view import card, figure_of
from dashboard.pages._within import first_rank, heading, within
from dashboard.scopes import scope_in
from dashboard.tables import count_column, linked, number_column, text_column, time_column
from dashboard.words import count, duration, plain, share, size

__all__ = ["PAGE"]

_SLUG = "memory"
_CURVES = 4
_ROWS = 300
_AROUND = 50


def layout(context: Context) -> Component:
    """One section per open run."""
    return html.Div([_run(context, at) for at in range(len(context.runs))])


def _found(context: Context, at: int) -> tuple[LoadedRun, int, Scope]:
    loaded, scope = context.runs[at], scope_in(context.state, context.runs[at], at)
    return loaded, first_rank(loaded.run, scope), scope


def _curves(loaded: LoadedRun, rank: int, scope: Scope) -> Memory:
    return within(loaded, (_SLUG, rank), scope, lambda run: memory(run.by_rank(rank), scope))


def _copies_of(loaded: LoadedRun, rank: int, scope: Scope) -> tuple[CopyClass, ...]:
    return within(loaded, ("copies", rank), scope, lambda run: copies(run.by_rank(rank), scope))


def _run(context: Context, at: int) -> Component:
    loaded, rank, scope = _found(context, at)
    result = _curves(loaded, rank, scope)
    shown = [_curve(loaded, at, rank, curve, context.state.theme) for curve in result.curves[:_CURVES]]
    if len(result.curves) > _CURVES:
        words = f"{_CURVES} of {len(result.curves):,} memories are shown, those with the greatest peaks."
        shown.append(html.P(words, className="ck-hint"))
    if not shown:
        words = f"There is no curve of memory over time: {result.reason}."
        shown = [card("Allocated over time", html.P(words, className="ck-hint"))]
    return html.Section(
        [
            *heading(loaded.run, rank, "Memory"),
            html.Div(shown, className="ck-column", style={"marginTop": "10px"}),
            html.Div(
                [
                    *([placeholder(_SLUG, "live", at, height=400)] if result.curves else []),
                    placeholder(_SLUG, "copies", at, height=400),
                ],
                className="ck-columns",
                style={"marginTop": "14px"},
            ),
        ],
        className="ck-run-section",
    )


def _curve(loaded: LoadedRun, at: int, rank: int, curve: MemoryCurve, theme: str) -> Component:
    origin_ns = loaded.run.origin_ns
    facts = [
        ("Peak", f"{size(curve.peak_bytes)} at {duration(curve.peak_ns - origin_ns)}"),
        ("Allocations and frees", f"{curve.events:,}"),
    ]
    if (curve.reserved > 0).any():
        facts.append(("Reserved at most", size(int(curve.reserved.max()))))
    if curve.before_bytes is not None:
        facts.append(
            (
                "Of the peak, from before the trace",
                f"{size(curve.before_bytes)} ({share(curve.before_bytes, curve.peak_bytes)})",
            )
        )
    if curve.kept_bytes is not None:
        said = f"{size(curve.kept_bytes)} of {size(curve.allocated_bytes)} ({share(curve.kept_bytes, curve.allocated_bytes)})"
        facts.append(("Allocated here and never freed", said))
    row = html.Dl([html.Div([html.Dt(name), html.Dd(text)]) for name, text in facts], className="ck-fact-row")
    note = "the trace states no totals: counted from its first event" if curve.relative else ""
    figure = figure_of(memory_curve(curve, theme, origin_ns=origin_ns))
    around = max(int(curve.time_ns[-1] - curve.time_ns[0]) // _AROUND, 1_000)
    place = {
        "data-goto": "timeline", "data-t0": str(max(curve.peak_ns - origin_ns - around, 0)),
        "data-t1": str(curve.peak_ns - origin_ns + around),
    }  # fmt: skip
    if curve.live and curve.live[0].row >= 0:
        place |= {"data-run": str(at), "data-rank": str(rank), "data-row": str(curve.live[0].row)}
    tools: list[Component] = [html.Button("Show the peak on the timeline", className="ck-button ck-small", **place)]
    return card(f"Allocated over time: {plain(curve.place, 60)}", html.Div([row, figure]), note, tools)


def _live(context: Context, at: int) -> Component:
    loaded, rank, scope = _found(context, at)
    result = _curves(loaded, rank, scope)
    title = "Live at the peak"
    known = [curve for curve in result.curves if curve.live_bytes is not None]
    if not known:
        words = result.reason or "it does not say at which address allocations lie"
        return card(title, html.P(f"The trace does not tell what was live: {words}.", className="ck-hint"))
    rows: list[dict[str, Any]] = []
    for curve in known:
        for part in curve.live:
            record: dict[str, Any] = {
                "place": plain(curve.place, 60), "name": plain(part.name, 300), "bytes": part.bytes,
                "count": part.count, "share": round(part.bytes / max(curve.peak_bytes, 1), 4),
            }  # fmt: skip
            if part.row >= 0:
                members = rows_text(at, rank, part.rows.tolist())
                record |= {"run": at, "rank": rank, "row": part.row, "nodes": members}
            rows.append(record)
        if curve.before_bytes:
            share_of = round(curve.before_bytes / max(curve.peak_bytes, 1), 4)
            rows.append({"place": plain(curve.place, 60), "name": "from before the trace, or not recorded",
                         "bytes": curve.before_bytes, "count": None, "share": share_of})  # fmt: skip
    rows.sort(key=lambda row: -row["bytes"])
    columns = [
        text_column("name", "Operator", flex=3, minWidth=170), text_column("place", "Memory", flex=1, minWidth=76),
        count_column("bytes", "Bytes", flex=1.5, minWidth=110), count_column("count", "Allocations"),
        number_column("share", "Of peak", share=True),
    ]  # fmt: skip
    grid, tools = linked("memory-live", columns, rows[:_ROWS], context.state.theme, at=at, groups={"place": "memory"})
    cut = f"the first {_ROWS} of {len(rows):,}; " if len(rows) > _ROWS else ""
    return card(title, grid, f"{cut}by the operator that allocated it; a row selects its nodes", tools)


def _copies(context: Context, at: int) -> Component:
    loaded, rank, scope = _found(context, at)
    found = _copies_of(loaded, rank, scope)
    title = "Copies"
    if not found:
        words = "No copy or fill of device memory lies in the chosen range."
        if not len(loaded.run.by_rank(rank).device_rows):
            words = "The trace records no device work, so no copies."
        return card(title, html.P(words, className="ck-hint"))
    rows = [
        {
            "what": copy_label(one), "count": one.count, "bytes": one.bytes if one.unsized < one.count else None,
            "total_ns": one.total_ns, "gbps": None if one.bandwidth is None else round(one.bandwidth / 1e9, 3),
            "limit": None if one.limit is None or one.bandwidth is None else round(one.bandwidth / one.limit, 4),
            "limited_by": one.limited_by, "run": at, "rank": rank,
            "row": int(one.rows[int(loaded.run.by_rank(rank).columns.dur_ns[one.rows].argmax())]),
            "nodes": rows_text(at, rank, one.rows.tolist()),
        }
        for one in found
    ]  # fmt: skip
    columns = [
        text_column("what", "Direction", flex=1.6, minWidth=120), count_column("count", "Count"),
        count_column("bytes", "Bytes", flex=1.4, minWidth=100),
        time_column("total_ns", "Time", max(one.total_ns for one in found)), number_column("gbps", "GB/s"),
        number_column("limit", "Of limit", share=True, tooltipField="limited_by"),
    ]  # fmt: skip
    grid, tools = linked("memory-copies", columns, rows, context.state.theme, at=at)
    unsized = sum(one.unsized for one in found)
    note = f"{count(unsized, 'copy', 'copies')} without a stated size" if unsized else "a row selects its copies"
    with_rate = [one for one in found if one.bandwidth is not None]
    bars = [figure_of(copy_bars(with_rate, context.state.theme))] if with_rate else []
    above = html.Div(tools, className="ck-table-tools")
    return card(title, html.Div([*bars, above, grid]), note)


def register(app: Dash, library: Library) -> None:
    """Nothing to connect: the shell connects tables and parts."""
    del app, library


def _prepare(loaded: LoadedRun) -> None:
    _curves(loaded, loaded.run.ranks[0], WHOLE)
    _copies_of(loaded, loaded.run.ranks[0], WHOLE)


PAGE = Page(
    _SLUG, "Memory", "memory", layout, register, section="Analyse", scoped=True, prepare=_prepare,
    later={"live": _live, "copies": _copies},
)  # fmt: skip
