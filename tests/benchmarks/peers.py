"""Other people's tools, each installed with pip into a throwaway environment and run there on the same file.

Where a tool cannot be installed or run, the reason is the result. Nothing of them is needed by this project.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["PEERS", "Peer", "run_peer"]

_LIMIT_S = 900
_TAIL = """
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024
print("\\n" + json.dumps({"seconds": seconds, "peak_mb": peak, "nodes": nodes, **more}))
"""
_HEAD = "import json, sys, time\npath = sys.argv[1]\nmore = {}\n"


@dataclass(frozen=True, slots=True)
class Peer:
    """A tool: what pip installs, and a script that loads the file at ``path``; it sets ``seconds`` and ``nodes``."""

    name: str
    requirements: tuple[str, ...]
    script: str


PEERS = {
    peer.name: peer
    for peer in (
        Peer("HTA", ("HolisticTraceAnalysis", "pandas<3"), """
from hta.trace_analysis import TraceAnalysis
began = time.perf_counter()
analysis = TraceAnalysis(trace_files={0: path}, trace_dir="")
seconds = time.perf_counter() - began
nodes = len(analysis.t.get_trace(0))
began = time.perf_counter()
analysis.get_temporal_breakdown(visualize=False)
more["breakdown_s"] = time.perf_counter() - began
"""),
        Peer("HTA analyses", ("HolisticTraceAnalysis", "pandas<3"), """
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis(trace_files={0: path}, trace_dir="")
nodes = len(analysis.t.get_trace(0))
def timed(name, compute):
    began = time.perf_counter()
    try:
        compute()
        more[name] = time.perf_counter() - began
    except Exception as error:
        more[name] = type(error).__name__
timed("breakdown_s", lambda: analysis.get_temporal_breakdown(visualize=False))
timed("launches_s", lambda: analysis.get_cuda_kernel_launch_stats(visualize=False))
timed("queues_s", lambda: analysis.get_queue_length_time_series(ranks=[0]))
timed("idle_s", lambda: analysis.get_idle_time_breakdown(visualize=False))
timed("critical_path_s", lambda: analysis.critical_path_analysis(rank=0, annotation="", instance_id=None))
seconds = sum(value for value in more.values() if isinstance(value, float))
"""),
        Peer("TraceLens", (os.environ.get("BENCH_TRACELENS", "git+https://github.com/AMD-AGI/TraceLens.git"),), """
from TraceLens import TreePerfAnalyzer
began = time.perf_counter()
analysis = TreePerfAnalyzer.from_file(path)
seconds = time.perf_counter() - began
nodes = len(analysis.tree.events)
"""),
        Peer("orjson", ("orjson",), """
import orjson
began = time.perf_counter()
with open(path, "rb") as file:
    events = orjson.loads(file.read())["traceEvents"]
more["parse_s"] = time.perf_counter() - began
numbered = [{**event, "UID": at} for at, event in enumerate(events)]
seconds = time.perf_counter() - began
nodes = len(numbered)
"""),
        Peer("Perfetto", ("perfetto",), """
from perfetto.trace_processor import TraceProcessor
began = time.perf_counter()
processor = TraceProcessor(trace=path)
nodes = next(iter(processor.query("select count(*) as n from slice"))).n
seconds = time.perf_counter() - began
"""),
        Peer("Chakra", ("mlc-chakra", "setuptools<81"), """
from chakra.schema.protobuf.et_def_pb2 import GlobalMetadata, Node
from chakra.src.third_party.utils.protolib import decodeMessage, openFileRd
began = time.perf_counter()
file = openFileRd(path)
decodeMessage(file, GlobalMetadata())
nodes = 0
while True:
    node = Node()
    if not decodeMessage(file, node):
        break
    nodes += 1
seconds = time.perf_counter() - began
"""),
    )
}  # fmt: skip


def _environment(peer: Peer, cache: Path) -> Path:
    """The interpreter of the peer's environment, made on first use.

    Raises:
        RuntimeError: pip could not install it.
    """
    folder = cache / peer.name
    python = folder / "bin" / "python"
    if not (folder / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=_LIMIT_S)
        command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *peer.requirements]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
        if done.returncode:
            raise RuntimeError(f"pip cannot install {' '.join(peer.requirements)} here")
        (folder / "installed").touch()
    return python


def _reason(text: str) -> str:
    """An error without the paths of this machine."""
    if "curl" in text:
        return "its binary, fetched on first use, cannot be downloaded here"
    return re.sub(r"(/[\w.~-]+){2,}", "…", text)[:160]


def run_peer(name: str, path: Path, cache: Path) -> dict[str, Any]:
    """What the peer measured, or ``{"skipped": reason}``."""
    peer = PEERS[name]
    try:
        python = _environment(peer, cache)
        done = subprocess.run(
            [python, "-c", _HEAD + peer.script + _TAIL, str(path)],
            capture_output=True, text=True, timeout=_LIMIT_S, check=False,
        )  # fmt: skip
    except RuntimeError as error:
        return {"skipped": str(error)}
    except subprocess.TimeoutExpired:
        return {"skipped": f"not done after {_LIMIT_S} s"}
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        return {"skipped": _reason(said[-1]) if said else f"ended with {done.returncode}"}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
