"""Figures of collectives: bus bandwidth by message size under the links' ceiling, message sizes, what is exposed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from chakra_core.analysis.collectives import Collectives, SizeBin
from chakra_core.schema import CommOp
from dashboard.figures.bars import empty_figure, grouped_bars, show_ns
from dashboard.theme import RUN_COLOURS, TIME_COLOURS, TONES, template
from dashboard.words import count, size

__all__ = ["bandwidth_scatter", "exposed_bars", "size_histogram"]

_GIGA = 1e9
_MOST_POINTS = 1_000


def bandwidth_scatter(result: Collectives, theme: str = "light") -> go.Figure:
    """Bus bandwidth over message size, both logarithmic: a mark per class at its mean time, a ring at its shortest."""
    known = np.flatnonzero(np.isfinite(result.busbw) & (result.bytes > 0))[:_MOST_POINTS]
    if not len(known):
        return empty_figure("no collective has a size, a group and a time", theme)
    figure = go.Figure()
    for at, op in enumerate(np.unique(result.op[known]).tolist()):
        mine = known[result.op[known] == op]
        colour, label = RUN_COLOURS[at % len(RUN_COLOURS)], CommOp(op).label
        words = [
            (size(result.bytes[one]), count(int(result.count[one]), "call"), show_ns(value))
            for one, value in zip(mine.tolist(), result.mean_ns[mine].tolist(), strict=True)
        ]
        for best in (False, True):
            figure.add_scatter(
                x=result.bytes[mine],
                y=(result.best_busbw if best else result.busbw)[mine] / _GIGA,
                mode="markers",
                name=label,
                legendgroup=label,
                showlegend=not best,
                marker={
                    "size": 9, "color": colour, "symbol": "circle-open" if best else "circle",
                    "line": {"width": 1.4, "color": colour},
                },
                customdata=words,
                hovertemplate=f"{label}, %{{customdata[0]}}<br>%{{y:.3g}} GB/s in the "
                + ("shortest of %{customdata[1]}" if best else "mean of %{customdata[1]} (%{customdata[2]})")
                + "<extra></extra>",
            )  # fmt: skip
    ticks = _powers(result.bytes[known].min(), result.bytes[known].max())
    _ceilings(figure, result, ticks, theme)
    rates = np.concatenate([result.busbw[known], result.best_busbw[known], result.link[np.isfinite(result.link)]])
    levels = _powers(rates.min() / _GIGA, rates.max() / _GIGA)
    figure.update_layout(template=template(theme), height=330, margin={"l": 8, "r": 12, "t": 34, "b": 8})
    figure.update_xaxes(
        type="log", title_text="message size", tickvals=ticks, ticktext=[size(value) for value in ticks], tickangle=0,
        range=_range(ticks),
    )  # fmt: skip
    figure.update_yaxes(
        type="log", title_text="bus bandwidth (GB/s)", tickvals=levels, ticktext=[f"{value:,.10g}" for value in levels],
        range=_range(levels),
    )  # fmt: skip
    return figure


def _ceilings(figure: go.Figure, result: Collectives, ticks: Sequence[float], theme: str) -> None:
    for value in np.unique(result.link[np.isfinite(result.link)]).tolist():
        figure.add_scatter(
            x=[ticks[0], ticks[-1]], y=[value / _GIGA] * 2, mode="lines", hoverinfo="skip",
            name=f"links: {value / _GIGA:,.0f} GB/s",
            line={"dash": "dash", "width": 1.4, "color": TONES[theme]["bad"]},
        )  # fmt: skip


def _powers(low: float, high: float) -> list[float]:
    """Powers of ten around a range: two at least, eight at most."""
    first, last = int(np.floor(np.log10(low))), int(np.ceil(np.log10(high)))
    step = max(1, -(-(last - first) // 6))
    count_of = max(-(-(last - first) // step), 1)
    return [10.0 ** (first + at * step) for at in range(count_of + 1)]


def _range(ticks: Sequence[float]) -> list[float]:
    return [float(np.log10(ticks[0])) - 0.1, float(np.log10(ticks[-1])) + 0.1]


def size_histogram(bins: Sequence[SizeBin], theme: str = "light") -> go.Figure:
    """Messages by size, in powers of two."""
    if not bins:
        return empty_figure("no message has a known size", theme)
    labels = [f"{size(one.low)} to {size(one.high)}" for one in bins]
    figure = go.Figure(
        go.Bar(
            x=list(range(len(bins))),
            y=[one.count for one in bins],
            marker={"color": TIME_COLOURS["exposed_comm"]},
            customdata=[
                (label, count(one.count, "message"), show_ns(one.total_ns))
                for label, one in zip(labels, bins, strict=True)
            ],
            hovertemplate="%{customdata[0]}<br>%{customdata[1]}, %{customdata[2]} in all<extra></extra>",
        )
    )
    step = max(1, -(-len(bins) // 6))
    at = list(range(0, len(bins), step))
    figure.update_layout(
        template=template(theme), height=250, bargap=0.12, margin={"l": 8, "r": 12, "t": 12, "b": 8}, showlegend=False
    )
    figure.update_xaxes(
        title_text="message size, from", showgrid=False, tickangle=0, tickvals=at,
        ticktext=[size(bins[one].low) for one in at], range=[-0.6, max(len(bins), 4) - 0.4],
    )  # fmt: skip
    figure.update_yaxes(title_text="messages", rangemode="tozero")
    return figure


def exposed_bars(labels: Sequence[str], exposed_ns: Sequence[int], total_ns: Sequence[int], theme: str) -> go.Figure:
    """For each class of collectives: the time that compute hides, and the time that it does not."""
    hidden = [total - bare for total, bare in zip(total_ns, exposed_ns, strict=True)]
    colours = (TIME_COLOURS["exposed_comm"], TIME_COLOURS["overlap"])
    figure = grouped_bars(labels, {"exposed": list(exposed_ns), "hidden by compute": hidden}, theme, colours=colours)
    figure.update_layout(barmode="stack", height=84 + 26 * max(len(labels), 2))
    return figure
