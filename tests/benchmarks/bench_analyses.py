"""Time every analysis of ``analyze`` on a Kineto trace: ``python -m tests.benchmarks.bench_analyses [events] [--hta]``.

A synthetic trace of 1 M events by default (``tests.benchmarks.files``), analysed after loading, compiled beforehand on a
small one. Each analysis alone, all together, what-if on the measured path, and the memory that they add. With ``--hta``,
HolisticTraceAnalysis on the same file in an environment of its own. Other work on the machine counts in the seconds; the
processor time beside them does not know it.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from chakra_core.analysis import ANALYSES
from chakra_core.analysis.measured_path import measured_graph
from chakra_core.analysis.what_if import Factors, what_if
from chakra_core.readers.base import Source
from chakra_core.readers.kineto import READER
from chakra_core.schema import Category
from chakra_core.trace import Trace
from tests.benchmarks.files import write_kineto
from tests.benchmarks.peers import run_peer

_MB = 1e6


def _memory(key: str) -> float:
    """A figure of this process in MB: ``VmRSS`` now, ``VmHWM`` at its peak."""
    text = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith(key)) * 1024 / _MB


def _analyse(trace: Trace) -> None:
    for module in ANALYSES:
        importlib.import_module(module).as_json(trace)


def _timed(name: str, compute: Callable[[], object]) -> float:
    began, spent = time.perf_counter(), time.process_time()
    compute()
    seconds = time.perf_counter() - began
    sys.stdout.write(f"{name:<28} {seconds:7.2f} s  {time.process_time() - spent:7.2f} s\n")
    return seconds


def main(arguments: list[str]) -> None:
    """Run it and print a table."""
    numbers = [int(text) for text in arguments if text.isdecimal()]
    with tempfile.TemporaryDirectory() as folder:
        small, path = Path(folder) / "small.json", Path(folder) / "trace.json"
        write_kineto(small, 2_000)
        _analyse(READER.read(Source(small))[0])
        events = write_kineto(path, numbers[0] if numbers else 1_000_000)
        trace = READER.read(Source(path))[0]
        before = _memory("VmRSS")
        sys.stdout.write(f"{events:,} events, {len(trace):,} nodes{'':<12} wall   processor\n")
        for module in ANALYSES:
            _timed(module.rpartition(".")[2], lambda module=module: importlib.import_module(module).as_json(trace))  # type: ignore[misc]
        _timed("all of them", lambda: _analyse(trace))
        sys.stdout.write(f"memory added at most         {_memory('VmHWM') - before:7.0f} MB\n")
        graph = measured_graph(trace)
        half = Factors(causes={"launch": 0.0}, categories={Category.GEMM: 0.5})
        _timed(f"what-if, {len(graph):,} nodes", lambda: what_if(trace, graph, half))
        if "--hta" in arguments:
            sys.stdout.write(f"HTA: {run_peer('HTA analyses', path, Path(folder))}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
