"""The breakdown: worked examples, its identity as a property, and what the peers compute on real traces."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chakra_core.analysis.breakdown import PARTS, breakdown, breakdowns
from chakra_core.analysis.scope import Scope, clip_rows, traces_in
from chakra_core.schema import NO_TIME, Category
from chakra_core.trace import Run
from tests.builder import make_trace, node

COMM = {"category": Category.COMMUNICATION}
COPY = {"category": Category.COPY}


def overlapping():
    """Compute 0-40 and 60-80, communication 30-70, a copy 65-100, a memset 110-120."""
    return make_trace(
        [
            node("mm", 0, 40),
            node("mm", 60, 20),
            node("all-reduce", 30, 40, "gpu:9", **COMM),
            node("copy", 65, 35, "gpu:11", **COPY),
            node("fill", 110, 10, "gpu:11", category=Category.MEMSET),
        ]
    )


def test_parts_by_hand():
    total = breakdown(overlapping()).total
    assert (total.start_ns, total.end_ns, total.total_ns) == (0, 120, 120)
    assert total.compute_ns == 60
    assert total.exposed_comm_ns == 20  # 40-60
    assert total.exposed_memory_ns == 30  # 80-100 and 110-120
    assert total.idle_ns == 10  # 100-110
    assert (total.comm_ns, total.memory_ns, total.overlap_ns) == (40, 45, 20)
    assert total.overlap_ratio == 0.5
    assert total.busy_ns == 110
    assert total.kernels == 5


def test_unclassified_work_is_compute_and_no_communication_has_no_ratio():
    total = breakdown(make_trace([node("mystery", 5, 10, category=Category.OTHER)])).total
    assert total.compute_ns == 10
    assert total.overlap_ratio is None


def test_a_window_counts_the_idle_time_inside_it():
    result = breakdown(overlapping(), Scope(window=(50, 115)))
    total = result.total
    assert result.clipped
    assert (total.total_ns, total.compute_ns, total.exposed_comm_ns) == (65, 20, 10)
    assert (total.exposed_memory_ns, total.idle_ns) == (25, 10)
    beyond = breakdown(overlapping(), Scope(window=(500, 600)))
    assert beyond.total.total_ns == 0
    assert "time range" in beyond.reason


def test_nothing_on_the_device_says_why():
    host = breakdown(make_trace([node("aten::mm", 0, 10, "thread 1")]))
    assert (host.total.total_ns, host.devices) == (0, ())
    assert "no device work" in host.reason
    untimed = breakdown(make_trace([node("mm", NO_TIME, 10)]))
    assert "start time" in untimed.reason
    assert breakdown(make_trace([])).total.total_ns == 0


def test_devices_are_apart_and_summed():
    trace = make_trace([node("a", 0, 10, "gpu:0"), node("b", 100, 10, "gpu:1"), node("b", 130, 10, "gpu:1")])
    lanes = tuple(type(lane)(lane.name, lane.domain, lane.kind, device=at) for at, lane in enumerate(trace.lanes))
    result = breakdown(trace.with_(lanes=lanes))
    assert [(part.device, part.total_ns, part.idle_ns) for part in result.devices] == [(0, 10, 0), (1, 40, 20)]
    assert (result.total.total_ns, result.total.idle_ns, result.total.devices) == (50, 20, 2)
    assert (result.total.start_ns, result.total.end_ns) == (0, 140)


def test_causes_of_idle_time():
    """Gaps: 10-20 launched in time (kernel wait), 30-100 launched late (host), then 31 us launched in time (other)."""
    trace = make_trace(
        [
            node("launch", 0, 2, "cpu", category=Category.RUNTIME),
            node("launch", 5, 2, "cpu", category=Category.RUNTIME),
            node("launch", 90, 2, "cpu", category=Category.RUNTIME),
            node("launch", 95, 2, "cpu", category=Category.RUNTIME),
            node("k", 2, 8, parent=0),
            node("k", 20, 10, parent=1),
            node("k", 100, 10, parent=2),
            node("k", 31_110, 10, parent=3),
        ]
    )
    causes = {entry.cause: (entry.count, entry.idle_ns) for entry in breakdown(trace).idle_causes}
    assert causes == {"host": (1, 70), "kernel wait": (1, 10), "other": (1, 31_000)}
    clipped = {entry.cause: entry.idle_ns for entry in breakdown(trace, Scope(window=(50, 1_110))).idle_causes}
    assert clipped == {"host": 50, "other": 1_000}


def test_ranks_of_a_run():
    run = Run((make_trace([node("a", 0, 10)], rank=0), make_trace([node("a", 0, 20)], rank=3)), "two")
    assert {rank: part.total.total_ns for rank, part in breakdowns(run).items()} == {0: 10, 3: 20}
    only = Scope(ranks=frozenset({3}))
    assert list(breakdowns(run, only)) == [3]
    assert [rank for rank, _ in traces_in(run, only)] == [3]


def test_clipping_keeps_instants_at_the_start_of_a_window():
    trace = make_trace([node("a", 10, 0), node("b", 0, 10), node("c", 20, 0), node("d", 5, 10)])
    kept = clip_rows(trace, np.arange(4), Scope(window=(10, 20)))
    assert kept.rows.tolist() == [0, 3]
    assert kept.dur_ns.tolist() == [0, 5]


kernel = st.tuples(
    st.integers(0, 200), st.integers(0, 60), st.sampled_from(["gpu:1", "gpu:2"]),
    st.sampled_from([Category.GEMM, Category.OTHER, Category.COMMUNICATION, Category.COPY, Category.MEMSET]),
)  # fmt: skip


def brute(kernels, first, last):
    """Every nanosecond classified one by one."""
    found = dict.fromkeys((*PARTS, "overlap"), 0)
    for t in range(first, last):
        active = {category for start, dur, _, category in kernels if start <= t < start + dur}
        compute = bool(active & {Category.GEMM, Category.OTHER})
        comm = Category.COMMUNICATION in active
        found["overlap"] += compute and comm
        if compute:
            found["compute"] += 1
        elif comm:
            found["exposed_comm"] += 1
        elif active:
            found["exposed_memory"] += 1
        else:
            found["idle"] += 1
    return found


@given(st.lists(kernel, min_size=1, max_size=12), st.integers(0, 260))
def test_identity_against_brute_force_and_additive_over_windows(kernels, cut):
    trace = make_trace([node("k", start, dur, lane, category=category) for start, dur, lane, category in kernels])
    total = breakdown(trace).total
    first = min(start for start, *_ in kernels)
    last = max(start + dur for start, dur, *_ in kernels)
    expected = brute(kernels, first, last)
    assert total.total_ns == last - first == sum(total.part(part) for part in PARTS)
    assert {part: total.part(part) for part in (*PARTS, "overlap")} == expected
    halves = [breakdown(trace, Scope(window=window)).total for window in ((-1, cut), (cut, 1000))]
    for part in ("total", *PARTS, "overlap"):
        assert sum(half.part(part) for half in halves) == total.part(part)
