"""Which operator of one trace corresponds to which of another: their call trees matched by structure.

Operators (and the annotations and modules that both traces have) are the nodes of a tree per thread. Threads are
paired by what runs on them; the children of matched nodes, in order, are aligned as sequences, and so down the tree:
see ``_tree_kernels`` and ``_sequence_kernels``. Two nodes may meet where they are equal with all below them, in name
and input shapes, in name, or compute the same; names are compared without what vendors and versions add. Pins, pairs
that the user gives, come first and divide what is around them. Device work meets under its operators: ``meet``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from chakra_core.analysis.align import Keys, normalise_kernel, operator_keys
from chakra_core.analysis.operators import operator_mask
from chakra_core.analysis.pins import NO_PINS, Pins
from chakra_core.schema import Category, Domain, TimeKind
from chakra_core.trace import Trace

__all__ = ["Likeness", "Meeting", "Region", "TreeMatch", "anchors", "match_traces", "meet"]

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
_IN_REGION = 0.5


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

    keys = Keys(aliases=pins.aliases)
    trees = _trees(a, b)
    tree_a, tree_b = (_with_keys(trace, tree, keys) for trace, tree in zip((a, b), trees, strict=True))
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
    for trace, mask, names in zip((a, b), masks, texts, strict=True):
        codes = np.array([code for code, text in names.items() if text in shared], np.int64)
        host = (trace.columns.domain == Domain.HOST) & np.isin(trace.columns.category, _STRUCTURE)
        mask |= host & np.isin(trace.columns.name, codes)
    return _tree(a, masks[0]), _tree(b, masks[1])


def _structure_names(trace: Trace) -> dict[int, str]:
    """Normalised names of annotations and modules, by name code; Python frames are too many and too unlike."""
    from chakra_core.analysis.align import normalise_operator

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


def _with_keys(trace: Trace, tree: _Tree, keys: Keys) -> _Tree:
    from chakra_core.analysis._tree_kernels import hash_trees

    named = operator_keys(trace, tree.rows, keys)
    whole = hash_trees(tree.first, tree.child, tree.up, named[:, 0])
    columns = np.stack([whole, named[:, 0], named[:, 1], named[:, 2]], axis=1).astype(np.int64)
    return _Tree(tree.rows, tree.up, tree.first, tree.child, tree.tops, tree.lanes, np.ascontiguousarray(columns))


def _pin(a: _Tree, b: _Tree, pins: Pins, ranks: tuple[int, int]) -> I32:
    """Pairs of positions of the pinned nodes; their first keys are made negative, so that they meet nothing else."""
    found = []
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
        i, j = np.unravel_index(int(common.argmax()), common.shape)
        pairs.append((*lanes_a[int(i)], *lanes_b[int(j)]))
        common[i, :], common[:, j] = 0, 0
    return np.array(pairs, np.int64).reshape(-1, 4), a.tops, b.tops


def _counted(keys: I64) -> tuple[list[int], list[int]]:
    values, counts = np.unique(keys, return_counts=True)
    return values.tolist(), counts.tolist()


def _lanes(tree: _Tree) -> list[tuple[int, int]]:
    """Begin and end of each thread among the top nodes; those with the most of them where there are too many."""
    borders = np.flatnonzero(np.r_[True, tree.lanes[1:] != tree.lanes[:-1], True][: len(tree.lanes) + 1])
    found = [(int(low), int(high)) for low, high in zip(borders[:-1], borders[1:], strict=True)]
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


@dataclass(frozen=True, slots=True)
class Meeting:
    """Device work of two traces by the operator (or region) under which it meets. Arrays are parallel.

    Attributes:
        row_a: int64, row of the operator of the one trace (the first of a region); -1 for what is without.
        row_b: int64, of the other; -1 for what is without.
        ns_a: int64, summed device time of the one trace.
        ns_b: int64, of the other.
        confidence: float32, that of the pair; 0.5 for regions, 0 for what meets nothing.
        matched_a: device time of the one trace under matched operators, ns.
        matched_b: of the other.
        total_a: all of its device time.
        total_b: of the other.
    """

    row_a: I64
    row_b: I64
    ns_a: I64
    ns_b: I64
    confidence: F32
    matched_a: int
    matched_b: int
    total_a: int
    total_b: int

    def __len__(self) -> int:
        return len(self.row_a)


def meet(a: Trace, b: Trace, match: TreeMatch) -> Meeting:
    """Sum the device work of both traces under the innermost operator above it that has a counterpart.

    Where only one side has device work below a pair (other sub-operators did it on the other side), the work goes up
    until both sides have some: so a pair is a fair comparison. Work without any such operator meets nothing.
    """
    groups = len(match) + len(match.regions)
    side_a = _group_of(a, match.rows_a, match.region_a, len(match))
    side_b = _group_of(b, match.rows_b, match.region_b, len(match))
    work = [trace.device_rows for trace in (a, b)]
    at = [_owner(trace, rows, side) for trace, rows, side in ((a, work[0], side_a), (b, work[1], side_b))]
    for _ in range(_MOST_CLIMB):
        there = [np.bincount(group[group >= 0], minlength=groups) > 0 for group in at]
        alone = [np.flatnonzero((group >= 0) & ~there[1 - one][group]) for one, group in enumerate(at)]
        if not any(len(lonely) for lonely in alone):
            break
        above = [_above(trace, side, match, groups) for trace, side in ((a, side_a), (b, side_b))]
        for one, lonely in enumerate(alone):
            at[one][lonely] = above[one][at[one][lonely]]
    return _meeting(a, b, match, work, at)


_MOST_CLIMB = 64


def _group_of(trace: Trace, rows: I64, region: I32, pairs: int) -> I32:
    """Per row the pair or, after the pairs, the region that it is of; -1: none."""
    group = np.where(region >= 0, region + pairs, -1).astype(np.int32)
    group[rows] = np.arange(len(rows))
    del trace
    return group


def _owner(trace: Trace, rows: I64, group: I32) -> I64:
    from chakra_core.analysis._climb import owners

    owner = owners(rows, trace.columns.parent, group >= 0)
    own = group[rows]  # device nodes that are themselves matched, where no operators are recorded
    return np.where(own >= 0, own, np.where(owner >= 0, group[owner], -1)).astype(np.int64)


def _above(trace: Trace, group: I32, match: TreeMatch, groups: int) -> I64:
    """For each group, the group around it on this side; -1: none."""
    from chakra_core.analysis._climb import owners

    found = np.full(groups, -1, np.int64)
    rows = np.flatnonzero(group >= 0)
    owner = owners(rows, trace.columns.parent, group >= 0)
    del match
    found[group[rows]] = np.where(owner >= 0, group[owner], -1)
    return found


def _meeting(a: Trace, b: Trace, match: TreeMatch, work: list[I64], at: list[I64]) -> Meeting:
    groups = len(match) + len(match.regions)
    sums = [np.zeros(groups + 1, np.int64) for _ in range(2)]
    for one, trace in enumerate((a, b)):
        np.add.at(sums[one], at[one], trace.columns.dur_ns[work[one]])  # the last entry is what meets nothing
    used = np.flatnonzero((sums[0][:-1] > 0) | (sums[1][:-1] > 0))
    row_a = np.r_[match.rows_a, [region.rows_a[0] for region in match.regions]].astype(np.int64)
    row_b = np.r_[match.rows_b, [region.rows_b[0] for region in match.regions]].astype(np.int64)
    sure = np.r_[match.confidence, np.full(len(match.regions), _IN_REGION)].astype(np.float32)
    rest = [int(total[-1]) for total in sums]
    totals = [int(total.sum()) for total in sums]
    return Meeting(
        row_a=np.r_[row_a[used], -1], row_b=np.r_[row_b[used], -1],
        ns_a=np.r_[sums[0][used], rest[0]], ns_b=np.r_[sums[1][used], rest[1]],
        confidence=np.r_[sure[used], 0].astype(np.float32),
        matched_a=totals[0] - rest[0], matched_b=totals[1] - rest[1], total_a=totals[0], total_b=totals[1],
    )  # fmt: skip


def anchors(a: Trace, b: Trace, match: TreeMatch) -> tuple[I64, I64]:
    """Starts of matched operators that come in the same order on both sides: what a stretched time axis hangs on.

    Returns:
        two ascending int64 arrays of absolute times in ns, one per trace, without repeated times.
    """
    from chakra_core.schema import NO_TIME

    start_a, start_b = a.columns.start_ns[match.rows_a], b.columns.start_ns[match.rows_b]
    timed = (start_a != NO_TIME) & (start_b != NO_TIME)
    order = np.lexsort((start_b[timed], start_a[timed]))
    start_a, start_b = start_a[timed][order], start_b[timed][order]
    kept = _rising(start_b)
    start_a, start_b = start_a[kept], start_b[kept]
    new = np.r_[True, (np.diff(start_a) > 0) & (np.diff(start_b) > 0)][: len(start_a)]
    return start_a[new], start_b[new]


def _rising(values: I64) -> I64:
    """Positions of a longest strictly ascending part (patience sorting, O(n log n))."""
    import bisect

    tails: list[int] = []
    ends: list[int] = []
    before = np.full(len(values), -1, np.int64)
    for at, value in enumerate(values.tolist()):
        place = bisect.bisect_left(tails, value)
        before[at] = ends[place - 1] if place else -1
        if place == len(tails):
            tails.append(value)
            ends.append(at)
        else:
            tails[place], ends[place] = value, at
    found = []
    at = ends[-1] if ends else -1
    while at >= 0:
        found.append(at)
        at = int(before[at])
    return np.array(found[::-1], np.int64)


def kernel_pairs(a: Trace, b: Trace, match: TreeMatch) -> tuple[I64, I64]:
    """Device nodes that correspond: launched below one pair of operators, alike in name or as many on both sides.

    Returns:
        rows of both traces, parallel int64.
    """
    group = [
        _owner(trace, trace.device_rows, _group_of(trace, rows, region, len(match)))
        for trace, rows, region in ((a, match.rows_a, match.region_a), (b, match.rows_b, match.region_b))
    ]
    names = Keys()
    keyed = []
    for trace, of in zip((a, b), group, strict=True):
        rows = trace.device_rows
        order = np.lexsort((trace.columns.start_ns[rows], of))
        keyed.append((rows[order], of[order], _kernel_numbers(trace, rows[order], names)))
    by_name = _pair_up(*((rows, np.stack([of, name], axis=1)) for rows, of, name in keyed))
    left = [np.isin(rows, met, invert=True) for (rows, _, _), met in zip(keyed, by_name, strict=True)]
    rest = _pair_up(*((rows[mask], of[mask, None]) for (rows, of, _), mask in zip(keyed, left, strict=True)))
    return np.r_[by_name[0], rest[0]], np.r_[by_name[1], rest[1]]


def _kernel_numbers(trace: Trace, rows: I64, names: Keys) -> I64:
    from chakra_core.analysis.align import How

    used, where = np.unique(trace.columns.name[rows], return_inverse=True)
    numbers = [names.number(How.KERNEL, normalise_kernel(trace.names[code])) for code in used.tolist()]
    return np.array(numbers, np.int64)[where] if numbers else np.zeros(0, np.int64)


def _pair_up(one: tuple[I64, I64], two: tuple[I64, I64]) -> tuple[I64, I64]:
    """Pair rows with equal keys, the n-th with the n-th; keys with a negative group meet nothing."""
    width = one[1].shape[1]
    both = np.concatenate([one[1], two[1]])
    _, key = np.unique(both, axis=0, return_inverse=True) if len(both) else (both, np.zeros(0, np.int64))
    key = key.reshape(-1)
    keys = key[: len(one[0])], key[len(one[0]) :]
    parts = []
    for (rows, full), mine in zip((one, two), keys, strict=True):
        order = np.argsort(mine, kind="stable")
        mine = mine[order]
        nth = np.arange(len(mine)) - np.searchsorted(mine, mine)
        good = full[order, 0] >= 0
        parts.append((rows[order][good], (mine * (len(both) + 1) + nth)[good]))
    del width
    _, at, of = np.intersect1d(parts[0][1], parts[1][1], assume_unique=True, return_indices=True)
    return parts[0][0][at], parts[1][0][of]
