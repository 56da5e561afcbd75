"""What several rules need to know of one rank, each fact worked out once and only when asked for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from chakra_core.analysis.breakdown import DeviceBreakdown, breakdown
from chakra_core.analysis.measured_path import MeasuredGraph, measured_graph
from chakra_core.analysis.scope import Clipped, Scope, clip_rows
from chakra_core.analysis.what_if import Factors, what_if
from chakra_core.intervals import intersect, length, merge, subtract
from chakra_core.schema import NO_TIME, Category, Domain, TimeKind
from chakra_core.trace import Trace

__all__ = ["Facts", "Gaps"]

I64 = NDArray[np.int64]
Intervals = tuple[I64, I64]


@dataclass(frozen=True)
class Gaps:
    """Times in which all devices of a rank stand still between two pieces of work; parallel int64 arrays.

    ``host_ns`` passes before the launch of the next work begins, ``launch_ns`` in its launch call and on its way to
    the device; both are 0 where no launch is known. ``next_row`` is the work that ends the gap, ``launch`` its launch
    (-1: unknown).
    """

    start_ns: I64
    end_ns: I64
    next_row: I64
    launch: I64
    host_ns: I64
    launch_ns: I64

    @property
    def dur_ns(self) -> I64:
        """Length of each."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class Facts:
    """One rank in a scope."""

    rank: int
    trace: Trace
    scope: Scope

    @cached_property
    def part(self) -> DeviceBreakdown:
        """The breakdown, summed over the devices of the rank."""
        return breakdown(self.trace, self.scope).total

    @cached_property
    def work(self) -> Clipped:
        """Device work in the scope, by start."""
        work = clip_rows(self.trace, self.trace.device_rows, self.scope)
        return work.at(np.argsort(work.start_ns, kind="stable"))

    @cached_property
    def category(self) -> NDArray[np.int8]:
        """Category of each piece of ``work``."""
        return self.trace.columns.category[self.work.rows]

    @property
    def total_ns(self) -> int:
        """Device time that shares refer to."""
        return self.part.total_ns

    @cached_property
    def gaps(self) -> Gaps:
        """Idle gaps of the rank's devices together."""
        work = self.work
        reached = np.maximum.accumulate(work.end_ns) if len(work) else work.end_ns
        at = np.flatnonzero(work.start_ns[1:] > reached[:-1])
        start, end, rows = reached[at], work.start_ns[at + 1], work.rows[at + 1]
        c = self.trace.columns
        launch = c.parent[rows].astype(np.int64)
        known = (launch >= 0) & (c.domain[launch] == Domain.HOST) & (c.start_ns[launch] != NO_TIME)
        launch = np.where(known, launch, -1)
        called = np.where(known, np.clip(c.start_ns[launch], start, end), start)
        return Gaps(start, end, rows, launch, called - start, np.where(known, end - called, 0))

    @cached_property
    def idle(self) -> Intervals:
        """Idle gaps as intervals."""
        return self.gaps.start_ns, self.gaps.end_ns

    def union(self, *categories: Category) -> Intervals:
        """When work of some categories runs, overlapping pieces joined."""
        chosen = np.isin(self.category, categories)
        return merge(self.work.start_ns[chosen], self.work.end_ns[chosen])

    @cached_property
    def exposed_comm(self) -> Intervals:
        """When communication runs and no compute does."""
        others = (Category.COMMUNICATION, Category.COPY, Category.MEMSET)
        compute = ~np.isin(self.category, others)
        return subtract(
            *self.union(Category.COMMUNICATION), *merge(self.work.start_ns[compute], self.work.end_ns[compute])
        )

    def host_named(self, pattern: re.Pattern[str]) -> Clipped:
        """Host nodes in the scope whose name a pattern finds."""
        codes = [code for code, name in enumerate(self.trace.names) if pattern.search(name)]
        c = self.trace.columns
        rows = np.flatnonzero(np.isin(c.name, codes) & (c.domain == Domain.HOST)) if codes else np.zeros(0, np.int64)
        return clip_rows(self.trace, rows, self.scope)

    def while_idle(self, found: Clipped) -> tuple[int, I64]:
        """How long any of some host nodes runs while the devices idle, and for each node how long it does, ns."""
        lost = length(*intersect(*merge(found.start_ns, found.end_ns), *self.idle))
        ends = np.r_[0, np.cumsum(self.gaps.dur_ns)]

        def before(moment: I64) -> I64:
            at = np.searchsorted(self.gaps.start_ns, moment, side="right")
            whole = ends[np.maximum(at - 1, 0)]
            inside = np.minimum(moment, self.gaps.end_ns[at - 1]) - self.gaps.start_ns[at - 1] if len(ends) > 1 else 0
            return np.where(at > 0, whole + inside, 0)

        return lost, before(found.end_ns) - before(found.start_ns)

    @cached_property
    def graph(self) -> MeasuredGraph:
        """The graph of the measured critical path."""
        return measured_graph(self.trace, self.scope)

    def shorter_path(self, factors: Factors) -> int | None:
        """How much the measured critical path gets shorter under some factors, ns; None where there is no such path."""
        if self.trace.meta.time_kind != TimeKind.MEASURED or not len(self.graph):
            return None
        return max(what_if(self.trace, self.graph, factors).saved_ns, 0)

    def around(self, start: int, end: int) -> tuple[int, int]:
        """A range with a fifth more on both sides, at least a microsecond."""
        margin = max((end - start) // 5, 1000)
        return start - margin, end + margin
