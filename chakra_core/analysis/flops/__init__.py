"""How much work an operator does: operations and bytes from the shapes of its inputs, by documented formulae.

One module per family, each with a table ``FORMULAS`` by operator name and the source of its formulae. What a file
states itself (PyTorch with ``with_flops``, XPlane's costs, Chakra's ``num_ops``) goes before a formula;
:mod:`chakra_core.analysis.roofline` puts both together.
"""

from __future__ import annotations

from functools import cache

from chakra_core.analysis.flops import attention, convolution, elementwise, embedding, gemm, normalisation, reduction
from chakra_core.analysis.flops.operands import Operands, operands_of, parse_inputs, type_in_name
from chakra_core.analysis.flops.work import MATRIX, Formula, Work

__all__ = ["MATRIX", "Operands", "Work", "formulas", "operands_of", "parse_inputs", "type_in_name", "work_of"]

_FAMILIES = (elementwise, reduction, normalisation, embedding, gemm, convolution, attention)


@cache
def formulas() -> dict[str, Formula]:
    """Every formula, by operator name as PyTorch writes it (``aten::mm``)."""
    return {name: formula for family in _FAMILIES for name, formula in family.FORMULAS.items()}


def work_of(name: str, given: Operands) -> Work | None:
    """Work of one call of an operator; None where there is no formula for it, or the inputs do not tell."""
    formula = formulas().get(name)
    return formula(given) if formula and given.main else None
