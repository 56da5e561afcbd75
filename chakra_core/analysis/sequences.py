"""Sequences of kernels that recur on a stream: the time they cost, and what one fused kernel each could save.

A sequence is 2 to ``MOST_KERNELS`` kernels that follow one another on one stream, the same names in the same order at
least ``LEAST`` times. It does not reach across communication or copies, nor across a gap of more than ``BREAK_NS``
(whatever makes the stream wait so long would make it wait still). Large kernels (matrix products, convolutions,
attention) stand at its ends only: one may be followed, or be prepared, by what is fused with it.

Of all such runs those are kept that cannot be made longer without becoming rarer. They are taken in the order of what
they could save, each kernel for one sequence only, so the times of all sequences add up.

What fusing one occurrence saves lies between two bounds. *At least* the gaps between its kernels, as one launch is left,
provided that the fused kernel takes no longer than its parts together. *At most* all but its longest kernel, as the
fused kernel still does that one's work. Runs are found by hashes (64 bit, names spelled out and compared afterwards): O(n x MOST_KERNELS).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakra_core.analysis.scope import WHOLE, Clipped, Scope, clip_rows
from chakra_core.schema import Category
from chakra_core.trace import Trace

__all__ = ["BREAK_NS", "LEAST", "MOST_KERNELS", "Sequence", "Sequences", "as_json", "sequences"]

I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]

LEAST = 3
"""Occurrences that make a sequence."""
MOST_KERNELS = 16
"""Kernels in a sequence."""
BREAK_NS = 100_000
"""A longer gap ends a sequence."""
_MOST = 200
"""Sequences listed."""
_CANDIDATES = 4_000
_LARGE = (Category.GEMM, Category.CONVOLUTION, Category.ATTENTION)
_BREAKS = (Category.COMMUNICATION, Category.COPY, Category.RUNTIME)
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Sequence:
    """One sequence; times in ns, summed over its occurrences.

    Attributes:
        names: kernels in order.
        count: occurrences, none overlapping another or one of a sequence listed before.
        busy_ns: time in which any of the kernels runs.
        gaps_ns: time between the kernels: what fusing saves at least.
        most_ns: what fusing saves at most.
        rows: int64 (occurrences, kernels), rows of the trace, in time order by stream.
        longest: index, in ``rows``, of the occurrence that takes longest.
    """

    names: tuple[str, ...]
    count: int
    busy_ns: int
    gaps_ns: int
    most_ns: int
    rows: I64
    longest: int

    @property
    def span_ns(self) -> int:
        """Time from the first start to the last end, summed: kernels and gaps."""
        return self.busy_ns + self.gaps_ns

    def record(self) -> dict[str, Any]:
        """As a plain dictionary."""
        return {
            "kernels": list(self.names),
            "count": self.count,
            "busy_ns": self.busy_ns,
            "gaps_ns": self.gaps_ns,
            "saves_at_least_ns": self.gaps_ns,
            "saves_at_most_ns": self.most_ns,
            "first_row": int(self.rows[self.longest, 0]),
        }


@dataclass(frozen=True, slots=True)
class Sequences:
    """Sequences of a trace, most to save first, at most 200.

    Attributes:
        found: the sequences.
        kernels: device work that was looked at.
        reason: in words, why there are none; empty otherwise.
    """

    found: tuple[Sequence, ...]
    kernels: int
    reason: str


def sequences(trace: Trace, scope: Scope = WHOLE) -> Sequences:
    """Recurring sequences of the kernels that lie wholly in a scope."""
    work = _kernels(trace, scope)
    if len(work) < 2 * LEAST:
        return Sequences((), len(work), "there are too few kernels in the chosen part of the trace")
    c = trace.columns
    codes = c.name[work.rows].astype(np.int64)
    joined = _joined(trace, work)
    candidates = _candidates(codes, work, joined, np.isin(c.category[work.rows], _LARGE))
    found = _claimed(trace, work, codes, candidates)
    reason = "" if found else f"no two kernels follow one another {LEAST} times"
    return Sequences(tuple(found), len(work), reason)


def _kernels(trace: Trace, scope: Scope) -> Clipped:
    """Device work wholly inside the window, by stream and start."""
    work = clip_rows(trace, trace.device_rows, scope)
    c = trace.columns
    whole = (work.dur_ns == c.dur_ns[work.rows]) & (c.lane[work.rows] >= 0)
    work = work.at(whole)
    return work.at(np.lexsort((work.rows, work.start_ns, c.lane[work.rows])))


def _joined(trace: Trace, work: Clipped) -> NDArray[np.bool_]:
    """Whether each kernel may stand in one sequence with the one before it."""
    c = trace.columns
    lane, breaks = c.lane[work.rows], np.isin(c.category[work.rows], _BREAKS)
    joined = np.zeros(len(work), np.bool_)
    joined[1:] = (lane[1:] == lane[:-1]) & (work.start_ns[1:] - work.end_ns[:-1] <= BREAK_NS)
    joined[1:] &= ~breaks[1:] & ~breaks[:-1]
    return joined


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Runs that cannot be made longer without becoming rarer: size and places of each, most worth first."""

    sizes: I64
    places: I64
    starts: I64


def _candidates(codes: I64, work: Clipped, joined: NDArray[np.bool_], large: NDArray[np.bool_]) -> _Candidates:
    from chakra_core.analysis._grams import count_runs

    n = len(codes)
    hashes = _mixed(codes)
    alive, key, longest = np.ones(n, np.bool_), hashes.copy(), work.dur_ns.copy()
    levels: list[tuple[int, I64, I64, I64, I64]] = []
    for size in range(2, MOST_KERNELS + 1):
        last = n - size + 1
        if last < 1:
            break
        alive, key, longest = alive[:last], key[:last], longest[:last]
        tail = slice(size - 1, size - 1 + last)
        alive = alive & joined[tail]
        if size > 2:
            alive &= ~large[size - 2 : size - 2 + last]  # what was the end is inside now
        if not alive.any():
            break
        key = _mixed(key * _FACTOR + hashes[tail])
        longest = np.maximum(longest, work.dur_ns[tail])
        gain = np.maximum(work.end_ns[tail] - work.start_ns[:last] - longest, 0)
        group, first, count, worth = count_runs(key, alive, gain)
        often = count >= LEAST
        alive = alive & often[group] if len(often) else np.zeros(last, np.bool_)
        levels.append((size, group, first, count, worth))
    return _best(levels)


def _mixed(values: Any) -> U64:
    """A 64-bit mix of each value (the finaliser of splitmix64; S. Vigna, public domain)."""
    mixed = np.asarray(values).astype(np.uint64) + _FACTOR
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))


def _best(levels: list[tuple[int, I64, I64, I64, I64]]) -> _Candidates:
    """The candidates of all levels with most to save, and where they are."""
    chosen: list[tuple[int, int, int]] = []
    for at, (_, _, first, count, worth) in enumerate(levels):
        keep = (count >= LEAST) & ~_extendable(levels, at, first, count)
        groups = np.flatnonzero(keep)
        chosen += [(int(worth[one]), at, int(one)) for one in groups[np.argsort(-worth[groups])][:_CANDIDATES].tolist()]
    chosen.sort(key=lambda entry: (-entry[0], -entry[1], entry[2]))
    chosen = chosen[:_CANDIDATES]
    sizes = np.array([levels[at][0] for _, at, _ in chosen], np.int64)
    lists: list[I64] = [np.zeros(0, np.int64)] * len(chosen)
    for at, (_, group, _, count, _) in enumerate(levels):
        mine = {one: place for place, (_, level, one) in enumerate(chosen) if level == at}
        if not mine:
            continue
        wanted = np.zeros(len(count) + 1, np.bool_)
        wanted[list(mine)] = True
        where = np.flatnonzero(wanted[group])
        where = where[np.argsort(group[where], kind="stable")]
        parts = np.split(where, np.flatnonzero(np.diff(group[where])) + 1)
        for part in parts:
            lists[mine[int(group[part[0]])]] = part
    starts = np.r_[0, np.cumsum([len(part) for part in lists])].astype(np.int64)
    return _Candidates(sizes, np.concatenate([*lists, np.zeros(0, np.int64)]), starts)


def _extendable(levels: list[tuple[int, I64, I64, I64, I64]], at: int, first: I64, count: I64) -> NDArray[np.bool_]:
    """Whether a run is always followed, or always preceded, by the same kernel."""
    if at + 1 == len(levels):
        return np.zeros(len(first), np.bool_)
    _, group, _, longer, _ = levels[at + 1]
    sizes = np.r_[longer, 0]  # the last entry stands for positions without a longer run
    of = np.r_[group, -1]
    after = sizes[of[np.minimum(first, len(group))]]
    before = sizes[np.where(first > 0, of[np.minimum(first - 1, len(group))], -1)]
    return np.asarray((after == count) | (before == count))


def _claimed(trace: Trace, work: Clipped, codes: I64, candidates: _Candidates) -> list[Sequence]:
    from chakra_core.analysis._grams import claim

    if not len(candidates.sizes):
        return []
    taken, kept, bounds = claim(candidates.places, candidates.starts, candidates.sizes, LEAST, len(work), _MOST)
    found = []
    for at, candidate in enumerate(taken.tolist()):
        size = int(candidates.sizes[candidate])
        places = kept[bounds[at] : bounds[at + 1], None] + np.arange(size)
        places = places[(codes[places] == codes[places[0]]).all(axis=1)]  # equal hashes of unequal runs
        start, end, dur = work.start_ns[places], work.end_ns[places], work.dur_ns[places]
        span = end.max(axis=1) - start[:, 0]
        reached = np.maximum.accumulate(end, axis=1)
        gaps = np.maximum(start[:, 1:] - reached[:, :-1], 0).sum(axis=1)
        found.append(
            Sequence(
                names=tuple(trace.names[code] for code in codes[places[0]].tolist()),
                count=len(places),
                busy_ns=int((span - gaps).sum()),
                gaps_ns=int(gaps.sum()),
                most_ns=int((span - dur.max(axis=1)).sum()),
                rows=work.rows[places],
                longest=int(np.argmax(span)),
            )
        )
    return sorted(found, key=lambda one: (-one.most_ns, one.names))


def as_json(trace: Trace, scope: Scope = WHOLE) -> dict[str, Any]:
    """The key ``kernel_sequences`` of the command line's ``analyze``."""
    result = sequences(trace, scope)
    return {
        "kernel_sequences": {
            "kernels": result.kernels,
            "saves_at_least_ns": sum(one.gaps_ns for one in result.found),
            "saves_at_most_ns": sum(one.most_ns for one in result.found),
            "reason": result.reason,
            "rows": [one.record() for one in result.found],
        }
    }
