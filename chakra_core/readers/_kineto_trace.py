"""Put the parts of a trace-event file together: columns, edges, metadata, markers, health."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakra_core.readers._kineto_comm import Communication, find_communication, inputs_of, shapes_of
from chakra_core.readers._kineto_health import find_health
from chakra_core.readers._kineto_kinds import KINDS, KINETO_META, rank_in_name
from chakra_core.readers._kineto_link import link_nodes, lookup, node_of_event, sparse_of
from chakra_core.readers._kineto_memory import memory_events
from chakra_core.readers._kineto_nodes import Nodes, build_nodes, phase_is, track_of
from chakra_core.readers._kineto_raw import RawEvents
from chakra_core.readers._kineto_scan import MISSING, Key
from chakra_core.readers.base import Source
from chakra_core.readers.kineto import EventAttributes
from chakra_core.schema import CommOp, NodeKind
from chakra_core.trace import Columns, Edges, Markers, ProcessGroup, Trace, TraceMeta

__all__ = ["assemble"]

_SCALE = 1e-6
_MAX_DETAIL = 64


def assemble(source: Source, raw: RawEvents) -> Trace:
    """Build the Trace from the raw events of one file."""
    base = _base_ns(raw)
    nodes = build_nodes(raw, base)
    source.progress(0.75, "linked launches")
    links = link_nodes(raw, nodes)
    comm = find_communication(raw, nodes)
    shape, shapes = shapes_of(raw, nodes, comm.signature)
    said, inputs = inputs_of(raw, nodes)
    source.progress(0.9, "named nodes")
    instants = np.flatnonzero(phase_is(raw, "iICRn") & (raw.fields["ts"] != MISSING))
    names, code = _names(raw, nodes, instants)
    meta = _meta(source, raw, comm.groups)
    markers = _markers(raw, nodes, instants, code, base)
    memory = memory_events(raw, nodes, instants, base)
    attributes = _attributes(raw, nodes)
    raw.fields.clear()  # from here on the nodes say it all; this lowers the memory that a large trace needs
    health = find_health(raw, nodes, links, comm, meta)
    edges = Edges.from_pairs(len(nodes), links.sources, links.targets, links.kinds)
    return Trace(
        columns=_columns(raw, nodes, comm, code[nodes.name], shape).with_(inputs=said),
        names=names,
        lanes=nodes.lanes,
        edges=edges,
        meta=meta,
        shapes=shapes,
        inputs=inputs,
        health=health,
        markers=markers,
        memory=memory,
        attributes_of=attributes,
    )


def _base_ns(raw: RawEvents) -> int:
    base = raw.meta.get("baseTimeNanoseconds", 0)
    return base if isinstance(base, int) and not isinstance(base, bool) and 0 <= base < 2**62 else 0


def _columns(
    raw: RawEvents, nodes: Nodes, comm: Communication, name: NDArray[np.int32], shape: NDArray[np.int32]
) -> Columns:
    n = len(nodes)
    row_of = node_of_event(raw, nodes)
    flops = np.full(n, -1, np.int64)
    moved = np.full(n, -1, np.int64)
    for column, key in ((flops, Key.FLOPS), (moved, Key.BYTES)):
        events, values = sparse_of(raw, key)
        good = (row_of[events] >= 0) & (values > 0)
        column[row_of[events[good]]] = values[good]
    moved[~nodes.is_work] = -1
    kind = np.full(n, NodeKind.COMP, np.int8)
    kind[comm.op != CommOp.NONE] = NodeKind.COMM_COLL
    kind[comm.op == CommOp.SEND] = NodeKind.COMM_SEND
    kind[comm.op == CommOp.RECV] = NodeKind.COMM_RECV
    return Columns.build(
        n,
        id=nodes.event.astype(np.uint64),
        name=name,
        kind=kind,
        domain=nodes.domain,
        category=nodes.category,
        lane=nodes.lane,
        start_ns=nodes.start,
        dur_ns=nodes.dur,
        parent=nodes.parent,
        shape=shape,
        comm_op=comm.op,
        comm_bytes=comm.bytes,
        comm_group=comm.group,
        comm_peer=comm.peer,
        comm_seq=comm.seq,
        flops=flops,
        bytes_accessed=moved,
        correlation=np.maximum(nodes.correlation, -1),
    )


def _names(raw: RawEvents, nodes: Nodes, instants: NDArray[np.int64]) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """Names that nodes and markers use, and the code in them of each interned string (last: no name)."""
    used = np.unique(np.concatenate([nodes.name, raw.fields["name"][instants]]))
    place: dict[str, int] = {}
    code = np.zeros(len(raw.strings) + 1, np.int32)
    for old in used.tolist():
        code[old] = place.setdefault(raw.strings[old] if old >= 0 else "", len(place))
    return tuple(place), code


def _markers(
    raw: RawEvents, nodes: Nodes, instants: NDArray[np.int64], code: NDArray[np.int32], base: int
) -> Markers | None:
    if not len(instants):
        return None
    events, numbers = sparse_of(raw, Key.NUMBER)
    at = lookup(events, np.arange(len(events)), instants)
    values = np.where(at >= 0, numbers[at] * _SCALE, np.nan) if len(events) else np.full(len(instants), np.nan)
    tracks = track_of(raw, instants)
    known, inverse = np.unique(tracks, return_inverse=True)
    lanes = np.array([nodes.lane_of_track.get(track, -1) for track in known.tolist()], np.int32)
    return Markers(
        ts_ns=raw.fields["ts"][instants] + base,
        name=code[raw.fields["name"][instants]],
        lane=lanes[inverse],
        value=values,
    )


def _attributes(raw: RawEvents, nodes: Nodes) -> EventAttributes:
    spans = raw.fields["offset"][nodes.event], raw.fields["length"][nodes.event]
    offsets, lengths = raw.fields["offset"], raw.fields["length"]
    closing = {row: (int(offsets[event]), int(lengths[event])) for row, event in nodes.closing.items()}
    named = {"External id": "external", "Record function id": "record"}
    numbers = {name: raw.fields[field][nodes.event] for name, field in named.items()}
    return EventAttributes(raw.text, spans, closing, numbers)


def _meta(source: Source, raw: RawEvents, groups: tuple[ProcessGroup, ...]) -> TraceMeta:
    info = raw.meta.get("distributedInfo")
    info = info if isinstance(info, dict) else {}
    named_rank, named_size = rank_in_name(source.name)
    kineto = bool(KINETO_META & raw.meta.keys()) or _has_kineto_category(raw)
    version = raw.meta.get("schemaVersion")
    details = {key: value for key, value in raw.meta.items() if key not in ("traceEvents", "stackFrames", "samples")}
    return TraceMeta(
        path=str(source.path),
        format="kineto" if kineto else "chrome",
        schema=f"schemaVersion {version}" if isinstance(version, int) else "",
        rank=_int(info.get("rank"), named_rank),
        world_size=_int(info.get("world_size"), named_size),
        hardware=_hardware(raw.meta),
        groups=groups,
        events=len(raw),
        details=dict(list(details.items())[:_MAX_DETAIL]),
    )


def _has_kineto_category(raw: RawEvents) -> bool:
    codes = np.unique(raw.fields["cat"])
    return any(raw.strings[code].lower() in KINDS for code in codes.tolist() if code >= 0)


def _int(value: Any, otherwise: int) -> int:
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31 else otherwise


def _hardware(meta: Mapping[str, Any]) -> str:
    """Name of the first device that has one; for AMD devices without a name the family their numbers tell."""
    devices = meta.get("deviceProperties")
    devices = [entry for entry in devices if isinstance(entry, dict)] if isinstance(devices, list) else []
    for entry in devices:
        if isinstance(entry.get("name"), str) and entry["name"]:
            return str(entry["name"])
    for entry in devices:
        amd = any(key.startswith(("hip_", "roctracer", "rocprofiler")) for key in meta)
        if amd and entry.get("computeMajor") == 9 and entry.get("computeMinor") == 4:
            total = entry.get("totalGlobalMem")
            memory = total // 2**30 if isinstance(total, int) else 0
            return f"AMD gfx942-class ({entry.get('numSms', '?')} CUs, {memory} GiB)"
    return ""
