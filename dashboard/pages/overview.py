"""Overview: what a run is, how healthy, where its time goes, and what to look at first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go
from dash import ALL, Dash, Input, Output, ctx, dcc, html, no_update
from dash.development.base_component import Component
from dash_ag_grid import AgGrid

from chakra_core.analysis.breakdown import Breakdown, breakdowns
from chakra_core.analysis.operators import by_category, kernels, top_operators
from chakra_core.schema import Category, Severity
from chakra_core.trace import HealthFinding, Run, Trace
from dashboard.figures.bars import Bar, breakdown_bars
from dashboard.figures.categories import category_bars
from dashboard.library import Library, LoadedRun
from dashboard.page import Context, Page
from dashboard.pointers import Pointer, pointers
from dashboard.state import Ids
from dashboard.words import count, duration, plain, share

__all__ = ["PAGE"]

_ROWS = 200
_RANK_BARS = 64
_SEVERITY_ORDER = (Severity.ERROR, Severity.WARNING, Severity.INFO)
_MS = {"function": "d3.format(',.3f')(params.value / 1e6)"}


def layout(context: Context) -> Component:
    """One section per open run."""
    return html.Div([_run(loaded, at, context.state.theme) for at, loaded in enumerate(context.runs)])


def _run(loaded: LoadedRun, at: int, theme: str) -> Component:
    run = loaded.run
    parts = loaded.result("breakdowns", breakdowns)
    return html.Section(
        [
            html.Div(
                [
                    html.H1(plain(run.label, 200)),
                    html.Span(str(run.time_kind), className=f"ck-badge ck-{run.time_kind}"),
                ],
                className="ck-heading",
            ),
            *[html.P(text, className="ck-assumption") for text in run.assumptions],
            _facts(run),
            html.Div(
                [
                    html.Div([_look_first(loaded, at), _health(run, at)], className="ck-column"),
                    html.Div([_time(parts, theme), _categories(loaded, theme)], className="ck-column"),
                ],
                className="ck-columns",
            ),
            html.Div([_operators(loaded, at, theme), _kernels(loaded, at, theme)], className="ck-columns"),
        ],
        className="ck-run-section",
    )


def _facts(run: Run) -> Component:
    traces = run.traces
    formats = sorted({f"{trace.meta.format} {trace.meta.schema}".strip() for trace in traces})
    nodes, device = sum(map(len, traces)), sum(len(trace.device_rows) for trace in traces)
    cells = [
        ("Format", ", ".join(formats)),
        ("Ranks", _ranks(run)),
        ("Hardware", run.hardware or "not recorded"),
        ("Nodes", f"{nodes:,} ({device:,} on devices)"),
        ("Dependencies", f"{sum(len(trace.edges) for trace in traces):,}"),
        ("Span", duration(run.span_ns) if run.span_ns else "no times"),
        ("Times are", f"{run.time_kind}{_TIME_WORDS[str(run.time_kind)]}"),
    ]
    return html.Dl(
        [html.Div([html.Dt(name), html.Dd(plain(text, 300))]) for name, text in cells], className="ck-fact-row"
    )


_TIME_WORDS = {
    "measured": " by the profiler",
    "reconstructed": " from dependencies and durations",
    "simulated": " on a model of the hardware",
}


def _ranks(run: Run) -> str:
    world = max(trace.meta.world_size for trace in run.traces)
    have = count(len(run.traces), "rank")
    return f"{len(run.traces):,} of {world:,}" if world > len(run.traces) else have


def _time(parts: dict[int, Breakdown], theme: str) -> Component:
    bars = [
        Bar.of(f"rank {rank}" if len(parts) > 1 else "device", part.total)
        for rank, part in list(parts.items())[:_RANK_BARS]
        if part.total.total_ns
    ]
    if not bars:
        reason = next((part.reason for part in parts.values() if part.reason), "The trace holds no device work.")
        return _card("Where device time goes", html.P(reason, className="ck-hint"))
    note = f"the first {_RANK_BARS} of {len(parts):,} ranks" if len(parts) > _RANK_BARS else ""
    return _card("Where device time goes", _graph(breakdown_bars(bars, theme)), note)


def _categories(loaded: LoadedRun, theme: str) -> Component:
    totals = loaded.result("by-category", _categories_of)
    if not totals:
        return _card("Time by kind of work", html.P("No node has a duration.", className="ck-hint"))
    return _card(
        "Time by kind of work",
        _graph(category_bars(totals, theme)),
        "summed over ranks; work that runs at once counts each",
    )


def _categories_of(run: Run) -> dict[Category, int]:
    totals: dict[Category, int] = {}
    for trace in run.traces:
        for category, spent in by_category(trace).items():
            totals[category] = totals.get(category, 0) + spent
    return dict(sorted(totals.items(), key=lambda pair: -pair[1]))


def _graph(figure: go.Figure) -> Component:
    return dcc.Graph(figure=figure, config={"displaylogo": False, "responsive": True, "displayModeBar": False})


def _card(title: str, content: Component, note: str = "") -> Component:
    return html.Div(
        [html.Div([html.H2(title), html.Span(note, className="ck-note")], className="ck-card-title"), content],
        className="ck-panel",
    )


def _look_first(loaded: LoadedRun, at: int) -> Component:
    found = loaded.result("pointers", pointers)
    if not found:
        return _card("Look here first", html.P("Nothing stands out.", className="ck-hint"))
    return _card("Look here first", html.Ol([_pointer(pointer, at) for pointer in found], className="ck-pointers"))


def _pointer(pointer: Pointer, at: int) -> Component:
    data: dict[str, Any] = {"data-goto": pointer.page}
    if pointer.row >= 0:
        data |= {"data-run": str(at), "data-rank": str(pointer.rank), "data-row": str(pointer.row)}
    if pointer.window is not None:
        data |= {"data-t0": str(pointer.window[0]), "data-t1": str(pointer.window[1])}
    return html.Li(
        [
            html.Strong(plain(pointer.title, 200)),
            html.Span(plain(pointer.text, 500)),
            html.Button(pointer.action, className="ck-button ck-small", **data),
        ]
    )


def _health(run: Run, at: int) -> Component:
    found: list[tuple[Trace | None, HealthFinding]] = [(None, finding) for finding in run.health]
    found += [(trace, finding) for trace in run.traces for finding in trace.health]
    merged = _merge(found)
    if not merged:
        return _card("Health", html.P("No problem was found.", className="ck-hint ck-good"))
    ordered = sorted(merged, key=lambda entry: (_SEVERITY_ORDER.index(entry[1].severity), -entry[1].count))
    return _card(
        "Health",
        html.Ul([_finding(trace, finding, ranks, at) for trace, finding, ranks in ordered], className="ck-health"),
    )


def _merge(found: Sequence[tuple[Trace | None, HealthFinding]]) -> list[tuple[Trace | None, HealthFinding, int]]:
    """One line per code: the finding of the first rank that has it, and how many ranks do."""
    by_code: dict[str, list[tuple[Trace | None, HealthFinding]]] = {}
    for trace, finding in found:
        by_code.setdefault(finding.code, []).append((trace, finding))
    return [(*entries[0], len(entries)) for entries in by_code.values()]


def _finding(trace: Trace | None, finding: HealthFinding, ranks: int, at: int) -> Component:
    examples = []
    if trace is not None:
        rank = max(trace.meta.rank, 0)
        for row in finding.examples[:3]:
            data = {"data-run": str(at), "data-rank": str(rank), "data-row": str(row)}
            examples.append(
                html.Button(
                    plain(trace.name_of(row), 40), className="ck-select ck-example", title="Select this node", **data
                )
            )
    where = f" (rank {trace.meta.rank} and {count(ranks - 1, 'other')})" if trace is not None and ranks > 1 else ""
    return html.Li(
        [
            html.Span(
                f"{finding.count:,}", className=f"ck-badge ck-sev-{finding.severity}", title=str(finding.severity)
            ),
            html.Div(
                [
                    html.P([plain(finding.message, 600), where]),
                    html.P(plain(finding.remedy, 300), className="ck-hint"),
                    html.Div(examples, className="ck-examples"),
                ]
            ),
        ]
    )


def _operators(loaded: LoadedRun, at: int, theme: str) -> Component:
    rank = loaded.run.ranks[0]
    table = loaded.result(("operators", rank), lambda run: top_operators(run.by_rank(rank)))
    rows = [dict(record) for record in table.records()[:_ROWS]]
    for record, row in zip(rows, table.longest[:_ROWS].tolist(), strict=True):
        record |= {"run": at, "rank": rank, "row": row}
    columns = [
        {"field": "name", "headerName": "Operator", "flex": 3, "minWidth": 180, "tooltipField": "name", "filter": True},
        {"field": "count", "headerName": "Calls", "width": 84, "type": "numericColumn"},
        {"field": "total_ns", "headerName": "Total ms", "width": 104, "type": "numericColumn", "valueFormatter": _MS},
        {"field": "self_ns", "headerName": "Self ms", "width": 100, "type": "numericColumn", "valueFormatter": _MS},
        {"field": "device_ns", "headerName": "Device ms", "width": 108, "type": "numericColumn", "valueFormatter": _MS},
    ]
    note = f"rank {rank}, " if len(loaded.run.traces) > 1 else ""
    return _table(
        "Operators",
        f"{note}{count(len(table.names), 'name')}; a row selects its longest instance",
        "overview-operators",
        at,
        columns,
        rows,
        theme,
    )


def _kernels(loaded: LoadedRun, at: int, theme: str) -> Component:
    rank = loaded.run.ranks[0]
    table = loaded.result(("kernels", rank), lambda run: kernels(run.by_rank(rank)))
    rows = [dict(record) for record in table.records()[:_ROWS]]
    total = int(table.total_ns.sum())
    for record, row in zip(rows, table.longest[:_ROWS].tolist(), strict=True):
        record |= {"run": at, "rank": rank, "row": row, "share": share(record["total_ns"], total)}
    columns = [
        {"field": "name", "headerName": "Kernel", "flex": 3, "minWidth": 180, "tooltipField": "name", "filter": True},
        {"field": "category", "headerName": "Kind", "width": 122, "filter": True},
        {"field": "count", "headerName": "Count", "width": 84, "type": "numericColumn"},
        {"field": "total_ns", "headerName": "Total ms", "width": 104, "type": "numericColumn", "valueFormatter": _MS},
        {"field": "share", "headerName": "Share", "width": 86},
    ]
    if not rows:
        return _card("Kernels", html.P("The trace holds no device work.", className="ck-hint"))
    return _table("Kernels", f"{count(len(table.names), 'name')}", "overview-kernels", at, columns, rows, theme)


def _table(
    title: str, note: str, kind: str, at: int, columns: list[dict[str, Any]], rows: list[dict[str, Any]], theme: str
) -> Component:  # fmt: skip
    grid = AgGrid(
        id={"type": kind, "at": at},
        columnDefs=columns,
        rowData=rows,
        defaultColDef={"sortable": True, "resizable": True},
        dashGridOptions={
            "rowHeight": 28, "headerHeight": 32, "animateRows": False, "rowSelection": {"mode": "singleRow", "checkboxes": False, "enableClickSelection": True},
            "tooltipShowDelay": 300, "enableCellTextSelection": True,
        },
        className="ag-theme-quartz-dark" if theme == "dark" else "ag-theme-quartz",
        style={"height": f"{min(len(rows), 12) * 28 + 36}px"},
    )  # fmt: skip
    return _card(title, grid, note)


def register(app: Dash, library: Library) -> None:
    """Connect the tables: a row selects its node."""
    del library
    for kind in ("overview-operators", "overview-kernels"):
        app.callback(
            Output(Ids.SELECTION, "data", allow_duplicate=True),
            Input({"type": kind, "at": ALL}, "selectedRows"),
            prevent_initial_call=True,
        )(_select)


def _select(chosen: list[list[dict[str, Any]] | None]) -> Any:
    rows = [row for rows in chosen for row in rows or [] if ctx.triggered[0]["value"] == rows]
    return {key: rows[0][key] for key in ("run", "rank", "row")} if rows else no_update


PAGE = Page("overview", "Overview", "overview", layout, register)
