"""Which operator of a host execution trace is which event of a device profile.

Three ways, the surest first; a pair of the same number counts only where the names agree:

- *record function id*: the profile states PyTorch's record-function id, which is the host trace's ``rf_id``;
- *external id*: the profile numbers operators as the host trace does, up to a constant, which is found by vote;
- *order*: operators appear in the same order on both sides, as far as the names say so.

A way that leaves more than a few operators over is compared with the next, and the one that matches most is taken.

The record-function id is what PyTorch (2.1 and later) writes into both files; earlier profiles write ``External id``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakra_core.errors import ChakraError
from chakra_core.readers.base import Numbered
from chakra_core.schema import Category, Domain, NodeKind
from chakra_core.trace import Trace

__all__ = ["LEAST", "LinkRefused", "Match", "match"]

I64 = NDArray[np.int64]

LEAST = 0.5
"""Share of the smaller side's operators that must be matched for two files to be taken for a pair."""

_SURE = 0.98
"""Matched share at which no less sure way is tried."""

_ORDERED = 0.9
"""Share that the order of names must reach."""

_VOTERS = 2000
_EACH = 4000
_GRAM = 6
_AHEAD = 48


class LinkRefused(ChakraError):
    """Two files are not of one run."""


@dataclass(frozen=True, slots=True)
class Match:
    """Pairs of rows, and how they were found.

    Attributes:
        method: ``record function id``, ``external id`` or ``order``.
        host: int64, rows of the host trace.
        device: int64, rows of the device profile, parallel.
        operators: operators of the host trace.
        events: operators and annotations of the profile.
        offset: what was added to the host's numbers.
    """

    method: str
    host: I64
    device: I64
    operators: int
    events: int
    offset: int = 0

    @property
    def share(self) -> float:
        """Matched share of the smaller side."""
        return len(self.host) / max(min(self.operators, self.events), 1)


@dataclass(frozen=True, slots=True)
class _Side:
    """Operators of one side in order: rows, name codes shared by both sides, and their numbers (below 1: none)."""

    rows: I64
    names: I64
    numbers: I64


def match(host: Trace, device: Trace) -> Match:
    """Match the operators of a host trace with the events of a device profile.

    Raises:
        LinkRefused: too few agree for the two to be of one run; the message holds the evidence.
    """
    if 0 <= host.meta.rank != device.meta.rank >= 0:
        raise LinkRefused(
            f"{host.meta.path} is of rank {host.meta.rank}, {device.meta.path} of rank {device.meta.rank}; "
            "give the two files of one rank"
        )
    codes: dict[str, int] = {}
    ours = _side(host, _operators(host), "rf_id", codes)
    tried: list[Match] = []
    for method, attribute in (("record function id", "Record function id"), ("external id", "External id")):
        theirs = _side(device, _events(device), attribute, codes)
        offset = 0 if attribute == "Record function id" else _offset(ours, theirs)
        tried.append(_by_number(method, ours, theirs, offset))
        if tried[-1].share >= _SURE:
            return tried[-1]
    tried.append(_by_order(ours, _in_time(device, theirs)))
    best = max((found for found in tried if _holds(found)), key=lambda found: len(found.host), default=None)
    if best is not None:
        return best
    said = ", ".join(f"{len(one.host):,} by {one.method}" for one in tried)
    raise LinkRefused(
        f"{host.meta.path} and {device.meta.path} are not of one run: of {len(ours.rows):,} operators and "
        f"{len(theirs.rows):,} events only these agree: {said}. Give the host and device trace of the same steps and rank."
    )


def _holds(found: Match) -> bool:
    """Whether so many agree that it cannot be chance: of like models, operators also come in like order."""
    if found.method == "order":
        return found.share >= _ORDERED and 2 * len(found.host) >= found.operators
    return found.share >= LEAST


def _operators(host: Trace) -> I64:
    c = host.columns
    return np.flatnonzero((c.domain == Domain.HOST) & (c.kind != NodeKind.METADATA))


def _events(device: Trace) -> I64:
    c = device.columns
    return np.flatnonzero((c.domain == Domain.HOST) & np.isin(c.category, (Category.HOST_OP, Category.ANNOTATION)))


def _side(trace: Trace, rows: I64, attribute: str, codes: dict[str, int]) -> _Side:
    own = np.array([codes.setdefault(name, len(codes)) for name in trace.names], np.int64)
    source = trace.attributes_of
    numbers = source.numbers(attribute) if isinstance(source, Numbered) else None
    if numbers is None:
        numbers = np.zeros(len(trace), np.int64)
    return _Side(rows, own[trace.columns.name[rows]] if len(own) else np.zeros(0, np.int64), numbers[rows])


def _by_number(method: str, host: _Side, device: _Side, offset: int) -> Match:
    """Pairs whose numbers differ by ``offset`` and whose names are the same; a number counts once on each side."""
    ours = np.flatnonzero(host.numbers > 0)
    theirs = np.flatnonzero(device.numbers > 0)
    ours = ours[np.unique(host.numbers[ours], return_index=True)[1]]
    theirs = theirs[np.unique(device.numbers[theirs], return_index=True)[1]]
    wanted = host.numbers[ours] + offset
    at = np.minimum(np.searchsorted(device.numbers[theirs], wanted), max(len(theirs) - 1, 0))
    good = np.zeros(len(ours), np.bool_)
    if len(theirs):
        good = (device.numbers[theirs[at]] == wanted) & (device.names[theirs[at]] == host.names[ours])
    pairs = ours[good], theirs[at[good]]
    return Match(method, host.rows[pairs[0]], device.rows[pairs[1]], len(host.rows), len(device.rows), offset)


def _offset(host: _Side, device: _Side) -> int:
    """The difference of numbers that most pairs of equal name have; the smallest of several as frequent."""
    ours, theirs = np.flatnonzero(host.numbers > 0), np.flatnonzero(device.numbers > 0)
    if not len(ours) or not len(theirs):
        return 0
    voters = ours[np.linspace(0, len(ours) - 1, min(_VOTERS, len(ours))).astype(np.int64)]
    order = theirs[np.argsort(device.names[theirs], kind="stable")]
    first = np.searchsorted(device.names[order], host.names[voters], side="left")
    last = np.minimum(np.searchsorted(device.names[order], host.names[voters], side="right"), first + _EACH)
    count = last - first
    which = np.repeat(np.arange(len(voters)), count)
    place = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
    differences, votes = np.unique(device.numbers[order[place]] - host.numbers[voters[which]], return_counts=True)
    if not len(votes):
        return 0
    best = differences[votes == votes.max()]
    return int(best[np.argmin(np.abs(best))])


def _in_time(device: Trace, side: _Side) -> _Side:
    """Events by start, the longer first where several start together (as operators nest)."""
    c = device.columns
    order = np.lexsort((-c.dur_ns[side.rows], c.start_ns[side.rows]))
    return _Side(side.rows[order], side.names[order], side.numbers[order])


def _by_order(host: _Side, device: _Side) -> Match:
    """Operators in order of their numbers (where they have none: of the file) laid beside events in order of time.

    The host's sequence is slid to where most runs of names agree; from there both are walked, and what one side lacks
    is skipped.
    """
    order = np.argsort(np.where(host.numbers > 0, host.numbers, np.iinfo(np.int64).max), kind="stable")
    names, others = host.names[order], device.names
    shift = _shift(names, others)
    one, two, ours, theirs = max(-shift, 0), max(shift, 0), [], []
    a, b = names.tolist(), others.tolist()
    while one < len(a) and two < len(b):
        if a[one] == b[two]:
            ours.append(one)
            theirs.append(two)
            one, two = one + 1, two + 1
            continue
        ahead = b.index(a[one], two, two + _AHEAD) if a[one] in b[two : two + _AHEAD] else len(b) + _AHEAD
        behind = a.index(b[two], one, one + _AHEAD) if b[two] in a[one : one + _AHEAD] else len(a) + _AHEAD
        if ahead - two <= behind - one:
            two = ahead if ahead < len(b) else two
            one += 0 if ahead < len(b) else 1
        else:
            one = behind if behind < len(a) else one + 1
    rows = order[np.array(ours, np.int64)], np.array(theirs, np.int64)
    return Match("order", host.rows[rows[0]], device.rows[rows[1]], len(host.rows), len(device.rows))


def _shift(one: I64, two: I64) -> int:
    """How far the second sequence's agreeing part begins after the first's: most frequent over runs of names."""
    grams = [_grams(side) for side in (one, two)]
    if not len(grams[0]) or not len(grams[1]):
        return 0
    order = np.argsort(grams[1], kind="stable")
    first = np.searchsorted(grams[1][order], grams[0], side="left")
    last = np.minimum(np.searchsorted(grams[1][order], grams[0], side="right"), first + 64)
    count = last - first
    which = np.repeat(np.arange(len(grams[0])), count)
    place = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
    shifts, votes = np.unique(order[place] - which, return_counts=True)
    return int(shifts[np.argmax(votes)]) if len(votes) else 0


def _grams(names: I64) -> NDArray[np.uint64]:
    """A number for every run of ``_GRAM`` names."""
    length = max(len(names) - _GRAM + 1, 0)
    mixed = np.zeros(length, np.uint64)
    for at in range(_GRAM):
        mixed = mixed * np.uint64(0x9E3779B97F4A7C15) + names[at : at + length].astype(np.uint64) + np.uint64(1)
    return mixed
