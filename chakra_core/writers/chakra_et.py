"""Chakra ``.et``, schema 1.0.0: varint-length-prefixed GlobalMetadata, then one Node after the other.

Field numbers are those of Chakra's ``schema/protobuf/et_def.proto``. Its own time fields hold whole microseconds; the
attributes ``start_ns`` and ``dur_ns`` (int64) hold the exact times. ``data_deps`` are what decides when a node may run
(data, launch, stream order, synchronisation, order between threads), ``ctrl_deps`` the call structure. Besides the
attributes that simulators read (``is_cpu_op``, ``num_ops``, ``tensor_size``, ``comm_*``, ``pg_name``) a node carries
``category``, ``lane`` (index into the metadata's ``lanes``), ``parent`` (node id), ``correlation``, ``comm_seq``, where
``data_deps`` are of other kinds than data ``dep_kinds`` (one EdgeKind for each entry of ``data_deps`` and then
``ctrl_deps``), and where ``type`` and ``comm_type`` cannot say the operation ``comm_op`` (CommOp). The metadata carries
``time_kind``, ``hardware``, ``rank``, ``world_size``, ``assumptions``, ``lanes``, ``shapes``
and ``process_groups`` (JSON).
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from chakra_core.schema import NO_TIME, Category, CommOp, Domain, EdgeKind, NodeKind
from chakra_core.trace import Trace
from chakra_core.writers.attributes import attribute
from chakra_core.writers.files import replacing
from chakra_core.writers.wire import Message, varint

__all__ = ["SCHEMA", "Stated", "node_facts", "run_facts", "write_et"]

SCHEMA = "1.0.0"


@dataclass(frozen=True, slots=True)
class Stated:
    """What a file says in Chakra's own fields where that is not what the trace's columns say; one entry per row.

    Attributes:
        runtime_ns: int64, what becomes ``duration_micros``: the time a simulator lets the node take.
        kind: int8 NodeKind, what becomes ``type``.
        comm_type: int64 CommOp 0..9, what becomes ``comm_type``; -1 for none.
        comm_size: int64 bytes, what becomes ``comm_size``; -1 for none.
    """

    runtime_ns: NDArray[np.int64]
    kind: NDArray[np.int8]
    comm_type: NDArray[np.int64]
    comm_size: NDArray[np.int64]

    @classmethod
    def of(cls, trace: Trace) -> Stated:
        """What the columns themselves say."""
        c = trace.columns
        known = (c.comm_op >= CommOp.ALL_REDUCE) & (c.comm_op <= CommOp.BARRIER) & (c.kind == NodeKind.COMM_COLL)
        return cls(c.dur_ns, c.kind, np.where(known, c.comm_op, -1).astype(np.int64), c.comm_bytes)


_OWN = frozenset(
    {
        *(
            "is_cpu_op",
            "num_ops",
            "tensor_size",
            "comm_type",
            "comm_size",
            "comm_op",
            "inputs",
            "ctrl_deps",
            "data_deps",
        ),
        *("comm_src", "comm_dst", "comm_tag", "pg_name", "inputs.values", "inputs.shapes", "inputs.types"),
        *("start_ns", "dur_ns", "category", "lane", "shape", "parent", "correlation", "comm_seq", "dep_kinds"),
    }
)
"""Attributes written from columns; the same names among a node's other attributes are not repeated."""

_KEPT = frozenset({"num_ops", "tensor_size", "comm_type", "comm_size", "comm_src", "comm_dst", "comm_tag", "pg_name"})
"""Of those, the ones kept as the source says where the columns know nothing, because they make no sense there."""


def write_et(
    trace: Trace, path: str | Path, *, compress: bool = False, assumptions: Sequence[str] = (),
    stated: Stated | None = None,
) -> None:  # fmt: skip
    """Write one rank to a file, atomically, its nodes in the order of the rows.

    Args:
        trace: what to write; nodes without a start time get none.
        path: the file; a ``.gz`` name does not compress by itself.
        compress: gzip the whole file (Chakra's own reader opens that too).
        assumptions: sentences about how the times came about; opening the file shows them again.
        stated: what Chakra's own fields say where that differs from the columns.

    Raises:
        OSError: the file cannot be written.
    """
    with replacing(Path(path)) as file:
        if compress:
            with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as out:
                _write(trace, assumptions, cast("IO[bytes]", out), stated)
        else:
            _write(trace, assumptions, file, stated)


def _write(trace: Trace, assumptions: Sequence[str], file: IO[bytes], stated: Stated | None) -> None:
    for message in _messages(trace, assumptions, stated or Stated.of(trace)):
        file.write(varint(len(message)))
        file.write(message)


def _messages(trace: Trace, assumptions: Sequence[str], stated: Stated) -> Iterator[Message]:
    metadata = Message()
    metadata.text(1, SCHEMA)
    for name, value in run_facts(trace, assumptions).items():
        metadata.content(2, attribute(name, value))
    yield metadata
    for facts in node_facts(trace, stated):
        yield _node(facts)


def run_facts(trace: Trace, assumptions: Sequence[str] = ()) -> dict[str, Any]:
    """The attributes of the file's metadata."""
    meta = trace.meta
    attributes: dict[str, Any] = {
        "schema": SCHEMA,
        "time_kind": str(meta.time_kind),
        "rank": meta.rank,
        "world_size": meta.world_size,
    }
    if meta.hardware:
        attributes["hardware"] = meta.hardware
    if trace.lanes:
        attributes["lanes"] = json.dumps(
            [[lane.name, int(lane.domain), int(lane.kind), lane.process, lane.device, lane.key] for lane in trace.lanes]
        )
    if meta.groups:
        attributes["process_groups"] = json.dumps(
            [
                {"pg_name": group.name, "pg_desc": group.description, "pg_size": group.size, "ranks": group.ranks}
                for group in meta.groups
            ]
        )
    if trace.shapes:
        attributes["shapes"] = json.dumps(trace.shapes)
    if assumptions:
        attributes["assumptions"] = list(assumptions)
    return attributes


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Everything that is written of a node, whatever the encoding."""

    id: int
    name: str
    kind: int
    ctrl_deps: list[int]
    data_deps: list[int]
    start_us: int
    dur_us: int
    inputs: tuple[str, str, str]
    attributes: dict[str, Any]


def node_facts(trace: Trace, stated: Stated | None = None) -> Iterator[NodeFacts]:
    """What is written of each node, in the order of the rows."""
    stated = stated or Stated.of(trace)
    columns = {name: getattr(trace.columns, name).tolist() for name in trace.columns.__slots__}
    says = {name: getattr(stated, name).tolist() for name in stated.__slots__}
    indptr, sources, kinds = trace.edges.indptr.tolist(), trace.edges.sources.tolist(), trace.edges.kinds.tolist()
    ids = columns["id"]
    known = frozenset(ids)
    for row in range(len(trace)):
        span = slice(indptr[row], indptr[row + 1])
        waits = list(zip(sources[span], kinds[span], strict=True))
        fields = {name: column[row] for name, column in columns.items()}
        said = {name: column[row] for name, column in says.items()}
        others = trace.attributes_of(row)
        data = [(ids[source], kind) for source, kind in waits if kind != EdgeKind.CONTROL]
        control = [(ids[source], kind) for source, kind in waits if kind == EdgeKind.CONTROL]
        data += [(lost, EdgeKind.DATA) for lost in _lost(others.get("data_deps"), known, fields["id"])]
        control += [(lost, EdgeKind.CONTROL) for lost in _lost(others.get("ctrl_deps"), known, fields["id"])]
        yield _facts(trace, fields, said, (data, control), others, ids)


def _lost(listed: Any, known: frozenset[int], own: int) -> list[int]:
    """Dependencies that the source file has and that lead nowhere or to the node itself: no edges, but kept."""
    return [entry for entry in listed if entry not in known or entry == own] if isinstance(listed, list) else []


def _facts(
    trace: Trace, fields: dict[str, int], said: dict[str, int], waits: tuple[list[tuple[int, int]], ...],
    others: dict[str, Any], ids: list[int],
) -> NodeFacts:  # fmt: skip
    data, control = waits
    attributes = _attributes(trace, fields, said, ids)
    if any(kind != EdgeKind.DATA for _, kind in data):
        attributes["dep_kinds"] = [int(kind) for _, kind in data + control]
    inputs = _inputs(trace, fields["shape"], others, attributes)
    attributes.update(
        (name, value)
        for name, value in others.items()
        if value is not None and (name not in _OWN or (name in _KEPT and name not in attributes))
    )
    start = max(fields["start_ns"], 0) // 1000 if fields["start_ns"] != NO_TIME else 0
    return NodeFacts(
        fields["id"], trace.names[fields["name"]], said["kind"], [source for source, _ in control],
        [source for source, _ in data], start, (said["runtime_ns"] + 500) // 1000, inputs, attributes,
    )  # fmt: skip


def _inputs(trace: Trace, shape: int, others: Mapping[str, Any], attributes: dict[str, Any]) -> tuple[str, str, str]:
    """Values, shapes and types of a node's inputs as Chakra's own converter writes them; empty where unknown."""
    texts = tuple(str(others.get(f"inputs.{part}", "")) for part in ("values", "shapes", "types"))
    if any(texts):
        return texts[0], texts[1], texts[2]
    given = others.get("inputs")
    if isinstance(given, dict):
        if given.get("strides"):
            attributes["inputs.strides"] = str(given["strides"])
        values, shapes, types = (str(given.get(part, "")) for part in ("values", "shapes", "types"))
        return values, shapes, types
    if given is not None:
        attributes["inputs"] = given
    if shape < 0:
        return "", "", ""
    dims, _, kind = trace.shapes[shape].rpartition(":")
    return "", f"[{', '.join(dims.split('x'))}]", f"['Tensor({kind})']"


def _node(facts: NodeFacts) -> Message:
    node = Message()
    node.number(1, facts.id)
    node.text(2, facts.name)
    node.number(3, facts.kind)
    node.numbers(4, facts.ctrl_deps)
    node.numbers(5, facts.data_deps)
    if facts.start_us:
        node.number(6, facts.start_us)
    node.number(7, facts.dur_us)
    if any(facts.inputs):
        inputs = Message()
        for field, text in enumerate(facts.inputs, 1):
            if text:
                inputs.text(field, text)
        node.content(8, inputs)
    for name, value in facts.attributes.items():
        node.content(10, attribute(name, value))
    return node


def _attributes(trace: Trace, fields: dict[str, int], said: dict[str, int], ids: list[int]) -> dict[str, Any]:
    operation = fields["comm_op"]
    communicates = NodeKind.COMM_SEND <= said["kind"] <= NodeKind.COMM_COLL
    attributes: dict[str, Any] = {"is_cpu_op": fields["domain"] == Domain.HOST}
    if fields["start_ns"] != NO_TIME:
        attributes["start_ns"] = fields["start_ns"]
    attributes["dur_ns"] = fields["dur_ns"]
    attributes["category"] = Category(fields["category"]).label
    if said["comm_size"] >= 0:
        attributes["comm_size"] = said["comm_size"]
    for name, column in (
        ("lane", "lane"),
        ("shape", "shape"),
        ("num_ops", "flops"),
        ("tensor_size", "bytes_accessed"),
        ("comm_tag", "comm_tag"),
        ("comm_seq", "comm_seq"),
        ("correlation", "correlation"),
    ):
        if fields[column] >= 0:
            attributes[name] = fields[column]
    if fields["parent"] >= 0:
        attributes["parent"] = ids[fields["parent"]]
    if said["comm_type"] >= 0:
        attributes["comm_type"] = said["comm_type"]
    if communicates and operation != CommOp.NONE and operation != _implied(said["kind"], said["comm_type"]):
        attributes["comm_op"] = operation
    if fields["comm_group"] >= 0:
        attributes["pg_name"] = trace.meta.groups[fields["comm_group"]].name
    if fields["comm_peer"] >= 0:
        sends = operation == CommOp.SEND
        me, peer = max(trace.meta.rank, 0), fields["comm_peer"]
        attributes["comm_src"], attributes["comm_dst"] = (me, peer) if sends else (peer, me)
        attributes.setdefault("comm_tag", 0)
    return attributes


def _implied(kind: int, comm_type: int) -> int:
    """The operation that a reader takes from ``type`` and ``comm_type``."""
    if kind == NodeKind.COMM_COLL:
        return comm_type if comm_type >= 0 else int(CommOp.UNKNOWN)
    return int(CommOp.SEND if kind == NodeKind.COMM_SEND else CommOp.RECV)
