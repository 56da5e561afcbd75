"""TensorFlow RunMetadata (``RunOptions.FULL_TRACE``): operators per device with times, sizes and dependencies.

Dependencies come from ``timeline_label`` (``name = Op(input, input:1, ^control)``) and from the partition graphs where
they were recorded. An operator's time is its kernel: ``all_start + op_start_rel`` to ``all_start + op_end_rel``.
What a GPU did stands under devices of its own (``/device:GPU:0/stream:12``, nodes called ``operator:kernel``) and is
launched by the operator; ``stream:all`` repeats the others and is an annotation where they are there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from chakra_core.errors import CorruptTrace
from chakra_core.readers._run_metadata_memory import memory_of_steps
from chakra_core.readers._xplane_table import text_of
from chakra_core.readers.base import Source
from chakra_core.readers.proto import run_metadata_pb2
from chakra_core.schema import Category, Domain, EdgeKind, LaneKind, Severity
from chakra_core.trace import Columns, Edges, HealthFinding, Lane, Trace, TraceMeta

__all__ = ["READER", "RunMetadataReader"]

_HEAD = re.compile(
    rb"\n[\x80-\xff]{0,9}[\x00-\x7f]\n[\x80-\xff]{0,9}[\x00-\x7f]\n.(/job:|/device:|/host:|/cpu|/gpu)",
    re.DOTALL | re.IGNORECASE,
)
_LABEL = re.compile(r"^(?:\[[^\]]*\]\s*)?(?P<name>[^\s=]+) = (?P<op>[\w>]+)\((?P<inputs>.*)\)")


class RunMetadataReader:
    """Reads TensorFlow RunMetadata."""

    name = "tf-run-metadata"
    description = "TensorFlow RunMetadata with step statistics (FULL_TRACE)"
    suffixes = (".pb",)

    def sniff(self, head: bytes, name: str) -> float:
        """Sure where the head is step statistics of a named device."""
        del name
        return 0.9 if _HEAD.match(head) else 0.0

    def read(self, source: Source) -> Sequence[Trace]:
        """Read the step into one trace."""
        message = run_metadata_pb2.RunMetadata()
        try:
            message.ParseFromString(source.read())
        except DecodeError as error:
            raise CorruptTrace(f"{source.path}: is no RunMetadata protobuf, or is damaged: {error}") from error
        nodes = [(at, node) for at, device in enumerate(message.step_stats.dev_stats) for node in device.node_stats]
        if not nodes:
            raise CorruptTrace(f"{source.path}: its step statistics are empty; record with RunOptions.FULL_TRACE")
        return [_build(source, message, nodes)]


def _times(node: Any) -> tuple[int, int]:
    """Start and duration in ns; the ns fields where present, else the µs fields."""
    if node.all_start_nanos:
        start, first, last = node.all_start_nanos, node.op_start_rel_nanos, node.op_end_rel_nanos
    else:
        start = node.all_start_micros * 1000
        first, last = node.op_start_rel_micros * 1000, node.op_end_rel_micros * 1000
    return start + first, max(last - first, 0)


def _links(message: Any, nodes: list[tuple[int, Any]]) -> tuple[list[tuple[int, int, int]], int]:
    """Edges as (source row, target row, kind), and how many inputs name an operator that did not run."""
    on_gpu = [_is_stream(text_of(message.step_stats.dev_stats[at].device)) for at, _ in nodes]
    row_of = {
        text_of(node.node_name): row for row, ((_, node), gpu) in enumerate(zip(nodes, on_gpu, strict=True)) if not gpu
    }
    wanted: dict[tuple[str, str], EdgeKind] = {}

    def want(target: str, source: str) -> None:
        kind = EdgeKind.CONTROL if source.startswith("^") else EdgeKind.DATA
        name = re.sub(r":\d+$", "", source.lstrip("^"))
        wanted.setdefault((name, target), kind)

    for _, node in nodes:
        match = _LABEL.match(text_of(node.timeline_label))
        for source in match["inputs"].split(", ") if match and match["inputs"] else ():
            want(text_of(node.node_name), source.strip())
    for graph in message.partition_graphs:
        for entry in graph.node:
            for source in entry.input:
                want(text_of(entry.name), text_of(source))
    pairs = [
        (row_of[name], row, int(EdgeKind.LAUNCH))
        for row, ((_, node), gpu) in enumerate(zip(nodes, on_gpu, strict=True))
        if gpu and (name := text_of(node.node_name).split(":")[0]) in row_of
    ]
    missing = 0
    for (source, target), kind in wanted.items():
        if source in row_of and target in row_of:
            pairs.append((row_of[source], row_of[target], int(kind)))
        elif target in row_of:
            missing += 1
    return pairs, missing


def _is_stream(device: str) -> bool:
    """Whether a device of the step statistics is what a GPU did, not what was asked of it."""
    return "/stream:" in device or "/memcpy" in device


def _lanes(message: Any, nodes: list[tuple[int, Any]]) -> tuple[tuple[Lane, ...], list[int], list[Domain], list[bool]]:
    """Lanes, and for every node its lane, its domain, and whether it repeats what is on another lane."""
    devices = [text_of(device.device) for device in message.step_stats.dev_stats]
    single = any(_is_stream(name) and not name.endswith("stream:all") for name in devices)
    lanes: dict[tuple[int, int], int] = {}
    made: list[Lane] = []
    lane_of, domains, repeats = [], [], []
    for at, node in nodes:
        label = devices[at]
        gpu = _is_stream(label)
        again = single and label.endswith("stream:all")
        key = (at, 0 if gpu else node.thread_id)
        if key not in lanes:
            lanes[key] = len(made)
            made.append(_lane(message.step_stats.dev_stats[at], label, node.thread_id, gpu=gpu, again=again))
        lane_of.append(lanes[key])
        domains.append(Domain.DEVICE if gpu else Domain.HOST)
        repeats.append(again)
    return tuple(made), lane_of, domains, repeats


def _lane(device: Any, label: str, thread: int, *, gpu: bool, again: bool) -> Lane:
    if not gpu:
        name = text_of(device.thread_names.get(thread, b"")) or f"thread {thread}"
        return Lane(name, Domain.HOST, LaneKind.THREAD, label)
    number = re.search(r"GPU:(\d{1,6})", label, re.IGNORECASE)
    kind = LaneKind.ANNOTATION if again else LaneKind.STREAM
    return Lane(label.rsplit("/", 1)[-1], Domain.DEVICE, kind, label, int(number[1]) if number else 0)


def _build(source: Source, message: Any, nodes: list[tuple[int, Any]]) -> Trace:
    from chakra_core.classify import classify_names

    n = len(nodes)
    ops = [match["op"] if (match := _LABEL.match(text_of(node.timeline_label))) else "" for _, node in nodes]
    labels = [
        f"{text_of(node.node_name)}:{op}" if op else text_of(node.node_name)
        for (_, node), op in zip(nodes, ops, strict=True)
    ]
    names = tuple(dict.fromkeys(labels))
    code = {name: at for at, name in enumerate(names)}
    lanes, lane_of, domains, repeats = _lanes(message, nodes)
    kinds = classify_names([op or label for op, label in zip(ops, labels, strict=True)])
    pairs, missing = _links(message, nodes)
    times = [_times(node) for _, node in nodes]
    sizes = [
        sum(out.tensor_description.allocation_description.requested_bytes for out in node.output) for _, node in nodes
    ]
    edges = np.array(pairs, np.int64).reshape(-1, 3)
    health = []
    if missing:
        health.append(
            HealthFinding(
                "unresolved-dependency",
                Severity.INFO,
                missing,
                f"{missing} inputs name operators that did not run in this step.",
                "Constants folded before the step are expected here.",
            )
        )
    return Trace(
        columns=Columns.build(
            n, id=np.arange(n), name=[code[label] for label in labels], domain=domains, lane=lane_of,
            category=[
                Category.HOST_OP if domain == Domain.HOST else Category.ANNOTATION if again else int(kind)
                for domain, kind, again in zip(domains, kinds, repeats, strict=True)
            ],
            start_ns=[start for start, _ in times], dur_ns=[dur for _, dur in times],
            bytes_accessed=[size or -1 for size in sizes],
        ),
        names=names, lanes=lanes, edges=Edges.from_pairs(n, edges[:, 0], edges[:, 1], edges[:, 2]),
        meta=TraceMeta(path=str(source.path), format=RunMetadataReader.name, rank=0, world_size=1, events=n),
        health=tuple(health),
        memory=memory_of_steps([text_of(one.device) for one in message.step_stats.dev_stats], nodes, lane_of),
        attributes_of=lambda row: _attributes(nodes[row][1]),
    )  # fmt: skip


def _attributes(node: Any) -> dict[str, Any]:
    outputs = [
        {
            "slot": out.slot,
            "shape": [dim.size for dim in out.tensor_description.shape.dim],
            "requested_bytes": out.tensor_description.allocation_description.requested_bytes,
            "allocator": text_of(out.tensor_description.allocation_description.allocator_name),
        }
        for out in node.output
    ]
    return {
        "timeline_label": text_of(node.timeline_label),
        "scheduled_ns": node.scheduled_nanos or node.scheduled_micros * 1000,
        "all_end_rel_ns": node.all_end_rel_nanos or node.all_end_rel_micros * 1000,
        "thread_id": node.thread_id,
        "outputs": outputs,
    }


READER = RunMetadataReader()
