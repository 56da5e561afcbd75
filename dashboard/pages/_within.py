"""Results within the scope that the shell holds, for callbacks of pages."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from dash import State

from chakra_core.analysis.scope import WHOLE, Scope
from chakra_core.trace import Run
from dashboard.library import LoadedRun
from dashboard.scopes import ScopeChoice, scope_of
from dashboard.state import Ids, Selection

__all__ = ["SCOPED", "scope_from", "within"]

T = TypeVar("T")

SCOPED = tuple(State(name, "data") for name in (Ids.SCOPE, Ids.NODES, Ids.SELECTION))
"""What a callback must be given for ``scope_from``."""


def scope_from(scoped: Sequence[Any], loaded: LoadedRun, at: int) -> Scope:
    """The scope of the view's ``at``-th run, from the values of ``SCOPED``."""
    text, nodes, selection = scoped
    return scope_of(ScopeChoice.parse(text), loaded, at, nodes, Selection.from_data(selection))


def within(loaded: LoadedRun, key: Hashable, scope: Scope, compute: Callable[[Run], T]) -> T:
    """A result, remembered where it is that of the whole run."""
    return loaded.result(key, compute) if scope == WHOLE else compute(loaded.run)
