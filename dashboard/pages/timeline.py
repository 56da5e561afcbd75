"""Timeline: every lane of every rank on one time axis, with nested stacks, arrows and the sums of any range."""

from __future__ import annotations

from dash import Dash, html
from dash.development.base_component import Component

from dashboard.library import Library
from dashboard.page import Context, Page
from dashboard.timeline_api import register_routes
from dashboard.timeline_component import follow_stores, store, timeline
from dashboard.timeline_data import rows_of

__all__ = ["PAGE"]

_SLUG = "timeline"


def _shown(context: Context) -> int:
    """Which of the view's runs: that of the selection, else the first."""
    selection = context.state.selection
    return selection.run if selection and selection.run < len(context.runs) else 0


def _layout(context: Context) -> Component:
    at = _shown(context)
    several = len(context.runs) > 1
    shown = range(len(context.runs)) if several else (at,)
    parts = [
        timeline(
            f"{_SLUG}-main-{one}",
            context.runs[one].ref,
            one,
            group=_SLUG if several else "",
            title=f"{chr(65 + one)}  {context.runs[one].run.label}" if several else "",
        )
        for one in list(shown)[:3]
    ]
    return html.Div([*parts, store(_SLUG)], className="ck-timelines")


def _register(app: Dash, library: Library) -> None:
    register_routes(app.server, library)
    follow_stores(app, _SLUG)


PAGE = Page(_SLUG, "Timeline", "timeline", _layout, _register, section="View", prepare=rows_of)
