"""What a page is. Add one by writing a module that ends in ``PAGE = Page(...)`` and naming it in ``pages.PAGES``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dash import Dash
    from dash.development.base_component import Component

    from dashboard.library import Library, LoadedRun
    from dashboard.state import ViewState

__all__ = ["Context", "Page"]


@dataclass(frozen=True)
class Context:
    """What a layout may look at: the runs of the view (all of them loaded), the state of the URL, the library."""

    library: Library
    runs: tuple[LoadedRun, ...]
    state: ViewState


@dataclass(frozen=True)
class Page:
    """One page of the dashboard.

    ``layout`` is called once per visit; it should return quickly and with content (first picture in the layout where
    it is cheap). ``register`` connects the page's callbacks on the given app, never on a global. Component ids of a
    page start with its slug: use ``page.id("name")``. ``runs`` is how many runs it needs: with fewer open, the shell
    shows in its place what to open. ``section`` is the heading under which the navigation lists it; pages of one
    section stand together in ``PAGES``. ``scoped``: its numbers are for the scope (``dashboard.scopes.scope_in``); the
    shell shows the scope control above it and lays it out anew when the scope changes.
    """

    slug: str
    title: str
    icon: str
    layout: Callable[[Context], Component]
    register: Callable[[Dash, Library], Any]
    runs: int = 1
    section: str = ""
    scoped: bool = False
    prepare: Callable[[LoadedRun], object] | None = None
    later: Mapping[str, Callable[[Context, int], Component]] = field(default_factory=dict)

    def id(self, name: str) -> str:
        """Id of a component of this page."""
        return f"{self.slug}-{name}"
