"""Many projections of one run: over the values of one or two knobs, each knob up and down, every device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from chakra_core.analysis.breakdown import PARTS, breakdowns
from chakra_core.errors import AnalysisError
from chakra_core.hardware.model import Device
from chakra_core.project.projection import project_run
from chakra_core.project.retime import FACTORS, Knobs
from chakra_core.trace import Run

__all__ = ["Outcome", "Swing", "outcome_of", "pareto", "sweep", "tornado"]

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Times of a run under some knobs.

    Attributes:
        device: name of the hardware.
        knobs: what was changed; None for a run as it is.
        total_ns: of the device that takes longest, from its first to its last work.
        parts_ns: parts of the breakdown of that device, summing to ``total_ns``.
        span_ns: of the whole run, host included.
    """

    device: str
    knobs: Knobs | None
    total_ns: int
    parts_ns: dict[str, int]
    span_ns: int


@dataclass(frozen=True, slots=True)
class Swing:
    """What a knob does when it is turned down and up by a factor: device time in ns at both ends."""

    knob: str
    low: Outcome
    high: Outcome

    @property
    def width_ns(self) -> int:
        """Difference between the ends."""
        return abs(self.high.total_ns - self.low.total_ns)


def outcome_of(run: Run, knobs: Knobs | None = None) -> Outcome:
    """Times of a run; of its devices, those of the one that takes longest."""
    devices = [device for found in breakdowns(run).values() for device in found.devices]
    longest = max(devices, key=lambda part: part.total_ns, default=None)
    if longest is None:
        raise AnalysisError(f"{run.label}: no device work in it")
    parts = {name: longest.part(name) for name in PARTS}
    return Outcome(run.hardware, knobs, sum(parts.values()), parts, run.span_ns)


def sweep(
    run: Run, device: Device, axes: Sequence[tuple[str, Sequence[float]]], *, source: Device | None = None,
    knobs: Knobs | None = None,
) -> Iterator[Outcome]:  # fmt: skip
    """Project a run for every combination of knob values; the last axis varies fastest. Lazily, so that it can stop.

    Args:
        run: what to project.
        device: onto what.
        axes: knob (one of ``FACTORS``) and its values; one or two of them.
        source: what it was measured on; found by its name by default.
        knobs: the others.

    Raises:
        AnalysisError: a knob is unknown, or the run cannot be projected.
        ValueError: a value is out of range.
    """
    unknown = [name for name, _ in axes if name not in FACTORS]
    if unknown or not 1 <= len(axes) <= 2:
        raise AnalysisError(f"a sweep takes one or two of {', '.join(FACTORS)}, not {[name for name, _ in axes]}")
    base = knobs or Knobs()
    for values in product(*(values for _, values in axes)):
        changed = _with(base, {name: value for (name, _), value in zip(axes, values, strict=True)})
        yield outcome_of(project_run(run, device, source=source, knobs=changed), changed)


def tornado(
    run: Run, device: Device, *, source: Device | None = None, knobs: Knobs | None = None, factor: float = 2.0,
    progress: Progress | None = None,
) -> list[Swing]:  # fmt: skip
    """Turn each knob down and up by a factor, the others left alone; the one that moves the time most comes first."""
    base = knobs or Knobs()
    swings = []
    for at, name in enumerate(FACTORS):
        ends = [
            outcome_of(project_run(run, device, source=source, knobs=changed), changed)
            for changed in (_with(base, {name: getattr(base, name) * by}) for by in (1 / factor, factor))
        ]
        swings.append(Swing(name, ends[0], ends[1]))
        if progress is not None:
            progress(at + 1, len(FACTORS))
    return sorted(swings, key=lambda swing: -swing.width_ns)


def _with(knobs: Knobs, changes: Mapping[str, Any]) -> Knobs:
    return replace(knobs, **changes)


def pareto(points: Sequence[tuple[float, float]]) -> list[int]:
    """Positions of the points that no other beats in both values (less is better), by the first value.

    Of equal points only the first is kept.
    """
    best = float("inf")
    kept = []
    for at in sorted(range(len(points)), key=lambda at: points[at]):
        if points[at][1] < best:
            kept.append(at)
            best = points[at][1]
    return kept
