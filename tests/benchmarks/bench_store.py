"""First and second opening through the store: ``python -m tests.benchmarks.bench_store [nodes]``.

A realistic Chakra ``.et`` of that many nodes is opened by its reader, opened through an empty store (read, hashed,
written), and opened again in a process of its own (mapped). Seconds, and peak memory of each process.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.files import write_et


def _one(way: str, path: Path, folder: Path) -> None:
    from chakra_core.opening import open_run
    from chakra_core.store import Store

    store = Store(folder, smallest=0)
    open_run([path.with_name("small.et")])  # load the compiled kernels
    before = _peak_mb()
    began = time.perf_counter()
    run = open_run([path]) if way == "reader" else store.open_run([path])
    print(f"{time.perf_counter() - began:.3f} {before:.0f} {_peak_mb():.0f} {len(run.traces[0])}")


def _peak_mb() -> float:
    """Peak resident memory of this process (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def measure(n: int = 1_000_000) -> dict[str, float]:
    """Seconds and peak MB of each way, sizes in MB."""
    found: dict[str, float] = {"nodes": n}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "big.et"
        write_et(path, n)
        write_et(folder / "small.et", 2_000)
        found["file_mb"] = path.stat().st_size / 1e6
        for way in ("reader", "first", "second"):
            command = [sys.executable, "-m", "tests.benchmarks.bench_store", "--one", way, str(path), str(folder / "s")]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            seconds, before, peak, _ = map(float, done.stdout.split())
            found |= {f"{way}_s": seconds, f"{way}_mb": peak, f"{way}_before_mb": before}
        found["kept_mb"] = sum(entry.stat().st_size for entry in (folder / "s" / "entries").iterdir()) / 1e6
    return found


def main(arguments: list[str]) -> int:
    """Print one line per way of opening."""
    if arguments[:1] == ["--one"]:
        _one(arguments[1], Path(arguments[2]), Path(arguments[3]))
        return 0
    found = measure(int(float(arguments[0])) if arguments else 1_000_000)
    print(f"{found['nodes']:,.0f} nodes, {found['file_mb']:,.0f} MB, kept as {found['kept_mb']:,.0f} MB")
    for way in ("reader", "first", "second"):
        seconds, peak, before = (found[f"{way}_{what}"] for what in ("s", "mb", "before_mb"))
        print(f"{way:8} {seconds:7.3f} s   peak {peak:,.0f} MB ({before:,.0f} MB before)")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
