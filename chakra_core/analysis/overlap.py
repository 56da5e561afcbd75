"""What runs at the same time on each device: every combination of compute, communication and memory work, per step too.

The seven combinations (only compute, compute with communication, …) and idle are disjoint, so they sum to the total in
integer nanoseconds: the hidden parts that the breakdown leaves out. Memory work is copies and memsets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakra_core.analysis.scope import WHOLE, Clipped, Scope, clip_rows
from chakra_core.analysis.steps import find_steps
from chakra_core.schema import Category
from chakra_core.trace import Trace

__all__ = ["COMBINATIONS", "DeviceOverlap", "as_json", "overlap"]

I64 = NDArray[np.int64]
Intervals = tuple[I64, I64]

COMBINATIONS: tuple[str, ...] = (
    "compute", "comm", "memory", "compute_comm", "compute_memory", "comm_memory", "compute_comm_memory",
)  # fmt: skip
"""What runs, and nothing else: the keys of the times (as ``<name>_ns``)."""


@dataclass(frozen=True, slots=True)
class DeviceOverlap:
    """Times of one device in one range, in ns. ``step`` is the number of the step, -1: the whole scope.

    ``parts_ns`` are those of ``COMBINATIONS``; with ``idle_ns`` they sum to ``total_ns``.
    """

    device: int
    step: int
    total_ns: int
    parts_ns: tuple[int, ...]
    idle_ns: int


def overlap(trace: Trace, scope: Scope = WHOLE) -> tuple[DeviceOverlap, ...]:
    """Combinations per device, then per device and step; empty where the trace has no device work in the scope.

    A step counts what runs between its begin and its end, clipped to the device's span and to the scope's window.
    O(n log n), however many steps there are.
    """
    work = clip_rows(trace, trace.device_rows, scope)
    if not len(work):
        return ()
    of_lane = np.array([*(lane.device for lane in trace.lanes), -1], np.int64)
    devices = of_lane[trace.columns.lane[work.rows]]
    found: list[DeviceOverlap] = []
    for device in np.unique(devices).tolist():
        found += _one(trace, device, work.at(np.flatnonzero(devices == device)), scope)
    return tuple(sorted(found, key=lambda entry: (entry.step >= 0, entry.device)))


def _one(trace: Trace, device: int, work: Clipped, scope: Scope) -> list[DeviceOverlap]:
    from chakra_core.intervals import coverage

    # the span is that of the device's work, whatever the window: idle time of a window counts, as in the breakdown
    first, last = int(work.start_ns.min()), int(work.end_ns.max())
    if scope.window is not None:
        rows = trace.device_rows
        lanes = np.array([*(lane.device for lane in trace.lanes), -1], np.int64)
        mine = clip_rows(trace, rows[lanes[trace.columns.lane[rows]] == device], scope.timeless)
        first = max(int(mine.start_ns.min()), scope.window[0])
        last = min(int(mine.end_ns.max()), scope.window[1])
    ranges = [(-1, first, last)]
    for step in find_steps(trace):
        low, high = max(step.start_ns, first), min(step.end_ns, last)
        if low < high:
            ranges.append((step.number, low, high))
    edges = np.unique(np.array([moment for _, low, high in ranges for moment in (low, high)], np.int64))
    if len(edges) < 2:
        return [DeviceOverlap(device, -1, 0, tuple(0 for _ in COMBINATIONS), 0)]
    running = np.array([np.r_[0, np.cumsum(coverage(*part, edges))] for part in _combinations(trace, work)])
    found = []
    for number, low, high in ranges:
        a, b = np.searchsorted(edges, [low, high])
        parts = tuple(int(value) for value in running[:, b] - running[:, a])
        found.append(DeviceOverlap(device, number, high - low, parts, high - low - sum(parts)))
    return found


def _combinations(trace: Trace, work: Clipped) -> list[Intervals]:
    """When exactly each combination runs, in the order of ``COMBINATIONS``."""
    from chakra_core.intervals import intersect, merge, subtract

    category = trace.columns.category[work.rows]
    communicates = category == Category.COMMUNICATION
    moves = (category == Category.COPY) | (category == Category.MEMSET)
    c, n, m = (
        merge(work.start_ns[chosen], work.end_ns[chosen])
        for chosen in map(np.flatnonzero, (~communicates & ~moves, communicates, moves))
    )
    cn, cm, nm = intersect(*c, *n), intersect(*c, *m), intersect(*n, *m)
    return [
        subtract(*subtract(*c, *n), *m), subtract(*subtract(*n, *c), *m), subtract(*subtract(*m, *c), *n),
        subtract(*cn, *m), subtract(*cm, *n), subtract(*nm, *c), intersect(*cn, *m),
    ]  # fmt: skip


def as_json(trace: Trace, scope: Scope = WHOLE) -> dict[str, Any]:
    """The key ``overlap`` of the command line's ``analyze``: what runs at the same time, per device and step."""
    found = overlap(trace, scope)
    entries = [
        {
            "device": entry.device,
            "step": entry.step,
            "total_ns": entry.total_ns,
            **{f"{name}_ns": value for name, value in zip(COMBINATIONS, entry.parts_ns, strict=True)},
            "idle_ns": entry.idle_ns,
        }
        for entry in found
    ]
    return {
        "overlap": {
            "devices": [
                {key: value for key, value in entry.items() if key != "step"} for entry in entries if entry["step"] < 0
            ],
            "steps": [entry for entry in entries if entry["step"] >= 0],
            "reason": "" if found else "the trace records no device work in the chosen range",
        }
    }
