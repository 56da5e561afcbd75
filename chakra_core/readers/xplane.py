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
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from chakra_core.errors import CorruptTrace
from chakra_core.readers import _xplane_links as links
from chakra_core.readers._hlo import HloModule, parse_module
from chakra_core.readers._xplane_events import Event, Stats, event_of, plane_stats, text_of
from chakra_core.readers.base import Source
from chakra_core.readers.proto import xplane_pb2
from chakra_core.schema import Category, CommOp, Domain, LaneKind, NodeKind, Severity
from chakra_core.trace import Columns, HealthFinding, Lane, Markers, ProcessGroup, Trace, TraceMeta

__all__ = ["READER", "XPlaneReader"]

_FIRST_PLANE = re.compile(rb"\n[\x80-\xff]{0,9}[\x00-\x7f][\x08\x12]")
"""Field 1 of the space (a plane), its length, and field 1 or 2 of the plane (id or name)."""

_EPOCH = 10**15
"""Line timestamps above this (ns) are Unix times already."""


@dataclass(slots=True)
class _Collected:
    """What walking the planes gathers."""

    events: list[Event] = field(default_factory=list)
    places: list[tuple[int, int, int]] = field(default_factory=list)
    lanes: dict[tuple[str, str], int] = field(default_factory=dict)
    lane_list: list[Lane] = field(default_factory=list)
    instants: list[tuple[int, str, int, float]] = field(default_factory=list)
    modules: dict[int, HloModule] = field(default_factory=dict)
    undecoded: int = 0
    hardware: str = ""
    devices: int = 0
    start_ns: int = 0

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
        """Read one host's profile into one trace; its devices are told apart by ``Lane.device``."""
        space = xplane_pb2.XSpace()
        try:
            space.ParseFromString(source.read())
        except DecodeError as error:
            raise CorruptTrace(f"{source.path}: is no XSpace protobuf, or is damaged: {error}") from error
        if not space.planes:
            raise CorruptTrace(f"{source.path}: holds no plane")
        found = _Collected()
        for at, plane in enumerate(space.planes):
            _walk_plane(found, at, plane)
        return [_build(source, space, found)]


def _walk_plane(found: _Collected, at: int, plane: Any) -> None:
    name = text_of(plane.name)
    stats = plane_stats(plane)
    if name == "/host:metadata":
        _read_modules(found, plane, stats)
    elif name == "Task Environment":
        found.start_ns = int(stats.of(plane.stats).get("profile_start_time", 0))
    elif name.startswith("/device:"):
        _walk_device(found, at, plane, name, stats)
    else:
        _walk_host(found, at, plane, name, stats)


def _read_modules(found: _Collected, plane: Any, stats: Stats) -> None:
    for key, metadata in plane.event_metadata.items():
        values = stats.of(metadata.stats)
        for value in values.values():
            if isinstance(value, bytes):
                module = parse_module(value)
                if module is None:
                    found.undecoded += 1
                else:
                    found.modules[int(values.get("program_id", key))] = module


def _walk_device(found: _Collected, at: int, plane: Any, name: str, stats: Stats) -> None:
    facts = stats.of(plane.stats)
    number = int(name.rsplit(":", 1)[-1]) if name.rsplit(":", 1)[-1].isdigit() else found.devices
    if any(line.events for line in plane.lines):
        found.devices += 1
    if not found.hardware:
        found.hardware = _hardware(facts)
    streams = any(text_of(line.name).startswith("Stream") for line in plane.lines)
    for at_line, line in enumerate(plane.lines):
        label = text_of(line.display_name) or text_of(line.name)
        works = label.startswith("Stream") if streams else label in ("XLA Ops", "Async XLA Ops")
        kind = LaneKind.STREAM if works else LaneKind.ANNOTATION
        lane = found.lane(name, f"{name.removeprefix('/device:')} {label}", Domain.DEVICE, kind, number)
        for at_event, raw in enumerate(line.events):
            event = event_of(raw, plane.event_metadata, stats, line.timestamp_ns)
            event.lane, event.device, event.domain = lane, number, Domain.DEVICE
            event.category = None if works else Category.ANNOTATION
            found.events.append(event)
            found.places.append((at, at_line, at_event))


def _walk_host(found: _Collected, at: int, plane: Any, name: str, stats: Stats) -> None:
    for at_line, line in enumerate(plane.lines):
        label = text_of(line.display_name) or text_of(line.name)
        thread = found.lane(name, label, Domain.HOST, LaneKind.THREAD)
        for at_event, raw in enumerate(line.events):
            event = event_of(raw, plane.event_metadata, stats, line.timestamp_ns)
            event.lane = thread
            if event.dur_ns == 0 and not event.hlo_op:
                value = event.stats.get("bytes_allocated", float("nan"))
                amount = float(value) if isinstance(value, (int, float)) else float("nan")
                found.instants.append((event.start_ns, event.name, thread, amount))
                continue
            if event.hlo_op and event.correlation < 0 and not event.name.startswith("end: "):
                event.domain = Domain.DEVICE
                event.device = max(int(event.stats.get("device_ordinal", 0)), 0)
                event.lane = found.lane(name, f"device {event.device}", Domain.DEVICE, LaneKind.STREAM, event.device)
                event.category = None
            elif event.name.startswith("end: "):
                found.instants.append((event.start_ns, event.name, thread, float("nan")))
                continue
            found.events.append(event)
            found.places.append((at, at_line, at_event))


def _hardware(facts: dict[str, Any]) -> str:
    """The device as the plane describes it: XPlane of GPUs gives no marketing name, only vendor and counts."""
    if kind := facts.get("device_type_string"):
        return str(kind)
    if vendor := facts.get("device_vendor"):
        memory = int(facts.get("memory_size", 0)) / 2**30
        capability = f"cc{facts.get('compute_cap_major', '?')}.{facts.get('compute_cap_minor', '?')}"
        return f"{vendor} {capability} {facts.get('core_count', '?')}SM/CU {memory:.0f}GiB"
    return ""


def _build(source: Source, space: Any, found: _Collected) -> Trace:
    from chakra_core.classify import classify_names

    events = found.events
    n = len(events)
    names = tuple(dict.fromkeys([event.name for event in events] + [entry[1] for entry in found.instants]))
    code = {name: at for at, name in enumerate(names)}
    shift = found.start_ns
    relative = all(event.start_ns < _EPOCH for event in events)
    start = np.fromiter((event.start_ns for event in events), np.int64, n) + (shift if relative else 0)
    groups, group_of = links.process_groups(events, found.modules)
    kernel_categories = classify_names(names)
    categories = [
        int(kernel_categories[code[event.name]]) if event.category is None else int(event.category) for event in events
    ]
    collectives = [links.collective_of(event, found.modules) for event in events]
    for at, collective in enumerate(collectives):
        if collective is not None:
            categories[at] = Category.COMMUNICATION
        elif categories[at] == Category.OTHER and events[at].program in found.modules:
            categories[at] = found.modules[events[at].program].works.get(events[at].hlo_op, Category.OTHER)
    columns = Columns.build(
        n,
        id=np.arange(n),
        name=[code[event.name] for event in events],
        kind=[NodeKind.COMP if entry is None else NodeKind.COMM_COLL for entry in collectives],
        domain=[event.domain for event in events],
        category=categories,
        lane=[event.lane for event in events],
        start_ns=start,
        dur_ns=[event.dur_ns for event in events],
        comm_op=[CommOp.NONE if entry is None else entry.op for entry in collectives],
        comm_bytes=[-1 if entry is None else entry.bytes for entry in collectives],
        comm_group=group_of,
        flops=[links.positive(event.stats.get("flops")) for event in events],
        bytes_accessed=[links.positive(event.stats.get("bytes_accessed")) for event in events],
        correlation=[event.correlation for event in events],
    )
    columns = columns.with_(parent=links.parents(events, columns))
    places = tuple(found.places)
    planes = space.planes
    return Trace(
        columns=columns, names=names, lanes=tuple(found.lane_list),
        edges=links.edges(events, columns, found.modules),
        meta=TraceMeta(
            path=str(source.path), format=XPlaneReader.name, hardware=found.hardware,
            groups=tuple(ProcessGroup(",".join(map(str, members)) or "all", members) for members in groups),
            events=sum(len(line.events) for plane in planes for line in plane.lines),
            details={"hosts": list(space.hostnames), "devices": found.devices, "modules": len(found.modules)},
        ),
        health=tuple(_findings(space, found)), markers=_markers(found, code, shift if relative else 0),
        attributes_of=lambda row: links.attributes(planes, places[row]),
    )  # fmt: skip


def _markers(found: _Collected, code: dict[str, int], shift: int) -> Markers:
    return Markers(
        np.array([entry[0] + shift for entry in found.instants], np.int64),
        np.array([code[entry[1]] for entry in found.instants], np.int32),
        np.array([entry[2] for entry in found.instants], np.int32),
        np.array([entry[3] for entry in found.instants], np.float64),
    )


def _findings(space: Any, found: _Collected) -> list[HealthFinding]:
    findings = []
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
