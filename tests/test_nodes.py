"""Several chosen nodes as text: read, resolved, written, and drawn on timeline and graph."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chakra_core.analysis.operators import kernels
from chakra_core.trace import Run
from dashboard.figures.graph import elements
from dashboard.library import LoadedRun
from dashboard.nodes import MOST_ROWS, names_text, nodes_in, parse, rows_text
from dashboard.state import ViewState
from dashboard.tables import name_codes, stand_for_names
from dashboard.timeline_data import marked, rows_of
from tests.builder import make_trace, node


def run() -> Run:
    first = make_trace([node("gemm", 0, 10), node("relu", 10, 5), node("gemm", 20, 10), node("gemm", 1000, 10)])
    return Run((first, make_trace([node("relu", 0, 5)], rank=1)), "two")


def listed(found):
    return {rank: rows.tolist() for rank, rows in found.items()}


def test_names_and_rows_are_found_on_their_rank_and_run():
    assert listed(nodes_in("0.0.n0", 0, run())) == {0: [0, 2, 3]}
    assert listed(nodes_in("0.0.r1-2_3+0.1.n0+1.0.n0", 0, run())) == {0: [1, 2, 3], 1: [0]}
    assert listed(nodes_in("0.0.r1+0.0.n1", 0, run())) == {0: [1]}


@pytest.mark.parametrize(
    "text", [None, "", "x", "0.0.n", "0.0.r5-1", "0.9.n0", "0.0.r999999", "0.0.n999", "9" * 50_000, 7]
)
def test_nonsense_chooses_nothing(text):
    assert nodes_in(text, 0, run()) == {}


@given(st.sets(st.integers(0, 400)))
def test_rows_survive_their_text(rows):
    text = rows_text(0, 0, rows)
    kept = {row for part in parse(text) for first, end in part.ranges for row in range(first, end)}
    assert kept == rows
    assert ViewState.parse("/x", ViewState("x", nodes=text).search()).nodes == (text if len(text) <= 1500 else "")


def test_long_lists_are_cut():
    ((first, end),) = parse(rows_text(0, 0, range(10 * MOST_ROWS)))[0].ranges
    assert (first, end) == (0, MOST_ROWS)
    assert rows_text(0, 0, []) == ""


def test_a_row_of_a_table_stands_for_all_of_its_name():
    trace = run().traces[0]
    (top, _) = stand_for_names(kernels(trace).records(), name_codes(trace), at=0, rank=0)
    assert (top["run"], top["rank"], top["row"], top["nodes"]) == (0, 0, 0, names_text(0, 0, [0]))
    assert "longest" not in top


def test_the_timeline_is_told_where_they_lie_by_pixels():
    loaded = LoadedRun("built", run())
    every = np.arange(rows_of(loaded).first[-1])
    fine = marked(loaded, "0.0.n0", 0, 0, 2000, 1000, every)
    assert (fine["count"], fine["x"], fine["d"]) == (3, [0, 20, 1000], [10, 10, 10])
    coarse = marked(loaded, "0.0.n0", 0, 0, 2000, 100, every)
    assert (coarse["x"], coarse["d"]) == ([0, 1000], [30, 10]), "closer than a pixel of 20 ns: joined"
    assert marked(loaded, "0.0.n0", 0, 500, 900, 100, every)["x"] == []
    assert marked(loaded, "0.0.n0", 1, 0, 2000, 100, every)["x"] == [], "the text is about another run"


def test_the_graph_marks_boxes_that_stand_for_them():
    from chakra_core.graph_view import group_view
    from chakra_core.grouping import build_grouping

    trace = run().traces[0]
    view = group_view(trace, build_grouping(trace), ())
    group = next(box for box in view.nodes if box.is_group)
    made = next(one for one in elements(view, marked={group.key: 3}) if one["data"]["id"] == f"n{group.key}")
    assert made["classes"].split() == ["group", "marked"]
    assert made["data"]["label"].endswith("\n3 of them chosen")
