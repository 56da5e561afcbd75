"""Where the time of each device goes: compute, exposed communication, exposed memory, idle; and why it idles.

The identity is exact, in integer nanoseconds: with C, N and M the unions of the intervals of compute kernels,
communication kernels, and copies and memsets of one device,
``total = |C| + |N - C| + |M - (C + N)| + idle``. Kernels that no rule classifies count as compute; device events that
only wait for others (category *runtime*) are no work: while nothing else runs, the device is idle.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakra_core.analysis.scope import WHOLE, Clipped, Scope, clip_rows
from chakra_core.schema import Category, Domain
from chakra_core.trace import Run, Trace

__all__ = [
    "KERNEL_WAIT_NS",
    "PARTS",
    "Breakdown",
    "DeviceBreakdown",
    "IdleCause",
    "as_json",
    "breakdown",
    "breakdowns",
    "device_of_lane",
    "launch_start",
    "parts_of",
]

I64 = NDArray[np.int64]

PARTS: tuple[str, ...] = ("compute", "exposed_comm", "exposed_memory", "idle")
"""The parts that sum to the total, as ``<part>_ns`` of a DeviceBreakdown."""

KERNEL_WAIT_NS = 30_000
"""Gaps shorter than this, between kernels launched early enough, are the device's own launch latency (as in HTA)."""

_MAX_NARROW = 2**15
_CAUSES = ("host", "kernel wait", "other")


@dataclass(frozen=True, slots=True)
class DeviceBreakdown:
    """Time of one device (or the sum over several: ``device`` is -1 then and ``devices`` counts them), in ns.

    ``comm_ns`` and ``memory_ns`` are whole unions, hidden parts included; ``overlap_ns`` is communication hidden
    under compute. ``start_ns`` and ``end_ns`` bound the total (absolute; of a sum, the outermost).
    """

    device: int
    devices: int
    kernels: int
    start_ns: int
    end_ns: int
    total_ns: int
    compute_ns: int
    exposed_comm_ns: int
    exposed_memory_ns: int
    idle_ns: int
    comm_ns: int
    memory_ns: int
    overlap_ns: int

    @property
    def overlap_ratio(self) -> float | None:
        """Share of communication hidden under compute; None where there is no communication."""
        return self.overlap_ns / self.comm_ns if self.comm_ns else None

    @property
    def busy_ns(self) -> int:
        """Time with anything running."""
        return self.total_ns - self.idle_ns

    def part(self, name: str) -> int:
        """One of ``PARTS``, in ns."""
        return int(getattr(self, f"{name}_ns"))


@dataclass(frozen=True, slots=True)
class IdleCause:
    """Why one stream stood still: gaps of one cause, how many and how long. ``lane`` indexes ``Trace.lanes``."""

    lane: int
    cause: str
    count: int
    idle_ns: int


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Time of one trace: each of its devices, and their sum.

    Attributes:
        total: sum over the devices; all zero where the trace has no device work in the scope.
        devices: one entry per device, by device number.
        idle_causes: per stream and cause, streams in lane order. Gaps of a stream are not idle time of its device
            where other streams work meanwhile, so these do not sum to ``idle_ns``.
        reason: in words, why there is nothing; empty otherwise.
        clipped: whether times were clipped to a window.
    """

    total: DeviceBreakdown
    devices: tuple[DeviceBreakdown, ...]
    idle_causes: tuple[IdleCause, ...]
    reason: str = ""
    clipped: bool = False


def breakdown(trace: Trace, scope: Scope = WHOLE) -> Breakdown:
    """Break the time of a trace's devices down.

    Where the scope chooses lanes or nodes, only they count, and idle is when none of them runs. Without a window, the total of a device runs from its first start to its last end. With one, it is the part of
    that span inside the window, so that windows that tile the trace sum to the whole, idle time included.
    """
    everything = clip_rows(trace, trace.device_rows, scope.timeless)
    if not len(everything):
        return Breakdown(_sum(()), (), (), _why_nothing(trace, scope), clipped=scope.clips)
    everything = everything.at(np.argsort(everything.start_ns, kind="stable"))  # once; all that follows keeps the order
    device_of = device_of_lane(trace)
    lanes = trace.columns.lane[everything.rows]
    devices = np.where(lanes >= 0, device_of[lanes], -1)
    found: list[DeviceBreakdown] = []
    numbers = np.unique(devices).tolist()
    for device in numbers:
        mine = everything if len(numbers) == 1 else everything.at(np.flatnonzero(devices == device))
        part = _one_device(trace, device, mine, scope)
        if part is not None:
            found.append(part)
    reason = "" if found else "no device work lies in the chosen time range"
    return Breakdown(_sum(found), tuple(found), _idle_causes(trace, everything, scope), reason, clipped=scope.clips)


def breakdowns(run: Run, scope: Scope = WHOLE) -> dict[int, Breakdown]:
    """The breakdown of every rank in the scope, by rank."""
    return {
        rank: breakdown(trace, scope) for rank, trace in zip(run.ranks, run.traces, strict=True) if scope.has_rank(rank)
    }


def _why_nothing(trace: Trace, scope: Scope) -> str:
    if not len(trace.device_rows):
        return "the trace records no device work"
    if scope.narrows and len(clip_rows(trace, trace.device_rows)):
        return "none of the chosen lanes and nodes has device work"
    return "no device work of the trace has a start time"


def device_of_lane(trace: Trace) -> I64:
    """Device number of each lane, int64; one extra entry so that an empty list can be indexed."""
    return np.array([*(lane.device for lane in trace.lanes), -1], np.int64)


def _one_device(trace: Trace, device: int, work: Clipped, scope: Scope) -> DeviceBreakdown | None:
    from chakra_core.intervals import intersect, length, merge, subtract

    start, end = int(work.start_ns.min()), int(work.end_ns.max())
    if scope.window is not None:
        start, end = max(start, scope.window[0]), min(end, scope.window[1])
        if start >= end:
            return None
        work = clip_rows(trace, work.rows, Scope(scope.window))
    category = trace.columns.category[work.rows]
    communicates = category == Category.COMMUNICATION
    moves = (category == Category.COPY) | (category == Category.MEMSET)
    computes = ~communicates & ~moves & (category != Category.RUNTIME)
    c, n, m = (
        merge(work.start_ns[chosen], work.end_ns[chosen])
        for chosen in map(np.flatnonzero, (computes, communicates, moves))
    )
    exposed_comm = subtract(*n, *c)
    exposed_memory = subtract(*subtract(*m, *c), *n)
    compute_ns, comm_ns = length(*c), length(*n)
    exposed_comm_ns, exposed_memory_ns = length(*exposed_comm), length(*exposed_memory)
    return DeviceBreakdown(
        device=device,
        devices=1,
        kernels=len(work),
        start_ns=start,
        end_ns=end,
        total_ns=end - start,
        compute_ns=compute_ns,
        exposed_comm_ns=exposed_comm_ns,
        exposed_memory_ns=exposed_memory_ns,
        idle_ns=end - start - compute_ns - exposed_comm_ns - exposed_memory_ns,
        comm_ns=comm_ns,
        memory_ns=length(*m),
        overlap_ns=length(*intersect(*n, *c)),
    )


def _sum(parts: Iterable[DeviceBreakdown]) -> DeviceBreakdown:
    parts = tuple(parts)
    if len(parts) == 1:
        return parts[0]
    summed = {
        name: sum(getattr(part, name) for part in parts)
        for name in (
            "kernels", "total_ns", "compute_ns", "exposed_comm_ns", "exposed_memory_ns", "idle_ns",
            "comm_ns", "memory_ns", "overlap_ns",
        )
    }  # fmt: skip
    start = min((part.start_ns for part in parts), default=0)
    end = max((part.end_ns for part in parts), default=0)
    return DeviceBreakdown(device=-1, devices=len(parts), start_ns=start, end_ns=end, **summed)


def _idle_causes(trace: Trace, work: Clipped, scope: Scope) -> tuple[IdleCause, ...]:
    """Gaps of every stream by cause (HTA's classes): *host* where the kernel's launch began after the previous end.

    ``work`` is in order of start.
    """
    work = work.at(np.flatnonzero(trace.columns.category[work.rows] != Category.RUNTIME))
    if not len(work):
        return ()
    lane = trace.columns.lane[work.rows].astype(np.int64)
    narrow = lane.astype(np.int16) if len(trace.lanes) < _MAX_NARROW else lane  # short integers are sorted by counting
    order = np.argsort(narrow, kind="stable")
    lane, start, end, rows = lane[order], work.start_ns[order], work.end_ns[order], work.rows[order]
    first = np.r_[True, lane[1:] != lane[:-1]]
    reached = _running_end(end, first)
    gap_start, gap_end = reached[:-1], start[1:]
    is_gap = ~first[1:] & (gap_end > gap_start)
    launched = launch_start(trace, rows[1:])
    short = gap_end - gap_start < KERNEL_WAIT_NS
    cause = np.where(launched > gap_start, 0, np.where(short, 1, 2))
    if scope.window is not None:
        gap_start, gap_end = np.clip(gap_start, *scope.window), np.clip(gap_end, *scope.window)
        is_gap &= gap_end > gap_start
    key = (lane[1:] * len(_CAUSES) + cause)[is_gap]
    if not len(key):
        return ()
    keys, group = np.unique(key, return_inverse=True)
    idle = np.zeros(len(keys), np.int64)
    np.add.at(idle, group, (gap_end - gap_start)[is_gap])
    count = np.bincount(group)
    return tuple(
        IdleCause(int(k) // len(_CAUSES), _CAUSES[int(k) % len(_CAUSES)], int(n), int(ns))
        for k, n, ns in zip(keys, count, idle, strict=True)
    )


def _running_end(end: I64, first: NDArray[np.bool_]) -> I64:
    """Latest end so far within each stream (streams are contiguous, beginning where ``first``)."""
    if first.sum() == 1:
        return np.maximum.accumulate(end)
    bounds = np.r_[np.flatnonzero(first), len(end)]
    reached = np.empty_like(end)
    for low, high in itertools.pairwise(bounds.tolist()):
        reached[low:high] = np.maximum.accumulate(end[low:high])
    return reached


def launch_start(trace: Trace, rows: I64) -> I64:
    """Start of the host call that launched each device row; the smallest int64 where it is not known."""
    c = trace.columns
    parent = c.parent[rows].astype(np.int64)
    known = parent >= 0
    known[known] = c.domain[parent[known]] == Domain.HOST
    launched = np.full(len(rows), np.iinfo(np.int64).min, np.int64)
    launched[known] = c.start_ns[parent[known]]
    return launched


def as_json(trace: Trace, scope: Scope = WHOLE) -> dict[str, Any]:
    """The keys ``breakdown``, ``overlap_ratio`` and ``idle_causes`` of the command line's ``analyze``."""
    result = breakdown(trace, scope)
    return {
        "breakdown": {
            **parts_of(result.total),
            "reason": result.reason,
            "clipped": result.clipped,
            "devices": [{"device": part.device, **parts_of(part)} for part in result.devices],
        },
        "overlap_ratio": result.total.overlap_ratio,
        "idle_causes": [_cause(result, cause, trace) for cause in _CAUSES],
    }


def _cause(result: Breakdown, cause: str, trace: Trace) -> dict[str, Any]:
    of_cause = [entry for entry in result.idle_causes if entry.cause == cause]
    return {
        "cause": cause,
        "count": sum(entry.count for entry in of_cause),
        "idle_ns": sum(entry.idle_ns for entry in of_cause),
        "streams": [
            {
                "stream": trace.lanes[entry.lane].name if entry.lane >= 0 else "",
                "device": trace.lanes[entry.lane].device if entry.lane >= 0 else -1,
                "count": entry.count,
                "idle_ns": entry.idle_ns,
            }
            for entry in of_cause
        ],
    }


def parts_of(part: DeviceBreakdown) -> dict[str, int]:
    """The times of a breakdown by key (``total_ns``, ``compute_ns``, …) and its number of kernels."""
    names = ("total", *PARTS, "comm", "memory", "overlap")
    return {f"{name}_ns": part.part(name) for name in names} | {"kernels": part.kernels}
