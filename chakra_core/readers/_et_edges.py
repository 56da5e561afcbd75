"""Dependencies of Chakra nodes: from ids to rows, with a kind each, and what is wrong with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from chakra_core.schema import EdgeKind, Severity
from chakra_core.trace import Edges, HealthFinding

if TYPE_CHECKING:
    from chakra_core.readers._et_table import NodeTable

__all__ = ["edges_of", "rows_of"]

I64 = NDArray[np.int64]


def rows_of(ids: NDArray[np.uint64], wanted: NDArray[np.uint64]) -> I64:
    """Row of each wanted id (the first that bears it), -1 where no node does."""
    if not len(ids):
        return np.full(len(wanted), -1, np.int64)
    top = int(ids.max())
    if top < 4 * len(ids) + 1024:  # dense enough to look rows up by id; one more place for ids beyond the last
        row_of = np.full(top + 2, -1, np.int64)
        row_of[ids[::-1]] = np.arange(len(ids) - 1, -1, -1)
        return row_of[np.minimum(wanted, np.uint64(top + 1))]
    order = np.argsort(ids, kind="stable")
    known = ids[order]
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[at] == wanted, order[at], -1)


def edges_of(table: NodeTable, health: list[HealthFinding]) -> Edges:
    """Dependencies that resolve, by row, data before control; what does not resolve or makes no sense is reported."""
    n = len(table)
    targets = np.concatenate(
        [np.repeat(np.arange(n), np.diff(table.data_ptr)), np.repeat(np.arange(n), np.diff(table.ctrl_ptr))]
    )
    sources = rows_of(table.id, np.concatenate([table.data, table.ctrl]))
    kinds = np.concatenate(
        [np.full(len(table.data), EdgeKind.DATA, np.int8), np.full(len(table.ctrl), EdgeKind.CONTROL, np.int8)]
    )
    _apply_stated(table, kinds)
    _report_edges(table, sources, targets, health)
    kept = (sources >= 0) & (sources != targets)
    return Edges.from_pairs(n, sources[kept], targets[kept], kinds[kept])


def _apply_stated(table: NodeTable, kinds: NDArray[np.int8]) -> None:
    """Put the kinds that nodes state, where they state one for each dependency and all make sense, into ``kinds``."""
    stated, data, ctrl = (np.diff(ptr) for ptr in (table.kinds_ptr, table.data_ptr, table.ctrl_ptr))
    rows = np.flatnonzero((stated > 0) & (stated == data + ctrl))
    if not len(rows):
        return
    count = stated[rows]
    first = np.cumsum(count) - count
    within = np.arange(int(count.sum())) - np.repeat(first, count)
    values = table.kinds[np.repeat(table.kinds_ptr[rows], count) + within]
    in_data = within < np.repeat(data[rows], count)
    place = np.where(
        in_data,
        np.repeat(table.data_ptr[rows], count) + within,
        len(table.data) + np.repeat(table.ctrl_ptr[rows] - data[rows], count) + within,
    )
    good = np.logical_and.reduceat((values >= 0) & (values <= max(EdgeKind)), first)
    kept = np.repeat(good, count)
    kinds[place[kept]] = values[kept]


def _report_edges(table: NodeTable, sources: I64, targets: I64, health: list[HealthFinding]) -> None:
    lost, own = targets[sources < 0], targets[sources == targets]
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
    twice = np.flatnonzero(rows_of(table.id, table.id) != np.arange(len(table)))
    if len(twice):
        text = f"{len(twice):,} nodes bear an id that an earlier node has."
        health.append(
            _finding("duplicate-id", Severity.WARNING, twice, text, "Dependencies on that id lead to the first.")
        )


def _finding(code: str, severity: Severity, rows: I64, text: str, remedy: str) -> HealthFinding:
    return HealthFinding(code, severity, len(rows), text, remedy, tuple(np.unique(rows[:400])[:20].tolist()))
