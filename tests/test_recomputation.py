"""Recomputed operators: told by a node that says so, or by a row of the forward pass that comes again."""

from __future__ import annotations

import pytest

from chakra_core.analysis import analyse_trace
from chakra_core.analysis.recomputation import LEAST_BY_NAME, recomputation
from chakra_core.analysis.scope import Scope
from chakra_core.opening import open_trace
from chakra_core.schema import Category
from tests.builder import make_trace, node
from tests.test_golden_tracelens import recomputed

CALL = {"category": Category.RUNTIME}
EVALUATE = "autograd::engine::evaluate_function: "


def checkpointed():
    """Linear and relu inside a checkpoint, again in its backward pass, with a product of gradients after them."""
    trace = make_trace(
        [
            node("CheckpointFunction", 0, 16, "main"),
            node("linear", 1, 9, "main", parent=0, shape=0),
            node("relu", 10, 5, "main", parent=0, shape=1),
            node("launch", 11, 1, "main", parent=2, **CALL),
            node(f"{EVALUATE}CheckpointFunctionBackward", 20, 60, "bw"),
            node("CheckpointFunctionBackward", 21, 58, "bw", parent=4),
            node("linear", 25, 10, "bw", parent=5, shape=0),
            node("launch", 26, 1, "bw", parent=6, **CALL),
            node("relu", 36, 4, "bw", parent=5, shape=1),
            node("launch", 37, 1, "bw", parent=8, **CALL),
            node("mul", 50, 10, "bw", parent=5, shape=2),
            node("launch", 51, 1, "bw", parent=10, **CALL),
            node("k", 15, 10, "gpu:7", parent=3),
            node("k", 30, 20, "gpu:7", parent=7),
            node("k", 45, 15, "gpu:8", parent=9),
            node("k", 60, 10, "gpu:7", parent=11),
        ]
    )
    return trace.with_(shapes=("[a]", "[b]", "[c]"))


def test_a_checkpoint_by_hand():
    result = recomputation(checkpointed())
    linear, relu = result.found
    assert (linear.name, linear.shapes, linear.count, linear.host_ns, linear.device_ns) == ("linear", "[a]", 1, 10, 20)
    assert (linear.named, linear.forward_row, linear.rows.tolist()) == (1, 1, [6])
    assert (relu.name, relu.host_ns, relu.device_ns, relu.forward_row) == ("relu", 4, 15, 2)
    assert (result.device_ns, result.by_shapes, result.reason) == (30, True, "")  # 30 to 60
    assert result.share == pytest.approx(30 / 50)  # of 15-25 and 30-70


def test_a_window_counts_what_lies_in_it():
    result = recomputation(checkpointed(), Scope(window=(36, 55)))
    assert [(one.name, one.host_ns, one.device_ns) for one in result.found] == [("relu", 4, 10)]


def test_what_ran_only_later_was_not_computed_before():
    trace = checkpointed()
    moved = trace.columns.start_ns.copy()
    moved[:4] += 1000
    assert recomputation(trace.with_(columns=trace.columns.with_(start_ns=moved))).found == ()


def rows_again(names, shape, inside=f"{EVALUATE}MulBackward0"):
    """Operators in a row, and the same below a node of the backward pass."""
    forward = [node(name, 10 * at, 5, "main", shape=shape) for at, name in enumerate(names)]
    head = [node(inside, 1000, 500, "bw")]
    below = [node(name, 1010 + 10 * at, 5, "bw", parent=len(names), shape=shape) for at, name in enumerate(names)]
    return make_trace([*forward, *head, *below]).with_(shapes=("[a]",))


@pytest.mark.parametrize(
    ("names", "shape", "expected"),
    [
        (["linear", "relu", "norm"], 0, 3),
        (["linear", "relu"], 0, 0),
        (["linear", "relu", "norm", "add", "mul"], -1, 0),
        (["linear", "relu", "norm", "add", "mul", "sub"], -1, LEAST_BY_NAME),
        (["linear", "nccl:all_reduce", "norm"], 0, 0),
    ],
    ids=["three", "two", "five by name", "six by name", "communication is no part"],
)
def test_a_row_of_the_forward_pass_that_comes_again(names, shape, expected):
    result = recomputation(rows_again(names, shape))
    assert sum(one.count for one in result.found) == expected
    assert all(one.named == 0 for one in result.found)
    assert result.by_shapes == (shape >= 0)


def test_a_python_frame_may_say_so():
    trace = rows_again(["linear"], 0, "torch/utils/checkpoint.py(1): recompute_fn")
    kinds = trace.columns.category.copy()
    kinds[1] = Category.PYTHON
    (one,) = recomputation(trace.with_(columns=trace.columns.with_(category=kinds))).found
    assert (one.name, one.named) == ("linear", 1)


def test_why_nothing_is_said():
    assert "no operators" in recomputation(make_trace([node("k", 0, 5)])).reason
    assert "no backward pass" in recomputation(make_trace([node("mm", 0, 5, "main")])).reason
    assert "no operators" in recomputation(make_trace([])).reason


def test_the_document():
    document = analyse_trace(checkpointed())["recomputation"]
    assert (document["device_ns"], document["by_shapes"]) == (30, True)
    assert [one["name"] for one in document["operators"]] == ["linear", "relu"]


def test_a_real_checkpoint_beside_the_frames_that_say_so(corpus):
    """The kernels below the frames ``recompute_fn`` are those that TraceLens takes for recomputed."""
    trace = open_trace(corpus / "kineto" / "mi300x_ddp_resnet_rank0of8.json.gz")[0]
    rows = recomputed(trace)
    c = trace.columns
    result = recomputation(trace)
    assert len(rows)
    assert result.device_ns <= int(c.dur_ns[rows].sum())
    assert result.device_ns >= 0.9 * int(c.dur_ns[rows].sum())
