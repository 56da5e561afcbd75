"""``info``: what a trace is and how healthy it is."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from chakra_core.trace import HealthFinding, Run, Trace
from dashboard.commands.base import EXIT_FAILED, EXIT_OK, Command, complain, emit, print_table
from dashboard.commands.inputs import add_together, open_each

__all__ = ["COMMAND", "describe"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="trace files, or folders of them")
    add_together(parser)


def run(options: argparse.Namespace) -> int:
    """Describe every trace found; a file that cannot be opened is reported and makes the status 1."""
    runs, errors = open_each(options.paths, options)
    if options.json:
        emit(
            {"traces": [describe(trace) for one in runs for trace in one.traces], "errors": errors, "runs": _runs(runs)}
        )
    else:
        for one in runs:
            _print(one)
    for error in errors:
        complain(error["message"])
    return EXIT_FAILED if errors else EXIT_OK


def describe(trace: Trace) -> dict[str, Any]:
    """The facts about one trace, by the keys of the JSON contract."""
    meta = trace.meta
    return {
        "path": meta.path,
        "format": meta.format,
        "schema": meta.schema,
        "rank": meta.rank,
        "world_size": meta.world_size,
        "nodes": len(trace),
        "device_nodes": len(trace.device_rows),
        "edges": len(trace.edges),
        "events": meta.events,
        "time_kind": str(meta.time_kind),
        "span_ns": trace.span_ns,
        "hardware": meta.hardware,
        "link": meta.details.get("link"),
        "health": [_finding(finding) for finding in trace.health],
    }


def _finding(finding: HealthFinding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "severity": str(finding.severity),
        "count": finding.count,
        "message": finding.message,
        "remedy": finding.remedy,
    }


def _runs(runs: list[Run]) -> list[dict[str, Any]]:
    return [
        {
            "label": one.label,
            "ranks": list(one.ranks),
            "hardware": one.hardware,
            "time_kind": str(one.time_kind),
            "span_ns": one.span_ns,
            "assumptions": list(one.assumptions),
            "health": [_finding(finding) for finding in one.health],
        }
        for one in runs
    ]


def _print(one: Run) -> None:
    print_table(
        ("rank", "format", "schema", "nodes", "device", "edges", "times", "span ms", "hardware", "file"),
        [
            (
                trace.meta.rank, trace.meta.format, trace.meta.schema or "-", f"{len(trace):,}",
                f"{len(trace.device_rows):,}", f"{len(trace.edges):,}", trace.meta.time_kind,
                f"{trace.span_ns / 1e6:,.3f}", trace.meta.hardware or "-", trace.meta.path,
            )
            for trace in one.traces
        ],
    )  # fmt: skip
    for text in one.assumptions:
        complain(f"{one.label}: {text}")
    findings = [finding for trace in one.traces for finding in trace.health] + list(one.health)
    for finding in sorted(findings, key=lambda entry: entry.count, reverse=True):
        complain(f"{finding.severity}: {finding.message} {finding.remedy}")


COMMAND = Command("info", "Say what traces are: format, ranks, nodes, times, health.", configure, run)
