"""Parts of a page that are drawn after its first picture: what is below the fold, or takes long.

A layout puts a ``placeholder`` where the part will be, and the page names the function that makes it in
``Page.later``; the browser asks for it once the placeholder is there.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from dash import MATCH, Dash, Input, Output, State, html
from dash.development.base_component import Component

from chakra_core.errors import ChakraError
from dashboard.library import Library
from dashboard.page import Context, Page
from dashboard.state import Ids, ViewState

__all__ = ["parts", "placeholder", "register"]

_LOG = logging.getLogger(__name__)
_KIND = "later"


def placeholder(page: str, part: str, at: int = 0, *, height: int = 200) -> Component:
    """Stands where ``Page.later[part]`` will be; ``height`` (px) is kept free until then, so that nothing jumps."""
    waiting = html.Div(className="ck-later", style={"minHeight": f"{height}px"}, **{"aria-busy": "true"})
    return html.Div(waiting, id={"kind": _KIND, "page": page, "part": part, "at": at})


def parts(page: Page, context: Context) -> list[Component]:
    """Every part that the page draws later, for every run, as the browser would ask for them."""
    return [make(context, at) for make in page.later.values() for at in range(len(context.runs))]


def register(app: Dash, library: Library, pages: Sequence[Page]) -> None:
    """Fill every placeholder of the pages."""
    made = {(page.slug, name): make for page in pages for name, make in page.later.items()}

    def fill(placed: Mapping[str, Any], *stores: Any) -> Component:
        make = made[placed["page"], placed["part"]]
        state = ViewState.from_stores(*stores)
        try:
            runs = tuple(library.get(ref) for ref in state.runs)
            return make(Context(library, runs, state), int(placed["at"]))
        except ChakraError as error:
            return _broken(str(error))
        except Exception as error:  # noqa: BLE001 - a part may fail in any way; it must not take the page with it
            _LOG.exception("%s of page %s failed", placed["part"], placed["page"])
            return _broken(f"{type(error).__name__}: {error}")

    placed = {"kind": _KIND, "page": MATCH, "part": MATCH, "at": MATCH}
    app.callback(Output(placed, "children"), Input(placed, "id"), *(State(name, "data") for name in Ids.VIEW))(fill)


def _broken(text: str) -> Component:
    return html.Div(html.P(text, className="ck-error"), className="ck-panel")
