"""One run on every device, and what the devices give for what they cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from chakra_core.errors import AnalysisError, ChakraError
from chakra_core.hardware.model import Device
from chakra_core.project.projection import project_run
from chakra_core.project.retime import Knobs
from chakra_core.project.sweep import Outcome, outcome_of, pareto
from chakra_core.schema import CommOp
from chakra_core.trace import Run

__all__ = ["Benefit", "OnDevice", "benefits", "on_every_device"]

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class OnDevice:
    """A run on a device: its outcome, or None and in ``note`` why; ``note`` also says what the outcome leaves out."""

    device: str
    vendor: str
    outcome: Outcome | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Benefit:
    """What a device gives for its cost (a price, a power: the user's unit).

    Attributes:
        device: name of it.
        cost: as the user said.
        total_ns: device time of the run on it.
        speedup: device time on the cheapest device over that on this one.
        cost_ratio: cost over that of the cheapest.
        cost_time: cost x device time in the user's unit x s: what the run costs on it, energy where costs are watts.
        on_front: whether no other device beats it in both cost and time.
    """

    device: str
    cost: float
    total_ns: int
    speedup: float
    cost_ratio: float
    cost_time: float
    on_front: bool


def on_every_device(
    run: Run, devices: Sequence[Device], *, source: Device, knobs: Knobs | None = None, progress: Progress | None = None
) -> list[OnDevice]:
    """Project a run onto each device; what cannot be is kept, with the reason."""
    communicates = any((trace.columns.comm_op != CommOp.NONE).any() for trace in run.traces)
    rows = []
    for at, device in enumerate(devices):
        unknown = communicates and device.link_bandwidth is None
        try:
            outcome: Outcome | None = outcome_of(project_run(run, device, source=source, knobs=knobs))
            note = "link unknown: communication as recorded" if unknown else ""
        except ChakraError as error:
            outcome, note = None, str(error)
        rows.append(OnDevice(device.name, device.vendor, outcome, note))
        if progress is not None:
            progress(at + 1, len(devices))
    return rows


def benefits(rows: Sequence[OnDevice], costs: Mapping[str, float]) -> list[Benefit]:
    """Cost and benefit of the devices that a cost is given for, the cheapest first.

    Raises:
        AnalysisError: a cost is not above 0, or is of a device that is not among the rows or has no outcome.
    """
    times = {row.device: row.outcome.total_ns for row in rows if row.outcome is not None}
    for name, cost in costs.items():
        if name not in times:
            raise AnalysisError(f"a cost is given for {name!r}, which the run was not projected onto")
        if not 0 < cost < float("inf"):
            raise AnalysisError(f"the cost of {name} must be above 0, not {cost:g}")
    priced = sorted(costs, key=lambda name: (costs[name], times[name]))
    front = {priced[at] for at in pareto([(costs[name], float(times[name])) for name in priced])}
    found = []
    for name in priced:
        time = times[name]
        speedup = times[priced[0]] / time if time else 1.0
        ratio = costs[name] / costs[priced[0]]
        found.append(Benefit(name, costs[name], time, speedup, ratio, costs[name] * time / 1e9, name in front))
    return found
