"""Time by category as bars in the categories' own colours."""

from __future__ import annotations

from collections.abc import Mapping

import plotly.graph_objects as go

from chakra_core.schema import Category
from dashboard.figures.bars import row_height, show_ns, time_unit
from dashboard.theme import category_colour, template

__all__ = ["category_bars"]


def category_bars(totals: Mapping[Category, int], theme: str = "light") -> go.Figure:
    """Horizontal bars, longest first; ``totals`` are ns per category."""
    ordered = sorted(((category, total) for category, total in totals.items() if total), key=lambda pair: pair[1])
    factor, unit = time_unit(max((total for _, total in ordered), default=0))
    whole = sum(total for _, total in ordered) or 1
    figure = go.Figure(
        go.Bar(
            x=[total / factor for _, total in ordered],
            y=[category.label for category, _ in ordered],
            orientation="h",
            marker={"color": [category_colour(category) for category, _ in ordered]},
            text=[f"{show_ns(total)} · {100 * total / whole:.1f} %" for _, total in ordered],
            textposition="auto",
            insidetextanchor="start",
            hoverinfo="skip",
            cliponaxis=False,
        )
    )
    figure.update_layout(
        template=template(theme),
        height=row_height(len(ordered)),
        showlegend=False,
        xaxis={"title": {"text": unit}, "fixedrange": True},
        yaxis={"fixedrange": True, "ticklabelstandoff": 6},
        margin={"l": 8, "r": 24, "t": 8, "b": 8},
    )
    return figure
