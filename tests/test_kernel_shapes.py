"""How kernels were launched, the distribution of their durations, and names that no rule knows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chakra_core.analysis import analyse_trace
from chakra_core.analysis.kernel_shapes import LaunchShape, durations, launch_shape, unclassified
from chakra_core.analysis.scope import Scope
from chakra_core.schema import Category
from tests.builder import make_trace, node

OTHER = {"category": Category.OTHER}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            {"grid": [4, 2, 1], "block": [128, 1, 1], "est. achieved occupancy %": 45, "registers per thread": 32,
             "shared memory": 1024},
            LaunchShape((4, 2, 1), (128, 1, 1), 0.45, 32, 1024),
        ),
        (
            {"kernel_details": "regs:40 static_shared:100 dynamic_shared:28 grid:16,1,1 block:256,1,1 occ_pct:62.5"},
            LaunchShape((16, 1, 1), (256, 1, 1), 0.625, 40, 128),
        ),
        ({"grid": [4, 2, 1, 7], "block": "x", "est. achieved occupancy %": "much", "registers per thread": True},
         LaunchShape()),
        ({"est. achieved occupancy %": 140}, LaunchShape(occupancy=1.0)),
        ({}, LaunchShape()),
    ],
)  # fmt: skip
def test_launch_shapes(said, expected):
    trace = make_trace([node("k", 0, 5)]).with_(attributes_of=lambda _row: said)
    assert launch_shape(trace, 0) == expected


def test_durations_by_hand():
    """Edges are 0 and 1, then grow by the square root of two, in whole ns: 2, (2), 4, 5, 8, 11, 16 and so on."""
    trace = make_trace(
        [
            node("a", 0, 0), node("a", 10, 1), node("a", 20, 3), node("b", 30, 9, category=Category.ELEMENTWISE),
            node("b", 50, 11, category=Category.ELEMENTWISE), node("op", 0, 99, "cpu"),
        ]
    )  # fmt: skip
    found = durations(trace)
    assert found.edges_ns.tolist() == [0, 1, 2, 4, 5, 8, 11, 16]
    assert found.categories == (Category.ELEMENTWISE, Category.GEMM)  # most time first
    assert found.count.tolist() == [[0, 0, 0, 0, 0, 1, 1], [1, 1, 1, 0, 0, 0, 0]]
    assert found.total_ns.tolist() == [[0, 0, 0, 0, 0, 9, 11], [0, 1, 3, 0, 0, 0, 0]]
    assert durations(trace, rows=np.array([0, 1, 2])).count.sum() == 3
    assert durations(trace, Scope(window=(35, 60))).total_ns.sum() == 4 + 10  # the part inside
    assert durations(trace, rows=np.zeros(0, np.int64)).categories == ()
    assert durations(make_trace([])).edges_ns.tolist() == [0, 1]


@settings(max_examples=80)
@given(st.lists(st.one_of(st.integers(0, 20), st.integers(0, 10**12)), min_size=1, max_size=12))
def test_every_duration_is_in_its_bin(lengths):
    trace = make_trace([node("k", at, length, f"gpu:{at}") for at, length in enumerate(lengths)])
    found = durations(trace)
    assert (found.edges_ns[1:] > found.edges_ns[:-1]).all()
    assert found.count.sum() == len(lengths)
    assert found.total_ns.sum() == sum(lengths)
    for at, count in enumerate(found.count[0].tolist()):
        low, high = found.edges_ns[at], found.edges_ns[at + 1]
        assert count == sum(low <= length < high for length in lengths)


def test_names_that_no_rule_knows():
    trace = make_trace(
        [node("gemm", 0, 60), node("x", 60, 10, **OTHER), node("x", 70, 20, **OTHER), node("y", 90, 10, **OTHER)]
    )
    assert unclassified(trace) == {
        "names": 2, "count": 3, "total_ns": 40, "share": 0.4,
        "rows": [
            {"name": "x", "count": 2, "total_ns": 30, "longest": 2},
            {"name": "y", "count": 1, "total_ns": 10, "longest": 3},
        ],
    }  # fmt: skip
    assert unclassified(make_trace([]))["share"] == 0.0


def test_the_document_tells_shapes_where_the_trace_does():
    said = {1: {"grid": [4, 1, 1], "block": [32, 1, 1]}}
    trace = make_trace([node("a", 0, 5), node("b", 5, 9)]).with_(attributes_of=lambda row: said.get(row, {}))
    document = analyse_trace(trace)
    (shape,) = document["kernel_launch_shapes"]
    assert (shape["name"], shape["row"], shape["grid"], shape["occupancy"]) == ("b", 1, [4, 1, 1], None)
    assert document["unclassified"]["names"] == 0
    assert sum(document["kernel_durations"]["categories"][0]["count"]) == 2
