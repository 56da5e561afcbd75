"""Memory of each device over time: what is allocated and reserved, the peak, what was live then, what is never freed.

From the allocations and frees that the trace records (``Trace.memory``). Totals that an event states are taken as they
are; where none does, the curve is the running sum of the changes, so it starts at 0 and what was there before the first
event is not in it. An allocation lives until the next event at its address. What the totals say beyond the allocations
seen to be live was allocated before the trace began, or was not recorded.

The operator of an allocation is the innermost one that ran on its thread then, functions that do nothing but allocate
(``aten::empty`` and its like) passed over. The curve is that of the device; lanes and chosen nodes of a scope do not
change it, a window cuts it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakra_core.analysis.copies import copy_records
from chakra_core.analysis.operators import operator_mask
from chakra_core.analysis.scope import WHOLE, Scope
from chakra_core.memory_events import MemoryEvents
from chakra_core.schema import NO_TIME, Domain
from chakra_core.trace import Trace

__all__ = ["NOTHING_AROUND", "LivePart", "Memory", "MemoryCurve", "as_json", "memory", "thinned"]

I64 = NDArray[np.int64]

NOTHING_AROUND = "no operator around it"
"""In place of a name, for allocations that no recorded operator encloses."""

_ALLOCATE = re.compile(r"^aten::(?:empty|new_empty|resize_|set_)")
_LISTED = 200
_POINTS = 1_000


@dataclass(frozen=True, slots=True)
class LivePart:
    """Allocations of one operator (by name) that were live at the peak.

    ``row`` is that of the operator that made the largest (-1: none), ``rows`` (int64) are those of all of them.
    """

    name: str
    bytes: int
    count: int
    row: int
    rows: I64


@dataclass(frozen=True, slots=True)
class MemoryCurve:
    """One memory. ``time_ns``, ``allocated`` and ``reserved`` are parallel int64: the values from each moment on.

    Attributes:
        place: which memory, e.g. ``cuda:0``.
        events: allocations and frees in the window.
        relative: whether the trace states no totals, so that the curve counts from the first event.
        reserved: -1 where the trace does not state it.
        peak_bytes, peak_ns: greatest allocated, and when it is first reached.
        live: what was allocated in the trace and live at the peak, largest first.
        live_bytes: their sum; ``before_bytes`` the rest of the peak. None where addresses are missing.
        allocated_bytes: all allocations of the trace together, and ``kept_bytes`` those never freed in it.
    """

    place: str
    time_ns: I64
    allocated: I64
    reserved: I64
    events: int
    relative: bool
    peak_bytes: int
    peak_ns: int
    live: tuple[LivePart, ...]
    live_bytes: int | None
    before_bytes: int | None
    allocated_bytes: int
    kept_bytes: int | None

    @property
    def kept_share(self) -> float | None:
        """Share of what was allocated that is never freed in the trace; None where it cannot be told."""
        return self.kept_bytes / self.allocated_bytes if self.kept_bytes is not None and self.allocated_bytes else None


@dataclass(frozen=True)
class Memory:
    """Every memory of a trace, the greatest peak first; ``reason`` says in words why there is none."""

    curves: tuple[MemoryCurve, ...]
    reason: str
    clipped: bool


def memory(trace: Trace, scope: Scope = WHOLE) -> Memory:
    """Memory over time, by place. O(n log n)."""
    events = trace.memory
    if events is None or not len(events):
        return Memory((), _none(trace), scope.clips)
    owner = _operators(trace, events)
    found = []
    for place in range(len(events.places)):
        mine = np.flatnonzero(events.place == place)
        curve = _curve(trace, events, mine[np.argsort(events.ts_ns[mine], kind="stable")], owner, scope)
        if curve is not None:
            found.append(curve)
    found.sort(key=lambda curve: -curve.peak_bytes)
    return Memory(tuple(found), "" if found else "nothing is allocated or freed in the chosen range", scope.clips)


def _none(trace: Trace) -> str:
    kineto = trace.meta.format in ("kineto", "chrome", "pytorch-et + kineto")
    how = " (PyTorch's profiler records them with profile_memory=True)" if kineto else ""
    return f"the trace records no allocations{how}"


def _operators(trace: Trace, events: MemoryEvents) -> I64:
    """Row of the operator of each event; -1 none."""
    from chakra_core.analysis._climb import owners
    from chakra_core.analysis._memory_kernels import innermost_at

    c = trace.columns
    if not len(trace):
        return np.full(len(events), -1, np.int64)
    host = np.flatnonzero((c.domain == Domain.HOST) & (c.start_ns != NO_TIME) & (c.lane >= 0))
    host = host[np.lexsort((-c.dur_ns[host], c.start_ns[host], c.lane[host]))]
    lanes = events.lane.astype(np.int64)
    order = np.lexsort((events.ts_ns, lanes))
    order = order[lanes[order] >= 0]
    row = innermost_at(host, c.lane.astype(np.int64), c.start_ns, c.start_ns + c.dur_ns, order, lanes, events.ts_ns)
    only_allocates = np.array([_ALLOCATE.match(name) is not None for name in trace.names] or [False])
    any_operator = operator_mask(trace)
    wanted = any_operator & ~only_allocates[c.name]
    found = np.where((row >= 0) & wanted[row], row, owners(np.maximum(row, 0), c.parent, wanted))
    plain = np.where((row >= 0) & any_operator[row], row, owners(np.maximum(row, 0), c.parent, any_operator))
    by_time = np.where(row < 0, -1, np.where(found >= 0, found, plain))
    return np.where(events.node >= 0, events.node, by_time)


def _curve(trace: Trace, events: MemoryEvents, rows: I64, owner: I64, scope: Scope) -> MemoryCurve | None:
    """The curve of one place; ``rows`` are its events by time."""
    from chakra_core.analysis._memory_kernels import match_frees

    total, change, time = events.allocated[rows], events.bytes[rows], events.ts_ns[rows]
    relative = bool((total < 0).any())
    level = np.cumsum(change) if relative else total
    inside = np.ones(len(rows), np.bool_)
    if scope.window is not None:
        inside = (time >= scope.window[0]) & (time < scope.window[1])
    if not inside.any():
        return None
    first = int(np.argmax(inside))
    chosen = np.flatnonzero(inside)
    if scope.window is not None and first > 0:  # what the window begins with
        chosen = np.r_[first - 1, chosen]
    peak = int(chosen[np.argmax(level[chosen])])
    live: tuple[LivePart, ...] = ()
    live_bytes = kept = None
    if (events.address[rows] != -1).all() and change.any():
        order = np.lexsort((np.arange(len(rows)), events.address[rows]))
        ended = match_frees(order, events.address[rows], change)
        born = np.flatnonzero(change > 0)
        alive = born[(born <= peak) & ((ended[born] < 0) | (ended[born] > peak))]
        live, live_bytes = _live(trace, owner[rows[alive]], change[alive]), int(change[alive].sum())
        kept = int(change[born[(ended[born] < 0) & inside[born]]].sum())
    made = change[inside & (change > 0)]
    begin = time[chosen[0]] if scope.window is None else scope.window[0]
    return MemoryCurve(
        events.places[int(events.place[rows[0]])], np.maximum(time[chosen], begin), level[chosen],
        events.reserved[rows][chosen], int(inside.sum()), relative, int(level[peak]), max(int(time[peak]), int(begin)),
        live, live_bytes,
        None if live_bytes is None or relative else int(level[peak]) - live_bytes, int(made.sum()), kept,
    )  # fmt: skip


def _live(trace: Trace, owner: I64, size: I64) -> tuple[LivePart, ...]:
    """Live allocations by the name of their operator, largest first."""
    code = np.where(owner >= 0, trace.columns.name[owner], -1)
    codes, of = np.unique(code, return_inverse=True)
    total, count = np.zeros(len(codes), np.int64), np.bincount(of, minlength=len(codes))
    np.add.at(total, of, size)
    order = np.lexsort((size, of))
    last = np.cumsum(count)
    return tuple(
        LivePart(
            trace.names[int(codes[at])] if codes[at] >= 0 else NOTHING_AROUND,
            int(total[at]), int(count[at]), int(owner[order[last[at] - 1]]),
            np.unique(owner[order[last[at] - count[at] : last[at]]]),
        )
        for at in np.argsort(-total, kind="stable").tolist()
    )  # fmt: skip


def thinned(curve: MemoryCurve, most: int) -> I64:
    """Positions of at most ``most`` points of a curve: first, last, and the extremes of each stretch between."""
    n = len(curve.time_ns)
    if n <= most:
        return np.arange(n)
    bounds = np.linspace(0, n, max((most - 2) // 2, 1) + 1).astype(np.int64)
    kept = [0, n - 1]
    for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        part = curve.allocated[low:high]
        kept += [low + int(np.argmax(part)), low + int(np.argmin(part))]
    return np.unique(np.array(kept, np.int64))


def as_json(trace: Trace, scope: Scope = WHOLE) -> dict[str, Any]:
    """The key ``memory`` of the command line's ``analyze``; times are absolute, None is *not known*."""
    result = memory(trace, scope)
    return {
        "memory": {
            "devices": [_record(curve) for curve in result.curves],
            "copies": copy_records(trace, scope),
            "reason": result.reason,
            "clipped": result.clipped,
        }
    }


def _record(curve: MemoryCurve) -> dict[str, Any]:
    shown = thinned(curve, _POINTS)
    return {
        "place": curve.place,
        "events": curve.events,
        "counted_from_first_event": curve.relative,
        "peak_bytes": curve.peak_bytes,
        "peak_ns": curve.peak_ns,
        "peak_reserved_bytes": int(curve.reserved.max()) if (curve.reserved >= 0).any() else None,
        "live_at_peak_bytes": curve.live_bytes,
        "from_before_bytes": curve.before_bytes,
        "live_at_peak": [
            {"operator": part.name, "bytes": part.bytes, "count": part.count} for part in curve.live[:_LISTED]
        ],
        "allocated_bytes": curve.allocated_bytes,
        "never_freed_bytes": curve.kept_bytes,
        "never_freed_share": curve.kept_share,
        "curve": {
            "ts_ns": curve.time_ns[shown].tolist(),
            "allocated_bytes": curve.allocated[shown].tolist(),
            "reserved_bytes": [value if value >= 0 else None for value in curve.reserved[shown].tolist()],
        },
    }
