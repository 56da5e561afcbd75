"""``project``: a run's time on other hardware or under ASTRA-sim's model, with the assumptions beside the result."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chakra_core.errors import AnalysisError
from chakra_core.hardware import PRECISIONS, get_device, load_catalogue
from chakra_core.trace import Run
from dashboard.commands import _project_studies as studies
from dashboard.commands._project_studies import ms
from dashboard.commands.base import EXIT_OK, Command, add_files, complain, emit, print_table, write_file
from dashboard.commands.inputs import opener
from dashboard.reports import Figure, Table, Text, csv_text, html_page

if TYPE_CHECKING:
    from chakra_core.project.retime import Knobs

__all__ = ["COMMAND"]

_FACTORS = ("compute", "memory", "link", "latency", "launch", "compression", "data_parallel")
_ALGORITHMS = ("ring", "direct", "halving-doubling", "tree", "hierarchical", "auto")


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
    parser.add_argument(
        "--algorithm",
        choices=_ALGORITHMS,
        default="ring",
        help="of collectives on the target (NCCL-like alpha-beta times)",
    )
    parser.add_argument("--domain", type=int, default=0, metavar="N", help="devices in one scale-up domain")
    parser.add_argument(
        "--map", default="", metavar="GROUP=PLACE,…", dest="mapping",
        help="put process groups inside a scale-up domain or across the outer network, e.g. tp=inside,dp=across",
    )  # fmt: skip
    parser.add_argument("--precision", choices=PRECISIONS, default="bf16", help="whose peaks are compared")
    parser.add_argument("--no-overlap", action="store_true", help="communication never runs beside compute")
    _configure_studies(parser)
    add_files(parser)


def _configure_studies(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--sweep", action="append", default=[], metavar="KNOB=V,V,…", help="project for each value; twice for two knobs"
    )
    parser.add_argument("--tornado", action="store_true", help="halve and double every knob, most sensitive first")
    parser.add_argument("--devices", action="store_true", help="project onto every device, fastest first")
    parser.add_argument(
        "--cost",
        action="append",
        default=[],
        metavar="DEVICE=N",
        help="price or watts of a device: cost beside benefit",
    )
    parser.add_argument(
        "--network", type=Path, metavar="YAML", help="ASTRA-sim network file: use its model (with --system)"
    )
    parser.add_argument("--system", type=Path, metavar="JSON", help="ASTRA-sim system file")
    parser.add_argument(
        "--simulator-inputs", type=Path, metavar="DIR", help="also write everything that ASTRA-sim needs to run this"
    )


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
    from chakra_core.project.astrasim.inputs import cluster_of
    from chakra_core.project.projection import project_run, source_device

    catalogue = load_catalogue(options.hardware_file)
    target = get_device(options.hardware, catalogue)
    source = get_device(options.source, catalogue) if options.source else source_device(measured, catalogue)
    stated = studies.costs(options.cost, catalogue)
    try:
        knobs = _knobs(options)
        projected = project_run(measured, target, source=source, knobs=knobs)
        document = _document(measured, projected, target.name)
        if options.sweep:
            document["sweep"] = studies.knob_sweep(measured, (source, target), options.sweep, knobs)
        if options.tornado:
            document["tornado"] = studies.sensitivities(measured, (source, target), knobs)
    except ValueError as error:
        raise AnalysisError(str(error)) from error
    if options.devices or stated:
        document |= studies.devices(measured, source, catalogue, knobs, stated)
    if options.simulator_inputs:
        ranks = len(measured.traces) if len(measured.traces) > 1 else max(measured.traces[0].meta.world_size, 2)
        network, system = cluster_of(target, ranks, domain=knobs.domain, algorithm=knobs.algorithm)
        document["simulator_inputs"] = studies.simulator_inputs(projected, options.simulator_inputs, network, system)
    return document


def _knobs(options: argparse.Namespace) -> Knobs:
    from chakra_core.project.mapping import parse_mapping
    from chakra_core.project.retime import Knobs

    return Knobs(
        **{name: getattr(options, name) for name in _FACTORS},
        overlap=not options.no_overlap, algorithm=options.algorithm, domain=options.domain,
        precision=options.precision, mapping=parse_mapping(options.mapping),
    )  # fmt: skip


def _astrasim(run_: Run, options: argparse.Namespace) -> dict[str, Any]:
    from chakra_core.project.astrasim.collectives import Cluster
    from chakra_core.project.astrasim.config import read_network, read_system
    from chakra_core.project.astrasim.replay import simulate_astrasim

    network, system = read_network(options.network), read_system(options.system)
    simulated = simulate_astrasim(run_, Cluster(network, system))
    document = _document(run_, simulated, "ASTRA-sim model")
    document["finish_ns"] = {
        str(rank): trace.end_ns for rank, trace in zip(simulated.ranks, simulated.traces, strict=True)
    }
    if options.simulator_inputs:
        document["simulator_inputs"] = studies.simulator_inputs(run_, options.simulator_inputs, network, system)
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


def _table(document: dict[str, Any]) -> tuple[list[str], list[list[object]]]:
    """What ``--csv`` writes: the sweep where there is one, else costs, devices, the tornado, else the parts."""
    if sweep := document.get("sweep"):
        knobs = list(sweep[0]["knobs"])
        rest = [key for key in sweep[0] if key != "knobs"]
        return [*knobs, *rest], [
            [*(row["knobs"][name] for name in knobs), *(row[key] for key in rest)] for row in sweep
        ]
    for key in ("costs", "devices", "tornado"):
        if records := document.get(key):
            return list(records[0]), [list(row.values()) for row in records]
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
    studied = {"sweep": "Sweep", "costs": "Cost and benefit", "devices": "Every device", "tornado": "Sensitivities"}
    for key, title in studied.items():
        if key in document:
            sections.append((title, Table(*_table({key: document[key]}))))
    return html_page(f"{labels[0]} on {labels[1]}", sections)


def _print(document: dict[str, Any]) -> None:
    rows = [
        (name.removesuffix("_ns").replace("_", " "), ms(before), ms(document["breakdown"][name]))
        for name, before in document["source_breakdown"].items()
    ]
    print_table(("device time", f"{document['source']} ms", f"{document['hardware']} ms (simulated)"), rows)
    swings = [
        (row["knob"].replace("_", " "), ms(row["half_ns"]), ms(row["double_ns"])) for row in document.get("tornado", ())
    ]
    if swings:
        print_table(("knob", "halved ms", "doubled ms"), swings)
    every = [
        (row["device"], "-" if row["device_ns"] is None else ms(row["device_ns"]), row["note"])
        for row in document.get("devices", ())
    ]
    if every:
        print_table(("device", "device time ms", ""), every)
    priced = [
        (row["device"], f"{row['cost']:,g}", ms(row["device_ns"]), f"{row['speedup']:.2f}", f"{row['cost_seconds']:,.4g}",
         "not beaten" if row["not_beaten"] else "")
        for row in document.get("costs", ())
    ]  # fmt: skip
    if priced:
        print_table(("device", "cost", "device time ms", "speed-up", "cost x s", ""), priced)
    if inputs := document.get("simulator_inputs"):
        print_table((inputs["command"],), [], width=2000)
    for text in document["assumptions"]:
        complain(text)


COMMAND = Command("project", "Project a run onto other hardware, or run it under ASTRA-sim's model.", configure, run)
