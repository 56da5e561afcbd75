"""A run without times, as it would go on a catalogue device: durations, then a replay of all ranks together."""

from __future__ import annotations

from dataclasses import replace

from chakra_core.hardware.model import Device
from chakra_core.project.durations import Rates, simulate_durations
from chakra_core.schedule import replay
from chakra_core.schema import TimeKind
from chakra_core.trace import Run

__all__ = ["simulate_run"]


def simulate_run(run: Run, device: Device, *, rates: Rates | None = None, label: str = "") -> Run:
    """Give every node a duration on a device and every rank its timeline.

    Args:
        run: ranks with work and sizes; times they have are replaced.
        device: catalogue entry.
        rates: shares of the device's peaks that are reached; all of them at bf16 by default.
        label: of the result; the run's own and the device's name by default.

    Returns:
        A Run of time kind *simulated*, with the assumptions that were made.

    Raises:
        AnalysisError: the run communicates and the catalogue has no link bandwidth for the device.
    """
    world = max(len(run.traces), *(trace.meta.world_size for trace in run.traces))
    timed = [simulate_durations(trace, device, rates=rates, world_size=world) for trace in run.traces]
    done = replay(run.traces, [simulated.dur_ns for simulated in timed], time_kind=TimeKind.SIMULATED)
    traces = tuple(
        trace.with_(meta=replace(trace.meta, hardware=device.name, time_kind=TimeKind.SIMULATED))
        for trace in done.traces
    )
    said = dict.fromkeys(words for simulated in timed for words in simulated.assumptions)
    order = "replay: a node starts when its dependencies are done and its stream is free, a collective when all came"
    if done.given_up:
        said[f"{done.given_up:,} waits for partners that never come were given up"] = None
    name = label or f"{run.label} on {device.name} (simulated)"
    return Run(traces, name, device.name, run.groups, run.health, (*run.assumptions, *said, order))
