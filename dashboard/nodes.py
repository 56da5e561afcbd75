"""Several chosen nodes at once, as a short text: what a row of a table stands for, held in a store and in the URL.

``0.3.n17_4`` are all nodes of run 0, rank 3, that bear the names with codes 17 or 4; ``0.3.r5-9_12`` are rows 5 to 9
and 12. ``+`` joins several such parts: ``0.3.n17+0.4.r5``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakra_core.trace import Run, Trace

__all__ = ["MOST_ROWS", "NodeSet", "names_text", "nodes_in", "parse", "rows_text"]

MOST_ROWS = 2_000
"""Rows that one text lists at most; a set by name has no such limit."""
_PART = re.compile(r"(\d{1,9})\.(\d{1,9})\.([nr])(\d{1,11}(?:-\d{1,11})?(?:_\d{1,11}(?:-\d{1,11})?)*)")
_MOST_TEXT = 40_000
_MOST_PARTS = 64


@dataclass(frozen=True, slots=True)
class NodeSet:
    """Nodes of one rank of one run: those with certain name codes, or certain rows (half-open ranges)."""

    run: int
    rank: int
    by_name: bool
    ranges: tuple[tuple[int, int], ...]

    def rows_in(self, trace: Trace) -> NDArray[np.int64]:
        """The rows in the trace of that rank, int64, in order; what it does not have is left out."""
        limit = len(trace.names) if self.by_name else len(trace)
        wanted = np.zeros(limit, np.bool_)
        for first, end in self.ranges:
            wanted[min(first, limit) : min(end, limit)] = True
        return np.flatnonzero(wanted[trace.columns.name] if self.by_name else wanted)


def parse(text: object) -> tuple[NodeSet, ...]:
    """Read a text; parts that make no sense are left out.

    >>> parse("0.3.r5-9_12")
    (NodeSet(run=0, rank=3, by_name=False, ranges=((5, 10), (12, 13))),)
    """
    if not isinstance(text, str) or len(text) > _MOST_TEXT:
        return ()
    found = []
    for part in text.split("+")[:_MOST_PARTS]:
        if match := _PART.fullmatch(part):
            pieces = [piece.split("-") for piece in match[4].split("_")]
            ranges = tuple((int(ends[0]), int(ends[-1]) + 1) for ends in pieces)
            found.append(NodeSet(int(match[1]), int(match[2]), match[3] == "n", ranges))
    return tuple(found)


def nodes_in(text: object, at: int, run: Run) -> dict[int, NDArray[np.int64]]:
    """The chosen rows of the view's ``at``-th run by rank, each int64 in order without doubles; empty ranks left out."""
    found: dict[int, list[NDArray[np.int64]]] = {}
    for part in parse(text):
        if part.run == at and part.rank in run.ranks and len(rows := part.rows_in(run.by_rank(part.rank))):
            found.setdefault(part.rank, []).append(rows)
    return {rank: np.unique(np.concatenate(rows)) for rank, rows in found.items()}


def names_text(run: int, rank: int, codes: Iterable[int]) -> str:
    """The text of all nodes with these name codes."""
    return f"{run}.{rank}.n{'_'.join(map(str, sorted(set(codes))))}"


def rows_text(run: int, rank: int, rows: Iterable[int]) -> str:
    """The text of these rows, the first ``MOST_ROWS`` of them; empty for none.

    >>> rows_text(0, 3, [7, 5, 6, 12])
    '0.3.r5-7_12'
    """
    ordered = np.unique(np.fromiter(rows, np.int64))[:MOST_ROWS]
    if not len(ordered):
        return ""
    breaks = np.flatnonzero(np.diff(ordered) != 1)
    first, last = ordered[np.r_[0, breaks + 1]], ordered[np.r_[breaks, len(ordered) - 1]]
    parts = [f"{a}" if a == b else f"{a}-{b}" for a, b in zip(first.tolist(), last.tolist(), strict=True)]
    return f"{run}.{rank}.r{'_'.join(parts)}"
