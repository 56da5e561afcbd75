"""Time per group of corresponding work of several runs, as a table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakra_core.analysis.align import Alignment, Work
from chakra_core.analysis.alike import Keys
from chakra_core.schema import Category

__all__ = ["OperatorTable", "mean_ns", "operator_table"]

I64 = NDArray[np.int64]

_DIGITS = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True)
class OperatorTable:
    """Time per group of corresponding work, largest difference first. Row: group; column: run, in the given order.

    Attributes:
        names: the key under which the work meets.
        how: int8 ``align.How`` per row: what the members have in common, at the least sure.
        category: int8 Category per row: the one with the most time.
        ns: int64 (rows, runs): summed duration, mean over the run's devices; 0 where the run has none.
        calls: int64 (rows, runs): operator instances (kernels, for kernels without one), summed over ranks.
        kernels: int64 (rows, runs): pieces of device work, summed over ranks.
        longest: int64 (rows, runs): row of the instance with the most time; -1 where the run has none.
        longest_rank: int64 (rows, runs): the rank it is of; -1 where the run has none.
    """

    names: tuple[str, ...]
    how: NDArray[np.int8]
    category: NDArray[np.int8]
    ns: I64
    calls: I64
    kernels: I64
    longest: I64
    longest_rank: I64

    def __len__(self) -> int:
        return len(self.names)

    @property
    def matched(self) -> NDArray[np.bool_]:
        """Which rows have work in every run."""
        return np.asarray((self.kernels > 0).all(axis=1))


def mean_ns(total: int, units: int) -> int:
    """Rounded half up, in integers."""
    return (2 * total + units) // (2 * units)


def operator_table(
    works: Sequence[Work], keys: Keys, alignment: Alignment, units: Sequence[int], ranks: Sequence[I64], baseline: int
) -> tuple[I64, OperatorTable]:
    """Sums per group and run (int64, unsorted), and the table."""
    rows, runs = len(alignment.keys), len(works)
    sums, calls, count = (np.zeros((rows, runs), np.int64) for _ in range(3))
    longest, longest_rank = np.full((rows, runs), -1, np.int64), np.full((rows, runs), -1, np.int64)
    weight = np.zeros((rows, len(Category)), np.int64)
    for at, work in enumerate(works):
        group, link = alignment.groups[at], alignment.links[at]
        np.add.at(sums[:, at], group, work.dur_ns)
        np.add.at(weight, (group, work.category), work.dur_ns)
        count[:, at] = np.bincount(group, minlength=rows)
        chosen, group_of, time = _instances(work, group, link)
        calls[:, at] = np.bincount(group_of, minlength=rows)
        order = np.lexsort((-work.row[chosen], time, group_of))
        last = np.searchsorted(group_of[order], np.arange(rows), side="right") - 1
        here = np.flatnonzero(count[:, at])
        best = chosen[order[last[here]]]
        longest[here, at], longest_rank[here, at] = work.row[best], ranks[at][work.trace[best]]
    mean = np.stack([(2 * sums[:, at] + unit) // (2 * unit) for at, unit in enumerate(units)], axis=1)
    change = np.abs(mean - mean[:, [baseline]]).max(axis=1)
    names = [keys.texts[int(key)] for key in alignment.keys]
    sort = np.array(sorted(range(rows), key=lambda row: (-int(change[row]), _natural(names[row]))), np.int64)
    table = OperatorTable(
        names=tuple(names[row] for row in sort),
        how=alignment.how[sort],
        category=weight.argmax(axis=1).astype(np.int8)[sort],
        ns=mean[sort],
        calls=calls[sort],
        kernels=count[sort],
        longest=longest[sort],
        longest_rank=longest_rank[sort],
    )
    return sums, table


def _natural(name: str) -> list[tuple[int, str]]:
    """Sort key under which ``layer_2`` comes before ``layer_10``."""
    return [(int(part[:18]), "") if part.isascii() and part.isdigit() else (-1, part) for part in _DIGITS.split(name)]


def _instances(work: Work, group: I64, link: I64) -> tuple[I64, I64, I64]:
    """Distinct operator instances: a link of each, its group, and its summed time."""
    if not len(work):
        return (np.zeros(0, np.int64),) * 3
    trace, row = work.trace[link], work.row[link]
    order = np.lexsort((row, trace, group))
    new = np.r_[True, (np.diff(group[order]) != 0) | (np.diff(trace[order]) != 0) | (np.diff(row[order]) != 0)]
    time = np.add.reduceat(work.dur_ns[order], np.flatnonzero(new))
    return link[order][new], group[order][new], time
