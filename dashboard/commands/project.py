"""``project``: a run's time on other hardware, with the assumptions beside the result."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from chakra_core.analysis.breakdown import PARTS, breakdowns
from chakra_core.errors import AnalysisError
from chakra_core.hardware import get_device, load_catalogue
from chakra_core.trace import Run
from dashboard.commands.base import EXIT_OK, Command, complain, emit, print_table

__all__ = ["COMMAND"]

_FACTORS = ("compute", "memory", "link", "latency")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("path", type=Path, metavar="RUN", help="a trace file, or the folder of a run")
    parser.add_argument("--hardware", required=True, metavar="NAME", help="device to project onto (see: hardware)")
    parser.add_argument("--source", metavar="NAME", help="device the run was measured on (default: as the trace says)")
    parser.add_argument(
        "--hardware-file", type=Path, action="append", default=[], metavar="TOML", help="add your own devices"
    )
    for name in _FACTORS:
        parser.add_argument(f"--{name}", type=float, default=1.0, metavar="X", help=f"factor on the target's {name}")


def run(options: argparse.Namespace) -> int:
    """Project the run and print both totals."""
    from chakra_core.opening import open_run
    from chakra_core.project.projection import project_run
    from chakra_core.project.retime import Knobs

    catalogue = load_catalogue(options.hardware_file)
    target = get_device(options.hardware, catalogue)
    source = get_device(options.source, catalogue) if options.source else None
    try:
        knobs = Knobs(**{name: getattr(options, name) for name in _FACTORS})
    except ValueError as error:
        raise AnalysisError(str(error)) from error
    measured = open_run([options.path])
    projected = project_run(measured, target, source=source, knobs=knobs)
    document = {
        "hardware": target.name,
        "source": measured.label,
        "source_total_ns": _parts(measured)["total_ns"],
        "projected_total_ns": _parts(projected)["total_ns"],
        "source_breakdown": _parts(measured),
        "breakdown": _parts(projected),
        "assumptions": list(projected.assumptions),
    }
    if options.json:
        emit(document)
    else:
        _print(document)
    return EXIT_OK


def _parts(run: Run) -> dict[str, int]:
    """Parts of the breakdown, summed over the run's devices."""
    totals = [part.total for part in breakdowns(run).values()]
    parts = {f"{name}_ns": sum(total.part(name) for total in totals) for name in PARTS}
    return {"total_ns": sum(parts.values()), **parts}


def _print(document: dict[str, Any]) -> None:
    rows = [
        (name.removesuffix("_ns").replace("_", " "), _ms(before), _ms(document["breakdown"][name]))
        for name, before in document["source_breakdown"].items()
    ]
    print_table(("device time", f"{document['source']} ms", f"{document['hardware']} ms (simulated)"), rows)
    for text in document["assumptions"]:
        complain(text)


def _ms(value: int) -> str:
    return f"{value / 1e6:,.3f}"


COMMAND = Command("project", "Project a run onto other hardware.", configure, run)
