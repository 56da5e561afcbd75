"""Findings: rules over the other analyses, ranked by the time they could save. Add a rule by naming it in ``RULES``.

A rule is a function of the facts of one rank (``facts.Facts``) and the thresholds (``model.Thresholds``) that returns
one ``Finding`` or None; it has no other input and no effect. Savings are upper bounds, and each says of what kind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from chakra_core.analysis.findings import balance, device, host, hot
from chakra_core.analysis.findings.facts import Facts
from chakra_core.analysis.findings.model import UNKNOWN, Evidence, Finding, Place, Thresholds
from chakra_core.analysis.scope import WHOLE, Scope, traces_in
from chakra_core.trace import Run, Trace

__all__ = ["RULES", "UNKNOWN", "Evidence", "Finding", "Place", "Thresholds", "as_json", "find"]

Rule = Callable[[Facts, Thresholds], Finding | None]

RULES: tuple[Rule, ...] = (
    host.host_bound,
    host.launch_bound,
    host.idle,
    host.data_loading,
    host.synchronisation,
    host.recompiles,
    device.exposed_communication,
    device.missing_overlap,
    device.exposed_copies,
    device.small_kernels,
    device.stragglers,
    device.recomputation,
    balance.step_imbalance,
    hot.low_roofline,
    hot.memory_bound_gemms,
    hot.hot_kernel,
    hot.hot_operator,
)
"""Rules about one rank; ``balance.rank_imbalance`` looks at all of them."""


def find(run: Run, scope: Scope = WHOLE, limits: Thresholds | None = None) -> tuple[Finding, ...]:
    """What the rules find in a run, most time saved first; those without a known saving come last.

    A rule that fires on several ranks gives one finding, with the numbers of the rank that loses most.
    """
    limits = limits or Thresholds()
    ranks = [Facts(rank, trace, scope) for rank, trace in traces_in(run, scope) if len(trace)]
    found = []
    for rule in RULES:
        fired = [one for facts in ranks if (one := rule(facts, limits)) is not None]
        if fired:
            worst = max(fired, key=lambda one: (one.saving_ns, -one.place.rank))
            found.append(replace(worst, ranks=len(fired)))
    uneven = balance.rank_imbalance(ranks, limits)
    found += [uneven] if uneven is not None else []
    return tuple(sorted(found, key=lambda one: -one.saving_ns))


def as_json(trace: Trace, scope: Scope = WHOLE) -> dict[str, Any]:
    """The key ``findings`` of the command line's ``analyze``."""
    return {"findings": [one.record(trace.origin_ns) for one in find(Run((trace,), ""), scope)]}
