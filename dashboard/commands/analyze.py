"""``analyze``: every number of the dashboard, on the command line."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from chakra_core.trace import Run, Trace
from dashboard.commands.base import EXIT_FAILED, EXIT_OK, Command, complain, emit, print_table
from dashboard.commands.inputs import open_each
from dashboard.commands.scopes import add_scope, scope_for, select_ranks

__all__ = ["COMMAND"]

_SHOWN = 10


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="trace files, or folders of them")
    add_scope(parser)


def run(options: argparse.Namespace) -> int:
    """Analyse every trace found; a file that cannot be opened is reported and makes the status 1."""
    runs, errors = open_each(options.paths, options)
    records = [_analyse(one, trace, options) for one in runs for trace in select_ranks(one, options.ranks)]
    if options.json:
        emit({"traces": records, "errors": errors})
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
    }


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
    path = record["critical_path"]["dependency"]
    print_table(("dependency critical path", "ms"), [(f"{path['nodes']:,} nodes", f"{path['length_ns'] / 1e6:,.3f}")])


COMMAND = Command(
    "analyze", "Where the time of traces goes: breakdown, operators, kernels, critical path.", configure, run
)
