"""Overlap of kinds of work, launches and host time on hand-made traces, and by brute force."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from chakra_core.analysis.breakdown import breakdown
from chakra_core.analysis.host import HOST_PARTS, host_breakdown
from chakra_core.analysis.launch import launches
from chakra_core.analysis.overlap import COMBINATIONS, overlap
from chakra_core.analysis.scope import WHOLE, Scope
from chakra_core.schema import Category, CommOp
from tests.builder import make_trace, node

RUNTIME = {"lane": "main", "category": Category.RUNTIME}


def test_every_combination_by_hand():
    trace = make_trace(
        [
            node("k", 0, 50), node("n", 40, 40, "gpu:8", comm_op=CommOp.ALL_REDUCE),
            node("m", 45, 45, "gpu:9", category=Category.COPY), node("k", 100, 10), node("m", 105, 5, category=Category.MEMSET),
            node("ProfilerStep#3", 0, 60, "main", category=Category.ANNOTATION),
            node("ProfilerStep#4", 60, 60, "main", category=Category.ANNOTATION),
        ]
    )  # fmt: skip
    whole, third, fourth = overlap(trace)
    named = dict(zip(COMBINATIONS, whole.parts_ns, strict=True))
    assert named == {
        "compute": 45, "comm": 0, "memory": 10, "compute_comm": 5, "compute_memory": 5, "comm_memory": 30,
        "compute_comm_memory": 5,
    }  # fmt: skip
    assert (whole.total_ns, whole.idle_ns) == (110, 10)
    assert (third.step, third.total_ns, sum(third.parts_ns), third.idle_ns) == (3, 60, 60, 0)
    assert (fourth.step, fourth.total_ns, sum(fourth.parts_ns), fourth.idle_ns) == (4, 50, 40, 10)


def test_overlap_of_two_devices_and_of_nothing():
    assert overlap(make_trace([node("op", 0, 5, "main")])) == ()


@st.composite
def work(draw):
    kinds = st.sampled_from([Category.GEMM, Category.COMMUNICATION, Category.COPY, Category.MEMSET])
    return [
        node(
            "k",
            draw(st.integers(0, 40)),
            draw(st.integers(0, 15)),
            draw(st.sampled_from(["gpu:1", "gpu:2"])),
            category=draw(kinds),
        )
        for _ in range(draw(st.integers(1, 10)))
    ]


@settings(max_examples=60)
@given(work(), st.integers(0, 40), st.integers(1, 30))
def test_combinations_are_those_of_each_moment(nodes, low, length):
    trace = make_trace(nodes)
    for scope in (WHOLE, Scope((low, low + length))):
        for entry in overlap(trace, scope):
            expected = dict.fromkeys(COMBINATIONS, 0)
            for moment in range(*(scope.window or (0, 60))):
                running = {
                    {Category.COMMUNICATION: "comm", Category.COPY: "memory", Category.MEMSET: "memory"}.get(
                        one["category"], "compute"
                    )
                    for one in nodes
                    if one["start_ns"] <= moment < one["start_ns"] + one["dur_ns"]
                }
                if running:
                    expected["_".join(kind for kind in ("compute", "comm", "memory") if kind in running)] += 1
            assert dict(zip(COMBINATIONS, entry.parts_ns, strict=True)) == expected
            assert sum(entry.parts_ns) + entry.idle_ns == entry.total_ns
            total = breakdown(trace, scope).total
            assert (entry.total_ns, entry.idle_ns) == (total.total_ns, total.idle_ns)
            assert entry.parts_ns[3] + entry.parts_ns[6] == total.overlap_ns


def test_launches_by_hand():
    trace = make_trace(
        [
            node("cudaLaunchKernel", 0, 10, **RUNTIME), node("long", 15, 100, parent=0),
            node("cudaLaunchKernel", 20, 10, **RUNTIME), node("short", 116, 5, parent=2),
            node("cudaLaunchKernel", 30, 60_000, **RUNTIME), node("early", 40, 3, "gpu:8", parent=4),
            node("hipGraphLaunch", 60_100, 10, **RUNTIME), node("a", 60_130, 5, parent=6), node("b", 60_140, 5, parent=6),
            node("alone", 70_000, 5),
        ]
    )  # fmt: skip
    result = launches(trace)
    assert result.call.tolist() == [0, 2, 4, 6]
    assert result.delay_ns.tolist() == [5, 86, 0, 20]
    assert result.work.tolist() == [1, 1, 1, 2]
    assert result.short.tolist() == [False, True, False, False]  # the third call is slow for a reason of its own
    assert result.unknown == 1
    queue = result.streams[0]
    assert queue.time_ns.tolist() == [0, 15, 20, 116, 60_100, 60_130, 60_140]
    assert queue.length.tolist() == [1, 0, 1, 0, 2, 1, 0]
    assert queue.host_ns == 60_130 - 121
    assert launches(make_trace([node("op", 0, 5, "main")])).reason == "the trace records no device work"
    assert "does not tell" in launches(make_trace([node("k", 0, 5)])).reason


def test_launch_bound_runs():
    nodes = []
    for at in range(6):
        nodes += [node("launch", 100 * at, 10, **RUNTIME), node("k", 100 * at + 20, 30, parent=2 * at)]
    nodes += [node("launch", 515, 5, **RUNTIME), node("queued", 551, 10, parent=12)]
    (run,) = launches(make_trace(nodes)).launch_bound
    assert (run.kernels, run.start_ns, run.end_ns, run.waited_ns) == (5, 50, 550, 5 * 70)
    clipped = launches(make_trace(nodes), Scope((200, 400)))
    assert clipped.clipped
    assert clipped.streams[0].host_ns <= 200


def test_host_parts_by_hand():
    trace = make_trace(
        [
            node("module", 0, 100, "main", category=Category.PYTHON), node("aten::mm", 10, 40, "main"),
            node("cudaLaunchKernel", 20, 10, **RUNTIME), node("k", 40, 20, parent=2),
            node("cudaDeviceSynchronize", 60, 15, **RUNTIME),
            node("enumerate(DataLoader)#__next__", 120, 30, "main", category=Category.ANNOTATION), node("aten::cat", 125, 10, "main"),
            node("aten::add", 160, 10, "main"),
        ]
    )  # fmt: skip
    result = host_breakdown(trace)
    assert dict(zip(HOST_PARTS, result.parts_ns, strict=True)) == {
        "python": 45, "operator": 40, "runtime": 10, "synchronisation": 15, "data loading": 30, "untraced": 30,
    }  # fmt: skip
    assert result.total_ns == 170
    clipped = host_breakdown(trace, Scope((50, 130)))
    assert sum(clipped.parts_ns) == clipped.total_ns == 80
    assert host_breakdown(make_trace([node("k", 0, 5)])).reason


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.integers(0, 60), st.integers(0, 20), st.sampled_from(["op", "DataLoader", "py", "call"])),
        min_size=1,
        max_size=12,
    )
)
def test_host_parts_sum(events):
    kinds = {"op": Category.HOST_OP, "DataLoader": Category.HOST_OP, "py": Category.PYTHON, "call": Category.RUNTIME}
    trace = make_trace([node(what, start, dur, "main", category=kinds[what]) for start, dur, what in events])
    result = host_breakdown(trace)
    assert sum(result.parts_ns) == result.total_ns == trace.span_ns
    assert min(result.parts_ns) >= 0
    covered = np.zeros(100, np.bool_)
    for start, dur, _ in events:
        covered[start : start + dur] = True
    assert result.total_ns - result.parts_ns[-1] == covered.sum()
