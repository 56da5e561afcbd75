"""What matched call trees give: device work that meets, kernels that correspond, points that hang two time axes together."""

from __future__ import annotations

import bisect
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakra_core.analysis.alike import How, Keys, normalise_kernel
from chakra_core.analysis.trees import REGION_CONFIDENCE, TreeMatch
from chakra_core.schema import NO_TIME
from chakra_core.trace import Trace

__all__ = ["Meeting", "anchors", "kernel_pairs", "meet"]

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
F32 = NDArray[np.float32]

_MOST_CLIMB = 64


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
    side_a = _group_of(match.rows_a, match.region_a, len(match))
    side_b = _group_of(match.rows_b, match.region_b, len(match))
    work = [trace.device_rows for trace in (a, b)]
    at = [_owner(trace, rows, side) for trace, rows, side in ((a, work[0], side_a), (b, work[1], side_b))]
    for _ in range(_MOST_CLIMB):
        there = [np.bincount(group[group >= 0], minlength=groups + 1) > 0 for group in at]
        alone = [np.flatnonzero((group >= 0) & ~there[1 - one][group]) for one, group in enumerate(at)]
        if not any(len(lonely) for lonely in alone):
            break
        above = [_above(trace, side, groups) for trace, side in ((a, side_a), (b, side_b))]
        for one, lonely in enumerate(alone):
            at[one][lonely] = above[one][at[one][lonely]]
    return _meeting(a, b, match, work, at)


def _group_of(rows: I64, region: I32, pairs: int) -> I32:
    """Per row the pair or, after the pairs, the region that it is of; -1: none."""
    group = np.where(region >= 0, region + pairs, -1).astype(np.int32)
    group[rows] = np.arange(len(rows))
    return group


def _owner(trace: Trace, rows: I64, group: I32) -> I64:
    from chakra_core.analysis._climb import owners

    owner = owners(rows, trace.columns.parent, group >= 0)
    own = group[rows]  # device nodes that are themselves matched, where no operators are recorded
    return np.where(own >= 0, own, np.where(owner >= 0, group[owner], -1)).astype(np.int64)


def _above(trace: Trace, group: I32, groups: int) -> I64:
    """For each group, the group around it on this side; -1: none."""
    from chakra_core.analysis._climb import owners

    found = np.full(groups, -1, np.int64)
    rows = np.flatnonzero(group >= 0)
    owner = owners(rows, trace.columns.parent, group >= 0)
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
    sure = np.r_[match.confidence, np.full(len(match.regions), REGION_CONFIDENCE)].astype(np.float32)
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
        _owner(trace, trace.device_rows, _group_of(rows, region, len(match)))
        for trace, rows, region in ((a, match.rows_a, match.region_a), (b, match.rows_b, match.region_b))
    ]
    names = Keys()
    keyed = []
    for trace, of in zip((a, b), group, strict=True):
        rows = trace.device_rows
        order = np.lexsort((trace.columns.start_ns[rows], of))
        keyed.append((rows[order], of[order], _kernel_numbers(trace, rows[order], names)))
    named = [(rows, np.stack([of, name], axis=1)) for rows, of, name in keyed]
    by_name = _pair_up(named[0], named[1])
    left = [np.isin(rows, met, invert=True) for (rows, _, _), met in zip(keyed, by_name, strict=True)]
    others = [(rows[mask], of[mask, None]) for (rows, of, _), mask in zip(keyed, left, strict=True)]
    rest = _pair_up(others[0], others[1])
    return np.r_[by_name[0], rest[0]], np.r_[by_name[1], rest[1]]


def _kernel_numbers(trace: Trace, rows: I64, names: Keys) -> I64:
    used, where = np.unique(trace.columns.name[rows], return_inverse=True)
    numbers = [names.number(How.KERNEL, normalise_kernel(trace.names[code])) for code in used.tolist()]
    return np.array(numbers, np.int64)[where] if numbers else np.zeros(0, np.int64)


def _pair_up(one: tuple[I64, I64], two: tuple[I64, I64]) -> tuple[I64, I64]:
    """Pair rows with equal keys, the n-th with the n-th; keys with a negative group meet nothing."""
    both = np.concatenate([one[1], two[1]])
    _, key = np.unique(both, axis=0, return_inverse=True) if len(both) else (both, np.zeros(0, np.int64))
    key = key.reshape(-1)
    keys = key[: len(one[0])], key[len(one[0]) :]
    parts = []
    for (rows, full), unsorted in zip((one, two), keys, strict=True):
        order = np.argsort(unsorted, kind="stable")
        mine = unsorted[order]
        nth = np.arange(len(mine)) - np.searchsorted(mine, mine)
        good = full[order, 0] >= 0
        parts.append((rows[order][good], (mine * (len(both) + 1) + nth)[good]))
    _, at, of = np.intersect1d(parts[0][1], parts[1][1], assume_unique=True, return_indices=True)
    return parts[0][0][at], parts[1][0][of]
