"""Chakra nodes of any schema as a table of arrays, and the Trace made from it. Shared by the .et and JSON readers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakra_core.readers import _et_groups as groups
from chakra_core.readers._et_edges import callers_of, edges_of, rows_of
from chakra_core.readers._et_shapes import input_texts, signatures
from chakra_core.schema import NO_TIME, Category, CommOp, Domain, EdgeKind, LaneKind, NodeKind, Severity, TimeKind
from chakra_core.trace import AttributeSource, Columns, Edges, HealthFinding, Lane, Trace, TraceMeta

__all__ = [
    "ABSENT",
    "INTEGERS",
    "TEXTS",
    "NodeTable",
    "Scanned",
    "TableBuilder",
    "column_value",
    "make_trace",
    "stated_kinds",
]

I64 = NDArray[np.int64]

INTEGERS: tuple[str, ...] = (
    "is_cpu_op", "num_ops", "tensor_size", "comm_type", "comm_size", "comm_src", "comm_dst", "comm_tag", "comm_seq",
    "tid", "stream", "correlation", "start_ns", "dur_ns", "lane", "parent", "scope", "comm_op", "shape",
)  # fmt: skip
"""Integer attributes that become columns; ``ABSENT`` where a node lacks one."""

TEXTS: tuple[str, ...] = ("pg_name", "category")
"""Text attributes that become columns: index into ``NodeTable.texts``, -1 where a node lacks one."""

ABSENT = int(np.iinfo(np.int64).min)
"""Value of an integer column where a node lacks the attribute."""

_FARTHEST, _LONGEST = 2**62, 2**53
_CLOSE = 1_000_000
_LABELS = {category.label: int(category) for category in Category}
_USER_SCOPE = 7
_ANNOTATION = re.compile(r"^(ProfilerStep#|\[pytorch\||## |\[param\|)")


@dataclass(slots=True)
class NodeTable:
    """One row per node: arrays of length n, dependencies as CSR of node *ids*, interned text.

    ``kinds`` holds the EdgeKinds that a node states for its data and then control dependencies; most state none.
    """

    id: NDArray[np.uint64]
    name: I64
    kind: I64
    start_us: NDArray[np.uint64]
    dur_us: NDArray[np.uint64]
    integers: dict[str, I64]
    text_columns: dict[str, I64]
    inputs: I64
    ctrl_ptr: I64
    ctrl: NDArray[np.uint64]
    data_ptr: I64
    data: NDArray[np.uint64]
    kinds_ptr: I64
    kinds: I64
    texts: list[str]

    def __len__(self) -> int:
        return len(self.id)

    def integer(self, name: str, default: int = -1) -> I64:
        """An integer attribute with ``default`` where it is absent."""
        values = self.integers[name]
        if not values.strides[0]:  # no node has it
            return np.full(len(values), default, np.int64)
        return np.where(values == ABSENT, default, values)


@dataclass(frozen=True, slots=True)
class Scanned:
    """What reading a file found: the nodes, where each stands, records that cannot be decoded, and how the file ends."""

    table: NodeTable
    offsets: I64
    sizes: I64
    bad: list[int]
    records: int
    end: int
    size: int
    ends_inside: bool
    failures: list[Exception]


@dataclass
class TableBuilder:
    """Collects nodes one by one into a NodeTable: the slow path, for every schema."""

    rows: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)
    integers: dict[str, list[int]] = field(default_factory=lambda: {name: [] for name in INTEGERS})
    text_columns: dict[str, list[int]] = field(default_factory=lambda: {name: [] for name in TEXTS})
    ctrl: list[list[int]] = field(default_factory=list)
    data: list[list[int]] = field(default_factory=list)
    kinds: list[list[int]] = field(default_factory=list)
    interned: dict[str, int] = field(default_factory=dict)

    def intern(self, text: str) -> int:
        """Number of a text."""
        return self.interned.setdefault(text, len(self.interned))

    def add(
        self, node_id: int, name: str, kind: int, *, ctrl: list[int], data: list[int], start_us: int = 0,
        dur_us: int = 0, inputs: str = "", attributes: Mapping[str, Any],
    ) -> None:  # fmt: skip
        """Append a node; attributes that are no column are left to the attribute source."""
        signature = self.intern(inputs) if inputs else -1
        self.rows.append((node_id, self.intern(name), kind, start_us, dur_us, signature))
        self.ctrl.append(ctrl)
        self.data.append(data)
        for key, column in self.integers.items():
            column.append(column_value(attributes.get(key)))
        for key, texts in self.text_columns.items():
            value = attributes.get(key)
            texts.append(self.intern(str(value)) if value is not None else -1)
        self.kinds.append(stated_kinds(attributes))

    def build(self) -> NodeTable:
        """The table of everything added."""
        columns = list(zip(*self.rows, strict=True)) if self.rows else [()] * 6
        ids, names, kinds, starts, durs, inputs = columns
        return NodeTable(
            np.array(ids, np.uint64), np.array(names, np.int64), np.array(kinds, np.int64),
            np.array(starts, np.uint64), np.array(durs, np.uint64),
            {name: np.array(values, np.int64) for name, values in self.integers.items()},
            {name: np.array(values, np.int64) for name, values in self.text_columns.items()},
            np.array(inputs, np.int64), *_csr(self.ctrl, np.uint64), *_csr(self.data, np.uint64),
            *_csr(self.kinds, np.int64), list(self.interned),
        )  # fmt: skip


def stated_kinds(attributes: Mapping[str, Any]) -> list[int]:
    """The attribute ``dep_kinds``; -1 for an entry that is no kind, so that the list is not believed."""
    kinds = attributes.get("dep_kinds")
    if not isinstance(kinds, list):
        return []
    return [int(kind) if 0 <= kind <= max(EdgeKind) else -1 for kind in kinds if isinstance(kind, int)]


def column_value(value: Any) -> int:
    """An attribute as int64; what is no number or does not fit counts as absent."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, (bool, int)) and -(2**63) < int(value) < 2**63:
        return int(value)
    return ABSENT


def _csr(lists: list[list[int]], kind: type[np.generic]) -> tuple[I64, NDArray[Any]]:
    ptr = np.zeros(len(lists) + 1, np.int64)
    np.cumsum([len(entry) for entry in lists], out=ptr[1:])
    return ptr, np.array([value for entry in lists for value in entry], kind)


def make_trace(
    table: NodeTable, *, path: Path, format_name: str, schema: str, facts: Mapping[str, Any],
    health: list[HealthFinding], attributes_of: AttributeSource, events: int,
) -> Trace:  # fmt: skip
    """Turn the table into a Trace: kinds of work, lanes, groups, dependencies by row, times in ns.

    Args:
        table: the nodes.
        path: the file, for messages, the rank in its name and a process-group file beside it.
        format_name: name of the reader.
        schema: what the file's schema turned out to be.
        facts: attributes of the file's GlobalMetadata.
        health: findings made while reading; more are added.
        attributes_of: decodes the attributes of a row.
        events: number of records in the file.
    """
    domain = _domain(table)
    category = _category(table, domain)
    edges = edges_of(table, health)
    lanes, lane = _lanes(table, domain, facts)
    found, group = groups.process_groups(table, path, facts)
    start, dur = _times(table, health)
    comm = _communication(table)
    shape_texts, shape = _own_shapes(table, facts) or signatures(table.inputs, table.texts)
    said, inputs = input_texts(table.inputs, table.texts)
    kind = _kinds(table, comm["comm_op"])
    has_times = bool((start != NO_TIME).any())
    stated = str(facts.get("time_kind", ""))
    parent = _parents(table, domain, edges, derive="time_kind" not in facts)
    columns = Columns.build(
        len(table), id=table.id, name=table.name, kind=kind, domain=domain, category=category, lane=lane,
        start_ns=start, dur_ns=dur, parent=parent, shape=shape, inputs=inputs, comm_group=group,
        flops=table.integer("num_ops"), bytes_accessed=table.integer("tensor_size"),
        correlation=table.integer("correlation"), comm_seq=table.integer("comm_seq"), **comm,
    )  # fmt: skip
    return Trace(
        columns=columns, names=tuple(table.texts), lanes=lanes, edges=edges, shapes=shape_texts, inputs=said,
        meta=TraceMeta(
            path=str(path), format=format_name, schema=schema, rank=groups.rank_of(path, facts),
            world_size=groups.whole(facts.get("world_size")), hardware=str(facts.get("hardware", "")),
            time_kind=TimeKind(stated) if has_times and stated in set(TimeKind) else TimeKind.MEASURED,
            groups=found, events=events, details=dict(facts),
        ),
        health=tuple(health), attributes_of=attributes_of,
    )  # fmt: skip


def _domain(table: NodeTable) -> NDArray[np.int8]:
    """Host where ``is_cpu_op`` is true or the node is metadata; everything else is device work."""
    host = (table.integers["is_cpu_op"] > 0) | (table.kind == NodeKind.METADATA)
    return np.where(host, Domain.HOST, Domain.DEVICE).astype(np.int8)


def _category(table: NodeTable, domain: NDArray[np.int8]) -> NDArray[np.int8]:
    from chakra_core.classify import classify_names

    by_name = classify_names(table.texts)
    annotation = np.array([bool(_ANNOTATION.match(text)) for text in table.texts] + [False])
    own = np.array([_LABELS.get(text, -1) for text in table.texts] + [-1], np.int8)[table.text_columns["category"]]
    host = domain == Domain.HOST
    category = by_name.astype(np.int8)[table.name] if len(table.texts) else np.zeros(len(table), np.int8)
    category[host] = Category.HOST_OP
    marks = annotation[table.name] | (table.kind == NodeKind.METADATA) | (table.integers["scope"] == _USER_SCOPE)
    category[host & marks] = Category.ANNOTATION
    category[(table.kind == NodeKind.MEM_LOAD) | (table.kind == NodeKind.MEM_STORE)] = Category.COPY
    category[(table.kind >= NodeKind.COMM_SEND) & (table.kind <= NodeKind.COMM_COLL)] = Category.COMMUNICATION
    return np.where(own >= 0, own, category)


def _lanes(table: NodeTable, domain: NDArray[np.int8], facts: Mapping[str, Any]) -> tuple[tuple[Lane, ...], I64]:
    """Lanes as our own writer lists them, else threads and streams by number; -1 where a node says neither."""
    own = _own_lanes(facts)
    if own:
        lane = table.integer("lane")
        return own, np.where(lane < len(own), lane, -1)
    host = domain == Domain.HOST
    tid, stream = table.integers["tid"], table.integers["stream"]
    threads = np.isin(tid[~host], tid[host]).all()  # then a device node's tid is that of its launching thread
    number = np.where(host | ((stream == ABSENT) & ~threads), tid, stream)
    lane = np.full(len(table), -1, np.int64)
    lanes: list[Lane] = []
    for here, kind, word in ((host, LaneKind.THREAD, "thread"), (~host, LaneKind.STREAM, "stream")):
        rows = np.flatnonzero(here & (number != ABSENT))
        numbers, inverse = _ranked(number[rows])
        lane[rows] = len(lanes) + inverse
        place = Domain.HOST if kind == LaneKind.THREAD else Domain.DEVICE
        lanes += [Lane(f"{word} {value}", place, kind, device=-1 if place == Domain.HOST else 0) for value in numbers]
    return tuple(lanes), lane


def _ranked(values: I64) -> tuple[I64, I64]:
    """The distinct values in order, and which of them each value is; numbers close together are not sorted."""
    least, most = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    if most - least > _CLOSE:
        return np.unique(values, return_inverse=True)
    there = np.zeros(most - least + 1, np.bool_)
    there[values - least] = len(values) > 0
    return np.flatnonzero(there) + least, (np.cumsum(there) - 1)[values - least]


def _own_lanes(facts: Mapping[str, Any]) -> tuple[Lane, ...]:
    try:
        listed = json.loads(str(facts.get("lanes", "[]")))
        return tuple(
            Lane(str(name), Domain(domain), LaneKind(kind), str(process), int(device), str(key))
            for name, domain, kind, process, device, key in listed
        )
    except (ValueError, TypeError, OverflowError, RecursionError):
        return ()


def _own_shapes(table: NodeTable, facts: Mapping[str, Any]) -> tuple[tuple[str, ...], I64] | None:
    """Shapes as our own writer lists them; None for other files."""
    try:
        listed = json.loads(str(facts.get("shapes", "null")))
    except (ValueError, RecursionError):
        return None
    if not isinstance(listed, list) or not listed or not all(isinstance(text, str) for text in listed):
        return None
    shape = table.integer("shape")
    return tuple(listed), np.where((shape >= 0) & (shape < len(listed)), shape, -1)


def _times(table: NodeTable, health: list[HealthFinding]) -> tuple[I64, I64]:
    """Exact ns where our writer left them, else Chakra's whole µs; starts that are 0 everywhere mean *none*.

    Sums of what is kept stay within int64: starts beyond ±2^62 ns are dropped, durations end at 2^53 ns.
    """
    top = np.uint64(2**63 // 1000 - 1)
    start_us, dur_us = np.minimum(table.start_us, top), np.minimum(table.dur_us, top)
    known = bool(start_us.any())
    start = (start_us.astype(np.int64) * 1000) if known else np.full(len(table), NO_TIME, np.int64)
    exact = table.integers["start_ns"]
    if (exact != ABSENT).any():
        start = np.where(start_us == 0, NO_TIME, start)
    start = np.where(exact == ABSENT, start, exact)
    dur = np.where(table.integers["dur_ns"] == ABSENT, dur_us.astype(np.int64) * 1000, table.integers["dur_ns"])
    late, long = (start != NO_TIME) & (np.abs(start) > _FARTHEST), dur > _LONGEST
    if late.any() or long.any():
        rows = np.flatnonzero(late | long)
        text = f"{len(rows):,} nodes have a start after the year 2116 or a duration of more than 104 days."
        remedy = "Such starts count as unknown, such durations as 104 days; the attributes show what the file says."
        health.append(HealthFinding.of("implausible-time", Severity.WARNING, rows.tolist(), text, remedy))
    return np.where(late, NO_TIME, start), np.clip(dur, 0, _LONGEST)


def _communication(table: NodeTable) -> dict[str, NDArray[Any]]:
    """Operation, bytes, peer and tag of communication nodes."""
    n, top = len(table), np.iinfo(np.int32).max
    columns: dict[str, NDArray[Any]] = {
        "comm_op": np.full(n, CommOp.NONE, np.int8),
        "comm_bytes": np.full(n, -1, np.int64),
        "comm_peer": np.full(n, -1, np.int32),
        "comm_tag": np.full(n, -1, np.int32),
    }
    rows = np.flatnonzero((table.kind >= NodeKind.COMM_SEND) & (table.kind <= NodeKind.COMM_COLL))

    def integer(name: str, default: int = -1) -> I64:
        values = table.integers[name][rows]
        return np.where(values == ABSENT, default, values)

    op = integer("comm_type", int(CommOp.UNKNOWN))
    op[(op < CommOp.ALL_REDUCE) | (op > CommOp.BARRIER)] = CommOp.UNKNOWN
    op[table.kind[rows] == NodeKind.COMM_SEND] = CommOp.SEND
    op[table.kind[rows] == NodeKind.COMM_RECV] = CommOp.RECV
    own = integer("comm_op")
    restated = (own >= CommOp.ALL_REDUCE) & (own <= max(CommOp))
    op[restated] = own[restated]
    size = integer("comm_size")
    size[restated & (size == 0) & (op != CommOp.BARRIER)] = -1  # our writer's word for *unknown*
    size = np.where((size < 0) & (op >= CommOp.SEND), integer("tensor_size"), size)
    peer = np.where(op == CommOp.SEND, integer("comm_dst"), np.where(op == CommOp.RECV, integer("comm_src"), -1))
    tag = integer("comm_tag")
    columns["comm_op"][rows], columns["comm_bytes"][rows] = op, size
    columns["comm_peer"][rows] = np.where((peer >= 0) & (peer <= top), peer, -1)
    columns["comm_tag"][rows] = np.where((tag >= 0) & (tag <= top), tag, -1)
    return columns


def _kinds(table: NodeTable, op: NDArray[np.int8]) -> NDArray[np.int8]:
    """NodeKind: that of the file, or of the operation where our writer wrote a send or receive as a collective."""
    kind = np.clip(table.kind, 0, 127).astype(np.int8)
    collective = kind == NodeKind.COMM_COLL
    kind[collective & (op == CommOp.SEND)] = NodeKind.COMM_SEND
    kind[collective & (op == CommOp.RECV)] = NodeKind.COMM_RECV
    return kind


def _parents(table: NodeTable, domain: NDArray[np.int8], edges: Edges, *, derive: bool) -> NDArray[np.int32]:
    """The operator a node was called from: as our writer states it, else its first control dependency on the host.

    A file of our writer states every parent there is, so none is derived from it.
    """
    parent = callers_of(edges, domain == Domain.HOST) if derive else np.full(len(table), -1, np.int32)
    own = table.integers["parent"]
    stated = np.flatnonzero(own != ABSENT)
    if len(stated):
        parent[stated] = rows_of(table.id, own[stated].astype(np.uint64))
    parent[parent == np.arange(len(table))] = -1
    return parent
