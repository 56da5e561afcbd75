"""What a finding is, and the thresholds from which on things are worth one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from chakra_core.errors import AnalysisError
from chakra_core.words import count, duration, share, size

__all__ = ["UNKNOWN", "Evidence", "Finding", "Place", "Thresholds"]

UNKNOWN = -1
"""Saving of a finding that says where to look, not what could be saved."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One number behind a finding; ``unit`` is ``ns``, ``bytes``, ``share`` (0..1), ``count`` or ``ratio``."""

    label: str
    value: float
    unit: str

    @property
    def text(self) -> str:
        """The number with its unit."""
        if self.unit == "ns":
            return duration(self.value)
        if self.unit == "bytes":
            return size(self.value)
        if self.unit == "share":
            return share(self.value, 1)
        return f"{self.value:,.0f}" if self.unit == "count" else f"{self.value:,.2f}"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a finding shows best.

    Attributes:
        page: slug of the page.
        rank: rank of the node.
        row: row of the node in its trace; -1 for none.
        window: absolute time range, ns; None for all time.
        rows: nodes that prove it, most telling first (at most 2,000).
    """

    page: str = "timeline"
    rank: int = 0
    row: int = -1
    window: tuple[int, int] | None = None
    rows: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """Something worth a look, found by a rule.

    Attributes:
        rule: the rule's name.
        title: a few words.
        text: a plain sentence with the numbers.
        advice: what usually helps.
        saving_ns: time that could be saved at most, per rank; ``UNKNOWN`` where the finding only says where to look.
        bound: in words, why it cannot be more.
        total_ns: the device time (of the rank, in scope) that the saving is a part of.
        evidence: the numbers.
        place: where to see it.
        ranks: on how many ranks the rule found something; the numbers are those of the worst.
    """

    rule: str
    title: str
    text: str
    advice: str
    saving_ns: int
    bound: str
    total_ns: int
    evidence: tuple[Evidence, ...]
    place: Place
    ranks: int = 1

    def record(self, origin_ns: int = 0) -> dict[str, Any]:
        """As the command line prints it; the window counts from ``origin_ns``."""
        window = self.place.window
        return {
            "rule": self.rule, "title": self.title, "text": self.text, "advice": self.advice,
            "saving_ns": None if self.saving_ns == UNKNOWN else self.saving_ns,
            "bound": self.bound, "total_ns": self.total_ns, "ranks": self.ranks,
            "evidence": [{"label": one.label, "value": one.value, "unit": one.unit} for one in self.evidence],
            "place": {
                "page": self.place.page, "rank": self.place.rank,
                "row": None if self.place.row < 0 else self.place.row,
                "range_ns": None if window is None else [end - origin_ns for end in window],
            },
        }  # fmt: skip


def _limit(default: float, unit: str, words: str) -> Any:
    return field(default=default, metadata={"unit": unit, "words": words})


@dataclass(frozen=True, slots=True)
class Thresholds:
    """From when on something is a finding. Shares are of the device time of a rank in the scope."""

    idle_share: float = _limit(0.05, "share", "device idle for one reason, at least")
    exposed_comm_share: float = _limit(0.05, "share", "exposed communication, at least")
    exposed_memory_share: float = _limit(0.05, "share", "exposed copies and memsets, at least")
    overlap: float = _limit(0.10, "share", "communication counts as never hidden below this overlap")
    small_kernel_ns: float = _limit(10_000, "ns", "a kernel is small below")
    chain_length: float = _limit(4, "count", "small kernels in a row worth fusing, at least")
    chain_gap_ns: float = _limit(30_000, "ns", "gap that ends such a row, at least")
    fusion_share: float = _limit(0.02, "share", "time that fusing could save, at least")
    tail_share: float = _limit(0.05, "share", "time that one stream works on alone at the end, at least")
    imbalance: float = _limit(0.10, "share", "ranks, or steps, differ by at least")
    hot_share: float = _limit(0.10, "share", "share of kernel time that makes a kernel hot, at least")
    recompute_share: float = _limit(0.05, "share", "device time spent on recomputing, at least")
    roofline: float = _limit(0.40, "share", "a hot kernel is slow below this share of what the hardware allows")

    def changed(self, values: Mapping[str, float]) -> Thresholds:
        """A copy with some thresholds changed.

        Raises:
            AnalysisError: there is no such threshold, or its value is negative or no number.
        """
        known = {entry.name for entry in fields(self)}
        for name, value in values.items():
            if name not in known:
                raise AnalysisError(f"{name}: no such threshold; there are {', '.join(sorted(known))}")
            if not 0 <= value < float("inf"):
                raise AnalysisError(f"{name}: {value} is no threshold; it must be a number from 0 on")
        return replace(self, **values)


def calls(number: int) -> str:
    """A number of calls in words."""
    return count(number, "call")
