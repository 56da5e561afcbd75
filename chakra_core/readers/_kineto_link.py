"""Who launched what, and who waits for whom: the edges that a measured trace gives.

Every edge points forward in start time, with one exception: a launch whose kernel starts before it (clocks that
disagree) keeps its edge, and then no synchronisation edge may lead into that launch. So the graph has no cycle.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakra_core.readers import _kineto_nest as nest
from chakra_core.readers._kineto_kinds import FLOW_LAUNCH
from chakra_core.readers._kineto_nodes import Nodes, phase_is, track_of
from chakra_core.readers._kineto_raw import RawEvents
from chakra_core.readers._kineto_scan import MISSING, Key
from chakra_core.schema import NO_TIME, Category, Domain, EdgeKind

__all__ = ["Links", "link_nodes", "lookup", "node_of_event", "sparse_of"]

I64 = NDArray[np.int64]


@dataclass
class Links:
    """Launch row of each device node (-1: none), the edges, and what was odd."""

    launch: NDArray[np.int32]
    sources: I64
    targets: I64
    kinds: NDArray[np.int8]
    problems: dict[str, I64] = field(default_factory=dict)


def sparse_of(raw: RawEvents, key: int) -> tuple[I64, I64]:
    """Event rows that have a rare argument, and its values."""
    rows = raw.sparse[raw.sparse[:, 1] == key]
    return rows[:, 0], rows[:, 2]


def node_of_event(raw: RawEvents, nodes: Nodes) -> NDArray[np.int32]:
    """Node row of each event row, -1 where the event is no node."""
    rows = np.full(len(raw), -1, np.int32)
    rows[nodes.event] = np.arange(len(nodes), dtype=np.int32)
    return rows


def lookup(keys: I64, rows: I64, wanted: I64) -> I64:
    """The first of ``rows`` whose key equals each wanted value, -1 where none does."""
    if not len(keys):
        return np.full(len(wanted), -1, np.int64)
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    at = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
    return np.where(ordered[at] == wanted, rows[order[at]], -1)


def link_nodes(raw: RawEvents, nodes: Nodes) -> Links:
    """Join launches, then derive launch, stream, synchronisation and inter-thread edges."""
    work = np.flatnonzero(nodes.is_work)
    flows = _Flows(raw, nodes)
    launch = np.full(len(nodes), -1, np.int32)
    launch[work] = _launches(raw, nodes, work, flows)
    problems = _launch_problems(nodes, work, launch)
    nodes.parent[work] = launch[work]
    parts = [_launch_edges(nodes, work, launch)]
    before, overlaps = _stream_order(nodes, work)
    problems["stream-overlap"] = np.flatnonzero(overlaps)
    follows = np.flatnonzero(before >= 0)
    parts.append((before[follows].astype(np.int64), follows, np.full(len(follows), EdgeKind.STREAM, np.int8)))
    backward = np.zeros(len(nodes), np.bool_)
    backward[launch[problems["kernel-before-launch"]]] = True
    parts.append(_sync_edges(raw, nodes, work, launch, backward))
    parts.append(_device_waits(raw, nodes, work, before))
    parts.append(flows.between_threads())
    sources, targets, kinds = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Links(launch, sources, targets, kinds, problems)


def _launches(raw: RawEvents, nodes: Nodes, work: I64, flows: _Flows) -> I64:
    """Launch of each row in ``work``: by correlation, else by flow, else the operator that External id names."""
    host = (nodes.domain == Domain.HOST) & ~nodes.is_sync
    calls = np.flatnonzero(host & (nodes.category == Category.RUNTIME) & (nodes.correlation > 0))
    correlation = nodes.correlation[work]
    found = lookup(nodes.correlation[calls], calls, correlation)
    found[(correlation == MISSING) | (correlation == 0)] = -1
    lacking = np.flatnonzero(found < 0)
    if len(lacking):
        found[lacking] = flows.launch_of(work[lacking])
        lacking = np.flatnonzero(found < 0)
    if len(lacking):
        external = raw.fields["external"][nodes.event]
        usual = host & np.isin(nodes.category, (Category.HOST_OP, Category.ANNOTATION)) & (external > 0)
        operators = np.flatnonzero(usual)
        wanted = external[work[lacking]]
        by_id = lookup(external[operators], operators, wanted)
        by_id[(wanted == MISSING) | (wanted == nodes.correlation[work[lacking]])] = -1
        found[lacking] = by_id
    return found


def _launch_problems(nodes: Nodes, work: I64, launch: NDArray[np.int32]) -> dict[str, I64]:
    by = launch[work]
    called = (by >= 0) & (nodes.category[by] == Category.RUNTIME)
    early = called & (nodes.start[work] < nodes.start[by])
    early &= (nodes.start[work] != NO_TIME) & (nodes.start[by] != NO_TIME)
    return {"kernel-without-launch": work[~called], "kernel-before-launch": work[early]}


def _launch_edges(nodes: Nodes, work: I64, launch: NDArray[np.int32]) -> tuple[I64, I64, NDArray[np.int8]]:
    """From the launching call; from an operator found by id only where it starts no later than the kernel."""
    by = launch[work].astype(np.int64)
    keep = (by >= 0) & ((nodes.category[by] == Category.RUNTIME) | (nodes.start[by] <= nodes.start[work]))
    return by[keep], work[keep], np.full(int(keep.sum()), EdgeKind.LAUNCH, np.int8)


def _stream_order(nodes: Nodes, work: I64) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    timed = work[nodes.start[work] != NO_TIME]
    end = nodes.end
    order = timed[np.lexsort((timed, end[timed], nodes.start[timed], nodes.lane[timed]))]
    before, overlaps = nest.stream_predecessors(order, nodes.lane, nodes.start, end)
    return before, overlaps


class _Flows:
    """Flow events (s, t, f) bound to the slices they start and end at."""

    def __init__(self, raw: RawEvents, nodes: Nodes) -> None:
        self.nodes = nodes
        rows = np.flatnonzero(phase_is(raw, "stf") & (raw.fields["ts"] != MISSING))
        base = _base_of(raw, nodes)
        self.time = raw.fields["ts"][rows] + base
        self.track = track_of(raw, rows)
        self.begins = raw.phases[rows] == ord("s")
        cat = raw.fields["cat"][rows]
        launching = np.array([text.lower() in FLOW_LAUNCH for text in raw.strings] + [False])
        self.launching = launching[cat]
        mixed = raw.fields["id"][rows].astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + cat.astype(np.uint64)
        self.key = mixed.view(np.int64)

    def launch_of(self, wanted: I64) -> I64:
        """Host slice that a launch flow leads from to each wanted device row, -1 where there is none."""
        into, out = self.launching & ~self.begins, self.launching & self.begins
        if not into.any() or not out.any():
            return np.full(len(wanted), -1, np.int64)
        nodes = self.nodes
        spot = _mix(nodes.track[wanted], nodes.start[wanted])
        arrival = lookup(_mix(self.track[into], self.time[into]), np.flatnonzero(into), spot)
        departure = lookup(self.key[out], np.flatnonzero(out), self.key[arrival])
        found = np.full(len(wanted), -1, np.int64)
        good = np.flatnonzero((arrival >= 0) & (departure >= 0))
        found[good] = self._bind(departure[good])
        return found

    def between_threads(self) -> tuple[I64, I64, NDArray[np.int8]]:
        """Edges of all other flows: from the slice a flow starts at to the one it goes on or ends at."""
        chosen = np.flatnonzero(~self.launching)
        none = np.zeros(0, np.int64)
        if not len(chosen):
            return none, none, np.zeros(0, np.int8)
        order = chosen[np.lexsort((self.time[chosen], ~self.begins[chosen], self.key[chosen]))]
        bound = self._bind(order)
        sources, targets = bound[:-1], bound[1:]
        start = self.nodes.start
        keep = (self.key[order[:-1]] == self.key[order[1:]]) & ~self.begins[order[1:]]
        keep &= (sources >= 0) & (targets >= 0) & (sources != targets)
        keep &= start[sources] < start[targets]
        return sources[keep], targets[keep], np.full(int(keep.sum()), EdgeKind.INTER_THREAD, np.int8)

    def _bind(self, flows: I64) -> I64:
        nodes = self.nodes
        bound = nest.bind_points(
            nodes.order, nodes.track, nodes.start, nodes.end, nodes.parent, self.track[flows], self.time[flows]
        ).astype(np.int64)
        found: I64 = bound
        for _ in range(64):  # of nested operators that start together, the outermost is meant
            above = np.where(found >= 0, nodes.parent[found], -1)
            same = (above >= 0) & (nodes.start[above] == nodes.start[found])
            same &= (nodes.category[above] == Category.HOST_OP) & (nodes.start[found] == self.time[flows])
            if not same.any():
                break
            found = np.where(same, above, found)
        return found


def _base_of(raw: RawEvents, nodes: Nodes) -> int:
    timed = np.flatnonzero(nodes.start != NO_TIME)
    if not len(timed):
        return 0
    return int(nodes.start[timed[0]] - raw.fields["ts"][nodes.event[timed[0]]])


def _mix(one: Any, two: Any) -> I64:
    mixed = one.astype(np.uint64) * np.uint64(0xD1B54A32D192ED03) ^ two.astype(np.uint64)
    spread: I64 = (mixed * np.uint64(0x9E3779B97F4A7C15)).view(np.int64)
    return spread


_SYNC_NAMES = ("devicesynchronize", "ctxsynchronize", "streamsynchronize", "eventsynchronize")


def _sync_edges(
    raw: RawEvents, nodes: Nodes, work: I64, launch: NDArray[np.int32], backward: NDArray[np.bool_]
) -> tuple[I64, I64, NDArray[np.int8]]:
    """From the last kernels a synchronising call waits for to what the calling thread does next.

    Device and context calls wait for every stream; stream and event calls for the stream that the trace names
    (``cuda_sync`` events), else for the kernel that ends last while the call waits. A wait of one stream for another
    leads from the last kernel before the recorded event to the first kernel after the wait.
    """
    waits = _Waits(raw, nodes, work, launch)
    sources: list[int] = []
    targets: list[int] = []
    calls = waits.calls()
    following = _next_slices(nodes, np.array([call for call, _ in calls], np.int64))
    for (call, kind), target in zip(calls, following.tolist(), strict=True):
        if target < 0 or backward[target]:
            continue
        for kernel in waits.kernels_before(call, kind):
            if (
                nodes.start[kernel] < nodes.start[target]
                and nodes.start[kernel] + nodes.dur[kernel] <= nodes.start[target]
            ):
                sources.append(kernel)
                targets.append(target)
    for one, two in waits.between_streams():
        sources.append(one)
        targets.append(two)
    return np.array(sources, np.int64), np.array(targets, np.int64), np.full(len(sources), EdgeKind.SYNC, np.int8)


def _device_waits(
    raw: RawEvents, nodes: Nodes, work: I64, before: NDArray[np.int32]
) -> tuple[I64, I64, NDArray[np.int8]]:
    """Where device events wait for device events (MTIA): from the recorded event to what follows the wait.

    A wait names the stream it waits for and the number that the event recorded there has.
    """
    number_at, number = sparse_of(raw, Key.EVENT_NUMBER)
    waited_at, waited = sparse_of(raw, Key.WAIT_STREAM)
    numbers, streams = (np.full(len(raw), MISSING, np.int64) for _ in range(2))
    numbers[number_at], streams[waited_at] = number, waited
    marks = work[(nodes.category[work] == Category.RUNTIME) & (numbers[nodes.event[work]] != MISSING)]
    is_wait = streams[nodes.event[marks]] != MISSING
    waits, records = marks[is_wait], marks[~is_wait]
    found = lookup(
        _mix(nodes.stream[records], numbers[nodes.event[records]]), records,
        _mix(streams[nodes.event[waits]], numbers[nodes.event[waits]]),
    )  # fmt: skip
    after = np.full(len(nodes), -1, np.int64)
    follows = np.flatnonzero(before >= 0)
    after[before[follows]] = follows
    target = after[waits]
    keep = (found >= 0) & (target >= 0)
    keep &= nodes.end[found] <= nodes.start[target]
    return found[keep], target[keep], np.full(int(keep.sum()), EdgeKind.SYNC, np.int8)


def _next_slices(nodes: Nodes, rows: I64) -> I64:
    """For each of these host slices the first on its thread that starts when it has ended, or later (-1: none)."""
    order = nodes.order
    following = np.full(len(rows), -1, np.int64)
    if not len(rows):
        return following
    track, start = nodes.track[order], nodes.start[order]
    firsts = np.searchsorted(track, nodes.track[rows], side="left")
    bounds = np.searchsorted(track, nodes.track[rows], side="right")
    stops = nodes.start[rows] + nodes.dur[rows]
    spans = zip(rows.tolist(), firsts.tolist(), bounds.tolist(), stops.tolist(), strict=True)
    for which, (row, low, high, stop) in enumerate(spans):
        at = low + int(np.searchsorted(start[low:high], stop))
        while at < high and order[at] == row:
            at += 1
        if at < high:
            following[which] = order[at]
    return following


class _Waits:
    """The synchronising calls of a trace and the kernels each of them waits for."""

    def __init__(self, raw: RawEvents, nodes: Nodes, work: I64, launch: NDArray[np.int32]) -> None:
        self.raw, self.nodes = raw, nodes
        timed = work[nodes.start[work] != NO_TIME]
        by = launch[timed]
        issued = np.where((by >= 0) & (nodes.start[by] != NO_TIME), nodes.start[by], nodes.start[timed])
        order = np.argsort(nodes.end[timed], kind="stable")
        self.rows, self.issued = timed[order], issued[order]
        self.ends = nodes.end[self.rows]
        self.stream, self.device = nodes.stream[self.rows], nodes.device[self.rows]
        self.lane = nodes.lane[self.rows]
        self.details = self._details()

    def _details(self) -> dict[int, tuple[str, int, int, int]]:
        """What ``cuda_sync`` events say, by correlation: kind, stream, device, correlation of the event record."""
        raw, nodes = self.raw, self.nodes
        rows = np.flatnonzero(nodes.is_sync)
        if not len(rows):
            return {}
        stream = dict(zip(*(part.tolist() for part in sparse_of(raw, Key.WAIT_STREAM)), strict=True))
        record = dict(zip(*(part.tolist() for part in sparse_of(raw, Key.WAIT_RECORD)), strict=True))
        found = {}
        for row in rows.tolist():
            event = int(nodes.event[row])
            waited = stream.get(event, int(nodes.stream[row]))
            name = raw.strings[nodes.name[row]]
            found[int(nodes.correlation[row])] = (name, waited, int(nodes.device[row]), record.get(event, -1))
        return found

    def calls(self) -> list[tuple[int, str]]:
        """Synchronising runtime calls with their kind (``device``, ``stream`` or ``event``)."""
        nodes = self.nodes
        kinds: dict[int, str] = {}
        for code, text in enumerate(self.raw.strings):
            low = text.lower()
            for name in _SYNC_NAMES:
                if name in low and len(low) < 48:
                    kinds[code] = {"c": "device", "d": "device", "s": "stream", "e": "event"}[name[0]]
        codes = np.array(sorted(kinds), np.int64)
        is_call = (nodes.category == Category.RUNTIME) & ~nodes.is_sync & (nodes.start != NO_TIME)
        rows = np.flatnonzero(is_call & np.isin(nodes.name, codes))
        return [(row, kinds[int(nodes.name[row])]) for row in rows.tolist()]

    def kernels_before(self, call: int, kind: str) -> list[int]:
        """Rows of the kernels the call waits for."""
        nodes = self.nodes
        begin, stop = int(nodes.start[call]), int(nodes.start[call] + nodes.dur[call])
        high = int(np.searchsorted(self.ends, stop, side="right"))
        low = max(0, high - 4096)
        issued = self.issued[low:high] < begin
        if kind == "device":
            found: dict[int, int] = {}
            for at in np.flatnonzero(issued).tolist():
                found[int(self.lane[low + at])] = int(self.rows[low + at])
            return list(found.values())
        detail = self.details.get(int(nodes.correlation[call]))
        if detail is not None and detail[1] >= 0:
            limit = self._record_time(detail[3], begin)
            issued = (self.issued[low:high] < limit) & (self.stream[low:high] == detail[1])
            issued &= self.device[low:high] == detail[2]
        elif not issued.any() or self.ends[low:high][issued][-1] <= begin:
            return []
        fitting = np.flatnonzero(issued)
        return [int(self.rows[low + fitting[-1]])] if len(fitting) else []

    def _record_time(self, correlation: int, otherwise: int) -> int:
        if correlation <= 0:
            return otherwise
        nodes = self.nodes
        rows = np.flatnonzero((nodes.correlation == correlation) & ~nodes.is_sync & (nodes.domain == Domain.HOST))
        return int(nodes.start[rows[0]]) if len(rows) else otherwise

    def between_streams(self) -> list[tuple[int, int]]:
        """Pairs (last kernel before the recorded event, first kernel on the stream that waits for it)."""
        nodes, pairs = self.nodes, []
        for row in np.flatnonzero(nodes.is_sync).tolist():
            name, waited, device, record = self.details[int(nodes.correlation[row])]
            own = int(nodes.stream[row])
            if "Wait" not in name or record <= 0 or waited in (-1, own):
                continue
            calls = np.flatnonzero((nodes.correlation == nodes.correlation[row]) & ~nodes.is_sync)
            since = int(nodes.start[calls[0]]) if len(calls) else int(nodes.start[row])
            here = self.device == device
            earlier = here & (self.stream == waited) & (self.issued < self._record_time(record, since))
            later = np.flatnonzero(here & (self.stream == own) & (self.issued >= since))
            if earlier.any() and len(later):
                one = int(self.rows[np.flatnonzero(earlier)[-1]])
                two = int(self.rows[later[np.argmin(nodes.start[self.rows[later]])]])
                if nodes.start[one] + nodes.dur[one] <= nodes.start[two] and nodes.start[one] < nodes.start[two]:
                    pairs.append((one, two))
        return pairs
