"""Dependency critical path: worked out by hand, against networkx, and bounded by the measured span."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chakra_core.analysis.critical_path import as_json, dependency_path, path_by_category
from chakra_core.analysis.scope import Scope
from chakra_core.opening import open_run
from chakra_core.schema import Category, EdgeKind, TimeKind
from chakra_core.segments import cut
from tests.builder import make_trace, node


def built(*arguments, **more):
    return make_trace(*arguments, time_kind=TimeKind.RECONSTRUCTED, **more)


def test_longest_chain_and_slack():
    trace = built(
        [node("a", 0, 4), node("b", 4, 10), node("c", 4, 3, "gpu:8"), node("d", 14, 2)],
        [(0, 1), (0, 2), (1, 3), (2, 3)],
    )
    path = dependency_path(trace)
    assert path.length_ns == 16
    assert path.rows.tolist() == [0, 1, 3]
    assert path.slack_ns.tolist() == [0, 0, 7, 0]
    assert path_by_category(trace, path) == {Category.GEMM: 16}


def test_measured_operators_are_cut_where_they_call_others():
    trace = make_trace(
        [
            node("outer", 0, 10, "cpu:1"),
            node("launch", 2, 5, "cpu:1", parent=0),
            node("kernel", 12, 20, "gpu:7", parent=1),
        ],
        [(1, 2, EdgeKind.LAUNCH)],
    )
    path = dependency_path(trace)
    assert path.rows.tolist() == [0, 1, 2]
    assert path.spent_ns.tolist() == [2, 5, 20]
    assert path.length_ns == 27
    assert path.slack_ns.tolist() == [0, 0, 0]


def test_a_kernel_that_starts_during_its_launch_waits_for_what_had_ended():
    trace = make_trace(
        [node("op", 0, 4, "cpu:1"), node("launch", 4, 10, "cpu:1"), node("kernel", 6, 30)], [(1, 2, EdgeKind.LAUNCH)]
    )
    path = dependency_path(trace)
    assert path.rows.tolist() == [0, 2]
    assert path.length_ns == 34


def test_segments_by_hand():
    lane = np.array([0, 0, 0, 1])
    parts = cut(np.arange(4), lane, np.array([0, 2, 6, 1]), np.array([10, 4, 8, 3]))
    whole = parts.end_ns > parts.start_ns
    found = list(
        zip(parts.row[whole].tolist(), parts.start_ns[whole].tolist(), parts.end_ns[whole].tolist(), strict=True)
    )
    assert found == [(0, 0, 2), (1, 2, 4), (0, 4, 6), (2, 6, 8), (0, 8, 10), (3, 1, 3)]


def test_what_if_factors():
    trace = built([node("a", 0, 10), node("k", 10, 10, category=Category.COMMUNICATION)], [(0, 1)])
    assert dependency_path(trace, factors={Category.COMMUNICATION: 0.5}).length_ns == 15
    assert dependency_path(trace, factors={Category.COMMUNICATION: 1.0}).length_ns == 20


@pytest.mark.parametrize("kind", [TimeKind.MEASURED, TimeKind.RECONSTRUCTED])
def test_a_window_clips(kind: TimeKind):
    trace = make_trace([node("a", 0, 10), node("b", 10, 10)], [(0, 1)], time_kind=kind)
    path = dependency_path(trace, Scope(window=(5, 12)))
    assert path.length_ns == 7
    assert path.clipped
    outside = dependency_path(trace, Scope(window=(12, 15)))
    assert outside.slack_ns[0] == -1


def test_cycles_are_left_out_and_counted():
    trace = built([node("a", 0, 1), node("b", 1, 2)], [(0, 1), (1, 0)])
    document = as_json(trace)["critical_path"]["dependency"]
    assert document["length_ns"] == 3
    assert document["ignored_edges"] == 1


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=12),
    st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=30),
)
def test_same_as_networkx(durations, pairs):
    n = len(durations)
    edges = [(min(a, b), max(a, b)) for a, b in pairs if a != b and max(a, b) < n]
    trace = built([node(f"n{at}", 0, dur, f"gpu:{at}") for at, dur in enumerate(durations)], edges)
    oracle = nx.DiGraph()
    oracle.add_node("start")
    for at in range(n):
        oracle.add_edge("start", (at, "in"), weight=0)
        oracle.add_edge((at, "in"), (at, "out"), weight=durations[at])
    oracle.add_edges_from(((a, "out"), (b, "in"), {"weight": 0}) for a, b in edges)
    path = dependency_path(trace)
    assert path.length_ns == nx.dag_longest_path_length(oracle)
    assert sum(path_by_category(trace, path).values()) == path.length_ns
    assert np.all(path.slack_ns >= 0)


SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12), st.integers(0, 3)), min_size=1, max_size=14)


@given(SPANS, st.lists(st.tuples(st.integers(0, 13), st.integers(0, 13)), max_size=20))
def test_measured_path_fits_into_the_trace_and_its_parts_sum_up(spans, pairs):
    rows = [
        node(f"n{at}", start, dur, f"{'cpu' if lane < 2 else 'gpu'}:{lane}")
        for at, (start, dur, lane) in enumerate(spans)
    ]
    edges = [(a, b) for a, b in pairs if a < b < len(rows)]
    trace = make_trace(rows, edges)
    path = dependency_path(trace)
    assert path.length_ns <= trace.span_ns
    assert int(path.spent_ns.sum()) == path.length_ns
    assert (path.slack_ns >= 0).all()
    busiest = max(
        len({at for start, dur, on in spans if on == lane for at in range(start, start + dur)}) for lane in range(4)
    )
    assert path.length_ns >= busiest


def test_empty_events_of_one_moment_may_wait_for_each_other():
    rows = [node("inner", 0, 0, "cpu:0"), node("outer", 0, 7, "cpu:0"), node("kernel", 0, 9, "gpu:2")]
    path = dependency_path(make_trace(rows, [(0, 1), (0, 2)]))
    assert (path.length_ns, path.rows.tolist()) == (9, [2])


def test_real_paths_are_no_longer_than_their_traces(corpus: Path):
    for name in (
        "cross_hw/Qwen_Qwen1.5-0.5B-Chat__1016005.h100.json.gz",
        "a100_alexnet_2023.json.gz",
        "b200_vllm_eager_rank0of8.json.gz",
    ):
        (trace,) = open_run([corpus / "kineto" / name]).traces
        path = dependency_path(trace)
        device = int(trace.columns.dur_ns[trace.device_rows].sum())
        assert 0 < path.length_ns <= trace.span_ns
        assert path.length_ns >= 0.5 * min(device, trace.span_ns)
