"""Beside a simulator: the run, its projection or ASTRA-sim's model of it, and another open run, node by node."""

from __future__ import annotations

import io
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import dash_mantine_components as dmc
from dash import Dash, Input, Output, State, dcc, html, no_update
from dash.development.base_component import Component

from chakra_core.analysis.by_id import GroupError, NodeComparison, RankError, compare_by_id
from chakra_core.errors import ChakraError
from chakra_core.hardware import get_device
from chakra_core.trace import Run
from dashboard.library import Library, LoadedRun
from dashboard.projections import Projection
from dashboard.state import Ids
from dashboard.tables import count_column, linked, text_column, time_column
from dashboard.words import plain

__all__ = ["inputs_archive", "panel", "register"]

_MOST_ROWS = 2000
_PERCENT = {"function": "params.value == null ? 'n/a' : d3.format('+.2%')(params.value)"}
_SIDES = {"projected": "the projection", "as-is": "the run as it is"}

Chooser = Callable[[Mapping[str, str] | None, Sequence[LoadedRun]], tuple[int, Projection]]


def panel(prefix: str, runs: Sequence[LoadedRun]) -> Component:
    """The panel: what stands beside what, and its tables once two runs of one workload are chosen."""
    others = [{"value": str(at), "label": plain(loaded.run.label, 60)} for at, loaded in enumerate(runs)]
    select = {"allowDeselect": False, "size": "xs", "w": 220}
    return html.Div(
        [
            html.Div(
                [
                    html.H2("Beside a simulator"),
                    html.Span("nodes of one workload meet by rank and id: error of each operator, collective and rank", className="ck-note"),
                ],
                className="ck-card-title",
            ),
            html.Div(
                [
                    dmc.Select(
                        id=f"{prefix}-beside-side", label="compare", value="projected",
                        data=[{"value": value, "label": label} for value, label in _SIDES.items()], **select,
                    ),
                    dmc.Select(id=f"{prefix}-beside-run", label="with", data=others, value=None, placeholder="an open run", **select),
                    html.Button("ASTRA-sim inputs", id=f"{prefix}-inputs", className="ck-button ck-small", n_clicks=0,
                                title="workload, system, network, memory and groups of this projection as a folder, zipped"),
                    html.Span(id=f"{prefix}-inputs-said", className="ck-note"),
                    dcc.Download(id=f"{prefix}-inputs-file"),
                ],
                className="ck-row ck-study",
            ),
            html.Div(
                html.P("Open the simulator's log of the same workload (or any run with the same node ids) and choose it here.", className="ck-hint"),
                id=f"{prefix}-beside-result",
            ),
        ],
        className="ck-panel",
    )  # fmt: skip


def register(app: Dash, library: Library, prefix: str, choose: Chooser) -> None:
    """Connect the panel."""

    def show(
        side: str, other: str | None, params: dict[str, str] | None, refs: list[str] | None, theme: str | None
    ) -> Any:
        if not refs or not (other or "").isdigit() or int(other or "0") >= len(refs):
            return no_update
        runs = [library.get(ref) for ref in refs]
        at, projection = choose(params, runs)
        try:
            first = projection.apply(runs[at].run) if side == "projected" else runs[at].run
            found = compare_by_id(first, runs[int(other or "0")].run)
        except ChakraError as error:
            return html.P(plain(str(error), 400), className="ck-hint")
        return _tables(found, int(other or "0"), theme or "light")

    app.callback(
        Output(f"{prefix}-beside-result", "children"),
        Input(f"{prefix}-beside-side", "value"),
        Input(f"{prefix}-beside-run", "value"),
        Input(Ids.PARAMS, "data"),
        State(Ids.RUNS, "data"),
        State(Ids.THEME, "data"),
        prevent_initial_call=True,
    )(show)

    def save(clicks: int | None, params: dict[str, str] | None, refs: list[str] | None) -> Any:
        if not clicks or not refs:
            return no_update, no_update
        runs = [library.get(ref) for ref in refs]
        at, projection = choose(params, runs)
        try:
            content = inputs_archive(projection.apply(runs[at].run), projection)
        except ChakraError as error:
            return no_update, plain(str(error), 200)
        return dcc.send_bytes(content, "astra-sim-inputs.zip"), "Saved; README.md in it says how to run it."

    app.callback(
        Output(f"{prefix}-inputs-file", "data"),
        Output(f"{prefix}-inputs-said", "children"),
        Input(f"{prefix}-inputs", "n_clicks"),
        State(Ids.PARAMS, "data"),
        State(Ids.RUNS, "data"),
        prevent_initial_call=True,
    )(save)


def inputs_archive(projected: Run, projection: Projection) -> bytes:
    """A zip file with everything that ASTRA-sim needs to run a projection.

    Raises:
        ChakraError: the target's links are unknown, or its ranks fill no network.
    """
    from chakra_core.project.astrasim.inputs import cluster_of, write_inputs

    traces = projected.traces
    ranks = len(traces) if len(traces) > 1 else max(traces[0].meta.world_size, 2)
    knobs = projection.knobs
    network, system = cluster_of(get_device(projection.hardware), ranks, domain=knobs.domain, algorithm=knobs.algorithm)
    content = io.BytesIO()
    with tempfile.TemporaryDirectory(prefix="chakra-inputs-") as folder:
        done = write_inputs(projected, Path(folder), network, system)
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in done.files:
                archive.write(path, f"astra-sim-inputs/{path.relative_to(folder)}")
    return content.getvalue()


def _tables(found: NodeComparison, other: int, theme: str) -> Component:
    """Errors by rank and by group; or in words why there are none."""
    if not found.share:
        return html.P(
            f"No node of {plain(found.labels[0], 80)} has the rank, id and name of one of {plain(found.labels[1], 80)}: "
            "they are not the same workload, or its nodes were numbered anew.",
            className="ck-hint",
        )
    first, second = (plain(label, 120) for label in found.labels)
    largest = max(max(rank.first_ns, rank.second_ns) for rank in found.ranks)
    ranks, rank_tools = linked(
        "codesign-ranks",
        [
            count_column("rank", "Rank", adds=False, flex=0.6),
            time_column("first", "This run ends at", largest, headerTooltip=first),
            time_column("second", "Other ends at", largest, headerTooltip=second),
            _percent_column("error", "Off by"),
            count_column("matched", "Nodes met"),
            count_column("alone", "Only in one"),
        ],
        [_rank_row(rank) for rank in found.ranks],
        theme,
    )  # fmt: skip
    groups, group_tools = _groups(found, other, theme)
    head = f"{found.share:.1%} of the nodes met. This run: {first}. Other: {second}, off by so much."
    return html.Div(
        [
            html.P(head, className="ck-hint"),
            html.Div([html.H3("Ranks"), *rank_tools], className="ck-row"), ranks,
            html.Div([html.H3("Operators and collectives"), *group_tools], className="ck-row"), groups,
        ],
        className="ck-column",
    )  # fmt: skip


def _groups(found: NodeComparison, other: int, theme: str) -> tuple[Component, list[Component]]:
    largest = max((max(one.first_ns, one.second_ns) for one in found.groups), default=0)
    worst = max((abs(one.worst_ns) for one in found.groups), default=0)
    columns = [
        text_column("name", "Name", flex=2),
        text_column("kind", "Kind", flex=1),
        count_column("count", "Nodes"),
        time_column("first", "This run", largest, headerTooltip=plain(found.labels[0], 120)),
        time_column("second", "Other", largest, headerTooltip=plain(found.labels[1], 120)),
        _percent_column("error", "Off by"),
        time_column("mean", "Mean error", worst, adds=False),
        time_column("worst", "Worst error", worst, adds=False),
    ]
    return linked(
        "codesign-nodes", columns, [_group_row(one, other) for one in found.groups[:_MOST_ROWS]], theme,
        groups={"kind": "kind"},
    )  # fmt: skip


def _percent_column(field: str, title: str) -> dict[str, Any]:
    return {
        "field": field, "headerName": title, "type": "numericColumn", "flex": 1, "minWidth": 84,
        "filter": "agNumberColumnFilter", "valueFormatter": _PERCENT,
    }  # fmt: skip


def _rank_row(one: RankError) -> dict[str, Any]:
    return {
        "rank": one.rank, "first": one.first_ns, "second": one.second_ns, "error": one.error, "matched": one.matched,
        "alone": one.only_first + one.only_second,
    }  # fmt: skip


def _group_row(one: GroupError, other: int) -> dict[str, Any]:
    """A record of the table; a click selects the node that is furthest off, in the other run."""
    rank, _, row = one.worst
    return {
        "name": plain(one.name, 200), "kind": "collective" if one.collective else "operator", "count": one.count,
        "first": one.first_ns, "second": one.second_ns, "mean": one.mean_abs_ns, "worst": one.worst_ns,
        "error": one.second_ns / one.first_ns - 1 if one.first_ns else None, "run": other, "rank": rank, "row": row,
    }  # fmt: skip
