"""ASTRA-sim text workloads: one line per layer with compute times (µs), communication types and sizes (bytes).

Line: ``name reserved fwd_time fwd_comm fwd_bytes ig_time ig_comm ig_bytes wg_time wg_comm wg_bytes update_time
[parallelism]``; *ig* is the gradient of the inputs, *wg* that of the weights. The first line names the parallelism,
in SimAI's dialect followed by ``key: value`` pairs. Every rank runs the same layers, so one trace stands for all.

Dependencies, as Chakra's text converter lays them: a layer's forward communication blocks the next layer; in the
backward pass, input-gradient communication runs beside the layer's weight gradient and blocks the layer below, and
weight-gradient communication blocks nothing. In HYBRID_DLRM the embedding's all-to-all (layer 0) runs beside the
bottom MLP and is awaited by the first layer above the number in the header.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from chakra_core.errors import CorruptTrace
from chakra_core.readers.base import Source
from chakra_core.schema import Category, CommOp, Domain, EdgeKind, LaneKind, NodeKind, Severity
from chakra_core.trace import Columns, Edges, HealthFinding, Lane, ProcessGroup, Trace, TraceMeta

__all__ = ["READER", "AstraSimTextReader"]

_TYPES = (
    "MICRO", "DATA", "MODEL", "HYBRID_DATA_MODEL", "HYBRID_MODEL_DATA", "HYBRID_DLRM", "HYBRID_DLRM_ENHANCED",
    "HYBRID_TRANSFORMER", "HYBRID_TRANSFORMER_FWD_IN_BCKWD", "HYBRID_CUSTOMIZED", "DISTRIBUTED_INFERENCE",
)  # fmt: skip
_COMM = {
    "ALLREDUCE": CommOp.ALL_REDUCE,
    "ALLGATHER": CommOp.ALL_GATHER,
    "REDUCESCATTER": CommOp.REDUCE_SCATTER,
    "ALLTOALL": CommOp.ALL_TO_ALL,
    "BROADCAST": CommOp.BROADCAST,
}
_FIELDS = 12
_FIRST_LINES = 8192  # bytes that hold the first three lines
_NS_PER_US = 1000
_COMPUTE, _COMMUNICATION = 0, 1


@dataclass(frozen=True, slots=True)
class _Layer:
    name: str
    line: int
    parts: dict[str, tuple[int, str, int]]
    """Compute time (ns), communication word and bytes by pass: fwd, ig, wg."""
    text: str


@dataclass(slots=True)
class _Graph:
    """Nodes and edges while they are laid out."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)

    def compute(self, layer: _Layer, step: str, after: Sequence[int]) -> int:
        """Append the compute node of one pass of a layer; returns its row."""
        return self._add(
            {"name": f"{layer.name} {step}", "kind": NodeKind.COMP, "category": Category.OTHER, "lane": _COMPUTE,
             "dur_ns": layer.parts[step][0], "comm_op": CommOp.NONE, "comm_bytes": -1, "text": layer.text},
            after,
        )  # fmt: skip

    def communicate(self, layer: _Layer, step: str, after: int) -> int | None:
        """Append the communication of one pass, if it has any; returns its row."""
        _, word, size = layer.parts[step]
        if word == "NONE" or size == 0:
            return None
        op = _COMM.get(word.split("_")[0], CommOp.UNKNOWN)
        return self._add(
            {"name": f"{layer.name} {step} {op.label}", "kind": NodeKind.COMM_COLL, "category": Category.COMMUNICATION,
             "lane": _COMMUNICATION, "dur_ns": 0, "comm_op": op, "comm_bytes": size, "text": layer.text},
            [after],
        )  # fmt: skip

    def _add(self, row: dict[str, Any], after: Sequence[int]) -> int:
        at = len(self.rows)
        self.rows.append(row)
        self.edges.extend((source, at) for source in after)
        return at


def _layers(lines: list[str], path: object) -> tuple[list[_Layer], list[int]]:
    layers: list[_Layer] = []
    bad: list[int] = []
    for number, line in enumerate(lines, 3):
        words = line.split()
        if not words:
            continue
        try:
            parts = {
                step: (int(words[at]) * _NS_PER_US, words[at + 1].upper(), int(words[at + 2]))
                for step, at in (("fwd", 2), ("ig", 5), ("wg", 8))
            }
        except (ValueError, IndexError):
            bad.append(number)
            continue
        if any(part[0] < 0 or part[2] < 0 or part[0] > 2**60 or part[2] > 2**62 for part in parts.values()):
            bad.append(number)
            continue
        layers.append(_Layer(words[0], number, parts, " ".join(words)))
    if not layers:
        raise CorruptTrace(f"{path}: no line after the header is a layer ({_FIELDS} fields expected)")
    return layers, bad


def _lay_out(layers: list[_Layer], dlrm_bottom: int | None) -> _Graph:
    graph = _Graph()
    before: list[int] = []
    embedding: int | None = None
    for at, layer in enumerate(layers):
        if dlrm_bottom is not None and at == dlrm_bottom + 1 and embedding is not None:
            before = [*before, embedding]
        work = graph.compute(layer, "fwd", before)
        message = graph.communicate(layer, "fwd", work)
        if dlrm_bottom is not None and at == 0:
            embedding, message = message, None
        before = [work if message is None else message]
    for at, layer in reversed(list(enumerate(layers))):
        before = _backward(graph, layer, before, first=at == 0)
    return graph


def _backward(graph: _Graph, layer: _Layer, before: list[int], *, first: bool) -> list[int]:
    """Lay out the backward pass of one layer; returns what the layer below waits for."""
    if layer.parts["ig"][1] != "NONE":
        inputs = graph.compute(layer, "ig", before)
        message = None if first else graph.communicate(layer, "ig", inputs)
        weights = graph.compute(layer, "wg", [inputs])
        graph.communicate(layer, "wg", weights)
        return [weights] if message is None else [weights, message]
    weights = graph.compute(layer, "wg", before)
    graph.communicate(layer, "wg", weights)
    return [weights] if first else [graph.compute(layer, "ig", [weights])]


class AstraSimTextReader:
    """Reads ASTRA-sim's text workloads, SimAI's dialect included."""

    name = "astra-sim-text"
    description = "ASTRA-sim text workload: layers with compute times and collectives"
    suffixes = (".txt",)

    def sniff(self, head: bytes, name: str) -> float:
        """Sure where the first line starts with a parallelism and the second is the number of layers."""
        del name
        lines = head[:_FIRST_LINES].decode("utf-8", "replace").splitlines()[:3]
        if len(lines) < 3 or not lines[0].split() or lines[0].split()[0] not in _TYPES:
            return 0.0
        return 0.9 if re.fullmatch(r"\s*\d+\s*", lines[1]) else 0.0

    def read(self, source: Source) -> Sequence[Trace]:
        """Read the workload into one trace that stands for every rank; it has no start times."""
        lines = source.read().decode("utf-8", "replace").splitlines()
        if len(lines) < 3:
            raise CorruptTrace(f"{source.path}: ends before the first layer")
        header = lines[0].split()
        options = dict(re.findall(r"(\w+):\s*(-?\d+)", lines[0]))
        layers, bad = _layers(lines[2:], source.path)
        dlrm = (
            int(header[1]) if header[0].startswith("HYBRID_DLRM") and len(header) > 1 and header[1].isdigit() else None
        )
        graph = _lay_out(layers, dlrm)
        promised = int(lines[1].split()[0]) if lines[1].split() and lines[1].split()[0].isdigit() else len(layers)
        return [_trace(source, header[0], options, graph, _findings(graph, bad, promised, len(layers)))]


def _findings(graph: _Graph, bad: list[int], promised: int, found: int) -> list[HealthFinding]:
    findings = []
    if bad:
        findings.append(
            HealthFinding(
                "damaged-record",
                Severity.WARNING,
                len(bad),
                f"{len(bad)} lines are no layers, the first is line {bad[0]}.",
                "The other layers are shown; correct the line.",
            )
        )
    if promised > found + len(bad):
        findings.append(
            HealthFinding(
                "truncated",
                Severity.ERROR,
                promised - found,
                f"The header promises {promised} layers, {found} are there.",
                "The file may be cut; write it again.",
            )
        )
    unknown = [at for at, row in enumerate(graph.rows) if row["comm_op"] == CommOp.UNKNOWN]
    if unknown:
        findings.append(
            HealthFinding.of(
                "collective-type",
                Severity.WARNING,
                unknown,
                f"{len(unknown)} communication nodes have a type that is not known.",
                "They are kept with type unknown.",
            )
        )
    return findings


def _trace(source: Source, kind: str, options: dict[str, str], graph: _Graph, findings: list[HealthFinding]) -> Trace:
    rows = graph.rows
    names = tuple(dict.fromkeys(row["name"] for row in rows))
    code = {name: at for at, name in enumerate(names)}
    columns = {
        key: [row[key] for row in rows] for key in ("kind", "category", "lane", "dur_ns", "comm_op", "comm_bytes")
    }
    n = len(rows)
    sources, targets = np.array(graph.edges, np.int64).reshape(-1, 2).T
    world = int(options.get("all_gpus", "-1"))
    texts = tuple(row["text"] for row in rows)
    return Trace(
        columns=Columns.build(
            n, id=np.arange(n), name=[code[row["name"]] for row in rows], domain=np.full(n, Domain.DEVICE), **columns
        ),
        names=names,
        lanes=(
            Lane("compute", Domain.DEVICE, LaneKind.RESOURCE, device=0),
            Lane("communication", Domain.DEVICE, LaneKind.RESOURCE, device=0),
        ),
        edges=Edges.from_pairs(n, sources, targets, np.full(len(graph.edges), EdgeKind.DATA, np.int8)),
        meta=TraceMeta(
            path=str(source.path), format=AstraSimTextReader.name, schema=kind, world_size=world,
            groups=(ProcessGroup("0", description="all ranks", size=world),) if world > 0 else (), events=n,
            details={"parallelism": kind, **options},
        ),
        health=tuple(findings),
        attributes_of=lambda row: {"line": texts[row]},
    )  # fmt: skip


READER = AstraSimTextReader()
