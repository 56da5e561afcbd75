"""Two runs of one workload, node by node: a projection beside a simulator's log, or two simulations.

Nodes meet by rank and id, as Chakra's files number them. The error of a node is its duration in the second run less
that in the first; of a rank, the same of its finish time (from its run's own start).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakra_core.schema import NO_TIME, CommOp
from chakra_core.trace import Run, Trace

__all__ = ["NodeComparison", "as_json", "compare_by_id"]

I64 = NDArray[np.int64]

_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class RankError:
    """When a rank finishes in both runs (ns from the run's start), and how many nodes of it met."""

    rank: int
    first_ns: int
    second_ns: int
    matched: int
    only_first: int
    only_second: int

    @property
    def error(self) -> float | None:
        """Relative to the first run; None where that takes no time."""
        return self.second_ns / self.first_ns - 1 if self.first_ns else None


@dataclass(frozen=True, slots=True)
class GroupError:
    """Nodes of one name (numbers in it aside) or collective: how many met, their summed times and errors in ns.

    ``mean_abs_ns`` is the mean of the nodes' absolute errors, ``worst_ns`` the largest of them (signed) and ``worst``
    where it is: (rank, row in the first run, row in the second).
    """

    name: str
    collective: bool
    count: int
    first_ns: int
    second_ns: int
    mean_abs_ns: float
    worst_ns: int
    worst: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class NodeComparison:
    """Errors by rank and by group, the group with the largest change first; the share of nodes that met."""

    labels: tuple[str, str]
    ranks: tuple[RankError, ...]
    groups: tuple[GroupError, ...]
    share: float


@dataclass(frozen=True, slots=True)
class _Pairs:
    rank: int
    first: I64
    second: I64


def compare_by_id(first: Run, second: Run) -> NodeComparison:
    """Compare two runs node by node; ranks that only one has, and ids that only one has, are counted, not compared."""
    traces = dict(zip(second.ranks, second.traces, strict=True))
    pairs: list[_Pairs] = []
    ranks: list[RankError] = []
    largest = 0
    for rank, trace in zip(first.ranks, first.traces, strict=True):
        other = traces.get(rank)
        largest += max(len(trace), len(other) if other is not None else 0)
        if other is None:
            continue
        rows = _meet(trace, other)
        pairs.append(_Pairs(rank, *rows))
        matched = len(rows[0])
        ranks.append(
            RankError(
                rank, _finish(trace, first.origin_ns), _finish(other, second.origin_ns), matched,
                len(trace) - matched, len(other) - matched,
            )
        )  # fmt: skip
    met = sum(len(pair.first) for pair in pairs)
    groups = _groups(first, traces, pairs)
    return NodeComparison((first.label, second.label), tuple(ranks), groups, met / largest if largest else 0.0)


def _meet(one: Trace, two: Trace) -> tuple[I64, I64]:
    """Rows of both traces whose id and name are the same; an id that a trace has twice is left out."""
    ids, a, b = np.intersect1d(one.columns.id, two.columns.id, return_indices=True)
    once = np.ones(len(ids), np.bool_)
    for trace in (one, two):
        known, counts = np.unique(trace.columns.id, return_counts=True)
        once &= counts[np.searchsorted(known, ids)] == 1
    code = {name: at for at, name in enumerate(one.names)}
    there = np.array([code.get(name, -1) for name in two.names] or [-1], np.int64)
    same = once & (one.columns.name[a] == there[two.columns.name[b]])
    return a[same], b[same]


def _finish(trace: Trace, origin_ns: int) -> int:
    return trace.end_ns - origin_ns if trace.has_times else 0


def _groups(first: Run, traces: dict[int, Trace], pairs: list[_Pairs]) -> tuple[GroupError, ...]:
    names: dict[tuple[str, bool], int] = {}
    columns: list[I64] = []
    for pair in pairs:
        one, two = first.by_rank(pair.rank), traces[pair.rank]
        keys = np.array([_key(name) for name in one.names] or [""], object)[one.columns.name[pair.first]]
        talks = one.columns.comm_op[pair.first] != CommOp.NONE
        group = [
            names.setdefault((key, bool(comm)), len(names)) for key, comm in zip(keys, talks.tolist(), strict=True)
        ]
        timed = (one.columns.start_ns[pair.first] != NO_TIME) & (two.columns.start_ns[pair.second] != NO_TIME)
        table = np.stack(
            [np.array(group, np.int64), one.columns.dur_ns[pair.first], two.columns.dur_ns[pair.second],
             np.full(len(group), pair.rank), pair.first, pair.second]
        )  # fmt: skip
        columns.append(table[:, timed])
    if not columns:
        return ()
    group, before, after, rank, row, other = np.concatenate(columns, axis=1)
    change = after - before
    count = np.bincount(group, minlength=len(names))
    sums = [np.zeros(len(names), np.int64) for _ in range(3)]
    for total, values in zip(sums, (before, after, np.abs(change)), strict=True):
        np.add.at(total, group, values)
    order = np.lexsort((-np.abs(change), group))
    worst = order[np.searchsorted(group[order], np.arange(len(names)))] if len(order) else order
    found = [
        GroupError(
            name, talks, int(count[at]), int(sums[0][at]), int(sums[1][at]), float(sums[2][at] / count[at]),
            int(change[worst[at]]), (int(rank[worst[at]]), int(row[worst[at]]), int(other[worst[at]])),
        )
        for (name, talks), at in names.items()
        if count[at]
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda one: (-abs(one.second_ns - one.first_ns), one.name)))


def _key(name: str) -> str:
    return _NUMBER.sub("#", name)


def as_json(found: NodeComparison) -> dict[str, Any]:
    """The document that ``compare --by id`` adds."""
    return {
        "baseline": found.labels[0],
        "run": found.labels[1],
        "matched_share": found.share,
        "ranks": [
            {
                "rank": one.rank, "baseline_finish_ns": one.first_ns, "finish_ns": one.second_ns, "error": one.error,
                "matched": one.matched, "only_baseline": one.only_first, "only_run": one.only_second,
            }
            for one in found.ranks
        ],
        "groups": [
            {
                "name": one.name, "collective": one.collective, "count": one.count, "baseline_ns": one.first_ns,
                "ns": one.second_ns, "mean_abs_error_ns": one.mean_abs_ns, "worst_error_ns": one.worst_ns,
                "worst_rank": one.worst[0], "worst_row": one.worst[1],
            }
            for one in found.groups
        ],
    }  # fmt: skip
