"""What the launching thread does: a panel of the pages Launch and Overlap."""

from __future__ import annotations

from dash import html
from dash.development.base_component import Component

from chakra_core.analysis.host import HOST_PARTS, HostBreakdown
from chakra_core.trace import Trace
from dashboard.figures.bars import grouped_bars
from dashboard.pages._critical_view import card, figure_of
from dashboard.words import duration, plain

__all__ = ["host_card"]


def host_card(trace: Trace, host: HostBreakdown, theme: str) -> Component:
    """Its time by kind, or why there is none."""
    if host.reason:
        return card(
            "What the launching thread does",
            html.P(f"{host.reason[:1].upper()}{host.reason[1:]}.", className="ck-hint"),
        )
    parts = [(name, value) for name, value in zip(HOST_PARTS, host.parts_ns, strict=True) if value]
    bars = grouped_bars([name for name, _ in parts], {"time": [value for _, value in parts]}, theme)
    bars.update_layout(showlegend=False)
    note = f"{plain(trace.lanes[host.lane].name, 60)}, {duration(host.total_ns)}"
    return card("What the launching thread does", figure_of(bars), note)
