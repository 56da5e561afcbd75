"""Figures of the critical path: what it is spent on, when, what would change, and how much room other nodes have."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from dashboard.figures.bars import empty_figure, show_ns, time_unit
from dashboard.theme import CATEGORY_COLOURS, TIME_COLOURS, TONES, template

__all__ = ["CAUSE_COLOURS", "cause_bars", "path_over_time", "slack_histogram"]

I64 = NDArray[np.int64]

CAUSE_COLOURS: dict[str, str] = {
    "host": "#6b8cae",
    "between operators": "#8fb8a8",
    "data loading": "#b3a125",
    "launch": "#9a86b8",
    "idle": TIME_COLOURS["idle"],
    "sync": "#a8763e",
    "compute": TIME_COLOURS["compute"],
    "communication": TIME_COLOURS["exposed_comm"],
    "copy": TIME_COLOURS["exposed_memory"],
    **{category.label: colour for category, colour in CATEGORY_COLOURS.items() if category.label not in ("copy", "communication")},
}  # fmt: skip
"""Colour of each cause of the measured path, and of each category of the dependency path."""

_SLACK_BINS = 40


def cause_bars(before: Mapping[str, int], theme: str = "light", after: Mapping[str, int] | None = None) -> go.Figure:
    """Time on the path by cause, most first; with ``after`` the same path with something changed, beside it."""
    causes = sorted(
        {**before, **(after or {})}, key=lambda cause: -max(before.get(cause, 0), (after or {}).get(cause, 0))
    )
    if not causes:
        return empty_figure("nothing on the path takes time", theme)
    size, unit = time_unit(max(max(before.values(), default=0), max((after or {}).values(), default=0)))
    figure = go.Figure()
    for name, values, opacity in (("as recorded", before, 1.0), ("what if", after, 0.5)):
        if values is None:
            continue
        total = sum(values.values())
        shares = [100 * values.get(cause, 0) / total if total else 0.0 for cause in causes]
        figure.add_bar(
            orientation="h",
            y=[cause.capitalize() if cause != "GEMM" else cause for cause in causes],
            x=[values.get(cause, 0) / size for cause in causes],
            name=name,
            marker={"color": [CAUSE_COLOURS.get(cause, "#8a9099") for cause in causes], "opacity": opacity},
            customdata=[
                (show_ns(values.get(cause, 0)), f"{part:.1f} %") for cause, part in zip(causes, shares, strict=True)
            ],
            hovertemplate="%{y}, " + name + ": %{customdata[0]} (%{customdata[1]})<extra></extra>",
            text=[
                f"{show_ns(values.get(cause, 0))} · {part:.1f} %" for cause, part in zip(causes, shares, strict=True)
            ],
            textposition="outside",
            cliponaxis=False,
        )
    largest = max(max(before.values(), default=0), max((after or {}).values(), default=0)) / size
    rows = len(causes) * (2 if after is not None else 1)
    figure.update_layout(
        template=template(theme), height=70 + 26 * rows, barmode="group", bargap=0.25, showlegend=after is not None,
        margin={"l": 8, "r": 12, "t": 30 if after is not None else 8, "b": 8},
    )  # fmt: skip
    figure.update_xaxes(title_text=f"time on the path ({unit})", range=[0, largest * 1.35 or 1])
    figure.update_yaxes(autorange="reversed", showgrid=False)
    return figure


def path_over_time(
    causes: Sequence[str], spent: NDArray[np.int64], edges_ns: I64, theme: str = "light", *, origin_ns: int = 0
) -> go.Figure:
    """What the path is spent on in each stretch of time.

    Args:
        causes: their names.
        spent: int64 of shape (causes, bins), ns of the path in each bin.
        edges_ns: int64 of bins + 1, absolute.
        theme: ``light`` or ``dark``.
        origin_ns: zero of the axis.
    """
    size, unit = time_unit(max(int(edges_ns[-1]) - origin_ns, 1))
    width = np.maximum(np.diff(edges_ns), 1)
    middle = (edges_ns[:-1] - origin_ns + width / 2) / size
    ends = edges_ns[:-1] - origin_ns, edges_ns[1:] - origin_ns
    figure = go.Figure()
    for at, cause in enumerate(causes):
        if not spent[at].any():
            continue
        figure.add_bar(
            x=middle,
            y=100 * spent[at] / width,
            width=width / size,
            name=cause,
            marker={"color": CAUSE_COLOURS.get(cause, "#8a9099"), "line": {"width": 0}},
            customdata=[
                (show_ns(value), begin, end)
                for value, begin, end in zip(spent[at].tolist(), *(part.tolist() for part in ends), strict=True)
            ],
            hovertemplate=f"{cause}: %{{customdata[0]}}<br>at %{{x:.3f}} {unit}<extra></extra>",
        )
    figure.update_layout(
        template=template(theme), height=210, barmode="stack", bargap=0, margin={"l": 8, "r": 12, "t": 34, "b": 8}
    )
    figure.update_layout(legend={"traceorder": "normal"})
    figure.update_xaxes(title_text=f"time ({unit})", showgrid=False)
    figure.update_yaxes(title_text="on the path (%)", range=[0, 100.5], nticks=4)
    return figure


def slack_histogram(slack_ns: I64, dur_ns: I64, theme: str = "light") -> go.Figure:
    """Nodes by slack, on a logarithmic axis: how many, and how long they take together. Nodes on the path apart."""
    known = slack_ns >= 0
    slack, dur = slack_ns[known], dur_ns[known]
    if not len(slack):
        return empty_figure("no node has a slack", theme)
    free = slack > 0
    top = max(int(slack.max(initial=1)), 10)
    edges = np.unique(np.rint(np.geomspace(1, top * 1.0001, _SLACK_BINS + 1)))
    which = np.clip(np.searchsorted(edges, slack[free], side="right") - 1, 0, len(edges) - 2)
    counts = np.bincount(which, minlength=len(edges) - 1)
    times = np.bincount(which, weights=dur[free], minlength=len(edges) - 1)
    labels = [f"{show_ns(low)} to {show_ns(high)}" for low, high in itertools.pairwise(edges)]
    labels.insert(0, "none: on the path")
    counts, times = np.r_[(~free).sum(), counts], np.r_[dur[~free].sum(), times]
    step = max(1, len(edges) // 6)
    ticks = list(range(step, len(edges), step))
    figure = go.Figure(
        go.Bar(
            x=list(range(len(counts))),
            y=counts,
            marker={"color": [TONES[theme]["accent"], *[TONES[theme]["muted"]] * (len(counts) - 1)]},
            customdata=[
                (label, f"{int(n):,}", show_ns(float(t))) for label, n, t in zip(labels, counts, times, strict=True)
            ],
            hovertemplate="slack %{customdata[0]}<br>%{customdata[1]} nodes, %{customdata[2]}<extra></extra>",
        )
    )
    figure.update_layout(template=template(theme), height=240, bargap=0.12, margin={"l": 8, "r": 12, "t": 12, "b": 8})
    figure.update_xaxes(
        title_text="slack",
        tickangle=0,
        tickvals=[0, *ticks],
        ticktext=["none", *(show_ns(float(edges[at - 1])) for at in ticks)],
        showgrid=False,
    )
    figure.update_yaxes(title_text="nodes", type="log" if counts.max() > 200 else "linear")
    return figure
