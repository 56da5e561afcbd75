"""Why a device is idle: every nanosecond in which nothing runs on it has one cause, so that causes sum to its idle time.

A gap of a device ends when its next kernel starts. The part of it before the host began to launch that kernel is the
*host's*: it had not asked for anything yet. The rest, where it is short, is *launch* latency; where it is longer than
``breakdown.KERNEL_WAIT_NS``, or where the launch is not in the trace, the kernel *waited* for something else (another
stream, a synchronisation, a copy). ``breakdown.idle_causes`` tells the same of single streams, whose gaps overlap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakra_core.analysis.breakdown import KERNEL_WAIT_NS, device_of_lane, launch_start
from chakra_core.analysis.scope import WHOLE, Clipped, Scope, clip_rows, traces_in
from chakra_core.schema import Category
from chakra_core.trace import Run, Trace

__all__ = ["IDLE_CAUSES", "IdleParts", "idle_of", "idle_parts"]

I64 = NDArray[np.int64]

IDLE_CAUSES: dict[str, str] = {
    "host": "host had not launched yet",
    "launch": "launch latency",
    "waiting": "launched, but waiting",
}
"""Causes in words, by the names of the fields of ``IdleParts``."""


@dataclass(frozen=True, slots=True)
class IdleParts:
    """Idle time of devices by cause, in ns."""

    host_ns: int
    launch_ns: int
    waiting_ns: int

    def part(self, name: str) -> int:
        """One of ``IDLE_CAUSES``, in ns."""
        return int(getattr(self, f"{name}_ns"))

    @property
    def total_ns(self) -> int:
        """All idle time."""
        return self.host_ns + self.launch_ns + self.waiting_ns

    def mean(self, units: int) -> IdleParts:
        """The mean over so many devices, whole ns: it sums to the rounded mean of the total, and no part is below 0."""
        from itertools import accumulate, pairwise

        sums = accumulate((self.host_ns, self.launch_ns, self.waiting_ns), initial=0)
        rounded = [(2 * total + units) // (2 * units) for total in sums]
        return IdleParts(*(high - low for low, high in pairwise(rounded)))


def idle_parts(trace: Trace, scope: Scope = WHOLE) -> IdleParts:
    """Idle time of all devices of a trace by cause: its total is the breakdown's idle time. O(n log n)."""
    work = clip_rows(trace, trace.device_rows, scope.timeless)
    work = work.at(np.argsort(work.start_ns, kind="stable"))
    lanes = trace.columns.lane[work.rows]
    devices = np.where(lanes >= 0, device_of_lane(trace)[lanes], -1)
    sums = np.zeros(3, np.int64)
    for device in np.unique(devices).tolist():
        sums += _of_device(trace, work.at(np.flatnonzero(devices == device)), scope)
    return IdleParts(*(int(value) for value in sums))


def idle_of(run: Run, scope: Scope = WHOLE) -> IdleParts:
    """Idle time of all devices of all ranks in the scope, summed."""
    found = [idle_parts(trace, scope) for _, trace in traces_in(run, scope)]
    return IdleParts(*(sum(one.part(name) for one in found) for name in IDLE_CAUSES))


def _of_device(trace: Trace, everything: Clipped, scope: Scope) -> I64:
    first, last = int(everything.start_ns.min()), int(everything.end_ns.max())
    if scope.window is not None:
        first, last = max(first, scope.window[0]), min(last, scope.window[1])
    if first >= last:
        return np.zeros(3, np.int64)
    runs = everything.at(np.flatnonzero(
        (trace.columns.category[everything.rows] != Category.RUNTIME) & (everything.end_ns > everything.start_ns)
    ))  # fmt: skip
    busy = np.r_[first, np.maximum.accumulate(runs.end_ns)] if len(runs) else np.array([first], np.int64)
    begin, end = np.maximum(busy, first), np.r_[runs.start_ns, last]
    end = np.minimum(end, last)
    launched = np.r_[launch_start(trace, runs.rows), np.iinfo(np.int64).min]
    gap = np.flatnonzero(end > begin)
    begin, end, launched = begin[gap], end[gap], launched[gap]
    until = np.clip(launched, begin, end)
    rest = end - until
    is_short = (rest < KERNEL_WAIT_NS) & (launched != np.iinfo(np.int64).min)
    host = int((until - begin).sum())
    return np.array([host, int(rest[is_short].sum()), int(rest[~is_short].sum())], np.int64)
