"""Dependency critical path: worked out by hand, and against networkx."""

from __future__ import annotations

import networkx as nx
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chakra_core.analysis.critical_path import as_json, dependency_path, path_by_category
from chakra_core.analysis.scope import Scope
from chakra_core.schema import Category, EdgeKind
from tests.builder import make_trace, node


def test_longest_chain_and_slack():
    trace = make_trace(
        [node("a", 0, 4), node("b", 4, 10), node("c", 4, 3, "gpu:8"), node("d", 14, 2)],
        [(0, 1), (0, 2), (1, 3), (2, 3)],
    )
    path = dependency_path(trace)
    assert path.length_ns == 16
    assert path.rows.tolist() == [0, 1, 3]
    assert path.slack_ns.tolist() == [0, 0, 7, 0]
    assert path_by_category(trace, path) == {Category.GEMM: 16}


def test_enclosing_operators_count_once():
    trace = make_trace(
        [
            node("outer", 0, 10, "cpu:1"),
            node("inner", 2, 5, "cpu:1", parent=0),
            node("kernel", 12, 20, "gpu:7", parent=1),
        ],
        [(1, 2, EdgeKind.LAUNCH)],
    )
    path = dependency_path(trace)
    assert path.weights_ns.tolist() == [5, 5, 20]
    assert path.length_ns == 30
    assert path.rows.tolist() == [0, 1, 2]


def test_what_if_factors():
    trace = make_trace([node("a", 0, 10), node("k", 10, 10, category=Category.COMMUNICATION)], [(0, 1)])
    assert dependency_path(trace, factors={Category.COMMUNICATION: 0.5}).length_ns == 15
    assert dependency_path(trace, factors={Category.COMMUNICATION: 1.0}).length_ns == 20


def test_a_window_clips():
    trace = make_trace([node("a", 0, 10), node("b", 10, 10)], [(0, 1)])
    path = dependency_path(trace, Scope(window=(5, 12)))
    assert path.length_ns == 7
    assert path.clipped
    outside = dependency_path(trace, Scope(window=(12, 15)))
    assert outside.slack_ns[0] == -1


def test_cycles_are_left_out_and_counted():
    trace = make_trace([node("a", 0, 1), node("b", 1, 2)], [(0, 1), (1, 0)])
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
    trace = make_trace([node(f"n{at}", 0, dur, f"gpu:{at}") for at, dur in enumerate(durations)], edges)
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
