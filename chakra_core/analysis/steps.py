"""Steps of a trace: the iterations that its annotations mark, or that show in what repeats."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakra_core.schema import NO_TIME, Category, Domain
from chakra_core.trace import Trace

__all__ = ["Step", "find_steps"]

I64 = NDArray[np.int64]

_STEP = re.compile(
    r"^(?:ProfilerStep|Iteration|iteration|train_step|train|step|TraceContext|Step|iter|batch|Profiled batch)[\s#_:]*(\d{1,9})$"
)
_DEVICE_LANE = re.compile(r"^(?:.*[ /:])?Steps$")
_MOST_DETECTED = 10_000


@dataclass(frozen=True, slots=True)
class Step:
    """One iteration: its number, and its absolute time range (half-open, ns).

    ``marked``: an annotation of the trace says so, and the number is the annotation's; otherwise it was detected from
    repetition, and detected steps are counted from 0.
    """

    number: int
    start_ns: int
    end_ns: int
    marked: bool = True


def find_steps(trace: Trace) -> tuple[Step, ...]:
    """The iterations of a trace, by start; none is dropped.

    A step is an annotation on the host whose name is ``ProfilerStep#N`` (PyTorch) or an iteration word and a number
    (JAX and TensorFlow among them), or an entry of a lane called *Steps* (XPlane). Where several annotations bear one
    number (several threads), the step spans them all. Where nothing is marked, steps are where the sequence of work
    on the busiest stream (on the busiest thread, where there is no device work) begins anew; what comes before the
    repetition, and an incomplete one at the end, belong to no step.
    """
    return _marked(trace) or _detected(trace)


def _marked(trace: Trace) -> tuple[Step, ...]:
    numbers = {code: int(match[1]) for code, name in enumerate(trace.names) if (match := _STEP.match(name))}
    lanes = [at for at, lane in enumerate(trace.lanes) if _DEVICE_LANE.match(lane.name)]
    c = trace.columns
    marked = (c.domain == Domain.HOST) & np.isin(c.name, np.fromiter(numbers, np.int32))
    if lanes:
        digits = {code: int(name) for code, name in enumerate(trace.names) if name.isdecimal() and len(name) < 10}
        marked |= np.isin(c.lane, lanes) & np.isin(c.name, np.fromiter(digits, np.int32))
        numbers = digits | numbers
    spans: dict[int, tuple[int, int]] = {}
    for row in np.flatnonzero(marked & (c.start_ns != NO_TIME)).tolist():
        start, number = int(c.start_ns[row]), numbers[int(c.name[row])]
        end = start + int(c.dur_ns[row])
        known = spans.get(number, (start, end))
        spans[number] = (min(known[0], start), max(known[1], end))
    return tuple(sorted((Step(number, *span) for number, span in spans.items()), key=lambda step: step.start_ns))


def _detected(trace: Trace) -> tuple[Step, ...]:
    from chakra_core.analysis._repeat import period_of

    rows = _busiest(trace)
    c = trace.columns
    period, first = period_of(c.name[rows])
    if not period:
        return ()
    begins = c.start_ns[rows[first::period]]
    ends = c.start_ns[rows] + c.dur_ns[rows]
    whole = (len(rows) - first) // period
    if not 2 <= whole <= _MOST_DETECTED:
        return ()
    last = int(ends[first + (whole - 1) * period : first + whole * period].max())
    borders = [*begins[:whole].tolist(), last]
    return tuple(Step(at, borders[at], max(borders[at + 1], borders[at]), marked=False) for at in range(whole))


def _busiest(trace: Trace) -> I64:
    """Rows on the stream with the most device time, or on the thread with the most operators; by start."""
    c = trace.columns
    rows = trace.device_rows
    if not len(rows):
        names = (Category.ANNOTATION, Category.PYTHON)
        rows = np.flatnonzero((c.domain == Domain.HOST) & ~np.isin(c.category, names))
    rows = rows[(c.start_ns[rows] != NO_TIME) & (c.lane[rows] >= 0)]
    if not len(rows):
        return rows
    weight = c.dur_ns[rows] if len(trace.device_rows) else np.ones(len(rows))
    busiest = int(np.argmax(np.bincount(c.lane[rows], weight)))
    rows = rows[c.lane[rows] == busiest]
    return rows[np.argsort(c.start_ns[rows], kind="stable")]
