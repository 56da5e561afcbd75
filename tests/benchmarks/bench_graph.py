"""Time the graph's groups and pictures on a synthetic trace: ``python -m tests.benchmarks.bench_graph [nodes] [depth]``."""

from __future__ import annotations

import sys
import time

import numpy as np

from chakra_core.graph_view import MAX_ELEMENTS, group_view, neighbourhood_view
from chakra_core.grouping import build_grouping
from chakra_core.layered import layered
from chakra_core.schema import Domain, LaneKind
from chakra_core.trace import Columns, Edges, Lane, Trace, TraceMeta


def synthetic(n: int, depth: int, seed: int = 7) -> Trace:
    """``n`` nodes on four threads in stacks ``depth`` deep, each waiting for one or two of the 40 before it."""
    rng = np.random.default_rng(seed)
    at = np.arange(n)
    names = tuple(f"op_{chr(97 + code // 26)}{chr(97 + code % 26)}" for code in range(400))
    targets = rng.integers(1, n, n + n // 2)
    sources = np.maximum(targets - rng.integers(1, 40, len(targets)), 0)
    columns = Columns.build(
        n,
        id=at,
        name=rng.integers(0, len(names), n),
        lane=at // depth % 4,
        start_ns=at * 10,
        dur_ns=rng.integers(1, 50, n),
        parent=np.where(at % depth > 0, at - 1, -1),
    )
    lanes = tuple(Lane(f"thread {k}", Domain.HOST, LaneKind.THREAD) for k in range(4))
    edges = Edges.from_pairs(n, sources, targets, np.zeros(len(targets)))
    return Trace(columns, names, lanes, edges, TraceMeta())


def measure(n: int = 1_000_000, depth: int = 10) -> dict[str, float]:
    """Milliseconds of each step and the boxes shown; compiled functions are warmed up first."""
    layered([0, 1], [(0, 1)])
    neighbourhood_view(small := synthetic(100, 5), build_grouping(small), 1, 1)
    trace = synthetic(n, depth)
    marks = [time.perf_counter()]
    grouping = build_grouping(trace)
    marks.append(time.perf_counter())
    opened = grouping.default_expanded(trace.columns.dur_ns)
    marks.append(time.perf_counter())
    view = group_view(trace, grouping, opened)
    marks.append(time.perf_counter())
    crowded = group_view(trace, grouping, np.flatnonzero(grouping.has_children()).tolist())
    marks.append(time.perf_counter())
    layered([node.key for node in crowded.nodes], [(edge.source, edge.target) for edge in crowded.edges])
    marks.append(time.perf_counter())
    near = neighbourhood_view(trace, grouping, n // 2, 2)
    marks.append(time.perf_counter())
    steps = ("tree_ms", "what_to_open_ms", "first_picture_ms", "everything_open_ms", "layout_ms", "neighbourhood_ms")
    found: dict[str, float] = {
        step: 1000 * (end - begin) for step, begin, end in zip(steps, marks, marks[1:], strict=False)
    }
    elements = max(len(one.nodes) + len(one.edges) for one in (view, crowded, near))
    return {**found, "boxes_at_first": len(view.nodes), "most_elements": elements, "limit": MAX_ELEMENTS}


def main(n: int, depth: int) -> None:
    """Print milliseconds of each step."""
    for name, value in measure(n, depth).items():
        print(f"{name:20} {value:,.1f}")


if __name__ == "__main__":
    main(*(int(given) for given in (*sys.argv[1:3], *("1000000", "10")[len(sys.argv) - 1 :])))
