"""How long pieces of work take: a histogram over bins that grow by the same factor, by kind of work."""

from __future__ import annotations

import itertools

import plotly.graph_objects as go

from chakra_core.analysis.kernel_shapes import Durations
from dashboard.figures.bars import empty_figure, show_ns
from dashboard.theme import category_colour, template

__all__ = ["duration_figure"]

_TICKS = 6


def duration_figure(found: Durations, theme: str = "light", *, what: str = "kernels") -> go.Figure:
    """Pieces of work by duration, stacked by category; ``what`` they are, for the axis."""
    if not found.categories:
        return empty_figure("nothing with a duration is chosen", theme)
    edges = found.edges_ns.tolist()
    labels = [f"{show_ns(low)} to {show_ns(high)}" for low, high in itertools.pairwise(edges)]
    figure = go.Figure()
    for at, category in enumerate(found.categories):
        figure.add_bar(
            x=list(range(len(labels))),
            y=found.count[at].tolist(),
            name=category.label,
            marker={"color": category_colour(category), "line": {"width": 0}},
            customdata=[
                (label, f"{count:,}", show_ns(total))
                for label, count, total in zip(
                    labels, found.count[at].tolist(), found.total_ns[at].tolist(), strict=True
                )
            ],
            hovertemplate="%{customdata[0]}<br>%{customdata[1]} " + what + ", %{customdata[2]} in all<extra></extra>",
        )
    step = max(1, -(-len(edges) // _TICKS))
    ticks = list(range(0, len(edges), step))
    figure.update_layout(
        template=template(theme), height=388, barmode="stack", bargap=0.08, showlegend=len(found.categories) > 1,
        margin={"l": 8, "r": 16, "t": 34 if len(found.categories) > 1 else 12, "b": 8},
    )  # fmt: skip
    figure.update_xaxes(
        title_text="duration (logarithmic)", showgrid=False, tickangle=0, ticklabelstandoff=6, range=[-0.7, max(len(labels), 8) - 0.3],
        tickvals=[at - 0.5 for at in ticks], ticktext=[show_ns(edges[at]) for at in ticks],
    )  # fmt: skip
    figure.update_yaxes(title_text=what, rangemode="tozero")
    return figure
