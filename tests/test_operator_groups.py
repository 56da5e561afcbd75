"""Operators grouped by name, shapes, module and annotation: worked examples, and identities on random call trees."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chakra_core.analysis import analyse_trace
from chakra_core.analysis.operator_groups import GROUPINGS, operator_groups
from chakra_core.analysis.operators import top_operators
from chakra_core.analysis.scope import Scope
from chakra_core.schema import Category
from tests.builder import make_trace, node

COLUMNS = ("count", "total_ns", "self_ns", "device_ns", "device_self_ns", "kernels", "longest")


def step():
    """A step of two layers and a loss: three products, whose kernels run on two streams, and a copy of nobody."""
    frame, call, mark = ({"category": kind} for kind in (Category.PYTHON, Category.RUNTIME, Category.ANNOTATION))
    trace = make_trace(
        [
            node("ProfilerStep#1", 0, 200, "cpu", **mark),
            node("nn.Module: Net_0", 0, 150, "cpu", parent=0, **frame),
            node("nn.Module: Linear_0", 10, 50, "cpu", parent=1, **frame),
            node("linear", 12, 40, "cpu", parent=2, shape=0),
            node("mm", 20, 30, "cpu", parent=3, shape=1),
            node("launch", 30, 5, "cpu", parent=4, **call),
            node("nn.Module: Linear_1", 70, 50, "cpu", parent=1, **frame),
            node("mm", 80, 20, "cpu", parent=6, shape=2),
            node("launch", 85, 5, "cpu", parent=7, **call),
            node("loss", 160, 30, "cpu", parent=0, **mark),
            node("mm", 165, 20, "cpu", parent=9, shape=1),
            node("launch", 170, 2, "cpu", parent=10, **call),
            node("gemm", 40, 40, "gpu:7", parent=5),
            node("gemm", 60, 50, "gpu:8", parent=8),
            node("gemm", 175, 20, "gpu:7", parent=11),
            node("orphan", 300, 7, "gpu:7", category=Category.COPY),
        ]
    )
    return trace.with_(shapes=("[a]", "[b]", "[c]"))


def table(found):
    return [(record["name"], record["shapes"], *(record[key] for key in COLUMNS)) for record in found.records()]


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        # kernels of mm: 40-110 on two streams, and 175-195; the copy is nobody's
        ("name", [("mm", "", 3, 70, 58, 90, 110, 3, 4), ("linear", "", 1, 40, 10, 40, 0, 0, 3)]),
        (
            "shapes",
            [
                ("mm", "[b]", 2, 50, 43, 60, 60, 2, 4),
                ("mm", "[c]", 1, 20, 15, 50, 50, 1, 7),
                ("linear", "[a]", 1, 40, 10, 40, 0, 0, 3),
            ],
        ),
        (
            "module",
            [
                ("Net_0", "", 1, 150, 50, 70, 0, 0, 1),
                ("Net_0/Linear_1", "", 1, 50, 50, 50, 50, 1, 6),
                ("Net_0/Linear_0", "", 1, 50, 50, 40, 40, 1, 2),
            ],
        ),
        ("annotation", [("ProfilerStep#1", "", 1, 200, 170, 90, 90, 2, 0), ("loss", "", 1, 30, 30, 20, 20, 1, 9)]),
    ],
)
def test_groups_by_hand(by, expected):
    found = operator_groups(step(), by=by)
    assert (found.by, found.reason, found.work_ns) == (by, "", 117)
    assert table(found) == expected
    assert [len(found.calls_of(at)) for at in range(len(found))] == found.count.tolist()
    assert found.calls_of(0).tolist() == {"name": [4, 7, 10], "shapes": [4, 10], "module": [1], "annotation": [0]}[by]


def test_a_window_clips_calls_what_is_inside_them_and_kernels():
    found = operator_groups(step(), Scope(window=(30, 90)), "module")
    assert table(found) == [
        ("Net_0", "", 1, 60, 10, 50, 0, 0, 1),
        ("Net_0/Linear_0", "", 1, 30, 30, 40, 40, 1, 2),
        ("Net_0/Linear_1", "", 1, 20, 20, 30, 30, 1, 6),
    ]
    assert found.work_ns == 70


def test_modules_from_the_paths_in_names_of_device_nodes():
    trace = make_trace(
        [
            node("layer_0/attention/qkv", 0, 10),
            node("layer_0/attention/out", 5, 10, "gpu:8"),
            node("layer_1/mlp/up", 20, 5),
            node("loss", 30, 5),
        ]
    )
    assert table(operator_groups(trace, by="module")) == [
        ("layer_0/attention", "", 2, 20, 20, 15, 20, 2, 0),
        ("layer_1/mlp", "", 1, 5, 5, 5, 5, 1, 2),
    ]


@pytest.mark.parametrize(
    ("by", "words"),
    [("shapes", "record_shapes"), ("module", "with_modules"), ("annotation", "no annotations")],
)
def test_what_a_trace_does_not_tell_is_said_in_words(by, words):
    found = operator_groups(make_trace([node("mm", 0, 10, "cpu")]), by=by)
    assert len(found) == 0
    assert words in found.reason


def test_an_empty_trace_and_an_empty_scope():
    for by in GROUPINGS:
        assert operator_groups(make_trace([]), by=by).reason
        nowhere = operator_groups(step(), Scope(window=(1000, 2000)), by)
        assert (len(nowhere), nowhere.work_ns) == (0, 0)
        assert "chosen part" in nowhere.reason


def test_the_document_holds_every_grouping():
    document = analyse_trace(step())["operator_groups"]
    assert {by: entry["groups"] for by, entry in document.items()} == {"shapes": 3, "module": 3, "annotation": 2}
    assert document["annotation"]["rows"][1]["name"] == "loss"


@st.composite
def trees(draw):
    """Calls nested at random, each of which may launch a kernel."""
    nodes, room = [], [(-1, 0, 200)]
    for _ in range(draw(st.integers(1, 8))):
        parent, low, high = draw(st.sampled_from(room))
        start = draw(st.integers(low, high))
        dur = draw(st.integers(0, high - start))
        shape = draw(st.integers(-1, 1))
        nodes.append(node(draw(st.sampled_from(["a", "b/c/d"])), start, dur, "cpu", parent=parent, shape=shape))
        room.append((len(nodes) - 1, start, start + dur))
    for owner in range(len(nodes)):
        if draw(st.booleans()):
            lane = draw(st.sampled_from(["gpu:1", "gpu:2"]))
            nodes.append(node("k", draw(st.integers(0, 200)), draw(st.integers(0, 50)), lane, parent=owner))
    return make_trace(nodes).with_(shapes=("[x]", "[y]"))


@settings(max_examples=80)
@given(trees(), st.one_of(st.none(), st.tuples(st.integers(0, 100), st.integers(101, 250))))
def test_groupings_agree_and_add_up(trace, window):
    scope = Scope(window=window)
    known = {record["name"]: record for record in top_operators(trace, scope).records()}
    by_name = operator_groups(trace, scope, "name")
    for record in by_name.records():
        assert {key: record[key] for key in known[record["name"]]} == known[record["name"]]
    assert len(by_name) == len(known)
    for by in GROUPINGS:
        found = operator_groups(trace, scope, by)
        assert found.device_self_ns.sum() <= found.work_ns
        assert (found.device_ns <= found.work_ns).all()
        assert (found.self_ns <= found.total_ns).all()
    by_shapes = operator_groups(trace, scope, "shapes")
    if not by_shapes.reason:
        if window is None:  # a group without a call in the window is left out, whatever its kernels do
            assert by_shapes.device_self_ns.sum() == by_name.device_self_ns.sum()
        assert by_shapes.total_ns.sum() == by_name.total_ns.sum()
        assert by_shapes.count.sum() == by_name.count.sum()
