"""How kernels were launched (grid, block, occupancy, registers), how their durations are distributed, what is unclassified."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakra_core.analysis.operators import kernels
from chakra_core.analysis.scope import WHOLE, Scope, clip_rows
from chakra_core.schema import Category
from chakra_core.trace import Trace

__all__ = ["Durations", "LaunchShape", "as_json", "durations", "launch_shape", "unclassified"]

I64 = NDArray[np.int64]

_PER_DOUBLING = 2
"""Bins of the distribution for each doubling of the duration."""
_XLA = re.compile(r"(\w+):\s*([\d.,]+)")
_JSON_SHAPES = 200


@dataclass(frozen=True, slots=True)
class LaunchShape:
    """How one kernel was launched; what the trace does not say is None.

    Attributes:
        grid: blocks in x, y, z.
        block: threads of a block in x, y, z.
        occupancy: share of the warps that can be resident, as the profiler estimates it, 0..1.
        registers: per thread.
        shared_bytes: shared memory of a block.
    """

    grid: tuple[int, ...] | None = None
    block: tuple[int, ...] | None = None
    occupancy: float | None = None
    registers: int | None = None
    shared_bytes: int | None = None

    def record(self) -> dict[str, Any]:
        """As a plain dictionary."""
        return {
            "grid": None if self.grid is None else list(self.grid),
            "block": None if self.block is None else list(self.block),
            "occupancy": self.occupancy,
            "registers": self.registers,
            "shared_bytes": self.shared_bytes,
        }


@dataclass(frozen=True, slots=True)
class Durations:
    """Pieces of work by duration, in bins that grow by the same factor.

    Attributes:
        edges_ns: int64 of length bins + 1, ascending; a bin is half-open, ``[edges[i], edges[i + 1])``.
        categories: the kinds of work there are, most time first.
        count: int64 (categories, bins), pieces.
        total_ns: int64 (categories, bins), their summed duration.
    """

    edges_ns: I64
    categories: tuple[Category, ...]
    count: I64
    total_ns: I64


def launch_shape(trace: Trace, row: int) -> LaunchShape:
    """Grid, block and occupancy of a kernel, from its attributes: those of PyTorch's profiler, or of XLA's."""
    said = trace.attributes_of(row)
    details = said.get("kernel_details")
    if isinstance(details, str):
        said = {key: value.strip(",") for key, value in _XLA.findall(details)} | said
    occupancy = _number(said, "est. achieved occupancy %", "occ_pct")
    registers = _number(said, "registers per thread", "regs")
    shared = _number(said, "shared memory")
    if shared is None and _number(said, "static_shared") is not None:
        shared = (_number(said, "static_shared") or 0) + (_number(said, "dynamic_shared") or 0)
    return LaunchShape(
        _triple(said.get("grid")),
        _triple(said.get("block")),
        None if occupancy is None else min(max(occupancy / 100, 0.0), 1.0),
        None if registers is None else int(registers),
        None if shared is None else int(shared),
    )


def _number(said: dict[str, Any], *keys: str) -> float | None:
    for key in keys:
        value = said.get(key)
        try:
            found = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else None
        except ValueError:
            continue
        if found is not None and 0 <= found < 2**53:
            return found
    return None


def _triple(value: Any) -> tuple[int, ...] | None:
    if isinstance(value, str):
        value = [int(part) for part in value.split(",") if part.isdecimal() and len(part) < 12]
    if not isinstance(value, list | tuple) or not 1 <= len(value) <= 3:
        return None
    return tuple(value) if all(isinstance(one, int) and not isinstance(one, bool) for one in value) else None


def durations(trace: Trace, scope: Scope = WHOLE, rows: I64 | None = None) -> Durations:
    """Distribution of durations in a scope: of all device work, or of the given rows of the trace.

    What the window cuts counts with the part inside. Pieces of zero length stand in the first bin, from 0 to 1 ns.
    """
    work = clip_rows(trace, trace.device_rows if rows is None else rows, scope)
    c = trace.columns
    dur = work.dur_ns
    if not len(dur):
        return Durations(np.array([0, 1], np.int64), (), np.zeros((0, 1), np.int64), np.zeros((0, 1), np.int64))
    edges = _edges(int(dur.min()), int(dur.max()))
    which = np.searchsorted(edges, dur, side="right") - 1
    kinds, kind = np.unique(c.category[work.rows], return_inverse=True)
    bins = len(edges) - 1
    flat = kind * bins + which
    count = np.bincount(flat, minlength=len(kinds) * bins).astype(np.int64).reshape(-1, bins)
    flat_total = np.zeros(len(kinds) * bins, np.int64)
    np.add.at(flat_total, flat, dur)
    total = flat_total.reshape(-1, bins)
    order = np.argsort(-total.sum(axis=1), kind="stable")
    return Durations(edges, tuple(Category(int(kinds[at])) for at in order), count[order], total[order])


def _edges(shortest: int, longest: int) -> I64:
    """Edges that hold all durations: 0 and 1 where any is zero, then powers of 2 ** (1 / bins per doubling)."""
    low = int(np.floor(np.log2(max(shortest, 1)) * _PER_DOUBLING))
    high = int(np.ceil(np.log2(longest + 1) * _PER_DOUBLING)) + 1
    powers = np.unique(np.floor(2.0 ** (np.arange(low, high + 1) / _PER_DOUBLING)).astype(np.int64))
    edges = powers[: int(np.searchsorted(powers, longest, side="right")) + 1]
    return np.r_[0, edges] if shortest == 0 else edges


def unclassified(trace: Trace, scope: Scope = WHOLE) -> dict[str, Any]:
    """Names of device work that no rule knows: how many, their time, its share, and each of them, longest first."""
    found = kernels(trace, scope)
    other = np.flatnonzero(found.category == Category.OTHER)
    spent, whole = int(found.total_ns[other].sum()), int(found.total_ns.sum())
    return {
        "names": len(other),
        "count": int(found.count[other].sum()),
        "total_ns": spent,
        "share": spent / whole if whole else 0.0,
        "rows": [
            {
                "name": found.names[at],
                "count": int(found.count[at]),
                "total_ns": int(found.total_ns[at]),
                "longest": int(found.longest[at]),
            }
            for at in other.tolist()
        ],
    }


def as_json(trace: Trace, scope: Scope = WHOLE) -> dict[str, Any]:
    """The keys ``kernel_launch_shapes``, ``kernel_durations`` and ``unclassified`` of the command line's ``analyze``.

    Shapes are those of the longest instance of each of the first 200 names.
    """
    found = kernels(trace, scope)
    spread = durations(trace, scope)
    return {
        "kernel_launch_shapes": [
            {"name": found.names[at], "row": int(found.longest[at]), **shape.record()}
            for at in range(min(len(found), _JSON_SHAPES))
            if (shape := launch_shape(trace, int(found.longest[at]))) != LaunchShape()
        ],
        "kernel_durations": {
            "edges_ns": spread.edges_ns.tolist(),
            "categories": [
                {"category": kind.label, "count": spread.count[at].tolist(), "total_ns": spread.total_ns[at].tolist()}
                for at, kind in enumerate(spread.categories)
            ],
        },
        "unclassified": unclassified(trace, scope),
    }
