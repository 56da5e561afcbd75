"""Reductions: one operation per element read (n - 1 additions and, for a mean, a division make n).

Same convention as DeepSpeed's flops profiler and fvcore; variance takes three (mean, deviation, square and add as one
multiply-add each way). The result is written once; its size follows from the dimensions that are reduced.
"""

from __future__ import annotations

import math

from chakra_core.analysis.flops.operands import ELEMENT_BYTES, Operands, Shape
from chakra_core.analysis.flops.work import Formula, Work, make
from chakra_core.schema import Category

__all__ = ["FORMULAS", "kept"]


def kept(shape: Shape, dims: object) -> int:
    """Elements that remain when dimensions are reduced; all dimensions where ``dims`` names none."""
    wanted = [dims] if isinstance(dims, int) and not isinstance(dims, bool) else dims
    if not isinstance(wanted, list) or not wanted:
        return 1
    gone = {
        entry % len(shape) for entry in wanted if type(entry) is int and shape and -len(shape) <= entry < len(shape)
    }
    return math.prod(size for at, size in enumerate(shape) if at not in gone)


def _reduce(operations: int, *, dims: int = 1, out_bytes: float = 0.0, indices: bool = False) -> Formula:
    """Formula for ``(input, …)`` with the reduced dimensions at ``dims``; ``indices``: one index per result too."""

    def formula(given: Operands) -> Work | None:
        if not given.is_tensor(0):
            return None
        count = math.prod(given.shape(0))
        results = kept(given.shape(0), given.value(dims))
        written = results * (out_bytes or given.size(0))
        if indices and given.value(dims) is not None:
            written += results * ELEMENT_BYTES["int64"]
        return make(operations * count, given.bytes(0) + written, Category.REDUCTION, given.main)

    return formula


def _scan(given: Operands) -> Work | None:
    """Running sums and products: as many results as inputs."""
    if not given.shape(0):
        return None
    return make(math.prod(given.shape(0)), 2 * given.bytes(0), Category.REDUCTION, given.main)


def _loss(given: Operands) -> Work | None:
    """Losses between two tensors, reduced: difference, square, sum (or their like) per element."""
    if not given.shape(0):
        return None
    return make(3 * math.prod(given.shape(0)), given.bytes(0) + given.bytes(1), Category.REDUCTION, given.main)


FORMULAS: dict[str, Formula] = {
    **dict.fromkeys(("aten::sum", "aten::mean", "aten::prod", "aten::amax", "aten::amin", "aten::nansum"), _reduce(1)),
    **dict.fromkeys(("aten::max", "aten::min"), _reduce(1, indices=True)),
    **dict.fromkeys(("aten::any", "aten::all"), _reduce(1, out_bytes=ELEMENT_BYTES["bool"])),
    **dict.fromkeys(("aten::argmax", "aten::argmin"), _reduce(1, out_bytes=ELEMENT_BYTES["int64"])),
    **dict.fromkeys(("aten::norm", "aten::linalg_vector_norm"), _reduce(2, dims=2)),
    **dict.fromkeys(("aten::var", "aten::std", "aten::var_mean"), _reduce(3)),
    **dict.fromkeys(("aten::cumsum", "aten::cumprod", "aten::cumsum_", "aten::logcumsumexp"), _scan),
    **dict.fromkeys(("aten::mse_loss", "aten::l1_loss", "aten::smooth_l1_loss", "aten::huber_loss"), _loss),
}
"""By operator."""
