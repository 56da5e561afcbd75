"""The scope options of analyses: steps, time range, ranks, lanes."""

from __future__ import annotations

import argparse
import re

from chakra_core.analysis.scope import Scope
from chakra_core.analysis.steps import find_steps
from chakra_core.errors import AnalysisError
from chakra_core.trace import Run, Trace

__all__ = ["add_scope", "scope_for", "select_ranks"]

_UNITS = {"": 1, "ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_TIME = re.compile(r"^(\d+(?:\.\d+)?)(ns|us|µs|ms|s|)$")


def add_scope(parser: argparse.ArgumentParser) -> None:
    """Declare ``--steps``, ``--range``, ``--ranks`` and ``--lanes``."""
    parser.add_argument("--steps", default="all", metavar="all|N|N-M", help="only these steps (default: whole trace)")
    parser.add_argument(
        "--range", dest="window", metavar="T0:T1", help="only this time range, from the run's start, e.g. 1.5ms:4ms"
    )
    parser.add_argument("--ranks", metavar="R,R-R", help="only these ranks")
    parser.add_argument("--lanes", metavar="NAME,NAME", help="only these threads and streams, by name")


def select_ranks(run: Run, text: str | None) -> list[Trace]:
    """The traces of the wanted ranks (all by default).

    Raises:
        AnalysisError: the text is no list of ranks, or the run lacks one of them.
    """
    if not text:
        return list(run.traces)
    wanted: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        if not match:
            raise AnalysisError(f"--ranks {text}: expected numbers and ranges like 0,2-5")
        wanted.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    missing = wanted - set(run.ranks)
    if missing:
        raise AnalysisError(f"--ranks {text}: {run.label} has no rank {min(missing)}; it has {_short(run.ranks)}")
    return [trace for rank, trace in zip(run.ranks, run.traces, strict=True) if rank in wanted]


def scope_for(run: Run, trace: Trace, options: argparse.Namespace) -> Scope:
    """The scope that the options mean for one trace.

    Raises:
        AnalysisError: the options make no sense for it.
    """
    if options.window and options.steps != "all":
        raise AnalysisError("give --steps or --range, not both")
    lanes = _lanes(run, options.lanes)
    if options.window:
        return Scope(window=_range(run, options.window), lanes=lanes)
    return Scope(window=None if options.steps == "all" else _steps(trace, options.steps), lanes=lanes)


def _lanes(run: Run, text: str | None) -> frozenset[str] | None:
    if not text:
        return None
    wanted = frozenset(part.strip() for part in text.split(",") if part.strip())
    known = sorted({lane.name for trace in run.traces for lane in trace.lanes})
    if missing := sorted(wanted - set(known)):
        shown = ", ".join(known[:12]) + (f" … ({len(known)})" if len(known) > 12 else "")
        raise AnalysisError(f"--lanes {text}: {run.label} has no lane {missing[0]}; it has {shown}")
    return wanted


def _range(run: Run, text: str) -> tuple[int, int]:
    first, colon, second = text.partition(":")
    ends = [_TIME.match(part.strip()) for part in (first, second)]
    if not colon or ends[0] is None or ends[1] is None:
        raise AnalysisError(f"--range {text}: expected T0:T1 in ns or with a unit, e.g. 1.5ms:4ms")
    start, end = (run.origin_ns + round(float(match[1]) * _UNITS[match[2]]) for match in ends if match)
    if start >= end:
        raise AnalysisError(f"--range {text}: the end must be after the start")
    return start, end


def _steps(trace: Trace, text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)(?:-(\d+))?", text)
    if not match:
        raise AnalysisError(f"--steps {text}: expected all, N or N-M")
    first, last = int(match[1]), int(match[2] or match[1])
    steps = find_steps(trace)
    inside = [step for step in steps if first <= step.number <= last]
    if not inside:
        known = _short(tuple(step.number for step in steps)) if steps else "none marked"
        raise AnalysisError(f"--steps {text}: no such step in {trace.meta.path}; its steps: {known}")
    return min(step.start_ns for step in inside), max(step.end_ns for step in inside)


def _short(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers)) if len(numbers) <= 12 else f"{numbers[0]} … {numbers[-1]} ({len(numbers)})"
