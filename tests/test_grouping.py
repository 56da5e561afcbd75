"""Grouping, bounded pictures and their layout: by hand, and as properties."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chakra_core.graph_view import MAX_ELEMENTS, chain_view, group_view, neighbourhood_view, path_view
from chakra_core.grouping import MAX_CHILDREN, _at_most_deep, _depth, _without_cycles, build_grouping
from chakra_core.layered import layered
from chakra_core.opening import open_run
from chakra_core.schema import Category, EdgeKind
from chakra_core.synth.transformer import TransformerConfig, transformer_run
from tests.benchmarks.bench_graph import synthetic
from tests.builder import make_trace, node


def labels(view) -> list[str]:
    return [box.label for box in view.nodes]


def test_paths_in_names_make_the_tree():
    trace = make_trace(
        [node("layer_0/attention/qkv", 0, 4), node("layer_0/mlp/up", 4, 6), node("head/logits", 10, 5)],
        [(0, 1), (1, 2)],
    )
    grouping = build_grouping(trace)
    assert grouping.basis == "names"
    view = group_view(trace, grouping)
    assert labels(view) == ["layer_0", "head/logits"]
    assert [(box.rows, box.dur_ns, box.is_group) for box in view.nodes] == [(2, 10, True), (1, 5, False)]
    assert [(edge.count, edge.kind) for edge in view.edges] == [(1, EdgeKind.DATA)]
    layer = view.nodes[0].key
    opened = group_view(trace, grouping, [layer])
    assert sorted(labels(opened)) == ["head/logits", "layer_0/attention/qkv", "layer_0/mlp/up"]


def test_call_structure_makes_the_tree_and_opened_callers_point_at_callees():
    trace = make_trace(
        [node("step", 0, 10, "cpu"), node("aten::mm", 1, 4, "cpu", parent=0), node("kernel", 20, 5, parent=1)],
        [(1, 2, EdgeKind.LAUNCH)],
    )
    grouping = build_grouping(trace)
    assert grouping.basis == "calls"
    assert grouping.path(2)[-1] == 1
    opened = group_view(trace, grouping, [*grouping.path(2)])
    assert sorted(labels(opened)) == ["aten::mm", "kernel", "step"]
    arrows = {(edge.source, edge.target): edge.kind for edge in opened.edges}
    assert arrows == {(0, 1): EdgeKind.CONTROL, (1, 2): EdgeKind.LAUNCH}


def test_repeated_layers_are_folded():
    rows = [
        node(f"layer_{layer}/{part}", 10 * layer + at, 1)
        for layer in range(8)
        for at, part in enumerate(("attention", "mlp"))
    ]
    trace = make_trace(rows, [(at, at + 1) for at in range(15)])
    view = group_view(trace, build_grouping(trace))
    assert labels(view) == ["layer_# \u00d78"]
    assert view.nodes[0].rows == 16


def folded(trace) -> list[str]:
    """Labels of the folded groups, those further up first."""
    grouping = build_grouping(trace)
    groups = [len(trace) + at for at, label in enumerate(grouping.labels) if "\u00d7" in label]
    return [grouping.label(trace, at) for at in sorted(groups, key=lambda at: (grouping.depth[at], grouping.order[at]))]


def test_layers_that_differ_inside_are_not_folded_together():
    def layers(skip: int):
        rows = [node(f"layer_{layer}/{part}", 9 * layer + at, 1) for layer in range(6) for at, part in enumerate("abc")]
        edges = [(3 * layer + at, 3 * layer + at + 1) for layer in range(6) for at in range(2)]
        edges += [(3 * layer + 2, 3 * layer + 3) for layer in range(5)]
        edges.remove((3 * skip, 3 * skip + 1)) if skip >= 0 else None
        return make_trace(rows, edges)

    assert folded(layers(-1)) == ["layer_# \u00d76"]
    assert folded(layers(2)) == ["layer_# \u00d73"]  # layers 3 to 5; two small ones in a row are shown as they are
    kinds = [node(f"layer_{at}/x", at, 1, category=Category.GEMM if at == 2 else Category.COPY) for at in range(6)]
    assert folded(make_trace(kinds)) == ["layer_# \u00d73"]


def test_a_stretch_of_operators_that_repeats_is_a_layer():
    block = ["norm", "mm", "mm", "mm", "softmax"]
    names = ["embedding", *block * 32, "loss"]
    trace = make_trace(
        [node(name, at, 1, "gpu:0") for at, name in enumerate(names)], [(at, at + 1) for at in range(161)]
    )
    assert folded(trace)[0] == "norm \u2026 softmax \u00d732"
    grouping = build_grouping(trace)
    top = grouping.labels.index("norm \u2026 softmax \u00d732") + len(trace)
    view = group_view(trace, grouping, grouping.path(top))
    assert [(box.label, box.rows) for box in view.nodes if box.is_group] == [("norm \u2026 softmax \u00d732", 160)]
    assert [box.label for box in view.nodes if not box.is_group] == ["embedding", "loss"]
    opened = labels(group_view(trace, grouping, [*grouping.path(top), top]))
    assert opened[:3] == ["embedding", "loss", "norm \u2026 softmax (1)"]
    assert len(opened) == 34
    first = len(trace) + grouping.labels.index("norm \u2026 softmax (1)")
    inside = labels(group_view(trace, grouping, [*grouping.path(first), first]))
    assert "mm \u00d73" in inside


def test_numbers_that_all_share_stay_in_the_label():
    rows = [
        node(f"net/layer_{size}_{at}/{part}", 9 * size + at, 1)
        for size in (64, 128)
        for at in (1, 2, 3)
        for part in ("a", f"b{'c' * (size // 64)}")
    ]
    assert folded(make_trace(rows)) == ["layer_64_# \u00d73", "layer_128_# \u00d73"]


@given(st.lists(st.sampled_from("ab"), min_size=1, max_size=40))
def test_what_is_folded_repeats_exactly(names):
    trace = make_trace([node(name, at, 1, "gpu:0") for at, name in enumerate(names)])
    grouping = build_grouping(trace)
    below = {at: np.flatnonzero(grouping.up == at) for at in range(len(trace), len(grouping.up))}

    def spelled(at: int) -> str:
        if at < len(trace):
            return names[at]
        return "".join(spelled(int(child)) for child in below[at][np.argsort(grouping.order[below[at]])])

    for at, label in enumerate(grouping.labels, start=len(trace)):
        if "\u00d7" in label:
            assert len({spelled(int(child)) for child in below[at]}) == 1
            assert len(below[at]) == int(label.rpartition("\u00d7")[2])
    assert "".join(spelled(int(at)) for at in np.flatnonzero(grouping.up < 0) if spelled(int(at))) == "".join(names)


def test_generated_models_fold(corpus: Path):
    run = open_run([corpus / "chakra_et/derived_text_resnet50_dp4"])
    assert {"layer_64_# \u00d72", "layer_128_# \u00d73", "layer_256_# \u00d75"} <= set(folded(run.traces[0]))
    assert folded(open_run([corpus / "chakra_et/derived_stg_dp2_tp2_pp2"]).traces[0])[0] == "mb# \u00d72"
    synthetic = transformer_run(TransformerConfig(layers=32, batches=(1,), tp=1)).traces[0]
    assert folded(synthetic)[0] == "layer_# \u00d732"


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("cross_hw/Qwen_Qwen1.5-0.5B-Chat__1016005.h100.json.gz", "nn.Module: Qwen2DecoderLayer_# \u00d723"),
        ("b200_vllm_eager_rank0of8.json.gz", "nn.Module: TransformerBlock_# \u00d77"),
    ],
)
def test_layers_of_recorded_models_fold(corpus: Path, name: str, label: str):
    """24 decoder layers, of which the first also builds what all use; 36 blocks, some with work of the cache."""
    assert label in folded(open_run([corpus / "kineto" / name]).traces[0])


def test_crowds_are_split_into_ranges():
    trace = make_trace([node(f"name{chr(97 + at % 26)}{at % 7}x", at, 1, "gpu:0") for at in range(500)])
    grouping = build_grouping(trace)
    _, counts = np.unique(grouping.up, return_counts=True)
    assert counts.max() <= MAX_CHILDREN
    view = group_view(trace, grouping, grouping.default_expanded(trace.columns.dur_ns))
    assert sum(box.rows for box in view.nodes) == 500
    assert len(view.nodes) <= MAX_CHILDREN


def test_parents_in_a_circle_do_not_hang():
    trace = make_trace([node("a", 0, 1, parent=1), node("b", 0, 1, parent=0), node("c", 1, 1, parent=0)])
    assert sum(box.rows for box in group_view(trace, build_grouping(trace)).nodes) == 3


def test_neighbourhood_chain_and_path():
    trace = make_trace([node(f"n{at}", at, 1, f"gpu:{at}") for at in range(6)], [(0, 1), (1, 2), (2, 3), (3, 4)])
    grouping = build_grouping(trace)
    near = neighbourhood_view(trace, grouping, 2, 1)
    assert sorted(box.key for box in near.nodes) == [1, 2, 3]
    assert {(edge.source, edge.target) for edge in near.edges} == {(1, 2), (2, 3)}
    route = path_view(trace, grouping, 3, 0)
    assert sorted(box.key for box in route.nodes) == [0, 1, 2, 3]
    nothing = path_view(trace, grouping, 0, 5)
    assert "no chain" in nothing.truncated
    chain = chain_view(trace, grouping, [0, 2, 4])
    assert [(edge.source, edge.target) for edge in chain.edges] == [(0, 2), (2, 4)]


def test_neighbourhood_shows_callers_and_callees():
    rows = [node("step", 0, 90, "cpu"), node("f", 1, 80, "cpu", parent=0), node("g", 2, 70, "cpu", parent=1)]
    rows += [node("h", 3, 5, "cpu", parent=2), node("i", 4, 2, "cpu", parent=3), node("j", 9, 5, "cpu", parent=2)]
    trace = make_trace(rows)
    grouping = build_grouping(trace)
    arrows = {(edge.source, edge.target) for edge in neighbourhood_view(trace, grouping, 2, 1).edges}
    assert arrows == {(1, 2), (2, 3), (2, 5)}
    assert {box.key for box in neighbourhood_view(trace, grouping, 2, 2).nodes} == {0, 1, 2, 3, 5}
    cut = neighbourhood_view(trace, grouping, 2, 2, limit=3)
    assert len(cut.nodes) == 3
    assert "nearest 3" in cut.truncated


NODES = st.lists(st.tuples(st.integers(-1, 18), st.integers(0, 9), st.sampled_from("abc")), min_size=1, max_size=20)
LINKS = st.lists(st.tuples(st.integers(0, 19), st.integers(0, 19)), max_size=30)


@given(NODES, LINKS, st.sets(st.integers(0, 40)))
def test_pictures_account_for_every_node_and_edge(nodes, links, expanded):
    rows = [
        node(name, at, dur, "cpu", parent=parent if parent < at else -1, category=Category.HOST_OP)
        for at, (parent, dur, name) in enumerate(nodes)
    ]
    links = [(a, b) for a, b in links if a != b and max(a, b) < len(rows)]
    trace = make_trace(rows, links)
    grouping = build_grouping(trace)
    view = group_view(trace, grouping, expanded)
    assert sum(box.rows for box in view.nodes) == len(trace)
    assert sum(box.dur_ns for box in view.nodes) == int(trace.columns.dur_ns.sum())
    stands = grouping.representatives(expanded)
    crossing = [(int(stands[a]), int(stands[b])) for a, b in links if stands[a] != stands[b]]
    counted = {(edge.source, edge.target): edge.count for edge in view.edges if edge.kind == EdgeKind.DATA}
    assert counted == {pair: crossing.count(pair) for pair in set(crossing)}
    assert len(view.nodes) + len(view.edges) <= MAX_ELEMENTS


@given(st.integers(1, 30), LINKS)
def test_layout_separates_nodes_and_runs_forward(count, links):
    edges = sorted({(min(a, b), max(a, b)) for a, b in links if a != b and max(a, b) < count})
    spots = layered(list(range(count)), edges)
    assert len(spots) == count
    placed = sorted(spots.values())
    for first, second in pairwise(placed):
        assert abs(first[0] - second[0]) >= 189 or abs(first[1] - second[1]) >= 61
    assert layered(list(range(count)), edges) == spots


def test_a_short_chain_is_laid_out_left_to_right():
    spots = layered([7, 8, 9], [(7, 8), (8, 9)])
    assert spots[7][0] < spots[8][0] < spots[9][0]


def climb(up: list[int], node: int) -> int:
    """Number of ancestors of a node, counted one by one; -1 where they never end."""
    for steps in range(len(up) + 1):
        node = up[node]
        if node < 0:
            return steps
    return -1


FORESTS = st.integers(1, 30).flatmap(lambda n: st.lists(st.integers(-1, n - 1), min_size=n, max_size=n))


@given(FORESTS, st.integers(1, 6))
def test_parents_are_made_a_bounded_forest(parents, most):
    loose = _without_cycles(np.array(parents, np.int64))
    expected = [parent if climb(parents, at) >= 0 else -1 for at, parent in enumerate(parents)]
    assert loose.tolist() == expected
    depths = [climb(expected, at) for at in range(len(expected))]
    assert _depth(loose).tolist() == depths
    bounded = _at_most_deep(loose, most)
    assert _depth(bounded).tolist() == [min(depth, most) for depth in depths]
    for at, (parent, depth) in enumerate(zip(bounded.tolist(), depths, strict=True)):
        above = at
        for _ in range(max(depth - most, 0) + 1):
            above = expected[above] if above >= 0 else -1
        assert parent == above


def test_deep_stacks_stay_whole():
    trace = make_trace([node(f"f{at}", at, 200 - at, "cpu", parent=at - 1) for at in range(100)])
    grouping = build_grouping(trace)
    assert [at for at in grouping.path(99) if at < 100] == list(range(99))


def test_an_endless_stack_is_bounded():
    grouping = build_grouping(synthetic(20_000, 20_000))
    assert int(grouping.depth.max()) < 1_000
    assert int(grouping.representatives([])[-1]) >= 20_000


def test_the_first_picture_of_alike_lanes_is_more_than_one_box():
    rows = [node(f"op{'abcdefg'[at % 7]}", at, 1, f"gpu:{at % 4}") for at in range(56)]
    trace = make_trace(rows)
    grouping = build_grouping(trace)
    view = group_view(trace, grouping, grouping.default_expanded(trace.columns.dur_ns))
    assert 5 <= len(view.nodes) <= 60


def test_pictures_of_a_large_trace_are_bounded():
    trace = synthetic(100_000, 10)
    grouping = build_grouping(trace)
    first = grouping.default_expanded(trace.columns.dur_ns)
    groups = np.flatnonzero(grouping.has_children())
    for opened in (first, groups.tolist()):
        view = group_view(trace, grouping, opened)
        assert len(view.nodes) + len(view.edges) <= MAX_ELEMENTS
    assert "left out" in view.truncated


def test_a_wide_fan_fills_a_screen():
    spots = layered(list(range(41)), [(0, at) for at in range(1, 41)])
    (left, right), (top, bottom) = ((min(axis), max(axis)) for axis in zip(*spots.values(), strict=True))
    assert 0.5 < (right - left) / (bottom - top) < 4
    assert all(spots[at][0] > spots[0][0] for at in range(1, 41))
