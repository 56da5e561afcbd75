"""Operator and kernel tables: worked examples and totals of real traces."""

from __future__ import annotations

import pytest

from chakra_core.analysis import analyse_trace
from chakra_core.analysis.operators import by_category, kernels, top_operators
from chakra_core.analysis.scope import Scope
from chakra_core.schema import Category, Domain
from tests.builder import make_trace, node


def linear():
    """Operator linear, 0 to 100, holds t (5-15) and mm (20-90, which launches at 30 and 50); two kernels overlap."""
    run_time = {"category": Category.RUNTIME}
    return make_trace(
        [
            node("step", 0, 120, "cpu", category=Category.ANNOTATION),
            node("linear", 0, 100, "cpu", parent=0),
            node("t", 5, 10, "cpu", parent=1),
            node("mm", 20, 70, "cpu", parent=1),
            node("launch", 30, 5, "cpu", parent=3, **run_time),
            node("launch", 50, 10, "cpu", parent=3, **run_time),
            node("gemm", 40, 60, "gpu:7", parent=4),
            node("gemm", 80, 40, "gpu:8", parent=5),
            node("mm", 100, 10, "cpu", parent=0),
            node("orphan", 200, 7, "gpu:7", category=Category.COPY),
        ]
    )


def table(operators):
    return {
        record["name"]: tuple(record[key] for key in ("count", "total_ns", "self_ns", "device_ns", "device_self_ns"))
        for record in operators.records()
    }


def test_operators_by_hand():
    operators = top_operators(linear())
    assert operators.domain == Domain.HOST
    assert operators.names == ("linear", "mm", "t")
    assert table(operators) == {
        "linear": (1, 100, 20, 80, 0),  # kernels 40-100 and 80-120: 80 ns of device time
        "mm": (2, 80, 65, 80, 100),  # launches take 15 of its 80 ns
        "t": (1, 10, 10, 0, 0),
    }
    assert operators.longest.tolist() == [1, 3, 2]


def test_a_name_inside_itself_counts_its_device_time_once():
    trace = make_trace(
        [
            node("copy", 0, 100, "cpu"),
            node("copy", 10, 50, "cpu", parent=0),
            node("launch", 20, 5, "cpu", parent=1, category=Category.RUNTIME),
            node("k", 30, 40, "gpu:7", parent=2),
        ]
    )
    assert table(top_operators(trace)) == {"copy": (2, 150, 95, 40, 40)}


def test_a_window_clips_instances_children_and_kernels():
    clipped = top_operators(linear(), Scope(window=(50, 105)))
    assert table(clipped) == {
        "linear": (1, 50, 10, 55, 0),
        "mm": (2, 45, 35, 55, 75),
    }
    assert kernels(linear(), Scope(window=(50, 105))).total_ns.tolist() == [75]


def test_kernels_by_hand():
    table_ = kernels(linear())
    assert table_.records() == [
        {
            "name": "gemm", "category": "GEMM", "count": 2, "total_ns": 100,
            "min_ns": 40, "mean_ns": 50.0, "median_ns": 40, "p95_ns": 60, "max_ns": 60, "longest": 6,
        },
        {
            "name": "orphan", "category": "copy", "count": 1, "total_ns": 7,
            "min_ns": 7, "mean_ns": 7.0, "median_ns": 7, "p95_ns": 7, "max_ns": 7, "longest": 9,
        },
    ]  # fmt: skip
    assert table_.records(1) == table_.records()[:1]
    assert by_category(linear()) == {Category.GEMM: 100, Category.COPY: 7}


def test_without_host_operators_the_nodes_are_the_operators():
    trace = make_trace([node("ffn", 0, 10), node("attn", 10, 30), node("ffn", 20, 30, "gpu:9")])
    operators = top_operators(trace)
    assert operators.domain == Domain.DEVICE
    assert table(operators) == {"ffn": (2, 40, 40, 40, 40), "attn": (1, 30, 30, 30, 30)}


def test_parents_in_a_loop_end():
    trace = make_trace(
        [
            node("launch", 0, 5, "cpu", parent=1, category=Category.RUNTIME),
            node("launch", 0, 5, "cpu", parent=0, category=Category.RUNTIME),
            node("op", 0, 5, "cpu"),
            node("k", 5, 5, parent=0),
        ]
    )
    assert table(top_operators(trace)) == {"op": (1, 5, 5, 0, 0)}


@pytest.mark.parametrize("nodes", [[], [node("aten::mm", 0, 10, "cpu")], [node("mm", 0, 10)]])
def test_the_document_of_small_traces_has_every_key(nodes):
    document = analyse_trace(make_trace(nodes))
    assert {"breakdown", "overlap_ratio", "idle_causes", "top_operators", "kernels"} <= set(document)
