"""Launch: how long device work waits to start, how deep the queues are, and where the host cannot keep up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from dash import Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component

from chakra_core.analysis.host import host_breakdown
from chakra_core.analysis.launch import MIN_RUN, Launches, launches
from chakra_core.analysis.scope import Scope
from chakra_core.trace import Trace
from dashboard.figures.launch import delay_histogram, queue_figure
from dashboard.library import Library, LoadedRun
from dashboard.nodes import rows_text
from dashboard.page import Context, Page
from dashboard.pages._critical_view import card, figure_of
from dashboard.pages._host_view import host_card
from dashboard.pages._within import SCOPED, scope_from, within
from dashboard.scopes import scope_in
from dashboard.state import Ids
from dashboard.tables import count_column, linked, text_column, time_column
from dashboard.words import duration, plain, share

__all__ = ["PAGE"]

_STREAMS = 6
_ROWS = 300


def _choice(params: Mapping[str, Any], runs: tuple[LoadedRun, ...]) -> tuple[int, int]:
    """Run and rank as the URL states them; the first where it states nonsense."""
    shown, rank = str(params.get("show", "")), str(params.get("rank", ""))
    at = int(shown) if shown.isdecimal() and int(shown[:6]) < len(runs) else 0
    ranks = runs[at].run.ranks
    return at, int(rank) if rank.isdecimal() and len(rank) < 10 and int(rank) in ranks else ranks[0]


def layout(context: Context) -> Component:
    """The page."""
    at, rank = _choice(context.state.params, context.runs)

    def choose(label: str, name: str, options: Mapping[str, str], value: str) -> Component:
        listed = [{"label": text, "value": key} for key, text in options.items()]
        box = dcc.Dropdown(listed, value, id=PAGE.id(name), clearable=False, searchable=False, className="ck-dropdown")
        return html.Label([html.Span(label), box], style={} if len(options) > 1 else {"display": "none"})

    runs = {str(place): plain(loaded.run.label, 60) for place, loaded in enumerate(context.runs)}
    ranks = {str(one): f"rank {one}" for one in context.runs[at].run.ranks}
    return html.Div(
        [
            html.Div([html.H1("Launch")], className="ck-heading"),
            html.P(
                "A device that waits for its next launch is held up by the host. Deep queues mean that the host is ahead; "
                "empty ones that the device waits for it.",
                className="ck-lead",
            ),
            html.Div(
                [choose("Run", "run", runs, str(at)), choose("Rank", "rank", ranks, str(rank))], className="ck-controls"
            ),
            html.Div(
                _body(context.runs[at], at, rank, context.state.theme, scope_in(context.state, context.runs[at], at)),
                id=PAGE.id("body"),
                className="ck-column",
            ),
        ]
    )


def _body(loaded: LoadedRun, at: int, rank: int, theme: str, scope: Scope) -> list[Component]:
    trace = loaded.run.by_rank(rank)
    result = within(loaded, ("launches", rank), scope, lambda run: launches(run.by_rank(rank), scope))
    host = within(loaded, ("host", rank), scope, lambda run: host_breakdown(run.by_rank(rank), scope))
    if result.reason:
        words = f"There is nothing to say of launches: {result.reason}."
        return [html.P(words, className="ck-hint"), html.Div(host_card(trace, host, theme), className="ck-column")]
    streams = sorted(result.streams, key=lambda stream: -len(stream.time_ns))
    shown = [(_lane(trace, stream.lane), stream.time_ns, stream.length) for stream in streams[:_STREAMS]]
    more = f"the {_STREAMS} busiest of {len(streams)} streams" if len(streams) > _STREAMS else "per stream"
    queue = queue_figure(shown, theme, origin_ns=loaded.run.origin_ns)
    return [
        _facts(trace, result),
        card("Queue length", figure_of(queue), f"{more}; rises when a call begins, falls when its work starts"),
        html.Div(
            [
                html.Div(
                    [
                        card("Delay", figure_of(delay_histogram(result.delay_ns, theme)), "of each launch"),
                        _streams_card(trace, result, at, theme),
                    ],
                    className="ck-column",
                ),
                html.Div(
                    [
                        _bound_card(trace, result, at, rank, loaded.run.origin_ns, theme),
                        _short_card(trace, result, at, rank, theme),
                        host_card(trace, host, theme),
                    ],
                    className="ck-column",
                ),
            ],
            className="ck-columns",
        ),
    ]


def _lane(trace: Trace, lane: int) -> str:
    if lane < 0:
        return "no stream"
    known = trace.lanes[lane]
    several = len({one.device for one in trace.lanes if one.device >= 0}) > 1
    return plain(f"{known.name}, device {known.device}" if several else known.name, 60)


def _facts(trace: Trace, result: Launches) -> Component:
    delays = result.delay_ns
    middle, high = np.percentile(delays, [50, 95])
    short = result.row[result.short]
    graphs = int(result.graphs.sum())
    cells = [
        ("Launches", f"{len(result.call):,}"),
        ("Median delay", duration(float(middle))),
        ("95 % are below", duration(float(high))),
        ("Held up by the host", f"{100 * result.host_bound:.1f} % of the streams' time"),
        ("Kernels shorter than their launch", f"{len(short):,} ({share(len(short), len(result.call))})"),
    ]
    if graphs:
        cells.append(
            ("Calls that launch several", f"{graphs:,} with {int(result.work[result.graphs].sum()):,} kernels")
        )
    if result.unknown:
        cells.append(("Launch not recorded", f"{result.unknown:,} of {len(trace.device_rows):,}"))
    return html.Dl([html.Div([html.Dt(name), html.Dd(text)]) for name, text in cells], className="ck-fact-row")


def _streams_card(trace: Trace, result: Launches, at: int, theme: str) -> Component:
    rows: list[dict[str, Any]] = [
        {
            "stream": _lane(trace, stream.lane), "longest": stream.longest, "mean": round(stream.mean, 2),
            "span_ns": stream.span_ns, "host_ns": stream.host_ns, "share": round(stream.host_bound, 4),
        }
        for stream in result.streams
    ]  # fmt: skip
    columns = [
        text_column("stream", "Stream", flex=1.6, minWidth=110),
        count_column("longest", "Longest queue", adds=False),
        {"field": "mean", "headerName": "Mean queue", "type": "numericColumn", "flex": 1, "minWidth": 80},
        time_column("host_ns", "Host held up", max((row["host_ns"] for row in rows), default=1)),
        {
            "field": "share", "headerName": "Share", "type": "numericColumn", "flex": 0.8, "minWidth": 70,
            "valueFormatter": {"function": "d3.format('.1%')(params.value)"},
        },
    ]  # fmt: skip
    grid, tools = linked("launch-streams", columns, rows, theme, at=at)
    return card("Streams", grid, "held up: idle while the next launch had not begun", tools)


def _bound_card(trace: Trace, result: Launches, at: int, rank: int, origin_ns: int, theme: str) -> Component:
    if not result.launch_bound:
        words = f"No run of {MIN_RUN} kernels or more was launched one by one after the one before had ended."
        return card("Launch-bound intervals", html.P(words, className="ck-hint ck-good"))
    rows: list[dict[str, Any]] = [
        {
            "stream": _lane(trace, run.lane), "from_ns": run.start_ns - origin_ns, "took_ns": run.end_ns - run.start_ns,
            "kernels": run.kernels, "waited_ns": run.waited_ns,
            "window": [run.start_ns - origin_ns, run.end_ns - origin_ns], "run": at, "rank": rank, "row": run.row,
        }
        for run in result.launch_bound[:_ROWS]
    ]  # fmt: skip
    columns = [
        text_column("stream", "Stream", flex=1.3, minWidth=90),
        time_column("from_ns", "From", max(row["from_ns"] for row in rows), adds=False),
        time_column("took_ns", "Took", max(row["took_ns"] for row in rows)),
        count_column("kernels", "Kernels"),
        time_column("waited_ns", "Waited", max(row["waited_ns"] for row in rows)),
    ]
    grid, tools = linked("launch-bound", columns, rows, theme, at=at, groups={"stream": "stream"})
    cut = f"the first {_ROWS} of {len(result.launch_bound):,}; " if len(result.launch_bound) > _ROWS else ""
    return card("Launch-bound intervals", grid, f"{cut}a row selects its first kernel and its time range", tools)


def _short_card(trace: Trace, result: Launches, at: int, rank: int, theme: str) -> Component:
    rows_short = result.row[result.short]
    if not len(rows_short):
        return card(
            "Short kernels", html.P("No kernel is shorter than the call that launched it.", className="ck-hint ck-good")
        )
    c = trace.columns
    codes, group = np.unique(c.name[rows_short], return_inverse=True)
    calls = c.dur_ns[result.call[result.short]]
    records: list[dict[str, Any]] = []
    for at_code, code in enumerate(codes.tolist()):
        mine = group == at_code
        members = rows_short[mine]
        records.append(
            {
                "name": plain(trace.names[code], 300), "count": len(members), "kernel_ns": int(c.dur_ns[members].sum()),
                "call_ns": int(calls[mine].sum()), "run": at, "rank": rank,
                "row": int(members[np.argmax(c.dur_ns[members])]), "nodes": rows_text(at, rank, members.tolist()),
            }
        )  # fmt: skip
    records.sort(key=lambda record: -record["call_ns"])
    records = records[:_ROWS]
    largest = max(max(record["call_ns"], record["kernel_ns"]) for record in records)
    columns = [
        text_column("name", "Kernel", flex=3, minWidth=160),
        count_column("count", "Count"),
        time_column("kernel_ns", "Kernels", largest),
        time_column("call_ns", "Calls", largest),
    ]
    grid, tools = linked("launch-short", columns, records, theme, at=at)
    return card("Short kernels", grid, "shorter than the call that launched them: worth fusing or a graph", tools)


def register(app: Dash, library: Library) -> None:
    """Connect the page."""

    def change(at: str, rank: str, runs: list[str], theme: str, params: dict[str, str] | None, *scoped: Any) -> Any:
        loaded = tuple(library.get(ref) for ref in runs)
        place, number = _choice({"show": at, "rank": rank}, loaded)
        ranks = [{"label": f"rank {one}", "value": str(one)} for one in loaded[place].run.ranks]
        changed = {**(params or {}), "show": str(place), "rank": str(number)}
        return (
            _body(loaded[place], place, number, theme, scope_from(scoped, loaded[place], place)),
            ranks,
            str(number),
            changed,
        )

    app.callback(
        Output(PAGE.id("body"), "children"),
        Output(PAGE.id("rank"), "options"),
        Output(PAGE.id("rank"), "value"),
        Output(Ids.PARAMS, "data", allow_duplicate=True),
        Input(PAGE.id("run"), "value"),
        Input(PAGE.id("rank"), "value"),
        State(Ids.RUNS, "data"),
        State(Ids.THEME, "data"),
        State(Ids.PARAMS, "data"),
        *SCOPED,
        prevent_initial_call=True,
    )(change)


PAGE = Page("launch", "Launch", "launch", layout, register, section="Analyse")
