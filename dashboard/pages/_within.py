"""Results within the scope that the shell holds, and the head of pages that show one rank."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from dash import State, html
from dash.development.base_component import Component

from chakra_core.analysis.scope import WHOLE, Scope
from chakra_core.trace import Run
from dashboard.library import LoadedRun
from dashboard.scopes import ScopeChoice, scope_of
from dashboard.state import Ids, Selection
from dashboard.words import plain

__all__ = ["SCOPED", "first_rank", "heading", "scope_from", "within"]

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


def first_rank(run: Run, scope: Scope) -> int:
    """The first rank in the scope, or the first of all where it holds none."""
    return next((rank for rank in run.ranks if scope.has_rank(rank)), run.ranks[0])


def heading(run: Run, rank: int, title: str) -> list[Component]:
    """What a page shows of one rank: title, run, which rank, and where its times come from."""
    which = f"rank {rank} of {len(run.traces):,} (another: Ranks, under Scope)" if len(run.traces) > 1 else ""
    kind = html.Span(str(run.time_kind), className=f"ck-badge ck-{run.time_kind}")
    words = ", ".join(part for part in (plain(run.label, 200), which) if part)
    return [
        html.Div([html.H1(title), kind], className="ck-heading"),
        html.P(words, className="ck-lead"),
        *[html.P(text, className="ck-assumption") for text in run.assumptions],
    ]
