"""What ``project`` adds to its document when asked: sweeps, sensitivities, every device, inputs for the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chakra_core.errors import AnalysisError
from chakra_core.hardware import Device, get_device
from chakra_core.trace import Run
from dashboard.commands.base import complain

if TYPE_CHECKING:
    from chakra_core.project.astrasim.config import NetworkDimension, SystemConfig
    from chakra_core.project.retime import Knobs

__all__ = ["costs", "devices", "knob_sweep", "ms", "sensitivities", "simulator_inputs"]

_MOST_POINTS = 400


def knob_sweep(run_: Run, pair: tuple[Device, Device], texts: Sequence[str], knobs: Knobs) -> list[dict[str, Any]]:
    """A record for every combination of the values in texts such as ``link=0.5,1,2``; progress goes to stderr."""
    from chakra_core.project.sweep import sweep

    axes = _axes(texts)
    found = []
    for outcome in sweep(run_, pair[1], axes, source=pair[0], knobs=knobs):
        where = {name: getattr(outcome.knobs, name) for name, _ in axes}
        parts = {f"{name}_ns": value for name, value in outcome.parts_ns.items()}
        found.append({"knobs": where, "device_ns": outcome.total_ns, **parts, "span_ns": outcome.span_ns})
        complain(", ".join(f"{name} x {value:g}" for name, value in where.items()) + f": {ms(outcome.total_ns)} ms")
    return found


def _axes(texts: Sequence[str]) -> list[tuple[str, list[float]]]:
    axes = []
    for text in texts:
        name, _, values = text.partition("=")
        try:
            axes.append((name.strip().replace("-", "_"), [float(value) for value in values.split(",")]))
        except ValueError as error:
            raise AnalysisError(f"--sweep {text}: expected KNOB=V,V,… with numbers, e.g. link=0.5,1,2") from error
    points = 1
    for _, numbers in axes:
        points *= len(numbers)
    if points > _MOST_POINTS:
        raise AnalysisError(f"--sweep: {points:,} points; at most {_MOST_POINTS} are computed at once")
    return axes


def sensitivities(run_: Run, pair: tuple[Device, Device], knobs: Knobs) -> list[dict[str, Any]]:
    """A record for every knob, halved and doubled; the most sensitive first."""
    from chakra_core.project.sweep import tornado

    return [
        {
            "knob": swing.knob,
            "half_ns": swing.low.total_ns,
            "double_ns": swing.high.total_ns,
            "width_ns": swing.width_ns,
        }
        for swing in tornado(run_, pair[1], source=pair[0], knobs=knobs)
    ]


def costs(texts: Sequence[str], catalogue: Sequence[Device]) -> dict[str, float]:
    """What ``--cost "H100 SXM=30000"`` states, by the catalogue's name of the device.

    Raises:
        AnalysisError: it has no number.
        ChakraError: there is no such device.
    """
    stated = {}
    for text in texts:
        name, _, value = text.rpartition("=")
        try:
            stated[get_device(name.strip(), catalogue).name] = float(value)
        except ValueError as error:
            raise AnalysisError(f"--cost {text}: expected DEVICE=NUMBER, e.g. 'H100 SXM=30000'") from error
    return stated


def devices(
    run_: Run, source: Device, catalogue: Sequence[Device], knobs: Knobs, stated: dict[str, float]
) -> dict[str, Any]:
    """The run on every accelerator, the fastest first, and cost beside benefit where costs are stated."""
    from chakra_core.project.devices import benefits, on_every_device

    accelerators = [device for device in catalogue if device.kind == "accelerator"]
    rows = on_every_device(
        run_, accelerators, source=source, knobs=knobs, progress=lambda done, of: complain(f"device {done} of {of}")
    )
    made = [
        {
            "device": row.device, "vendor": row.vendor, "device_ns": row.outcome.total_ns if row.outcome else None,
            "span_ns": row.outcome.span_ns if row.outcome else None, "note": row.note,
        }
        for row in rows
    ]  # fmt: skip
    document: dict[str, Any] = {
        "devices": sorted(made, key=lambda row: (row["device_ns"] is None, row["device_ns"] or 0))
    }
    if stated:
        document["costs"] = [
            {
                "device": one.device, "cost": one.cost, "device_ns": one.total_ns, "speedup": one.speedup,
                "cost_ratio": one.cost_ratio, "cost_seconds": one.cost_time, "not_beaten": one.on_front,
            }
            for one in benefits(rows, stated)
        ]  # fmt: skip
    return document


def simulator_inputs(
    run_: Run, folder: Path, network: Sequence[NetworkDimension], system: SystemConfig
) -> dict[str, Any]:
    """Write ASTRA-sim's inputs, and say what was written and changed."""
    from chakra_core.project.astrasim.inputs import write_inputs

    done = write_inputs(run_, folder, network, system)
    complain(f"wrote {len(done.files)} files to {folder}; {folder}/README.md says how to run them")
    return {
        "folder": str(folder),
        "files": [str(path) for path in done.files],
        "command": done.command,
        "changes": [
            {"code": change.code, "count": change.count, "message": change.text} for change in done.conversion.changes
        ],
    }


def ms(value: int) -> str:
    """Nanoseconds as milliseconds."""
    return f"{value / 1e6:,.3f}"
