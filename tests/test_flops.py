"""Work of operators: every formula on sizes worked out by hand, and odd inputs that must tell nothing."""

# ruff: noqa: FBT003 - the values of operators' inputs, in their order

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chakra_core.analysis.flops import formulas, parse_inputs, type_in_name, work_of
from chakra_core.analysis.flops.attention import causal_pairs
from chakra_core.analysis.flops.convolution import output_size
from chakra_core.analysis.flops.elementwise import broadcast
from chakra_core.analysis.flops.reduction import kept
from chakra_core.schema import Category
from chakra_core.trace import INPUT_SEPARATOR

BF16 = "c10::BFloat16"


def inputs(*entries: Any, types: Any = None) -> str:
    """Text of inputs: a list is a tensor's shape, anything else a value; all tensors bf16 unless types are given."""
    dims = [entry if isinstance(entry, list) else [] for entry in entries]
    kinds = types or [BF16 if isinstance(entry, list) else "Scalar" for entry in entries]
    values = ["" if isinstance(entry, list) else str(entry) for entry in entries]
    return INPUT_SEPARATOR.join(json.dumps(part) for part in (dims, kinds, values))


def work(name: str, *entries: Any, types: Any = None) -> tuple[int, int] | None:
    read = parse_inputs(inputs(*entries, types=types))
    assert read is not None
    found = work_of(name, read)
    return None if found is None else (found.flops, found.moved)


# 2 M N K; bytes are elements times two
MATRIX = 2 * 3 * 5 * 7, 2 * (3 * 7 + 7 * 5 + 3 * 5)


@pytest.mark.parametrize(
    ("name", "entries", "flops", "moved"),
    [
        ("aten::mm", ([3, 7], [7, 5]), *MATRIX),
        ("aten::addmm", ([5], [3, 7], [7, 5], 1, 1), MATRIX[0] + 15, MATRIX[1] + 10),
        ("aten::linear", ([3, 7], [5, 7], [5]), MATRIX[0] + 15, MATRIX[1] + 10),
        ("aten::linear", ([2, 3, 7], [5, 7], ""), 2 * MATRIX[0], 2 * (42 + 35 + 30)),
        ("aten::bmm", ([4, 3, 7], [4, 7, 5]), 4 * MATRIX[0], 4 * MATRIX[1]),
        ("aten::baddbmm", ([4, 3, 5], [4, 3, 7], [4, 7, 5], 1, 1), 4 * (MATRIX[0] + 15), 4 * (MATRIX[1] + 30)),
        ("aten::matmul", ([4, 1, 3, 7], [6, 7, 5]), 24 * MATRIX[0], 2 * (4 * 21 + 6 * 35 + 24 * 15)),
        ("aten::matmul", ([3, 7], [7]), 2 * 3 * 7, 2 * (21 + 7 + 3)),
        ("aten::dot", ([7], [7]), 14, 2 * (7 + 7 + 1)),
        ("aten::addbmm", ([3, 5], [4, 3, 7], [4, 7, 5], 1, 1), 4 * MATRIX[0] + 60, 2 * (4 * 56 + 15 + 15)),
        # 4 images of 3 x 8 x 8, 6 filters of 3 x 3 x 3, stride 2, padding 1: 4 x 4 results
        ("aten::convolution", ([4, 3, 8, 8], [6, 3, 3, 3], "", [], [], [], False, [], 1), None, None),
        ("aten::threshold_backward", ([2, 3], [2, 3], 0), 6, 36),
        ("aten::add", ([2, 3], [3], 1), 6, 2 * (6 + 3 + 6)),
        ("aten::add_", ([2, 3], [3], 1), 6, 2 * (6 + 3 + 6)),
        ("aten::mul", ([2, 3], [3], [2, 3]), 6, 2 * (6 + 3 + 6)),  # the third is where the result goes
        ("aten::eq", ([2, 3], [2, 3]), 6, 2 * 12 + 6),
        ("aten::relu", ([2, 3],), 6, 24),
        ("aten::addcmul_", ([2, 3], [2, 3], [2, 3]), 12, 48),
        ("aten::copy_", ([2, 3], [2, 3], False), 0, 24),
        ("aten::fill_", ([2, 3], 0), 0, 12),
        ("aten::clone", ([2, 3],), 0, 24),
        ("aten::native_dropout", ([2, 3], 0.1, True), 18, 24 + 6),
        ("aten::sum", ([4, 5], [], True), 20, 42),
        ("aten::cumsum", ([4, 5], 0), 20, 80),
        ("aten::mse_loss", ([4, 5], [4, 5], 1), 60, 80),
        ("aten::_softmax", ([4, 5], -1, False), 100, 80),
        ("aten::_softmax_backward_data", ([4, 5], [4, 5], -1, 6), 80, 120),
        ("aten::native_layer_norm", ([4, 5], "[5]", [5], [5], 1e-5), 100, 2 * (20 + 20 + 5 + 5)),
        ("aten::native_layer_norm", ([4, 5], "[5]", "", "", 1e-5), 80, 80),
        ("aten::native_batch_norm", ([4, 5, 2, 2], [5], [5], [5], [5], True, 0.1, 1e-5), 400, 2 * (160 + 10)),
        ("aten::native_batch_norm_backward", ([4, 5, 2, 2], [4, 5, 2, 2], [5]), 720, 2 * 3 * 80),
        ("aten::rms_norm", ([4, 5], "[5]", [5], 1e-6), 80, 2 * 45),
        ("_C::fused_add_rms_norm", ([4, 5], [4, 5], [5], 1e-6), 100, 2 * (40 + 40 + 5)),
    ],
)
def test_formulas_by_hand(name, entries, flops, moved):
    found = work(name, *entries)
    assert found == (None if flops is None else (flops, moved))


def test_convolution_by_hand():
    # results 4 x 6 x 4 x 4 = 384, each 3 x 3 x 3 = 27 multiply-adds
    entries = ([4, 3, 8, 8], [6, 3, 3, 3], "", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1")
    moved = 2 * (4 * 3 * 64 + 6 * 27 + 384)
    assert work("aten::convolution", *entries) == (2 * 384 * 27, moved)
    assert work("aten::conv2d", *entries[:3], "[2, 2]", "[1, 1]", "[1, 1]", "1") == (2 * 384 * 27, moved)
    assert work("aten::miopen_convolution", *entries[:3], "[1, 1]", "[2, 2]", "[1, 1]", "1") == (2 * 384 * 27, moved)
    assert work("aten::cudnn_convolution", *entries[:2], "[1, 1]", "[2, 2]", "[1, 1]", "1") == (2 * 384 * 27, moved)
    # two groups: each filter sees half of the channels
    grouped = work("aten::conv1d", [1, 4, 10], [6, 2, 3], "", "[1]", "[0]", "[1]", "2")
    assert grouped == (2 * 6 * 8 * 2 * 3, 2 * (40 + 36 + 48))
    # transposed: every input element meets every weight of its channel once
    turned = work("aten::convolution", [1, 4, 5], [4, 6, 3], "", "[2]", "[1]", "[1]", "True", "[1]", "1")
    assert turned == (2 * 5 * 4 * 6 * 3, 2 * (20 + 72 + 6 * 10))


def test_convolution_backward_by_hand():
    shapes = ([4, 6, 4, 4], [4, 3, 8, 8], [6, 3, 3, 3])
    rest = ("[0]", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1")
    once, moved = 2 * 384 * 27, 2 * (4 * 3 * 64 + 6 * 27 + 384)
    name = "aten::convolution_backward"
    assert work(name, *shapes, *rest, "[True, True, False]") == (2 * once, 2 * moved)
    assert work(name, *shapes, *rest, "[False, True, False]") == (once, moved)  # the first layer wants one
    sized = work("aten::cudnn_convolution_backward_weight", "[6, 3, 3, 3]", shapes[0], shapes[1], types=[
        "ScalarList", BF16, BF16])  # fmt: skip
    assert sized == (once, moved)
    sized = work("aten::cudnn_convolution_backward_input", "[4, 3, 8, 8]", shapes[0], shapes[2], types=[
        "ScalarList", BF16, BF16])  # fmt: skip
    assert sized == (once, moved)


def test_attention_by_hand():
    q, k, v = [2, 4, 6, 8], [2, 4, 10, 8], [2, 4, 10, 16]
    flash = "aten::_scaled_dot_product_flash_attention"
    pairs, out = 6 * 10, 2 * 4 * 6 * 16
    moved = 2 * (2 * 4 * 6 * 8 + 2 * 4 * 10 * 8 + 2 * 4 * 10 * 16 + out)
    assert work(flash, q, k, v, 0.0, False, False, 0.1) == (2 * 2 * 4 * pairs * (8 + 16), moved)
    assert work(flash, q, q, q, 0.0, True, False, 0.1) == (2 * 2 * 4 * 18 * 16, 2 * 4 * 2 * 4 * 6 * 8)  # half of 36
    # grouped queries: 4 query heads, 2 of keys and values
    grouped = work("aten::scaled_dot_product_attention", q, [2, 2, 6, 8], [2, 2, 6, 8], "", 0.0, False)
    assert grouped == (2 * 2 * 4 * 36 * 16, 2 * (384 + 192 + 192 + 384))
    # flash_attn has the heads third
    assert work("flash_attn::_flash_attn_forward", [2, 6, 4, 8], [2, 6, 2, 8], [2, 6, 2, 8], 0.0, 0.1, False) == grouped
    # backward: five products instead of two; reads and writes everything twice over
    backward = work(
        "aten::_scaled_dot_product_flash_attention_backward", q, q, q, q, q, [2, 4, 6], "", "", 6, 6, 0.0, False
    )
    assert backward == (2 * 2 * 4 * 36 * 5 * 8, 2 * 8 * 2 * 4 * 6 * 8)
    # packed sequences: the shapes do not tell which query meets which key
    assert work("aten::_flash_attention_forward", [12, 4, 8], [12, 4, 8], [12, 4, 8], [3], [3], 6, 6, 0.0, True) is None
    assert work(flash, q, q, q, 0.0, "", False) is None  # causal or not is not known


@pytest.mark.parametrize("from_end", [False, True])
@given(queries=st.integers(1, 40), keys=st.integers(1, 40))
def test_causal_pairs_against_a_mask(queries, keys, from_end):
    shift = keys - queries if from_end else 0
    mask = np.tri(queries, keys, shift)
    diagonal = sum(1 for row in range(queries) if 0 <= row + shift < keys)
    assert causal_pairs(queries, keys, from_end=from_end) == mask.sum() - diagonal / 2


@given(st.lists(st.lists(st.integers(1, 4), max_size=4).map(tuple), min_size=1, max_size=3))
def test_broadcast_as_numpy(shapes):
    try:
        expected = np.broadcast_shapes(*shapes)
    except ValueError:
        expected = None
    assert broadcast(shapes) == expected


@given(
    size=st.integers(1, 12), kernel=st.integers(1, 4), stride=st.integers(1, 3), padding=st.integers(0, 2),
    dilation=st.integers(1, 2),
)  # fmt: skip
def test_output_size_counts_the_places_a_kernel_fits(size, kernel, stride, padding, dilation):
    reach = dilation * (kernel - 1)
    places = [at for at in range(-padding, size + padding, stride) if at + reach < size + padding]
    found = output_size((size,), (kernel,), (stride,), (padding,), (dilation,))
    assert max(found[0], 0) == len(places)


def test_kept_elements():
    assert kept((4, 5, 6), [-1]) == 20
    assert kept((4, 5, 6), [0, 2]) == 5
    assert kept((4, 5, 6), 1) == 24
    assert kept((4, 5, 6), None) == kept((4, 5, 6), []) == 1


def test_embedding_by_hand():
    types = ["float", "long int", "Scalar", "Scalar", "Scalar"]
    assert work("aten::embedding", [100, 8], [3, 4], -1, False, False, types=types) == (0, 12 * 8 + 2 * 12 * 8 * 4)
    types = ["float", "long int", "long int"]
    bag = work("aten::_embedding_bag", [100, 8], [12], [3], types=types)
    assert bag == (96, 12 * 8 + 3 * 8 + (12 + 3) * 8 * 4)
    types = ["float", "Scalar", "int"]
    assert work("aten::index_select", [100, 8], 0, [12], types=types) == (0, 12 * 4 + 2 * 12 * 8 * 4)
    types = ["float", "Scalar", "long int"]
    assert work("aten::gather", [3, 8], 1, [3, 2], types=types) == (0, 6 * 8 + 2 * 6 * 4)


def test_lists_of_tensors():
    text = INPUT_SEPARATOR.join(
        json.dumps(part) for part in ([[[2, 3], [4]], [[2, 3], [4]], []], ["TensorList", "TensorList", "Scalar"], [])
    )
    unknown = parse_inputs(text)
    assert unknown is not None
    assert work_of("aten::_foreach_add_", unknown) is None  # no element type: bytes would be a guess
    told = parse_inputs(text, otherwise="fp16")
    assert told is not None
    found = work_of("aten::_foreach_add_", told)
    assert found is not None
    assert (found.flops, found.moved, found.precision) == (10, 2 * 30, "fp16")


def test_host_trace_spelling():
    text = INPUT_SEPARATOR.join(
        ("[[32, 3, 8, 8], [6, 3, 3, 3], [], [[], []], [[], []], [[], []], [], [[], []], []]",
         ("['Tensor(float)', 'Tensor(float)', 'Tensor(nullptr (uninitialized))', 'GenericList[Int,Int]', "
         "'GenericList[Int,Int]', 'GenericList[Int,Int]', 'Bool', 'GenericList[Int,Int]', 'Int']"))
    )  # fmt: skip
    values = [
        [1, 2, 0, 6144, 4, "cuda:0"],
        [3, 4, 0, 162, 4, "cuda:0"],
        [5, 0],
        [1, 1],
        [0, 0],
        [1, 1],
        False,
        [0, 0],
        1,
    ]
    read = parse_inputs(text, values)
    assert read is not None
    assert read.types[:2] == ("fp32", "fp32")
    assert read.kind(6) == read.kind(8) == ""
    found = work_of("aten::convolution", read)
    assert found is not None
    assert found.flops == 2 * 32 * 6 * 6 * 6 * 27
    assert found.precision == "fp32"
    assert found.family == Category.CONVOLUTION


@pytest.mark.parametrize(
    "text",
    ["", "no list", "[" * 100_000, INPUT_SEPARATOR * 5, "[[3, -7], [7, 5]]", f'[[{10**30}, 7], [7, 5]]{INPUT_SEPARATOR}["float"]'],
)  # fmt: skip
def test_hostile_inputs_tell_nothing(text):
    read = parse_inputs(text)
    assert read is None or work_of("aten::mm", read) is None


@given(
    name=st.sampled_from(sorted(formulas())),
    dims=st.lists(st.one_of(st.just([]), st.lists(st.integers(0, 2**40), max_size=5)), max_size=12),
    values=st.lists(st.sampled_from(["", "True", "1", "[1, 1]", "[0]", "-3", "nonsense", "[true"]), max_size=12),
)
def test_no_formula_fails_on_anything(name, dims, values):
    types = ["float" if entry else "" for entry in dims]
    read = parse_inputs(INPUT_SEPARATOR.join(json.dumps(part) for part in (dims, types, values)))
    assert read is not None
    found = work_of(name, read)
    assert found is None or (found.flops >= 0 and found.moved >= 0)


def test_types_in_kernel_names():
    assert type_in_name("void at::native::elementwise_kernel<4, c10::BFloat16>(int)") == "bf16"
    assert type_in_name("vectorized<AUnaryFunctor<float, float, bool>>") == "fp32"
    assert type_in_name("triton_poi_fused_add_0") == ""
    assert math.isclose(2.0, parse_inputs(inputs([3])).size(0))  # type: ignore[union-attr]  # it is one tensor
