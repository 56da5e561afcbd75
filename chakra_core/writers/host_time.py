"""Host work as a simulator runs it: one node after the other on a thread, each for the time that is its own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chakra_core.schema import NO_TIME, Domain, EdgeKind, LaneKind, NodeKind, TimeKind
from chakra_core.trace import Trace

__all__ = ["calls", "host_order", "host_runtime"]

I64 = NDArray[np.int64]


def host_order(trace: Trace) -> tuple[I64, I64]:
    """Edges ``(sources, targets)`` from each node of a measured host thread to the next row of that thread.

    Traces whose times are not measured get none.
    """
    rows = _measured_host(trace)
    order = rows[np.lexsort((rows, trace.columns.lane[rows]))]
    same = trace.columns.lane[order][1:] == trace.columns.lane[order][:-1]
    return order[:-1][same], order[1:][same]


def host_runtime(trace: Trace) -> tuple[I64, int]:
    """How long each node runs, int64 ns, and how many run for less than their duration.

    A measured host node runs for its duration without that of the nodes it called on its thread, and, where it waits
    for device work (a synchronisation), from the end of that work on. All others run for their duration.
    """
    c = trace.columns
    runtime = c.dur_ns.copy()
    rows = _measured_host(trace)
    if not len(rows):
        return runtime, 0
    mine = np.zeros(len(trace), np.bool_)
    mine[rows] = True
    end = c.start_ns + c.dur_ns
    inner = rows[c.parent[rows] >= 0]
    above = c.parent[inner]
    nested = mine[above] & (c.lane[above] == c.lane[inner])
    inner, above = inner[nested], above[nested]
    inside = np.minimum(end[inner], end[above]) - np.maximum(c.start_ns[inner], c.start_ns[above])
    np.subtract.at(runtime, above, np.maximum(inside, 0))
    runtime = np.maximum(runtime, 0)
    targets, sources = trace.edges.targets(), trace.edges.sources
    waits = (trace.edges.kinds == EdgeKind.SYNC) & mine[targets] & (c.domain[sources] == Domain.DEVICE)
    waits &= c.start_ns[sources] != NO_TIME
    rest = np.maximum(end[targets[waits]] - np.maximum(c.start_ns[targets[waits]], end[sources[waits]]), 0)
    np.minimum.at(runtime, targets[waits], rest)
    return runtime, int((runtime < c.dur_ns).sum())


def _measured_host(trace: Trace) -> I64:
    """Rows of work on host threads whose times are measured, communication that ran on a thread included."""
    c = trace.columns
    threads = np.array([lane.kind == LaneKind.THREAD for lane in trace.lanes] + [False])
    chosen = threads[c.lane] & (c.start_ns != NO_TIME) & (c.kind >= NodeKind.COMP)
    return np.flatnonzero(chosen) if trace.meta.time_kind == TimeKind.MEASURED else np.zeros(0, np.int64)


def calls(trace: Trace) -> I64:
    """Measured rows on host threads that a lower row called and that do not wait for it yet."""
    rows = _measured_host(trace)
    rows = rows[(trace.columns.parent[rows] >= 0) & (trace.columns.parent[rows] < rows)]
    n = len(trace)
    known = trace.edges.targets().astype(np.int64) * n + trace.edges.sources
    return rows[~np.isin(rows * n + trace.columns.parent[rows], known)]
