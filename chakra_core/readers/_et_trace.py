"""Nodes of a PyTorch execution trace to a Trace: call structure, data dependencies, communication, linked device work."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakra_core.classify import classify_name, comm_op_of
from chakra_core.readers import _kineto_nest as nest
from chakra_core.readers._et_comm import GROUP_INIT, Collective, ProcessGroups, collective_of, tensors_in
from chakra_core.readers._et_parse import EtFile, EtNode
from chakra_core.readers._kineto_comm import shape_signature
from chakra_core.readers._kineto_kinds import KINDS, rank_in_name
from chakra_core.readers.base import Source
from chakra_core.readers.pytorch_et import NodeAttributes
from chakra_core.schema import NO_TIME, Category, CommOp, Domain, EdgeKind, LaneKind, NodeKind, Severity
from chakra_core.trace import INPUT_SEPARATOR, Columns, Edges, HealthFinding, Lane, Trace, TraceMeta

__all__ = ["KNOWN_SCHEMAS", "assemble"]

KNOWN_SCHEMAS = ("1.0.1", "1.0.2", "1.0.3", "1.1.0", "1.1.1")
"""Schema versions whose layout is known; a newer one is read as the newest of them."""

_ROOT = re.compile(r"^\[pytorch\|profiler\|execution_(?:graph|trace)\|")
_TENSOR = re.compile(r"Tensor\(([^()]*)\)")
_USER_SCOPE = 7
_BIG = 2**62


def assemble(source: Source, file: EtFile) -> Trace:
    """Build the Trace of one rank from its decoded nodes."""
    return _Assembly(source, file).trace()


class _Assembly:
    """Works out the columns and edges of one file."""

    def __init__(self, source: Source, file: EtFile) -> None:
        self.source, self.file, self.nodes = source, file, file.nodes
        self.n = len(self.nodes)
        self.row_of: dict[int, int] = {}
        for row, node in enumerate(self.nodes):
            self.row_of.setdefault(node.id, row)
        self.parent = np.full(self.n, -1, np.int32)
        self.unresolved: list[int] = []
        self.device = np.array([_is_device(node) for node in self.nodes], np.bool_)
        self.groups = ProcessGroups()
        for node in self.nodes:
            if node.name == GROUP_INIT:
                self.groups.read(node)
        self._parents()

    def _parents(self) -> None:
        for row, node in enumerate(self.nodes):
            up = node.up()
            if up is None or up == node.id:
                continue
            above = self.row_of.get(up, -1)
            if above >= 0 and above != row:
                self.parent[row] = above
            elif self.nodes and up > 1:
                self.unresolved.append(row)
        self._cut_loops()

    def _cut_loops(self) -> None:
        """Parents that lead back to their child (damaged files) are dropped, so that walking up always ends."""
        state = np.zeros(self.n, np.int8)
        for start in range(self.n):
            path = []
            row = start
            while row >= 0 and state[row] == 0:
                state[row] = 1
                path.append(row)
                row = int(self.parent[row])
            if row >= 0 and state[row] == 1:
                self.parent[path[-1]] = -1
                self.unresolved.append(path[-1])
            state[path] = 2

    def trace(self) -> Trace:
        """Put everything together."""
        start, dur = self._times()
        lane, lanes = self._lanes()
        category, kind = self._kinds()
        collectives = self._collectives(category)
        for row, what in collectives.items():
            kind[row] = {CommOp.SEND: NodeKind.COMM_SEND, CommOp.RECV: NodeKind.COMM_RECV}.get(
                what.op, NodeKind.COMM_COLL
            )
        names = list(dict.fromkeys(node.name for node in self.nodes))
        place = {name: at for at, name in enumerate(names)}
        shape, shapes = self._shapes()
        said, inputs = self._inputs()
        columns = Columns.build(
            self.n,
            id=np.array([node.id % 2**64 for node in self.nodes], np.uint64),
            name=np.array([place[node.name] for node in self.nodes], np.int32),
            kind=kind,
            domain=np.where(self.device, Domain.DEVICE, Domain.HOST),
            category=category,
            lane=lane,
            start_ns=start,
            dur_ns=dur,
            parent=self.parent,
            shape=shape,
            inputs=said,
            correlation=np.array([_argument(node, "correlation") for node in self.nodes], np.int64),
            **_comm_columns(self.n, collectives),
        )
        return Trace(
            columns=columns,
            names=tuple(names),
            lanes=lanes,
            edges=self._edges(start, dur, lane),
            meta=self._meta(),
            shapes=shapes,
            inputs=inputs,
            health=self._health(collectives),
            attributes_of=NodeAttributes(
                self.file.text, np.array(self.file.spans, np.int64).reshape(-1, 2), {"rf_id": self._record_ids()}
            ),
        )

    def _record_ids(self) -> NDArray[np.int64]:
        values = (node.attribute("rf_id", 0) for node in self.nodes)
        plain = (value if isinstance(value, int) and 0 <= value < _BIG else 0 for value in values)
        return np.fromiter(plain, np.int64, self.n)

    def _times(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Linked files carry µs; plain host traces have no times."""
        start = np.full(self.n, NO_TIME, np.int64)
        dur = np.zeros(self.n, np.int64)
        for row, node in enumerate(self.nodes):
            if node.ts is not None:
                begin, length = _nanoseconds(node.ts), _nanoseconds(node.dur if node.dur is not None else 0)
                if begin is not None:
                    start[row] = begin
                    dur[row] = max(length or 0, 0)
        return start, dur

    def _lanes(self) -> tuple[NDArray[np.int32], tuple[Lane, ...]]:
        keys: list[tuple[int, int, str]] = []
        for node, device in zip(self.nodes, self.device.tolist(), strict=True):
            if device:
                keys.append((1, _argument(node, "device"), str(_argument(node, "stream"))))
            else:
                keys.append((0, -1, str(node.attribute("tid", 0))))
        order = sorted(set(keys), key=lambda key: (key[0], key[1], len(key[2]), key[2]))
        place = {key: at for at, key in enumerate(order)}
        process = f"process {self.file.meta.get('pid', '')}".strip()
        lanes = tuple(
            Lane(f"stream {name}", Domain.DEVICE, LaneKind.STREAM, f"device {device}", device, f"{device}/{name}")
            if is_device
            else Lane(f"thread {name}", Domain.HOST, LaneKind.THREAD, process, -1, name)
            for is_device, device, name in order
        )
        return np.array([place[key] for key in keys], np.int32), lanes

    def _kinds(self) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
        category = np.full(self.n, Category.HOST_OP, np.int8)
        kind = np.full(self.n, NodeKind.COMP, np.int8)
        for row, node in enumerate(self.nodes):
            if self.device[row]:
                what = KINDS[node.cat.lower()]
                category[row] = classify_name(node.name) if what.named else what.category
            elif _ROOT.match(node.name) or node.name == GROUP_INIT:
                category[row], kind[row] = Category.ANNOTATION, NodeKind.METADATA
            elif node.attribute("scope") == _USER_SCOPE:
                category[row] = Category.ANNOTATION
        return category, kind

    def _collectives(self, category: NDArray[np.int8]) -> dict[int, Collective]:
        """Each communication once: on kernels of linked files, else in records, else in backend annotations."""
        records = {}
        backend = {}
        for row, node in enumerate(self.nodes):
            if self.device[row]:
                continue
            if node.name == "record_param_comms":
                what = collective_of(node, self.groups)
                if what is not None:
                    records[row] = what
            elif category[row] == Category.ANNOTATION and ":" in node.name:
                what = collective_of(node, self.groups)
                if what is not None:
                    backend[row] = what
        kernels = np.flatnonzero(self.device & (category == Category.COMMUNICATION)).tolist()
        if kernels:
            return {row: self._of_kernel(row, records) for row in kernels}
        return records or backend

    def _of_kernel(self, row: int, records: Mapping[int, Collective]) -> Collective:
        above = row
        while above >= 0:
            if above in records:
                return records[above]
            above = int(self.parent[above])
        op = comm_op_of(self.nodes[row].name)
        return Collective(CommOp.UNKNOWN if op is CommOp.NONE else op)

    def _shapes(self) -> tuple[NDArray[np.int32], tuple[str, ...]]:
        plain = functools.lru_cache(maxsize=4096)(_plain_type)
        texts = [shape_signature(node.shapes(), [plain(str(kind)) for kind in node.types()]) for node in self.nodes]
        shapes = tuple(dict.fromkeys(text for text in texts if text))
        place = {text: at for at, text in enumerate(shapes)}
        return np.array([place.get(text, -1) for text in texts], np.int32), shapes

    def _inputs(self) -> tuple[NDArray[np.int32], tuple[str, ...]]:
        texts = [
            json.dumps(node.shapes()) + INPUT_SEPARATOR + json.dumps(node.types()) if node.shapes() else ""
            for node in self.nodes
        ]
        place = {text: at for at, text in enumerate(dict.fromkeys(text for text in texts if text))}
        return np.array([place.get(text, -1) for text in texts], np.int32), tuple(place)

    def _edges(self, start: NDArray[np.int64], dur: NDArray[np.int64], lane: NDArray[np.int32]) -> Edges:
        child = np.flatnonzero(self.parent >= 0)
        control = np.where(self.device[child], EdgeKind.LAUNCH, EdgeKind.CONTROL).astype(np.int8)
        sources, targets = self._data()
        work = np.flatnonzero(self.device & (start != NO_TIME))
        end = start + dur
        order = work[np.lexsort((work, end[work], start[work], lane[work]))]
        before, _ = nest.stream_predecessors(order, lane, start, end)
        follows = np.flatnonzero(before >= 0)
        return Edges.from_pairs(
            self.n,
            np.concatenate([self.parent[child].astype(np.int64), np.array(sources, np.int64), before[follows]]),
            np.concatenate([child, np.array(targets, np.int64), follows]),
            np.concatenate([control, np.full(len(sources), EdgeKind.DATA, np.int8),
                            np.full(len(follows), EdgeKind.STREAM, np.int8)]),
        )  # fmt: skip

    def _data(self) -> tuple[list[int], list[int]]:
        """Producer → consumer through tensor ids.

        Ids are given when operators start, so they order the starts; an operator ends after the last operator that
        started inside it. A tensor's producer is the innermost operator that returns it. (Linked files may number a
        parent after its child: the lowest id in an operator's subtree counts as its start.)
        """
        began: dict[int, int] = {}
        moments = []
        for row, first, last, depth in self._spans():
            moments += [(first, 0, depth, row), (last, 1, -depth, row)]
        producer: dict[int, int] = {}
        sources: list[int] = []
        targets: list[int] = []
        for _, ends, _, row in sorted(moments):
            if not ends:
                began[row] = len(began)
                found = {producer.get(tensor[0], -1) for tensor in tensors_in(self.nodes[row].ins())}
                found.discard(-1)
                sources.extend(found)
                targets.extend([row] * len(found))
                continue
            for tensor in tensors_in(self.nodes[row].outs()):
                known = producer.get(tensor[0], -1)
                if known < 0 or began[known] < began[row]:
                    producer[tensor[0]] = row
        return sources, targets

    def _spans(self) -> list[tuple[int, int, int, int]]:
        """Of each host operator: row, lowest and highest id in its subtree, depth."""
        depth = np.full(self.n, -1, np.int64)
        for start in range(self.n):
            path = []
            row = start
            while row >= 0 and depth[row] < 0:
                path.append(row)
                row = int(self.parent[row])
            above = int(depth[row]) if row >= 0 else -1
            for at in reversed(path):
                above += 1
                depth[at] = above
        host = np.flatnonzero(~self.device)
        first = [node.id for node in self.nodes]
        last = list(first)
        for row in host[np.argsort(-depth[host], kind="stable")].tolist():
            up = int(self.parent[row])
            if up >= 0:
                first[up] = min(first[up], first[row])
                last[up] = max(last[up], last[row])
        return [(row, first[row], last[row], int(depth[row])) for row in host.tolist()]

    def _meta(self) -> TraceMeta:
        rank, size = rank_in_name(self.source.name)
        default = next((group for group in self.groups.groups if group.description == "default_pg"), None)
        if size < 0 and default is not None:
            size = default.size
        meta = self.file.meta
        return TraceMeta(
            path=str(self.source.path),
            format="pytorch-et-linked" if self.device.any() else "pytorch-et",
            schema=str(meta.get("schema", "")),
            rank=rank,
            world_size=size,
            groups=tuple(self.groups.groups),
            events=self.n,
            details={key: value for key, value in meta.items() if not isinstance(value, (list, dict))},
        )

    def _health(self, collectives: Mapping[int, Collective]) -> tuple[HealthFinding, ...]:
        file = self.file
        schema = str(file.meta.get("schema", ""))
        known = schema.split("-", maxsplit=1)[0] in KNOWN_SCHEMAS
        ids = len(self.nodes) - len(self.row_of)
        unsized = [row for row, what in collectives.items() if what.bytes < 0 and what.op is not CommOp.BARRIER]
        found = [
            HealthFinding.of("unknown-schema", Severity.WARNING, int(not known),
                             f"Schema {schema or '(none)'!r} is not known; the file was read as {KNOWN_SCHEMAS[-1]}.",
                             "Check names, shapes and dependencies of a few nodes."),
            HealthFinding.of("truncated", Severity.ERROR, int(file.truncated_at >= 0),
                             f"The file breaks off at byte {file.truncated_at:,}; the nodes before it were read.",
                             "Record or copy the trace again."),
            HealthFinding.of("damaged-record", Severity.ERROR, file.damaged,
                             f"{file.damaged} node(s) could not be decoded and were left out.", "Look at the file."),
            HealthFinding.of("unresolved-dependency", Severity.WARNING, self.unresolved,
                             "Nodes whose parent is not in the file; they are kept at the top level.",
                             "The recording may have started inside them."),
            HealthFinding.of("duplicate-id", Severity.WARNING, ids,
                             "Nodes that share an id with an earlier one; links go to the first.", "Check the recorder."),
            HealthFinding.of("collective-type", Severity.WARNING,
                             [row for row, what in collectives.items() if what.op is CommOp.UNKNOWN],
                             "Communication whose kind the trace does not say.", "Record with a newer PyTorch."),
            HealthFinding.of("collective-size", Severity.WARNING, unsized,
                             "Communication whose message size the trace does not say.", "Record with a newer PyTorch."),
            HealthFinding.of("collective-group", Severity.WARNING,
                             [row for row, what in collectives.items() if what.group < 0],
                             "Communication whose process group the trace does not say; all ranks are assumed.",
                             "Record with a newer PyTorch."),
        ]  # fmt: skip
        return tuple(finding for finding in found if finding.count)


def _is_device(node: EtNode) -> bool:
    return KINDS[node.cat.lower()].domain == Domain.DEVICE if node.cat.lower() in KINDS else False


def _argument(node: EtNode, key: str) -> int:
    value = node.args.get(key) if isinstance(node.args, dict) else None
    return value if isinstance(value, int) and abs(value) < _BIG else -1


def _nanoseconds(value: Any) -> int | None:
    try:
        number = Decimal(str(value)) * 1000
        return int(number.to_integral_value("ROUND_HALF_UP")) if abs(number) < _BIG else None
    except (InvalidOperation, ValueError):
        return None


def _plain_type(kind: str) -> str:
    """``float`` of ``Tensor(float)`` or ``GenericList[Tensor(float)]``; ``""`` of what is no tensor."""
    found = _TENSOR.search(kind)
    return found[1] if found else ""


def _comm_columns(n: int, collectives: Mapping[int, Collective]) -> dict[str, NDArray[Any]]:
    columns: dict[str, NDArray[Any]] = {
        "comm_op": np.full(n, CommOp.NONE, np.int8),
        "comm_bytes": np.full(n, -1, np.int64),
        "comm_group": np.full(n, -1, np.int32),
        "comm_peer": np.full(n, -1, np.int32),
        "comm_seq": np.full(n, -1, np.int64),
    }
    for row, what in collectives.items():
        values = (what.op, what.bytes, what.group, what.peer, what.seq)
        for column, value in zip(columns.values(), values, strict=True):
            column[row] = value
    return columns
