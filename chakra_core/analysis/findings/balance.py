"""Rules about evenness: of ranks among each other, and of steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chakra_core.analysis.findings._make import finding
from chakra_core.analysis.findings.facts import Facts
from chakra_core.analysis.findings.model import Evidence, Finding, Place, Thresholds
from chakra_core.analysis.steps import find_steps
from chakra_core.words import count, duration

__all__ = ["rank_imbalance", "step_imbalance"]

_FEW = 3


def rank_imbalance(ranks: Sequence[Facts], limits: Thresholds) -> Finding | None:
    """Ranks compute for unequal times, so that the others wait for the slowest."""
    timed = [facts for facts in ranks if facts.total_ns]
    if len(timed) < 2:
        return None
    compute = np.array([facts.part.compute_ns for facts in timed], np.int64)
    slow, fast = int(np.argmax(compute)), int(np.argmin(compute))
    mean = int(compute.mean())
    if compute[slow] - compute[fast] <= limits.imbalance * compute[slow]:
        return None
    worst, least = timed[slow], timed[fast]
    text = (
        f"Rank {worst.rank} computes {duration(int(compute[slow]))}, rank {least.rank} {duration(int(compute[fast]))}; "
        f"the mean of {count(len(timed), 'rank')} is {duration(mean)}."
    )
    return Finding(
        "rank-imbalance", "Ranks do unequal work", text,
        "Balance batches, experts or pipeline stages; look for a slow device or a rank with extra work.",
        int(compute[slow]) - mean, "the slowest rank's compute above the mean: gone if all did the same",
        worst.total_ns,
        (
            Evidence("slowest compute", int(compute[slow]), "ns"), Evidence("mean compute", mean, "ns"),
            Evidence("fastest compute", int(compute[fast]), "ns"), Evidence("ranks", len(timed), "count"),
        ),
        Place("bottlenecks", worst.rank), len(timed),
    )  # fmt: skip


def step_imbalance(facts: Facts, limits: Thresholds) -> Finding | None:
    """Some steps take much longer than the median step."""
    window = facts.scope.window
    steps = [
        step for step in find_steps(facts.trace)
        if window is None or (step.start_ns >= window[0] and step.end_ns <= window[1])
    ]  # fmt: skip
    if len(steps) < _FEW:
        return None
    lengths = np.array([step.end_ns - step.start_ns for step in steps], np.int64)
    middle = int(np.median(lengths))
    longer = np.maximum(lengths - middle, 0)
    longer[lengths <= (1 + limits.imbalance) * middle] = 0
    lost = int(longer.sum())
    if not lost:
        return None
    worst = steps[int(np.argmax(lengths))]
    most = int(lengths.max())
    text = (
        f"Step {worst.number} takes {duration(most)}, the median of {count(len(steps), 'step')} is {duration(middle)}; "
        f"{count(int((longer > 0).sum()), 'step')} above it cost {duration(lost)} more. The first step of a profile often "
        "holds warm-up."
    )
    return finding(
        facts, "step-imbalance", "Steps take unequal time", text,
        advice="Compare the slow step with a usual one: input shapes, data loading, garbage collection, compilation.",
        saving=lost, bound="what the slow steps take above the median step",
        evidence=(
            Evidence("slowest step", most, "ns"), Evidence("median step", middle, "ns"),
            Evidence("spread", float(most / middle) if middle else 0.0, "ratio"),
            Evidence("steps", len(steps), "count"),
        ),
        window=(worst.start_ns, worst.end_ns),
    )  # fmt: skip
