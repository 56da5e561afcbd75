"""Convolutions: 2 N C_out prod(out) (C_in / groups) prod(kernel) operations, forward; as much again per gradient.

Source: V. Sze, Y.-H. Chen, T.-J. Yang, J. Emer, *Efficient Processing of Deep Neural Networks*, Proc. IEEE 105(12),
2017, section III-A, equation 1 (multiply-accumulates of a convolution, each two operations); output sizes as in the
documentation of ``torch.nn.Conv2d`` and ``ConvTranspose2d``. These are the operations of the direct algorithm: a
kernel that uses another (Winograd, FFT) can do fewer. A bias is not counted: on devices it is an operator of its own.
"""

from __future__ import annotations

import math

from chakra_core.analysis.flops.operands import Operands, Shape
from chakra_core.analysis.flops.work import Formula, Work, make
from chakra_core.schema import Category

__all__ = ["FORMULAS", "output_size"]

_ABSENT = -1


def output_size(size: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape) -> Shape:
    """Spatial size of a convolution's output."""
    return tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, p, d in zip(size, kernel, stride, padding, dilation, strict=True)
    )


def _transposed_size(size: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, more: Shape) -> Shape:
    """Spatial size of a transposed convolution's output."""
    return tuple(
        (n - 1) * s - 2 * p + d * (k - 1) + m + 1
        for n, k, s, p, d, m in zip(size, kernel, stride, padding, dilation, more, strict=True)
    )


def _forward(
    *, stride: int, padding: int, dilation: int = _ABSENT, transposed: int = _ABSENT, more: int = _ABSENT,
    always_transposed: bool = False, groups: int = _ABSENT,
) -> Formula:  # fmt: skip
    """Formula for a signature ``(input, weight, …)`` with the others at these positions."""

    def formula(given: Operands) -> Work | None:
        image, weight = given.shape(0), given.shape(1)
        spatial = len(weight) - 2
        if spatial < 1 or len(image) not in (spatial + 1, spatial + 2):
            return None
        batch = image[0] if len(image) == spatial + 2 else 1
        ones = (1,) * spatial
        steps, pads = given.numbers(stride, spatial), given.numbers(padding, spatial)
        wide = ones if dilation == _ABSENT else given.numbers(dilation, spatial)
        if steps is None or pads is None or wide is None or 0 in steps:
            return None
        size, kernel = image[-spatial:], weight[2:]
        if always_transposed or (transposed != _ABSENT and given.flag(transposed)):
            extra = (given.numbers(more, spatial) if more != _ABSENT else None) or (0,) * spatial
            parts = given.numbers(groups, 1) if groups != _ABSENT else None
            channels = weight[1] * (parts[0] if parts else 1)
            out = _transposed_size(size, kernel, steps, pads, wide, extra)
            operations = 2 * batch * math.prod(size) * math.prod(weight)
        else:
            channels = weight[0]
            out = output_size(size, kernel, steps, pads, wide)
            operations = 2 * batch * math.prod(out) * math.prod(weight)
        if min(out) < 0:
            return None
        results = batch * channels * math.prod(out)
        moved = given.bytes(0) + given.bytes(1) + results * given.size(0)
        return make(operations, moved, Category.CONVOLUTION, given.kind(0) or given.main)

    return formula


def _cudnn(given: Operands) -> Work | None:
    """``(input, weight, padding, stride, dilation, …)``; before 2020 with a bias third."""
    if given.numbers(2, 2) is None and given.numbers(3, 2) is not None and given.numbers(5, 2) is not None:
        return _BIASED(given)
    return _UNBIASED(given)


def _backward(given: Operands) -> Work | None:
    """``convolution_backward(grad_output, input, weight, bias_sizes, …, transposed, …, output_mask)``.

    The gradient of the input and that of the weight each cost what the forward costs; the mask says which are
    wanted. Each reads two tensors and writes one of the three.
    """
    gradient, image, weight = given.shape(0), given.shape(1), given.shape(2)
    if len(weight) < 3 or len(gradient) < len(weight) - 1 or len(image) < len(weight) - 1:
        return None
    mask = given.value(10)
    wanted = [bool(entry) for entry in mask] if isinstance(mask, list) and len(mask) == 3 else [True, True, False]
    spatial = len(weight) - 2
    over = image if given.flag(7) else gradient
    batch = over[0] if len(over) == spatial + 2 else 1
    once = 2 * batch * math.prod(over[-spatial:]) * math.prod(weight)
    passes = sum(wanted[:2])
    moved = passes * (given.bytes(0) + given.bytes(1) + given.bytes(2))
    return make(passes * once, moved, Category.CONVOLUTION, given.kind(1) or given.main)


def _cudnn_backward(given: Operands) -> Work | None:
    """``cudnn_convolution_backward(input, grad_output, weight, …, output_mask)`` (before 2022): the mask is last."""
    masks = [value for value in given.values if isinstance(value, list) and value and isinstance(value[0], bool)]
    both = len(masks) != 1 or len(masks[0]) < 2
    passes = 2 if both else sum(map(bool, masks[0][:2]))
    return _gradients(given, gradient=1, weight=2, other=0, passes=passes)


def _gradients(given: Operands, *, gradient: int, weight: int, other: int, passes: int) -> Work | None:
    kernel, out = given.shape(weight), given.shape(gradient)
    if len(kernel) < 3 or len(out) != len(kernel):
        return None
    once = 2 * out[0] * math.prod(out[2:]) * math.prod(kernel)
    moved = passes * (given.bytes(gradient) + given.bytes(weight) + given.bytes(other))
    return make(passes * once, moved, Category.CONVOLUTION, given.kind(gradient) or given.main)


def _input_gradient(given: Operands) -> Work | None:
    """``cudnn_convolution_backward_input(input_size, grad_output, weight, …)``."""
    size = given.value(0)
    if not isinstance(size, list) or not all(type(entry) is int and entry >= 0 for entry in size):
        size = []
    whole = Operands((tuple(size), *given.shapes[1:]), (given.kind(1), *given.types[1:]), (), given.values)
    return _gradients(whole, gradient=1, weight=2, other=0, passes=1)


def _weight_gradient(given: Operands) -> Work | None:
    """``cudnn_convolution_backward_weight(weight_size, grad_output, input, …)``."""
    size = given.value(0)
    if not isinstance(size, list) or not all(type(entry) is int and entry >= 0 for entry in size):
        return None
    whole = Operands((tuple(size), *given.shapes[1:]), (given.kind(1), *given.types[1:]), (), given.values)
    return _gradients(whole, gradient=1, weight=0, other=2, passes=1)


_PUBLIC = _forward(stride=3, padding=4, dilation=5)
_GENERAL = _forward(stride=3, padding=4, dilation=5, transposed=6, more=7, groups=8)
_BIASED = _forward(padding=3, stride=4, dilation=5)
_UNBIASED = _forward(padding=2, stride=3, dilation=4)
_SLOW = _forward(stride=4, padding=5)
_DEPTHWISE = _forward(stride=4, padding=5, dilation=6)
_TRANSPOSED = _forward(stride=3, padding=4, more=5, groups=6, dilation=7, always_transposed=True)

FORMULAS: dict[str, Formula] = {
    **dict.fromkeys(("aten::convolution", "aten::_convolution", "aten::convolution_overrideable"), _GENERAL),
    **dict.fromkeys(("aten::conv1d", "aten::conv2d", "aten::conv3d"), _PUBLIC),
    **dict.fromkeys(("aten::conv_transpose1d", "aten::conv_transpose2d", "aten::conv_transpose3d"), _TRANSPOSED),
    "aten::cudnn_convolution": _cudnn,
    "aten::cudnn_convolution_relu": _PUBLIC,
    **dict.fromkeys(
        ("aten::miopen_convolution", "aten::miopen_depthwise_convolution", "aten::mkldnn_convolution"), _BIASED
    ),
    **dict.fromkeys(("aten::thnn_conv2d", "aten::_slow_conv2d_forward", "aten::slow_conv3d_forward"), _SLOW),
    **dict.fromkeys(("aten::_conv_depthwise2d", "aten::conv_depthwise3d"), _DEPTHWISE),
    **dict.fromkeys(("aten::convolution_backward", "aten::convolution_backward_overrideable"), _backward),
    **dict.fromkeys(("aten::cudnn_convolution_backward", "aten::miopen_convolution_backward"), _cudnn_backward),
    "aten::cudnn_convolution_backward_input": _input_gradient,
    "aten::cudnn_convolution_backward_weight": _weight_gradient,
}
"""By operator."""
