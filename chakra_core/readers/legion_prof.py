"""Legion profiler logs (``-lg:prof``, ``-lg:prof_logfile prof_%.gz``): the measured timeline of FlexFlow and Legion runs.

One file is one process; its number is the rank. Tasks that ran on a GPU are a host part (until the task body returned)
and a device part (``gpu_start`` to ``gpu_stop``). Copies and fills lie on the channel between two memories: on the
device's side where one of them is a GPU's, as communication where they belong to different processes. A wait inside a
task is a node of its own, so that nothing that waits counts as work.

Dependencies are those that the log has: the operation whose end came last before another became ready (``critical``,
followed through event mergers and triggers), who created it, what a task waited for, and host part before device part.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from chakra_core.errors import CorruptTrace, UnknownFormat
from chakra_core.readers._kineto_text import EventText
from chakra_core.readers.base import Source
from chakra_core.schema import NO_TIME, Category, Domain, EdgeKind, Severity
from chakra_core.trace import AttributeSource, Columns, Edges, HealthFinding, Trace, TraceMeta

if TYPE_CHECKING:
    from chakra_core.readers._legion_format import LegionLog
    from chakra_core.readers._legion_nodes import Nodes, Part

__all__ = ["READER", "LegionProfReader"]

I64 = NDArray[np.int64]

_MAGIC = b"FileType: BinaryLegionProf v: "
_TEXT = re.compile(rb"(?m)^\[[\d \-a-f.]+\] \{\w+\}\{legion_prof\}: Prof ")
_LATEST = 2**62


class LegionProfReader:
    """Reads Legion's binary profiler logs."""

    name = "legion-prof"
    description = "Legion profiler log of one process (binary, -lg:prof_logfile): FlexFlow's measured timeline"
    suffixes = (".gz", ".prof", ".log")

    def sniff(self, head: bytes, name: str) -> float:
        """Sure where the file says what it is; logs in text are recognised to say what to do instead."""
        del name
        return 1.0 if head.startswith(_MAGIC) else 0.5 if _TEXT.search(head) else 0.0

    def read(self, source: Source) -> Sequence[Trace]:
        """Read one process's log into one trace.

        Raises:
            CorruptTrace: its preamble is damaged, or no record can be read.
            UnknownFormat: it is a log in text.
        """
        from chakra_core.readers import _legion_nodes as legion
        from chakra_core.readers._legion_format import read_log

        if not source.head.startswith(_MAGIC):
            raise UnknownFormat(
                f"{source.path}: is a Legion profiler log in text; record with the binary serialiser, the default "
                "(leave out -lg:serializer ascii)"
            )
        data = source.read()
        text = EventText(source.path, compressed=bool(source.compression))
        text.add(data)
        log = read_log(data, source.path)
        del data
        if not len(log.offsets):
            raise CorruptTrace(f"{source.path}: no record can be read after its preamble")
        nodes = legion.collect(log)
        return [_build(source, log, nodes, text)]


def _joined(parts: Sequence[Part], name: str) -> I64:
    arrays = [getattr(part, name) for part in parts]
    return np.concatenate(arrays) if arrays else np.zeros(0, np.int64)


def _repeated(parts: Sequence[Part], values: Sequence[int]) -> I64:
    """One value per part, for each node of it."""
    return np.repeat(np.array(values, np.int64), np.array([len(part.start) for part in parts], np.int64))


def _build(source: Source, log: LegionLog, nodes: Nodes, text: EventText) -> Trace:
    from chakra_core.readers._legion_places import Places

    parts = nodes.parts
    places = Places(log, nodes.channels)
    lanes = [places.lanes_of(part) for part in parts]
    raw_start, raw_stop = _joined(parts, "start"), _joined(parts, "stop")
    order = np.argsort(raw_start, kind="stable")
    row = np.empty(len(order), np.int64)
    row[order] = np.arange(len(order))
    known = (raw_start >= 0) & (raw_start < _LATEST)
    backwards = known & ((raw_stop < raw_start) | (raw_stop >= _LATEST))
    start = np.where(known, raw_start, NO_TIME)
    dur = np.where(known & ~backwards, raw_stop - raw_start, 0)
    names, name, category = _names(parts, lanes, places)
    domain, lane, comm, peer, kind = (np.concatenate([entry[at] for entry in lanes] or [order]) for at in range(5))
    edges, parent, lost = _dependencies(log, parts, row)
    n = len(order)
    size = _joined(parts, "size")
    columns = Columns.build(
        n, id=np.arange(n), name=name[order], kind=kind[order], domain=domain[order], category=category[order],
        lane=lane[order], start_ns=start[order], dur_ns=dur[order], parent=parent, comm_op=comm[order],
        comm_bytes=np.where(comm >= 0, size, -1)[order], comm_peer=peer[order], bytes_accessed=size[order],
    )  # fmt: skip
    world = log.numbers("MachineDesc", "num_nodes")
    return Trace(
        columns=columns, names=names, lanes=tuple(places.lanes), edges=edges,
        meta=TraceMeta(
            path=str(source.path), format=LegionProfReader.name, schema=_version(log), rank=places.node,
            world_size=int(world[0]) if len(world) and 0 < world[0] < 2**31 else -1, events=len(log.offsets),
            details=places.details(log),
        ),
        health=tuple(_findings(log, order, known, backwards, lost)),
        attributes_of=_attributes(log, parts, order, text),
    )  # fmt: skip


def _names(
    parts: Sequence[Part], lanes: Sequence[tuple[NDArray[Any], ...]], places: Any
) -> tuple[tuple[str, ...], I64, NDArray[np.int8]]:
    """Names, their codes, and the category of each node."""
    from chakra_core.classify import classify_names
    from chakra_core.readers._legion_nodes import TASKS

    code: dict[str, int] = {}
    codes, categories = [np.zeros(0, np.int64)], [np.zeros(0, np.int8)]
    for part, lane in zip(parts, lanes, strict=True):
        domain, _, comm = lane[:3]
        labels = places.channel_labels(part) if part.record in ("CopyInfo", "FillInfo") else part.labels
        label = part.place if labels is not part.labels else part.label
        of_label = np.array([code.setdefault(text, len(code)) for text in labels] or [0], np.int64)
        codes.append(of_label[label])
        if part.record in ("CopyInfo", "FillInfo"):
            local = Category.COPY if part.record == "CopyInfo" else Category.MEMSET
            own = np.where(domain == Domain.DEVICE, local, Category.RUNTIME)
            categories.append(np.where(comm >= 0, Category.COMMUNICATION, own).astype(np.int8))
        elif part.record in TASKS:
            device = classify_names(labels)[label]
            categories.append(np.where(domain == Domain.DEVICE, device, Category.HOST_OP).astype(np.int8))
        else:
            categories.append(np.full(len(label), Category.RUNTIME, np.int8))
    return tuple(code), np.concatenate(codes), np.concatenate(categories)


def _dependencies(log: LegionLog, parts: Sequence[Part], row: I64) -> tuple[Edges, I64, int]:
    """Edges, the parent of every row, and how many operations wait for an event that nothing in the log explains."""
    from chakra_core.readers._legion_events import EventGraph

    finish, host_rows, device_rows = _joined(parts, "finish"), [], []
    at = 0
    ends = np.ones(len(row), np.bool_)
    first: dict[str, int] = {}
    for part in parts:
        n = len(part.start)
        if part.device:  # the device part ends the task
            host = first[part.record]
            ends[host : host + n] = False
            host_rows.append(row[host : host + n])
            device_rows.append(row[at : at + n])
        first.setdefault(part.record, at)
        at += n
    graph = EventGraph(log, finish[ends], row[ends])
    parent = np.full(len(row), -1, np.int64)
    inside = _joined(parts, "inside")
    holder = graph.row_of(inside)
    launch, launched = np.concatenate([*host_rows, row[:0]]), np.concatenate([*device_rows, row[:0]])
    host_of = np.arange(len(row))
    host_of[launched] = launch
    holder = np.where(holder >= 0, host_of[holder], -1)  # a call is inside the host part
    parent[row] = holder
    parent[launched] = launch
    critical = _joined(parts, "critical")
    source, target, lost = graph.resolve(row, critical)
    is_wait = np.zeros(len(row), np.bool_)
    is_wait[row] = _repeated(parts, [part.record.endswith("WaitInfo") for part in parts]) > 0
    creator = graph.row_of(_joined(parts, "creator"))
    made = creator >= 0
    sources = np.concatenate((source, host_of[creator[made]], launch))
    targets = np.concatenate((target, row[made], launched))
    kinds = np.concatenate(
        (
            np.where(is_wait[target], EdgeKind.SYNC, EdgeKind.DATA),
            np.full(int(made.sum()), EdgeKind.CONTROL),
            np.full(len(launch), EdgeKind.LAUNCH),
        )
    )
    kept = sources != targets
    return Edges.from_pairs(len(row), sources[kept], targets[kept], kinds[kept]), parent, lost


def _version(log: LegionLog) -> str:
    versions = log.numbers("MachineDesc", "version")
    return f"profile version {int(versions[0])}" if len(versions) else ""


def _findings(
    log: LegionLog, order: I64, known: NDArray[np.bool_], backwards: NDArray[np.bool_], lost: int
) -> list[HealthFinding]:
    findings = []
    if log.stopped >= 0:
        what = "ends in the middle of a record" if log.cut else "holds something that is no record"
        text = f"The log {what} at byte {log.stopped:,} (decompressed); {log.after:,} bytes after it are not read."
        code = "truncated" if log.cut else "damaged-record"
        findings.append(HealthFinding(code, Severity.ERROR, 1, text, "What was read is shown; record again."))
    if backwards.any():
        rows = np.flatnonzero(backwards[order]).tolist()
        text = f"{len(rows):,} records end before they start."
        findings.append(HealthFinding.of("negative-duration", Severity.WARNING, rows, text, "They are kept at zero."))
    if not known.all():
        rows = np.flatnonzero(~known[order]).tolist()
        text = f"{len(rows):,} records never started."
        findings.append(
            HealthFinding.of("missing-start", Severity.WARNING, rows, text, "They are not on the timeline.")
        )
    if lost:
        text = f"{lost:,} operations waited for an event that no operation in this log explains."
        remedy = "It may be another process's: open the logs of all processes together."
        findings.append(HealthFinding("unresolved-dependency", Severity.INFO, lost, text, remedy))
    return findings


def _attributes(log: LegionLog, parts: Sequence[Part], order: I64, text: EventText) -> AttributeSource:
    from chakra_core.readers._legion_format import decode_record

    offsets = _joined(parts, "offsets")[order]
    which = _repeated(parts, range(len(parts)))[order]
    formats = tuple(log.formats[part.record] for part in parts)

    def decode(row: int) -> dict[str, Any]:
        form = formats[int(which[row])]
        found = decode_record(form, text.read(int(offsets[row]), 4096))
        return {"record": form.name, **{key: _shown(key, value) for key, value in found.items()}}

    return decode


def _shown(key: str, value: Any) -> Any:
    """Ids of processors, memories and events as Legion prints them."""
    ids = ("proc_id", "mem_id", "fevent", "creator", "critical", "wait_event", "src", "dst")
    return f"0x{value:x}" if key in ids and isinstance(value, int) else value


READER = LegionProfReader()
