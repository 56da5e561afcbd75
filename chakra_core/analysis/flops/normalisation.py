"""Normalisations and softmax: a few operations per element; input read once, result written once.

Layer, group and batch norm take 4 operations an element forward (sum, squared deviation as a multiply-add, subtract and
scale), 5 with weight and bias: the convention of DeepSpeed's flops profiler (``_layer_norm_flops_compute``,
``_batch_norm_flops_compute``). Backward, counted from the gradient's formula (S. Ioffe, C. Szegedy, *Batch
Normalization*, ICML 2015, section 3): the normalised value (2), its product with the gradient summed (2), the gradient
summed (1) and dx = scale (g - mean(g) - x mean(g x)) (4) make 9; layer and group norm multiply by a weight per element
as well (1). Softmax: maximum, subtract, exponential, sum, divide: 5; backward: product, sum, subtract, multiply: 4.
"""

from __future__ import annotations

import math

from chakra_core.analysis.flops.operands import Operands
from chakra_core.analysis.flops.work import Formula, Work, make
from chakra_core.schema import Category

__all__ = ["FORMULAS"]


def _norm(*, data: int = 0, weight: int, plain: int = 4, affine: int = 5) -> Formula:
    """Forward: ``plain`` operations an element, ``affine`` with a weight at that position (its bias follows it)."""

    def formula(given: Operands) -> Work | None:
        if not given.shape(data):
            return None
        scaled = bool(given.shape(weight))
        parameters = given.bytes(weight) + (given.bytes(weight + 1) if given.shape(weight + 1) else 0.0)
        moved = 2 * given.bytes(data) + (parameters if scaled else 0.0)
        count = math.prod(given.shape(data))
        return make((affine if scaled else plain) * count, moved, Category.NORMALISATION, given.main)

    return formula


def _gradient(operations: int, *, data: int = 1) -> Formula:
    """Backward: gradient and input read, gradient of the input written."""

    def formula(given: Operands) -> Work | None:
        if not given.shape(data):
            return None
        count = math.prod(given.shape(data))
        return make(operations * count, 3 * given.bytes(data), Category.NORMALISATION, given.main)

    return formula


def _softmax(given: Operands) -> Work | None:
    if not given.shape(0):
        return None
    return make(5 * math.prod(given.shape(0)), 2 * given.bytes(0), Category.NORMALISATION, given.main)


def _residual(given: Operands) -> Work | None:
    """``fused_add_rms_norm(input, residual, weight, eps)``, in place: both read and both written."""
    if not given.shape(0):
        return None
    moved = 2 * (given.bytes(0) + given.bytes(1)) + given.bytes(2)
    return make(5 * math.prod(given.shape(0)), moved, Category.NORMALISATION, given.main)


_BATCH = _norm(weight=1)
_RMS = {"plain": 3, "affine": 4}
"""Square and add, scale, and the weight: no mean to subtract (B. Zhang, R. Sennrich, *RMSNorm*, 2019, equation 4)."""

FORMULAS: dict[str, Formula] = {
    **dict.fromkeys(
        (
            "aten::batch_norm", "aten::native_batch_norm", "aten::cudnn_batch_norm", "aten::miopen_batch_norm",
            "aten::_native_batch_norm_legit", "aten::_batch_norm_with_update",
        ),
        _BATCH,
    ),
    "aten::group_norm": _norm(weight=2),
    "aten::native_group_norm": _norm(weight=1),
    **dict.fromkeys(("aten::layer_norm", "aten::native_layer_norm"), _norm(weight=2)),
    **dict.fromkeys(("aten::rms_norm", "aten::_fused_rms_norm"), _norm(weight=2, **_RMS)),
    "_C::rms_norm": _norm(data=1, weight=2, **_RMS),
    "_C::fused_add_rms_norm": _residual,
    **dict.fromkeys(("aten::_softmax", "aten::_log_softmax", "aten::softmax", "aten::log_softmax"), _softmax),
    "aten::native_batch_norm_backward": _gradient(9),
    **dict.fromkeys(("aten::cudnn_batch_norm_backward", "aten::miopen_batch_norm_backward"), _gradient(9, data=0)),
    **dict.fromkeys(("aten::native_layer_norm_backward", "aten::native_group_norm_backward"), _gradient(10)),
    **dict.fromkeys(("aten::_softmax_backward_data", "aten::_log_softmax_backward_data"), _gradient(4)),
}  # fmt: skip
"""By operator."""
