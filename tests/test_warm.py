"""Kernels are compiled once: a later process that opens traces and shows every page finds all of them on disk."""

from __future__ import annotations

import subprocess
import sys

_SCRIPT = """
from numba.core import event
from dashboard.warm import warm
with event.install_recorder("numba:compile") as recorder:
    pages = warm()
compiled = {str(entry.data["dispatcher"]) for _, entry in recorder.buffer if entry.is_start}
print(pages, *sorted(compiled), sep="\\n")
"""


def compiled() -> tuple[int, list[str]]:
    """Pages rendered by a new process, and what it had to compile."""
    out = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, check=True).stdout
    pages, *names = out.split("\n")
    return int(pages), [name for name in names if name]


def test_a_second_process_compiles_nothing():
    pages, first = compiled()
    assert pages > 5
    if first:  # an installation without its kernels, as on a fresh machine
        _, first = compiled()
    assert first == []
