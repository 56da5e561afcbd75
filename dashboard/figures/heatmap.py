"""The bottleneck heatmap as a Plotly figure; hover explains each cell in words and numbers."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from chakra_core.analysis.bottleneck import METRICS, Heatmap
from dashboard.figures.bars import time_unit
from dashboard.theme import TONES, template
from dashboard.words import duration, plain

__all__ = ["SCALES", "bin_at", "difference_figure", "heatmap_figure", "row_labels"]

SCALES: dict[str, list[list[object]]] = {
    "light": [[0.0, "#f3f6fb"], [0.25, "#f6d9a8"], [0.5, "#ee9b52"], [0.75, "#d1495b"], [1.0, "#7a1330"]],
    "dark": [[0.0, "#222a35"], [0.25, "#5c4a2b"], [0.5, "#b06a2c"], [0.75, "#dd5a63"], [1.0, "#ffb3b0"]],
}
"""Colours from nothing lost to everything lost."""

_CAUSE_WORDS = {
    "idle": "idle",
    "exposed_comm": "exposed communication",
    "exposed_memory": "exposed memory",
    "none": "nothing lost",
}
_EXPLAINED = 20_000
"""Most cells with a text of their own; larger maps have numbers in its place, a tenth of the bytes."""
_BRIEF = (
    "<b>rank %{customdata[0]}</b>, around %{x:.4~f} UNIT<br>idle %{customdata[1]} % · exposed communication %{customdata[2]} %"
    " · exposed memory %{customdata[3]} %<br>compute %{customdata[4]} % · communication %{customdata[5]} %"
    " · on the critical path %{customdata[6]} %<extra></extra>"
)
_BRIEF_PARTS = ("idle", "exposed_comm", "exposed_memory", "compute", "communication", "critical")


def row_labels(result: Heatmap) -> list[str]:
    """Labels of the rows, distinct and cut to a length that leaves room for the plot."""
    seen: dict[str, int] = {}
    labels = []
    for label in result.rows:
        short = plain(label, 200)
        short = short if len(short) <= 26 else f"{short[:14]}…{short[-10:]}"
        seen[short] = seen.get(short, 0) + 1
        labels.append(short if seen[short] == 1 else f"{short} ({seen[short]})")
    return labels


def heatmap_figure(
    result: Heatmap,
    metric: str = "score",
    theme: str = "light",
    *,
    origin_ns: int = 0,
    top: float = 1.0,
    title: str = "",
) -> go.Figure:
    """The heatmap of one metric.

    Args:
        result: the analysis.
        metric: one of ``METRICS``.
        theme: ``light`` or ``dark``.
        origin_ns: zero of the time axis (absolute ns).
        top: value of the darkest colour (share of the cell's time): the same for two heatmaps that are compared.
        title: above the plot; none by default.
    """
    values = result.metric(metric)
    brief = values.size > _EXPLAINED
    centres = (result.edges_ns[:-1] + result.edges_ns[1:]) / 2 - origin_ns
    factor, unit = _unit(result, origin_ns)
    figure = go.Figure(
        go.Heatmap(
            z=values.astype(np.float32) if brief else values,
            x=centres / factor,
            y=np.arange(len(result.rows)),
            zmin=0,
            zmax=top,
            colorscale=SCALES[theme],
            **_hover(result, origin_ns, unit, brief=brief),
            xgap=0 if values.shape[1] > 200 else 1,
            ygap=0 if values.shape[0] > 200 else 1,
            colorbar={
                "title": {"text": METRICS[metric], "side": "right", "font": {"size": 11}},
                "tickformat": ".0%",
                "thickness": 12,
                "tickfont": {"size": 10, "color": TONES[theme]["muted"]},
            },
        )
    )
    labels = row_labels(result)
    step = -(-len(labels) // 48) or 1
    figure.update_layout(
        template=template(theme),
        height=_height(len(labels)),
        title={"text": title, "font": {"size": 13}} if title else None,
        margin={"l": 8, "r": 8, "t": 34 if title else 10, "b": 8},
        xaxis={"title": {"text": f"time from start ({unit})"}, "showgrid": False},
        yaxis={
            "autorange": "reversed",
            "showgrid": False,
            "tickmode": "array",
            "tickvals": list(range(0, len(labels), step)),
            "ticktext": [_escaped(label) for label in labels[::step]],
        },
        hoverlabel={"align": "left"},
    )
    return figure


_DIVERGING: dict[str, list[list[object]]] = {
    "light": [[0.0, "#1d7d56"], [0.5, "#f3f6fb"], [1.0, "#b3263a"]],
    "dark": [[0.0, "#5cc79a"], [0.5, "#222a35"], [1.0, "#ff7a88"]],
}


def difference_figure(
    before: Heatmap, after: Heatmap, metric: str = "score", theme: str = "light", *, title: str = ""
) -> go.Figure | None:
    """The second heatmap less the first, over the ranks that both have and the share of each run that has passed.

    Both must have as many bins. Red is where the second loses more; None where no rank is in both.
    """
    ranks = [rank for rank in dict.fromkeys(before.ranks) if rank in after.ranks]
    if not ranks or before.shape[1] != after.shape[1]:
        return None
    first, second = (found.metric(metric)[[found.ranks.index(rank) for rank in ranks]] for found in (before, after))
    change = second - first
    bins = before.shape[1]
    share = (np.arange(bins) + 0.5) / bins
    texts = [
        [
            f"rank {rank}, {x:.0%} of each run<br>{a:.1%} before, {b:.1%} after"
            for x, a, b in zip(share, *pair, strict=True)
        ]
        for rank, *pair in zip(ranks, first, second, strict=True)
    ]
    top = max(0.01, float(np.abs(change).max(initial=0.0)))
    figure = go.Figure(
        go.Heatmap(
            z=change, x=share, y=np.arange(len(ranks)), zmin=-top, zmax=top, colorscale=_DIVERGING[theme],
            customdata=texts, hovertemplate="%{customdata}<extra></extra>", xgap=1, ygap=1,
            colorbar={"tickformat": "+.0%", "thickness": 12, "tickfont": {"size": 10, "color": TONES[theme]["muted"]},
                      "title": {"text": f"change of {METRICS[metric]}", "side": "right", "font": {"size": 11}}},
        )
    )  # fmt: skip
    step = max(1, -(-len(ranks) // 48))
    figure.update_layout(
        template=template(theme), height=min(_height(len(ranks)), 420), title={"text": title, "font": {"size": 13}} if title else None,
        margin={"l": 8, "r": 8, "t": 34 if title else 10, "b": 8}, hoverlabel={"align": "left"},
        xaxis={"title": {"text": "share of each run that has passed"}, "tickformat": ".0%", "showgrid": False, "range": [0, 1]},
        yaxis={"autorange": "reversed", "showgrid": False, "zeroline": False, "tickmode": "array",
               "tickvals": list(range(0, len(ranks), step)), "ticktext": [f"rank {rank}" for rank in ranks[::step]]},
    )  # fmt: skip
    return figure


def _unit(result: Heatmap, origin_ns: int) -> tuple[int, str]:
    return time_unit(max(float(result.edges_ns[-1] - origin_ns), 1.0))


def bin_at(result: Heatmap, x: float, origin_ns: int) -> int:
    """Bin of a position on the time axis, in the unit of the axis; the nearest one for positions beside it."""
    moment = x * _unit(result, origin_ns)[0] + origin_ns
    return int(np.clip(np.searchsorted(result.edges_ns, moment, side="right") - 1, 0, result.shape[1] - 1))


def _height(rows: int) -> int:
    """Pixels: rows of one rank are tall, many ranks share a screen."""
    return int(min(max(120 + 30 * rows, 220), 640))


def _escaped(text: str) -> str:
    """Text of a trace is never markup for Plotly."""
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _hover(result: Heatmap, origin_ns: int, unit: str, *, brief: bool) -> dict[str, object]:
    """What each cell says under the pointer."""
    if brief:
        return {"customdata": _shares(result), "hovertemplate": _BRIEF.replace("UNIT", unit)}
    return {"customdata": _explain(result, origin_ns), "hovertemplate": "%{customdata}<extra></extra>"}


def _shares(result: Heatmap) -> np.ndarray:
    """Rank and shares of the cell's time in percent, int16 (int32 for large ranks) of shape (rows, bins, 7)."""
    rows, bins = result.shape
    found = np.empty((rows, bins, 1 + len(_BRIEF_PARTS)), np.int16 if max(result.ranks) < 2**15 else np.int32)
    found[:, :, 0] = np.asarray(result.ranks)[:, None]
    for at, name in enumerate(_BRIEF_PARTS, 1):
        found[:, :, at] = np.rint(100 * result.parts[name] / np.diff(result.edges_ns))
    return found


def _explain(result: Heatmap, origin_ns: int) -> np.ndarray:
    """Hover text per cell: which cell, how its time divides, and what ran most."""
    rows, bins = result.shape
    texts = np.empty((rows, bins), dtype=object)
    begins = [duration(int(edge) - origin_ns) for edge in result.edges_ns]
    for bin_ in range(bins):
        width = int(result.edges_ns[bin_ + 1] - result.edges_ns[bin_])
        for row in range(rows):
            texts[row, bin_] = _cell_text(result, row, bin_, width, begins)
    return texts


def _cell_text(result: Heatmap, row: int, bin_: int, width: int, begins: list[str]) -> str:
    parts = {name: int(values[row, bin_]) for name, values in result.parts.items()}
    lost = parts["idle"] + parts["exposed_comm"] + parts["exposed_memory"]
    lines = [
        f"<b>{_escaped(plain(result.rows[row], 60))}</b>, {begins[bin_]} to {begins[bin_ + 1]}",
        f"lost {lost / width:.0%} of {duration(width)}, mostly {_CAUSE_WORDS[result.cause(row, bin_)]}",
        (
            f"idle {duration(parts['idle'])} · exposed communication {duration(parts['exposed_comm'])}"
            f" · exposed memory {duration(parts['exposed_memory'])}"
        ),
        (
            f"compute {duration(parts['compute'])} · communication {duration(parts['communication'])}"
            f" · on the critical path {parts['critical'] / width:.0%}"
        ),
    ]
    name = int(result.top_name[row, bin_])
    if name >= 0:
        lines.append(f"most time: {_escaped(plain(result.names[name], 70))}")
    return "<br>".join(lines)
