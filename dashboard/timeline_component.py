"""The timeline as a component: what a page puts into its layout, and the callback that keeps it with the stores."""

from __future__ import annotations

from dash import ClientsideFunction, Dash, Input, Output, dcc, html
from dash.development.base_component import Component

from dashboard.state import Ids

__all__ = ["follow_stores", "store", "timeline"]


def timeline(component_id: str, ref: str, at: int, *, group: str = "", title: str = "") -> Component:
    """The place of one timeline; ``assets/timeline.js`` fills it.

    Args:
        component_id: id of the element.
        ref: the run's reference.
        at: the run's index in the view.
        group: timelines with the same non-empty group always show the same window.
        title: words before its toolbar, where there are several.
    """
    data = {"data-ref": ref, "data-at": str(at), "data-group": group, "data-title": title}
    return html.Div(id=component_id, className="ck-timeline", **data)


def store(page: str) -> Component:
    """The empty store that ``follow_stores`` needs in the layout of a page."""
    return dcc.Store(id=f"{page}-timeline-follow")


def follow_stores(app: Dash, page: str) -> None:
    """Make the timelines of a page follow the shell's selection, chosen nodes and window when others write them."""
    app.clientside_callback(
        ClientsideFunction("ckTimeline", "follow"),
        Output(f"{page}-timeline-follow", "data"),
        Input(Ids.SELECTION, "data"),
        Input(Ids.WINDOW, "data"),
        Input(Ids.NODES, "data"),
        prevent_initial_call=True,
    )
