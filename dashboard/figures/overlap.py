"""Figures of what runs at the same time on a device, and of why its streams stand still."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from chakra_core.analysis.overlap import COMBINATIONS, DeviceOverlap
from dashboard.figures.bars import empty_figure, grouped_bars, show_ns
from dashboard.theme import TIME_COLOURS, TONES, template

__all__ = ["COMBINATION_LABELS", "cause_bars", "combination_bars", "overlap_matrix"]

COMBINATION_LABELS: Mapping[str, str] = {
    "compute": "only compute",
    "comm": "only communication",
    "memory": "only memory",
    "compute_comm": "compute, communication",
    "compute_memory": "compute, memory",
    "comm_memory": "communication, memory",
    "compute_comm_memory": "all three",
}
"""Words for ``overlap.COMBINATIONS``."""

_KINDS = ("compute", "communication", "memory")
_WORDS = ("compute", "comm", "memory")
_COLOURS = {
    "compute": TIME_COLOURS["compute"], "comm": TIME_COLOURS["exposed_comm"], "memory": TIME_COLOURS["exposed_memory"],
    "compute_comm": TIME_COLOURS["overlap"], "compute_memory": "#1f9bb8", "comm_memory": "#c77dbb",
    "compute_comm_memory": "#2ba37a", "idle": TIME_COLOURS["idle"],
}  # fmt: skip
_LINE = 4
_CAUSE_COLOURS = ("#6b8cae", "#d9822b", "#b9bec6")


def overlap_matrix(parts_ns: Sequence[int], total_ns: int, theme: str = "light") -> go.Figure:
    """How long each pair of kinds of work runs at once; the diagonal is how long each runs at all.

    ``parts_ns`` are those of ``overlap.COMBINATIONS``, of one device or summed over several.
    """
    if total_ns <= 0:
        return empty_figure("the device does nothing", theme)
    sets = [frozenset(name.split("_")) for name in COMBINATIONS]
    times = [
        [sum(ns for have, ns in zip(sets, parts_ns, strict=True) if {one, two} <= have) for two in _WORDS]
        for one in _WORDS
    ]
    shares = [[100 * value / total_ns for value in row] for row in times]
    tone = TONES[theme]
    figure = go.Figure(
        go.Heatmap(
            z=shares, x=list(_KINDS), y=list(_KINDS), zmin=0, zmax=100, xgap=3, ygap=3, showscale=False,
            colorscale=[[0, tone["grid"]], [1, TIME_COLOURS["overlap"]]],
            customdata=[[show_ns(value) for value in row] for row in times],
            text=[[f"{show_ns(value)}<br>{part:.1f} %" for value, part in zip(*pair, strict=True)]
                  for pair in zip(times, shares, strict=True)],
            texttemplate="%{text}", textfont={"size": 12},
            hovertemplate="%{y} and %{x} at once: %{customdata} (%{z:.1f} % of the total)<extra></extra>",
        )
    )  # fmt: skip
    figure.update_layout(template=template(theme), height=250, margin={"l": 8, "r": 12, "t": 8, "b": 8})
    figure.update_yaxes(autorange="reversed", showgrid=False, ticklabelstandoff=6)
    figure.update_xaxes(showgrid=False, side="top")
    return figure


def combination_bars(labels: Sequence[str], found: Sequence[DeviceOverlap], theme: str = "light") -> go.Figure:
    """What runs, as disjoint parts that sum to the total, one bar per entry (device or step)."""
    series = {
        COMBINATION_LABELS[name]: [entry.parts_ns[at] for entry in found]
        for at, name in enumerate(COMBINATIONS)
        if any(entry.parts_ns[at] for entry in found)
    }
    colours = [_COLOURS[name] for at, name in enumerate(COMBINATIONS) if any(entry.parts_ns[at] for entry in found)]
    figure = grouped_bars(
        labels, {**series, "idle": [entry.idle_ns for entry in found]}, theme, colours=[*colours, _COLOURS["idle"]]
    )
    entries = len(figure.data)
    legend = 20 * (1 if entries <= _LINE else -(-entries // 2))  # in two columns where they do not fit on one line
    figure.update_layout(barmode="stack", height=110 + legend + 26 * max(len(labels), 2))
    figure.update_layout(margin={"t": 20 + legend}, legend={"maxheight": 0.9})
    return figure


def cause_bars(streams: Sequence[str], causes: Mapping[str, Sequence[int]], theme: str = "light") -> go.Figure:
    """Idle time of each stream by cause."""
    figure = grouped_bars(streams, causes, theme, colours=_CAUSE_COLOURS)
    figure.update_layout(barmode="stack", height=96 + 26 * max(len(streams), 2))
    return figure
