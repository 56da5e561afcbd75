"""``convert``: any readable trace to Chakra ``.et`` and other formats, fit for a simulator or to keep."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from chakra_core.errors import AnalysisError
from chakra_core.trace import Run
from dashboard.commands.base import EXIT_FAILED, EXIT_OK, Command, complain, emit, print_table
from dashboard.commands.scopes import add_scope, scope_for, select_ranks

__all__ = ["COMMAND"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("paths", nargs="+", type=Path, metavar="SRC", help="trace files of one run, or its folder")
    parser.add_argument(
        "-o", "--output", required=True, type=Path, metavar="OUT", help="prefix of the files: OUT.<rank>.et …"
    )
    parser.add_argument(
        "--to", metavar="FORMAT", help="et, json, chrome, graphml, dot, parquet, csv (default: by OUT, else et)"
    )
    parser.add_argument(
        "--for", dest="purpose", choices=("simulator", "archive"),
        help="obey the rules of simulators (default for et), or keep everything (default for the others)",
    )  # fmt: skip
    parser.add_argument("--gzip", action="store_true", help="compress the files")
    parser.add_argument(
        "--check", action="store_true", help="check the result against what simulators need; exit 1 where it fails"
    )
    add_scope(parser)


def run(options: argparse.Namespace) -> int:
    """Convert one run; exit 1 where ``--check`` finds that simulators would refuse the result."""
    from chakra_core.opening import open_run
    from chakra_core.writers.convert import convert

    source = open_run(options.paths)
    wanted, cut = _part(source, options)
    done = convert(
        wanted, options.output, to=_format(options), purpose=options.purpose, compress=options.gzip,
        progress=lambda _share, message: complain(message) if len(source.traces) > 16 else None,
    )  # fmt: skip
    document: dict[str, Any] = {
        "files": [str(path) for path in done.files],
        "groups_file": None if done.groups_file is None else str(done.groups_file),
        "format": _format(options),
        "purpose": str(done.purpose),
        "ranks": list(done.ranks),
        "source": {"label": source.label, "formats": sorted({trace.meta.format for trace in source.traces})},
        "changes": [{"code": one.code, "count": one.count, "message": one.text} for one in (*cut, *done.changes)],
    }
    if options.check:
        document["check"] = _check(done.files, done.groups, _format(options))
    if options.json:
        emit(document)
    else:
        _print(document)
    failed = options.check and document["check"]["problems"]
    return EXIT_FAILED if failed else EXIT_OK


def _format(options: argparse.Namespace) -> str:
    """The format that is asked for, else the one whose suffix the output has, else ``et``."""
    from chakra_core.writers import list_writers

    if options.to:
        return str(options.to)
    name = options.output.name.removesuffix(".gz")
    fitting = [writer for writer in list_writers() if name.endswith(writer.suffix)]
    return max(fitting, key=lambda writer: len(writer.suffix)).name if fitting else "et"


def _part(source: Run, options: argparse.Namespace) -> tuple[Run, tuple[Any, ...]]:
    """The ranks, steps and times that the options ask for."""
    from dataclasses import replace

    from chakra_core.writers.convert import part_of, rows_in

    chosen = replace(source, traces=tuple(select_ranks(source, options.ranks)))
    scopes = [scope_for(source, trace, options) for trace in chosen.traces]
    windows = [scope.window for scope in scopes]
    rows = [
        None if window is None else rows_in(trace, window) for trace, window in zip(chosen.traces, windows, strict=True)
    ]
    return part_of(chosen, rows)


def _check(files: tuple[Path, ...], groups: Any, name: str) -> dict[str, Any]:
    """Read the files again, and say what a simulator would refuse and how healthy they are."""
    from chakra_core.health import check_trace
    from chakra_core.opening import open_trace
    from chakra_core.writers.check import as_written, check_ranks

    if name not in ("et", "json"):
        raise AnalysisError(f"--check: {name} is no format that simulators read; use --to et")
    traces = [trace for path in files for trace in open_trace(path)]
    problems = check_ranks([as_written(trace) for trace in traces], groups)
    health = [finding for trace in traces for finding in check_trace(trace)]
    return {
        "problems": [{"code": one.code, "count": one.count, "message": one.message} for one in problems],
        "health": [
            {"code": one.code, "severity": str(one.severity), "count": one.count, "message": one.message}
            for one in health
        ],
    }


def _print(document: dict[str, Any]) -> None:
    for path in document["files"]:
        print_table((path,), [], width=400)
    if document["groups_file"]:
        print_table((f"{document['groups_file']}  (process groups)",), [], width=400)
    rows = [(one["code"], f"{one['count']:,}", one["message"]) for one in document["changes"]]
    if rows:
        print_table((f"for the {document['purpose']}", "count", ""), rows, width=120)
    if "check" not in document:
        return
    problems = document["check"]["problems"]
    print_table(("check", "count", "failed" if problems else "passed"), [
        (one["code"], f"{one['count']:,}", one["message"]) for one in problems
    ], width=120)  # fmt: skip
    for one in document["check"]["health"]:
        complain(f"{one['severity']}: {one['message']}")


COMMAND = Command(
    "convert", "Write a trace as Chakra .et, JSON, Chrome trace, GraphML, DOT, Parquet or CSV.", configure, run
)
