"""What happens in a range of time, by name: events are clipped to the range, and the result says nothing beyond it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakra_core.schema import NO_TIME
from chakra_core.trace import Trace

__all__ = ["AreaTable", "area"]

I64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class AreaTable:
    """Parallel int64 arrays, one entry per name, most time first (ties by name code).

    ``name`` code into ``Trace.names``, ``count`` events that touch the range, ``total_ns`` their time within it,
    ``longest_ns`` the most that one has within it, ``longest`` the row of that one, ``category`` its category.
    """

    name: I64
    count: I64
    total_ns: I64
    longest_ns: I64
    longest: I64
    category: I64


def area(trace: Trace, rows: NDArray[np.integer], t0: int, t1: int) -> AreaTable:
    """Sum up the part of each of the given nodes that lies in [t0, t1), by name.

    Args:
        trace: whose nodes.
        rows: rows of the nodes to look at; those without a start or outside the range are left out.
        t0: start of the range, absolute ns.
        t1: its end. Nodes without duration count where ``t0 <= start < t1``.
    """
    c = trace.columns
    chosen = np.asarray(rows, np.int64)
    chosen = chosen[c.start_ns[chosen] != NO_TIME]
    start, end = c.start_ns[chosen], c.start_ns[chosen] + c.dur_ns[chosen]
    inside = (start < t1) & ((end > t0) | (start >= t0))
    chosen, start, end = chosen[inside], start[inside], end[inside]
    part = np.minimum(end, t1) - np.maximum(start, t0)
    name = c.name[chosen].astype(np.int64)
    order = np.lexsort((chosen, -part, name))
    chosen, part, name = chosen[order], part[order], name[order]
    first = np.flatnonzero(np.diff(name, prepend=-1))
    if not len(first):
        empty = np.zeros(0, np.int64)
        return AreaTable(empty, empty, empty, empty, empty, empty)
    total = np.add.reduceat(part, first)
    count = np.diff(first, append=len(name))
    by_time = np.lexsort((name[first], -total))
    first = first[by_time]
    longest = chosen[first]
    return AreaTable(
        name[first], count[by_time], total[by_time], part[first], longest, c.category[longest].astype(np.int64)
    )
