"""The command line: its JSON contract, its exit statuses and its error lines."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from chakra_core.samples import samples_root
from dashboard.__main__ import main, with_default_verb
from dashboard.commands.base import size
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


def test_compare_and_analyze_print_the_contract(capsys: pytest.CaptureFixture[str]):
    root = samples_root()
    h100, mi300x = (str(root / f"transformer_dp2_tp4_simulated_{name}") for name in ("h100", "mi300x"))
    status, document = run_json(capsys, "compare", h100, mi300x)
    assert status == 0
    delta = document["runs"][0]["delta"]
    change = sum(delta[f"{part}_ns"] for part in ("compute", "exposed_comm", "exposed_memory", "idle"))
    total = [
        sum(one[f"{part}_ns"] for part in ("compute", "exposed_comm", "exposed_memory", "idle"))
        for one in (document["baseline"], document["runs"][0])
    ]
    assert change == total[1] - total[0]
    status, document = run_json(capsys, "analyze", h100, "--ranks", "0,2-3", "--range", "10ms:20ms")
    assert status == 0
    assert [trace["rank"] for trace in document["traces"]] == [0, 2, 3]
    for trace in document["traces"]:
        parts = trace["breakdown"]
        assert parts["total_ns"] == sum(
            parts[f"{name}_ns"] for name in ("compute", "exposed_comm", "exposed_memory", "idle")
        )
        assert parts["total_ns"] <= 10_000_000
        assert trace["critical_path"]["dependency"]["length_ns"] > 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["analyze", "H100", "--ranks", "9"],
        ["analyze", "H100", "--range", "5ms"],
        ["analyze", "H100", "--lanes", "nowhere"],
        ["analyze", "H100", "--threshold", "idle_share=much"],
        ["analyze", "H100", "--threshold", "nothing=1"],
        ["analyze", "H100", "--range", "5ms:1ms"],
        ["analyze", "H100", "--steps", "3"],
        ["compare", "H100"],
        ["compare", "H100", "H100", "--baseline", "7"],
        ["project", "H100", "--hardware", "Abacus"],
        ["project", "H100", "--hardware", "MI300X", "--link", "0"],
    ],
)
def test_requests_that_make_no_sense_are_one_line_and_status_1(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
):
    sample = str(samples_root() / "transformer_dp2_tp4_simulated_h100")
    assert main([sample if word == "H100" else word for word in arguments]) == 1
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert "Traceback" not in line


def test_project_and_hardware(capsys: pytest.CaptureFixture[str]):
    sample = str(samples_root() / "transformer_dp2_tp4_simulated_h100")
    status, document = run_json(capsys, "project", sample, "--hardware", "H100 SXM")
    assert status == 0
    assert document["projected_total_ns"] == document["source_total_ns"]
    assert document["assumptions"]
    status, document = run_json(capsys, "project", sample, "--hardware", "MI300X", "--compute", "2")
    assert document["breakdown"]["compute_ns"] < document["source_breakdown"]["compute_ns"]
    status, document = run_json(capsys, "hardware")
    assert status == 0
    assert all(device["sources"] for device in document["devices"])


SIMULATED = "transformer_dp2_tp4_simulated_h100"


def test_project_writes_a_sweep_as_csv_and_one_page(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    table, page = tmp_path / "x.csv", tmp_path / "x.html"
    status, document = run_json(
        capsys, "project", str(samples_root() / SIMULATED), "--hardware", "H100 SXM", "--sweep", "link=1,2",
        "--sweep", "data-parallel=1", "--tornado", "--csv", str(table), "--html", str(page),
    )  # fmt: skip
    assert status == 0
    first, second = document["sweep"]
    assert first["knobs"] == {"link": 1.0, "data_parallel": 1.0}
    assert (
        first["device_ns"]
        == first["compute_ns"] + first["exposed_comm_ns"] + first["exposed_memory_ns"] + first["idle_ns"]
    )
    assert second["device_ns"] < first["device_ns"]
    assert document["projected_total_ns"] == document["source_total_ns"]
    assert document["tornado"][0]["width_ns"] >= document["tornado"][-1]["width_ns"]
    lines = table.read_text().splitlines()
    assert lines[0].startswith("link,data_parallel,device_ns")
    assert lines[1].split(",")[2] == str(first["device_ns"])
    text = page.read_text()
    assert "Plotly.newPlot" in text
    assert "src=" not in text.partition("Plotly.newPlot")[0][:300]
    assert "roofline of H100 SXM" in text


def test_project_under_the_astrasim_model(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    network, system = tmp_path / "n.yml", tmp_path / "s.json"
    network.write_text("topology: [Ring]\nnpus_count: [8]\nbandwidth: [50.0]\nlatency: [500.0]\n")
    system.write_text('{"endpoint-delay": 10, "preferred-dataset-splits": 4, "local-mem-bw": 1600}')
    path = str(samples_root() / SIMULATED)
    status, document = run_json(capsys, "project", path, "--network", str(network), "--system", str(system))
    assert status == 0
    assert document["time_kind"] == "simulated"
    assert len(document["finish_ns"]) == 8
    assert max(document["finish_ns"].values()) == document["span_ns"]
    assert main(["project", path, "--network", str(network)]) == 1
    assert "both --network and --system" in capsys.readouterr().err
    assert main(["project", path]) == 1
    assert "--hardware NAME" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--sweep", "link=fast"], "expected KNOB=V"),
        (["--sweep", "colour=1"], "one or two of compute"),
        (["--link", "-1"], "above 0"),
        (["--sweep", "link=" + ",".join(["1"] * 401)], "at most 400"),
        (["--domain", "-2"], "scale-up domain"),
    ],
)
def test_project_refuses_nonsense_in_one_line(capsys: pytest.CaptureFixture[str], given: list[str], said: str):
    assert main(["project", str(samples_root() / SIMULATED), "--hardware", "H200 SXM", *given]) == 1
    line = capsys.readouterr().err
    assert said in line
    assert line.count("\n") == 1


def test_compare_writes_csv_and_one_page(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    table, page = tmp_path / "c.csv", tmp_path / "c.html"
    pair = [str(samples_root() / SIMULATED), str(samples_root() / "transformer_dp2_tp4_simulated_mi300x")]
    status, document = run_json(capsys, "compare", *pair, "--csv", str(table), "--html", str(page))
    assert status == 0
    lines = table.read_text().splitlines()
    assert len(lines) == 1 + len(document["operators"])
    assert lines[1].startswith(document["operators"][0]["name"])
    assert str(document["operators"][0]["baseline_ns"]) in lines[1]
    assert page.read_text().count("Plotly.newPlot") == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4G", 4_000_000_000),
        ("500m", 500_000_000),
        ("1.5", 1_500_000_000),
        ("2GB", 2_000_000_000),
        ("16 G", 16_000_000_000),
    ],
)
def test_sizes(text, expected):
    assert size(text) == expected


@pytest.mark.parametrize("text", ["", "0", "-3G", "G", "nan", "inf", "1e999", "four", "4GG"])
def test_what_is_no_size(text):
    with pytest.raises(argparse.ArgumentTypeError, match="is no size; write 4G"):
        size(text)


def test_host_trace_and_profile_are_linked_together(capsys: pytest.CaptureFixture[str]):
    source = samples_root() / "pytorch_cpu_step"
    pair = [str(next((source / "host").iterdir())), str(source / "kineto.json.gz")]
    status, document = run_json(capsys, "info", *pair, "--together")
    assert status == 0
    (trace,) = document["traces"]
    assert trace["link"]["method"] == "record function id"
    assert trace["link"]["share"] > 0.99
    status, document = run_json(capsys, "info", *pair)
    assert [one["link"] for one in document["traces"]] == [None, None]
