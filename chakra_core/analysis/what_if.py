"""What if: the measured critical path with some of the work faster or slower.

Every piece of the graph (see ``measured_path``) is multiplied by the factors that concern it, and the longest path is
found anew. Factors by cause concern all pieces of that cause; factors by category, operator name and lane concern what a
node itself does (kernels, copies, operators and calls), not the waits before it. Several factors on one piece multiply.
Nothing is scheduled anew: what was not recorded as a dependency does not become one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from chakra_core.analysis.measured_path import CAUSES, MeasuredGraph, MeasuredPath, length_of, solve
from chakra_core.errors import ChakraError
from chakra_core.schema import Category
from chakra_core.trace import Trace

__all__ = ["Factors", "WhatIf", "what_if"]

F64 = NDArray[np.float64]

_WAITS = ("launch", "idle", "sync", "between operators")


@dataclass(frozen=True)
class Factors:
    """What to multiply durations by: 0.5 is twice as fast, 0 takes no time, 2 is twice as slow; 1 where not named.

    Attributes:
        causes: by name of ``CAUSES``, e.g. ``{"launch": 0, "communication": 2}``.
        categories: by ``Category``.
        names: by the exact name of operator or kernel.
        lanes: by name of the lane (thread or stream).
    """

    causes: Mapping[str, float] = field(default_factory=dict)
    categories: Mapping[Category, float] = field(default_factory=dict)
    names: Mapping[str, float] = field(default_factory=dict)
    lanes: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class WhatIf:
    """The path before and after; ``saved_ns`` is negative where the path gets longer."""

    before_ns: int
    path: MeasuredPath

    @property
    def saved_ns(self) -> int:
        """How much shorter the path gets."""
        return self.before_ns - self.path.length_ns


def what_if(trace: Trace, graph: MeasuredGraph, factors: Factors) -> WhatIf:
    """Find the longest path again with factors. O(points + edges).

    Args:
        trace: the trace of the graph.
        graph: from ``measured_graph``.
        factors: what to change.

    Raises:
        ChakraError: a factor is negative or no number, or names no cause.
    """
    _check(factors)
    if not len(graph):
        return WhatIf(0, solve(graph, len(trace)))
    edges = graph.edges
    by_cause = np.array([factors.causes.get(cause, 1.0) for cause in CAUSES])
    scale = by_cause[edges.cause]
    own = _per_slot(trace, graph, factors)
    if own is not None:
        works = np.array([cause not in _WAITS for cause in CAUSES])
        scale = np.where(works[edges.cause], scale * own[edges.slot], scale)
    weight = np.where(scale == 1.0, edges.weight, np.rint(edges.weight * scale).astype(np.int64))
    return WhatIf(length_of(graph), solve(graph, len(trace), weight))


def _check(factors: Factors) -> None:
    for given in (factors.causes, factors.categories, factors.names, factors.lanes):
        for name, factor in given.items():
            if not 0 <= factor <= 1e6:
                raise ChakraError(f"the factor of {name} is {factor}: give a number from 0 to 1000000")
    unknown = sorted(set(factors.causes) - set(CAUSES))
    if unknown:
        raise ChakraError(f"no cause is called {unknown[0]!r}: use one of {', '.join(CAUSES)}")


def _per_slot(trace: Trace, graph: MeasuredGraph, factors: Factors) -> F64 | None:
    """Factor of each slot's own work, and 1 for no slot (the last entry); None where all are 1."""
    if not (factors.categories or factors.names or factors.lanes):
        return None
    c = trace.columns
    category = np.array([factors.categories.get(entry, 1.0) for entry in Category])
    name = np.array([factors.names.get(text, 1.0) for text in trace.names])
    lane = np.array([factors.lanes.get(entry.name, 1.0) for entry in trace.lanes])
    rows = graph.rows
    return np.r_[category[c.category[rows]] * name[c.name[rows]] * lane[c.lane[rows]], 1.0]
