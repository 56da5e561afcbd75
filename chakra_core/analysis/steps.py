"""Steps of a trace: the iterations that its annotations mark."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from chakra_core.schema import NO_TIME, Domain
from chakra_core.trace import Trace

__all__ = ["Step", "find_steps"]

_STEP = re.compile(
    r"^(?:ProfilerStep|Iteration|iteration|train_step|train|step|TraceContext|Profiled batch)[\s#_:]*(\d+)$"
)


@dataclass(frozen=True, slots=True)
class Step:
    """One iteration: its number as the trace gives it, and its absolute time range (half-open, ns)."""

    number: int
    start_ns: int
    end_ns: int


def find_steps(trace: Trace) -> tuple[Step, ...]:
    """The marked iterations of a trace, by start; none is dropped.

    A step is a host annotation whose name is ``ProfilerStep#N`` (PyTorch) or an iteration word and a number. Where
    several annotations bear one number (several threads), the step spans them all.
    """
    numbers = {code: int(match[1]) for code, name in enumerate(trace.names) if (match := _STEP.match(name))}
    if not numbers:
        return ()
    c = trace.columns
    marked = np.isin(c.name, np.fromiter(numbers, np.int32)) & (c.domain == Domain.HOST) & (c.start_ns != NO_TIME)
    spans: dict[int, tuple[int, int]] = {}
    for row in np.flatnonzero(marked).tolist():
        start, number = int(c.start_ns[row]), numbers[int(c.name[row])]
        end = start + int(c.dur_ns[row])
        known = spans.get(number, (start, end))
        spans[number] = (min(known[0], start), max(known[1], end))
    return tuple(sorted((Step(number, *span) for number, span in spans.items()), key=lambda step: step.start_ns))
