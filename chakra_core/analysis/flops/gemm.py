"""Matrix products: 2 M N K operations (a multiply and an add per term), each operand and the result moved once.

Source: G. Golub, C. Van Loan, *Matrix Computations*, 4th ed., section 1.1.15 (2 m n p flops for an m x p by p x n
product). A bias or an addend costs one more addition per element of the result.
"""

from __future__ import annotations

import math

from chakra_core.analysis.flops.operands import ELEMENT_BYTES, Operands, Shape
from chakra_core.analysis.flops.work import Formula, Work, make
from chakra_core.schema import Category

__all__ = ["FORMULAS", "matrix_product"]


def matrix_product(
    given: Operands, a: int, b: int, *, addend: int = -1, transposed: bool = False, out_bytes: float = 0.0
) -> Work | None:
    """Work of ``a @ b`` with broadcasting as ``torch.matmul`` does it, plus an addend.

    Args:
        given: the inputs.
        a: position of the left matrix (batch…, M, K), or vector (K).
        b: position of the right one (batch…, K, N), or vector (K).
        addend: position of what is added to the result; -1: nothing.
        transposed: the right one is stored as (N, K).
        out_bytes: size of an element of the result where it is not that of the left matrix.
    """
    left, right = given.shape(a), given.shape(b)
    if not left or not right:
        return None
    rows, columns = (left[-2] if len(left) > 1 else 1), _columns(right, transposed=transposed)
    inner = right[-1] if transposed or len(right) == 1 else right[-2]
    if left[-1] != inner:
        return None
    batch = _broadcast(left[:-2], right[:-2])
    if batch is None:
        return None
    results = math.prod(batch) * rows * columns
    added = addend >= 0 and given.is_tensor(addend)
    moved = given.bytes(a) + given.bytes(b) + results * (out_bytes or given.size(a))
    moved += given.bytes(addend) if added else 0.0
    return make(2 * results * inner + (results if added else 0), moved, Category.GEMM, given.kind(a) or given.main)


def _columns(right: Shape, *, transposed: bool) -> int:
    if len(right) == 1:
        return 1
    return right[-2] if transposed else right[-1]


def _broadcast(one: Shape, two: Shape) -> Shape | None:
    """The batch that two batches broadcast to; None where they do not fit."""
    size = max(len(one), len(two))
    padded = [(1,) * (size - len(shape)) + shape for shape in (one, two)]
    if any(x != y and 1 not in (x, y) for x, y in zip(*padded, strict=True)):
        return None
    return tuple(y if x == 1 else x for x, y in zip(*padded, strict=True))


def _product(given: Operands) -> Work | None:
    return matrix_product(given, 0, 1)


def _added(given: Operands) -> Work | None:
    return matrix_product(given, 1, 2, addend=0)


def _linear(given: Operands) -> Work | None:
    """``x @ w.T + bias`` for x (…, K), w (N, K)."""
    x = given.shape(0)
    if len(x) > 2:
        flat = Operands(((math.prod(x[:-1]), x[-1]), *given.shapes[1:]), given.types, given.lists, given.values)
        return matrix_product(flat, 0, 1, addend=2, transposed=True)
    return matrix_product(given, 0, 1, addend=2, transposed=True)


def _scaled(given: Operands) -> Work | None:
    """``torch._scaled_mm``: 8-bit operands, the result taken as 16-bit."""
    return matrix_product(given, 0, 1, out_bytes=2.0 if given.size(0) < 2 else 0.0)


def _whole_numbers(given: Operands) -> Work | None:
    """``torch._int_mm``: 8-bit operands, 32-bit results."""
    return matrix_product(given, 0, 1, out_bytes=ELEMENT_BYTES["int32"])


def _summed(given: Operands) -> Work | None:
    """``torch.addbmm``: the products of the batch are summed, then added."""
    work = matrix_product(given, 1, 2)
    if work is None:
        return None
    results = given.shape(1)[-2] * given.shape(2)[-1]
    batched = math.prod(given.shape(1)[:-2]) * results
    moved = work.moved - (batched - results) * given.size(1) + given.bytes(0)
    return make(work.flops + batched, moved, Category.GEMM, work.precision)


FORMULAS: dict[str, Formula] = {
    **dict.fromkeys(("aten::mm", "aten::bmm", "aten::matmul", "aten::mv", "aten::dot", "aten::vdot"), _product),
    **dict.fromkeys(("aten::addmm", "aten::addmm_", "aten::baddbmm", "aten::baddbmm_", "aten::addmv"), _added),
    "aten::_addmm_activation": _added,
    "aten::addbmm": _summed,
    **dict.fromkeys(("aten::linear", "aten::mkldnn_linear", "vllm::rocm_unquantized_gemm"), _linear),
    "aten::_scaled_mm": _scaled,
    "aten::_int_mm": _whole_numbers,
}
"""By operator."""
