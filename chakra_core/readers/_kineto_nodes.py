"""From raw events to nodes: complete slices, their kinds, lanes, times and nesting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakra_core.classify import classify_names
from chakra_core.readers import _kineto_nest as nest
from chakra_core.readers._kineto_kinds import DERIVED_THREAD, DEVICE_PROCESS, HOST_DEFAULT, KINDS, STEP_NAMES
from chakra_core.readers._kineto_raw import RawEvents
from chakra_core.readers._kineto_scan import MISSING, Key
from chakra_core.readers._kineto_text import loads_tolerant
from chakra_core.schema import NO_TIME, Category, Domain, LaneKind
from chakra_core.trace import Lane

__all__ = ["Nodes", "build_nodes", "phase_is"]

_NO_FIELD = -2147483648
_ON_HOST = -2147483647
_PARENT_RANK = {Category.ANNOTATION: 0, Category.PYTHON: 1, Category.HOST_OP: 2, Category.RUNTIME: 3}


@dataclass
class Nodes:
    """The nodes, in file order, as arrays of equal length.

    ``event`` is the row in the raw events, ``closing`` that of the event that ends a node, where there is one.
    """

    event: NDArray[np.int32]
    start: NDArray[np.int64]
    dur: NDArray[np.int64]
    name: NDArray[np.int32]
    domain: NDArray[np.int8]
    category: NDArray[np.int8]
    lane: NDArray[np.int32]
    track: NDArray[np.int64]
    is_sync: NDArray[np.bool_]
    is_async: NDArray[np.bool_]
    stream: NDArray[np.int32]
    device: NDArray[np.int32]
    correlation: NDArray[np.int64]
    lanes: tuple[Lane, ...] = ()
    lane_of_track: dict[int, int] = field(default_factory=dict)
    closing: dict[int, int] = field(default_factory=dict)
    parent: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    order: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    problems: dict[str, NDArray[np.int64] | int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.event)

    @property
    def end(self) -> NDArray[np.int64]:
        """Start plus duration (NO_TIME where there is no start)."""
        end: NDArray[np.int64] = self.start + self.dur
        end[self.start == NO_TIME] = NO_TIME
        return end

    @property
    def is_work(self) -> NDArray[np.bool_]:
        """Device work, annotation tracks excluded."""
        work: NDArray[np.bool_] = (self.domain == Domain.DEVICE) & (self.category != Category.ANNOTATION)
        return work


def phase_is(raw: RawEvents, letters: str) -> NDArray[np.bool_]:
    """Which events have one of these phases."""
    table = np.zeros(256, np.bool_)
    table[[ord(letter) for letter in letters]] = True
    found: NDArray[np.bool_] = table[raw.phases]
    return found


def track_of(raw: RawEvents, rows: NDArray[Any]) -> NDArray[np.int64]:
    """One number per (pid, tid) of these events."""
    width = len(raw.strings) + 1
    track: NDArray[np.int64] = (raw.fields["pid"][rows].astype(np.int64) + 1) * width + raw.fields["tid"][rows] + 1
    return track


def build_nodes(raw: RawEvents, base_ns: int) -> Nodes:
    """Turn complete slices (X), matched begin/end and asynchronous pairs into nodes with lanes and nesting."""
    problems: dict[str, NDArray[np.int64] | int] = {}
    stepped = _name_steps(raw)
    event, closing, is_async = _slices(raw, problems)
    start, dur = _times(raw, event, closing, base_ns, problems)
    nodes = _kinds(raw, event, is_async)
    nodes.category[stepped[event] & (nodes.category == Category.HOST_OP)] = Category.ANNOTATION
    paired = np.flatnonzero(closing >= 0)
    nodes.closing = dict(zip(paired.tolist(), closing[paired].tolist(), strict=True))
    del closing
    nodes.start, nodes.dur = start, dur
    nodes.problems = problems
    _lanes(raw, nodes)
    _nest(nodes)
    return nodes


def _name_steps(raw: RawEvents) -> NDArray[np.bool_]:
    """Give step markers (JAX, TensorFlow: ``step_num``) the number of their step in their name; returns which they are."""
    marked = np.zeros(len(raw), np.bool_)
    known: dict[str, int] = {}
    for row, number in raw.sparse[raw.sparse[:, 1] == Key.STEP][:, ::2].tolist():
        text = _text(raw, int(raw.fields["name"][row]))
        if text in STEP_NAMES and number >= 0:
            marked[row] = True
            name = f"{text} {number}"
            if name not in known:
                known[name] = len(raw.strings)
                raw.strings.append(name)
            raw.fields["name"][row] = known[name]
    return marked


def _slices(raw: RawEvents, problems: dict[str, Any]) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.bool_]]:
    """Event rows that become nodes, the row that ends each (-1: it is complete), and which are asynchronous."""
    complete = np.flatnonzero(phase_is(raw, "X"))
    begins, ends, unmatched = _pairs(raw, "B", "E", lambda raw: track_of(raw, np.arange(len(raw))))
    starts, stops, strays = _pairs(raw, "bS", "eF", _async_keys)
    problems["unmatched-end"] = unmatched + strays
    event = np.concatenate([complete, begins, starts])
    closing = np.concatenate([np.full(len(complete), -1, np.int64), ends, stops])
    is_async = np.concatenate([np.zeros(len(complete) + len(begins), np.bool_), np.ones(len(starts), np.bool_)])
    order = np.argsort(event, kind="stable")
    return event[order].astype(np.int32), closing[order], is_async[order]


def _pairs(
    raw: RawEvents, begin: str, end: str, track_of_all: Callable[[RawEvents], NDArray[np.int64]]
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    is_begin = phase_is(raw, begin)
    rows = np.flatnonzero(is_begin | phase_is(raw, end))
    if not len(rows):
        return rows, rows, 0
    track = track_of_all(raw)
    order = rows[np.lexsort((rows, raw.fields["ts"][rows], track[rows]))]
    partner, unmatched = nest.pair_events(order, track, is_begin)
    begins = rows[is_begin[rows]]
    return begins, np.where(partner[begins] < 0, -2, partner[begins]), int(unmatched)


def _async_keys(raw: RawEvents) -> NDArray[np.int64]:
    """One number per (category, id) of asynchronous events."""
    mixed = raw.fields["id"].astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + raw.fields["cat"].astype(np.uint64)
    return mixed.view(np.int64)


def _times(
    raw: RawEvents, event: NDArray[np.int32], closing: NDArray[np.int64], base_ns: int, problems: dict[str, Any]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Absolute start and duration; slices that nothing ends run to the last time in the file."""
    stamp = raw.fields["ts"]
    room = np.iinfo(np.int64).max // 2 - abs(base_ns)
    good = (stamp != MISSING) & (np.abs(stamp) < room)
    start = stamp[event]
    dur = raw.fields["dur"][event].copy()
    timed = good[event]
    complete = closing == -1
    problems["missing-duration"] = np.flatnonzero(complete & (dur == MISSING))
    paired = closing >= 0
    dur[paired] = stamp[closing[paired]] - start[paired]
    open_ended = closing == -2
    last = int(stamp[good].max()) if good.any() else 0
    dur[open_ended] = np.maximum(last - start[open_ended], 0)
    dur[~timed & ~complete] = 0
    problems["unmatched-begin"] = np.flatnonzero(open_ended)
    dur[dur == MISSING] = 0
    problems["negative-duration"] = np.flatnonzero(dur < 0)
    np.clip(dur, 0, np.iinfo(np.int64).max // 4, out=dur)
    problems["no-start-time"] = np.flatnonzero(~timed)
    start += base_ns
    start[~timed] = NO_TIME
    return start, dur


def _kinds(raw: RawEvents, event: NDArray[np.int32], is_async: NDArray[np.bool_]) -> Nodes:
    """Nodes with their kind, not yet with their times."""
    cat = raw.fields["cat"][event]
    kinds = [KINDS.get(text.lower(), HOST_DEFAULT) for text in raw.strings] + [HOST_DEFAULT]
    used = np.unique(cat)
    domain, category = np.zeros(len(kinds), np.int8), np.full(len(kinds), Category.HOST_OP, np.int8)
    named, sync = np.zeros(len(kinds), np.bool_), np.zeros(len(kinds), np.bool_)
    for code in used.tolist():
        domain[code], category[code], named[code], sync[code] = kinds[code]
    nodes = Nodes(
        event=event, start=raw.fields["ts"], dur=raw.fields["ts"], name=raw.fields["name"][event], domain=domain[cat],
        category=category[cat], lane=np.full(len(event), -1, np.int32), track=track_of(raw, event),
        is_sync=sync[cat], is_async=is_async, stream=raw.fields["stream"][event], device=raw.fields["device"][event],
        correlation=raw.fields["correlation"][event],
    )  # fmt: skip
    _name_kernels(raw, nodes, np.flatnonzero(named[cat]))
    return nodes


def _name_kernels(raw: RawEvents, nodes: Nodes, rows: NDArray[np.int64]) -> None:
    codes, inverse = np.unique(nodes.name[rows], return_inverse=True)
    nodes.category[rows] = classify_names([_text(raw, code) for code in codes.tolist()])[inverse]


def _text(raw: RawEvents, code: int) -> str:
    return raw.strings[code] if code >= 0 else ""


@dataclass
class _Titles:
    """What metadata events say of processes and threads; keys are (pid code, tid code)."""

    process: dict[int, str] = field(default_factory=dict)
    label: dict[int, str] = field(default_factory=dict)
    process_order: dict[int, int] = field(default_factory=dict)
    thread: dict[tuple[int, int], str] = field(default_factory=dict)
    thread_order: dict[tuple[int, int], int] = field(default_factory=dict)

    @classmethod
    def read(cls, raw: RawEvents) -> _Titles:
        titles = cls()
        for row in np.flatnonzero(phase_is(raw, "M")).tolist():
            titles._take(raw, row)
        return titles

    def _take(self, raw: RawEvents, row: int) -> None:
        data = raw.text.read(int(raw.fields["offset"][row]), int(raw.fields["length"][row]))
        try:
            args = loads_tolerant(data).get("args") or {}
        except (ValueError, AttributeError):
            return
        if not isinstance(args, dict):
            return
        pid, tid = int(raw.fields["pid"][row]), int(raw.fields["tid"][row])
        name = _text(raw, int(raw.fields["name"][row]))
        if name == "process_name":
            self.process[pid] = str(args.get("name", ""))
        elif name == "process_labels":
            self.label[pid] = str(args.get("labels", ""))
        elif name == "thread_name":
            self.thread[pid, tid] = str(args.get("name", ""))
        order = args.get("sort_index")
        if isinstance(order, int):
            if name == "process_sort_index":
                self.process_order[pid] = order
            elif name == "thread_sort_index":
                self.thread_order[pid, tid] = order

    def process_of(self, raw: RawEvents, pid: int) -> str:
        text = _text(raw, pid)
        label = self.label.get(pid, "")
        if label and label != "CPU":
            return label
        name = self.process.get(pid, "")
        return f"{name} ({text})" if name and text not in name else name or f"process {text}"


def _lanes(raw: RawEvents, nodes: Nodes) -> None:
    """Give every node a lane: (device, stream) for device work, (pid, tid) for the host, own ones for the rest."""
    titles = _Titles.read(raw)
    pid, tid = raw.fields["pid"][nodes.event], raw.fields["tid"][nodes.event]
    _devices_by_process(raw, nodes, titles, pid, tid)
    _devices_by_ordinal(raw, nodes)
    _fill_streams(raw, nodes, pid, tid)
    group, first, second = _lane_keys(raw, nodes, pid, tid)
    index, inverse = _number_lanes(group, first, second)
    lanes: list[tuple[tuple[Any, ...], Lane]] = []
    for row in index.tolist():
        which = (int(group[row]), int(first[row]), int(second[row]))
        lanes.append(_lane(raw, titles, which, (int(pid[row]), int(tid[row]))))
    order = sorted(range(len(lanes)), key=lambda at: lanes[at][0])
    position = np.empty(len(lanes), np.int32)
    position[order] = np.arange(len(lanes), dtype=np.int32)
    nodes.lane = position[inverse] if lanes else nodes.lane
    nodes.lanes = tuple(lanes[at][1] for at in order)
    host = np.flatnonzero(group == 0)
    where, _ = nest.first_of_each(nodes.track[host])
    rows = host[where]
    nodes.lane_of_track = dict(zip(nodes.track[rows].tolist(), nodes.lane[rows].tolist(), strict=True))


def _lane_keys(
    raw: RawEvents, nodes: Nodes, pid: NDArray[np.int32], tid: NDArray[np.int32]
) -> tuple[NDArray[np.int8], NDArray[np.int32], NDArray[np.int32]]:
    """What tells lanes apart: sort (0 thread, 1 stream, 2 annotations, 3 waits, 4 asynchronous) and two numbers."""
    on_device = (nodes.domain == Domain.DEVICE) | nodes.is_sync
    group = np.zeros(len(nodes), np.int8)
    group[on_device] = 2
    group[nodes.is_work] = 1
    group[nodes.is_sync] = 3
    group[nodes.is_async] = 4
    first = np.where(on_device, nodes.device, pid)
    second = np.where(on_device, nodes.stream, tid)
    named = nodes.is_async & ~on_device
    second[named] = raw.fields["name"][nodes.event[named]]
    return group, first, second


def _number_lanes(
    group: NDArray[np.int8], first: NDArray[np.int32], second: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """First row of each lane, and for each row which lane it is on."""
    firsts, one = nest.first_of_each(first)
    seconds, two = nest.first_of_each(second)
    mixed = group.astype(np.int64)
    mixed *= len(firsts)
    mixed += one
    mixed *= len(seconds)
    mixed += two
    return nest.first_of_each(mixed)


def _devices_by_process(raw: RawEvents, nodes: Nodes, titles: _Titles, pid: NDArray[Any], tid: NDArray[Any]) -> None:
    """In traces of other writers: events of a process that is a device are device work."""
    devices = [code for code, name in titles.process.items() if DEVICE_PROCESS.search(name)]
    if not devices:
        return
    rows = np.flatnonzero(np.isin(pid, devices) & (nodes.category == Category.HOST_OP))
    nodes.domain[rows] = Domain.DEVICE
    _name_kernels(raw, nodes, rows)
    derived = [key for key, name in titles.thread.items() if key[0] in devices and DERIVED_THREAD.search(name)]
    for one, two in derived:
        nodes.category[rows[(pid[rows] == one) & (tid[rows] == two)]] = Category.ANNOTATION


def _devices_by_ordinal(raw: RawEvents, nodes: Nodes) -> None:
    """XLA on CPU: what names an HLO instruction and its device is work of that device, on whatever thread it ran."""
    instruction, ordinal = np.zeros(len(raw), np.bool_), np.full(len(raw), -1, np.int64)
    sparse = raw.sparse
    instruction[sparse[sparse[:, 1] == Key.HLO_OP, 0]] = True
    stated = sparse[sparse[:, 1] == Key.ORDINAL]
    ordinal[stated[:, 0]] = stated[:, 2]
    of_node = ordinal[nodes.event]
    rows = np.flatnonzero(
        instruction[nodes.event] & (of_node >= 0) & (of_node < 2**20) & (nodes.category == Category.HOST_OP)
        & (nodes.domain == Domain.HOST) & ~nodes.is_async
    )  # fmt: skip
    nodes.domain[rows], nodes.device[rows], nodes.stream[rows] = Domain.DEVICE, of_node[rows], _ON_HOST
    _name_kernels(raw, nodes, rows)


def _fill_streams(raw: RawEvents, nodes: Nodes, pid: NDArray[Any], tid: NDArray[Any]) -> None:
    """Device and stream of device events that do not state them: from pid and tid (``"stream 7"`` in 2021)."""
    numbers = np.array([_number(text) for text in raw.strings] + [_NO_FIELD], np.int64)
    lacking = nodes.stream == _NO_FIELD
    nodes.stream = np.where(lacking, numbers[tid], nodes.stream).astype(np.int32)
    lacking = nodes.device == _NO_FIELD
    nodes.device = np.where(lacking, numbers[pid], nodes.device).astype(np.int32)


def _number(text: str) -> int:
    digits = text.removeprefix("stream ").removeprefix("Stream ")
    if digits.removeprefix("-").isdecimal() and len(digits) < 10:
        return int(digits)
    return _NO_FIELD


def _lane(
    raw: RawEvents, titles: _Titles, lane: tuple[int, int, int], where: tuple[int, int]
) -> tuple[tuple[Any, ...], Lane]:
    """A lane and its place among the others: hosts before devices, then by the file's own order."""
    kind, one, two = lane
    pid, tid = where
    key = f"{_text(raw, pid)}/{_text(raw, tid)}"
    process = titles.process_of(raw, pid)
    if kind in (0, 4):
        thread = titles.thread.get((pid, tid)) or f"thread {_text(raw, tid)}"
        name = thread if kind == 0 else _text(raw, two) or "asynchronous"
        lane_kind = LaneKind.THREAD if kind == 0 else LaneKind.ANNOTATION
        rank = (0, titles.process_order.get(pid, 0), process, kind, titles.thread_order.get((pid, tid), 0), name, key)
        return rank, Lane(name, Domain.HOST, lane_kind, process, -1, key)
    stream = titles.thread.get((pid, tid), "") if two == _NO_FIELD else f"stream {two}"
    if kind == 1 and DEVICE_PROCESS.search(titles.process.get(pid, "")):
        stream = titles.thread.get((pid, tid), stream)
    device = one if one != _NO_FIELD else -1
    stream = f"device {one}" if two == _ON_HOST else stream
    title = {1: stream, 2: f"{stream} annotations", 3: f"{stream} waits"}[kind]
    lane_kind = LaneKind.STREAM if kind == 1 else LaneKind.ANNOTATION
    rank = (1, device, process, 0, two, str(kind), key)
    return rank, Lane(title or "device", Domain.DEVICE, lane_kind, process, device, key)


def _nest(nodes: Nodes) -> None:
    """Parents on the host: the innermost enclosing slice of the same thread."""
    host = (nodes.domain == Domain.HOST) & ~nodes.is_sync & ~nodes.is_async & (nodes.start != NO_TIME)
    track = np.where(host, nodes.track, -1)
    ranks = np.full(len(Category), 4, np.int8)
    for category, rank in _PARENT_RANK.items():
        ranks[category] = rank
    end = nodes.end
    order = nest.order_slices(track, nodes.start, end, ranks[nodes.category])
    order = order[np.searchsorted(track[order], 0) :]
    whole = bool((nodes.start[host] % 1000 == 0).all() and (nodes.dur[host] % 1000 == 0).all())
    parent, partial = nest.nest_slices(order, track, nodes.start, end, 1000 if whole else 0)
    nodes.parent, nodes.order = parent, order
    nodes.problems["partial-overlap"] = np.flatnonzero(partial)
