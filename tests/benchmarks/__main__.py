"""Run every benchmark and write RESULTS.md: ``python -m tests.benchmarks [--quick] [--out FOLDER]`` (``make bench``).

Each reading runs in a process of its own, so that its peak of memory is its own; each stands beside its floors and
peers, which run just before or after it. Takes about fifteen minutes and 10 GB of disk in the temporary folder;
``--quick`` measures a tenth of everything in two.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.benchmarks.peers import run_peer
from tests.benchmarks.results import write_results

_HERE = Path(__file__).resolve().parent
_GROWTH = (100_000, 316_000, 1_000_000, 3_160_000, 10_000_000)
_LARGE = 3_250_000
_SHORT_S = 5.0
"""What takes less is measured three times; the median counts."""
_ENOUGH = 1.3
"""Memory at hand, as a multiple of the peak without."""
_HEAP = "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=30000000000"
"""Tells the C library to keep all memory in the heap, and never to give it back."""

_Found = dict[str, Any]


class Bench:
    """One run: where its files are, how large they are, and what was found."""

    def __init__(self, folder: Path, cache: Path, scale: float) -> None:
        self.folder, self.cache, self.scale = folder, cache, scale
        self.found: dict[str, Any] = {
            "scale": scale,
            "began": time.strftime("%Y-%m-%d %H:%M"),
            "load": [os.getloadavg()[0]],
        }

    def size(self, n: int) -> int:
        """A number of events at this run's scale."""
        return max(int(n * self.scale), 1000)

    def make(self, kind: str, n: int, name: str) -> Path:
        """Write a file, in another process."""
        path = self.folder / name
        self.say(f"writing {name} ({n:,})")
        subprocess.run([sys.executable, "-m", "tests.benchmarks.files", kind, str(n), str(path)], check=True)
        return path

    def way(self, name: str, path: Path) -> _Found:
        """Run one way of reading a file; of three runs (of one, where it takes long) the one of median time."""
        rows: list[_Found] = []
        times = 1 if name == "first_opening" else 3  # the second time it is no longer the first
        while not rows or (len(rows) < times and rows[0]["seconds"] < _SHORT_S):
            rows.append(_run(name, path))
        middle = statistics.median_low([row["seconds"] for row in rows])
        row = next(row for row in rows if row["seconds"] == middle)
        self.say(f"{name:14} {path.name:16} {row['seconds']:8.2f} s  {row['peak_mb']:7,.0f} MB")
        return {**row, "file_mb": path.stat().st_size / 1e6}

    def resident(self, name: str, path: Path, peak_mb: float) -> float:
        """Fewest seconds of processor of five runs (three, where it takes long) that have their memory at hand."""
        spent: list[float] = []
        while len(spent) < (5 if not spent or spent[0] < _SHORT_S else 3):
            spent.append(_run(name, path, peak_mb * _ENOUGH)["cpu"])
        self.say(f"{name:14} {path.name:16} {min(spent):8.2f} s of processor, at most {max(spent):.2f}")
        return min(spent)

    def peer(self, name: str, path: Path) -> _Found:
        """Run another tool on a file."""
        row = run_peer(name, path, self.cache)
        said = row["skipped"] if "skipped" in row else f"{row['seconds']:.2f} s  {row['peak_mb']:,.0f} MB"
        self.say(f"{name:14} {path.name:16} {said}")
        return row

    def measure(self, module: str, *numbers: int) -> _Found:
        """What ``measure`` of a benchmark module returns, from a process of its own."""
        self.say(f"{module} {numbers}")
        call = f"import json; from tests.benchmarks.{module} import measure; print(json.dumps(measure(*{numbers})))"
        done = subprocess.run([sys.executable, "-c", call], capture_output=True, text=True, check=False)
        if done.returncode:
            sys.stderr.write(done.stderr)
            return {"skipped": (done.stderr.strip().splitlines() or ["failed"])[-1][:160]}
        found: _Found = json.loads(done.stdout.splitlines()[-1])
        return found

    def say(self, text: str) -> None:
        """Progress, to standard error."""
        sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")

    def readers(self) -> None:
        """Both formats at a million, with floors and peers."""
        path = self.make("et", self.size(1_000_000), "million.et")
        names = ("read_bytes", "et_parse", "et_scan", "et_trace", "first_opening", "second_opening", "et_loop")
        self.found["et"] = {name: self.way(name, path) for name in names} | {"Chakra": self.peer("Chakra", path)}
        path.unlink()
        path = self.make("kineto", self.size(1_000_000), "million.json")
        rows = {name: self.way(name, path) for name in (
            "read_bytes", "kineto_floor", "kineto_trace", "first_opening", "second_opening", "kineto_json"
        )}  # fmt: skip
        rows |= {name: self.peer(name, path) for name in ("HTA", "TraceLens", "orjson", "Perfetto")}
        self.found["kineto"] = rows
        path.unlink()
        path = self.make("kineto", self.size(1_000_000), "million.json.gz")
        self.found["gz"] = {name: self.way(name, path) for name in ("kineto_floor", "kineto_trace")}
        path.unlink()
        path = self.make("kineto", self.size(_LARGE), "large.json")
        self.found["large"] = {name: self.way(name, path) for name in ("kineto_floor", "kineto_trace")}
        path.unlink()

    def growth(self) -> None:
        """Ours alone, from 10^5 to 10^7: as a file is opened, and the work alone, with memory at hand."""
        for kind, way in (("et", "et_trace"), ("kineto", "kineto_trace")):
            rows = []
            for n in _GROWTH:
                path = self.make(kind, self.size(n), f"growth.{'et' if kind == 'et' else 'json'}")
                row = self.way(way, path)
                rows.append(row | {"work": self.resident(way, path, row["peak_mb"])})
                path.unlink()
            self.found[f"growth_{kind}"] = rows
            shutil.rmtree(self.folder / "store", ignore_errors=True)

    def rest(self) -> None:
        """Kernels, level of detail, graph, projection, browser."""
        self.found["kernels"] = self.measure("bench_kernels", self.size(1_000_000))
        self.found["lod"] = self.measure("bench_lod", self.size(10_000_000))
        self.found["graph"] = self.measure("bench_graph", self.size(1_000_000))
        self.found["project"] = self.measure("bench_project", 32, self.size(100_000))
        self.found["browser"] = self.measure("browse_timeline", self.size(10_000_000))


def _run(name: str, path: Path, at_hand_mb: float = 0.0) -> _Found:
    """One reading, in a process of its own; ``at_hand_mb`` of memory are filled and freed within it beforehand.

    A virtual machine gives free memory back to its host; getting it again takes longer than reading a trace does, and
    the more so, the more is needed at once.
    """
    command = [sys.executable, "-m", "tests.benchmarks.ways", name, str(path), str(at_hand_mb)]
    heap = {"GLIBC_TUNABLES": _HEAP} if at_hand_mb else {}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **heap})
    row: _Found = json.loads(done.stdout.splitlines()[-1])
    return row


def main() -> int:
    """Run everything."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of every size")
    parser.add_argument("--out", type=Path, default=_HERE, help="folder for RESULTS.md and growth.svg")
    parser.add_argument("--work", type=Path, help="folder for the files; a temporary one by default")
    args = parser.parse_args()
    cache = Path(tempfile.gettempdir()) / "chakra-benchmark-peers"
    cache.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="chakra-bench-", dir=args.work))
    bench = Bench(folder, cache, 0.1 if args.quick else 1.0)
    try:
        for kind, name in (("et", "small.et"), ("kineto", "small.json")):
            path = bench.make(kind, 300, name)
            for way in (f"{kind}_trace", "first_opening"):
                bench.way(way, path)  # compiles what is not compiled yet
        bench.growth()
        bench.rest()
        bench.readers()
        bench.found["load"].append(os.getloadavg()[0])
    finally:
        shutil.rmtree(folder)
    (cache / "last.json").write_text(json.dumps(bench.found, indent=1))
    write_results(args.out, bench.found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
