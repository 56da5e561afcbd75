"""Dependencies of Chakra nodes: from ids to rows, with a kind each, and what is wrong with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from chakra_core.schema import EdgeKind, Severity
from chakra_core.trace import Edges, HealthFinding

if TYPE_CHECKING:
    from chakra_core.readers._et_table import NodeTable

__all__ = ["callers_of", "edges_of", "rows_of"]

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]


def rows_of(ids: NDArray[np.uint64], wanted: NDArray[np.uint64]) -> I32:
    """Row of each wanted id (the first that bears it), -1 where no node does."""
    from chakra_core.readers import _et_edge_kernels as kernels

    if not len(ids):
        return np.full(len(wanted), -1, np.int32)
    top = int(ids.max())
    if top < 4 * len(ids) + 1024:  # dense enough to look rows up by id
        return kernels.look_up(kernels.table_of(ids, top), wanted)
    order = np.argsort(ids, kind="stable")
    known = ids[order]
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[at] == wanted, order[at], -1).astype(np.int32)


def callers_of(edges: Edges, host: NDArray[np.bool_]) -> I32:
    """Row of the node on the host that each node was called from: its first control dependency there; -1 for none."""
    from chakra_core.readers import _et_edge_kernels as kernels

    return kernels.callers(edges.indptr, edges.sources, edges.kinds, host, int(EdgeKind.CONTROL))


def edges_of(table: NodeTable, health: list[HealthFinding]) -> Edges:
    """Dependencies that resolve, by row, data before control; what does not resolve or makes no sense is reported."""
    from chakra_core.readers import _et_edge_kernels as kernels

    indptr, sources, kinds, lost, own = kernels.merge(
        table.data_ptr, rows_of(table.id, table.data), table.ctrl_ptr, rows_of(table.id, table.ctrl),
        table.kinds_ptr, table.kinds, (int(EdgeKind.DATA), int(EdgeKind.CONTROL)), int(max(EdgeKind)),
    )  # fmt: skip
    _report_edges(table, lost, own, health)
    return Edges(indptr, sources, kinds)


def _report_edges(table: NodeTable, lost: I64, own: I64, health: list[HealthFinding]) -> None:
    if len(lost):
        text = f"{len(lost):,} dependencies name ids that are not in the file."
        health.append(
            _finding(
                "unresolved-dependency", Severity.WARNING, lost, text, "They are left out; the graph lacks those edges."
            )
        )
    if len(own):
        text = f"{len(own):,} dependencies of a node on itself."
        health.append(_finding("self-dependency", Severity.INFO, own, text, "They are left out."))
    twice = np.flatnonzero(rows_of(table.id, table.id) != np.arange(len(table), dtype=np.int32))
    if len(twice):
        text = f"{len(twice):,} nodes bear an id that an earlier node has."
        health.append(
            _finding("duplicate-id", Severity.WARNING, twice, text, "Dependencies on that id lead to the first.")
        )


def _finding(code: str, severity: Severity, rows: I64, text: str, remedy: str) -> HealthFinding:
    return HealthFinding(code, severity, len(rows), text, remedy, tuple(np.unique(rows[:400])[:20].tolist()))
