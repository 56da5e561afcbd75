"""FlexFlow task graphs: DOT text written by FlexFlow's simulator, in the dialects that exist.

* *Chakra dialect*: ``device_id=D|NAME|KIND|COMP_NODE|simulated_run_time=MS`` and
  ``…|COMM_SEND_RECV_NODE|src_device_id=…|dst_device_id=…|comm_size=B|run_time=MS``; also its older spelling with
  ``npu_id``, ``runtime`` (in seconds), ``src``, ``dst``, ``size``.
* *Task graph* (``--taskgraph``): ``{ NAME | KIND | { START | END } }`` in milliseconds, without devices.
* *Computation graph* (inside a log): ``{ OP | GUID | … { fwd | bwd | sync | secs } | { … } … }``, costs in ms.

Grammar and units: FlexFlow ``src/runtime/simulator.cc``, ``substitution.cc`` and the reader that Chakra once had.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from chakra_core.errors import CorruptTrace
from chakra_core.readers.base import Source
from chakra_core.schema import NO_TIME, Category, CommOp, Domain, EdgeKind, LaneKind, NodeKind, Severity, TimeKind
from chakra_core.trace import Columns, Edges, HealthFinding, Lane, Trace, TraceMeta

__all__ = ["READER", "FlexFlowReader"]

_NODE = re.compile(r"node(\d{1,99})\s*\[([^\n]*?)\];")
_LABEL = re.compile(r'label=(?:"\{?([^"]*?)\}?"|([^,\]\s]+))')
_EDGE = re.compile(r"node(\d{1,99})\s*->\s*node(\d{1,99})\s*;")
_GRAPH = re.compile(r"digraph taskgraph\s*\{")
_NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class _Task:
    """One node of the graph, whatever its dialect. Times in ns; devices -1 where the dialect has none."""

    id: int
    name: str
    kind: str
    fields: tuple[str, ...]
    device: int = -1
    peer: int = -1
    size: int = -1
    dur_ns: int = 0
    start_ns: int = NO_TIME


def _number(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1e15:
        raise ValueError(text)
    return value


def _integer(text: str, limit: int) -> int:
    value = int(text)
    if not 0 <= value < limit:
        raise ValueError(text[:20])
    return value


def _chakra_task(number: int, fields: tuple[str, ...]) -> _Task:
    """One node of the Chakra dialect, in either spelling."""
    device = _integer(fields[0].split("=")[1], 2**31)
    values = dict(part.split("=", 1) for part in fields[4:] if "=" in part)
    if fields[3] == "COMP_NODE":
        in_ms = values.get("simulated_run_time")
        dur = _number(in_ms) * _NS_PER_MS if in_ms is not None else _number(values["runtime"]) * 1e9
        return _Task(number, fields[1], fields[2], fields, device, dur_ns=round(dur))
    source, target, size = (
        _integer(values[long] if long in values else values[short], limit)
        for long, short, limit in (
            ("src_device_id", "src", 2**31), ("dst_device_id", "dst", 2**31), ("comm_size", "size", 2**62),
        )
    )  # fmt: skip
    dur = _number(values.get("run_time", "0")) * _NS_PER_MS
    return _Task(number, fields[1], "Comm", fields, source, target, size, round(dur))


def _timed_task(number: int, fields: tuple[str, ...]) -> _Task:
    """One node of FlexFlow's own task graph: ``[NAME] KIND START END``."""
    *words, start, end = fields
    begin, finish = round(_number(start) * _NS_PER_MS), round(_number(end) * _NS_PER_MS)
    name = words[0] if len(words) > 1 else words[-1]
    return _Task(number, name, words[-1], fields, dur_ns=max(finish - begin, 0), start_ns=begin)


def _cost_task(number: int, fields: tuple[str, ...]) -> _Task:
    """One operator of a computation graph; its duration is forward + backward + synchronisation cost."""
    dur = 0.0
    if "secs" in fields:
        at = fields.index("secs") + 1
        dur = sum(_number(part) for part in fields[at : at + 3])
    return _Task(number, fields[0], "Operator", fields, dur_ns=round(dur * _NS_PER_MS))


def _dialect(fields: tuple[str, ...]) -> Callable[[int, tuple[str, ...]], _Task]:
    if len(fields) > 4 and fields[0].startswith(("device_id=", "npu_id=")):
        return _chakra_task
    kinds = {"Forward", "Backward", "Comm", "Update", "Barrier"}
    if 3 <= len(fields) <= 4 and fields[-3] in kinds:
        return _timed_task
    return _cost_task


def _parse(text: str) -> tuple[list[_Task], list[tuple[int, int]], list[int]]:
    """Tasks by first mention, edges as (before, after) ids, and byte offsets of nodes that make no sense."""
    tasks: list[_Task] = []
    bad: list[int] = []
    for match in _NODE.finditer(text):
        label = _LABEL.search(match[2])
        raw = (label[1] or label[2]) if label else ""
        fields = tuple(part.strip() for part in re.split(r"[|{}]", raw) if part.strip())
        try:
            tasks.append(_dialect(fields)(_integer(match[1], 2**62), fields))
        except (ValueError, KeyError, IndexError):
            bad.append(match.start())
    edges = [(int(first), int(second)) for first, second in _EDGE.findall(text)]
    return tasks, edges, bad


class _Builder:
    """Collects the nodes of one rank."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.rows: list[dict[str, Any]] = []
        self.tasks: list[_Task] = []
        self.row_by_id: dict[int, int] = {}
        self._links: dict[str, int] = {}

    def link(self, name: str) -> int:
        """Lane of a link, made on first use. In FlexFlow's simulator each link is a device of its own."""
        return self._links.setdefault(name, 1 + len(self._links))

    def lanes(self) -> tuple[Lane, ...]:
        """The device's compute and its links."""
        names = ("compute", *self._links)
        return tuple(Lane(name, Domain.DEVICE, LaneKind.RESOURCE, device=0) for name in names)

    def add(self, task: _Task, kind: NodeKind, lane: int, **comm: int) -> None:
        """Append a node for a task."""
        self.row_by_id[task.id] = len(self.rows)
        self.tasks.append(task)
        communication = kind in (NodeKind.COMM_SEND, NodeKind.COMM_RECV) or task.kind == "Comm"
        self.rows.append(
            {
                "id": task.id,
                "kind": kind,
                "domain": Domain.DEVICE,
                "category": Category.COMMUNICATION if communication else Category.OTHER,
                "lane": lane,
                "start_ns": task.start_ns,
                "dur_ns": task.dur_ns,
                "comm_bytes": task.size,
                "comm_op": CommOp.NONE,
                "comm_peer": -1,
                "comm_tag": -1,
                **comm,
            }
        )

    def build(
        self, edges: list[tuple[int, int]], lanes: tuple[Lane, ...], meta: TraceMeta, health: list[HealthFinding]
    ) -> Trace:
        """Make the trace; edges whose two ends are both here are kept."""
        from chakra_core.classify import classify_names

        here = self.row_by_id
        pairs = [(here[a], here[b]) for a, b in edges if a in here and b in here]
        sources, targets = np.array(pairs, np.int64).reshape(-1, 2).T
        labels = [
            task.name if task.kind in (task.name, "Operator") else f"{task.name} {task.kind}" for task in self.tasks
        ]
        names = tuple(dict.fromkeys(labels))
        code = {name: at for at, name in enumerate(names)}
        columns = {key: [row[key] for row in self.rows] for key in (self.rows[0] if self.rows else {})}
        categories = classify_names(names)
        columns["category"] = [
            row["category"] or int(categories[code[label]]) for row, label in zip(self.rows, labels, strict=True)
        ]
        columns["name"] = [code[label] for label in labels]
        n = len(self.rows)
        tasks = tuple(self.tasks)
        return Trace(
            columns=Columns.build(n, **columns),
            names=names,
            lanes=lanes,
            edges=Edges.from_pairs(n, sources, targets, np.full(len(pairs), EdgeKind.DATA, np.int8)),
            meta=meta,
            health=tuple(health),
            attributes_of=lambda row: {"kind": tasks[row].kind, "label": " | ".join(tasks[row].fields)},
        )


class FlexFlowReader:
    """Reads FlexFlow task graphs and the computation graphs in FlexFlow logs."""

    name = "flexflow"
    description = "FlexFlow task graph (DOT), in Chakra's dialect or FlexFlow's own; computation graph inside a log"
    suffixes = (".graph", ".dot", ".log")

    def sniff(self, head: bytes, name: str) -> float:
        """Sure where the head holds FlexFlow's graph name."""
        del name
        return 0.95 if re.search(rb"digraph taskgraph\s*\{", head) else 0.0

    def read(self, source: Source) -> Sequence[Trace]:
        """Read the (last) task graph of the file: one trace per device where the dialect names devices."""
        text = source.read().decode("utf-8", "replace")
        found = list(_GRAPH.finditer(text))
        if not found:
            raise CorruptTrace(f"{source.path}: no 'digraph taskgraph {{' in it")
        body = text[found[-1].end() :]
        tasks, edges, bad = _parse(body)
        if not tasks:
            raise CorruptTrace(f"{source.path}: the task graph has no node that makes sense")
        findings = _findings(
            tasks, edges, bad, found[-1].end(), closed=body.rstrip().find("}\n") >= 0 or body.rstrip().endswith("}")
        )
        meta = {"path": str(source.path), "format": self.name, "events": len(tasks)}
        if all(task.device >= 0 for task in tasks):
            return _per_device(tasks, edges, meta, findings)
        return [_whole(tasks, edges, meta, findings)]


def _findings(
    tasks: list[_Task], edges: list[tuple[int, int]], bad: list[int], offset: int, *, closed: bool
) -> list[HealthFinding]:
    known = {task.id for task in tasks}
    dangling = sum(1 for edge in edges if not known.issuperset(edge))
    findings = []
    if bad:
        where = f"the first at byte {offset + bad[0]:,}"
        findings.append(
            HealthFinding(
                "damaged-record",
                Severity.WARNING,
                len(bad),
                f"{len(bad)} nodes have labels that cannot be read, {where}.",
                "The rest is shown; export the graph again.",
            )
        )
    if dangling:
        findings.append(
            HealthFinding(
                "unresolved-dependency",
                Severity.WARNING,
                dangling,
                f"{dangling} edges name nodes that the graph does not declare.",
                "They are left out.",
            )
        )
    if not closed:
        findings.append(
            HealthFinding(
                "truncated",
                Severity.ERROR,
                1,
                "The graph ends before its closing brace.",
                "What was written is shown; export it again.",
            )
        )
    return findings


def _bridge(tasks: list[_Task], edges: list[tuple[int, int]]) -> tuple[list[_Task], list[tuple[int, int]], int]:
    """Tasks and edges in which no edge leads from one device to another: where one does, an empty transfer is put in."""
    starts = {task.id: task.device for task in tasks}
    ends = {task.id: task.peer if task.peer >= 0 else task.device for task in tasks}
    number = max(starts, default=0)
    added: list[_Task] = []
    kept: list[tuple[int, int]] = []
    for first, second in edges:
        source, target = ends.get(first, -1), starts.get(second, -1)
        if source == target or source < 0 or target < 0:
            kept.append((first, second))
            continue
        number += 1
        added.append(_Task(number, f"dependency of node{second} on node{first}", "Comm", (), source, target, 0))
        kept += [(first, number), (number, second)]
    return [*tasks, *added], kept, len(added)


def _per_device(
    tasks: list[_Task], edges: list[tuple[int, int]], meta: dict[str, Any], findings: list[HealthFinding]
) -> list[Trace]:
    """One trace per device; a transfer becomes a send on its source and a receive on its target, matched by tag."""
    tasks, edges, added = _bridge(tasks, edges)
    if added:
        text = f"{added} dependencies lead from one device to another without a transfer."
        remedy = "Each is kept as a transfer of no bytes that takes no time."
        findings = [*findings, HealthFinding("cross-device-dependency", Severity.INFO, added, text, remedy)]
    devices = sorted({task.device for task in tasks} | {task.peer for task in tasks if task.peer >= 0})
    if len(devices) > 1_000_000:
        raise CorruptTrace(f"{meta['path']}: names {len(devices):,} devices")
    builders = {device: _Builder(device) for device in devices}
    for task in tasks:
        if task.peer < 0:
            builders[task.device].add(task, NodeKind.COMP, 0)
            continue
        one, two, tag = builders[task.device], builders[task.peer], task.id % 2**31
        one.add(task, NodeKind.COMM_SEND, one.link(f"to {task.peer}"),
                comm_op=CommOp.SEND, comm_peer=task.peer, comm_tag=tag)  # fmt: skip
        if task.peer != task.device:
            two.add(task, NodeKind.COMM_RECV, two.link(f"from {task.device}"),
                    comm_op=CommOp.RECV, comm_peer=task.device, comm_tag=tag)  # fmt: skip
    home = {task.id: task.device for task in tasks}
    by_rank: dict[int, list[tuple[int, int]]] = {rank: [] for rank in builders}
    for first, second in edges:
        if first in home and second in home:
            by_rank[home[second]].append((first, second))
    size = len(builders)
    return [
        builder.build(
            by_rank[rank],
            builder.lanes(),
            TraceMeta(**meta, schema="chakra dialect", rank=rank, world_size=size),
            findings,
        )
        for rank, builder in sorted(builders.items())
    ]


def _whole(
    tasks: list[_Task], edges: list[tuple[int, int]], meta: dict[str, Any], findings: list[HealthFinding]
) -> Trace:
    """One trace for a dialect without devices; timed tasks are put on the fewest lanes on which none overlap."""
    builder = _Builder(0)
    timed = all(task.start_ns != NO_TIME for task in tasks)
    lane_of, count = _fewest_lanes(tasks) if timed else ({}, 1)
    for task in tasks:
        builder.add(
            task, NodeKind.COMP, lane_of.get(task.id, 0), comm_op=CommOp.UNKNOWN if task.kind == "Comm" else CommOp.NONE
        )
    label = "track {} (device not recorded)" if timed else "operators"
    lanes = tuple(Lane(label.format(at), Domain.DEVICE, LaneKind.RESOURCE, device=0) for at in range(count))
    schema = "task graph" if timed else "computation graph"
    kind = TimeKind.SIMULATED if timed else TimeKind.MEASURED
    return builder.build(edges, lanes, TraceMeta(**meta, schema=schema, time_kind=kind), findings)


def _fewest_lanes(tasks: list[_Task]) -> tuple[dict[int, int], int]:
    """Greedy interval partitioning: lane of each task by id, and the number of lanes."""
    ends: list[int] = []
    lane_of: dict[int, int] = {}
    for task in sorted(tasks, key=lambda entry: (entry.start_ns, entry.id)):
        at = next((lane for lane, end in enumerate(ends) if end <= task.start_ns), len(ends))
        if at == len(ends):
            ends.append(0)
        ends[at] = task.start_ns + task.dur_ns
        lane_of[task.id] = at
    return lane_of, len(ends)


READER = FlexFlowReader()
