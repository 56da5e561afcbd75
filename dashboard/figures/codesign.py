"""Charts of projections: what each knob does, a sweep over one or two of them, time against cost."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from chakra_core.project.sweep import Outcome, Swing
from dashboard.figures.bars import PART_LABELS, show_ns, time_unit
from dashboard.theme import RUN_COLOURS, TIME_COLOURS, TONES, template

__all__ = ["KNOB_LABELS", "contour_figure", "pareto_figure", "sweep_figure", "tornado_figure"]

_TIMES = "\N{MULTIPLICATION SIGN}"
KNOB_LABELS: dict[str, str] = {
    "compute": "compute peak",
    "memory": "memory bandwidth",
    "link": "link bandwidth",
    "latency": "network latency",
    "launch": "launch overhead",
    "compression": "message compression",
    "data_parallel": "data-parallel ranks",
}
"""Words for the knobs."""


def tornado_figure(swings: Sequence[Swing], now: Outcome, theme: str = "light", *, factor: float = 2.0) -> go.Figure:
    """One bar per knob from the time with the knob turned down to that with it turned up; widest on top."""
    size, unit = time_unit(now.total_ns)
    labels = [KNOB_LABELS[swing.knob] for swing in swings]
    figure = go.Figure()
    for name, colour, ends in (
        (f"÷ {factor:g}", RUN_COLOURS[1], [swing.low for swing in swings]),
        (f"{_TIMES} {factor:g}", RUN_COLOURS[0], [swing.high for swing in swings]),
    ):
        deltas = [end.total_ns - now.total_ns for end in ends]
        figure.add_bar(
            orientation="h", y=labels, x=[delta / size for delta in deltas], base=now.total_ns / size, name=name,
            marker={"color": colour},
            customdata=[(show_ns(end.total_ns), show_ns(delta, signed=True)) for end, delta in zip(ends, deltas, strict=True)],
            hovertemplate=f"%{{y}} {name}: %{{customdata[0]}} (%{{customdata[1]}})<extra></extra>",
        )  # fmt: skip
    figure.add_vline(x=now.total_ns / size, line={"color": TONES[theme]["ink"], "width": 1})
    figure.update_layout(
        template=template(theme), barmode="overlay", height=80 + 34 * len(swings), bargap=0.35,
        yaxis={"autorange": "reversed"}, xaxis={"title": {"text": f"device time ({unit})"}},
    )  # fmt: skip
    return figure


def sweep_figure(outcomes: Sequence[Outcome], knob: str, theme: str = "light") -> go.Figure:
    """Device time over the values of a knob, as stacked parts of the breakdown."""
    values = [float(getattr(outcome.knobs, knob)) for outcome in outcomes]
    size, unit = time_unit(max((outcome.total_ns for outcome in outcomes), default=0))
    figure = go.Figure()
    for part, words in PART_LABELS.items():
        figure.add_scatter(
            x=values, y=[outcome.parts_ns[part] / size for outcome in outcomes], name=words, stackgroup="time",
            mode="lines+markers", line={"color": TIME_COLOURS[part], "width": 1.5}, marker={"size": 4},
            customdata=[show_ns(outcome.parts_ns[part]) for outcome in outcomes],
            hovertemplate=f"{words}: %{{customdata}}<extra></extra>",
        )  # fmt: skip
    figure.update_layout(
        template=template(theme), height=320, hovermode="x unified",
        xaxis={"title": {"text": f"{KNOB_LABELS[knob]} {_TIMES}"}, **_axis(values)},
        yaxis={"title": {"text": f"device time ({unit})"}, "rangemode": "tozero"},
    )  # fmt: skip
    return figure


def contour_figure(outcomes: Sequence[Outcome], knobs: tuple[str, str], theme: str = "light") -> go.Figure:
    """Device time over the values of two knobs; the second varies fastest in ``outcomes``."""
    first = sorted({float(getattr(outcome.knobs, knobs[0])) for outcome in outcomes})
    second = sorted({float(getattr(outcome.knobs, knobs[1])) for outcome in outcomes})
    size, unit = time_unit(max((outcome.total_ns for outcome in outcomes), default=0))
    grid = np.full((len(second), len(first)), np.nan)
    for outcome in outcomes:
        at = first.index(float(getattr(outcome.knobs, knobs[0])))
        grid[second.index(float(getattr(outcome.knobs, knobs[1]))), at] = outcome.total_ns / size
    scale = "Viridis_r" if theme == "light" else "Viridis"
    figure = go.Figure(
        go.Contour(
            z=grid, x=first, y=second, colorscale=scale, contours={"showlabels": True, "labelfont": {"size": 11, "color": "white"}},
            colorbar={"title": {"text": unit, "side": "top"}, "thickness": 12},
            hovertemplate=f"{KNOB_LABELS[knobs[0]]} {_TIMES} %{{x:.3g}}<br>{KNOB_LABELS[knobs[1]]} {_TIMES} %{{y:.3g}}<br>%{{z:.4g}} {unit}<extra></extra>",
        )
    )  # fmt: skip
    figure.update_layout(
        template=template(theme), height=340,
        xaxis={"title": {"text": f"{KNOB_LABELS[knobs[0]]} {_TIMES}"}, **_axis(first)},
        yaxis={"title": {"text": f"{KNOB_LABELS[knobs[1]]} {_TIMES}"}, **_axis(second)},
    )  # fmt: skip
    return figure


def _axis(values: Sequence[float]) -> dict[str, object]:
    """A logarithmic axis with the values themselves as ticks, thinned where they are many."""
    distinct = sorted(set(values))
    step = max(1, -(-len(distinct) // 9))
    shown = distinct[::step]
    return {"type": "log", "tickvals": shown, "ticktext": [f"{value:.3g}" for value in shown]}


def pareto_figure(
    names: Sequence[str], costs: Sequence[float], times_ns: Sequence[int], front: Sequence[int], cost_label: str, theme: str = "light"
) -> go.Figure:  # fmt: skip
    """Time of each device against what it costs; a line joins those that no other beats in both."""
    size, unit = time_unit(max(times_ns, default=0))
    best = set(front)
    tone = TONES[theme]
    figure = go.Figure()
    figure.add_scatter(
        x=[costs[at] for at in front], y=[times_ns[at] / size for at in front], mode="lines", name="not beaten in both",
        line={"color": RUN_COLOURS[0], "shape": "hv", "width": 1.5}, hoverinfo="skip",
    )  # fmt: skip
    figure.add_scatter(
        x=list(costs), y=[time / size for time in times_ns], mode="markers+text", text=list(names), textposition="top center",
        textfont={"size": 10, "color": tone["muted"]}, showlegend=False,
        marker={"size": 10, "color": [RUN_COLOURS[0] if at in best else tone["muted"] for at in range(len(names))]},
        hovertemplate=f"%{{text}}<br>{cost_label} %{{x:,.4g}}<br>%{{y:.4g}} {unit}<extra></extra>",
    )  # fmt: skip
    figure.update_layout(
        template=template(theme), height=340, xaxis={"title": {"text": cost_label}, "rangemode": "tozero"},
        yaxis={"title": {"text": f"device time ({unit})"}, "rangemode": "tozero"},
    )  # fmt: skip
    return figure
