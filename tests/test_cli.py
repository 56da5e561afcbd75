"""The command line: its JSON contract, its exit statuses and its error lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dashboard.__main__ import main, with_default_verb
from tests.conftest import corpus_root


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict]:
    status = main([*arguments, "--json"])
    return status, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ([], ["serve"]),
        (["trace.et"], ["serve", "trace.et"]),
        (["info", "x"], ["info", "x"]),
        (["--version"], ["--version"]),
        (["--port", "1"], ["serve", "--port", "1"]),
    ],
)
def test_serve_is_the_default_verb(given: list[str], meant: list[str]):
    assert with_default_verb(given) == meant


def test_usage_errors_exit_with_2():
    with pytest.raises(SystemExit) as stop:
        main(["info"])
    assert stop.value.code == 2


def test_a_missing_file_is_one_line_and_status_1(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    assert main(["info", str(tmp_path / "absent.et")]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "absent.et" in captured.err


def test_not_a_trace_names_file_and_formats(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    path = tmp_path / "notes.txt"
    path.write_text("nothing here\n")
    assert main(["info", str(path)]) == 1
    line = capsys.readouterr().err
    assert "notes.txt" in line
    assert "kineto" in line
    assert "Traceback" not in line


def test_info_on_a_known_file(capsys: pytest.CaptureFixture[str], corpus: Path):
    status, document = run_json(capsys, "info", str(corpus / "chakra_et" / "pytorch_1.1.0_11347nodes.et"))
    (trace,) = document["traces"]
    assert status == 0
    assert trace["nodes"] == 11347
    assert trace["format"] == "chakra-et"
    assert trace["time_kind"] == "reconstructed"
    assert trace["schema"].startswith("1.1.0")


def trace_files() -> list[Path]:
    root = corpus_root()
    if root is None:
        return []
    found = [path for name in ("chakra_et", "chakra_json", "kineto", "chrome") for path in (root / name).rglob("*")]
    skip = {".xml", ".md"}
    return sorted(path for path in found if path.is_file() and path.suffix not in skip)


NOT_TRACES = {"workload.json", "execution_details.json"}


@pytest.mark.parametrize("path", trace_files(), ids=lambda path: path.name)
def test_info_succeeds_on_every_trace_of_the_corpus(capsys: pytest.CaptureFixture[str], path: Path):
    status = main(["info", str(path), "--json"])
    captured = capsys.readouterr()
    if path.name in NOT_TRACES:
        assert status == 1
        assert captured.err.count("\n") == 1
    else:
        document = json.loads(captured.out)
        assert status == 0, captured.err
        assert document["traces"]
