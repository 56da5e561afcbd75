"""What a scope leaves in: window, ranks, lanes and chosen nodes, by hand and against a slow walk up the parents."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chakra_core.analysis.bottleneck import bottlenecks
from chakra_core.analysis.breakdown import breakdown
from chakra_core.analysis.critical_path import dependency_path
from chakra_core.analysis.operators import kernels, top_operators
from chakra_core.analysis.scope import WHOLE, Scope, clip_rows
from chakra_core.schema import Category
from chakra_core.trace import Run
from tests.builder import make_trace, node


def launched(rank: int = 0):
    """Two operators on one thread, each with a launch and a kernel; a third kernel nobody launched."""
    return make_trace(
        [
            node("linear", 0, 40, lane="main"),
            node("launch", 10, 5, lane="main", parent=0, category=Category.RUNTIME),
            node("gemm", 20, 30, lane="gpu:7", parent=1),
            node("relu", 50, 20, lane="main"),
            node("launch", 55, 5, lane="main", parent=3, category=Category.RUNTIME),
            node("max", 70, 10, lane="gpu:9", parent=4),
            node("stray", 90, 10, lane="gpu:7"),
        ],
        [(0, 3), (2, 5)],
        rank=rank,
    )


def every(trace):
    return np.arange(len(trace), dtype=np.int64)


def test_lanes_are_chosen_by_name():
    trace = launched()
    assert clip_rows(trace, every(trace), Scope(lanes=frozenset({"gpu:7"}))).rows.tolist() == [2, 6]
    assert clip_rows(trace, every(trace), Scope(lanes=frozenset({"gpu:8"}))).rows.tolist() == []
    both = Scope(window=(0, 30), lanes=frozenset({"gpu:7"}))
    inside = clip_rows(trace, every(trace), both)
    assert (inside.rows.tolist(), inside.end_ns.tolist()) == ([2], [30])


def test_a_selection_takes_what_was_called_and_launched_along():
    trace = launched()
    assert clip_rows(trace, every(trace), Scope(selection=frozenset({(0, 0)}))).rows.tolist() == [0, 1, 2]
    assert clip_rows(trace, every(trace), Scope(selection=frozenset({(0, 5), (0, 6)}))).rows.tolist() == [5, 6]
    other = Scope(selection=frozenset({(1, 0), (0, 99)}))
    assert clip_rows(trace, every(trace), other).rows.tolist() == [], "another rank's, and a row that does not exist"


def test_the_analyses_follow_lanes_and_selection():
    trace = launched()
    lane = Scope(lanes=frozenset({"gpu:7"}))
    part = breakdown(trace, lane)
    assert (part.total.total_ns, part.total.compute_ns, part.total.idle_ns) == (80, 40, 40)
    assert part.clipped
    assert kernels(trace, lane).names == ("gemm", "stray")
    chosen = Scope(selection=frozenset({(0, 3)}))
    assert top_operators(trace, chosen).names == ("relu",)
    assert top_operators(trace, chosen).device_ns.tolist() == [10]
    assert dependency_path(trace, chosen).length_ns <= 30
    assert dependency_path(trace, lane).slack_ns[[0, 2]].tolist()[0] == -1
    heat = bottlenecks(Run((trace,), "x"), lane, bins=10)
    assert heat.parts["compute"].sum() == 40


def test_lanes_without_device_work_are_said_in_words():
    part = breakdown(launched(), Scope(lanes=frozenset({"main"})))
    assert part.total.total_ns == 0
    assert part.reason == "none of the chosen lanes and nodes has device work"


def test_what_a_scope_says_of_itself():
    assert not WHOLE.clips
    assert not Scope(ranks=frozenset({1})).clips
    assert Scope(window=(0, 1)).clips
    assert not Scope(window=(0, 1)).narrows
    assert Scope(lanes=frozenset({"a"})).clips
    assert Scope(window=(0, 1), lanes=frozenset({"a"})).timeless == Scope(lanes=frozenset({"a"}))


@given(st.data())
def test_a_selection_is_what_a_walk_up_the_parents_finds(data):
    n = data.draw(st.integers(1, 25))
    parents = [data.draw(st.integers(-1, n - 1)) for _ in range(n)]  # circles included
    marked = data.draw(st.sets(st.integers(0, n - 1)))
    trace = make_trace([node("x", at, 1, lane="main", parent=parent) for at, parent in enumerate(parents)])

    def below(row: int) -> bool:
        seen = set()
        while row >= 0 and row not in seen:
            if row in marked:
                return True
            seen.add(row)
            row = parents[row]
        return False

    found = clip_rows(trace, every(trace), Scope(selection=frozenset((0, row) for row in marked)))
    assert found.rows.tolist() == [row for row in range(n) if below(row)]
