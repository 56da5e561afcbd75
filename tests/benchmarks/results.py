"""RESULTS.md from what a run of the benchmarks found: tables, targets met or not, how straight growth is."""

from __future__ import annotations

import os
import platform
import textwrap
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.plot import Line, growth_svg

__all__ = ["deviations", "write_results"]

_Found = dict[str, Any]
_WHAT = {
    "read_bytes": "floor: read the bytes",
    "et_parse": "floor: upb `ParseFromString` of every message",
    "et_scan": "**ours: columns**",
    "et_trace": "**ours: ready Trace**",
    "first_opening": "ours: first opening, times reconstructed where there are none, kept in the store",
    "second_opening": "**ours: second opening, from the store**",
    "et_loop": "peer: loop over protobuf messages, same columns",
    "Chakra": "peer: Chakra's protolib, messages decoded, no columns",
    "kineto_floor": "floor: inflate and msgspec typed decode",
    "kineto_trace": "**ours: ready Trace**",
    "kineto_json": "peer: Python's json, parse only",
    "HTA": "peer: HolisticTraceAnalysis, trace loaded",
    "TraceLens": "peer: TraceLens, tree built",
    "orjson": "peer: orjson and one dictionary per event, with which TraceLens begins",
    "Perfetto": "peer: Perfetto's trace processor",
}


def write_results(out: Path, found: _Found) -> None:
    """Write ``RESULTS.md`` and ``growth.svg`` into a folder."""
    parts = [_head(found), _targets(found)]
    parts.append(_table("Chakra `.et`, a million nodes", found["et"], "et_trace"))
    parts.append(_table("PyTorch profiler JSON, a million events", found["kineto"], "kineto_trace"))
    parts.append(_table("The same, gzip", found["gz"], "kineto_trace"))
    parts.append(_table("A gigabyte of it", found["large"], "kineto_trace"))
    parts += [_kernels(found), _projection(found["project"]), _pictures(found), _growth(found)]
    (out / "RESULTS.md").write_text("\n".join(parts))
    (out / "growth.svg").write_text(_picture(found))


def _head(found: _Found) -> str:
    memory = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal"))
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "numba", "msgspec", "protobuf"))
    scale = "" if found["scale"] == 1 else f" Sizes are {found['scale']:g} of those named."
    load = " to ".join(f"{value:.1f}" for value in found["load"])
    text = (
        f"Written by `make bench` (`python -m tests.benchmarks`), {found['began']}, on {os.cpu_count()} shared "
        f"{platform.machine()} cores, {int(memory.split()[1]) / 1e6:.0f} GB of memory, {platform.system()}, "
        f"Python {platform.python_version()}, {packages}.{scale} Other work ran on the machine (load average {load}), "
        "so compare within a table: everything in one was measured within minutes, each reading in a process of its own, kernels compiled "
        "beforehand, the median of three where it takes less than five seconds. *Ratio* is to ours; *peak* is "
        "resident memory, *above start* without what the process held before it began."
    )
    return f"# Measured\n\n{textwrap.fill(text, 118)}\n"


def _ratio(one: float, other: float) -> str:
    return f"{one / other:.2f}" if one < 10 * other else f"{one / other:.0f}"


def _table(title: str, rows: _Found, ours: str) -> str:
    size = rows[ours]["file_mb"]
    lines = [f"## {title} ({size:,.0f} MB)\n", "| | s | ratio | peak MB | above start |", "|---|---|---|---|---|"]
    base = rows[ours]["seconds"]
    for name, row in rows.items():
        if "skipped" in row:
            lines.append(f"| {_WHAT[name]} | skipped: {row['skipped']} | | | |")
            continue
        above = f"{row['peak_mb'] - row['before_mb']:,.0f}" if "before_mb" in row else ""
        lines.append(
            f"| {_WHAT[name]} | {row['seconds']:.2f} | {_ratio(row['seconds'], base)} | {row['peak_mb']:,.0f} | {above} |"
        )
    return "\n".join(lines) + "\n"


def _targets(found: _Found) -> str:
    lines = ["## Targets\n", "| | target | measured | |", "|---|---|---|---|"]
    for what, target, value, met in _checks(found):
        lines.append(f"| {what} | {target} | {value} | {'met' if met else '**missed**'} |")
    return "\n".join(lines) + "\n"


def _checks(found: _Found) -> Iterable[tuple[str, str, str, bool]]:
    yield from _et_checks(found)
    yield from _kineto_checks(found)
    yield from _other_checks(found)
    yield from _project_checks(found["project"])


def _et_checks(found: _Found) -> Iterable[tuple[str, str, str, bool]]:
    et = found["et"]
    ours = et["et_scan"]["seconds"]
    gain = et["et_loop"]["seconds"] / ours
    yield ".et: columns, against a protobuf loop", "≥ 5 times faster", f"{gain:.1f} times", gain >= 5
    share = ours / et["et_parse"]["seconds"]
    yield ".et: columns, against upb merely parsing", "≤ 2.5 times", f"{share:.2f} times", share <= 2.5
    row = et["et_trace"]
    above = (row["peak_mb"] - row["before_mb"]) * 1.048576 - row["columns_mb"]
    share = above / row["file_mb"]
    yield ".et: peak above the columns, of the file's size", "≤ 0.5", f"{share:.2f}", share <= 0.5
    again = et["second_opening"]["seconds"]
    yield ".et: second opening", "≤ 0.3 s", f"{again:.2f} s", again <= 0.3
    last = found["growth_et"][-1]
    text = f"{last['seconds']:.1f} s, {last['peak_mb'] / 1000:.1f} GB, {last['progress']:,} reports of progress"
    what = f".et: {last['nodes']:,} nodes, {last['file_mb'] / 1000:.1f} GB, opens"
    yield what, "within 24 GiB, progress", text, last["peak_mb"] < 24_000 and last["progress"] > 10


def _kineto_checks(found: _Found) -> Iterable[tuple[str, str, str, bool]]:
    kineto = found["kineto"]
    ours = kineto["kineto_trace"]
    for name, least in (("HTA", 12.0), ("TraceLens", 5.0)):
        row = kineto[name]
        if "skipped" not in row:
            gain = row["seconds"] / ours["seconds"]
            yield (
                f"Kineto: ready Trace, against {name}",
                f"≥ {least:g} times faster",
                f"{gain:.1f} times",
                gain >= least,
            )
        elif name == "TraceLens" and "skipped" not in kineto["orjson"]:
            gain = kineto["orjson"]["seconds"] / ours["seconds"]
            value = f"TraceLens not installable; what it begins with alone: {gain:.1f} times"
            yield "Kineto: ready Trace, against TraceLens", f"≥ {least:g} times faster", value, gain >= least
    share = ours["seconds"] / kineto["kineto_floor"]["seconds"]
    yield "Kineto: against the floor", "≤ 4 times", f"{share:.2f} times", share <= 4
    share = found["gz"]["kineto_trace"]["seconds"] / found["gz"]["kineto_floor"]["seconds"]
    yield "Kineto, gzip: against the floor", "≤ 4 times", f"{share:.2f} times", share <= 4
    peak = ours["peak_mb"] * 1.048576
    yield "Kineto: peak at a million events", "≤ 700 MB", f"{peak:,.0f} MB", peak <= 700
    large = found["large"]["kineto_trace"]
    share = large["peak_mb"] * 1.048576 / large["file_mb"]
    value = f"{share:.2f} ({large['file_mb']:,.0f} MB in {large['seconds']:.1f} s)"
    yield "Kineto: 1 GB opens, peak of the file's size", "≤ 1.0", value, share <= 1.0


def _other_checks(found: _Found) -> Iterable[tuple[str, str, str, bool]]:
    kernels, lod, graph, browser = (found[name] for name in ("kernels", "lod", "graph", "browser"))
    limits = {"path": 0.15, "reconstruct": 0.8}
    what = {"path": "longest path and slack", "reconstruct": "schedule reconstruction"}
    for name, most in limits.items():
        yield f"1 M nodes, 2.5 M edges: {what[name]}", f"≤ {most} s", f"{kernels[name]:.3f} s", kernels[name] <= most
    both = kernels["breakdown"]
    yield "1 M intervals: breakdown with overlap", "≤ 0.2 s", f"{both:.3f} s", both <= 0.2
    value = f"{lod['p95_ms']:.1f} ms"
    yield "Timeline, 10 M events: `lod.query` p95", "≤ 20 ms", value, lod["p95_ms"] <= 20
    if "skipped" in browser:
        yield "Timeline, 10 M events: gesture to detail, p95", "≤ 250 ms", f"skipped: {browser['skipped']}", False
    else:
        value = f"{browser['settle_p95_ms']:.0f} ms, at most {browser['most_rectangles']:,} rectangles"
        met = browser["settle_p95_ms"] <= 250 and browser["most_rectangles"] <= 4000
        yield "Timeline, 10 M events: gesture to detail, p95", "≤ 250 ms, ≤ 4,000 rectangles", value, met
    value = f"{graph['most_elements']:,.0f}"
    yield "Graph, 1 M nodes: boxes and arrows at most", "≤ 1,500", value, graph["most_elements"] <= graph["limit"]
    for kind in ("et", "kineto"):
        for key, label in (("work", "processor time"), ("peak_mb", "memory")):
            worst = max(map(abs, deviations(found[f"growth_{kind}"], key)))
            yield f"Growth, {kind}: {label} off a straight line", "≤ 15 %", f"{100 * worst:.0f} %", worst <= 0.15


def _project_checks(project: _Found) -> Iterable[tuple[str, str, str, bool]]:
    if "skipped" in project:
        yield "Projection", "measured", f"skipped: {project['skipped']}", False
        return
    rate = project["nodes"] / project["replay"] / 1e6
    yield "Replay of all ranks", "≥ 1 M nodes/s", f"{rate:.1f} M nodes/s", rate >= 1
    what = f"Projection, {project['ranks']:.0f} ranks of {project['nodes'] / project['ranks']:,.0f} nodes"
    yield what, "< 10 s", f"{project['project']:.1f} s", project["project"] < 10


def _kernels(found: _Found) -> str:
    k, hta = found["kernels"], found["kineto"]["HTA"]
    ours = found["kineto"]["kineto_trace"]["breakdown_s"]
    lines = [
        "## Kernels, a million nodes\n",
        f"{k['edges']:,.0f} dependencies; the intervals are on two devices with four streams each.\n",
        "| | s | ratio |", "|---|---|---|",
        f"| floor: dependencies reversed, topological order | {k['order']:.3f} | {_ratio(k['order'], k['path'])} |",
        f"| **ours: longest path and slack** | {k['path']:.3f} | 1 |",
        f"| peer: networkx `dag_longest_path_length`, no slack | {k['networkx']:.3f} | {_ratio(k['networkx'], k['path'])} |",
        f"| **ours: schedule reconstruction** | {k['reconstruct']:.3f} | {_ratio(k['reconstruct'], k['path'])} |",
        f"| floor: sort the starts | {k['sort']:.3f} | {_ratio(k['sort'], k['breakdown'])} |",
        f"| **ours: breakdown, idle causes, overlap** | {k['breakdown']:.3f} | 1 |",
        f"| ours: overlap alone | {k['overlap']:.3f} | {_ratio(k['overlap'], k['breakdown'])} |",
        f"| **ours: breakdown of the million-event file** | {ours:.3f} | 1 |",
    ]  # fmt: skip
    said = (
        f"| {hta['breakdown_s']:.3f} | {_ratio(hta['breakdown_s'], ours)} |"
        if "breakdown_s" in hta
        else "| skipped | |"
    )
    return "\n".join([*lines, f"| peer: HTA's breakdown of the same file {said}"]) + "\n"


def _projection(project: _Found) -> str:
    if "skipped" in project:
        return f"## Projection\n\nskipped: {project['skipped']}\n"
    rows = {
        "floor": "floor: copy of the columns", "replay": "**ours: replay with dependencies, streams, rendezvous**",
        "simulate": "ours: durations by roofline and alpha-beta, replay", "project": "**ours: projection onto another device**",
    }  # fmt: skip
    lines = [
        f"## Projection, {project['ranks']:.0f} ranks, {project['nodes']:,.0f} nodes, {project['edges']:,.0f} dependencies\n",
        "| | s | M nodes/s |", "|---|---|---|",
        *(f"| {words} | {project[key]:.2f} | {project['nodes'] / project[key] / 1e6:.1f} |" for key, words in rows.items()),
        f"| ours: sweep of {project['points']:.0f} points, {project['sweep_ranks']:.0f} of the ranks | {project['sweep']:.2f} | |",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _pictures(found: _Found) -> str:
    lod, graph, browser = found["lod"], found["graph"], found["browser"]
    lines = [
        "## Pictures\n",
        "| | |", "|---|---|",
        f"| level of detail of {lod['events']:,} events: built in | {lod['build_s']:.2f} s |",
        f"| `lod.query`, 400 random windows, 60 rows: p50, p95, worst | {lod['p50_ms']:.1f}, {lod['p95_ms']:.1f}, {lod['max_ms']:.1f} ms |",
        f"| most rectangles in an answer | {lod['most_rectangles']:,} |",
    ]  # fmt: skip
    if "skipped" in browser:
        lines.append(f"| timeline in a browser | skipped: {browser['skipped']} |")
    else:
        times = ", ".join(f"{browser[f'settle_{share}_ms']:.0f}" for share in ("p50", "p95", "max"))
        lines += [
            f"| {browser['gestures']} drags and zooms in Chromium, {browser['answered_by_the_server']} of them asked the server |  |",
            f"| last movement to the frame with the detail (60 ms of it waiting for quiet): p50, p95, worst | {times} ms |",
            f"| request, p95; drawing, p95 | {browser['fetch_p95_ms']:.0f} ms; {browser['draw_p95_ms']:.1f} ms |",
        ]
    names = {"tree_ms": "groups of a million nodes, folded (once)", "what_to_open_ms": "what to open (once)",
             "first_picture_ms": "first picture", "everything_open_ms": "everything opened", "layout_ms": "its layout",
             "neighbourhood_ms": "neighbourhood"}  # fmt: skip
    lines += [f"| graph: {label} | {graph[key]:.0f} ms |" for key, label in names.items()]
    return "\n".join(lines) + "\n"


def deviations(rows: Sequence[_Found], key: str) -> list[float]:
    """How far each measured value is off the straight line a + b n that fits best (least relative error), as shares."""
    n = np.array([row["nodes"] for row in rows], float)
    value = np.array([row[key] for row in rows], float)
    terms = np.stack([np.ones_like(n), n], axis=1) / value[:, None]
    fit, *_ = np.linalg.lstsq(terms, np.ones_like(n), rcond=None)
    shares: list[float] = (value / (fit[0] + fit[1] * n) - 1).tolist()
    return shares


def _growth(found: _Found) -> str:
    lines = [
        "## Growth\n",
        "![time and memory over the number of events](growth.svg)\n",
        textwrap.fill(
            "Up to the ready Trace. *s* and *peak* are those of a file as it is opened. *Work* is the fewest seconds of "
            "processor of five runs (three where it takes long) in a process that has filled and freed enough memory "
            "beforehand: this virtual machine gives free memory back to its host, and getting it again costs up to half "
            "of the time of large files and next to none of that of small ones. *Off* is the distance from the straight "
            "line a + b n that fits best; dotted in the plot: exact proportion. Nodes of a Kineto file are fewer than "
            "its events (flows, instants).",
            118,
        )
        + "\n",
        "| file | nodes | MB | s | work | off | ns a node | peak MB | off | B a node |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for kind, label in (("et", "`.et`"), ("kineto", "Kineto")):
        rows = found[f"growth_{kind}"]
        off = zip(deviations(rows, "work"), deviations(rows, "peak_mb"), strict=True)
        for row, (time, memory) in zip(rows, off, strict=True):
            above = (row["peak_mb"] - row["before_mb"]) * 2**20
            lines.append(
                f"| {label} | {row['nodes']:,} | {row['file_mb']:,.0f} | {row['seconds']:.2f} | {row['work']:.2f} | {100 * time:+.0f} % "
                f"| {1e9 * row['work'] / row['nodes']:,.0f} | {row['peak_mb']:,.0f} | {100 * memory:+.0f} % "
                f"| {above / row['nodes']:,.0f} |"
            )
    return "\n".join(lines) + "\n"


def _picture(found: _Found) -> str:
    def lines(key: str) -> list[Line]:
        return [
            Line(label, [row["nodes"] for row in rows], [row[key] for row in rows])
            for label, rows in (("Chakra .et", found["growth_et"]), ("Kineto JSON", found["growth_kineto"]))
        ]

    return growth_svg(
        [
            ("work to a ready Trace in seconds of processor, by nodes", lines("work")),
            ("peak MB, by nodes", lines("peak_mb")),
        ]
    )
