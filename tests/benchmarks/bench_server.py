"""One user pans while two others open large files: ``python -m tests.benchmarks.bench_server [nodes]``.

A server is started on a file of 100,000 nodes; its timeline is panned over HTTP, first alone, then while a Chakra
``.et`` and a Kineto JSON of that many nodes each are opened for the first time by two other sessions. Milliseconds per
window asked for, and the seconds that each opening took.
"""

from __future__ import annotations

import http.cookiejar
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.files import write_et, write_kineto

_SMALL = 100_000


class _Session:
    """One visitor, with cookies of its own."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))

    def api(self, path: str, **query: object) -> dict[str, Any]:
        """One answer of the timeline's interface; asks again while the run is being opened, as the browser does."""
        url = f"{self.address}api/timeline/{path}?{urllib.parse.urlencode(query)}"
        while True:
            try:
                with self.opener.open(url, timeout=600) as answer:
                    content: dict[str, Any] = json.load(answer)
                    return content
            except urllib.error.HTTPError as error:
                if error.code != 503:
                    raise


def _pan(session: _Session, ref: str, until: Callable[[], bool]) -> list[float]:
    """Milliseconds of windows, one after the other, at least 200 of them."""
    span = int(session.api("layout", run=ref)["span"])
    rng = np.random.default_rng(3)
    took: list[float] = []
    while len(took) < 200 or not until():
        t0 = int(rng.integers(0, span * 9 // 10))
        began = time.perf_counter()
        session.api("window", run=ref, t0=t0, t1=t0 + span // 10, width=1400, rows="0-1")
        took.append(1000 * (time.perf_counter() - began))
        time.sleep(0.02)
    return took


def _summary(took: list[float]) -> dict[str, float]:
    return {"p50_ms": float(np.median(took)), "p95_ms": float(np.quantile(took, 0.95)), "max_ms": max(took)}


def _start(folder: Path) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "dashboard", "serve", "--port", "0", "--no-cache", str(folder)],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    for line in process.stderr or ():
        if found := re.search(r"serving on (http://\S+)", line):
            return process, found[1]
    raise RuntimeError("the server did not start")


def measure(n: int = 1_000_000) -> dict[str, Any]:
    """Milliseconds of panning alone and beside two openings, and the seconds of these."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "traces"
        folder.mkdir()
        write_et(folder / "small.et", _SMALL)
        write_et(folder / "big.et", n)
        write_kineto(folder / "big.json", n)
        process, address = _start(folder)
        try:
            return {"nodes": n, **_measure(address)}
        finally:
            process.terminate()
            process.wait(60)


def _measure(address: str) -> dict[str, Any]:
    root = "traces"
    third = _Session(address)
    third.api("layout", run=f"{root}/small.et")
    time.sleep(30)  # the kernels are loaded in the background
    found: dict[str, Any] = {"alone": _summary(_pan(third, f"{root}/small.et", lambda: True))}
    seconds: dict[str, float] = {}

    def open_big(ref: str) -> None:
        began = time.perf_counter()
        _Session(address).api("layout", run=ref)
        seconds[ref.rpartition("/")[2]] = time.perf_counter() - began

    others = [threading.Thread(target=open_big, args=(f"{root}/{name}",)) for name in ("big.et", "big.json")]
    for thread in others:
        thread.start()
    took = _pan(third, f"{root}/small.et", lambda: not any(thread.is_alive() for thread in others))
    return {**found, "beside_two_openings": _summary(took), "openings_s": seconds}


def main(arguments: list[str]) -> int:
    """Print what was measured."""
    found = measure(int(float(arguments[0])) if arguments else 1_000_000)
    for key in ("alone", "beside_two_openings"):
        print(f"{key:22}", "  ".join(f"{name} {value:8.1f}" for name, value in found[key].items()))
    print("openings (s):", "  ".join(f"{name} {value:.1f}" for name, value in found["openings_s"].items()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
