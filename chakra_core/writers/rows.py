"""Some rows of a trace, in another order, as a trace of its own; and orders in which dependencies come first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from chakra_core.graph import break_cycles, topological_order
from chakra_core.trace import AttributeSource, Edges, Trace

__all__ = ["linear_order", "take"]

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Moved:
    """Attributes of rows that stand elsewhere in the trace they come from."""

    source: AttributeSource
    rows: I64
    whole: bool

    def __call__(self, row: int) -> dict[str, Any]:
        found = self.source(int(self.rows[row]))
        return found if self.whole else {k: v for k, v in found.items() if k not in ("ctrl_deps", "data_deps")}


def take(trace: Trace, rows: I64, *, whole: bool = False) -> tuple[Trace, int]:
    """A trace of ``rows`` in that order, and how many dependencies on rows left out it therefore lacks.

    A row whose parent is left out gets the nearest caller that is kept. ``whole``: all rows are there, in another
    order, so what the file says of dependencies (those that lead nowhere included) stays true.
    """
    n = len(trace)
    place = np.full(n + 1, -1, np.int64)
    place[rows] = np.arange(len(rows))
    edges, parent = trace.edges, trace.columns.parent.astype(np.int64)
    above = parent[rows]
    for _ in range(n):  # at most as often as calls are deep; parents form no cycle
        lost = (above >= 0) & (place[above] < 0)
        if not lost.any():
            break
        above[lost] = parent[above[lost]]
    targets, sources = place[edges.targets()], place[edges.sources]
    kept = (targets >= 0) & (sources >= 0)
    cut = int(((targets >= 0) & (sources < 0)).sum())
    columns = {name: getattr(trace.columns, name)[rows] for name in trace.columns.__slots__}
    columns["parent"] = np.where(above >= 0, place[above], -1)
    made = trace.with_(
        columns=type(trace.columns).build(len(rows), **columns),
        edges=Edges.from_pairs(len(rows), sources[kept], targets[kept], edges.kinds[kept]),
        attributes_of=_Moved(trace.attributes_of, rows, whole),
        markers=None,
        memory=None,
    )
    return made, cut


@njit(cache=True, _nrt=False)
def _raise(order: I64, indptr: I64, sources: I32, value: I64) -> None:
    """Make no value smaller than that of anything its row waits for."""
    for at in range(len(order)):
        row = order[at]
        for edge in range(indptr[row], indptr[row + 1]):
            value[row] = max(value[row], value[sources[edge]])


def linear_order(edges: Edges, wish: I64) -> tuple[I64, I64, NDArray[np.bool_]]:
    """Rows in an order where every dependency comes first, and as near to increasing ``wish`` as that allows.

    Args:
        edges: dependencies; those that close a cycle are passed over.
        wish: int64 per row, e.g. the start time.

    Returns:
        The rows in order; the rank of every row in it; which edges close a cycle.
    """
    acyclic, closing = break_cycles(edges)
    topological = topological_order(acyclic)
    value, position = wish.astype(np.int64), np.empty(len(wish), np.int64)
    _raise(topological, acyclic.indptr, acyclic.sources, value)
    position[topological] = np.arange(len(topological))
    order = np.lexsort((position, value))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return order, rank, closing
