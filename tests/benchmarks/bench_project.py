"""Time projection and replay: ``python -m tests.benchmarks.bench_project [ranks] [nodes]`` (32 ranks of 100,000 nodes).

A generated transformer run of that size is simulated on one device and projected onto another (every rank is replayed
with its dependencies and rendezvous); then one such projection per value of a sweep, on an eighth of the ranks.
Compiled beforehand. The floor is one pass over the same columns (a copy).
"""

from __future__ import annotations

import sys
import time

import numpy as np

from chakra_core.hardware import get_device
from chakra_core.project.projection import project_run
from chakra_core.project.simulate import simulate_run
from chakra_core.project.sweep import sweep
from chakra_core.synth import TransformerConfig, transformer_run
from chakra_core.trace import Run

_TP = 4


def generated(ranks: int, nodes: int) -> Run:
    """A training step of about ``nodes`` nodes on each of ``ranks`` ranks."""

    def config(layers: int, dp: int) -> TransformerConfig:
        return TransformerConfig(layers=layers, batches=(4,) * dp, tp=_TP, micro_batches=8)

    one, two = (len(transformer_run(config(layers, 1)).traces[0]) for layers in (1, 2))
    layers = max(1, round((nodes - one) / (two - one)) + 1)
    return transformer_run(config(layers, max(ranks // _TP, 1)))


def main(arguments: list[str]) -> int:
    """Print one line per measurement."""
    ranks = int(float(arguments[0])) if arguments else 32
    nodes = int(float(arguments[1])) if len(arguments) > 1 else 100_000
    h100, mi300x = get_device("H100 SXM"), get_device("MI300X")
    project_run(simulate_run(generated(_TP, 500), h100), mi300x)  # compiles
    run = generated(ranks, nodes)
    total = sum(len(trace) for trace in run.traces)
    print(f"{len(run.traces)} ranks, {total:,} nodes, {sum(len(trace.edges) for trace in run.traces):,} dependencies")
    began = time.perf_counter()
    for trace in run.traces:
        np.copy(trace.columns.dur_ns)
        np.copy(trace.edges.sources)
    floor = time.perf_counter() - began
    began = time.perf_counter()
    simulated = simulate_run(run, h100)
    simulate_s = time.perf_counter() - began
    began = time.perf_counter()
    project_run(simulated, mi300x)
    project_s = time.perf_counter() - began
    few = simulate_run(Run(run.traces[: max(ranks // 8, _TP)], run.label), h100)
    began = time.perf_counter()
    points = list(sweep(few, mi300x, [("link", [0.25 * (at + 1) for at in range(20)])]))
    sweep_s = time.perf_counter() - began
    for what, seconds in (
        ("floor: copy of the columns", floor),
        ("simulate and replay", simulate_s),
        ("project and replay", project_s),
    ):
        print(f"{what:32} {seconds:8.2f} s   {total / max(seconds, 1e-9) / 1e6:8.2f} M nodes/s")
    print(
        f"{'sweep of 20 points, few ranks':32} {sweep_s:8.2f} s   {len(points)} projections of {len(few.traces)} ranks"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
