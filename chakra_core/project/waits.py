"""Which point of a run waits for which: read off the edges, lanes and times of its traces.

Point ``2 row`` is a node's start and ``2 row + 1`` its end, ``base`` added for each rank; points of rendezvous follow.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chakra_core.project.shift import Waits
from chakra_core.schedule import occurrence
from chakra_core.schema import NO_TIME, Category, CommOp, Domain, EdgeKind, LaneKind
from chakra_core.trace import Run, Trace

__all__ = ["is_span", "launch_bound_points", "match_collectives", "no_overlap_waits", "rendezvous_waits", "trace_waits"]

I64 = NDArray[np.int64]
Bool = NDArray[np.bool_]


def trace_waits(trace: Trace, new_dur: I64, in_rendezvous: Bool, launch: float = 1.0) -> Waits:
    """Waits within one rank; ``new_dur`` are the projected durations of device nodes (int64 ns).

    Ends of nodes in ``in_rendezvous`` are left to :func:`rendezvous_waits`; ``launch`` is a factor on the time of
    calls that launch.
    """
    columns = trace.columns
    timed = columns.start_ns != NO_TIME
    spans = is_span(trace)
    device = (columns.domain == Domain.DEVICE) & ~spans & timed
    host = (columns.domain == Domain.HOST) & timed & _on_thread(trace) & ~spans
    bare = timed & ~host & ~spans & (columns.domain == Domain.HOST)
    rows = np.flatnonzero((device | bare) & ~in_rendezvous)
    after = np.where(columns.domain[rows] == Domain.DEVICE, new_dur[rows], columns.dur_ns[rows])
    own = Waits(2 * rows, 2 * rows + 1, columns.dur_ns[rows].copy(), after)
    waiting, kernels = _synchronising(trace, device)
    return Waits.join(
        [
            own,
            _stream_order(trace, device),
            _thread_order(trace, host, waiting, launch),
            kernels,
            _edges(trace, device, waiting),
        ]
    )


def is_span(trace: Trace) -> Bool:
    """Nodes that only mark what others do: annotations on the device, and all of a host lane that does no work.

    Such a lane is an annotation track, or a thread with nothing but annotations and Python frames (one that waits).
    """
    columns = trace.columns
    marking = np.isin(columns.category, [Category.ANNOTATION, Category.PYTHON])
    works = np.zeros(len(trace.lanes) + 1, bool)
    works[columns.lane[~marking]] = True
    track = np.array([lane.kind == LaneKind.ANNOTATION for lane in trace.lanes] + [False])
    bystander = (columns.domain == Domain.HOST) & (columns.lane >= 0) & (track | ~works)[columns.lane]
    marks: Bool = bystander | ((columns.category == Category.ANNOTATION) & (columns.domain == Domain.DEVICE))
    return marks


def _on_thread(trace: Trace) -> Bool:
    thread = np.array([lane.kind == LaneKind.THREAD for lane in trace.lanes] + [False])
    picked: Bool = thread[trace.columns.lane]
    return picked


def _stream_order(trace: Trace, device: Bool) -> Waits:
    """A device node waits for the one before it on its lane: for its end, or its start where they overlap."""
    columns = trace.columns
    rows = np.flatnonzero(device & (columns.lane >= 0))
    rows = rows[np.lexsort((rows, columns.start_ns[rows], columns.lane[rows]))]
    first, second = rows[:-1], rows[1:]
    same = columns.lane[first] == columns.lane[second]
    first, second = first[same], second[same]
    ended = columns.start_ns[first] + columns.dur_ns[first] <= columns.start_ns[second]
    return Waits.at_once(2 * first + ended, 2 * second)


def _thread_order(trace: Trace, host: Bool, waiting: Bool, launch: float) -> Waits:
    """Points of a thread follow each other at their measured distance; ends of waiting calls follow at once."""
    columns = trace.columns
    rows = np.flatnonzero(host)
    points = np.concatenate([2 * rows, 2 * rows + 1])
    time = np.concatenate([columns.start_ns[rows], columns.start_ns[rows] + columns.dur_ns[rows]])
    lane = np.tile(columns.lane[rows], 2)
    order = np.lexsort((points, time, lane))
    points, time, lane = points[order], time[order], lane[order]
    same = lane[:-1] == lane[1:]
    source, target = points[:-1][same], points[1:][same]
    gap = (time[1:] - time[:-1])[same]
    gap[(target % 2 == 1) & waiting[target // 2]] = 0
    if launch == 1.0:
        return Waits(source, target, gap, gap)
    launching = np.zeros(len(trace), bool)
    launching[trace.edges.sources[trace.edges.kinds == EdgeKind.LAUNCH]] = True
    inside = (source // 2 == target // 2) & launching[target // 2] & ~waiting[target // 2]
    return Waits(source, target, gap, np.where(inside, np.rint(gap * launch), gap).astype(np.int64))


def _synchronising(trace: Trace, device: Bool) -> tuple[Bool, Waits]:
    """Calls during which a kernel ends that they may wait for, and the waits on the last such kernel."""
    columns = trace.columns
    names = [at for at, name in enumerate(trace.names) if "synchronize" in name.lower() or _blocking_copy(name)]
    calls = np.flatnonzero((columns.category == Category.RUNTIME) & np.isin(columns.name, names))
    waiting = np.zeros(len(trace), bool)
    kernels = np.flatnonzero(device)
    if not len(kernels) or not len(calls):
        return waiting, Waits.join([])
    ends = columns.start_ns[kernels] + columns.dur_ns[kernels]
    order = np.argsort(ends, kind="stable")
    kernels, ends = kernels[order], ends[order]
    call_end = columns.start_ns[calls] + columns.dur_ns[calls]
    at = np.searchsorted(ends, call_end, side="right") - 1
    waits = (at >= 0) & (ends[at] > columns.start_ns[calls])
    calls, last = calls[waits], kernels[at[waits]]
    waiting[calls] = True
    return waiting, Waits.at_once(2 * last + 1, 2 * calls + 1)


def _blocking_copy(name: str) -> bool:
    lowered = name.lower()
    return "memcpy" in lowered


def _edges(trace: Trace, device: Bool, waiting: Bool) -> Waits:
    """Recorded dependencies between a device node and another, at the pair of points that the measurement allows.

    A kernel waits for the end of the call that launched it; for its start where it begins during the call, or where
    the call in turn waits for the kernel.
    """
    columns = trace.columns
    source, target = trace.edges.sources.astype(np.int64), trace.edges.targets().astype(np.int64)
    timed = columns.start_ns != NO_TIME
    hosts = (columns.domain[source] == Domain.HOST) & (columns.domain[target] == Domain.HOST)
    kept = timed[source] & timed[target] & (device[target] | device[source] | ~hosts)
    kept |= timed[source] & timed[target] & hosts & ~_on_thread(trace)[target]
    source, target, kind = source[kept], target[kept], trace.edges.kinds[kept]
    start, end = columns.start_ns, columns.start_ns + columns.dur_ns
    from_end = (end[source] <= start[target]) & ~((kind == EdgeKind.LAUNCH) & waiting[source])
    from_start = (kind == EdgeKind.LAUNCH) & ~from_end & (start[source] <= start[target])
    ok = from_end | from_start
    return Waits.at_once(2 * source[ok] + from_end[ok], 2 * target[ok])


def no_overlap_waits(trace: Trace) -> Waits:
    """Waits that keep communication and other device work apart, in the order in which they were measured."""
    columns = trace.columns
    rows = np.flatnonzero((columns.domain == Domain.DEVICE) & (columns.start_ns != NO_TIME) & ~is_span(trace))
    rows = rows[np.lexsort((rows, columns.start_ns[rows]))]
    communicates = (columns.comm_op[rows] != CommOp.NONE) | (columns.category[rows] == Category.COMMUNICATION)
    place = np.arange(len(rows))
    parts = []
    for kind in (communicates, ~communicates):
        last = np.maximum.accumulate(np.where(~kind, place, -1))
        chosen = kind & (last >= 0)
        parts.append(Waits.only_projected(2 * rows[last[chosen]] + 1, 2 * rows[chosen]))
    return Waits.join(parts)


def launch_bound_points(trace: Trace, time: I64, waits: Waits) -> I64:
    """Starts of device nodes that waited for their launching call longer than for anything else (point numbers)."""
    columns = trace.columns
    launches = np.zeros(2 * len(trace), bool)
    sources = trace.edges.sources[trace.edges.kinds == EdgeKind.LAUNCH]
    launches[2 * sources], launches[2 * sources + 1] = True, True
    lowest = np.iinfo(np.int64).min
    by_launch, by_other = np.full(len(time), lowest, np.int64), np.full(len(time), lowest, np.int64)
    reached = time[waits.source] + np.maximum(waits.before, 0)
    launched = launches[waits.source]
    np.maximum.at(by_launch, waits.target[launched], reached[launched])
    np.maximum.at(by_other, waits.target[~launched], reached[~launched])
    points = np.flatnonzero((by_launch > lowest) & (by_launch >= by_other))
    points = points[points % 2 == 0]
    return points[columns.domain[points // 2] == Domain.DEVICE]


def match_collectives(run: Run) -> tuple[I64, I64, I64]:
    """Members of the collectives of a run that at least two ranks took part in.

    Matched by group, operation and sequence number; by order within the group where the trace has no numbers.

    Returns:
        Trace number, row and number of the meeting of each member (int64, parallel), meeting by meeting.
    """
    codes: dict[object, int] = {"": 0}
    parts = [np.empty((5, 0), np.int64)]
    for number, trace in enumerate(run.traces):
        columns = trace.columns
        chosen = (columns.domain == Domain.DEVICE) & (columns.comm_op != CommOp.NONE) & (columns.start_ns != NO_TIME)
        rows = np.flatnonzero(chosen & ~np.isin(columns.comm_op, [CommOp.SEND, CommOp.RECV]))
        rows = rows[np.argsort(columns.start_ns[rows], kind="stable")]
        known = [codes.setdefault(group.ranks or group.name, len(codes)) for group in trace.meta.groups]
        group = columns.comm_group[rows]
        inside = (group >= 0) & (group < len(known))
        code = np.array([*known, 0], np.int64)[np.where(inside, group, len(known))]
        operation = columns.comm_op[rows].astype(np.int64)
        turn = occurrence(code * (int(operation.max(initial=0)) + 1) + operation)
        sequence = np.where(columns.comm_seq[rows] >= 0, columns.comm_seq[rows], turn)
        parts.append(np.stack([np.full(len(rows), number), rows, code, operation, sequence]))
    table = np.concatenate(parts, axis=1)
    table = table[:, np.lexsort((table[0], table[4], table[3], table[2]))]
    same = (table[2:, 1:] == table[2:, :-1]).all(axis=0)
    meeting = np.concatenate([np.zeros(min(table.shape[1], 1), np.int64), np.cumsum(~same)])
    twice = same & (table[0, 1:] == table[0, :-1])
    doubled = np.bincount(meeting[1:][twice], minlength=int(meeting.max(initial=-1)) + 1)
    kept = (np.bincount(meeting) > 1) & (doubled == 0)
    members = kept[meeting]
    return table[0, members], table[1, members], (np.cumsum(kept) - 1)[meeting[members]]


def rendezvous_waits(run: Run, new_dur: list[I64], base: I64, first: int) -> tuple[Waits, I64, list[Bool]]:
    """Waits of matched collectives on their last arrival, through one extra point each.

    A collective lasts, from that arrival on, as long as its shortest member did.

    Returns:
        The waits, the measured times of the extra points (numbered from ``first``), and per trace a mask of the
        members.
    """
    inside = [np.zeros(len(trace), bool) for trace in run.traces]
    number, row, meeting = match_collectives(run)
    if not len(meeting):
        return Waits.join([]), np.zeros(0, np.int64), inside
    begins = np.flatnonzero(np.diff(meeting, prepend=-1))
    at = base[number] // 2 + row
    start, dur = (
        np.concatenate([getattr(trace.columns, name) for trace in run.traces])[at] for name in ("start_ns", "dur_ns")
    )
    times = np.maximum.reduceat(start, begins)
    before = np.minimum.reduceat(dur, begins)[meeting]
    after = np.minimum.reduceat(np.concatenate(new_dur)[at], begins)[meeting]
    for trace, mask in enumerate(inside):
        mask[row[number == trace]] = True
    point, arrival = first + meeting, base[number] + 2 * row
    waits = [Waits.at_once(arrival, point), Waits(point, arrival + 1, before, after)]
    return Waits.join(waits), times, inside
