"""The roofline plot: achieved FLOP/s over arithmetic intensity, under the ceilings of a device.

Both axes are logarithmic. Each precision in use has its ceiling, up to which the slope of the memory bandwidth leads.
A point is one operator with one set of inputs, its area the time spent on it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from chakra_core.analysis.flops import Work
from chakra_core.analysis.roofline import Roofline
from chakra_core.hardware import PRECISIONS
from chakra_core.schema import Category
from dashboard.figures.bars import empty_figure, show_ns
from dashboard.theme import TONES, category_colour, template

__all__ = ["MOST_POINTS", "Points", "ceilings", "points_of", "roofline_figure"]

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

MOST_POINTS = 500
"""Groups shown as a point each; the others are merged into one point per kind of work."""
_SMALLEST, _LARGEST = 6.0, 44.0
_CLOSE = 3.0
"""A ceiling that is less than so many times below another bears its words on its lower side."""
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash")


@dataclass(frozen=True, slots=True)
class Points:
    """What the plot shows; the arrays are parallel, one entry per point, most time first.

    Attributes:
        group: int64, number of the group in the result; -1 for merged ones.
        category: int64 Category codes.
        intensity: FLOP per byte.
        rate: FLOP/s.
        time_ns: int64.
        merged: groups that merged points stand for.
        flat: groups without a place on logarithmic axes: they compute nothing, move nothing, or take no time.
        flat_ns: their time.
    """

    group: I64
    category: I64
    intensity: F64
    rate: F64
    time_ns: I64
    merged: int
    flat: int
    flat_ns: int

    def __len__(self) -> int:
        return len(self.group)


def points_of(found: Roofline, most: int = MOST_POINTS) -> Points:
    """The points of a result: the ``most`` groups with most time one by one, the rest summed by kind of work."""
    placed = (found.flops > 0) & (found.moved > 0) & (found.time_ns > 0)
    groups = np.flatnonzero(placed)  # most time first already
    own, rest = groups[:most], groups[most:]
    flops, moved = (np.asarray(one, np.float64) * found.count for one in (found.flops, found.moved))
    kinds = np.unique(found.family[rest])
    members = [rest[found.family[rest] == kind] for kind in kinds]
    work = np.r_[flops[own], [flops[one].sum() for one in members]]
    time = np.r_[found.time_ns[own], np.array([found.time_ns[one].sum() for one in members], np.int64)]
    return Points(
        group=np.r_[own, np.full(len(kinds), -1, np.int64)].astype(np.int64),
        category=np.r_[found.family[own], kinds].astype(np.int64),
        intensity=work / np.r_[moved[own], [moved[one].sum() for one in members]],
        rate=work / (time * 1e-9),
        time_ns=time,
        merged=len(rest),
        flat=int((~placed).sum()),
        flat_ns=int(found.time_ns[~placed].sum()),
    )


def ceilings(found: Roofline) -> dict[str, float]:
    """Peaks in FLOP/s that the groups are held against, by the precision that the device really has; highest first.

    Empty where no device is known.
    """
    if found.device is None:
        return {}
    peaks: dict[str, float] = {}
    for family, precision in {
        (int(kind), kind_of) for kind, kind_of in zip(found.family, found.precision, strict=True)
    }:
        matrix = Work(0, 0, Category(family), precision).on_matrix_units and precision in PRECISIONS
        peak, real = found.device.peak(precision if matrix else "fp64" if precision == "fp64" else "fp32")
        peaks[real] = peak
    return dict(sorted(peaks.items(), key=lambda pair: -pair[1]))


def roofline_figure(found: Roofline, theme: str = "light", *, codes: dict[str, int] | None = None) -> go.Figure:
    """The plot. Points bear ``customdata`` ``[row of the longest call, code of the name, words …]``; merged ones -1."""
    points = points_of(found)
    if not len(points):
        return empty_figure("no operator with known FLOPs and bytes takes time", theme)
    figure = go.Figure()
    low, high = _span(points, found)
    _add_ceilings(figure, found, low, high, theme)
    share = points.time_ns / max(int(points.time_ns.max()), 1)
    size = np.maximum(_LARGEST * np.sqrt(share), _SMALLEST)
    for kind in dict.fromkeys(points.category.tolist()):
        mine = np.flatnonzero(points.category == kind)
        figure.add_scatter(
            x=points.intensity[mine],
            y=points.rate[mine] / 1e12,
            mode="markers",
            name=Category(kind).label,
            marker={
                "size": size[mine], "color": category_colour(kind), "opacity": 0.72,
                "line": {"width": 1, "color": TONES[theme]["paper"]},
            },
            customdata=[_said(found, points, at, codes or {}) for at in mine.tolist()],
            hovertemplate="%{customdata[2]}<br>%{y:.4~g} TFLOP/s at %{x:.4~g} FLOP/B%{customdata[3]}<extra></extra>",
        )  # fmt: skip
    _style(figure, points, found, (low, high), theme)
    return figure


def _said(found: Roofline, points: Points, at: int, codes: dict[str, int]) -> list[object]:
    group, took = int(points.group[at]), show_ns(int(points.time_ns[at]))
    if group < 0:
        return [-1, -1, f"all others of this kind, {took}", ""]
    name, shapes = found.names[group], found.shapes[group]
    head = name if len(name) <= 60 else f"{name[:59]}…"
    inputs = shapes if len(shapes) <= 70 else f"{shapes[:69]}…"
    lines = [f"{head} \N{MULTIPLICATION SIGN}{int(found.count[group]):,}, {took}", inputs, found.precision[group]]
    bound = ""
    if found.device is not None:
        word = "compute" if found.compute_bound[group] else "memory"
        bound = f"<br>{100 * float(found.share[group]):.1f} % of attainable, bound by {word}"
    text = "<br>".join(line.replace("<", "&lt;") for line in lines if line)
    return [int(found.longest[group]), codes.get(name, -1), text, bound]


def _span(points: Points, found: Roofline) -> tuple[float, float]:
    """Range of intensities: all points, and the ridges of all ceilings."""
    low, high = float(points.intensity.min()), float(points.intensity.max())
    if found.device is not None:
        ridges = [peak / found.device.memory_bandwidth for peak in ceilings(found).values()]
        low, high = min(low, *ridges), max(high, *ridges)
    return low / 3, high * 6


def _add_ceilings(figure: go.Figure, found: Roofline, low: float, high: float, theme: str) -> None:
    """The slope of the memory and a ceiling per precision, each with its words at its end."""
    peaks, tone = ceilings(found), TONES[theme]
    if found.device is None or not peaks:
        return
    bandwidth = found.device.memory_bandwidth
    top = max(peaks.values())
    figure.add_scatter(
        x=[low, top / bandwidth], y=[low * bandwidth / 1e12, top / 1e12], mode="lines", showlegend=False,
        line={"color": tone["muted"], "width": 1.6}, hoverinfo="skip",
    )  # fmt: skip
    middle = float(np.sqrt(low * min(peaks.values()) / bandwidth))
    figure.add_annotation(
        x=np.log10(middle), y=np.log10(middle * bandwidth / 1e12), text=f"{bandwidth / 1e12:.3g} TB/s",
        showarrow=False, xanchor="right", yanchor="bottom", font={"color": tone["muted"], "size": 11},
    )  # fmt: skip
    above = np.inf
    for at, (precision, peak) in enumerate(peaks.items()):
        close, above = above / peak < _CLOSE, peak
        figure.add_scatter(
            x=[peak / bandwidth, high], y=[peak / 1e12] * 2, mode="lines", showlegend=False,
            line={"color": tone["muted"], "width": 1.6, "dash": _DASHES[at % len(_DASHES)]}, hoverinfo="skip",
        )  # fmt: skip
        figure.add_annotation(
            x=np.log10(high), y=np.log10(peak / 1e12), text=f"{precision} {peak / 1e12:.4g} TFLOP/s",
            showarrow=False, xanchor="right", yanchor="top" if close else "bottom", font={"color": tone["muted"], "size": 11},
        )  # fmt: skip


def _style(figure: go.Figure, points: Points, found: Roofline, span: tuple[float, float], theme: str) -> None:
    least, most = float(points.rate.min()), float(points.rate.max())
    most = max([most, *ceilings(found).values()])
    figure.update_layout(
        template=template(theme), height=470, margin={"l": 8, "r": 14, "t": 34, "b": 8}, hovermode="closest",
        legend={"itemsizing": "constant"},
    )  # fmt: skip
    figure.update_xaxes(
        type="log", title_text="arithmetic intensity (FLOP/B)", range=np.log10(span).tolist(), dtick=1,
    )  # fmt: skip
    figure.update_yaxes(
        type="log", title_text="achieved (TFLOP/s)", dtick=1, exponentformat="power",
        range=[float(np.log10(least / 1e12)) - 0.35, float(np.log10(most / 1e12)) + 0.35],
    )  # fmt: skip
