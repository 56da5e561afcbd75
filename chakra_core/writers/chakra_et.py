"""Chakra ``.et``, schema 1.0.0: varint-length-prefixed GlobalMetadata, then one Node after the other.

Field numbers are those of Chakra's ``schema/protobuf/et_def.proto``. Its own time fields hold whole microseconds; the
attributes ``start_ns`` and ``dur_ns`` (int64) hold the exact times. Besides the attributes that simulators read
(``is_cpu_op``, ``num_ops``, ``tensor_size``, ``comm_*``, ``pg_name``) a node carries ``category``, ``lane`` (index into
the metadata's ``lanes``), ``parent`` (node id), ``correlation``, ``comm_seq`` and, where a dependency is neither data
nor control, ``dep_kinds`` (one EdgeKind for each entry of ``data_deps`` and then ``ctrl_deps``). The metadata carries
``time_kind``, ``hardware``, ``rank``, ``world_size``, ``assumptions``, ``lanes`` and ``process_groups`` (both JSON).
"""

from __future__ import annotations

import gzip
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, cast

from chakra_core.schema import NO_TIME, Category, CommOp, Domain, EdgeKind, NodeKind
from chakra_core.trace import Trace
from chakra_core.writers.attributes import attribute
from chakra_core.writers.wire import Message, varint

__all__ = ["SCHEMA", "write_et"]

SCHEMA = "1.0.0"

_OWN = frozenset(
    {
        *("is_cpu_op", "num_ops", "tensor_size", "comm_type", "comm_size"),
        *("comm_src", "comm_dst", "comm_tag", "pg_name"),
        *("start_ns", "dur_ns", "category", "lane", "parent", "correlation", "comm_seq", "dep_kinds"),
    }
)
"""Attributes written from columns; the same names among a node's other attributes are not repeated."""


def write_et(trace: Trace, path: str | Path, *, compress: bool = False, assumptions: Sequence[str] = ()) -> None:
    """Write one rank to a file, atomically.

    Args:
        trace: what to write; nodes without a start time get none.
        path: the file; a ``.gz`` name does not compress by itself.
        compress: gzip the whole file (Chakra's own reader opens that too).
        assumptions: sentences about how the times came about; opening the file shows them again.

    Raises:
        OSError: the file cannot be written.
    """
    target = Path(path)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            if compress:
                with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=9, mtime=0) as out:
                    _write(trace, assumptions, cast("IO[bytes]", out))
            else:
                _write(trace, assumptions, file)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _write(trace: Trace, assumptions: Sequence[str], file: IO[bytes]) -> None:
    for message in _messages(trace, assumptions):
        file.write(varint(len(message)))
        file.write(message)


def _messages(trace: Trace, assumptions: Sequence[str]) -> Iterator[Message]:
    yield _metadata(trace, assumptions)
    columns = {name: getattr(trace.columns, name).tolist() for name in trace.columns.__slots__}
    indptr, sources, kinds = trace.edges.indptr.tolist(), trace.edges.sources.tolist(), trace.edges.kinds.tolist()
    for row in range(len(trace)):
        span = slice(indptr[row], indptr[row + 1])
        waits = list(zip(sources[span], kinds[span], strict=True))
        yield _node(trace, {name: column[row] for name, column in columns.items()}, row, waits, columns["id"])


def _metadata(trace: Trace, assumptions: Sequence[str]) -> Message:
    meta = trace.meta
    message = Message()
    message.text(1, SCHEMA)
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
    if assumptions:
        attributes["assumptions"] = list(assumptions)
    for name, value in attributes.items():
        message.content(2, attribute(name, value))
    return message


def _node(trace: Trace, fields: dict[str, int], row: int, waits: list[tuple[int, int]], ids: list[int]) -> Message:
    node = Message()
    node.number(1, fields["id"])
    node.text(2, trace.names[fields["name"]])
    node.number(3, fields["kind"])
    data = [(source, kind) for source, kind in waits if kind == EdgeKind.DATA]
    control = [(source, kind) for source, kind in waits if kind != EdgeKind.DATA]
    node.numbers(4, [ids[source] for source, _ in control])
    node.numbers(5, [ids[source] for source, _ in data])
    if fields["start_ns"] != NO_TIME:
        node.number(6, max(fields["start_ns"], 0) // 1000)
    node.number(7, (fields["dur_ns"] + 500) // 1000)
    attributes = _attributes(trace, fields, ids)
    if any(kind != EdgeKind.CONTROL for _, kind in control):
        attributes["dep_kinds"] = [kind for _, kind in data + control]
    others = trace.attributes_of(row)
    attributes.update((name, value) for name, value in others.items() if name not in _OWN and value is not None)
    for name, value in attributes.items():
        node.content(10, attribute(name, value))
    return node


def _attributes(trace: Trace, fields: dict[str, int], ids: list[int]) -> dict[str, Any]:
    operation = fields["comm_op"]
    attributes: dict[str, Any] = {"is_cpu_op": fields["domain"] == Domain.HOST}
    if fields["start_ns"] != NO_TIME:
        attributes["start_ns"] = fields["start_ns"]
    attributes["dur_ns"] = fields["dur_ns"]
    attributes["category"] = Category(fields["category"]).label
    for name, column in (
        ("lane", "lane"),
        ("num_ops", "flops"),
        ("tensor_size", "bytes_accessed"),
        ("comm_size", "comm_bytes"),
        ("comm_tag", "comm_tag"),
        ("comm_seq", "comm_seq"),
        ("correlation", "correlation"),
    ):
        if fields[column] >= 0:
            attributes[name] = fields[column]
    if fields["parent"] >= 0:
        attributes["parent"] = ids[fields["parent"]]
    if CommOp.ALL_REDUCE <= operation <= CommOp.BARRIER and fields["kind"] == NodeKind.COMM_COLL:
        attributes["comm_type"] = operation
    if fields["comm_group"] >= 0:
        attributes["pg_name"] = trace.meta.groups[fields["comm_group"]].name
    if fields["comm_peer"] >= 0:
        sends = operation == CommOp.SEND
        me, peer = max(trace.meta.rank, 0), fields["comm_peer"]
        attributes["comm_src"], attributes["comm_dst"] = (me, peer) if sends else (peer, me)
        attributes.setdefault("comm_tag", 0)
    return attributes
