"""What one host thread does: frames of Python, operators, runtime calls, synchronisation, data loading, nothing traced.

At each moment the innermost event that runs decides; inside anything named after a data loader it is data loading. The
parts sum to the span of the thread exactly, in integer nanoseconds. *Untraced* is time in which the trace shows nothing
on the thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakra_core.analysis._waits import is_sync_call
from chakra_core.analysis.scope import WHOLE, Scope, clip_rows
from chakra_core.schema import NO_TIME, Category, Domain, LaneKind
from chakra_core.trace import Trace

__all__ = ["HOST_PARTS", "HostBreakdown", "as_json", "critical_thread", "host_breakdown"]

I64 = NDArray[np.int64]

HOST_PARTS: tuple[str, ...] = ("python", "operator", "runtime", "synchronisation", "data loading", "untraced")
"""The parts of a thread's time, in the order of ``HostBreakdown.parts_ns``."""

_LOADS = ("dataloader", "data_loader", "data loading")
_KINDS = {Category.PYTHON: 0, Category.HOST_OP: 1, Category.RUNTIME: 2}


@dataclass(frozen=True, slots=True)
class HostBreakdown:
    """Time of one thread. ``parts_ns`` are those of ``HOST_PARTS`` and sum to ``total_ns``; ``lane`` is -1 for none."""

    lane: int
    total_ns: int
    parts_ns: tuple[int, ...]
    reason: str = ""
    clipped: bool = False


def critical_thread(trace: Trace) -> int:
    """Lane of the thread that launches most device work; without launches, of that with most operators; -1: none."""
    c = trace.columns
    host = (c.domain == Domain.HOST) & (c.lane >= 0) & (c.category != Category.ANNOTATION) & (c.start_ns != NO_TIME)
    threads = np.array([lane.kind != LaneKind.ANNOTATION for lane in trace.lanes], np.bool_)
    work = trace.device_rows
    parent = c.parent[work]
    parent = parent[parent >= 0]
    launched = np.bincount(c.lane[parent[host[parent]]], minlength=len(threads))
    if launched.any():
        return int(np.argmax(launched))
    rows = np.flatnonzero(host)
    rows = rows[threads[c.lane[rows]]] if len(rows) else rows
    return int(np.argmax(np.bincount(c.lane[rows], minlength=len(threads)))) if len(rows) else -1


def host_breakdown(trace: Trace, scope: Scope = WHOLE, *, lane: int | None = None) -> HostBreakdown:
    """The time of a thread by what it does; of the critical thread where none is given. O(n log n)."""
    from chakra_core.intervals import intersect, length, merge, subtract
    from chakra_core.segments import cut

    chosen = critical_thread(trace) if lane is None else lane
    none = tuple(0 for _ in HOST_PARTS)
    if chosen < 0:
        return HostBreakdown(-1, 0, none, "the trace records no host thread", scope.clips)
    c = trace.columns
    on_lane = np.flatnonzero((c.lane == chosen) & (c.start_ns != NO_TIME) & (c.domain == Domain.HOST))
    inside = clip_rows(trace, on_lane, scope)
    if not len(inside):
        return HostBreakdown(chosen, 0, none, "the thread does nothing in the chosen range", scope.clips)
    first, last = int(inside.start_ns.min()), int(inside.end_ns.max())
    start, end = np.zeros(len(trace), np.int64), np.zeros(len(trace), np.int64)
    start[inside.rows], end[inside.rows] = inside.start_ns, inside.end_ns
    names = np.array([any(word in name.lower() for word in _LOADS) for name in trace.names], np.bool_)
    loading = names[c.name[inside.rows]]
    load = merge(inside.start_ns[loading], inside.end_ns[loading])
    kinds = np.full(len(Category), -1, np.int64)
    for category, number in _KINDS.items():
        kinds[category] = number
    counted = inside.rows[kinds[c.category[inside.rows]] >= 0]
    parts = cut(counted, c.lane.astype(np.int64), start, end)
    kind = np.where(is_sync_call(trace)[parts.row], 3, kinds[c.category[parts.row]])
    found = []
    for number in range(4):
        mine = np.flatnonzero(kind == number)
        found.append(length(*subtract(*merge(parts.start_ns[mine], parts.end_ns[mine]), *load)))
    edge = np.array([first], np.int64), np.array([last], np.int64)
    found.append(length(*intersect(*load, *edge)))
    return HostBreakdown(chosen, last - first, (*found, last - first - sum(found)), "", scope.clips)


def as_json(trace: Trace, scope: Scope = WHOLE) -> dict[str, Any]:
    """The key ``host`` of the command line's ``analyze``."""
    result = host_breakdown(trace, scope)
    return {
        "host": {
            "thread": trace.lanes[result.lane].name if result.lane >= 0 else "",
            "total_ns": result.total_ns,
            "parts": {
                f"{name.replace(' ', '_')}_ns": value for name, value in zip(HOST_PARTS, result.parts_ns, strict=True)
            },
            "reason": result.reason,
            "clipped": result.clipped,
        }
    }
