"""``analyze``: every number of the dashboard, on the command line."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from chakra_core.analysis.findings import Thresholds, find
from chakra_core.errors import AnalysisError
from chakra_core.trace import Run, Trace
from chakra_core.words import size
from dashboard.commands.base import EXIT_FAILED, EXIT_OK, Command, complain, emit, print_table
from dashboard.commands.inputs import add_together, open_each
from dashboard.commands.scopes import add_scope, scope_for, select_ranks

__all__ = ["COMMAND"]

_SHOWN = 10


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="trace files, or folders of them")
    add_together(parser)
    add_scope(parser)
    parser.add_argument(
        "--threshold", action="append", default=[], metavar="NAME=VALUE",
        help="change a threshold of the findings, e.g. idle_share=0.1; may be given several times",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Analyse every trace found; a file that cannot be opened is reported and makes the status 1."""
    runs, errors = open_each(options.paths, options)
    records = [_analyse(one, trace, options) for one in runs for trace in select_ranks(one, options.ranks)]
    across = [found for one in runs if (found := _across(one, options))]
    if options.json:
        emit({"traces": records, "runs": across, "errors": errors})
    else:
        for record in records:
            _print(record)
    for error in errors:
        complain(error["message"])
    return EXIT_FAILED if errors else EXIT_OK


def _analyse(one: Run, trace: Trace, options: argparse.Namespace) -> dict[str, Any]:
    from chakra_core.analysis import analyse_trace

    scope = scope_for(one, trace, options)
    return {
        "path": trace.meta.path,
        "run": one.label,
        "rank": trace.meta.rank,
        "time_kind": str(trace.meta.time_kind),
        "scope": {
            "range_ns": None if scope.window is None else [end - one.origin_ns for end in scope.window],
            "lanes": None if scope.lanes is None else sorted(scope.lanes),
        },
        **analyse_trace(trace, scope),
        "findings": [found.record(one.origin_ns) for found in find(Run((trace,), one.label), scope, _limits(options))],
    }


def _limits(options: argparse.Namespace) -> Thresholds:
    values: dict[str, float] = {}
    for entry in options.threshold:
        name, _, value = entry.partition("=")
        try:
            values[name.strip()] = float(value)
        except ValueError as error:
            raise AnalysisError(f"--threshold {entry}: expected NAME=VALUE with a number") from error
    return Thresholds().changed(values)


def _across(one: Run, options: argparse.Namespace) -> dict[str, Any] | None:
    """The findings over all ranks of a run that has several, in the scope of its first wanted rank."""
    traces = select_ranks(one, options.ranks)
    if len(traces) < 2:
        return None
    scope = replace(scope_for(one, traces[0], options), ranks=frozenset(trace.meta.rank for trace in traces))
    found = find(one, scope, _limits(options))
    return {"run": one.label, "ranks": sorted(scope.ranks or ()), "findings": [f.record(one.origin_ns) for f in found]}


def _print(record: dict[str, Any]) -> None:
    print_table((f"{record['run']}  rank {record['rank']}", record["path"]), [])
    parts = record["breakdown"]
    if parts["total_ns"]:
        total = parts["total_ns"]
        print_table(
            ("part", "ms", "share"),
            [
                (name.removesuffix("_ns").replace("_", " "), f"{parts[name] / 1e6:,.3f}", f"{parts[name] / total:.1%}")
                for name in ("total_ns", "compute_ns", "exposed_comm_ns", "exposed_memory_ns", "idle_ns")
            ],
        )
    for title, key in (("operator", "top_operators"), ("kernel", "kernels")):
        rows = [(row["name"], row["count"], f"{row['total_ns'] / 1e6:,.3f}") for row in record[key][:_SHOWN]]
        if rows:
            print_table((title, "count", "total ms"), rows)
    _print_moved(record)
    found = [
        (entry["title"], "" if entry["saving_ns"] is None else f"{entry['saving_ns'] / 1e6:,.3f}")
        for entry in record["findings"][:_SHOWN]
    ]
    if found:
        print_table(("finding", "saves at most, ms"), found)
    path = record["critical_path"]["dependency"]
    print_table(("dependency critical path", "ms"), [(f"{path['nodes']:,} nodes", f"{path['length_ns'] / 1e6:,.3f}")])


def _print_moved(record: dict[str, Any]) -> None:
    """Collectives and memory, where the trace has any."""
    rows = [
        (
            entry["op"], "?" if entry["bytes"] is None else size(entry["bytes"]), entry["count"],
            f"{entry['total_ns'] / 1e6:,.3f}", "?" if entry["busbw_gbps"] is None else f"{entry['busbw_gbps']:,.3f}",
        )
        for entry in record["collectives"][:_SHOWN]
    ]  # fmt: skip
    if rows:
        print_table(("collective", "size", "count", "total ms", "busbw GB/s"), rows)
    peaks = [(entry["place"], size(entry["peak_bytes"])) for entry in record["memory"]["devices"][:_SHOWN]]
    if peaks:
        print_table(("memory", "peak"), peaks)


COMMAND = Command(
    "analyze", "Where the time of traces goes: breakdown, operators, kernels, critical path.", configure, run
)
