"""Table look-ups: the rows that are looked up are read once and written once, and every index is read.

A look-up computes nothing; a bag adds its rows up, one operation per element read; a gradient adds one per element.
Rows that are looked up twice count twice (caches may spare the second). Source: the definitions of
``torch.nn.functional.embedding`` and ``embedding_bag``; M. Naumov et al., *Deep Learning Recommendation Model*, 2019.
"""

from __future__ import annotations

import math

from chakra_core.analysis.flops.operands import Operands
from chakra_core.analysis.flops.work import Formula, Work, make
from chakra_core.schema import Category

__all__ = ["FORMULAS"]


def _lookup(given: Operands) -> Work | None:
    """``embedding(weight, indices, …)``."""
    table = given.shape(0)
    if len(table) < 2 or not given.is_tensor(1):
        return None
    rows = math.prod(given.shape(1))
    return make(0, given.bytes(1) + 2 * rows * table[-1] * given.size(0), Category.EMBEDDING, given.main)


def _bag(given: Operands) -> Work | None:
    """``embedding_bag(weight, indices, offsets, …)``: one row per bag written."""
    table = given.shape(0)
    if len(table) < 2 or not given.shape(1) or not given.shape(2):
        return None
    rows, bags = math.prod(given.shape(1)), given.shape(2)[0]
    moved = given.bytes(1) + given.bytes(2) + (rows + bags) * table[-1] * given.size(0)
    return make(rows * table[-1], moved, Category.EMBEDDING, given.main)


def _gradient(given: Operands) -> Work | None:
    """``embedding_dense_backward(gradient, indices, rows, …)``: a table of zeros, then every row added to it."""
    count = given.numbers(2, 1)
    if not given.shape(0) or count is None:
        return None
    table = count[0] * given.shape(0)[-1] * given.size(0)
    moved = given.bytes(0) + given.bytes(1) + table + given.bytes(0)
    return make(math.prod(given.shape(0)), moved, Category.EMBEDDING, given.main)


def _select(given: Operands) -> Work | None:
    """``index_select(self, dim, index)``: the chosen slices read and written."""
    shape, dim = given.shape(0), given.numbers(1, 1)
    if not shape or dim is None or not given.is_tensor(2) or not -len(shape) <= dim[0] < len(shape):
        return None
    chosen = math.prod(given.shape(2)) * math.prod(shape) // max(shape[dim[0]], 1)
    return make(0, given.bytes(2) + 2 * chosen * given.size(0), Category.EMBEDDING, given.main)


def _gather(given: Operands) -> Work | None:
    """``gather(self, dim, index, …)``: one element read and written per index."""
    if not given.shape(0) or not given.is_tensor(2):
        return None
    chosen = math.prod(given.shape(2))
    return make(0, given.bytes(2) + 2 * chosen * given.size(0), Category.EMBEDDING, given.main)


FORMULAS: dict[str, Formula] = {
    "aten::embedding": _lookup,
    **dict.fromkeys(("aten::embedding_bag", "aten::_embedding_bag", "aten::_embedding_bag_forward_only"), _bag),
    "aten::embedding_dense_backward": _gradient,
    "aten::index_select": _select,
    "aten::gather": _gather,
}
"""By operator."""
