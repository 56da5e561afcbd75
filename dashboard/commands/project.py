"""``project``: a run's time on other hardware or under ASTRA-sim's model, with the assumptions beside the result."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from chakra_core.errors import AnalysisError
from chakra_core.hardware import Device, get_device, load_catalogue
from chakra_core.trace import Run
from dashboard.commands.base import EXIT_OK, Command, add_files, complain, emit, print_table, write_file
from dashboard.commands.inputs import opener
from dashboard.reports import Figure, Table, Text, csv_text, html_page

__all__ = ["COMMAND"]

_FACTORS = ("compute", "memory", "link", "latency", "launch", "compression", "data_parallel")
_ALGORITHMS = ("ring", "direct", "halving-doubling", "tree", "hierarchical", "auto")
_MOST_POINTS = 400


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("path", type=Path, metavar="RUN", help="a trace file, or the folder of a run")
    parser.add_argument("--hardware", metavar="NAME", help="device to project onto (see: hardware)")
    parser.add_argument("--source", metavar="NAME", help="device the run was measured on (default: as the trace says)")
    parser.add_argument(
        "--hardware-file", type=Path, action="append", default=[], metavar="TOML", help="add your own devices"
    )
    for name in _FACTORS:
        words = name.replace("_", "-")
        parser.add_argument(
            f"--{words}", type=float, default=1.0, metavar="X", help=f"factor on {words.replace('-', ' ')}"
        )
    parser.add_argument("--algorithm", choices=_ALGORITHMS, default="ring", help="of collectives on the target")
    parser.add_argument("--domain", type=int, default=0, metavar="N", help="devices in one scale-up domain")
    parser.add_argument("--no-overlap", action="store_true", help="communication never runs beside compute")
    parser.add_argument(
        "--sweep", action="append", default=[], metavar="KNOB=V,V,…", help="project for each value; twice for two knobs"
    )
    parser.add_argument("--tornado", action="store_true", help="halve and double every knob, most sensitive first")
    parser.add_argument(
        "--network", type=Path, metavar="YAML", help="ASTRA-sim network file: use its model (with --system)"
    )
    parser.add_argument("--system", type=Path, metavar="JSON", help="ASTRA-sim system file")
    add_files(parser)


def run(options: argparse.Namespace) -> int:
    """Project the run and print both totals."""
    if bool(options.network) != bool(options.system):
        raise AnalysisError("ASTRA-sim's model needs both --network and --system")
    if not options.network and not options.hardware:
        raise AnalysisError("say onto what: --hardware NAME, or --network and --system of ASTRA-sim")
    measured = opener(options)([options.path])
    document = _astrasim(measured, options) if options.network else _projected(measured, options)
    if options.csv:
        write_file(options.csv, csv_text(*_table(document)))
    if options.html:
        write_file(options.html, _page(document))
    if options.json:
        emit(document)
    else:
        _print(document)
    return EXIT_OK


def _projected(measured: Run, options: argparse.Namespace) -> dict[str, Any]:
    from chakra_core.project.projection import project_run, source_device
    from chakra_core.project.retime import Knobs

    catalogue = load_catalogue(options.hardware_file)
    target = get_device(options.hardware, catalogue)
    source = get_device(options.source, catalogue) if options.source else source_device(measured, catalogue)
    try:
        knobs = Knobs(
            **{name: getattr(options, name) for name in _FACTORS},
            overlap=not options.no_overlap, algorithm=options.algorithm, domain=options.domain,
        )  # fmt: skip
        document = _document(measured, project_run(measured, target, source=source, knobs=knobs), target.name)
        if options.sweep:
            document["sweep"] = _sweep(measured, (source, target), options.sweep, knobs)
        if options.tornado:
            document["tornado"] = _tornado(measured, (source, target), knobs)
    except ValueError as error:
        raise AnalysisError(str(error)) from error
    return document


def _astrasim(run_: Run, options: argparse.Namespace) -> dict[str, Any]:
    from chakra_core.project.astrasim.collectives import Cluster
    from chakra_core.project.astrasim.config import read_network, read_system
    from chakra_core.project.astrasim.replay import simulate_astrasim

    simulated = simulate_astrasim(run_, Cluster(read_network(options.network), read_system(options.system)))
    document = _document(run_, simulated, "ASTRA-sim model")
    document["finish_ns"] = {
        str(rank): trace.end_ns for rank, trace in zip(simulated.ranks, simulated.traces, strict=True)
    }
    return document


def _document(before: Run, after: Run, hardware: str) -> dict[str, Any]:
    return {
        "hardware": hardware,
        "source": before.label,
        "source_total_ns": _parts(before)["total_ns"],
        "projected_total_ns": _parts(after)["total_ns"],
        "source_breakdown": _parts(before),
        "breakdown": _parts(after),
        "source_span_ns": before.span_ns,
        "span_ns": after.span_ns,
        "time_kind": str(after.time_kind),
        "assumptions": list(after.assumptions),
    }


def _parts(run_: Run) -> dict[str, int]:
    """Parts of the breakdown, summed over the run's devices."""
    from chakra_core.analysis.breakdown import PARTS, breakdowns

    totals = [part.total for part in breakdowns(run_).values()]
    parts = {f"{name}_ns": sum(total.part(name) for total in totals) for name in PARTS}
    return {"total_ns": sum(parts.values()), **parts}


def _axes(texts: list[str]) -> list[tuple[str, list[float]]]:
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


def _sweep(run_: Run, devices: tuple[Device, Device], texts: list[str], knobs: Any) -> list[dict[str, Any]]:
    from chakra_core.project.sweep import sweep

    axes = _axes(texts)
    found = []
    for outcome in sweep(run_, devices[1], axes, source=devices[0], knobs=knobs):
        where = {name: getattr(outcome.knobs, name) for name, _ in axes}
        parts = {f"{name}_ns": value for name, value in outcome.parts_ns.items()}
        found.append({"knobs": where, "device_ns": outcome.total_ns, **parts, "span_ns": outcome.span_ns})
        complain(", ".join(f"{name} x {value:g}" for name, value in where.items()) + f": {_ms(outcome.total_ns)} ms")
    return found


def _tornado(run_: Run, devices: tuple[Device, Device], knobs: Any) -> list[dict[str, Any]]:
    from chakra_core.project.sweep import tornado

    swings = tornado(run_, devices[1], source=devices[0], knobs=knobs)
    return [
        {
            "knob": swing.knob,
            "half_ns": swing.low.total_ns,
            "double_ns": swing.high.total_ns,
            "width_ns": swing.width_ns,
        }
        for swing in swings
    ]


def _table(document: dict[str, Any]) -> tuple[list[str], list[list[object]]]:
    """What ``--csv`` writes: the sweep where there is one, else the tornado, else the parts of the time."""
    if sweep := document.get("sweep"):
        knobs = list(sweep[0]["knobs"])
        rest = [key for key in sweep[0] if key != "knobs"]
        return [*knobs, *rest], [
            [*(row["knobs"][name] for name in knobs), *(row[key] for key in rest)] for row in sweep
        ]
    if tornado := document.get("tornado"):
        return list(tornado[0]), [list(row.values()) for row in tornado]
    rows = [[name, before, document["breakdown"][name]] for name, before in document["source_breakdown"].items()]
    return ["part", document["source"], f"{document['hardware']} (simulated)"], rows


def _page(document: dict[str, Any]) -> str:
    from dashboard.figures.bars import Bar, breakdown_bars

    labels = (document["source"], f"{document['hardware']} (simulated)")
    bars = [
        Bar(label, {name.removesuffix("_ns"): value for name, value in document[key].items() if name != "total_ns"})
        for label, key in zip(labels, ("source_breakdown", "breakdown"), strict=True)
    ]
    sections: list[tuple[str, Text | Table | Figure]] = [
        ("Where the time goes (summed over devices)", Figure(breakdown_bars(bars))),
        ("Assumptions", Text(document["assumptions"])),
    ]
    if "sweep" in document or "tornado" in document:
        sections.append(("Sweep" if "sweep" in document else "Sensitivities", Table(*_table(document))))
    return html_page(f"{labels[0]} on {labels[1]}", sections)


def _print(document: dict[str, Any]) -> None:
    rows = [
        (name.removesuffix("_ns").replace("_", " "), _ms(before), _ms(document["breakdown"][name]))
        for name, before in document["source_breakdown"].items()
    ]
    print_table(("device time", f"{document['source']} ms", f"{document['hardware']} ms (simulated)"), rows)
    swings = [
        (row["knob"].replace("_", " "), _ms(row["half_ns"]), _ms(row["double_ns"]))
        for row in document.get("tornado", ())
    ]
    if swings:
        print_table(("knob", "halved ms", "doubled ms"), swings)
    for text in document["assumptions"]:
        complain(text)


def _ms(value: int) -> str:
    return f"{value / 1e6:,.3f}"


COMMAND = Command("project", "Project a run onto other hardware, or run it under ASTRA-sim's model.", configure, run)
