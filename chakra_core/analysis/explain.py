"""Why the compute of two aligned runs differs: the same kernels at another speed, other kernels, work of only one.

For every group of corresponding work that both runs have: where the kernels' names (without template arguments, tiles
and architecture) are the same set, the difference is one of *speed*; else the operator ran *other kernels*. Groups of
one run alone are *only in one*. These are differences of summed kernel times; the breakdown's compute counts time in
which kernels run side by side once, so the rest of its difference is *side by side*. The five sum to it exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakra_core.analysis.align import Alignment, Work
from chakra_core.schema import COMPUTE_CATEGORIES

__all__ = ["CAUSES", "Explanation", "explain"]

I64 = NDArray[np.int64]

CAUSES: dict[str, str] = {
    "same_kernels": "same kernels, other speed",
    "other_kernels": "other kernels for the same operator",
    "only_baseline": "only in the baseline",
    "only_run": "only in this run",
    "side_by_side": "more or less side by side",
}
"""Causes in words, by the names of the fields of an Explanation."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Parts of a run's change of compute against the baseline, in ns per device; they sum to the change."""

    same_kernels_ns: int
    other_kernels_ns: int
    only_baseline_ns: int
    only_run_ns: int
    side_by_side_ns: int

    def part(self, name: str) -> int:
        """One of ``CAUSES``, in ns."""
        return int(getattr(self, f"{name}_ns"))


def explain(
    works: Sequence[Work], alignment: Alignment, units: Sequence[int], baseline: int,
    compute_deltas: Sequence[int],
) -> tuple[Explanation, ...]:  # fmt: skip
    """An explanation for every run (the baseline's is all zero).

    Args:
        works: what was compared, one per run.
        alignment: how it was grouped.
        units: devices of each run, over which times are averaged.
        baseline: which run is compared with.
        compute_deltas: change of the breakdown's compute of each run, ns.
    """
    groups = len(alignment.keys)
    compute = [np.isin(work.category, [int(category) for category in COMPUTE_CATEGORIES]) for work in works]
    sums = [_sums(work, alignment.groups[at], compute[at], groups) for at, work in enumerate(works)]
    names = [_names(work, alignment.groups[at], compute[at], groups) for at, work in enumerate(works)]
    there = [np.bincount(alignment.groups[at][compute[at]], minlength=groups) > 0 for at in range(len(works))]
    found = []
    for at, total in enumerate(compute_deltas):
        change = sums[at] / units[at] - sums[baseline] / units[baseline]
        both = there[at] & there[baseline]
        same = both & (names[at] == names[baseline])
        parts = [
            round(float(change[mask].sum()))
            for mask in (same, both & ~same, there[baseline] & ~there[at], there[at] & ~there[baseline])
        ]
        found.append(Explanation(parts[0], parts[1], parts[2], parts[3], total - sum(parts)))
    return tuple(found)


def _sums(work: Work, group: I64, compute: NDArray[np.bool_], groups: int) -> I64:
    total = np.zeros(groups, np.int64)
    np.add.at(total, group[compute], work.dur_ns[compute])
    return total


def _names(work: Work, group: I64, compute: NDArray[np.bool_], groups: int) -> NDArray[np.uint64]:
    """A number per group that tells the set of kernel names in it: the mixed sum over its distinct names."""
    pairs = np.unique(np.stack([group[compute], work.kernel[compute]]), axis=1)
    mixed = (pairs[1].astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    total = np.zeros(groups, np.uint64)
    np.add.at(total, pairs[0], mixed)
    return total
