"""The shape of the project: layers, fast imports, house limits, and a wheel that holds what git holds."""

from __future__ import annotations

import ast
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("chakra_core", "dashboard")
SOURCES = [
    path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")) if not path.name.endswith("_pb2.py")
]


def tracked() -> set[str]:
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("not a git checkout")
    return set(done.stdout.split("\n")) - {""}


def test_import_is_light():
    heavy = ("dash", "plotly", "numba", "pandas", "networkx", "flask", "pyarrow", "google.protobuf")
    code = f"import sys, chakra_core; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_house_limits(path: Path):
    text = path.read_text()
    assert text.count("\n") <= 400, f"{path} is longer than 400 lines"
    for part in ast.walk(ast.parse(text)):
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (part.end_lineno or part.lineno) - part.lineno + 1
            assert length <= 60, f"{path}:{part.lineno} {part.name} has {length} lines"


def test_exports_are_literal_and_sorted():
    for path in SOURCES:
        for part in ast.parse(path.read_text()).body:
            if isinstance(part, ast.Assign) and any(getattr(name, "id", "") == "__all__" for name in part.targets):
                names = ast.literal_eval(part.value)
                assert len(set(names)) == len(names), f"{path}: __all__ names something twice"


def test_top_level_holds_only_what_was_agreed():
    allowed = {"assets", "chakra_core", "dashboard", "sample_traces", "tests", ".ci", ".github"}
    folders = {name.split("/")[0] for name in tracked() if "/" in name}
    assert folders <= allowed


def test_wheel_holds_what_git_holds(tmp_path: Path):
    names = tracked()
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    placed = {"assets/": "dashboard/assets/", "sample_traces/": "chakra_core/sample_traces/"}
    expected = set()
    for name in names:
        for start, target in {**placed, "chakra_core/": "chakra_core/", "dashboard/": "dashboard/"}.items():
            if name.startswith(start):
                expected.add(target + name.removeprefix(start))
    assert inside == expected
