"""What part of a run an analysis looks at: a time window and a choice of ranks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakra_core.schema import NO_TIME
from chakra_core.trace import Run, Trace

__all__ = ["WHOLE", "Clipped", "Scope", "clip_rows", "traces_in"]

I64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Scope:
    """A part of a run.

    Attributes:
        window: ``(t0_ns, t1_ns)``, absolute and half-open; None means all time.
        ranks: the ranks looked at; None means all of them.
    """

    window: tuple[int, int] | None = None
    ranks: frozenset[int] | None = None

    def has_rank(self, rank: int) -> bool:
        """Whether a rank is looked at."""
        return self.ranks is None or rank in self.ranks

    @property
    def clips(self) -> bool:
        """Whether times are clipped to a window."""
        return self.window is not None


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
    """Those of ``rows`` that have a start time and overlap the scope's window, clipped to it; order is kept.

    A node of zero length belongs to the window that holds its start.
    """
    starts = trace.columns.start_ns[rows]
    timed = starts != NO_TIME
    rows, starts = rows[timed], starts[timed]
    ends = starts + trace.columns.dur_ns[rows]
    if scope.window is None:
        return Clipped(rows, starts, ends)
    first, last = scope.window
    inside = (starts < last) & ((ends > first) | (starts >= first))
    return Clipped(rows[inside], np.maximum(starts[inside], first), np.minimum(ends[inside], last))


def traces_in(run: Run, scope: Scope = WHOLE) -> list[tuple[int, Trace]]:
    """``(rank, trace)`` of the ranks in the scope, by rank order of the run."""
    return [(rank, trace) for rank, trace in zip(run.ranks, run.traces, strict=True) if scope.has_rank(rank)]
