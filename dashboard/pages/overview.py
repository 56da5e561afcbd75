"""Overview: what a run is, how healthy, where its time goes, and what to look at first."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

import plotly.graph_objects as go
from dash import Dash, dcc, html
from dash.development.base_component import Component

from chakra_core.analysis.breakdown import Breakdown, breakdowns
from chakra_core.analysis.findings import Finding
from chakra_core.analysis.operators import Operators, by_category, kernels, top_operators
from chakra_core.analysis.scope import WHOLE, Scope, traces_in
from chakra_core.schema import Category, Severity
from chakra_core.trace import HealthFinding, Run, Trace
from dashboard.figures.bars import Bar, breakdown_bars, grouped_bars
from dashboard.figures.categories import category_bars
from dashboard.later import placeholder
from dashboard.library import Library, LoadedRun
from dashboard.page import Context, Page
from dashboard.pages._findings_view import findings_of, place_data
from dashboard.pages._overview_tables import kernel_table, operator_table
from dashboard.scopes import scope_in
from dashboard.words import count, duration, plain

__all__ = ["PAGE"]

T = TypeVar("T")
_SLUG = "overview"
_FIRST = 6
"""Findings shown under *Look here first*."""
_RANK_BARS = 64
_HOST_BARS = 12
_SEVERITY_ORDER = (Severity.ERROR, Severity.WARNING, Severity.INFO)


def layout(context: Context) -> Component:
    """One section per open run."""
    shown = [
        _run(loaded, at, context.state.theme, scope_in(context.state, loaded, at))
        for at, loaded in enumerate(context.runs)
    ]
    return html.Div(shown)


def _run(loaded: LoadedRun, at: int, theme: str, scope: Scope) -> Component:
    run = loaded.run
    parts = _within(loaded, "breakdowns", scope, lambda run: breakdowns(run, scope))
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
                    html.Div(
                        [
                            placeholder(_SLUG, "findings", at, height=320),
                            _health(run, at),
                            placeholder(_SLUG, "operators", at, height=480),
                        ],
                        className="ck-column",
                    ),
                    html.Div(
                        [
                            *_where_time_goes(loaded, parts, theme, scope),
                            placeholder(_SLUG, "kernels", at, height=480),
                        ],
                        className="ck-column",
                    ),
                ],
                className="ck-columns",
            ),
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
    if linked := _linked(run):
        cells.append(("Host and device linked", linked))
    return html.Dl(
        [html.Div([html.Dt(name), html.Dd(plain(text, 300))]) for name, text in cells], className="ck-fact-row"
    )


def _linked(run: Run) -> str:
    """How host traces and profiles were put together; empty where nothing was."""
    found = [link for trace in run.traces if isinstance(link := trace.meta.details.get("link"), dict)]
    if not found:
        return ""
    matched, operators = sum(link["matched"] for link in found), sum(link["operators"] for link in found)
    methods = ", ".join(dict.fromkeys(str(link["method"]) for link in found))
    return f"{matched:,} of {count(operators, 'operator')} by {methods}"


_TIME_WORDS = {
    "measured": " by the profiler",
    "reconstructed": " from dependencies and durations",
    "simulated": " on a model of the hardware",
}


def _ranks(run: Run) -> str:
    world = max(trace.meta.world_size for trace in run.traces)
    have = count(len(run.traces), "rank")
    return f"{len(run.traces):,} of {world:,}" if world > len(run.traces) else have


def _within(loaded: LoadedRun, key: Hashable, scope: Scope, compute: Callable[[Run], T]) -> T:
    """A result; that of the whole run is kept."""
    return loaded.result(key, compute) if scope == WHOLE else compute(loaded.run)


def _where_time_goes(loaded: LoadedRun, parts: dict[int, Breakdown], theme: str, scope: Scope) -> list[Component]:
    """Device time by part and by kind of work; on a trace without device work, host time by operator."""
    if any(len(trace.device_rows) for trace in loaded.run.traces):
        return [_time(parts, theme), _categories(loaded, theme, scope)]
    operators = _operators_of(loaded, scope)
    longest = sorted(range(len(operators)), key=lambda at: -int(operators.self_ns[at]))[:_HOST_BARS]
    shown = [at for at in longest if operators.self_ns[at] > 0]
    said = html.P("The trace records no device work, so there is no breakdown of device time.", className="ck-hint")
    if not shown:
        return [_card("Where the time goes", said)]
    bars = grouped_bars(
        [operators.names[at] for at in shown], {"self time": [int(operators.self_ns[at]) for at in shown]}, theme
    )
    note = f"{_whose(loaded.run, scope)}self time of the first {len(shown)} of {count(len(operators), 'operator')}"
    return [_card("Where host time goes", html.Div([said, _graph(bars)]), note)]


def _time(parts: dict[int, Breakdown], theme: str) -> Component:
    bars = [
        Bar.of(f"rank {rank}" if len(parts) > 1 else "device", part.total)
        for rank, part in list(parts.items())[:_RANK_BARS]
        if part.total.total_ns
    ]
    if not bars:
        reason = next((part.reason for part in parts.values() if part.reason), "the trace records no device work")
        return _card("Where device time goes", html.P(f"{reason[:1].upper()}{reason[1:]}.", className="ck-hint"))
    note = f"the first {_RANK_BARS} of {len(parts):,} ranks" if len(parts) > _RANK_BARS else ""
    return _card("Where device time goes", _graph(breakdown_bars(bars, theme)), note)


def _categories(loaded: LoadedRun, theme: str, scope: Scope) -> Component:
    totals = _within(loaded, "by-category", scope, lambda run: _categories_of(run, scope))
    if not totals:
        return _card("Time by kind of work", html.P("No device work has a duration.", className="ck-hint"))
    return _card(
        "Time by kind of work",
        _graph(category_bars(totals, theme)),
        "summed over ranks; work that runs at once counts each",
    )


def _categories_of(run: Run, scope: Scope) -> dict[Category, int]:
    totals: dict[Category, int] = {}
    for _, trace in traces_in(run, scope):
        for category, spent in by_category(trace, scope).items():
            totals[category] = totals.get(category, 0) + spent
    return dict(sorted(totals.items(), key=lambda pair: -pair[1]))


def _graph(figure: go.Figure) -> Component:
    height = {"height": f"{figure.layout.height}px"}  # the page must not move under the pointer when it is drawn
    return dcc.Graph(
        figure=figure, style=height, config={"displaylogo": False, "responsive": True, "displayModeBar": False}
    )


def _card(title: str, content: Component, note: str = "") -> Component:
    return html.Div(
        [html.Div([html.H2(title), html.Span(note, className="ck-note")], className="ck-card-title"), content],
        className="ck-panel",
    )


def _look_first(context: Context, at: int) -> Component:
    """The damage of the file, then the first findings of the Findings page."""
    loaded, scope = context.runs[at], scope_in(context.state, context.runs[at], at)
    run = loaded.run
    errors = [one for trace in run.traces for one in trace.health] + list(run.health)
    damage = [one.message for one in errors if one.severity == Severity.ERROR][:1]
    lines = [html.Li([html.Strong("The trace is damaged"), html.Span(plain(text, 500))]) for text in damage]
    lines += [_pointer(loaded, one, at) for one in findings_of(loaded, scope)[:_FIRST]]
    if not lines:
        return _card("Look here first", html.P("Nothing stands out.", className="ck-hint"))
    more = html.A("All findings", href="/findings", className="ck-link ck-note", **{"data-page": "findings"})
    return _card("Look here first", html.Div([html.Ol(lines, className="ck-pointers"), more]))


def _pointer(loaded: LoadedRun, finding: Finding, at: int) -> Component:
    saved = "" if finding.saving_ns < 0 else f" \N{MIDDLE DOT} up to {duration(finding.saving_ns)}"
    return html.Li(
        [
            html.Strong([plain(finding.title, 200), html.Span(saved, className="ck-note")]),
            html.Span(plain(finding.text, 500)),
            html.Button(
                "Show it", className="ck-button ck-small", **place_data(finding, loaded.run, at, finding.place.page)
            ),
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
                f"{finding.severity}{f' · {finding.count:,}' if finding.count > 1 else ''}",
                className=f"ck-badge ck-sev-{finding.severity}",
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


def _operators(context: Context, at: int) -> Component:
    loaded, scope = context.runs[at], scope_in(context.state, context.runs[at], at)
    rank = _rank_in(loaded.run, scope)
    return operator_table(
        _operators_of(loaded, scope), loaded.run.by_rank(rank), at, rank, context.state.theme, _whose(loaded.run, scope)
    )


def _operators_of(loaded: LoadedRun, scope: Scope) -> Operators:
    rank = _rank_in(loaded.run, scope)
    return _within(loaded, ("operators", rank), scope, lambda run: top_operators(run.by_rank(rank), scope))


def _kernels(context: Context, at: int) -> Component:
    loaded, scope = context.runs[at], scope_in(context.state, context.runs[at], at)
    rank = _rank_in(loaded.run, scope)
    found = _within(loaded, ("kernels", rank), scope, lambda run: kernels(run.by_rank(rank), scope))
    return kernel_table(found, loaded.run.by_rank(rank), at, rank, context.state.theme, _whose(loaded.run, scope))


def _rank_in(run: Run, scope: Scope) -> int:
    """The first rank in the scope, or the first of all where it holds none."""
    return next((rank for rank in run.ranks if scope.has_rank(rank)), run.ranks[0])


def _whose(run: Run, scope: Scope) -> str:
    return f"rank {_rank_in(run, scope)}, " if len(run.traces) > 1 else ""


def register(app: Dash, library: Library) -> None:
    """Nothing to connect: the shell connects tables and buttons."""
    del app, library


def _prepare(loaded: LoadedRun) -> None:
    """What the page shows of a whole run."""
    loaded.result("breakdowns", breakdowns)
    findings_of(loaded)


PAGE = Page(
    _SLUG,
    "Overview",
    "overview",
    layout,
    register,
    section="View",
    scoped=True,
    prepare=_prepare,
    later={"findings": _look_first, "operators": _operators, "kernels": _kernels},
)
