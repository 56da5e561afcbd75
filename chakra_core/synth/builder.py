"""Collects the nodes of one rank row by row and freezes them into a Trace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from chakra_core.schema import Category, CommOp, Domain, EdgeKind, LaneKind, NodeKind
from chakra_core.trace import Columns, Edges, Lane, Trace, TraceMeta

__all__ = ["TraceBuilder"]


@dataclass
class TraceBuilder:
    """Nodes so far; ``add`` and ``communicate`` give back the row, to depend on."""

    lanes: tuple[str, ...]
    names: dict[str, int] = field(default_factory=dict)
    rows: list[tuple[int, ...]] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)

    def add(self, name: str, category: Category, after: Iterable[int], *, flops: int, moved: int) -> int:
        """A node on the first lane: ``flops`` of work on ``moved`` bytes of memory traffic."""
        return self._row(name, after, (int(NodeKind.COMP), int(category), 0, -1, -1, -1, -1, flops, moved))

    def communicate(
        self, name: str, op: CommOp, after: Iterable[int], *, size: int, group: int, lane: int, seq: int
    ) -> int:
        """A collective of ``size`` bytes over ``groups[group]``, number ``seq`` of that group."""
        fields = (int(NodeKind.COMM_COLL), int(Category.COMMUNICATION), lane, int(op), size, group, seq, -1, -1)
        return self._row(name, after, fields)

    def _row(self, name: str, after: Iterable[int], fields: tuple[int, ...]) -> int:
        row = len(self.rows)
        self.rows.append((self.names.setdefault(name, len(self.names)), *fields))
        self.edges += [(source, row) for source in dict.fromkeys(after)]
        return row

    def build(self, meta: TraceMeta) -> Trace:
        """Freeze; ids are row + 1, all nodes on the device, no times."""
        n = len(self.rows)
        table = np.array(self.rows, np.int64).reshape(n, 10).T
        pairs = np.array(self.edges, np.int64).reshape(-1, 2)
        keys = ("name", "kind", "category", "lane", "comm_op", "comm_bytes", "comm_group", "comm_seq", "flops")
        columns = Columns.build(
            n,
            id=np.arange(1, n + 1),
            domain=np.full(n, Domain.DEVICE),
            bytes_accessed=table[9],
            **dict(zip(keys, table, strict=False)),
        )
        return Trace(
            columns=columns,
            names=tuple(self.names),
            lanes=tuple(
                Lane(label, Domain.DEVICE, LaneKind.STREAM, device=0, key=str(at))
                for at, label in enumerate(self.lanes)
            ),
            edges=Edges.from_pairs(n, pairs[:, 0], pairs[:, 1], np.full(len(pairs), EdgeKind.DATA)),
            meta=meta,
        )
