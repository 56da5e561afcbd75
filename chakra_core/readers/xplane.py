"""XPlane profiles of TensorFlow and JAX (``*.xplane.pb``): CPU, GPU and TPU, with the HLO graph as dependencies.

Times: an event starts at ``line.timestamp_ns + offset_ps / 1000``; line timestamps count from the start of the
profile, whose Unix time the *Task Environment* plane holds. Picoseconds are cut to whole ns at both ends of an event,
so that events that touch still touch. Device work is what runs on a ``Stream`` line of a GPU plane, on the op lines
of a TPU plane, or (XLA on CPU) what names an HLO instruction; its lane is the device, not the thread it ran on.
Lines that XProf derives from others (steps, modules, name scopes) become annotations, so nothing counts twice.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from chakra_core.errors import CorruptTrace
from chakra_core.memory_events import MemoryEvents
from chakra_core.readers._hlo import HloModule, parse_module
from chakra_core.readers._kineto_text import EventText
from chakra_core.readers.base import Source
from chakra_core.readers.proto import xplane_pb2
from chakra_core.schema import Category, CommOp, Domain, LaneKind, NodeKind, Severity
from chakra_core.trace import AttributeSource, Columns, HealthFinding, Lane, Markers, ProcessGroup, Trace, TraceMeta

if TYPE_CHECKING:
    from chakra_core.readers._xplane_events import Events, Texts
    from chakra_core.readers._xplane_links import Collectives
    from chakra_core.readers._xplane_table import PlaneTable

__all__ = ["READER", "XPlaneReader"]

I64 = NDArray[np.int64]

_FIRST_PLANE = re.compile(rb"\n[\x80-\xff]{0,9}[\x00-\x7f][\x08\x12]")
"""Field 1 of the space (a plane), its length, and field 1 or 2 of the plane (id or name)."""

_EPOCH = 10**15
"""Line timestamps above this (ns) are Unix times already."""


def _texts() -> Texts:
    from chakra_core.readers._xplane_events import Texts

    return Texts()


@dataclass(slots=True)
class _Collected:
    """What walking the planes gathers."""

    parts: list[Events] = field(default_factory=list)
    instants: list[Events] = field(default_factory=list)
    memory: list[MemoryEvents] = field(default_factory=list)
    names: Texts = field(default_factory=_texts)
    ops: Texts = field(default_factory=_texts)
    texts: Texts = field(default_factory=_texts)
    planes: list[PlaneTable] = field(default_factory=list)
    lanes: dict[tuple[str, str], int] = field(default_factory=dict)
    lane_list: list[Lane] = field(default_factory=list)
    modules: dict[int, HloModule] = field(default_factory=dict)
    undecoded: int = 0
    hardware: str = ""
    devices: int = 0
    start_ns: int = 0
    count: int = 0
    damage: str = ""

    def lane(self, process: str, name: str, domain: Domain, kind: LaneKind, device: int = -1) -> int:
        """Number of a lane, made on first use."""
        key = (process, name)
        if key not in self.lanes:
            self.lanes[key] = len(self.lane_list)
            self.lane_list.append(Lane(name, domain, kind, process, device, f"{process}/{name}"))
        return self.lanes[key]


class XPlaneReader:
    """Reads XPlane profiles."""

    name = "xplane"
    description = "XPlane profile of TensorFlow or JAX (.xplane.pb): CPU, GPU, TPU, with the HLO graph"
    suffixes = (".xplane.pb",)

    def sniff(self, head: bytes, name: str) -> float:
        """Sure where the head begins like an XSpace and names a plane that profilers write."""
        if not _FIRST_PLANE.match(head):
            return 0.0
        planes = (b"/host:", b"/device:", b"Task Environment")
        if any(plane in head[:4096] for plane in planes):
            return 0.95
        return 0.3 if name.endswith(".xplane.pb") else 0.0

    def read(self, source: Source) -> Sequence[Trace]:
        """Read one host's profile into one trace; its devices are told apart by ``Lane.device``.

        Raises:
            CorruptTrace: nothing in it can be read.
        """
        from chakra_core.readers._spans import padded
        from chakra_core.readers._xplane_table import planes_of

        data = source.read()
        text = EventText(source.path, compressed=bool(source.compression))
        text.add(data)
        found = _Collected()
        try:
            space, planes, stopped = planes_of(padded(data), len(data))
        except DecodeError as error:
            raise CorruptTrace(f"{source.path}: is no XSpace protobuf, or is damaged: {error}") from error
        if stopped >= 0:
            found.damage = f"The profile breaks off or is damaged at byte {stopped:,} of {len(data):,}."
        del data
        try:
            for at, plane in enumerate(planes):
                _walk_plane(found, at, plane)
        except DecodeError as error:
            found.damage = found.damage or f"The profile is damaged: {error}."
        if not found.planes:
            raise CorruptTrace(f"{source.path}: {found.damage or 'holds no plane'}")
        return [_build(source, space, found, text)]


def _walk_plane(found: _Collected, at: int, plane: PlaneTable) -> None:
    found.planes.append(plane)
    found.count += len(plane.events)
    if plane.name == "/host:metadata":
        _read_modules(found, plane)
    elif plane.name == "Task Environment":
        start = plane.facts.get("profile_start_time", 0)
        found.start_ns = start if isinstance(start, int) and 0 <= start < 2**62 else 0
    elif plane.name.startswith("/device:"):
        _walk_device(found, at, plane)
    else:
        _walk_host(found, at, plane)
    plane.release()


def _read_modules(found: _Collected, plane: PlaneTable) -> None:
    from chakra_core.readers._xplane_table import stats_of

    for key, metadata in plane.proto.event_metadata.items():
        values = stats_of(metadata.stats, plane.stat_names)
        for value in values.values():
            if isinstance(value, bytes):
                module = parse_module(value)
                if module is None:
                    found.undecoded += 1
                else:
                    program = values.get("program_id", key)
                    found.modules[program if isinstance(program, int) else int(key)] = module


def _walk_device(found: _Collected, at: int, plane: PlaneTable) -> None:
    from chakra_core.readers._xplane_events import BY_NAME, events_of

    digits = plane.name.rsplit(":", 1)[-1]
    number = int(digits) if digits.isdecimal() and len(digits) < 9 else found.devices
    found.devices += bool(len(plane.events))
    found.hardware = found.hardware or _hardware(plane.facts)
    streams = any(line.name.startswith("Stream") for line in plane.lines)
    lanes, works = [], []
    for line in plane.lines:
        work = line.name.startswith("Stream") if streams else line.name in ("XLA Ops", "Async XLA Ops")
        kind = LaneKind.STREAM if work else LaneKind.ANNOTATION
        title = f"{plane.name.removeprefix('/device:')} {line.name}"
        lanes.append(found.lane(plane.name, title, Domain.DEVICE, kind, number))
        works.append(work)
    events = events_of(plane, at, found.names, found.ops, found.texts)
    events.lane = np.array([*lanes, -1], np.int64)[events.line]
    events.category = np.where(np.array([*works, False])[events.line], BY_NAME, Category.ANNOTATION).astype(np.int64)
    events.domain[:], events.device[:] = Domain.DEVICE, number
    found.parts.append(events)


def _walk_host(found: _Collected, at: int, plane: PlaneTable) -> None:
    from chakra_core.readers._xplane_events import BY_NAME, events_of
    from chakra_core.readers._xplane_memory import memory_of

    events = events_of(plane, at, found.names, found.ops, found.texts)
    threads = [found.lane(plane.name, line.name, Domain.HOST, LaneKind.THREAD) for line in plane.lines]
    events.lane = np.array([*threads, -1], np.int64)[events.line]
    has_op = events.op >= 0
    ends = np.array([*(name.startswith("end: ") for name in found.names.all), False])[events.name]
    instant = (events.dur == 0) & ~has_op
    events.allocated[~instant] = -1
    found.instants.append(events.of(instant | ends))
    found.memory.append(memory_of(plane, events, found.names))
    work = has_op & (events.correlation < 0) & ~ends
    for device in np.unique(events.ordinal[work]).tolist():
        rows = work & (events.ordinal == device)
        events.lane[rows] = found.lane(plane.name, f"device {device}", Domain.DEVICE, LaneKind.STREAM, device)
        events.domain[rows], events.device[rows], events.category[rows] = Domain.DEVICE, device, BY_NAME
    found.parts.append(events.of(~(instant | ends)))


def _hardware(facts: dict[str, Any]) -> str:
    """The device as the plane describes it: XPlane of GPUs gives no marketing name, only vendor and counts."""
    if kind := facts.get("device_type_string"):
        return str(kind)
    if vendor := facts.get("device_vendor"):
        memory = int(facts.get("memory_size", 0)) / 2**30
        capability = f"cc{facts.get('compute_cap_major', '?')}.{facts.get('compute_cap_minor', '?')}"
        return f"{vendor} {capability} {facts.get('core_count', '?')}SM/CU {memory:.0f}GiB"
    return ""


def _build(source: Source, space: Any, found: _Collected, text: EventText) -> Trace:
    from chakra_core.readers import _xplane_links as links
    from chakra_core.readers._xplane_events import Events

    events, instants = Events.joined(found.parts), Events.joined(found.instants)
    names = tuple(found.names.all)
    shift = found.start_ns if not len(events) or int(events.start.max()) < _EPOCH else 0
    collectives = links.collectives_of(events, found.modules, found.ops, found.texts)
    events.category = _classified(events, found, collectives)
    n = len(events)
    columns = Columns.build(
        n, id=np.arange(n), name=events.name,
        kind=np.where(collectives.op >= 0, NodeKind.COMM_COLL, NodeKind.COMP), domain=events.domain,
        category=events.category, lane=events.lane, start_ns=events.start + shift, dur_ns=events.dur,
        parent=links.parents(events), comm_op=collectives.op, comm_bytes=collectives.bytes,
        comm_group=collectives.group, flops=events.flops, bytes_accessed=events.accessed,
        correlation=events.correlation,
    )  # fmt: skip
    allocated = np.where(instants.allocated >= 0, instants.allocated.astype(np.float64), np.nan)
    groups = tuple(ProcessGroup(",".join(map(str, ranks)) or "all", ranks) for ranks in collectives.groups)
    return Trace(
        columns=columns, names=names, lanes=tuple(found.lane_list),
        edges=links.edges(events, found.modules, found.ops),
        meta=TraceMeta(
            path=str(source.path), format=XPlaneReader.name, hardware=found.hardware, groups=groups,
            events=found.count,
            details={"hosts": list(space.hostnames), "devices": found.devices, "modules": len(found.modules)},
        ),
        health=tuple(_findings(space, found)),
        markers=Markers(
            instants.start + shift, instants.name.astype(np.int32), instants.lane.astype(np.int32), allocated
        ),
        memory=_memory(found, shift),
        attributes_of=_attributes(events, found.planes, text),
    )  # fmt: skip


def _memory(found: _Collected, shift: int) -> MemoryEvents | None:
    joined = MemoryEvents.joined(found.memory)
    return None if joined is None else replace(joined, ts_ns=joined.ts_ns + shift)


def _classified(events: Events, found: _Collected, collectives: Collectives) -> I64:
    """Categories: communication by the HLO graph, then by name, then by what the instruction computes."""
    from chakra_core.classify import classify_names
    from chakra_core.readers._xplane_events import BY_NAME

    by_name = events.category == BY_NAME
    used = np.unique(events.name[by_name])
    kinds = np.full(len(found.names.all) + 1, Category.OTHER, np.int64)
    kinds[used] = classify_names([found.names.all[code] for code in used.tolist()])
    category = np.where(by_name, kinds[events.name], events.category)
    unknown = np.flatnonzero((category == Category.OTHER) & (events.op >= 0))
    width = len(found.ops.all) + 1
    keys, which = np.unique(events.program[unknown] * width + events.op[unknown], return_inverse=True)
    works = [
        found.modules[key // width].works.get(found.ops.all[key % width], Category.OTHER)
        if key // width in found.modules
        else Category.OTHER
        for key in keys.tolist()
    ]
    category[unknown] = np.array([*works, Category.OTHER], np.int64)[which]
    category[collectives.op != CommOp.NONE] = Category.COMMUNICATION
    return category


def _attributes(events: Events, planes: list[PlaneTable], text: EventText) -> AttributeSource:
    """Every stat of an event and of its kind, decoded when asked for; raw bytes are shown by their length."""
    from chakra_core.readers._xplane_table import stats_of, text_of

    which, at, size = events.plane, events.at, events.size
    kept = tuple((plane.proto.event_metadata, plane.stat_names) for plane in planes)

    def decode(row: int) -> dict[str, Any]:
        data = text.read(int(at[row]), int(size[row]))
        if len(data) != size[row]:
            return {}
        event = xplane_pb2.XEvent.FromString(data)
        metadata, names = kept[int(which[row])]
        values: dict[str, Any] = {}
        if event.metadata_id in metadata:
            known = metadata[event.metadata_id]
            values.update(stats_of(known.stats, names))
            full = text_of(known.name)
            values.update({"hlo_text": full} if full.startswith("%") else {})
        values.update(stats_of(event.stats, names))
        shown = {key: f"{len(value)} bytes" if isinstance(value, bytes) else value for key, value in values.items()}
        return {"offset_ps": event.offset_ps, "duration_ps": event.duration_ps, **shown}

    return decode


def _findings(space: Any, found: _Collected) -> list[HealthFinding]:
    findings = []
    if found.damage:
        remedy = "The planes before it are shown; profile again."
        findings.append(HealthFinding("truncated", Severity.ERROR, 1, found.damage, remedy))
    said = [*space.errors, *space.warnings]
    if said:
        findings.append(
            HealthFinding(
                "profiler-message",
                Severity.WARNING,
                len(said),
                f"The profiler reported: {said[0]}",
                "Profile again if data is missing.",
            )
        )
    if found.undecoded:
        findings.append(
            HealthFinding(
                "damaged-record",
                Severity.WARNING,
                found.undecoded,
                f"{found.undecoded} HLO modules cannot be decoded.",
                "Dependencies of those modules are missing.",
            )
        )
    if not found.start_ns:
        findings.append(
            HealthFinding(
                "relative-times",
                Severity.INFO,
                1,
                "The profile does not say when it started.",
                "Times count from its start; other hosts' profiles cannot be aligned with it.",
            )
        )
    return findings


READER = XPlaneReader()
