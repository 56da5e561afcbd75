"""Time the kernels on a synthetic trace: ``python -m tests.benchmarks.bench_kernels [nodes]``.

A reconstruction of start times (four lanes), the longest path with slack, and the breakdown of measured kernels on two
devices, on 1 M nodes with 2.5 M dependencies; compiled beforehand, the best of three runs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import networkx as nx
import numpy as np

from chakra_core.analysis.breakdown import breakdown
from chakra_core.analysis.critical_path import dependency_path
from chakra_core.graph import break_cycles, longest_path, reverse, topological_order
from chakra_core.intervals import intersect, length, merge
from chakra_core.schedule import replay
from chakra_core.schema import Category, Domain, LaneKind, TimeKind
from chakra_core.trace import Columns, Edges, Lane, Trace, TraceMeta

_STREAMS = 4
_LOOK_BACK = 4000


def unscheduled(n: int, seed: int = 7) -> Trace:
    """``n`` nodes without times on a host thread and three streams, 2.5 dependencies each."""
    rng = np.random.default_rng(seed)
    targets = np.repeat(np.arange(1, n), rng.integers(2, 4, n - 1))
    sources = np.maximum(targets - rng.integers(1, _LOOK_BACK, len(targets)), 0)
    lane = rng.choice(4, n, p=(0.7, 0.2, 0.05, 0.05))
    columns = Columns.build(
        n, id=np.arange(n), name=rng.integers(0, 1000, n), lane=lane, domain=(lane > 0).astype(np.int8),
        category=np.where(lane > 0, Category.GEMM, Category.HOST_OP), dur_ns=rng.integers(1_000, 100_000, n),
    )  # fmt: skip
    streams = (Lane(f"stream {at}", Domain.DEVICE, LaneKind.STREAM, device=0) for at in range(1, 4))
    lanes = (Lane("host", Domain.HOST, LaneKind.THREAD), *streams)
    edges = Edges.from_pairs(n, sources, targets, np.zeros(len(targets)))
    return Trace(
        columns, tuple(f"op_{k}" for k in range(1000)), lanes, edges, TraceMeta(time_kind=TimeKind.RECONSTRUCTED)
    )


def measured(n: int, seed: int = 7) -> Trace:
    """``n`` kernels on four streams of two devices, a fifth of them communication, a tenth copies."""
    rng = np.random.default_rng(seed)
    lane = rng.integers(0, 2 * _STREAMS, n)
    dur = rng.integers(1_000, 40_000, n)
    start = np.zeros(n, np.int64)
    for at in range(2 * _STREAMS):
        mine = np.flatnonzero(lane == at)
        start[mine] = np.cumsum(dur[mine] + rng.integers(0, 8_000, len(mine))) - dur[mine]
    category = rng.choice(
        (Category.GEMM, Category.ELEMENTWISE, Category.COMMUNICATION, Category.COPY), n, p=(0.4, 0.3, 0.2, 0.1)
    )
    lanes = tuple(
        Lane(f"stream {at}", Domain.DEVICE, LaneKind.STREAM, device=at // _STREAMS) for at in range(2 * _STREAMS)
    )
    columns = Columns.build(
        n, id=np.arange(n), name=rng.integers(0, 1000, n), lane=lane, domain=np.full(n, Domain.DEVICE),
        category=category, start_ns=start, dur_ns=dur,
    )  # fmt: skip
    return Trace(columns, tuple(f"kernel_{k}" for k in range(1000)), lanes, Edges.empty(n), TraceMeta())


def overlap(trace: Trace) -> float:
    """Share of communication under compute, from the intervals alone."""
    c = trace.columns
    comm = c.category == Category.COMMUNICATION
    end = c.start_ns + c.dur_ns
    n, w = merge(c.start_ns[comm], end[comm]), merge(c.start_ns[~comm], end[~comm])
    return length(*intersect(*n, *w)) / length(*n)


def path_and_slack(trace: Trace) -> int:
    """The compiled functions alone, cycles looked for first."""
    edges, _ = break_cycles(trace.edges)
    return longest_path(edges, trace.columns.dur_ns).length_ns


def best(what: Callable[[], object], times: int = 3) -> float:
    """Seconds of the fastest run."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        what()
        found.append(time.perf_counter() - began)
    return min(found)


def with_networkx(trace: Trace) -> tuple[float, int]:
    """Peer: seconds of networkx's longest path over the same graph (made beforehand), and its length."""
    graph: nx.DiGraph[int] = nx.DiGraph()
    dur = trace.columns.dur_ns.tolist()
    graph.add_nodes_from(range(len(dur) + 1))
    pairs = zip(trace.edges.sources.tolist(), trace.edges.targets().tolist(), strict=True)
    graph.add_weighted_edges_from((source, target, dur[source]) for source, target in pairs)
    last = len(dur)
    graph.add_weighted_edges_from((row, last, dur[row]) for row in range(last) if not graph.out_degree(row))
    began = time.perf_counter()
    length_ns = nx.dag_longest_path_length(graph)
    return time.perf_counter() - began, int(length_ns)


def measure(n: int = 1_000_000) -> dict[str, float]:
    """Seconds of each kernel and of its floor or peer.

    Raises:
        ValueError: networkx finds another longest path.
    """
    small, small_measured = unscheduled(2000), measured(2000)
    replay([small]), dependency_path(small), breakdown(small_measured), overlap(small_measured)
    topological_order(reverse(small.edges))
    graph, kernels = unscheduled(n), measured(n)
    found = {
        "edges": len(graph.edges),
        "order": best(lambda: topological_order(reverse(graph.edges))),
        "reconstruct": best(lambda: replay([graph])),
        "path": best(lambda: path_and_slack(graph)),
        "breakdown": best(lambda: breakdown(kernels)),
        "overlap": best(lambda: overlap(kernels)),
        "sort": best(lambda: np.sort(kernels.columns.start_ns)),
    }
    found["networkx"], length_ns = with_networkx(graph)
    if length_ns != path_and_slack(graph):
        raise ValueError("networkx finds another longest path")
    return found


def main() -> None:
    """Print seconds for each kernel."""
    n = int(float(sys.argv[1])) if len(sys.argv) > 1 else 1_000_000
    for name, value in measure(n).items():
        print(f"{name:12} {value:,.3f}")


if __name__ == "__main__":
    main()
