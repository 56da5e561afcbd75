"""What part of a run an analysis looks at: a time window, and a choice of ranks, lanes and nodes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from chakra_core.schema import NO_TIME
from chakra_core.trace import Run, Trace

__all__ = ["WHOLE", "Clipped", "Scope", "clip_rows", "traces_in"]

I64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Scope:
    """A part of a run: what lies in the window, on the ranks, on the lanes and in the selection alike.

    Attributes:
        window: ``(t0_ns, t1_ns)``, absolute and half-open; None means all time.
        ranks: the ranks looked at; None means all of them.
        lanes: names of the lanes looked at, as in ``Lane.name``, on whatever rank and device; None means all.
        selection: ``(rank, row)`` of chosen nodes, with all that they called and launched; None means all nodes.
    """

    window: tuple[int, int] | None = None
    ranks: frozenset[int] | None = None
    lanes: frozenset[str] | None = None
    selection: frozenset[tuple[int, int]] | None = None

    def has_rank(self, rank: int) -> bool:
        """Whether a rank is looked at."""
        return self.ranks is None or rank in self.ranks

    @property
    def clips(self) -> bool:
        """Whether less than the whole of a trace is looked at (a window, some lanes, or some nodes)."""
        return self.window is not None or self.narrows

    @property
    def narrows(self) -> bool:
        """Whether some nodes are left out for what they are, not for when they ran."""
        return self.lanes is not None or self.selection is not None

    @property
    def timeless(self) -> Scope:
        """The same choice of ranks, lanes and nodes over all time."""
        return replace(self, window=None)


WHOLE = Scope()
"""Everything."""


@dataclass(frozen=True, slots=True)
class Clipped:
    """Rows that lie (partly) in a scope, with the part of their time inside it. The arrays are parallel int64."""

    rows: I64
    start_ns: I64
    end_ns: I64

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def dur_ns(self) -> I64:
        """Time inside the scope, int64 ns."""
        return self.end_ns - self.start_ns

    def at(self, chosen: NDArray[np.bool_] | NDArray[np.int64]) -> Clipped:
        """Some of the rows, by mask or position."""
        return Clipped(self.rows[chosen], self.start_ns[chosen], self.end_ns[chosen])


def clip_rows(trace: Trace, rows: I64, scope: Scope = WHOLE) -> Clipped:
    """Those of ``rows`` that have a start time and lie in the scope, clipped to its window; order is kept.

    A node of zero length belongs to the window that holds its start. The ranks of the scope are the caller's to
    choose (``traces_in``); its lanes and its selection are applied here.
    """
    if scope.narrows:
        rows = rows[_chosen(trace, rows, scope)]
    starts = trace.columns.start_ns[rows]
    timed = starts != NO_TIME
    rows, starts = rows[timed], starts[timed]
    ends = starts + trace.columns.dur_ns[rows]
    if scope.window is None:
        return Clipped(rows, starts, ends)
    first, last = scope.window
    inside = (starts < last) & ((ends > first) | (starts >= first))
    return Clipped(rows[inside], np.maximum(starts[inside], first), np.minimum(ends[inside], last))


def _chosen(trace: Trace, rows: I64, scope: Scope) -> NDArray[np.bool_]:
    """Which of the rows are on the scope's lanes and in, or below a node of, its selection."""
    chosen = np.ones(len(rows), np.bool_)
    if scope.lanes is not None:
        wanted = np.array([*(lane.name in scope.lanes for lane in trace.lanes), False], np.bool_)
        chosen &= wanted[trace.columns.lane[rows]]  # lane -1, on none, is the last entry
    if scope.selection is not None:
        rank = max(trace.meta.rank, 0)
        marked = np.zeros(len(trace), np.bool_)
        marked[[row for of, row in scope.selection if of == rank and 0 <= row < len(trace)]] = True
        chosen &= _below(trace.columns.parent, marked)[rows]
    return chosen


def _below(parent: NDArray[np.int32], marked: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which rows are marked or have a marked ancestor. O(n log depth): each round looks twice as far up."""
    up = parent.astype(np.int64)
    found = marked.copy()
    for _ in range(64):  # enough for any depth; a circle of parents, which health reports, ends here too
        has = up >= 0
        if not has.any():
            break
        found[has] |= found[up[has]]
        up[has] = up[up[has]]
    return found


def traces_in(run: Run, scope: Scope = WHOLE) -> list[tuple[int, Trace]]:
    """``(rank, trace)`` of the ranks in the scope, by rank order of the run."""
    return [(rank, trace) for rank, trace in zip(run.ranks, run.traces, strict=True) if scope.has_rank(rank)]
