"""Shared by the rules: a finding made from its parts, and names short enough for a sentence."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chakra_core.analysis.findings.facts import Facts
from chakra_core.analysis.findings.model import Evidence, Finding, Place
from chakra_core.analysis.what_if import Factors
from chakra_core.words import plain

__all__ = ["finding", "longest_of", "name_of", "path_evidence", "short"]

_MOST = 2_000


def finding(
    facts: Facts, rule: str, title: str, text: str, *, advice: str, saving: int, bound: str,
    evidence: tuple[Evidence, ...], row: int = -1, window: tuple[int, int] | None = None,
    rows: NDArray[np.int64] | None = None, page: str = "timeline",
) -> Finding:  # fmt: skip
    """A finding about one rank; a saving is never more than the device time it is part of."""
    place = Place(page, facts.rank, row, window, () if rows is None else tuple(rows[:_MOST].tolist()))
    text = text.replace("\N{HORIZONTAL ELLIPSIS}.", "\N{HORIZONTAL ELLIPSIS}")
    return Finding(rule, title, text, advice, min(saving, facts.total_ns), bound, facts.total_ns, evidence, place)


def name_of(facts: Facts, row: int) -> str:
    """Name of a node, short enough for a sentence."""
    return short(facts.trace.name_of(row))


def short(name: str, limit: int = 70) -> str:
    """A name cut to a length."""
    return plain(name if len(name) <= limit else f"{name[: limit - 1]}…", limit)


def path_evidence(facts: Facts, factors: Factors) -> tuple[Evidence, ...]:
    """How much shorter the measured critical path gets without something; nothing where there is no such path.

    Less than the time lost where other work takes as long meanwhile (slack). It is no bound: dependencies that were not
    recorded (see ``what_if``) would let it be more.
    """
    shorter = facts.shorter_path(factors)
    return () if shorter is None else (Evidence("critical path shorter by", shorter, "ns"),)


def longest_of(lost: NDArray[np.int64]) -> NDArray[np.int64]:
    """Positions by time lost, most first, those that lose nothing left out."""
    order = np.argsort(-lost, kind="stable")
    return order[lost[order] > 0]
