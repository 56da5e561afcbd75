"""Small hand-made traces for tests: say only what matters, the rest is filled in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from chakra_core.schema import Category, CommOp, Domain, EdgeKind, LaneKind, NodeKind, TimeKind
from chakra_core.trace import Columns, Edges, Lane, ProcessGroup, Trace, TraceMeta

__all__ = ["make_trace", "node"]


def node(name: str, start: int, dur: int, lane: str = "gpu:7", **more: Any) -> dict[str, Any]:
    """One node; lanes called ``gpu:…`` are device streams, all others host threads."""
    return {"name": name, "start_ns": start, "dur_ns": dur, "lane": lane, **more}


def make_trace(
    nodes: Sequence[dict[str, Any]],
    edges: Sequence[tuple[int, int] | tuple[int, int, EdgeKind]] = (),
    *,
    rank: int = 0,
    groups: Sequence[ProcessGroup] = (),
    time_kind: TimeKind = TimeKind.MEASURED,
) -> Trace:
    """Build a Trace; edges are ``(dependency row, waiting row[, kind])``. Ids are row + 100."""
    names = list(dict.fromkeys(entry["name"] for entry in nodes))
    lanes = list(dict.fromkeys(entry.get("lane", "gpu:7") for entry in nodes))
    columns: dict[str, list[Any]] = {}
    for at, entry in enumerate(nodes):
        device = entry.get("lane", "gpu:7").startswith("gpu")
        comm = entry.get("comm_op", CommOp.NONE)
        default = Category.GEMM if device else Category.HOST_OP
        row = {
            "id": at + 100,
            "domain": Domain.DEVICE if device else Domain.HOST,
            "category": default if comm == CommOp.NONE else Category.COMMUNICATION,
            "kind": NodeKind.COMP if comm == CommOp.NONE else NodeKind.COMM_COLL,
            "parent": -1, "comm_op": comm, "comm_bytes": -1, "comm_group": -1, "comm_seq": -1, "comm_peer": -1,
            "flops": -1, "bytes_accessed": -1, "correlation": -1, "shape": -1, "inputs": -1, "comm_tag": -1,
            **entry,
        }  # fmt: skip
        row["name"] = names.index(entry["name"])
        row["lane"] = lanes.index(entry.get("lane", "gpu:7"))
        for key, value in row.items():
            columns.setdefault(key, []).append(value)
    pairs = [(edge[0], edge[1], edge[2] if len(edge) > 2 else EdgeKind.DATA) for edge in edges]
    n = len(nodes)
    return Trace(
        columns=Columns.build(n, **columns),
        names=tuple(names),
        lanes=tuple(
            Lane(
                lane,
                Domain.DEVICE if lane.startswith("gpu") else Domain.HOST,
                LaneKind.STREAM if lane.startswith("gpu") else LaneKind.THREAD,
                device=0 if lane.startswith("gpu") else -1,
            )
            for lane in lanes
        ),
        edges=Edges.from_pairs(n, *np.array(pairs, dtype=np.int64).reshape(-1, 3).T),
        meta=TraceMeta(path="built", format="built", rank=rank, groups=tuple(groups), time_kind=time_kind),
    )
