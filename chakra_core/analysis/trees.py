"""Which operator of one trace corresponds to which of another: their call trees matched by structure.

Operators (and the annotations and modules that both traces have) are the nodes of a tree per thread. Threads are
paired by what runs on them; the children of matched nodes, in order, are aligned as sequences, and so down the tree:
see ``_tree_kernels`` and ``_sequence_kernels``. Two nodes may meet where they are equal with all below them, in name
and input shapes, in name, or compute the same; names are compared without what vendors and versions add. Pins, pairs
that the user gives, come first and divide what is around them. Device work meets under its operators: see ``meeting``.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from chakra_core.analysis.alike import Keys, normalise_operator, operator_keys
from chakra_core.analysis.operators import operator_mask
from chakra_core.analysis.pins import NO_PINS, Pins
from chakra_core.schema import Category, Domain, TimeKind
from chakra_core.trace import Trace

__all__ = ["REGION_CONFIDENCE", "Likeness", "Region", "TreeMatch", "match_traces"]

I8 = NDArray[np.int8]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
F32 = NDArray[np.float32]
Mask = NDArray[np.bool_]

_STRUCTURE = (Category.ANNOTATION, Category.PYTHON)
_MOST_LANES = 64
_MOST_REGIONS = 20_000
_PER_LEVEL = 0.9
_WORD = re.compile(r"[a-z]+")
_IDLE_WORDS = frozenset(("aten", "torch", "triton", "poi", "per", "red", "tem", "fused", "op", "ops", "prims", "backward",
                         "native", "foreach", "kernel", "cuda", "hip", "forward", "fwd", "bwd", "compiled", "call"))  # fmt: skip


class Likeness(IntEnum):
    """In what two nodes are alike, surest first."""

    PINNED = 0
    SUBTREE = 1
    SHAPES = 2
    NAME = 3
    FAMILY = 4

    @property
    def label(self) -> str:
        """In words, for tables."""
        return ("pinned", "operator and all below it", "operator and shapes", "operator", "equivalent operator")[self]


_CONFIDENCE = np.array([1.0, 1.0, 0.95, 0.8, 0.7], np.float32)
REGION_CONFIDENCE = 0.5
"""How sure it is that the two sides of a region correspond."""


@dataclass(frozen=True, slots=True)
class Region:
    """Other operators at the same place, whose names tell that they do the same: split, fused or replaced."""

    rows_a: tuple[int, ...]
    rows_b: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TreeMatch:
    """The matched operators of two traces.

    Attributes:
        rows_a: int64 (pairs,), rows of the one trace, ascending.
        rows_b: int64 (pairs,), their partners in the other.
        how: int8 Likeness of each pair.
        confidence: float32 of each pair, 0..1: 1 for pinned pairs and equal sub-trees, 0.95 for equal name and
            shapes, 0.8 for equal names, 0.7 for equivalent operators; 0.9 times that per level of calls that only one
            side has above it.
        other_a: int32 per row of the one trace: its partner, -1 where it has none.
        other_b: int32 per row of the other.
        regions: operators without a partner that meet as groups.
        region_a: int32 per row of the one trace: the region it is of, -1: none.
        region_b: int32 per row of the other.
        considered_a: int64, rows of the one trace that could meet: all else is no operator.
        considered_b: int64, rows of the other.
    """

    rows_a: I64
    rows_b: I64
    how: I8
    confidence: F32
    other_a: I32
    other_b: I32
    regions: tuple[Region, ...]
    region_a: I32
    region_b: I32
    considered_a: I64
    considered_b: I64

    def __len__(self) -> int:
        return len(self.rows_a)

    @property
    def unmatched_a(self) -> I64:
        """Rows of the one trace without a partner or region."""
        rows = self.considered_a
        return rows[(self.other_a[rows] < 0) & (self.region_a[rows] < 0)]

    @property
    def unmatched_b(self) -> I64:
        """Rows of the other trace without a partner or region."""
        rows = self.considered_b
        return rows[(self.other_b[rows] < 0) & (self.region_b[rows] < 0)]


@dataclass(frozen=True, slots=True)
class _Tree:
    """The nodes of one trace that take part, and how they hang together (positions, not rows)."""

    rows: I64
    up: I32
    first: I64
    child: I32
    tops: I32
    lanes: I64
    keys: I64 = field(default_factory=lambda: np.zeros((0, 4), np.int64))


def match_traces(a: Trace, b: Trace, pins: Pins = NO_PINS, ranks: tuple[int, int] | None = None) -> TreeMatch:
    """Match the operators of two traces. About O(n log n) where they are much alike; see ``_sequence_kernels``.

    Args:
        a: the one trace, as of the baseline.
        b: the other.
        pins: pairs that meet whatever they look like.
        ranks: which ranks the traces are, for pins of nodes; by default what the traces say.
    """
    from chakra_core.analysis._tree_kernels import match_trees

    keys = Keys()
    trees = _trees(a, b)
    tree_a, tree_b = (_with_keys(trace, tree, keys, aliases)
                      for trace, tree, aliases in zip((a, b), trees, ({}, pins.aliases), strict=True))  # fmt: skip
    pinned = _pin(tree_a, tree_b, pins, ranks or (max(a.meta.rank, 0), max(b.meta.rank, 0)))
    bounds, tops_a, tops_b = _threads(tree_a, tree_b)
    partner, how, skipped, region_a, region_b = match_trees(
        (tree_a.first, tree_a.child, tree_a.keys), (tree_b.first, tree_b.child, tree_b.keys), tops_a, tops_b, bounds,
        pinned,
    )  # fmt: skip
    met = np.flatnonzero(partner >= 0)
    confidence = _CONFIDENCE[how[met]] * np.float32(_PER_LEVEL) ** skipped[met]
    rows_a, rows_b = tree_a.rows[met], tree_b.rows[partner[met]]
    order = np.argsort(rows_a, kind="stable")
    other_a, other_b = np.full(len(a), -1, np.int32), np.full(len(b), -1, np.int32)
    other_a[rows_a], other_b[rows_b] = rows_b, rows_a
    regions = _regions(a, b, (tree_a.rows, region_a, other_a), (tree_b.rows, region_b, other_b))
    marks = [np.full(len(trace), -1, np.int32) for trace in (a, b)]
    for at, region in enumerate(regions):
        marks[0][list(region.rows_a)], marks[1][list(region.rows_b)] = at, at
    return TreeMatch(
        rows_a=rows_a[order], rows_b=rows_b[order], how=how[met][order].astype(np.int8),
        confidence=confidence[order].astype(np.float32), other_a=other_a, other_b=other_b, regions=regions,
        region_a=marks[0], region_b=marks[1], considered_a=tree_a.rows, considered_b=tree_b.rows,
    )  # fmt: skip


def _trees(a: Trace, b: Trace) -> tuple[_Tree, _Tree]:
    """The trees of operators; of everything that is no annotation where one of the traces records no operators."""
    masks = [operator_mask(trace) for trace in (a, b)]
    if not all(mask.any() for mask in masks):
        masks = [~np.isin(trace.columns.category, _STRUCTURE) for trace in (a, b)]
        return _tree(a, masks[0]), _tree(b, masks[1])
    texts = [_structure_names(trace) for trace in (a, b)]
    shared = set(texts[0].values()) & set(texts[1].values())
    for at, (trace, names) in enumerate(zip((a, b), texts, strict=True)):
        codes = np.array([code for code, text in names.items() if text in shared], np.int64)
        host = (trace.columns.domain == Domain.HOST) & np.isin(trace.columns.category, _STRUCTURE)
        masks[at] = masks[at] | (host & np.isin(trace.columns.name, codes))
    return _tree(a, masks[0]), _tree(b, masks[1])


def _structure_names(trace: Trace) -> dict[int, str]:
    """Normalised names of annotations and modules, by name code; Python frames are too many and too unlike."""
    c = trace.columns
    host = c.domain == Domain.HOST
    annotations = np.unique(c.name[host & (c.category == Category.ANNOTATION)]).tolist()
    frames = np.unique(c.name[host & (c.category == Category.PYTHON)]).tolist()
    modules = [code for code in frames if trace.names[code].startswith("nn.Module: ")]
    return {code: normalise_operator(trace.names[code]) for code in (*annotations, *modules)}


def _tree(trace: Trace, mask: Mask) -> _Tree:
    """Nodes in order: by thread, then by start (by row where times are not measured)."""
    from chakra_core.analysis._climb import owners

    c = trace.columns
    rows = np.flatnonzero(mask)
    above = owners(rows, c.parent, mask)
    place = np.full(len(trace), -1, np.int64)
    place[rows] = np.arange(len(rows))
    up = np.where(above >= 0, place[above], -1)
    measured = trace.meta.time_kind == TimeKind.MEASURED
    start = c.start_ns[rows] if measured else np.zeros(len(rows), np.int64)
    lane = np.where(up >= 0, 0, c.lane[rows].astype(np.int64))
    order = np.lexsort((np.arange(len(rows)), start, lane, up))
    tops = int((up < 0).sum())
    first = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(np.bincount(up[up >= 0], minlength=len(rows)), out=first[1:])
    child, top = order[tops:].astype(np.int32), order[:tops].astype(np.int32)
    return _Tree(rows, up.astype(np.int32), first, child, top, lane[top])


def _with_keys(trace: Trace, tree: _Tree, keys: Keys, aliases: Mapping[str, str]) -> _Tree:
    from chakra_core.analysis._tree_kernels import hash_trees

    named = operator_keys(trace, tree.rows, keys, aliases)
    whole = hash_trees(tree.first, tree.child, tree.up, named[:, 0])
    columns = np.stack([whole, named[:, 0], named[:, 1], named[:, 2]], axis=1).astype(np.int64)
    return _Tree(tree.rows, tree.up, tree.first, tree.child, tree.tops, tree.lanes, np.ascontiguousarray(columns))


def _pin(a: _Tree, b: _Tree, pins: Pins, ranks: tuple[int, int]) -> I32:
    """Pairs of positions of the pinned nodes; their first keys are made negative, so that they meet nothing else."""
    found: list[tuple[int, int]] = []
    for pin in pins.nodes:
        if (pin.rank_a, pin.rank_b) != ranks:
            continue
        x, y = np.searchsorted(a.rows, pin.row_a), np.searchsorted(b.rows, pin.row_b)
        if x < len(a.rows) and y < len(b.rows) and a.rows[x] == pin.row_a and b.rows[y] == pin.row_b:
            a.keys[x, 0] = b.keys[y, 0] = -1 - len(found)
            found.append((int(x), int(y)))
    return np.array(found, np.int32).reshape(-1, 2)


def _threads(a: _Tree, b: _Tree) -> tuple[I64, I32, I32]:
    """Pair the threads of two trees by the names that both have on them: the most alike first.

    Returns:
        begin and end of each pair of threads among the top nodes of ``a`` and of ``b`` (pairs, 4); the top nodes.
    """
    lanes_a, lanes_b = _lanes(a), _lanes(b)
    common = np.zeros((len(lanes_a), len(lanes_b)), np.int64)
    counts = [[dict(zip(*_counted(tree.keys[tree.tops[low:high], 2]), strict=True)) for low, high in lanes]
              for tree, lanes in ((a, lanes_a), (b, lanes_b))]  # fmt: skip
    for i, one in enumerate(counts[0]):
        for j, two in enumerate(counts[1]):
            common[i, j] = sum(min(number, two.get(key, 0)) for key, number in one.items())
    pairs = []
    while common.size and common.max() > 0:
        i, j = divmod(int(common.argmax()), common.shape[1])
        pairs.append((*lanes_a[i], *lanes_b[j]))
        common[i, :], common[:, j] = 0, 0
    return np.array(pairs, np.int64).reshape(-1, 4), a.tops, b.tops


def _counted(keys: I64) -> tuple[list[int], list[int]]:
    values, counts = np.unique(keys, return_counts=True)
    return values.tolist(), counts.tolist()


def _lanes(tree: _Tree) -> list[tuple[int, int]]:
    """Begin and end of each thread among the top nodes; those with the most of them where there are too many."""
    borders = np.flatnonzero(np.r_[True, tree.lanes[1:] != tree.lanes[:-1], True][: len(tree.lanes) + 1])
    found = list(itertools.pairwise(borders.tolist()))
    return sorted(found, key=lambda lane: lane[0] - lane[1])[:_MOST_LANES]


_Side = tuple[I64, I32, I32]


def _regions(a: Trace, b: Trace, side_a: _Side, side_b: _Side) -> tuple[Region, ...]:
    """Regions whose names say that both sides do the same."""
    found = []
    members = [_members(side) for side in (side_a, side_b)]
    for number in sorted(members[0].keys() & members[1].keys())[:_MOST_REGIONS]:
        rows_a, rows_b = members[0][number], members[1][number]
        words = [_words(trace, rows) for trace, rows in ((a, rows_a), (b, rows_b))]
        fewer = min(len(one) for one in words)
        if fewer and 2 * len(words[0] & words[1]) >= fewer:
            found.append(Region(tuple(rows_a), tuple(rows_b)))
    return tuple(found)


def _members(side: _Side) -> dict[int, list[int]]:
    """Rows of each region without a partner of their own."""
    rows, region, other = side
    found: dict[int, list[int]] = {}
    chosen = np.flatnonzero((region >= 0) & (other[rows] < 0))
    for number, row in zip(region[chosen].tolist(), rows[chosen].tolist(), strict=True):
        found.setdefault(number, []).append(row)
    return found


def _words(trace: Trace, rows: Sequence[int]) -> set[str]:
    """What the names of operators are made of, without the words that many names have."""
    return {word for row in rows for word in _WORD.findall(trace.name_of(row).lower())} - _IDLE_WORDS
