"""The work of one operator call: how many operations, how many bytes, on which units."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from chakra_core.analysis.flops.operands import Operands
from chakra_core.schema import Category

__all__ = ["MATRIX", "Formula", "Work", "make"]

MATRIX = frozenset({Category.GEMM, Category.ATTENTION, Category.CONVOLUTION})
"""Families that run on matrix units, whose peak depends on the element type; all others run on vector units."""

_LIMIT = 2**62


@dataclass(frozen=True, slots=True)
class Work:
    """What one call does at least.

    Attributes:
        flops: floating-point operations; a multiply and an add are two.
        moved: bytes read and written, every operand once: what a memory without reuse limits would have to move.
        family: the kind of work.
        precision: element type of the operands (``bf16``, ``fp32`` …), as the hardware catalogue names it.
    """

    flops: int
    moved: int
    family: Category
    precision: str

    @property
    def on_matrix_units(self) -> bool:
        """Whether matrix units can do it."""
        return self.family in MATRIX


Formula = Callable[[Operands], Work | None]
"""The work of a call with these inputs; None where the inputs do not tell."""


def make(flops: float, moved: float, family: Category, precision: str) -> Work | None:
    """Work with whole numbers; None where they make no sense (sizes that some file made up)."""
    if not (0 <= flops < _LIMIT and 0 <= moved < _LIMIT):
        return None
    return Work(round(flops), round(moved), family, precision)
