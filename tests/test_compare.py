"""Comparison of runs: worked pairs, the exact decomposition as a property, alignment rules, real pairs."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chakra_core.analysis.align import How, Keys, align, collect, normalise_kernel, normalise_operator
from chakra_core.analysis.breakdown import PARTS
from chakra_core.analysis.compare import as_json, compare
from chakra_core.analysis.explain import CAUSES
from chakra_core.analysis.scope import Scope
from chakra_core.errors import AnalysisError
from chakra_core.schema import Category, TimeKind
from chakra_core.trace import Run
from tests.builder import make_trace, node

LAUNCH = {"category": Category.RUNTIME}


def run_of(*traces, label="run"):
    return Run(traces, label)


def model(ops, label, **more):
    """One rank: each op is (name, shapes, parent position or -1, [(kernel, dur), …]); kernels follow one another."""
    nodes, shapes, clock = [], [], 0
    kernels = []
    for name, shape, parent, launched in ops:
        if shape and shape not in shapes:
            shapes.append(shape)
        code = shapes.index(shape) if shape else -1
        nodes.append(node(name, clock, 10, "cpu", parent=parent, shape=code))
        kernels += [(len(nodes) - 1, kernel, dur) for kernel, dur in launched]
        clock += 10
    for op, kernel, dur in kernels:
        nodes.append(node("launch", clock, 1, "cpu", parent=op, **LAUNCH))
        nodes.append(node(kernel, clock + 1, dur, "gpu:7", parent=len(nodes) - 1))
        clock += dur + 1
    return run_of(make_trace(nodes, **more).with_(shapes=tuple(shapes)), label=label)


def table(result):
    found = result.operators
    return {
        (found.names[at], How(int(found.how[at]))): (*found.ns[at].tolist(), *found.calls[at].tolist())
        for at in range(len(found))
    }


def test_vendor_kernels_meet_under_their_operator():
    cuda = model([("aten::mm", "[2,3]x[3,4]", -1, [("sm90_gemm", 100), ("splitk_reduce", 20)])], "cuda")
    rocm = model([("aten::mm", "[2,3]x[3,4]", -1, [("Cijk_Ailk", 90)])], "rocm")
    result = compare([cuda, rocm])
    assert table(result) == {("aten::mm [2,3]x[3,4]", How.SHAPES): (120, 90, 1, 1)}
    assert result.operators.kernels.tolist() == [[2, 1]]
    assert result.operators.longest.tolist() == [[0, 0]]
    assert [run.matched_share for run in result.runs] == [1.0, 1.0]


def test_other_shapes_meet_under_the_name_and_other_dispatch_under_the_enclosing_operator():
    one = model(
        [
            ("aten::sdpa", "[8]", -1, []),
            ("aten::_flash", "[8]", 0, [("flash_fwd", 50)]),
            ("aten::mm", "[2,2]", -1, [("gemm", 10)]),
        ],
        "one",
    )
    two = model(
        [
            ("aten::sdpa", "[8]", -1, []),
            ("aten::bmm", "[8]", 0, [("gemm", 40)]),
            ("aten::softmax", "[8]", 0, [("softmax", 30)]),
            ("aten::mm", "[4,4]", -1, [("gemm", 15)]),
        ],
        "two",
    )
    assert table(compare([one, two])) == {
        ("aten::sdpa [8]", How.ENCLOSING): (50, 70, 1, 1),
        ("aten::mm [2,2]", How.PLACE): (10, 15, 1, 1),
    }


def test_a_matrix_product_with_a_bias_meets_one_without():
    one = model([("aten::mm", "[2,3]x[3,4]:bf16", -1, [("Cijk", 73)])], "mm")
    two = model([("aten::addmm", "[2,1]x[2,3]x[3,4]:f32", -1, [("gemm", 48)])], "addmm")
    assert table(compare([one, two])) == {("matrix product [2,3]x[3,4]", How.EQUIVALENT): (73, 48, 1, 1)}
    other = model([("aten::addmm", "[9,1]x[9,3]x[3,4]:f32", -1, [("gemm", 48)])], "addmm")
    assert not compare([one, other]).operators.matched.any()


def test_what_has_no_counterpart_is_listed():
    one = model([("aten::mm", "", -1, [("gemm", 10)]), ("aten::dropout", "", -1, [("philox", 7)])], "one")
    two = model([("aten::mm", "", -1, [("gemm", 12)]), ("aten::gelu", "", -1, [("gelu", 5)])], "two")
    result = compare([one, two])
    assert table(result) == {
        ("aten::dropout", How.UNMATCHED): (7, 0, 1, 0),
        ("aten::gelu", How.UNMATCHED): (0, 5, 0, 1),
        ("aten::mm", How.SHAPES): (10, 12, 1, 1),
    }
    assert result.runs[1].matched_share == pytest.approx(12 / 17)
    document = as_json(result)
    assert [(entry["run"], entry["name"], entry["ns"]) for entry in document["unmatched"]] == [
        ("one", "aten::dropout", 7), ("two", "aten::gelu", 5),
    ]  # fmt: skip
    assert result.operators.longest[1].tolist() == [-1, 1]
    json.dumps(document)


def test_kernels_without_an_operator_meet_by_category_and_name():
    one = run_of(make_trace([node("void k<float>(int)", 0, 10), node("a", 20, 5)]), label="one")
    two = run_of(make_trace([node("void k<half>(int)", 0, 6), node("a", 20, 5)]), label="two")
    assert table(compare([one, two])) == {("k", How.KERNEL): (10, 6, 1, 1), ("a", How.KERNEL): (5, 5, 1, 1)}
    copies = run_of(make_trace([node("a", 20, 5, category=Category.COPY)]), label="copies")
    assert not compare([one, copies]).operators.matched.any()


def test_kernels_launched_before_the_recording_meet_under_the_operator_of_their_like():
    def recorded(kernel, dur, early, label):
        run = model([("aten::mm", "[2]", -1, [(kernel, dur)])], label)
        (trace,) = run.traces
        nodes = [
            node(trace.name_of(row), 0 if row < 2 else 100, 10, "cpu" if row < 2 else "gpu:7", parent=row - 1, **extra)
            for row, extra in enumerate(({"shape": 0}, LAUNCH, {"dur_ns": dur}))
        ]
        return run_of(make_trace([*nodes, node(kernel, 0, early)]).with_(shapes=("[2]",)), label=label)

    result = compare([recorded("sm90_gemm", 50, 40, "cuda"), recorded("Cijk", 70, 60, "rocm")])
    assert table(result) == {
        ("aten::mm [2]", How.SHAPES): (50, 70, 1, 1), ("matrix product", How.INFERRED): (40, 60, 1, 1),
    }  # fmt: skip


def test_three_runs_against_the_middle_one():
    runs = [model([("aten::mm", "", -1, [("k", dur)])], label) for dur, label in ((10, "a"), (30, "b"), (25, "c"))]
    result = compare(runs, baseline=1)
    assert [delta.total_ns for delta in result.deltas] == [-20, 0, -5]
    document = as_json(result)
    assert document["baseline"]["label"] == "b"
    assert [run["label"] for run in document["runs"]] == ["a", "c"]
    assert document["operators"][0]["baseline_ns"] == 30
    assert document["operators"][0]["runs_ns"] == [10, 25]


def test_the_totals_by_hand():
    """Baseline: compute 0-10, idle to 20, communication 20-50. Other: compute 0-30, communication 20-40, copy 45-50."""
    comm, copy = {"category": Category.COMMUNICATION}, {"category": Category.COPY}
    one = run_of(make_trace([node("mm", 0, 10), node("ar", 20, 30, "gpu:9", **comm)]), label="one")
    two = run_of(
        make_trace([node("mm", 0, 30), node("ar", 20, 20, "gpu:9", **comm), node("cp", 45, 5, "gpu:9", **copy)]),
        label="two",
    )
    first, second = compare([one, two]).runs
    assert [first.part(part) for part in PARTS] == [10, 30, 0, 10]
    assert [second.part(part) for part in PARTS] == [30, 10, 5, 5]
    delta = as_json(compare([one, two]))["runs"][0]["delta"]
    assert delta == {
        "compute_ns": 20, "exposed_comm_ns": -20, "exposed_memory_ns": 5, "idle_ns": -5,
    }  # fmt: skip
    assert second.overlap_ratio == 0.5


def test_ranks_are_averaged_and_listed():
    one = run_of(*(make_trace([node("mm", 0, dur)], rank=rank) for rank, dur in enumerate((10, 20, 40))), label="3")
    two = run_of(make_trace([node("mm", 0, 30)]), label="1")
    result = compare([one, two])
    first = result.runs[0]
    assert (first.total_ns, first.aggregate, first.devices) == (23, "mean over 3 devices", 3)
    assert [(rank, part.total_ns) for rank, part in first.per_device] == [(0, 10), (1, 20), (2, 40)]
    assert first.slowest == (2, 40)
    assert result.operators.ns.tolist() == [[23, 30]]
    assert result.operators.longest_rank.tolist() == [[2, 0]]
    assert any("different numbers of devices" in warning for warning in result.warnings)
    scoped = compare([one, two], scopes=[Scope(ranks=frozenset({1})), Scope(window=(5, 10))])
    assert [run.total_ns for run in scoped.runs] == [20, 5]


def test_without_devices_operators_are_compared_by_self_time():
    def host(inner, label):
        nodes = [node("aten::linear", 0, 100, "cpu"), node("aten::addmm", 10, inner, "cpu", parent=0)]
        return run_of(make_trace(nodes), label=label)

    result = compare([host(60, "a"), host(80, "b")])
    assert table(result) == {
        ("aten::addmm", How.SHAPES): (60, 80, 1, 1), ("aten::linear", How.SHAPES): (40, 20, 1, 1),
    }  # fmt: skip
    assert not result.runs[0].on_device
    assert result.runs[0].total_ns == 0
    mixed = compare([host(60, "a"), model([("aten::addmm", "", -1, [("k", 5)])], "b")])
    assert any("self time on the host" in warning for warning in mixed.warnings)


def test_kinds_of_time_are_told_apart():
    one = model([("mm", "", -1, [("k", 5)])], "m")
    two = model([("mm", "", -1, [("k", 5)])], "s", time_kind=TimeKind.SIMULATED)
    assert any("s is simulated" in warning for warning in compare([one, two]).warnings)


def test_requests_that_make_no_sense():
    run = run_of(make_trace([node("k", 0, 1)]))
    with pytest.raises(AnalysisError, match="two runs"):
        compare([run])
    with pytest.raises(AnalysisError, match="no run 5"):
        compare([run, run], baseline=5)
    with pytest.raises(AnalysisError, match="scopes"):
        compare([run, run], scopes=[Scope()])
    empty = compare([run_of(make_trace([])), run_of(make_trace([]))])
    assert len(empty.operators) == 0
    assert empty.runs[0].matched_share is None


def test_a_standstill_of_the_climb_is_resolved():
    """X around Y here, Y around X there: each side chooses another key first."""
    one = model([("Y", "", -1, []), ("X", "", 0, [("a", 5)])], "one")
    two = model([("X", "", -1, []), ("Y", "", 0, [("b", 9)])], "two")
    ((_, how), times), = table(compare([one, two])).items()  # fmt: skip
    assert how == How.ENCLOSING
    assert times == (5, 9, 1, 1)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("aten::cudnn_batch_norm", "aten::miopen_batch_norm"),
        ("aten::_scaled_dot_product_cudnn_attention", "aten::_scaled_dot_product_attention"),
        ("nccl:all_reduce", "rccl:all_reduce"),
        ("triton_red_fused_mean_12", "triton_red_fused_mean_7"),
        ("ProfilerStep#4", "ProfilerStep#11"),
    ],
)
def test_operator_names_across_vendors(one, other):
    assert normalise_operator(one) == normalise_operator(other)


@pytest.mark.parametrize(
    "name",
    [
        "aten::log2",
        "aten::exp2",
        "aten::conv2d",
        "aten::relu6",
        "aten::copy_",
        "aten::_flash",
        "x",
        "123",
        "",
        "::",
        "MmBackward0",
    ],
)
def test_names_that_must_stay(name):
    assert normalise_operator(name) == name


def test_kernel_names_keep_what_tells_them_apart():
    assert normalise_kernel("ncclDevKernel_AllReduce_Sum(x)") != normalise_kernel("ncclDevKernel_AllGather(x)")
    assert normalise_kernel("") == ""


piece = st.tuples(
    st.sampled_from(["mm", "add", "norm", "copy"]), st.sampled_from(["[2]", "[3]", ""]), st.integers(-1, 3),
    st.lists(st.tuples(st.sampled_from(["k1", "k2", "void k1<int>"]), st.integers(0, 50)), max_size=3),
)  # fmt: skip
pieces = st.lists(piece, max_size=6)


def _valid(ops):
    return [
        (name, shape, parent if parent < at else -1, kernels) for at, (name, shape, parent, kernels) in enumerate(ops)
    ]


@settings(deadline=None)
@given(st.lists(pieces, min_size=2, max_size=3), st.integers(0, 1))
def test_nothing_is_lost_and_the_decomposition_is_exact(all_ops, baseline):
    runs = [model(_valid(ops), f"r{at}") for at, ops in enumerate(all_ops)]
    result = compare(runs, baseline)
    for at, ops in enumerate(all_ops):
        launched = [dur for *_, kernels in ops for _, dur in kernels]
        assert result.operators.kernels[:, at].sum() == len(launched) or not result.runs[at].on_device
        if result.runs[at].on_device:
            assert result.operators.ns[:, at].sum() == sum(launched) == result.runs[at].work_ns
        delta = result.deltas[at]
        assert delta.total_ns == result.runs[at].total_ns - result.runs[baseline].total_ns
        assert delta.total_ns == sum(delta.part(part) for part in PARTS)
    unmatched = np.flatnonzero(result.operators.how == How.UNMATCHED)
    assert not (result.operators.kernels[unmatched] > 0).all(axis=1).any()


@given(pieces)
def test_a_run_matches_itself_wholly(ops):
    keys = Keys()
    run = model(_valid(ops), "a")
    works = [collect(run, keys), collect(run, keys)]
    alignment = align(works, keys)
    assert (alignment.groups[0] == alignment.groups[1]).all()
    assert not (alignment.how == How.UNMATCHED).any()


def test_why_compute_changed_by_hand():
    one = model(
        [
            ("aten::mm", "[2]", -1, [("void gemm<64>(float)", 100)]),
            ("aten::relu", "[2]", -1, [("relu", 30)]),
            ("aten::conv", "[2]", -1, [("implicit", 50), ("bias", 5)]),
            ("aten::old", "[2]", -1, [("old", 7)]),
        ],
        "one",
    )
    two = model(
        [
            ("aten::mm", "[2]", -1, [("void gemm<128>(float)", 80)]),
            ("aten::relu", "[2]", -1, [("relu", 30)]),
            ("aten::conv", "[2]", -1, [("winograd", 20)]),
            ("aten::new", "[2]", -1, [("new", 11)]),
        ],
        "two",
    )
    result = compare([one, two])
    why = result.why[1]
    assert (why.same_kernels_ns, why.other_kernels_ns, why.only_baseline_ns, why.only_run_ns) == (-20, -35, -7, 11)
    assert why.side_by_side_ns == 0
    assert result.why[0].same_kernels_ns == 0
    change = as_json(result)["runs"][0]["compute_change"]
    assert sum(change.values()) == result.deltas[1].compute_ns == -51


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"), st.integers(1, 50)), max_size=8),
       st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"), st.integers(1, 50)), max_size=8))  # fmt: skip
def test_the_causes_sum_to_the_change_of_compute(first, second):
    runs = [model([(op, "[2]", -1, [(kernel, dur)]) for op, kernel, dur in ops], "r") for ops in (first, second)]
    result = compare(runs)
    for why, delta in zip(result.why, result.deltas, strict=True):
        assert sum(why.part(cause) for cause in CAUSES) == delta.compute_ns
