"""Idle time by cause: worked by hand, the identity with the breakdown as a property, and in a comparison of runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chakra_core.analysis.breakdown import KERNEL_WAIT_NS, PARTS, breakdown
from chakra_core.analysis.compare import as_json, compare
from chakra_core.analysis.explain import CAUSES
from chakra_core.analysis.idle import IDLE_CAUSES, IdleParts, idle_of, idle_parts
from chakra_core.analysis.scope import Scope
from chakra_core.opening import open_trace
from chakra_core.schema import Category
from chakra_core.trace import Run
from tests.builder import make_trace, node

LAUNCH = {"category": Category.RUNTIME}


def launched(*pieces, rank=0):
    """Kernels as ``(launch, start, duration, stream)``; a launch of None is not in the trace."""
    nodes = []
    for launch, start, dur, stream in pieces:
        if launch is not None:
            nodes.append(node("launch", launch, 1, "cpu", **LAUNCH))
        parent = len(nodes) - 1 if launch is not None else -1
        nodes.append(node("k", start, dur, f"gpu:{stream}", parent=parent))
    return make_trace(nodes, rank=rank)


def test_three_causes_by_hand():
    """Busy 0-100; gap to 300, launched at 240: 140 host, 60 latency; gap of 50 us launched before: waiting."""
    trace = launched((None, 0, 100, 7), (240, 300, 100, 7), (250, 50_400, 10, 7))
    assert idle_parts(trace) == IdleParts(host_ns=140, launch_ns=60, waiting_ns=50_000)
    assert breakdown(trace).total.idle_ns == 140 + 60 + 50_000


def test_a_gap_of_one_stream_filled_by_another_is_not_idle():
    trace = launched((None, 0, 100, 7), (0, 100, 200, 9), (290, 300, 50, 7))
    assert idle_parts(trace) == IdleParts(0, 0, 0)


def test_a_kernel_without_a_launch_waited():
    assert idle_parts(launched((None, 0, 10, 7), (None, 20, 10, 7))) == IdleParts(0, 0, 10)


def test_the_border_of_latency():
    assert idle_parts(launched((0, 0, 10, 7), (0, 9 + KERNEL_WAIT_NS, 5, 7))).launch_ns == KERNEL_WAIT_NS - 1
    assert idle_parts(launched((0, 0, 10, 7), (0, 10 + KERNEL_WAIT_NS, 5, 7))).waiting_ns == KERNEL_WAIT_NS


def test_nothing_on_a_device():
    assert idle_parts(make_trace([node("op", 0, 5, "cpu")])) == IdleParts(0, 0, 0)
    assert idle_parts(make_trace([])).total_ns == 0


def test_means_sum_and_are_never_negative():
    parts = IdleParts(1, 1, 0)
    assert parts.mean(2) == IdleParts(1, 0, 0)  # 0.5 and 1.0 rounded half up, each less the one before
    assert parts.mean(2).total_ns == 1


piece = st.tuples(
    st.none() | st.integers(0, 90_000), st.integers(0, 90_000), st.integers(0, 40_000), st.sampled_from([7, 9])
)
category = st.sampled_from([Category.GEMM, Category.COMMUNICATION, Category.COPY, Category.RUNTIME])


def work(drawn, rank=0):
    trace = launched(*(piece for piece, _ in drawn), rank=rank)
    kinds = trace.columns.category.copy()
    kinds[trace.device_rows] = [int(kind) for _, kind in drawn]
    return trace.with_(columns=trace.columns.with_(category=kinds))


drawn_work = st.lists(st.tuples(piece, category), max_size=8)


@given(drawn_work, st.none() | st.tuples(st.integers(0, 60_000), st.integers(1, 60_000)))
def test_causes_sum_to_the_idle_time_of_the_breakdown(drawn, span):
    trace = work(drawn)
    scope = Scope(window=None if span is None else (span[0], span[0] + span[1]))
    found = idle_parts(trace, scope)
    assert found.total_ns == breakdown(trace, scope).total.idle_ns
    assert min(found.host_ns, found.launch_ns, found.waiting_ns) >= 0


@given(st.lists(st.lists(drawn_work, min_size=1, max_size=3), min_size=2, max_size=4), st.integers(0, 1))
def test_every_difference_sums_to_the_ns(all_ranks, baseline):
    """N runs of several ranks: total into parts, compute into causes, idle into causes, all without a remainder."""
    runs = [
        Run(tuple(work(drawn, rank) for rank, drawn in enumerate(ranks)), f"r{at}")
        for at, ranks in enumerate(all_ranks)
    ]
    result = compare(runs, baseline)
    base = result.runs[baseline]
    for run, delta, why in zip(result.runs, result.deltas, result.why, strict=True):
        assert delta.total_ns == run.total_ns - base.total_ns == sum(delta.part(part) for part in PARTS)
        assert delta.idle.total_ns == delta.idle_ns == run.idle_ns - base.idle_ns
        assert run.idle.total_ns == run.idle_ns
        if run.on_device and base.on_device:
            assert sum(why.part(cause) for cause in CAUSES) == delta.compute_ns


def test_a_pair_by_hand():
    """Mm 100 -> 80 (same kernel), conv 50 -> 20 (another kernel), relu 30 only before; gaps by host and latency.

    Before: 0-100 mm, launched 110 conv at 115-165, relu at 170-200 launched early: compute 180, host 10, launch 10.
    After: 0-80 mm, launched 140 conv at 150-170: compute 100, host 60, launch 10. Total 200 -> 170.
    """

    def run_of(label, *ops):
        nodes = []
        for name, kernel, launch, start, dur in ops:
            nodes.append(node(name, launch, 2, "cpu"))
            nodes.append(node("launch", launch, 1, "cpu", parent=len(nodes) - 1, **LAUNCH))
            nodes.append(node(kernel, start, dur, parent=len(nodes) - 1))
        return Run((make_trace(nodes),), label)

    before = run_of(
        "before", ("mm", "gemm", -5, 0, 100), ("conv", "implicit", 110, 115, 50), ("relu", "r", 150, 170, 30)
    )
    after = run_of("after", ("mm", "gemm", -5, 0, 80), ("conv", "winograd", 140, 150, 20))
    document = as_json(compare([before, after]))
    (run,) = document["runs"]
    assert run["delta"] == {"compute_ns": -80, "exposed_comm_ns": 0, "exposed_memory_ns": 0, "idle_ns": 50}
    assert run["compute_change"] == {
        "same_kernels_ns": -20, "other_kernels_ns": -30, "only_baseline_ns": -30, "only_run_ns": 0, "side_by_side_ns": 0,
    }  # fmt: skip
    assert document["baseline"]["idle"] == {"host_ns": 10, "launch_ns": 10, "waiting_ns": 0}
    assert run["idle_change"] == {"host_ns": 50, "launch_ns": 0, "waiting_ns": 0}
    by_layer = compare([before, after], by="layer").why[1]
    assert by_layer.other_kernels_ns == -30  # also where work is grouped otherwise


@pytest.mark.parametrize("name", ["h100", "mi300x"])
def test_on_real_traces(corpus: Path, name: str):
    for path in sorted((corpus / "kineto" / "cross_hw").glob(f"*.{name}.json.gz")):
        (trace,) = open_trace(path)
        assert idle_of(Run((trace,), name)).total_ns == breakdown(trace).total.idle_ns > 0
        assert set(IDLE_CAUSES) == {"host", "launch", "waiting"}
