"""A measured run as it would go on other hardware: a Run like any other, labelled simulated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from chakra_core.errors import AnalysisError
from chakra_core.hardware import Device, lookup
from chakra_core.project.accuracy import stated_error
from chakra_core.project.mapping import check_mapping, mapping_text
from chakra_core.project.retime import Knobs, retime
from chakra_core.project.shift import Waits, move_points
from chakra_core.project.waits import is_span, launch_bound_points, no_overlap_waits, rendezvous_waits, trace_waits
from chakra_core.schedule import replay, with_lanes
from chakra_core.schema import NO_TIME, SIMULATED_ON, Domain, TimeKind
from chakra_core.trace import Run, Trace

__all__ = ["project_run", "source_device"]

I64 = NDArray[np.int64]


def source_device(run: Run, catalogue: Sequence[Device] | None = None) -> Device:
    """The catalogue entry for the hardware a run was measured on.

    Raises:
        AnalysisError: the run does not name its hardware, or the catalogue has no entry for it.
    """
    metas = [trace.meta for trace in run.traces]
    simulated = (str(meta.details.get(SIMULATED_ON, "")) for meta in metas)
    names = list(dict.fromkeys([run.hardware, *(meta.hardware for meta in metas), *simulated]))
    for name in names:
        found = lookup(name, catalogue)
        if found is not None:
            return found
    said = ", ".join(repr(name) for name in names if name) or "nothing"
    raise AnalysisError(f"{run.label}: its hardware ({said}) is not in the catalogue; name the device it ran on")


def project_run(run: Run, device: Device, *, source: Device | None = None, knobs: Knobs | None = None) -> Run:
    """A run's timeline on another device.

    Device nodes are re-timed by :func:`chakra_core.project.retime.retime`, then all points of all ranks are moved
    by :func:`chakra_core.project.shift.move_points`: kernels keep their launch latency and their order, host work its
    duration, synchronising calls wait for their kernels, collectives for the last rank. A run whose times were
    reconstructed or simulated is replayed by :func:`chakra_core.schedule.replay` instead, as those times were made.

    Args:
        run: measured (or reconstructed) run with start times.
        device: what to project onto.
        source: what it was measured on; found by its name by default.
        knobs: factors on the target.

    Raises:
        AnalysisError: the source hardware is unknown, or the run has no device work or no times.
    """
    knobs = knobs or Knobs()
    if not any(len(trace.device_rows) for trace in run.traces):
        raise AnalysisError(f"{run.label}: no device work in it, nothing to project onto {device.name}")
    if not all(trace.has_times for trace in run.traces):
        raise AnalysisError(f"{run.label}: a rank has no start times; replay the run before projecting it")
    check_mapping(run, knobs.mapping)
    origin = source or source_device(run)
    counts: Counter[str] = Counter()
    durations: list[I64] = []
    for trace in run.traces:
        retimed = retime(trace, origin, device, knobs, len(run.traces))
        counts.update(retimed.counts)
        durations.append(np.maximum(np.rint(trace.columns.dur_ns * retimed.factor), 0).astype(np.int64))
    measured = _is_measured(run)
    traces = _shifted(run, durations, knobs) if measured else _replayed(run, durations, knobs)
    traces = tuple(_labelled(trace, device, measured=measured) for trace in traces)
    label = f"{run.label} on {device.name} (simulated)"
    said = (*run.assumptions, *_assumptions(origin, device, knobs, counts, measured=measured))
    return Run(traces, label, device.name, run.groups, run.health, said)


def _is_measured(run: Run) -> bool:
    """Whether the timeline is a measured one, or a measured one that was projected before."""
    return run.time_kind == TimeKind.MEASURED or all(_ORIGIN in trace.meta.details for trace in run.traces)


def _labelled(trace: Trace, device: Device, *, measured: bool) -> Trace:
    details = {**trace.meta.details, **({_ORIGIN: str(TimeKind.MEASURED)} if measured else {})}
    meta = replace(trace.meta, hardware=device.name, time_kind=TimeKind.SIMULATED, details=MappingProxyType(details))
    return trace.with_(meta=meta)


def _replayed(run: Run, durations: list[I64], knobs: Knobs) -> tuple[Trace, ...]:
    traces = [with_lanes(trace) for trace in run.traces]
    if not knobs.overlap:
        traces = [_one_resource(trace) for trace in traces]
    return replay(traces, durations).traces


def _one_resource(trace: Trace) -> Trace:
    """All device work on one lane per device, so that nothing runs beside anything else."""
    device = np.array([lane.device if lane.domain == Domain.DEVICE else -1 for lane in trace.lanes], np.int64)
    first = {int(number): int(np.flatnonzero(device == number)[0]) for number in np.unique(device[device >= 0])}
    merged = np.array([first.get(int(number), at) for at, number in enumerate(device)], np.int64)
    return trace.with_(columns=trace.columns.with_(lane=merged[trace.columns.lane]))


def _shifted(run: Run, durations: list[I64], knobs: Knobs) -> tuple[Trace, ...]:
    times = _moved(run, durations, knobs)
    return tuple(_with_times(trace, start, end) for trace, (start, end) in zip(run.traces, times, strict=True))


def _moved(run: Run, durations: list[I64], knobs: Knobs) -> list[tuple[I64, I64]]:
    sizes = np.array([2 * len(trace) for trace in run.traces], np.int64)
    base = np.concatenate([[0], np.cumsum(sizes)])
    across, meetings, inside = rendezvous_waits(run, durations, base, int(base[-1]))
    parts, times = [across], []
    slack = None if knobs.launch == 1.0 else np.ones(int(base[-1]) + len(meetings))
    for trace, new_dur, members, offset in zip(run.traces, durations, inside, base, strict=False):
        columns = trace.columns
        start = np.where(columns.start_ns == NO_TIME, 0, columns.start_ns)
        times.append(np.stack([start, start + columns.dur_ns], axis=1).ravel())
        waits = trace_waits(trace, new_dur, members, knobs.launch)
        if slack is not None:
            slack[offset + launch_bound_points(trace, times[-1], waits)] = knobs.launch
        if not knobs.overlap:
            waits = Waits.join([waits, no_overlap_waits(trace)])
        parts.append(Waits(waits.source + offset, waits.target + offset, waits.before, waits.after))
    moved = move_points(np.concatenate([*times, meetings]), Waits.join(parts), slack)
    split = [moved[base[at] : base[at + 1]] for at in range(len(run.traces))]
    return [(points[0::2], points[1::2]) for points in split]


def _with_times(trace: Trace, start: I64, end: I64) -> Trace:
    columns = trace.columns
    timed = columns.start_ns != NO_TIME
    device = columns.domain == Domain.DEVICE
    marks = timed & is_span(trace)
    start, end = start.copy(), end.copy()
    for spans, inside in ((marks & device, timed & device & ~marks), (marks & ~device, timed & ~marks)):
        rows, points = np.flatnonzero(spans), np.flatnonzero(inside)
        if len(rows) and len(points):
            start[rows], end[rows] = _around(trace, rows, points, start, end)
    start = np.where(timed, start, NO_TIME)
    duration = np.where(timed, np.maximum(end - np.where(timed, start, 0), 0), columns.dur_ns)
    return trace.with_(columns=columns.with_(start_ns=start, dur_ns=duration))


def _around(trace: Trace, spans: I64, inside: I64, start: I64, end: I64) -> tuple[I64, I64]:
    """New times of annotations: around what starts or ends in them, with the margins that they had."""
    columns = trace.columns
    old = np.concatenate([columns.start_ns[inside], columns.start_ns[inside] + columns.dur_ns[inside]])
    order = np.argsort(old, kind="stable")
    old, new = old[order], np.concatenate([start[inside], end[inside]])[order]
    before, after = columns.start_ns[spans], columns.start_ns[spans] + columns.dur_ns[spans]
    first, last = np.searchsorted(old, before, side="left"), np.searchsorted(old, after, side="right")
    moved_start, moved_end = before.copy(), after.copy()
    for at in np.flatnonzero(first < last).tolist():
        part = slice(int(first[at]), int(last[at]))
        moved_start[at] = new[part].min() - (old[part][0] - before[at])
        moved_end[at] = new[part].max() + (after[at] - old[part][-1])
    return moved_start, moved_end


_ORIGIN = "projected_from"
"""Key in ``TraceMeta.details`` of a projected trace whose timeline keeps the lags of a measurement."""

_MEASURED = "host work, launch latency and gaps as measured; a synchronising call waits for the last kernel it saw end"
_REPLAYED = "host work as it was; every node starts when its dependencies are done and its lane is free"


def _assumptions(origin: Device, device: Device, knobs: Knobs, counts: Counter[str], *, measured: bool) -> list[str]:
    peak, used = device.peak(knobs.precision)
    said = [
        (
            f"from {origin.name} to {device.name}: {origin.peak(knobs.precision)[0] / 1e12:g} to {peak / 1e12:g} "
            f"TFLOP/s {used}, {origin.memory_bandwidth / 1e9:g} to {device.memory_bandwidth / 1e9:g} GB/s memory"
        ),
        _MEASURED if measured else _REPLAYED,
        f"collectives: {knobs.algorithm}, alpha-beta, start when the last rank arrives; without contention between groups",
    ]
    if not knobs.overlap:
        said.append("communication never runs beside compute")
    if knobs.domain:
        said.append(f"{knobs.domain:,} devices in one scale-up domain instead of {device.domain_size:,}")
    if knobs.mapping:
        said.append(f"process groups laid over the network: {mapping_text(knobs.mapping)}")
    said += [f"{name.replace('_', ' ')} x {value:g}" for name, value in knobs.changed.items()]
    said += [f"{number:,} {words}" for words, number in sorted(counts.items())]
    if origin.link_bandwidth is None or device.link_bandwidth is None:
        said.append("link bandwidth unknown for one of the devices: communication left as measured")
    known = stated_error(origin.name, device.name)
    if known:
        said.append(known)
    return said
