"""Collectives: what each operation of one rank costs, how much of it is exposed, and how near it comes to the links."""

from __future__ import annotations

from typing import Any

import numpy as np
from dash import Dash, html
from dash.development.base_component import Component

from chakra_core.analysis.collectives import Collectives, collectives, message_sizes
from chakra_core.analysis.scope import Scope
from chakra_core.trace import Run, Trace
from dashboard.figures.collectives import bandwidth_scatter, exposed_bars, size_histogram
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

_SLUG = "collectives"
_ROWS = 300
_BARS = 16


def layout(context: Context) -> Component:
    """One section per open run."""
    return html.Div([_run(context, at) for at in range(len(context.runs))])


def _found(context: Context, at: int) -> tuple[Trace, int, Collectives]:
    loaded, scope = context.runs[at], scope_in(context.state, context.runs[at], at)
    rank = first_rank(loaded.run, scope)
    return loaded.run.by_rank(rank), rank, _result(loaded, rank, scope)


def _result(loaded: LoadedRun, rank: int, scope: Scope) -> Collectives:
    return within(loaded, (_SLUG, rank), scope, lambda run: collectives(run.by_rank(rank), scope))


def _run(context: Context, at: int) -> Component:
    trace, rank, result = _found(context, at)
    run = context.runs[at].run
    top = heading(run, rank, "Collectives")
    if result.reason:
        words = f"There are no collectives to show: {result.reason}."
        return html.Section([*top, html.Div(html.P(words, className="ck-hint"), className="ck-panel")])
    return html.Section(
        [
            *top,
            _facts(trace, result),
            card("By operation, group and size", *_table(trace, result, at, rank, context.state.theme)),
            html.Div(
                [
                    html.Div(
                        [placeholder(_SLUG, "bandwidth", at, height=400), placeholder(_SLUG, "sizes", at, height=320)],
                        className="ck-column",
                    ),
                    placeholder(_SLUG, "exposed", at, height=300),
                ],
                className="ck-columns",
                style={"marginTop": "14px"},
            ),
        ],
        className="ck-run-section",
    )


def _facts(trace: Trace, result: Collectives) -> Component:
    known = result.exposed_ns >= 0
    exposed, total = int(result.exposed_ns[known].sum()), int(result.total_ns[known].sum())
    cells = [
        ("Collectives", f"{int(result.count.sum()):,}"),
        ("Their time, summed", duration(int(result.total_ns.sum()))),
        ("Exposed", f"{duration(exposed)} ({share(exposed, total)})" if known.any() else "not known: on the host"),
        ("Hardware", _hardware(trace, result)),
    ]
    if result.missing:
        words = "; ".join(f"{reason} ({number:,})" for reason, number in result.missing.items())
        cells.append(("No bus bandwidth", words))
    return html.Dl([html.Div([html.Dt(name), html.Dd(text)]) for name, text in cells], className="ck-fact-row")


def _hardware(trace: Trace, result: Collectives) -> str:
    if result.device is not None:
        return result.device.name
    named = plain(trace.meta.hardware, 60)
    return f"{named}: not in the catalogue" if named else "not recorded"


def _group(trace: Trace, result: Collectives, at: int) -> str:
    group = int(result.group[at])
    if group < 0:
        return "not stated"
    known = trace.meta.groups[group]
    return plain(f"{known.name} ({known.description})" if known.description else known.name, 80)


def _label(result: Collectives, at: int) -> str:
    sized = size(int(result.bytes[at])) if result.bytes[at] >= 0 else "size unknown"
    return " ".join(part for part in (result.label(at), sized, result.dtype[at]) if part)


def _number(value: float, factor: float = 1.0, digits: int = 3) -> float | None:
    return round(float(value) / factor, digits) if np.isfinite(value) else None


def _table(trace: Trace, result: Collectives, at: int, rank: int, theme: str) -> tuple[Component, str, list[Component]]:
    order = np.argsort(result.of, kind="stable")
    bounds = np.r_[0, np.cumsum(result.count)]
    rows: list[dict[str, Any]] = []
    for one in range(min(len(result), _ROWS)):
        exposed = int(result.exposed_ns[one])
        rows.append(
            {
                "op": result.label(one), "group": _group(trace, result, one),
                "members": int(result.members[one]) if result.members[one] > 0 else None,
                "bytes": int(result.bytes[one]) if result.bytes[one] >= 0 else None, "dtype": result.dtype[one],
                "count": int(result.count[one]), "total_ns": int(result.total_ns[one]),
                "mean_ns": round(float(result.mean_ns[one])), "min_ns": int(result.min_ns[one]),
                "exposed_ns": exposed if exposed >= 0 else None,
                "algbw": _number(result.algbw[one], 1e9), "busbw": _number(result.busbw[one], 1e9),
                "best": _number(result.best_busbw[one], 1e9),
                "link": _number(result.best_busbw[one] / result.link[one], 1, 4),
                "run": at, "rank": rank, "row": int(result.longest[one]),
                "nodes": rows_text(at, rank, result.rows[order[bounds[one] : bounds[one + 1]]].tolist()),
            }
        )  # fmt: skip
    most, total = int(result.max_ns.max()), int(result.total_ns.max())
    columns = [
        text_column("op", "Operation", flex=1.4, minWidth=100), text_column("group", "Group", flex=1.2, minWidth=76),
        count_column("members", "Ranks", adds=False, minWidth=62), count_column("bytes", "Bytes", adds=False, minWidth=104),
        text_column("dtype", "Type", flex=0.7, minWidth=56), count_column("count", "Count", minWidth=64),
        time_column("total_ns", "Total", total, minWidth=84), time_column("exposed_ns", "Exposed", total, minWidth=100),
        time_column("mean_ns", "Mean", most, adds=False, minWidth=84),
        time_column("min_ns", "Least", most, adds=False, minWidth=84),
        number_column("algbw", "algbw", minWidth=72), number_column("busbw", "busbw", minWidth=72),
        number_column("best", "best busbw", minWidth=102), number_column("link", "of links", share=True, minWidth=80),
    ]  # fmt: skip
    grid, tools = linked("collectives", columns, rows, theme, at=at, groups={"op": "operation", "group": "group"})
    cut = f"the first {_ROWS} of {len(result):,}; " if len(result) > _ROWS else ""
    return (
        grid,
        f"{cut}GB/s at the mean time; best: at the shortest, held against the links; a row selects its nodes",
        tools,
    )


def _bandwidth(context: Context, at: int) -> Component:
    _, _, result = _found(context, at)
    title = "Bus bandwidth by message size"
    if not np.isfinite(result.busbw).any():
        words = "; ".join(f"{reason} ({number:,})" for reason, number in result.missing.items()) or result.reason
        return card(title, html.P(f"No bus bandwidth can be given: {words}.", className="ck-hint"))
    ceiling = "dashed: links of the hardware" if np.isfinite(result.link).any() else "the links' bandwidth is not known"
    note = f"filled at the mean time, open at the shortest; {ceiling}"
    return card(title, figure_of(bandwidth_scatter(result, context.state.theme)), note)


def _exposed(context: Context, at: int) -> Component:
    _, _, result = _found(context, at)
    title = "Exposed and hidden time"
    known = [one for one in range(len(result)) if result.exposed_ns[one] >= 0 and result.total_ns[one] > 0][:_BARS]
    if not known:
        words = "The communication runs on the host: nothing tells which compute it hides behind."
        return card(title, html.P(words if len(result) else "There is nothing.", className="ck-hint"))
    labels = [_label(result, one) for one in known]
    exposed, total = ([int(part[one]) for one in known] for part in (result.exposed_ns, result.total_ns))
    note = f"the first {_BARS} of {count(len(result), 'class', 'classes')}" if len(result) > _BARS else ""
    return card(title, figure_of(exposed_bars(labels, exposed, total, context.state.theme)), note)


def _sizes(context: Context, at: int) -> Component:
    _, _, result = _found(context, at)
    bins = message_sizes(result)
    unsized = int(result.count[result.bytes < 0].sum())
    left = f"{count(unsized, 'message')} of unknown size left out" if unsized else ""
    if not bins:
        return card("Message sizes", html.P("The trace states the size of no message.", className="ck-hint"))
    return card("Message sizes", figure_of(size_histogram(bins, context.state.theme)), left)


def register(app: Dash, library: Library) -> None:
    """Nothing to connect: the shell connects tables and parts."""
    del app, library


def _prepare(loaded: LoadedRun) -> None:
    run: Run = loaded.run
    _result(loaded, run.ranks[0], Scope())


PAGE = Page(
    _SLUG, "Collectives", "collectives", layout, register, section="Analyse", scoped=True, prepare=_prepare,
    later={"bandwidth": _bandwidth, "exposed": _exposed, "sizes": _sizes},
)  # fmt: skip
