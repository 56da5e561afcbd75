"""``compare``: runs side by side, operator by operator, against a baseline."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from chakra_core.errors import AnalysisError
from dashboard.commands._by_id import group_table, print_by_id, rank_table
from dashboard.commands.base import EXIT_OK, Command, add_files, complain, emit, print_table, write_file
from dashboard.commands.inputs import opener
from dashboard.reports import Figure, Table, Text, csv_text, html_page

__all__ = ["COMMAND"]

_SHOWN = 15
_IN_PAGE = 500
_PARTS = ("compute_ns", "exposed_comm_ns", "exposed_memory_ns", "idle_ns")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "paths", nargs="+", type=Path, metavar="RUN", help="two or more runs: files, or folders of ranks"
    )
    add_files(parser)
    parser.add_argument(
        "--by",
        choices=("operator", "step", "module", "layer", "name", "id"),
        default="operator",
        help="what work of the runs corresponds by (default: operator, by structure, name and shapes); id: also node "
        "by node, as for a projection beside a simulator's log of the same workload",
    )
    parser.add_argument(
        "--pin",
        action="append",
        default=[],
        metavar="A=B",
        help="operator A of the baseline corresponds to B of the other runs, whatever their shapes; or two nodes, as "
        "#ID=#ID (#RANK/ID for another rank than the first); may be given several times",
    )
    parser.add_argument("--baseline", type=int, default=0, metavar="N", help="which run to compare with (default: 0)")


def run(options: argparse.Namespace) -> int:
    """Compare the runs; every one must open."""
    from chakra_core.analysis.compare import as_json, compare
    from chakra_core.analysis.pins import parse_pins

    if len(options.paths) < 2:
        raise AnalysisError("compare needs at least two runs")
    if not 0 <= options.baseline < len(options.paths):
        raise AnalysisError(f"--baseline {options.baseline}: there are runs 0 to {len(options.paths) - 1}")
    open_run = opener(options)
    runs = [open_run([path]) for path in options.paths]
    pins = {at: parse_pins(options.pin, runs[options.baseline], run)
            for at, run in enumerate(runs) if at != options.baseline}  # fmt: skip
    by = "operator" if options.by == "id" else options.by
    document = as_json(compare(runs, baseline=options.baseline, by=by, pins=pins))
    if options.by == "id":
        from chakra_core.analysis import by_id

        others = [run for at, run in enumerate(runs) if at != options.baseline]
        document["by_id"] = [by_id.as_json(by_id.compare_by_id(runs[options.baseline], run)) for run in others]
    if options.csv:
        found = document.get("by_id")
        write_file(options.csv, csv_text(*(group_table(found[0]) if found else _operator_table(document))))
    if options.html:
        write_file(options.html, _page(document))
    if options.json:
        emit(document)
    else:
        _print(document)
    return EXIT_OK


def _operator_table(document: dict[str, Any]) -> tuple[list[str], list[list[object]]]:
    labels = [run["label"] for run in document["runs"]]
    header = [
        "operator",
        "category",
        "matched by",
        f"{document['baseline']['label']} ns",
        *(f"{name} ns" for name in labels),
    ]
    header += [f"{document['baseline']['label']} calls", *(f"{name} calls" for name in labels)]
    rows = [
        [
            row["name"], row["category"], row["how"] if row["matched"] else "unmatched", row["baseline_ns"], *row["runs_ns"],
            row["baseline_calls"], *row["runs_calls"],
        ]
        for row in document["operators"]
    ]  # fmt: skip
    return header, rows


def _page(document: dict[str, Any]) -> str:
    from dashboard.figures.bars import Bar, breakdown_bars, waterfall

    base = document["baseline"]
    runs = [base, *document["runs"]]
    bars = [Bar(run["label"], {part.removesuffix("_ns"): run[part] for part in _PARTS}) for run in runs]
    sections: list[tuple[str, Text | Table | Figure]] = [("Where the time goes", Figure(breakdown_bars(bars)))]
    for run in document["runs"]:
        change = {part.removesuffix("_ns"): run["delta"][part] for part in _PARTS}
        figure = waterfall(base["total_ns"], change, names=(base["label"], run["label"]))
        sections.append((f"From {base['label']} to {run['label']}", Figure(figure)))
    header, rows = _operator_table(document)
    sections.append(
        (f"Operators (the {min(_IN_PAGE, len(rows)):,} with the largest difference)", Table(header, rows[:_IN_PAGE]))
    )
    for found in document.get("by_id", ()):
        sections.append((f"When ranks end: {found['baseline']} and {found['run']}", Table(*rank_table(found))))
        sections.append(("Operators and collectives, node by node", Table(*group_table(found))))
    if document["warnings"]:
        sections.append(("To bear in mind", Text(document["warnings"])))
    return html_page(f"{base['label']} compared with {', '.join(run['label'] for run in document['runs'])}", sections)


def _print(document: dict[str, Any]) -> None:
    names = [run["label"] for run in document["runs"]]
    base = document["baseline"]
    rows: list[tuple[object, ...]] = [("baseline", base["label"], *(_ms(base[part]) for part in _PARTS))]
    rows += [("delta", one["label"], *(_ms(one["delta"][part]) for part in _PARTS)) for one in document["runs"]]
    print_table(("", "run", *(part.removesuffix("_ns").replace("_", " ") + " ms" for part in _PARTS)), rows)
    operators = [
        (row["name"], _ms(row["baseline_ns"]), *(_ms(value) for value in row["runs_ns"]))
        for row in document["operators"][:_SHOWN]
    ]
    print_table(("operator", f"{base['label']} ms", *(f"{name} ms" for name in names)), operators)
    for found in document.get("by_id", ()):
        print_by_id(found)
    for text in document["warnings"]:
        complain(text)


def _ms(value: int) -> str:
    return f"{value / 1e6:,.3f}"


COMMAND = Command("compare", "Compare runs with a baseline, operator by operator.", configure, run)
