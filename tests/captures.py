"""Real PyTorch recordings made while the tests run, where PyTorch is installed."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

__all__ = ["capture"]

_WORKER = Path(__file__).parent / "collect_worker.py"


def capture(folder: Path, ranks: int) -> Path:
    """Record ``ranks`` processes into a folder; skips, with the reason, where PyTorch is not installed."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed: pip install torch==2.13.0")
    path = os.pathsep.join([str(_WORKER.parent.parent), os.environ.get("PYTHONPATH", "")])
    run = folder / f"ranks{ranks}"
    folder.mkdir(parents=True, exist_ok=True)
    processes = [
        subprocess.Popen(
            [sys.executable, str(_WORKER), str(run), str(folder / f"meeting{ranks}")],
            env={**os.environ, "PYTHONPATH": path, "RANK": str(rank), "WORLD_SIZE": str(ranks)},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for rank in range(ranks)
    ]  # fmt: skip
    try:
        outputs = [process.communicate(timeout=240)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0] * ranks, "\n".join(outputs)
    return run
