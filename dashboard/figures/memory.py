"""Figures of memory: what is allocated over time, with its peak, and the bandwidth of copies beside what the hardware gives."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from chakra_core.analysis.copies import CopyClass
from chakra_core.analysis.memory import MemoryCurve, thinned
from dashboard.figures.bars import time_unit
from dashboard.theme import RUN_COLOURS, TONES, template
from dashboard.words import duration, size

__all__ = ["MOST_POINTS", "copy_bars", "copy_label", "memory_curve"]

MOST_POINTS = 2_000
"""Points of a curve that are drawn; extremes are kept."""

_GIGA = 1e9
_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def memory_curve(curve: MemoryCurve, theme: str = "light", *, origin_ns: int = 0) -> go.Figure:
    """Allocated (filled) and reserved bytes over time as steps; the peak is marked."""
    tone = TONES[theme]
    shown = thinned(curve, MOST_POINTS)
    x = curve.time_ns[shown] - origin_ns
    largest = max(curve.peak_bytes, int(curve.reserved[shown].max()), 1)
    scale, unit = next(((factor, name) for factor, name in _UNITS if largest >= factor), (1.0, "B"))
    per, time = time_unit(float(x[-1]))
    figure = go.Figure()
    figure.add_scatter(
        x=x / per, y=curve.allocated[shown] / scale, mode="lines", name="allocated", fill="tozeroy",
        line={"shape": "hv", "width": 1.3, "color": RUN_COLOURS[0]}, fillcolor="rgba(59, 111, 212, 0.16)",
        customdata=[size(value) for value in curve.allocated[shown].tolist()],
        hovertemplate=f"%{{customdata}} allocated at %{{x:,.3f}} {time}<extra></extra>",
    )  # fmt: skip
    if (curve.reserved[shown] >= 0).all() and curve.reserved.any():
        figure.add_scatter(
            x=x / per, y=curve.reserved[shown] / scale, mode="lines", name="reserved by the allocator",
            line={"shape": "hv", "width": 1.1, "dash": "dot", "color": tone["muted"]},
            customdata=[size(value) for value in curve.reserved[shown].tolist()],
            hovertemplate=f"%{{customdata}} reserved at %{{x:,.3f}} {time}<extra></extra>",
        )  # fmt: skip
    at = curve.peak_ns - origin_ns
    figure.add_scatter(
        x=[at / per], y=[curve.peak_bytes / scale], mode="markers", name=f"peak: {size(curve.peak_bytes)}",
        marker={"size": 10, "color": tone["bad"], "symbol": "diamond"},
        hovertemplate=f"peak: {size(curve.peak_bytes)} at {duration(at)}<extra></extra>",
    )  # fmt: skip
    figure.update_layout(template=template(theme), height=280, margin={"l": 8, "r": 12, "t": 34, "b": 8})
    figure.update_xaxes(title_text=f"time ({time})")
    figure.update_yaxes(title_text=f"bytes in use ({unit})", rangemode="normal" if curve.relative else "tozero")
    return figure


def copy_label(one: CopyClass) -> str:
    """Words for a class of copies."""
    return f"{one.direction}, {one.host_memory}" if one.host_memory else one.direction


def copy_bars(found: Sequence[CopyClass], theme: str = "light") -> go.Figure:
    """Bandwidth of each class of copies as a share of the hardware's limit; in GB/s where no limit is known."""
    tone = TONES[theme]
    labels = [copy_label(one) for one in found]
    limited = any(one.limit is not None for one in found)
    rates = [(one.bandwidth or 0.0) / _GIGA for one in found]
    shares = [100 * (one.bandwidth or 0.0) / one.limit if one.limit else 0.0 for one in found]
    words = [
        f"{rate:,.4g} of {one.limit / _GIGA:,.4g} GB/s" if one.limit else f"{rate:,.4g} GB/s, limit not known"
        for rate, one in zip(rates, found, strict=True)
    ]
    drawn = shares if limited else rates
    longest = max([1e-9, *drawn])
    figure = go.Figure(
        go.Bar(
            orientation="h", y=list(range(len(found))), x=drawn, width=0.6,
            marker={"color": RUN_COLOURS[1]}, text=words, textposition=["inside" if value > 0.4 * (100 if limited else longest) else "outside" for value in drawn], insidetextanchor="start", cliponaxis=False,
            textangle=0, insidetextfont={"color": "#ffffff"}, outsidetextfont={"color": tone["ink"]},
            customdata=[
                (label, size(one.bytes), duration(one.total_ns), one.limited_by or "limit not known")
                for label, one in zip(labels, found, strict=True)
            ],
            hovertemplate="%{customdata[0]}: %{text}<br>%{customdata[1]} in %{customdata[2]}; %{customdata[3]}"
            "<extra></extra>",
        )
    )  # fmt: skip
    figure.update_layout(
        template=template(theme), height=80 + 34 * len(found), margin={"l": 8, "r": 12, "t": 8, "b": 8},
        showlegend=False,
    )  # fmt: skip
    most = max([100.0, *shares])
    title = "share of what the hardware gives (%)" if limited else "GB/s"
    figure.update_xaxes(title_text=title, rangemode="tozero", range=[0, most] if limited else None)
    figure.update_yaxes(
        tickvals=list(range(len(found))), ticktext=labels, range=[len(found) - 0.5, -0.5], showgrid=False,
        zeroline=False, ticklabelstandoff=6,
    )  # fmt: skip
    return figure
