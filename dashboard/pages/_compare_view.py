"""Components of the Compare page, built from a comparison: run labels, cards, charts, tables."""

from __future__ import annotations

from typing import Any

import dash_mantine_components as dmc
import numpy as np
import plotly.graph_objects as go
from dash import dcc, html
from dash.development.base_component import Component
from dash_ag_grid import AgGrid

from chakra_core.analysis.align import How
from chakra_core.analysis.breakdown import PARTS
from chakra_core.analysis.compare import Comparison, RunTotals
from chakra_core.analysis.explain import CAUSES
from chakra_core.schema import Category
from dashboard.figures.bars import PART_LABELS, Bar, breakdown_bars, empty_figure, grouped_bars, show_ns, waterfall
from dashboard.theme import RUN_COLOURS
from dashboard.words import count, plain

__all__ = [
    "cards",
    "change_card",
    "charts",
    "graph",
    "letter",
    "notices",
    "operator_grid",
    "operator_rows",
    "panel",
    "run_badges",
    "unmatched_list",
    "why_list",
]

MAX_ROWS = 3000
"""Most rows of the operator table; those with the largest differences are kept."""

_SHOWN_UNMATCHED = 100
_LOWEST, _HIGHEST = 230, 380  # px
_TIMES = "\N{MULTIPLICATION SIGN}"
_TIME = {"function": "params.value == null ? '' : d3.format(',.1f')(params.value / 1000)"}
_CHANGE = {"function": "params.value == null ? '' : d3.format('+,.1f')(params.value / 1000)"}
_RATIO = {"function": "params.value == null ? '' : d3.format(',.3f')(params.value) + '\u00d7'"}
_SIGNED = {"ck-worse": "params.value > 0", "ck-better": "params.value < 0"}
_TIMES_WORSE = {"ck-worse": "params.value > 1", "ck-better": "params.value != null && params.value < 1"}
_GRAPH = {"displaylogo": False, "responsive": True, "displayModeBar": False}
_GRID_THEME = """themeQuartz.withParams({
  backgroundColor: 'var(--ck-paper)', foregroundColor: 'var(--ck-ink)',
  borderColor: 'var(--ck-line)', headerBackgroundColor: 'var(--ck-soft)',
  rowHoverColor: 'var(--ck-soft)', fontSize: 12, spacing: 5, rowHeight: 30, headerHeight: 34,
  wrapperBorder: false, inputBorder: '1px solid var(--ck-line)'
})"""


def letter(at: int) -> str:
    """Short name of the n-th run: A, B, …."""
    return chr(ord("A") + at) if at < 26 else f"#{at + 1}"


def run_badges(result: Comparison) -> Component:
    """One line per run: its letter and colour, label, hardware, kind of time, and what its numbers are."""
    return html.Div(
        [_run_badge(run, at, is_baseline=at == result.baseline) for at, run in enumerate(result.runs)],
        className="ck-compare-runs",
    )


def _run_badge(run: RunTotals, at: int, *, is_baseline: bool) -> Component:
    ranks = f"rank {run.ranks[0]}" if len(run.ranks) == 1 else f"{len(run.ranks)} ranks"
    parts: list[Component] = [
        html.Span(letter(at), className=f"ck-letter ck-run-{at % len(RUN_COLOURS)}"),
        html.Strong(plain(run.label, 120)),
        html.Span(str(run.time_kind), className=f"ck-badge ck-{run.time_kind}"),
        html.Span(
            f"{plain(run.hardware, 80) or 'hardware not recorded'} · {ranks} · {run.aggregate}", className="ck-hint"
        ),
    ]
    if is_baseline:
        parts.append(html.Span("baseline", className="ck-badge"))
    return html.Div(parts, className="ck-row")


def notices(result: Comparison) -> list[Component]:
    """What the reader of the numbers must know first."""
    return [dmc.Alert(plain(text, 600), color="orange", variant="light", p="xs") for text in result.warnings]


def cards(result: Comparison, other: int) -> Component:
    """Totals of a run beside the baseline's, with difference and ratio."""
    base, run = result.runs[result.baseline], result.runs[other]
    if base.devices or run.devices:
        entries = [change_card("total", base.total_ns, run.total_ns)]
        entries += [change_card(PART_LABELS[part], base.part(part), run.part(part)) for part in PARTS]
    else:
        entries = [
            change_card("span of the run", base.span_ns, run.span_ns),
            change_card("operators (self time on the host)", base.work_ns, run.work_ns),
        ]
    entries.append(_share_card(base, run))
    return html.Div(entries, className="ck-compare-cards")


def change_card(title: str, base_ns: int, run_ns: int, word: str = "baseline") -> Component:
    """A time beside that of the run it is compared with."""
    change = run_ns - base_ns
    tone = "ck-worse" if change > 0 else "ck-better" if change < 0 else ""
    ratio = f"{run_ns / base_ns:.3f}{_TIMES}" if base_ns else "n/a"
    return _tile(
        title,
        show_ns(run_ns),
        html.Span(f"{word} {show_ns(base_ns)}", className="ck-hint"),
        html.Span(f"{show_ns(change, signed=True)} · {ratio}", className=tone),
    )


def _share_card(base: RunTotals, run: RunTotals) -> Component:
    share = "n/a" if run.matched_share is None else f"{run.matched_share:.1%}"
    if base.overlap_ratio is None and run.overlap_ratio is None:
        return _tile("time with a counterpart", share, html.Span("no communication", className="ck-hint"))
    hidden = ["n/a" if one.overlap_ratio is None else f"{one.overlap_ratio:.0%}" for one in (base, run)]
    return _tile(
        "time with a counterpart",
        share,
        html.Span("communication hidden", className="ck-hint"),
        html.Span(f"{hidden[0]} → {hidden[1]}"),
    )


def _tile(title: str, value: str, *lines: Component) -> Component:
    return html.Div([html.Span(title, className="ck-hint"), html.B(value), *lines], className="ck-panel ck-tile")


def _named(result: Comparison) -> list[str]:
    return [f"{letter(at)}  {run.label}" for at, run in enumerate(result.runs)]


def charts(result: Comparison, other: int, theme: str, *, share: bool) -> tuple[go.Figure, go.Figure, go.Figure]:
    """Breakdown bars of all runs, waterfall from the baseline to one of them, time by category."""
    names = _named(result)
    bars = [Bar(name, {part: run.part(part) for part in PARTS}) for name, run in zip(names, result.runs, strict=True)]
    if all(len(run.per_device) > 1 for run in result.runs) and sum(len(run.per_device) for run in result.runs) <= 64:
        bars += [
            Bar(f"{letter(at)} rank {rank}", {part: found.part(part) for part in PARTS})
            for at, run in enumerate(result.runs)
            for rank, found in run.per_device
        ]
    base = result.runs[result.baseline]
    if any(run.devices for run in result.runs):
        parts = breakdown_bars(bars, theme, share=share)
        changes = {part: result.deltas[other].part(part) for part in PARTS}
        steps = waterfall(base.total_ns, changes, theme, names=(f"{letter(result.baseline)} baseline", letter(other)))
    else:
        host = {name: [run.span_ns, run.work_ns] for name, run in zip(names, result.runs, strict=True)}
        parts = grouped_bars(["span", "operators, self"], host, theme)
        steps = empty_figure("No run has device work: there is nothing to decompose.", theme)
    present = {category for run in result.runs for category in run.by_category}
    order = sorted(present, key=lambda code: -max(run.by_category.get(code, 0) for run in result.runs))
    categories = grouped_bars(
        [category.label for category in order],
        {name: [run.by_category.get(code, 0) for code in order] for name, run in zip(names, result.runs, strict=True)},
        theme,
    )
    parts.update_layout(height=max(int(parts.layout.height), _LOWEST))
    return parts, steps.update_layout(height=min(max(int(parts.layout.height), _LOWEST), _HIGHEST)), categories


def panel(title: str, *content: Component, note: Component | str = "") -> Component:
    """A titled surface."""
    head = html.Div([html.H2(title), html.Span(note, className="ck-note")], className="ck-card-title")
    return html.Section([head, *content], className="ck-panel")


def graph(graph_id: str, figure: go.Figure) -> dcc.Graph:
    """A figure that keeps the height it asks for."""
    return dcc.Graph(id=graph_id, figure=figure, config=_GRAPH, style={"height": f"{figure.layout.height}px"})


def operator_rows(result: Comparison) -> list[dict[str, Any]]:
    """Rows of the operator table, largest difference first; at most ``MAX_ROWS``."""
    table, base = result.operators, result.baseline
    rows = []
    for at in range(min(len(table), MAX_ROWS)):
        row: dict[str, Any] = {
            "id": str(at),
            "name": table.names[at],
            "category": Category(int(table.category[at])).label,
            "how": _how(result, at),
        }
        for run in range(len(result.runs)):
            there = bool(table.kernels[at, run])
            row[f"calls{run}"] = int(table.calls[at, run]) if there else None
            row[f"ns{run}"] = int(table.ns[at, run]) if there else None
            if run != base and there and table.kernels[at, base]:
                before, after = int(table.ns[at, base]), int(table.ns[at, run])
                row[f"delta{run}"] = after - before
                row[f"ratio{run}"] = after / before if before else None
        rows.append(row)
    return rows


def _how(result: Comparison, at: int) -> str:
    """By what the work of a row was matched, or which runs have it."""
    there = np.flatnonzero(result.operators.kernels[at] > 0).tolist()
    if len(there) == len(result.runs):
        return How(int(result.operators.how[at])).label
    return f"only in {', '.join(letter(run) for run in there)}"


def operator_grid(result: Comparison, grid_id: str, other: int) -> AgGrid:
    """The operator table; a click on a row selects the longest instance in the clicked column's run."""
    return AgGrid(
        id=grid_id,
        columnDefs=_columns(result, other),
        rowData=operator_rows(result),
        getRowId="params.data.id",
        defaultColDef={"sortable": True, "filter": True, "resizable": True, "suppressHeaderMenuButton": True},
        dashGridOptions={
            "rowSelection": {"mode": "singleRow", "checkboxes": False, "enableClickSelection": True},
            "animateRows": False,
            "tooltipShowDelay": 400,
            "suppressFieldDotNotation": True,
            "theme": {"function": _GRID_THEME},
        },
        className="ck-grid",
        style={"height": f"{99 + 30 * min(max(len(result.operators), 2), 11)}px", "width": "100%"},
    )


def _columns(result: Comparison, other: int) -> list[dict[str, Any]]:
    number = {
        "type": "rightAligned",
        "filter": "agNumberColumnFilter",
        "width": 112,
        "suppressHeaderFilterButton": True,
    }
    units = ["(µs)" if run.on_device else "self (µs)" for run in result.runs]
    order = range(len(result.runs))
    others = sorted((at for at in order if at != result.baseline), key=lambda at: (at != other, at))
    filtered = {"filter": "agTextColumnFilter", "floatingFilter": True, "suppressHeaderFilterButton": True}
    named = {"headerName": "Operator", "minWidth": 240, "flex": 1, "tooltipField": "name"}
    return [
        {"field": "name", **named, **filtered},
        *(
            {"field": f"ns{at}", "headerName": f"{letter(at)} {units[at]}", **number, "valueFormatter": _TIME}
            for at in order
        ),
        *(column for at in others for column in _change_columns(at, number, others, sort=at == other)),
        *({"field": f"calls{at}", "headerName": f"{letter(at)} calls", **number, "width": 88} for at in order),
        {"field": "category", "headerName": "Category", "width": 130, **filtered},
        {"field": "how", "headerName": "Matched by", "width": 170, **filtered},
    ]


def _change_columns(at: int, number: dict[str, Any], others: list[int], *, sort: bool) -> tuple[dict[str, Any], ...]:
    tag = f" {letter(at)}" if len(others) > 1 else ""
    first = {"field": f"delta{at}", "headerName": f"Δ{tag} (µs)", **number, "valueFormatter": _CHANGE}
    second = {"field": f"ratio{at}", "headerName": f"Ratio{tag}", **number, "width": 92, "valueFormatter": _RATIO}
    return (
        {**first, "cellClassRules": _SIGNED, **({"sort": "desc"} if sort else {})},
        {**second, "cellClassRules": _TIMES_WORSE},
    )


def why_list(result: Comparison, other: int) -> Component:
    """What the change of compute is made of."""
    why, total = result.why[other], result.deltas[other].compute_ns
    if not result.runs[other].devices:
        return html.Div()
    rows = [
        html.Tr(
            [
                html.Td(words),
                html.Td(
                    show_ns(why.part(cause), signed=True),
                    className=f"ck-number {'ck-worse' if why.part(cause) > 0 else 'ck-better' if why.part(cause) < 0 else ''}",
                ),
            ]
        )
        for cause, words in CAUSES.items()
    ]
    return html.Div(
        [
            html.H3(f"Why compute changed by {show_ns(total, signed=True)}"),
            html.Table(html.Tbody(rows), className="ck-why"),
        ]
    )


def unmatched_list(result: Comparison) -> Component:
    """What has no counterpart in some run, by run, longest first."""
    table = result.operators
    left = ~table.matched
    panels = []
    for at, run in enumerate(result.runs):
        rows = np.flatnonzero(left & (table.kernels[:, at] > 0))
        rows = rows[np.argsort(-table.ns[rows, at], kind="stable")]
        total = int(table.ns[rows, at].sum())
        share = f" ({total / run.work_ns:.1%} of its time)" if run.work_ns else ""
        lines: list[Component] = [
            html.Div(
                [
                    html.Code(
                        plain(table.names[row], 300), className="ck-link-name", title=plain(table.names[row], 600)
                    ),
                    html.Span(count(int(table.calls[row, at]), "call"), className="ck-kind"),
                    html.Span(show_ns(int(table.ns[row, at])), className="ck-number"),
                ],
                className="ck-left",
            )
            for row in rows[:_SHOWN_UNMATCHED].tolist()
        ]
        if len(rows) > _SHOWN_UNMATCHED:
            lines.append(html.P(f"and {len(rows) - _SHOWN_UNMATCHED:,} more, in the table", className="ck-hint"))
        title = f"Only in {letter(at)}: {count(len(rows), 'operator')}, {show_ns(total)}{share}"
        panels.append(html.Div([html.H3(title), html.Div(lines, className="ck-scroll")]))
    return html.Div(panels, className="ck-column")
