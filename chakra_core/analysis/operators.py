"""Which operators and which kernels take the time: tables by name, with host, self and device time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakra_core.analysis.scope import WHOLE, Clipped, Scope, clip_rows
from chakra_core.schema import Category, Domain
from chakra_core.trace import Trace

__all__ = ["Kernels", "Operators", "as_json", "by_category", "children_ns", "kernels", "operator_mask", "top_operators"]

I64 = NDArray[np.int64]

_NOT_OPERATORS = (Category.RUNTIME, Category.ANNOTATION, Category.PYTHON)


@dataclass(frozen=True, slots=True)
class Operators:
    """Operators by name, longest total first. All arrays are parallel int64; times in ns.

    Attributes:
        names: operator names.
        count: how many instances lie (partly) in the scope.
        total_ns: summed duration of the instances, sub-operators included.
        self_ns: the part of it not spent in anything recorded directly below (operators and runtime calls).
        device_ns: union, over time, of the device work launched from below any instance.
        device_self_ns: summed duration of the device work whose innermost operator it is.
        longest: row of the longest instance (ties: the first).
        domain: where the operators run; device for traces that record no operators on the host.
    """

    names: tuple[str, ...]
    count: I64
    total_ns: I64
    self_ns: I64
    device_ns: I64
    device_self_ns: I64
    longest: I64
    domain: Domain

    def __len__(self) -> int:
        return len(self.names)

    def records(self, limit: int | None = None) -> list[dict[str, Any]]:
        """The first rows as plain dictionaries."""
        return [
            {
                "name": self.names[at],
                "count": int(self.count[at]),
                "total_ns": int(self.total_ns[at]),
                "self_ns": int(self.self_ns[at]),
                "device_ns": int(self.device_ns[at]),
                "device_self_ns": int(self.device_self_ns[at]),
                "longest": int(self.longest[at]),
            }
            for at in range(len(self) if limit is None else min(limit, len(self)))
        ]


@dataclass(frozen=True, slots=True)
class Kernels:
    """Device work by name and category, longest total first. Arrays are parallel; times in ns.

    Attributes:
        names: kernel names as the trace gives them.
        category: int8 Category codes.
        count: int64, instances (partly) in the scope.
        total_ns: int64, summed duration.
        min_ns: int64, shortest.
        max_ns: int64, longest.
        longest: int64, row of the longest instance (ties: the first).
        median_ns: int64, the shortest duration that at least half of the instances do not exceed (nearest rank).
        p95_ns: int64, the same for 95 % of them.
    """

    names: tuple[str, ...]
    category: NDArray[np.int8]
    count: I64
    total_ns: I64
    min_ns: I64
    max_ns: I64
    longest: I64
    median_ns: I64
    p95_ns: I64

    def __len__(self) -> int:
        return len(self.names)

    @property
    def mean_ns(self) -> NDArray[np.float64]:
        """Mean duration, float64 ns."""
        return self.total_ns / np.maximum(self.count, 1)

    def records(self, limit: int | None = None) -> list[dict[str, Any]]:
        """The first rows as plain dictionaries."""
        return [
            {
                "name": self.names[at],
                "category": Category(int(self.category[at])).label,
                "count": int(self.count[at]),
                "total_ns": int(self.total_ns[at]),
                "min_ns": int(self.min_ns[at]),
                "mean_ns": float(self.mean_ns[at]),
                "median_ns": int(self.median_ns[at]),
                "p95_ns": int(self.p95_ns[at]),
                "max_ns": int(self.max_ns[at]),
                "longest": int(self.longest[at]),
            }
            for at in range(len(self) if limit is None else min(limit, len(self)))
        ]


def operator_mask(trace: Trace) -> NDArray[np.bool_]:
    """Which rows are operators: host rows that are no runtime call, annotation or Python frame."""
    c = trace.columns
    return np.asarray((c.domain == Domain.HOST) & ~np.isin(c.category, _NOT_OPERATORS))


def top_operators(trace: Trace, scope: Scope = WHOLE) -> Operators:
    """Operators by name. Where the trace records none on the host, the device nodes by name.

    Instances are clipped to the window of the scope; self time subtracts the direct children clipped alike.
    """
    mask = operator_mask(trace)
    if not mask.any():
        return _device_operators(trace, scope)
    operators = clip_rows(trace, np.flatnonzero(mask), scope)
    codes, group = np.unique(trace.columns.name[operators.rows], return_inverse=True)
    own = operators.dur_ns - children_ns(trace, scope)[operators.rows]
    device_ns, device_self_ns = _device_time(trace, mask, codes, scope)
    return _sorted(
        trace, codes, group, operators, Domain.HOST, self_ns=_sums(group, np.maximum(own, 0), len(codes)),
        device_ns=device_ns, device_self_ns=device_self_ns,
    )  # fmt: skip


def kernels(trace: Trace, scope: Scope = WHOLE) -> Kernels:
    """Device work by name and category, clipped to the window of the scope."""
    work = clip_rows(trace, trace.device_rows, scope)
    c = trace.columns
    span = len(Category)
    key = c.name[work.rows].astype(np.int64) * span + c.category[work.rows]
    keys, group = np.unique(key, return_inverse=True)
    dur = work.dur_ns
    ordered = dur[np.lexsort((dur, group))]
    count = np.bincount(group, minlength=len(keys)).astype(np.int64)
    first = np.cumsum(count) - count
    longest, maximum = _longest(group, work, len(keys))
    total = _sums(group, dur, len(keys))
    names = [trace.names[int(key) // span] for key in keys]
    order = sorted(range(len(keys)), key=lambda at: (-int(total[at]), names[at]))
    return Kernels(
        names=tuple(names[at] for at in order),
        category=(keys % span).astype(np.int8)[order],
        count=count[order],
        total_ns=total[order],
        min_ns=ordered[first][order],
        max_ns=maximum[order],
        longest=longest[order],
        median_ns=ordered[first + _nearest_rank(count, 50)][order],
        p95_ns=ordered[first + _nearest_rank(count, 95)][order],
    )


def _nearest_rank(count: I64, percent: int) -> I64:
    """Place, among so many values in order, of the least one that at least ``percent`` of them do not exceed."""
    return np.asarray(-(-count * percent // 100) - 1)


def by_category(trace: Trace, scope: Scope = WHOLE) -> dict[Category, int]:
    """Summed duration of device work by category, in ns; categories without any are left out."""
    work = clip_rows(trace, trace.device_rows, scope)
    totals = _sums(trace.columns.category[work.rows].astype(np.int64), work.dur_ns, len(Category))
    present = np.unique(trace.columns.category[work.rows])
    return {Category(int(code)): int(totals[code]) for code in present}


def _device_operators(trace: Trace, scope: Scope) -> Operators:
    work = clip_rows(trace, trace.device_rows, scope)
    codes, group = np.unique(trace.columns.name[work.rows], return_inverse=True)
    total = _sums(group, work.dur_ns, len(codes))
    return _sorted(
        trace, codes, group, work, Domain.DEVICE,
        self_ns=total, device_ns=_union_by(group, work, len(codes)), device_self_ns=total,
    )  # fmt: skip


def _sorted(
    trace: Trace, codes: NDArray[np.int32], group: I64, work: Clipped, domain: Domain, *,
    self_ns: I64, device_ns: I64, device_self_ns: I64,
) -> Operators:  # fmt: skip
    names = [trace.names[int(code)] for code in codes]
    total = _sums(group, work.dur_ns, len(codes))
    longest, _ = _longest(group, work, len(codes))
    order = sorted(range(len(codes)), key=lambda at: (-int(total[at]), names[at]))
    return Operators(
        names=tuple(names[at] for at in order),
        count=np.bincount(group, minlength=len(codes)).astype(np.int64)[order],
        total_ns=total[order],
        self_ns=self_ns[order],
        device_ns=device_ns[order],
        device_self_ns=device_self_ns[order],
        longest=longest[order],
        domain=domain,
    )


def _sums(group: NDArray[Any], values: I64, groups: int) -> I64:
    summed = np.zeros(groups, np.int64)
    np.add.at(summed, group, values)
    return summed


def _longest(group: NDArray[Any], work: Clipped, groups: int) -> tuple[I64, I64]:
    """Row and duration of the longest member of each group, the first in file order where several are."""
    order = np.lexsort((-work.rows, work.dur_ns, group))
    last = np.searchsorted(group[order], np.arange(groups), side="right") - 1
    chosen = order[last]
    return work.rows[chosen], work.dur_ns[chosen]


def children_ns(trace: Trace, scope: Scope) -> I64:
    """Summed time in scope of the direct children on the host of every row, int64 ns per row of the trace."""
    c = trace.columns
    children = clip_rows(trace, np.flatnonzero((c.domain == Domain.HOST) & (c.parent >= 0)), scope)
    return _sums(c.parent[children.rows].astype(np.int64), children.dur_ns, len(trace))


def _device_time(trace: Trace, mask: NDArray[np.bool_], codes: NDArray[np.int32], scope: Scope) -> tuple[I64, I64]:
    """Device time by operator name: union below any instance, and sum by innermost operator."""
    work = clip_rows(trace, trace.device_rows, scope)
    if not len(work):
        return np.zeros(len(codes), np.int64), np.zeros(len(codes), np.int64)
    from chakra_core.analysis._climb import chains

    c = trace.columns
    position, ancestor = chains(work.rows, c.parent, mask)
    known = np.isin(c.name[ancestor], codes)
    innermost = np.r_[True, position[1:] != position[:-1]][: len(position)] & known
    group = np.searchsorted(codes, c.name[ancestor])
    own = _sums(group[innermost], work.dur_ns[position[innermost]], len(codes))
    return _union_by(group[known], work.at(position[known]), len(codes)), own


def _union_by(group: NDArray[Any], work: Clipped, groups: int) -> I64:
    from chakra_core.analysis._climb import sorted_group_union

    order = np.lexsort((work.start_ns, group))
    return sorted_group_union(group[order].astype(np.int64), work.start_ns[order], work.end_ns[order], groups)


def as_json(trace: Trace, scope: Scope = WHOLE) -> dict[str, Any]:
    """The keys ``top_operators`` and ``kernels`` of the command line's ``analyze``."""
    return {"top_operators": top_operators(trace, scope).records(), "kernels": kernels(trace, scope).records()}
