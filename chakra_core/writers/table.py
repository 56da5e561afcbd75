"""The nodes of all ranks as one table, for formats of rows and columns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from chakra_core.schema import NO_TIME, Category, CommOp, EdgeKind, NodeKind
from chakra_core.trace import Trace
from chakra_core.writers.base import Rank

__all__ = ["node_table"]


def node_table(ranks: Sequence[Rank]) -> pd.DataFrame:
    """One row per node: names and enumerations as words, what is not known as missing, dependencies as ids.

    Times are int64 ns, sizes bytes. ``data_deps`` and ``ctrl_deps`` are ids of the same rank, separated by spaces.
    """
    return pd.concat([_of(rank.trace) for rank in ranks], ignore_index=True)


def _of(trace: Trace) -> pd.DataFrame:
    c = trace.columns
    n = len(trace)
    ids = c.id
    names = np.array([*trace.names, ""], dtype=object)
    lanes = np.array([*(lane.name for lane in trace.lanes), ""], dtype=object)
    shapes = np.array([*trace.shapes, ""], dtype=object)
    groups = np.array([*(group.name for group in trace.meta.groups), ""], dtype=object)
    parent = pd.array(np.where(c.parent >= 0, ids[np.maximum(c.parent, 0)], 0), dtype="UInt64") if n else []
    frame: dict[str, Any] = {
        "rank": np.full(n, trace.meta.rank, np.int64),
        "id": ids,
        "name": names[c.name],
        "kind": _words(c.kind, NodeKind),
        "domain": np.array(["host", "device"], dtype=object)[c.domain],
        "category": np.array([category.label for category in Category], dtype=object)[c.category],
        "lane": lanes[c.lane],
        "start_ns": _known(c.start_ns, NO_TIME),
        "dur_ns": c.dur_ns,
        "parent": pd.Series(parent, dtype="UInt64").mask(c.parent < 0),
        "shapes": shapes[c.shape],
        "comm_op": np.array([*(op.label for op in sorted(CommOp) if op >= 0), ""], dtype=object)[c.comm_op],
        "comm_group": groups[c.comm_group],
    }
    for name in ("comm_bytes", "comm_peer", "comm_tag", "comm_seq", "flops", "bytes_accessed", "correlation"):
        frame[name] = _known(getattr(c, name), -1)
    frame["data_deps"], frame["ctrl_deps"] = _deps(trace)
    return pd.DataFrame(frame)


def _words(codes: Any, kinds: type[NodeKind]) -> list[str]:
    words = {int(kind): kind.name for kind in kinds}
    return [words.get(code, str(code)) for code in codes.tolist()]


def _known(values: Any, missing: int) -> pd.Series:
    return pd.Series(values, dtype="Int64").mask(values == missing)


def _deps(trace: Trace) -> tuple[list[str], list[str]]:
    ids, indptr = trace.columns.id.tolist(), trace.edges.indptr.tolist()
    sources, kinds = trace.edges.sources.tolist(), trace.edges.kinds.tolist()
    data, control = [], []
    for first, last in pairwise(indptr):
        waits = list(zip(sources[first:last], kinds[first:last], strict=True))
        data.append(" ".join(str(ids[source]) for source, kind in waits if kind != EdgeKind.CONTROL))
        control.append(" ".join(str(ids[source]) for source, kind in waits if kind == EdgeKind.CONTROL))
    return data, control
