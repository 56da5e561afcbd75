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


def measure(n: int = 10_000_000) -> dict[str, float]:
    """Seconds to build, milliseconds of queries over random windows (as a distribution), the most rectangles."""
    build(synthetic(1000))
    trace = synthetic(n)
    began = time.perf_counter()
    layout = build(trace)
    built = time.perf_counter() - began
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
    return {
        "events": n, "rows": layout.rows, "build_s": built, "p50_ms": float(p50), "p95_ms": float(p95),
        "max_ms": float(worst), "most_rectangles": most, "cap": CAP,
    }  # fmt: skip


def main() -> None:
    """Print the time to build and the distribution of query times."""
    n = int(float(sys.argv[1])) if len(sys.argv) > 1 else 10_000_000
    for name, value in measure(n).items():
        print(f"{name:16} {value:,.2f}")


if __name__ == "__main__":
    main()
