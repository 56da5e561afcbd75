"""Pure analyses: a Trace or Run in, a frozen result out. Each is one module with one public function."""

from __future__ import annotations

import importlib
from typing import Any

from chakra_core.analysis.scope import WHOLE, Scope
from chakra_core.trace import Trace

__all__ = ["ANALYSES", "analyse_trace"]

ANALYSES: tuple[str, ...] = (
    "chakra_core.analysis.breakdown",
    "chakra_core.analysis.overlap",
    "chakra_core.analysis.operators",
    "chakra_core.analysis.operator_groups",
    "chakra_core.analysis.kernel_shapes",
    "chakra_core.analysis.sequences",
    "chakra_core.analysis.recomputation",
    "chakra_core.analysis.roofline",
    "chakra_core.analysis.critical_path",
    "chakra_core.analysis.collectives",
    "chakra_core.analysis.memory",
    "chakra_core.analysis.launch",
    "chakra_core.analysis.host",
    "chakra_core.analysis.findings",
)
"""Modules whose ``as_json(trace, scope)`` gives keys of the document that ``analyze`` prints, in its order."""


def analyse_trace(trace: Trace, scope: Scope = WHOLE) -> dict[str, Any]:
    """Every analysis of one trace as plain dictionaries: what ``chakra-dashboard analyze --json`` prints of it."""
    document: dict[str, Any] = {}
    for module in ANALYSES:
        document.update(importlib.import_module(module).as_json(trace, scope))
    return document
