"""Time the level of detail on a synthetic trace: ``python -m tests.benchmarks.bench_lod [events]``.

Streams with gaps, a deep host stack and a heavy tail of durations; windows at random places and zoom levels.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from chakra_core.lod import CAP, build, query
from chakra_core.schema import Domain, LaneKind
from chakra_core.trace import Columns, Edges, Lane, Trace, TraceMeta

WIDTH = 1500
VISIBLE = 60
WINDOWS = 400


def synthetic(n: int, seed: int = 7) -> Trace:
    """``n`` events on 40 streams of back-to-back kernels and 10 host threads with stacks four deep."""
    rng = np.random.default_rng(seed)
    lane = rng.integers(0, 50, n).astype(np.int32)
    lane.sort()
    dur = np.maximum((rng.pareto(1.3, n) * 2_000).astype(np.int64), 1)
    dur = np.minimum(dur, 50_000_000)
    gap = rng.integers(0, 3_000, n)
    start = np.cumsum(dur + gap) - dur
    first = np.searchsorted(lane, np.arange(50))
    start -= start[first][lane]
    host = lane >= 40
    inner = host & (np.arange(n) % 4 != 0)
    at = np.flatnonzero(inner)
    start[at] = start[at - 1] + dur[at - 1] // 8
    dur[at] = np.maximum(dur[at - 1] // 2, 1)
    lanes = tuple(
        Lane(f"lane {k}", Domain.DEVICE if k < 40 else Domain.HOST, LaneKind.STREAM if k < 40 else LaneKind.THREAD)
        for k in range(50)
    )
    columns = Columns.build(
        n, id=np.arange(n), name=rng.integers(0, 1000, n), category=rng.integers(0, 15, n), lane=lane,
        start_ns=start, dur_ns=dur,
    )  # fmt: skip
    names = tuple(f"kernel_{k}" for k in range(1000))
    return Trace(columns, names, lanes, Edges.empty(n), TraceMeta(path="synthetic"))


def main() -> None:
    """Print the time to build and the distribution of query times."""
    n = int(float(sys.argv[1])) if len(sys.argv) > 1 else 10_000_000
    build(synthetic(1000))
    trace = synthetic(n)
    began = time.perf_counter()
    layout = build(trace)
    print(f"{n:,} events, {layout.rows} rows: built in {time.perf_counter() - began:.2f} s")
    rng = np.random.default_rng(1)
    span, origin = trace.span_ns, trace.origin_ns
    query([layout], [np.arange(4)], origin, origin + span, WIDTH)
    times, most = [], 0
    for _ in range(WINDOWS):
        size = int(span * 10 ** -rng.uniform(0, 6)) + 1
        t0 = origin + int(rng.integers(0, max(span - size, 1)))
        rows = np.sort(rng.permutation(layout.rows)[:VISIBLE])
        began = time.perf_counter()
        rects = query([layout], [rows], t0, t0 + size, WIDTH)
        times.append(1000 * (time.perf_counter() - began))
        most = max(most, len(rects))
    p50, p95, worst = np.percentile(times, [50, 95, 100])
    print(f"{WINDOWS} windows, {VISIBLE} rows, {WIDTH} px: p50 {p50:.2f} p95 {p95:.2f} max {worst:.2f} ms; "
          f"most rectangles {most} of {CAP}")  # fmt: skip


if __name__ == "__main__":
    main()
