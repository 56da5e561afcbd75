"""Time projection and replay: ``python -m tests.benchmarks.bench_project [ranks] [nodes]`` (32 ranks of 100,000 nodes).

A generated transformer run of that size is given durations on one device and replayed (dependencies, streams,
rendezvous of all ranks), then projected onto another device; then one projection per value of a sweep of 20 on an
eighth of the ranks. Compiled beforehand. The floor is one pass over the same columns (a copy).
"""

from __future__ import annotations

import sys
import time

import numpy as np

from chakra_core.hardware import get_device
from chakra_core.project.projection import project_run
from chakra_core.project.simulate import simulate_run
from chakra_core.project.sweep import sweep
from chakra_core.schedule import replay
from chakra_core.synth import TransformerConfig, transformer_run
from chakra_core.trace import Run

__all__ = ["measure"]

_TP = 4
_POINTS = 20


def generated(ranks: int, nodes: int) -> Run:
    """A training step of about ``nodes`` nodes on each of ``ranks`` ranks."""

    def config(layers: int, dp: int) -> TransformerConfig:
        return TransformerConfig(layers=layers, batches=(4,) * dp, tp=_TP, micro_batches=8)

    one, two = (len(transformer_run(config(layers, 1)).traces[0]) for layers in (1, 2))
    layers = max(1, round((nodes - one) / (two - one)) + 1)
    return transformer_run(config(layers, max(ranks // _TP, 1)))


def measure(ranks: int, nodes: int) -> dict[str, float]:
    """Seconds of each part, and how large the run was."""
    h100, mi300x = get_device("H100 SXM"), get_device("MI300X")
    project_run(simulate_run(generated(_TP, 500), h100), mi300x)  # compiles
    run = generated(ranks, nodes)
    marks = [time.perf_counter()]
    for trace in run.traces:
        np.copy(trace.columns.dur_ns)
        np.copy(trace.edges.sources)
    marks.append(time.perf_counter())
    simulated = simulate_run(run, h100)
    marks.append(time.perf_counter())
    replay(simulated.traces)
    marks.append(time.perf_counter())
    project_run(simulated, mi300x)
    marks.append(time.perf_counter())
    few = simulate_run(Run(run.traces[: max(ranks // 8, _TP)], run.label), h100)
    began = time.perf_counter()
    points = list(sweep(few, mi300x, [("link", [0.25 * (at + 1) for at in range(_POINTS)])]))
    steps = ("floor", "simulate", "replay", "project")
    found: dict[str, float] = {
        step: end - begin for step, begin, end in zip(steps, marks, marks[1:], strict=False)
    }  # fmt: skip
    return {
        **found, "sweep": time.perf_counter() - began, "points": len(points), "sweep_ranks": len(few.traces),
        "ranks": len(run.traces), "nodes": sum(len(trace) for trace in run.traces),
        "edges": sum(len(trace.edges) for trace in run.traces),
    }  # fmt: skip


def main(arguments: list[str]) -> int:
    """Print one line per measurement."""
    ranks = int(float(arguments[0])) if arguments else 32
    nodes = int(float(arguments[1])) if len(arguments) > 1 else 100_000
    found = measure(ranks, nodes)
    print(f"{found['ranks']:,} ranks, {found['nodes']:,} nodes, {found['edges']:,} dependencies")
    for step, what in (
        ("floor", "floor: copy of the columns"),
        ("simulate", "durations and replay"),
        ("replay", "replay alone"),
        ("project", "project and replay"),
    ):
        print(f"{what:32} {found[step]:8.2f} s   {found['nodes'] / max(found[step], 1e-9) / 1e6:8.2f} M nodes/s")
    said = f"{found['points']} projections of {found['sweep_ranks']} ranks"
    print(f"{'sweep, few ranks':32} {found['sweep']:8.2f} s   {said}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
