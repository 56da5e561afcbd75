"""Who waits for whom in a measured trace: launches, synchronising calls, copies that block, other dependencies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakra_core.schema import Category, Domain, EdgeKind
from chakra_core.trace import Trace

__all__ = ["LIKELY_NS", "STOOD_NS", "SYNC_CALLS", "Waits", "find_waits", "is_sync_call"]

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
Mask = NDArray[np.bool_]

SYNC_CALLS: tuple[str, ...] = ("devicesynchronize", "ctxsynchronize", "streamsynchronize", "eventsynchronize")
"""A runtime call whose name holds one of these waits for the device (CUDA, HIP, MUSA and others name them alike)."""

LIKELY_NS = 10_000
"""How soon after work on another stream a kernel must start to have waited for it, where the trace does not say."""

STOOD_NS = 20_000
"""How long it must have stood still before."""

_NEAR = 8
_MAX_NAME = 48
_LOOK_BACK = 64
_ENGINE = "autograd::engine::evaluate_function"


@dataclass(frozen=True, slots=True)
class Waits:
    """What the graph of points needs to know beyond the events themselves.

    Attributes:
        launch: per slot of device work, the slot of its launching call; -1: unknown.
        blocked: per slot, whether it is a call that only waited for work whose end is known.
        source: point that each further edge leaves from, ordered by target.
        target: point that it leads to.
        weight: what it weighs, ns.
    """

    launch: I32
    blocked: Mask
    source: I32
    target: I32
    weight: I64


def is_sync_call(trace: Trace) -> Mask:
    """Per row, whether it is a runtime call that waits for the device."""
    named = np.array(
        [len(name) < _MAX_NAME and any(word in name.lower() for word in SYNC_CALLS) for name in trace.names], np.bool_
    )
    c = trace.columns
    found: Mask = (c.category == Category.RUNTIME) & (c.domain == Domain.HOST)
    found &= named[c.name] if len(named) else False
    return found


def find_waits(trace: Trace, rows: I64, first: I32, last: I32, *, inter_thread: bool) -> Waits:
    """Launches and further edges among the used rows.

    Args:
        trace: the trace.
        rows: rows used; a row's place among them is its slot.
        first: point where each slot begins.
        last: point where it ends.
        inter_thread: whether edges that are neither launch, stream order nor synchronisation are wanted.
    """
    slot_of = np.full(len(trace) + 1, -1, np.int32)  # the last entry is that of row -1
    slot_of[rows] = np.arange(len(rows), dtype=np.int32)
    c = trace.columns
    device = c.domain[rows] == Domain.DEVICE
    launch = np.where(device, slot_of[c.parent[rows]], -1).astype(np.int32)
    launch[(launch >= 0) & device[launch]] = -1
    finder = _Finder(trace, rows, slot_of, first, last, launch)
    stated = finder.synchronised()
    parts = [stated, finder.other_calls(stated[1]), finder.blocking_copies(), finder.likely()]
    blocked = np.zeros(len(rows), np.bool_)
    for _, call, _ in parts:
        blocked[call[~device[call]]] = True
    source = [last[work].astype(np.int64) for work, _, _ in parts]
    target = [np.where(device[to], first[to], last[to]).astype(np.int64) for _, to, _ in parts]
    weight = [weighs for _, _, weighs in parts]
    if inter_thread:
        for one, two in (finder.others(), finder.helpers()):
            source, target = [*source, one], [*target, two]
            weight = [*weight, np.zeros(len(one), np.int64)]
    sources, targets, weights = np.concatenate(source), np.concatenate(target), np.concatenate(weight)
    kept = np.flatnonzero(sources < targets)
    kept = kept[np.argsort(targets[kept], kind="stable")]
    return Waits(
        launch, blocked, sources[kept].astype(np.int32), targets[kept].astype(np.int32), weights[kept].astype(np.int64)
    )


class _Finder:
    """Pairs (work, what waits for it) as slots, from the edges of the trace and the names of its calls."""

    def __init__(self, trace: Trace, rows: I64, slot_of: I32, first: I32, last: I32, launch: I32) -> None:
        c = trace.columns
        self.trace, self.rows, self.slot_of, self.first, self.last, self.launch = (
            trace,
            rows,
            slot_of,
            first,
            last,
            launch,
        )
        self.start = c.start_ns[rows]
        self.end = self.start + c.dur_ns[rows]
        self.lane = c.lane[rows].astype(np.int64)
        self.device = c.domain[rows] == Domain.DEVICE
        calls = np.flatnonzero(is_sync_call(trace)[rows])
        self.calls = calls[np.lexsort((self.end[calls], self.lane[calls]))]
        targets = trace.edges.targets() if len(trace.edges) else np.zeros(0, np.int32)
        self.edge_source, self.edge_target = slot_of[trace.edges.sources], slot_of[targets]
        self.known = (self.edge_source >= 0) & (self.edge_target >= 0)

    def synchronised(self) -> tuple[I64, I64, I64]:
        """Synchronisation that the trace states: to the call that waited, or to the device work that waits.

        Readers lead such an edge to what the thread does next, so that it goes forward in time; here it leads to the
        end of the last synchronising call before that, on the same thread.
        """
        chosen = np.flatnonzero(self.known & (self.trace.edges.kinds == EdgeKind.SYNC))
        work, to = self.edge_source[chosen].astype(np.int64), self.edge_target[chosen].astype(np.int64)
        on_device = self.device[to]
        call = self._call_before(to)
        fits = ~on_device & (call >= 0)
        fits[fits] = self.end[call[fits]] >= self.end[work[fits]]
        waiting = np.where(fits, call, to)
        kept = fits | on_device
        return self._weighed(work[kept], waiting[kept])

    def _call_before(self, slots: I64) -> I64:
        """The last synchronising call on a slot's thread that had ended when it began; -1: none."""
        if not len(self.calls):
            return np.full(len(slots), -1, np.int64)
        lanes, ends = self.lane[self.calls], self.end[self.calls]
        low = np.searchsorted(lanes, self.lane[slots], side="left")
        found = np.full(len(slots), -1, np.int64)
        for place, (slot, begin) in enumerate(zip(slots.tolist(), low.tolist(), strict=True)):
            stop = int(np.searchsorted(lanes, self.lane[slot], side="right"))
            at = begin + int(np.searchsorted(ends[begin:stop], self.start[slot], side="right")) - 1
            if at >= begin:
                found[place] = self.calls[at]
        return found

    def _weighed(self, work: I64, waiting: I64) -> tuple[I64, I64, I64]:
        """What each wait weighs: of all that a call waits for, what ended last held it up."""
        latest = np.full(len(self.rows), np.iinfo(np.int64).min)
        np.maximum.at(latest, waiting, self.end[work])
        since = np.maximum(self.end[work], self.start[waiting])
        weighs = np.where(self.end[work] == latest[waiting], np.maximum(self.end[waiting] - since, 0), 0)
        return work, waiting, weighs

    def other_calls(self, known: I64) -> tuple[I64, I64, I64]:
        """Synchronising calls whose waits the trace does not state (``known`` are those where it does).

        They wait for work launched before them; work without a known launch was launched before the trace began. A
        call for a device waits for every stream; of one for a stream or an event, which the trace does not name, only
        work that ends while it waits is taken, that which ends last.
        """
        pairs: list[tuple[int, int]] = []
        streams = self._by_end()
        for call in np.setdiff1d(self.calls, known).tolist():
            done = [slot for of in streams if (slot := self._last_before(call, *of)) >= 0]
            name = self.trace.name_of(int(self.rows[call])).lower()
            if done and ("streamsync" in name or "eventsync" in name):
                last = max(done, key=lambda slot: int(self.end[slot]))
                done = [last] if self.end[last] > self.start[call] else []
            pairs += [(slot, call) for slot in done]
        return self._weighed(*np.array(pairs, np.int64).reshape(-1, 2).T)

    def _by_end(self) -> list[tuple[I64, I64, I64]]:
        """Per stream: its slots by their end, these ends, and when each was launched."""
        never = np.iinfo(np.int64).min
        streams = []
        for lane in np.unique(self.lane[self.device]).tolist() if len(self.calls) else ():
            slots = np.flatnonzero(self.device & (self.lane == lane))
            slots = slots[np.argsort(self.end[slots], kind="stable")]
            issued = np.where(self.launch[slots] >= 0, self.start[self.launch[slots]], never)
            streams.append((slots, self.end[slots], issued))
        return streams

    def _last_before(self, call: int, slots: I64, ends: I64, issued: I64) -> int:
        """The last of a stream to end by the end of a call, of what was launched before the call; -1: none."""
        at = int(np.searchsorted(ends, self.end[call], side="right")) - 1
        for place in range(at, max(at - _LOOK_BACK, -1), -1):
            if issued[place] < self.start[call]:
                return int(slots[place])
        return -1

    def blocking_copies(self) -> tuple[I64, I64, I64]:
        """Copies that ended before the call that asked for them returned: it waited for them."""
        c = self.trace.columns
        copies = np.flatnonzero(self.device & (self.launch >= 0) & (c.category[self.rows] == Category.COPY))
        call = self.launch[copies].astype(np.int64)
        named = np.array(["memcpy" in name[:_MAX_NAME].lower() for name in self.trace.names] + [False], np.bool_)
        waited = named[c.name[self.rows[call]]] & (self.end[copies] <= self.end[call])
        waited &= self.end[copies] > self.start[call]
        return self._weighed(copies[waited], call[waited])

    def likely(self) -> tuple[I64, I64, I64]:
        """Waits of one stream for another that the trace does not state but shows.

        Where a trace has calls that make a stream wait for an event but not what they wait for (``cuda_sync`` events
        were not recorded), device work that starts within ``LIKELY_NS`` after work on another stream of its device
        ended, and stood still for ``STOOD_NS`` before, is taken to have waited for that.
        """
        none = np.zeros(0, np.int64)
        names = [name.lower() for name in self.trace.names]
        if not any("waitevent" in name for name in names) or "stream wait event" in names:
            return none, none, none
        slots = np.flatnonzero(self.device)
        order = slots[np.argsort(self.end[slots], kind="stable")]
        waits = slots[self.start[slots] - self._could_start(slots) >= STOOD_NS]
        at = np.searchsorted(self.end[order], self.start[waits], side="right") - 1
        devices = np.array([lane.device for lane in self.trace.lanes], np.int64)
        found = np.full(len(waits), -1, np.int64)
        for back in range(_NEAR):
            other = order[np.maximum(at - back, 0)]
            fits = (found < 0) & (at >= back) & (self.lane[other] != self.lane[waits])
            fits &= (devices[self.lane[other]] == devices[self.lane[waits]]) & (self.start[other] < self.start[waits])
            fits &= self.start[waits] - self.end[other] <= LIKELY_NS
            found[fits] = other[fits]
        return self._weighed(found[found >= 0], waits[found >= 0])

    def _could_start(self, slots: I64) -> I64:
        """When each device slot could have started for its launch and its stream alone."""
        never = np.iinfo(np.int64).min
        order = slots[np.lexsort((self.start[slots], self.lane[slots]))]
        same = self.lane[order][1:] == self.lane[order][:-1]
        before = np.full(len(self.rows), never)
        before[order[1:][same]] = self.end[order[:-1][same]]
        issued = np.where(self.launch[slots] >= 0, self.start[self.launch[slots]], never)
        known = np.maximum(before[slots], issued)
        return np.where(known == never, self.start[slots], known)

    def others(self) -> tuple[I64, I64]:
        """Points that stated dependencies and flows between threads lead from and to."""
        kinds = self.trace.edges.kinds
        stated = (kinds == EdgeKind.DATA) | (kinds == EdgeKind.CONTROL) | (kinds == EdgeKind.INTER_THREAD)
        chosen = np.flatnonzero(self.known & stated)
        one, two = self.edge_source[chosen], self.edge_target[chosen]
        ended = self.last[one] < self.first[two]
        return np.where(ended, self.last[one], self.first[one]).astype(np.int64), self.first[two].astype(np.int64)

    def helpers(self) -> tuple[I64, I64]:
        """Around what a thread of the autograd engine did: the caller waits for it, as ``backward()`` is synchronous.

        Of all that such a thread does while its caller does nothing that the trace shows, the first follows the
        caller's last point before it, and the caller's next point follows the last.
        """
        sources, targets = [], []
        for helper, caller in self._callers():
            own = np.flatnonzero((self.lane == helper) & ~self.device)
            slots = np.flatnonzero((self.lane == caller) & ~self.device)
            points = np.sort(np.concatenate([self.first[slots], self.last[slots]]))
            before = np.searchsorted(points, self.first[own], side="right") - 1
            inside = (before >= 0) & (before + 1 < len(points))
            own, before = own[inside], before[inside]
            ended = self.last[own] < points[before + 1]
            own, before = own[ended], before[ended]
            gaps, group = np.unique(before, return_inverse=True)
            first, last = np.full(len(gaps), np.iinfo(np.int64).max), np.full(len(gaps), -1, np.int64)
            np.minimum.at(first, group, self.first[own])
            np.maximum.at(last, group, self.last[own])
            sources += [points[gaps].astype(np.int64), last]
            targets += [first, points[gaps + 1].astype(np.int64)]
        none = np.zeros(0, np.int64)
        return np.concatenate([none, *sources]), np.concatenate([none, *targets])

    def _callers(self) -> list[tuple[int, int]]:
        """Lanes of the autograd engine, each with the lane that it works for: that of its process which does most."""
        c, lanes = self.trace.columns, self.trace.lanes
        named = np.array([name.startswith(_ENGINE) for name in self.trace.names] + [False], np.bool_)
        engine = named[c.name[self.rows]] & ~self.device
        done = np.bincount(self.lane[~self.device], minlength=len(lanes))
        helps = np.bincount(self.lane[engine], minlength=len(lanes))
        pairs = []
        for helper in np.flatnonzero(helps).tolist():
            others = [
                at for at, lane in enumerate(lanes)
                if at != helper and not helps[at] and done[at] and lane.process == lanes[helper].process
            ]  # fmt: skip
            if others:
                pairs.append((helper, max(others, key=lambda at: int(done[at]))))
        return pairs
