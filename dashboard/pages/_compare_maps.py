"""What the Compare page shows twice: two timelines with one window, two bottleneck heatmaps with one colour scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dash_mantine_components as dmc
import numpy as np
import plotly.graph_objects as go
from dash import html
from dash.development.base_component import Component

from chakra_core.analysis.bottleneck import METRICS, Heatmap
from dashboard.figures.bars import empty_figure, time_unit
from dashboard.figures.heatmap import difference_figure, heatmap_figure
from dashboard.library import LoadedRun
from dashboard.pages._compare_view import graph, letter, panel
from dashboard.pages.bottlenecks import heatmap_of
from dashboard.timeline_component import timeline
from dashboard.words import plain

__all__ = ["clicked_cell", "difference", "heatmaps", "maps_panel", "metric_of", "timelines"]

_BINS = 120


def metric_of(params: Mapping[str, str] | None) -> str:
    """The metric in the parameters; the score where there is none or no such."""
    metric = str((params or {}).get("metric", "score"))
    return metric if metric in METRICS else "score"


def _map_of(loaded: LoadedRun) -> Heatmap:
    return heatmap_of(loaded, "ranks", _BINS)


def heatmaps(runs: Sequence[LoadedRun], chosen: tuple[int, int], metric: str, theme: str) -> tuple[go.Figure, ...]:
    """One figure per chosen run, with the same colours for the same values and the same time per pixel."""
    maps = [_map_of(runs[at]) for at in chosen]
    top = max([0.01, *(float(found.metric(metric).max(initial=0.0)) for found in maps)])
    longest = max(int(found.edges_ns[-1] - found.edges_ns[0]) for found in maps)
    figures = []
    for at, found in zip(chosen, maps, strict=True):
        label = plain(runs[at].run.label, 100).replace("&", "&amp;").replace("<", "&lt;")
        figure = heatmap_figure(
            found, metric, theme, origin_ns=runs[at].run.origin_ns, top=top, title=f"{letter(at)}  {label}"
        )
        own, _ = time_unit(max(int(found.edges_ns[-1]) - runs[at].run.origin_ns, 1))
        figure.update_xaxes(range=[0, longest / own])
        figure.update_yaxes(zeroline=False)
        figure.update_layout(height=min(int(figure.layout.height), 420))
        figures.append(figure)
    return tuple(figures)


def difference(runs: Sequence[LoadedRun], chosen: tuple[int, int], metric: str, theme: str) -> go.Figure:
    """The second run's heatmap less the baseline's, by the share of each run that has passed."""
    base, other = chosen
    title = f"{letter(other)} less {letter(base)}: red where {letter(other)} loses more"
    figure = difference_figure(_map_of(runs[base]), _map_of(runs[other]), metric, theme, title=title)
    return (
        empty_figure("The two runs have no rank in common to take a difference of.", theme)
        if figure is None
        else figure
    )


def maps_panel(
    runs: Sequence[LoadedRun], chosen: tuple[int, int], params: Mapping[str, str] | None, theme: str, ids: Sequence[str]
) -> Component:
    """The panel; ``ids`` are those of the metric's select, of the two graphs and of their difference."""
    metric = metric_of(params)
    select = dmc.Select(
        id=ids[0], value=metric, allowDeselect=False, size="xs", w=210,
        data=[{"value": name, "label": words} for name, words in METRICS.items()],
    )  # fmt: skip
    figures = (*heatmaps(runs, chosen, metric, theme), difference(runs, chosen, metric, theme))
    about = "One colour scale and one length of the time axis. A click shows the cell in both timelines."
    return panel(
        "Where time is lost",
        html.P(about, className="ck-hint"),
        *(graph(name, figure) for name, figure in zip(ids[1:], figures, strict=True)),
        note=select,
    )


def timelines(runs: Sequence[LoadedRun], chosen: tuple[int, int]) -> list[Component]:
    """The timelines of the chosen runs, one above the other; whichever is moved, both show the same window."""
    return [
        timeline(
            f"compare-timeline-{at}", runs[at].ref, at, group="compare",
            title=f"{letter(at)}  {plain(runs[at].run.label, 60)}",
        )
        for at in chosen
    ]  # fmt: skip


def clicked_cell(loaded: LoadedRun, at: int, clicked: Mapping[str, Any]) -> tuple[list[int], dict[str, int] | None]:
    """Window (relative to the run's start) of a clicked cell, and the selection of what ran most in it."""
    found = _map_of(loaded)
    point, origin = clicked["points"][0], loaded.run.origin_ns
    factor, _ = time_unit(max(int(found.edges_ns[-1]) - origin, 1))
    at_ns = origin + int(float(point["x"]) * factor)  # the figure's x are the middles of the bins, in its unit
    column = int(np.searchsorted(found.edges_ns, at_ns, side="right")) - 1
    row = min(max(int(point["y"]), 0), found.shape[0] - 1)
    column = min(max(column, 0), found.shape[1] - 1)
    window = [int(found.edges_ns[column]) - origin, int(found.edges_ns[column + 1]) - origin]
    top = int(found.top_row[row, column])
    return window, None if top < 0 else {"run": at, "rank": found.ranks[row], "row": top}
