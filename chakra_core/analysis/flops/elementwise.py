"""Elementwise operators, copies and fills: every operand read once, the result written once.

One operation per element of the result (``addcmul`` two, ``addcdiv`` two, ``lerp`` three), transcendental functions
counted as one: the convention of DeepSpeed's flops profiler (``_elementwise_flops_compute``) and of TensorFlow's
``tf.profiler``. Copies and fills move bytes and compute nothing. Shapes broadcast as in NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from chakra_core.analysis.flops.operands import ELEMENT_BYTES, Operands, Shape
from chakra_core.analysis.flops.work import Formula, Work, make
from chakra_core.schema import Category

__all__ = ["FORMULAS", "broadcast"]

_UNARY = (
    "abs", "acos", "asin", "atan", "bitwise_not", "ceil", "celu", "cos", "cosh", "deg2rad", "elu", "erf", "erfc",
    "erfinv", "exp", "exp2", "expm1", "floor", "frac", "gelu", "glu", "hardsigmoid", "hardswish", "hardtanh",
    "leaky_relu", "log", "log10", "log1p", "log2", "log_sigmoid", "mish", "neg", "positive", "reciprocal", "relu",
    "relu6", "round", "rsqrt", "sgn", "sigmoid", "sign", "silu", "sin", "sinh", "softplus", "sqrt", "square", "tan",
    "tanh", "threshold", "trunc", "clamp", "clamp_min", "clamp_max", "nan_to_num", "tril", "triu", "logit",
)  # fmt: skip
_BINARY = (
    "add", "sub", "rsub", "mul", "div", "true_divide", "floor_divide", "remainder", "fmod", "pow", "float_power",
    "atan2", "maximum", "minimum", "fmax", "fmin", "bitwise_and", "bitwise_or", "bitwise_xor", "hypot", "xlogy",
    "masked_fill", "copysign", "nextafter",
)  # fmt: skip
_GRADIENTS = (
    "threshold_backward", "gelu_backward", "silu_backward", "sigmoid_backward", "tanh_backward", "elu_backward",
    "hardswish_backward", "hardsigmoid_backward", "leaky_relu_backward", "softplus_backward", "native_dropout_backward",
    "mish_backward", "hardtanh_backward", "log_sigmoid_backward",
)  # fmt: skip
_TESTS = (
    "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "logical_not", "isnan", "isinf",
    "isfinite",
)  # fmt: skip
_TERNARY = {"addcmul": 2, "addcdiv": 2, "lerp": 3, "where": 1}
_LISTED = ("add", "sub", "mul", "div", "sqrt", "neg", "exp", "reciprocal", "pow", "addcmul", "addcdiv", "lerp")


def broadcast(shapes: Iterable[Shape]) -> Shape | None:
    """The shape that shapes broadcast to; None where they do not fit.

    >>> broadcast([(4, 1, 3), (5, 1)])
    (4, 5, 3)
    """
    result: Shape = ()
    for shape in shapes:
        size = max(len(result), len(shape))
        padded = [(1,) * (size - len(one)) + one for one in (result, shape)]
        if any(x != y and 1 not in (x, y) for x, y in zip(*padded, strict=True)):
            return None
        result = tuple(y if x == 1 else x for x, y in zip(*padded, strict=True))
    return result


def _elementwise(operations: int, arity: int, *, in_place: bool = False, out_bytes: float = 0.0) -> Formula:
    """Formula for ``arity`` operands; a tensor beyond them is where the result goes."""

    def formula(given: Operands) -> Work | None:
        tensors = given.tensors()[:arity]
        if not tensors:
            return None
        shape = given.shape(tensors[0]) if in_place else broadcast(given.shape(at) for at in tensors)
        if shape is None:
            return None
        results = math.prod(shape)
        written = results * (out_bytes or (given.size(tensors[0]) if in_place else _widest(given, tensors)))
        moved = sum(given.bytes(at) for at in tensors) + written
        return make(operations * results, moved, Category.ELEMENTWISE, given.main)

    return formula


def _widest(given: Operands, tensors: list[int]) -> float:
    """Bytes of a result's element: the widest of the operands with dimensions (numbers do not widen)."""
    sizes = [given.size(at) for at in tensors if given.shape(at) and given.kind(at) != "bool"]
    return max(sizes) if sizes else given.size(tensors[0])


def _copy(given: Operands) -> Work | None:
    """``copy_(self, source, …)``: reads the source (broadcast reads count once), writes all of self."""
    if not given.is_tensor(0):
        return None
    source = given.bytes(1) if given.is_tensor(1) else given.bytes(0)
    return make(0, source + given.bytes(0), Category.COPY, given.main)


def _fill(given: Operands) -> Work | None:
    if not given.is_tensor(0):
        return None
    return make(0, given.bytes(0), Category.MEMSET, given.main)


def _duplicate(given: Operands) -> Work | None:
    """One tensor, or a list of tensors, read and written again (``clone``, ``cat``, ``stack``)."""
    size = given.bytes(0)
    return make(0, 2 * size, Category.COPY, given.main) if given.shape(0) or _listed(given, 0) else None


def _dropout(given: Operands) -> Work | None:
    """``native_dropout``: reads the input, writes the result and a mask of truth values; draw, compare, scale."""
    count = math.prod(given.shape(0))
    if not given.shape(0):
        return None
    return make(3 * count, 2 * given.bytes(0) + count, Category.ELEMENTWISE, given.main)


def _listed(given: Operands, at: int) -> tuple[Shape, ...]:
    return given.lists[at] if at < len(given.lists) else ()


def _for_each(operations: int) -> Formula:
    """``_foreach_*``: every list of tensors read, one list of the first one's shapes written."""

    def formula(given: Operands) -> Work | None:
        first = _listed(given, 0)
        if not first:
            return None
        count = sum(map(math.prod, first))
        moved = sum(given.bytes(at) for at in range(len(given.shapes)) if _listed(given, at))
        return make(operations * count, moved + given.bytes(0), Category.ELEMENTWISE, given.main)

    return formula


def _fused_adam(given: Operands) -> Work | None:
    """One step of Adam on lists (parameters, gradients, first and second moments): four read, three written.

    13 operations an element: 3 for each moment, 4 for the denominator with both bias corrections, 3 for the update
    (D. Kingma, J. Ba, *Adam*, ICLR 2015, algorithm 1).
    """
    lists = [_listed(given, at) for at in range(4)]
    if not all(lists):
        return None
    moved = sum(given.bytes(at) * (1 if at == 1 else 2) for at in range(4))
    return make(13 * sum(map(math.prod, lists[0])), moved, Category.ELEMENTWISE, given.main)


def _formulas() -> dict[str, Formula]:
    found: dict[str, Formula] = {}
    kinds = {**dict.fromkeys(_UNARY, (1, 1)), **dict.fromkeys(_BINARY, (1, 2))}
    kinds |= {name: (operations, 3) for name, operations in _TERNARY.items()}
    for name, (operations, arity) in kinds.items():
        found[f"aten::{name}"] = _elementwise(operations, arity)
        found[f"aten::{name}_"] = _elementwise(operations, arity, in_place=True)
    for name in _GRADIENTS:
        found[f"aten::{name}"] = _elementwise(1, 2)
    for name in _TESTS:
        found[f"aten::{name}"] = _elementwise(1, 2, out_bytes=ELEMENT_BYTES["bool"])
    for name in _LISTED:
        found[f"aten::_foreach_{name}_"] = found[f"aten::_foreach_{name}"] = _for_each(_TERNARY.get(name, 1))
    return found


FORMULAS: dict[str, Formula] = {
    **_formulas(),
    "aten::copy_": _copy,
    **dict.fromkeys(("aten::fill_", "aten::zero_"), _fill),
    **dict.fromkeys(("aten::clone", "aten::cat", "aten::_cat", "aten::stack"), _duplicate),
    "aten::native_dropout": _dropout,
    **dict.fromkeys(("aten::_fused_adam_", "aten::_fused_adamw_"), _fused_adam),
}
"""By operator."""
