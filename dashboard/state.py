"""What a view shows, and its one-to-one form in the URL: copying the URL reproduces the view.

In the browser the same facts live in ``dcc.Store`` components of the shell (ids in ``Ids``); a clientside function
mirrors them into the address bar. Times are int nanoseconds relative to ``Run.origin_ns`` of the first run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qsl, urlencode

__all__ = ["Ids", "Selection", "ViewState"]

_RESERVED = frozenset({"run", "node", "t", "theme", "nodes", "scope"})
_LONGEST_NODES = 1_500
"""A longer text of chosen nodes stays out of the URL."""


class Ids:
    """Component ids of the shell that pages may use as Input, State or (selection, window, params) Output."""

    URL = "url"  # changes when the browser goes back or forward; the address itself is read by state.js
    RUNS = "runs"  # list of run references (strings)
    SELECTION = "selection"  # {"run": index into runs, "rank": int, "row": int} or None
    WINDOW = "window"  # [t0_ns, t1_ns] relative to the run's origin, or None for everything
    NODES = "nodes"  # text of several chosen nodes (dashboard.nodes), or None; in the URL where it is short
    SCOPE = "scope"  # text of the scope of all analyses (dashboard.scopes), or None for the whole run
    PARAMS = "params"  # {name: str}: what else a page wants in the URL, e.g. {"metric": "idle"}
    THEME = "theme"  # "light" | "dark"
    PAGE = "page"  # slug of the page shown
    NAVIGATE = "navigate"  # write a page slug here to go to that page with the current state
    FAILED = "failed-runs"  # [[reference, message], …] of the runs that could not be opened
    CONTENT = "content"
    VIEW = (PAGE, RUNS, SELECTION, WINDOW, THEME, PARAMS, NODES, SCOPE)
    """The stores that ``ViewState.from_stores`` takes, in its order."""


@dataclass(frozen=True, slots=True)
class Selection:
    """One selected node: which of the view's runs, which rank, which row of that rank's trace."""

    run: int
    rank: int
    row: int

    @classmethod
    def from_data(cls, data: Any) -> Selection | None:
        """Read from a store's content; None where it holds no valid selection."""
        if not isinstance(data, Mapping):
            return None
        run, rank, row = (_integer(data.get(key)) for key in ("run", "rank", "row"))
        return None if run is None or rank is None or row is None else cls(run, rank, row)

    def to_data(self) -> dict[str, int]:
        """As a store holds it."""
        return {"run": self.run, "rank": self.rank, "row": self.row}


@dataclass(frozen=True, slots=True)
class ViewState:
    """Everything that decides what a page shows."""

    page: str = ""
    runs: tuple[str, ...] = ()
    selection: Selection | None = None
    window: tuple[int, int] | None = None
    theme: str = "light"
    params: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    nodes: str = ""
    scope: str = ""

    @classmethod
    def parse(cls, pathname: str, search: str) -> ViewState:
        """Read a URL; parts that make no sense are left out rather than refused.

        >>> ViewState.parse("/timeline", "?run=samples/a&node=0.3.17&t=0-250").selection
        Selection(run=0, rank=3, row=17)
        """
        pairs = parse_qsl(search.lstrip("?"), keep_blank_values=False)
        first = dict(reversed(pairs))
        return cls(
            page=pathname.strip("/").split("/")[0],
            runs=tuple(dict.fromkeys(value for key, value in pairs if key == "run")),
            selection=_selection(first.get("node", "")),
            window=_window(first.get("t", "")),
            theme="dark" if first.get("theme") == "dark" else "light",
            params=MappingProxyType({key: value for key, value in first.items() if key not in _RESERVED}),
            nodes=first.get("nodes", ""),
            scope=first.get("scope", ""),
        )

    @classmethod
    def from_stores(
        cls, page: Any, runs: Any, selection: Any, window: Any, theme: Any, params: Any, nodes: Any, scope: Any
    ) -> ViewState:
        """Read the contents of the stores ``Ids.VIEW``."""
        return cls(
            page or "", tuple(runs or ()), Selection.from_data(selection), _between(window), theme or "light",
            params or {}, nodes or "", scope or "",
        )  # fmt: skip

    def search(self) -> str:
        """The query string (with ``?``) that ``parse`` reads back to this state."""
        pairs: list[tuple[str, str]] = [("run", ref) for ref in self.runs]
        if self.selection:
            pairs.append(("node", f"{self.selection.run}.{self.selection.rank}.{self.selection.row}"))
        if self.window:
            pairs.append(("t", f"{self.window[0]}-{self.window[1]}"))
        if self.theme != "light":
            pairs.append(("theme", self.theme))
        if self.nodes and len(self.nodes) <= _LONGEST_NODES:
            pairs.append(("nodes", self.nodes))
        if self.scope:
            pairs.append(("scope", self.scope))
        pairs.extend(sorted(self.params.items()))
        return f"?{urlencode(pairs, safe='/')}" if pairs else ""


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _selection(text: str) -> Selection | None:
    parts = text.split(".")
    if len(parts) == 3 and all(part.isascii() and part.isdigit() and len(part) < 12 for part in parts):
        return Selection(*(int(part) for part in parts))
    return None


def _between(window: Any) -> tuple[int, int] | None:
    """A time window as a store holds it; None where it makes no sense."""
    if not isinstance(window, list) or len(window) != 2 or not all(isinstance(ns, int | float) for ns in window):
        return None
    first, last = int(window[0]), int(window[1])
    return (first, last) if 0 <= first < last else None


def _window(text: str) -> tuple[int, int] | None:
    first, _, second = text.partition("-")
    if all(part.isascii() and part.isdigit() and len(part) < 19 for part in (first, second)) and int(first) < int(
        second
    ):
        return int(first), int(second)
    return None
