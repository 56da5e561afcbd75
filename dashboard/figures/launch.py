"""Figures of launches: how long device work waits for its start, and how many launches are outstanding."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from dashboard.figures.bars import empty_figure, show_ns, time_unit
from dashboard.theme import RUN_COLOURS, TONES, template

__all__ = ["delay_histogram", "queue_figure", "thin"]

I64 = NDArray[np.int64]

_BINS = 40
_POINTS = 1_500


def delay_histogram(delay_ns: I64, theme: str = "light") -> go.Figure:
    """Launches by delay, on a logarithmic axis; launches without a delay apart."""
    if not len(delay_ns):
        return empty_figure("no launch is known", theme)
    late = delay_ns[delay_ns > 0]
    edges = np.unique(np.rint(np.geomspace(1, max(int(delay_ns.max()), 10) * 1.0001, _BINS + 1)))
    which = np.clip(np.searchsorted(edges, late, side="right") - 1, 0, len(edges) - 2)
    counts = np.r_[(delay_ns == 0).sum(), np.bincount(which, minlength=len(edges) - 1)]
    labels = ["none", *(f"{show_ns(low)} to {show_ns(high)}" for low, high in itertools.pairwise(edges))]
    step = max(1, len(edges) // 6)
    ticks = list(range(step, len(edges), step))
    figure = go.Figure(
        go.Bar(
            x=list(range(len(counts))),
            y=counts,
            marker={"color": [TONES[theme]["muted"], *[TONES[theme]["accent"]] * (len(counts) - 1)]},
            customdata=[(label, f"{int(n):,}") for label, n in zip(labels, counts, strict=True)],
            hovertemplate="delay %{customdata[0]}<br>%{customdata[1]} launches<extra></extra>",
        )
    )
    figure.update_layout(template=template(theme), height=250, bargap=0.12, margin={"l": 8, "r": 12, "t": 12, "b": 8})
    figure.update_xaxes(
        title_text="from the end of the call to the start of the work", showgrid=False, tickangle=0,
        tickvals=[0, *ticks], ticktext=["none", *(show_ns(float(edges[at - 1])) for at in ticks)],
    )  # fmt: skip
    figure.update_yaxes(title_text="launches")
    return figure


def thin(time_ns: I64, length: I64, most: int = _POINTS) -> tuple[I64, I64]:
    """A step function with at most about ``most`` steps that keeps the greatest and least value of each stretch."""
    if len(time_ns) <= most:
        return time_ns, length
    bounds = np.linspace(0, len(time_ns), most // 2 + 1).astype(np.int64)
    kept = []
    for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        part = length[low:high]
        kept += [low + int(np.argmax(part)), low + int(np.argmin(part))]
    places = np.unique(np.array(kept, np.int64))
    return time_ns[places], length[places]


def queue_figure(streams: Sequence[tuple[str, I64, I64]], theme: str = "light", *, origin_ns: int = 0) -> go.Figure:
    """Queue length over time; each stream is (label, times, lengths), most important first."""
    if not any(len(time) for _, time, _ in streams):
        return empty_figure("no launch is known", theme)
    size, unit = time_unit(max(int(time[-1]) - origin_ns for _, time, _ in streams if len(time)))
    figure = go.Figure()
    for at, (label, time, length) in enumerate(streams):
        if not len(time):
            continue
        shown, values = thin(time, length)
        figure.add_scatter(
            x=(shown - origin_ns) / size,
            y=values,
            mode="lines",
            line={"shape": "hv", "width": 1.3, "color": RUN_COLOURS[at % len(RUN_COLOURS)]},
            name=label,
            hovertemplate=f"%{{y}} queued at %{{x:.4f}} {unit}<extra></extra>",
        )
    figure.update_layout(
        template=template(theme), height=260, margin={"l": 8, "r": 12, "t": 34, "b": 8}, showlegend=len(streams) > 1
    )
    figure.update_xaxes(title_text=f"time ({unit})")
    figure.update_yaxes(title_text="launched, not started", rangemode="tozero")
    return figure
