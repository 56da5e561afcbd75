"""Call trees of two traces matched by structure: worked trees, properties, pins, real pairs."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chakra_core.analysis._sequence_kernels import align_sequences, likeness
from chakra_core.analysis.align import How
from chakra_core.analysis.compare import compare
from chakra_core.analysis.meeting import anchors, kernel_pairs, meet
from chakra_core.analysis.pins import NodePin, Pins, parse_pins
from chakra_core.analysis.trees import Likeness, match_traces
from chakra_core.errors import AnalysisError
from chakra_core.opening import open_trace
from chakra_core.schema import Category
from chakra_core.trace import Run
from tests.builder import make_trace, node

MODELS = (
    "Falconsai_nsfw_image_detection__1016002",
    "Qwen_Qwen1.5-0.5B-Chat__1016005",
    "gaunernst_bert-small-uncased__1016001",
)


def tree(*entries, lane="cpu"):
    """A trace of nested operators: each entry is (name, shape, [children], [(kernel, ns)])."""
    nodes, shapes, kernels = [], [""], []

    def add(entry, parent, at):
        name, shape, children, launched = (*entry, "", [], [])[:4] if len(entry) < 4 else entry
        if shape and shape not in shapes:
            shapes.append(shape)
        row = len(nodes)
        nodes.append(node(name, at, 1, lane, parent=parent, shape=shapes.index(shape) if shape else -1))
        kernels.extend((row, kernel, ns) for kernel, ns in launched)
        begin = at
        for child in children:
            at = add(child, row, at + 1)
        nodes[row]["dur_ns"] = at + 1 - begin
        return at + 1

    clock = 0
    for entry in entries:
        clock = add(entry, -1, clock)
    for row, kernel, ns in kernels:
        nodes.append(node("launch", nodes[row]["start_ns"], 0, lane, parent=row, category=Category.RUNTIME))
        nodes.append(node(kernel, clock, ns, parent=len(nodes) - 1))
        clock += ns
    return make_trace(nodes).with_(shapes=tuple(shapes))


def op(name, *children, shape="", kernels=()):
    return (name, shape, list(children), list(kernels))


def pairs(a, b, pins=None):
    match = match_traces(a, b, pins or Pins())
    names = [(a.name_of(x), b.name_of(y)) for x, y in zip(match.rows_a, match.rows_b, strict=True)]
    return match, names


def test_a_wrapper_that_one_side_lacks_hides_nothing():
    a = tree(op("aten::relu"), op("aten::linear", op("aten::t"), op("aten::addmm")), op("aten::add"))
    b = tree(op("aten::relu"), op("aten::addmm"), op("aten::add"))
    match, names = pairs(a, b)
    assert names == [("aten::relu", "aten::relu"), ("aten::addmm", "aten::addmm"), ("aten::add", "aten::add")]
    assert match.confidence.tolist() == pytest.approx([1.0, 0.9, 1.0])  # one level was opened for addmm
    assert [a.name_of(row) for row in match.unmatched_a] == ["aten::linear", "aten::t"]
    assert len(match.unmatched_b) == 0


def test_inserted_and_missing_operators_move_nothing_else():
    a = tree(*(op("block", op("mm", shape="[2]"), op("gelu"), op("mm", shape="[3]")) for _ in range(3)))
    b = tree(
        op("block", op("mm", shape="[2]"), op("gelu"), op("mm", shape="[3]")),
        op("block", op("mm", shape="[2]"), op("dropout"), op("gelu"), op("mm", shape="[3]")),
        op("block", op("mm", shape="[2]"), op("mm", shape="[3]")),
    )
    match, _ = pairs(a, b)
    starts = {int(x): int(y) for x, y in zip(match.rows_a, match.rows_b, strict=True)}
    assert starts == {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 7, 7: 8, 8: 9, 9: 10, 11: 11}
    assert [Likeness(int(how)).name for how in match.how] == [
        "SUBTREE", "SUBTREE", "SUBTREE", "SUBTREE", "SHAPES", "SUBTREE", "SUBTREE", "SUBTREE", "SHAPES", "SUBTREE",
        "SUBTREE",
    ]  # fmt: skip


def test_vendors_names_and_other_shapes_meet():
    a = tree(op("aten::conv2d", op("aten::cudnn_convolution", shape="[8]")), op("aten::mm", shape="[2,2]"))
    b = tree(op("aten::conv2d", op("aten::miopen_convolution", shape="[8]")), op("aten::mm", shape="[4,4]"))
    match, _ = pairs(a, b)
    assert [Likeness(int(how)) for how in match.how] == [Likeness.SUBTREE, Likeness.SUBTREE, Likeness.NAME]
    assert match.confidence.tolist() == pytest.approx([1.0, 1.0, 0.8])


def test_fused_operators_meet_as_a_region():
    a = tree(op("mm"), op("aten::mul", kernels=[("k1", 10)]), op("aten::add", kernels=[("k2", 20)]), op("bmm"))
    b = tree(op("mm"), op("triton_poi_fused_add_mul_0", kernels=[("k3", 25)]), op("bmm"))
    match, names = pairs(a, b)
    assert names == [("mm", "mm"), ("bmm", "bmm")]
    assert [(region.rows_a, region.rows_b) for region in match.regions] == [((1, 2), (1,))]
    met = meet(a, b, match)
    assert (met.ns_a.tolist(), met.ns_b.tolist()) == ([30, 0], [25, 0])
    assert met.confidence.tolist() == [0.5, 0.0]
    result = compare([Run((a,), "a"), Run((b,), "b")])
    found = dict(zip(result.operators.names, result.operators.ns.tolist(), strict=True))
    assert found == {"aten::mul + aten::add": [30, 25]}
    assert result.operators.how.tolist() == [How.REGION]


def test_other_work_at_the_same_place_is_no_region():
    match, _ = pairs(tree(op("mm"), op("aten::dropout"), op("bmm")), tree(op("mm"), op("aten::gelu"), op("bmm")))
    assert match.regions == ()
    assert (len(match.unmatched_a), len(match.unmatched_b)) == (1, 1)


def test_threads_are_paired_by_what_runs_on_them():
    forward, backward = [op("mm"), op("relu")], [op("mm_backward"), op("relu_backward")]
    a = make_trace([node(name, at, 1, lane) for lane, ops in (("1", forward), ("2", backward))
                    for at, (name, *_) in enumerate(ops)])  # fmt: skip
    b = make_trace([node(name, at, 1, lane) for lane, ops in (("77", backward), ("78", forward))
                    for at, (name, *_) in enumerate(ops)])  # fmt: skip
    match, names = pairs(a, b)
    assert len(match) == 4
    assert all(one == two for one, two in names)


def test_work_goes_up_where_only_one_side_has_it():
    """Both have ``empty`` below attention, but only b's launches something: it counts for attention."""
    a = tree(op("sdpa", op("flash", kernels=[("flash", 50)]), op("empty")))
    b = tree(op("sdpa", op("bmm", kernels=[("gemm", 40)]), op("empty", kernels=[("fill", 3)])))
    match, names = pairs(a, b)
    assert ("empty", "empty") in names
    met = meet(a, b, match)
    assert [(a.name_of(row), x, y) for row, x, y in zip(met.row_a[:-1], met.ns_a, met.ns_b, strict=False)] == [
        ("sdpa", 50, 43)
    ]
    assert (met.matched_a, met.total_a, met.matched_b, met.total_b) == (50, 50, 43, 43)


def test_a_pinned_node_meets_its_partner_and_divides_what_is_around():
    a = tree(op("x"), op("mm", op("inner")), op("x"))
    b = tree(op("x"), op("custom", op("inner")), op("x"), op("x"))
    plain, names = pairs(a, b)
    assert ("mm", "custom") not in names
    match, names = pairs(a, b, Pins(nodes=(NodePin(0, 1, 0, 1),)))
    assert ("mm", "custom") in names
    assert ("inner", "inner") in names
    assert Likeness(int(match.how[1])) is Likeness.PINNED
    assert float(match.confidence[1]) == 1.0
    assert len(plain) < len(match)


def test_a_pin_across_parents_meets_too():
    a = tree(op("p", op("mm")), op("q"))
    b = tree(op("p"), op("q", op("custom")))
    _, names = pairs(a, b, Pins(nodes=(NodePin(0, 1, 0, 2),)))
    assert names == [("p", "p"), ("mm", "custom"), ("q", "q")]


def test_pinned_names_meet_in_the_table():
    a = tree(op("vendor_gemm", shape="[2]", kernels=[("k", 10)]), op("relu", kernels=[("r", 1)]))
    b = tree(op("relu", kernels=[("r", 1)]), op("my::product", shape="[9]", kernels=[("k9", 7)]))
    runs = [Run((a,), "a"), Run((b,), "b")]
    assert not compare(runs).operators.matched.all()
    pinned = compare(runs, pins={1: parse_pins(["vendor_gemm=my::product"], *runs)}).operators
    assert pinned.names == ("vendor_gemm", "relu")
    assert pinned.ns.tolist() == [[10, 7], [1, 1]]
    assert How(int(pinned.how[0])) is How.PINNED
    by_node = compare(runs, pins={1: parse_pins(["#100=#101"], *runs)}).operators
    assert by_node.ns.tolist() == [[10, 7], [1, 1]]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("mm", "form A=B"), ("=mm", "form A=B"), ("#1=mm", "node and a name"), ("#1=#2", "no node with this id"),
        ("#x=#2", "not a node"), ("nope=mm", "no operator called"), ("#9/100=#100", "no rank 9"),
    ],
)  # fmt: skip
def test_pins_that_make_no_sense_are_refused(text, part):
    run = Run((tree(op("mm")),), "run")
    with pytest.raises(AnalysisError, match=part):
        parse_pins([text], run, run)
    with pytest.raises(AnalysisError, match="at most"):
        parse_pins(["mm=mm"] * 201, run, run)


def test_anchors_rise_on_both_sides():
    a = tree(op("x"), op("y"), op("z"))
    b = make_trace([node("x", 0, 1, "cpu"), node("y", 50, 1, "cpu"), node("z", 90, 1, "cpu")])
    match, _ = pairs(a, b)
    assert [times.tolist() for times in anchors(a, b, match)] == [[0, 1, 2], [0, 50, 90]]


def test_kernels_pair_by_name_then_by_order():
    a = tree(op("mm", kernels=[("gemm<1>", 5), ("split", 1)]), op("relu", kernels=[("r", 1)]))
    b = tree(op("mm", kernels=[("zero", 2), ("gemm<2>", 6)]), op("relu", kernels=[("r", 2)]))
    match, _ = pairs(a, b)
    rows = kernel_pairs(a, b, match)
    found = {(a.name_of(x), b.name_of(y)) for x, y in zip(*rows, strict=True)}
    assert found == {("gemm<1>", "gemm<2>"), ("split", "zero"), ("r", "r")}


names = st.sampled_from(["a", "b", "c", "d"])
trees = st.recursive(
    st.builds(op, names), lambda inner: st.builds(lambda name, below: op(name, *below), names, st.lists(inner, max_size=3)),
    max_leaves=12,
)  # fmt: skip
forests = st.lists(trees, min_size=1, max_size=5)


@settings(max_examples=150, deadline=None)
@given(forests)
def test_a_trace_matches_itself_node_by_node(forest):
    trace = tree(*forest)
    match = match_traces(trace, trace)
    assert match.rows_a.tolist() == list(range(len(trace)))
    assert match.rows_b.tolist() == match.rows_a.tolist()
    assert set(match.confidence.tolist()) == {1.0}


@settings(max_examples=150, deadline=None)
@given(forests, forests)
def test_matches_are_one_to_one_ordered_and_of_the_same_name(one, two):
    a, b = tree(*one), tree(*two)
    match = match_traces(a, b)
    assert len(set(match.rows_a.tolist())) == len(set(match.rows_b.tolist())) == len(match)
    assert all(a.name_of(x) == b.name_of(y) for x, y in zip(match.rows_a, match.rows_b, strict=True))
    order = match.rows_b[np.argsort(match.rows_a, kind="stable")]  # preorder on both sides
    tops = [int(y) for x, y in zip(match.rows_a, match.rows_b, strict=True) if a.columns.parent[x] < 0 <= y]
    assert len(order) == len(match)
    assert tops == sorted(tops)
    everything = set(match.considered_a.tolist())
    inside = {row for region in match.regions for row in region.rows_a}
    assert everything == set(match.rows_a.tolist()) | set(match.unmatched_a.tolist()) | inside


@settings(max_examples=100, deadline=None)
@given(forests, st.data())
def test_a_deleted_operator_costs_only_itself(forest, data):
    at = data.draw(st.integers(0, len(forest) - 1))
    a, b = tree(*forest), tree(*(forest[:at] + forest[at + 1 :]))
    match = match_traces(a, b)
    assert len(match) == len(b)
    back = match_traces(b, a)
    assert len(back) == len(b)


launching = st.lists(st.tuples(names, st.integers(1, 50)), min_size=1, max_size=6)


@settings(max_examples=100, deadline=None)
@given(launching, launching)
def test_totals_are_symmetric_and_complete(one, two):
    a, b = (tree(*(op(name, kernels=[(f"k{name}", ns)]) for name, ns in ops)) for ops in (one, two))
    there, back = meet(a, b, match_traces(a, b)), meet(b, a, match_traces(b, a))
    assert (
        (there.total_a, there.total_b)
        == (back.total_b, back.total_a)
        == (sum(n for _, n in one), sum(n for _, n in two))
    )
    assert there.ns_a.sum() == there.total_a
    assert there.ns_b.sum() == there.total_b


def brute(a, b, keys_a, keys_b):
    best = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i in range(len(a)):
        for j in range(len(b)):
            like = likeness(keys_a, a[i], keys_b, b[j])
            best[i + 1][j + 1] = max(best[i][j + 1], best[i + 1][j], best[i][j] + like if like else 0)
    return best[-1][-1]


keyed = st.lists(st.tuples(*[st.integers(0, 3)] * 2), min_size=1, max_size=12)


@settings(max_examples=200, deadline=None)
@given(keyed, keyed)
def test_short_sequences_get_the_best_alignment(one, two):
    keys_a, keys_b = (
        np.array([(10 * x + y, 10 * x + y, x, x) for x, y in entries], np.int64) for entries in (one, two)
    )
    seq_a, seq_b = np.arange(len(one), dtype=np.int32), np.arange(len(two), dtype=np.int32)
    met = align_sequences(seq_a, seq_b, keys_a, keys_b)
    used = [j for j in met.tolist() if j >= 0]
    assert used == sorted(set(used))
    total = sum(likeness(keys_a, i, keys_b, j) for i, j in enumerate(met.tolist()) if j >= 0)
    assert total == brute(seq_a, seq_b, keys_a, keys_b)


@pytest.mark.parametrize("removed", [0, 1, 300])
def test_long_sequences_are_cut_at_what_is_common(removed):
    """3,000 of a repeating pattern with marks, against the same with a piece missing: all that is left meets."""
    values = np.array([(at * 7919) % 13 if at % 50 else 1000 + at for at in range(3000)], np.int64)
    keep = np.r_[0:1000, 1000 + removed : 3000]
    keys_a = np.repeat(values[:, None], 4, axis=1)
    keys_b = np.ascontiguousarray(keys_a[keep])
    met = align_sequences(np.arange(3000, dtype=np.int32), np.arange(len(keep), dtype=np.int32), keys_a, keys_b)
    assert int((met >= 0).sum()) == len(keep)
    assert (np.diff(met[met >= 0]) > 0).all()


def test_sequences_without_anything_in_common_end():
    keys_a, keys_b = (np.repeat(np.arange(low, low + 5000)[:, None], 4, axis=1) for low in (0, 10_000))
    order = np.arange(5000, dtype=np.int32)
    assert (align_sequences(order, order, keys_a, keys_b) == -1).all()


@pytest.mark.parametrize("model", MODELS)
def test_the_same_model_on_two_vendors(corpus, model):
    """Every launched kernel's time lies under matched operators, at 98 % and more, on both sides."""
    a, b = (
        open_trace(corpus / "kineto" / "cross_hw" / f"{model}.{device}.json.gz")[0] for device in ("h100", "mi300x")
    )
    match = match_traces(a, b)
    met = meet(a, b, match)
    for trace, matched in ((a, met.matched_a), (b, met.matched_b)):
        rows = trace.device_rows
        launched = int(trace.columns.dur_ns[rows[trace.columns.parent[rows] >= 0]].sum())
        assert matched >= 0.98 * launched
    assert len(match) >= 0.99 * len(match.considered_a)
    rises_a, rises_b = anchors(a, b, match)
    assert len(rises_a) >= 0.98 * len(match)
    assert (np.diff(rises_a) > 0).all()
    assert (np.diff(rises_b) > 0).all()


def test_aliases_are_of_the_other_run_alone():
    a = tree(op("mm"), op("addmm"))
    b = tree(op("addmm"))
    match, names = pairs(a, b, Pins(aliases=MappingProxyType({"addmm": "mm"})))
    assert names == [("mm", "addmm")]
    assert len(match.unmatched_a) == 1
