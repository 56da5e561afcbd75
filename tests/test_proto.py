"""The generated protobuf modules are what the .proto files beside them give."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "chakra_core" / "readers" / "proto"


def test_generated_modules_are_current(tmp_path: Path):
    protos = sorted(FOLDER.glob("*.proto"))
    subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", "-I", str(FOLDER), f"--python_out={tmp_path}", *map(str, protos)],
        check=True,
        capture_output=True,
    )
    made = {path.name: _without_version(path) for path in tmp_path.glob("*_pb2.py")}
    kept = {path.name: _without_version(path) for path in FOLDER.glob("*_pb2.py")}
    assert made.keys() == kept.keys()
    assert made == kept


def _without_version(path: Path) -> str:
    """The module's serialised descriptor: the rest names the compiler's version."""
    return next(line for line in path.read_text().splitlines() if "AddSerializedFile" in line)
