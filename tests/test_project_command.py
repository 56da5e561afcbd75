"""``project``, ``hardware`` and ``compare --by id`` on the command line: every knob, study and file."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from chakra_core.hardware import get_device
from chakra_core.opening import open_run
from chakra_core.project.simulate import simulate_run
from chakra_core.samples import samples_root
from dashboard.__main__ import main
from tests.test_hardware import MINIMAL

SAMPLE = str(samples_root() / "transformer_dp2_tp4_simulated_h100")


def run_json(capsys, *words: str):
    status = main([*words, "--json"])
    return status, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("given", "faster"),
    [
        (["--compute", "2"], True),
        (["--memory", "2"], True),
        (["--link", "2"], True),
        (["--latency", "0"], True),
        (["--compression", "4"], True),
        (["--data-parallel", "8"], False),
        (["--no-overlap"], False),
        (["--domain", "2"], False),
        (["--map", "tensor parallel=across"], False),
        (["--precision", "fp64"], None),
        (["--launch", "0"], None),  # a generated run has no launching calls
        (["--algorithm", "direct"], True),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_every_knob_moves_the_time_the_way_it_should(capsys, given, faster):
    status, document = run_json(capsys, "project", SAMPLE, "--hardware", "H100 SXM", *given)
    assert status == 0
    before, after = document["source_total_ns"], document["projected_total_ns"]
    assert after == before if faster is None else (after < before) == faster
    assert document["assumptions"]


def test_every_device_and_costs(capsys, tmp_path: Path):
    table, page = tmp_path / "c.csv", tmp_path / "c.html"
    status, document = run_json(
        capsys, "project", SAMPLE, "--hardware", "H200 SXM", "--devices", "--cost", "H100 SXM=2", "--cost", "MI300X=1",
        "--csv", str(table), "--html", str(page),
    )  # fmt: skip
    assert status == 0
    times = [row["device_ns"] for row in document["devices"]]
    assert times == sorted(times)
    assert len(times) > 18
    mine = {row["device"]: row for row in document["costs"]}
    assert mine["MI300X"]["speedup"] == 1.0
    assert mine["H100 SXM"]["cost_seconds"] == pytest.approx(2 * mine["H100 SXM"]["device_ns"] / 1e9)
    with table.open() as file:
        assert [row["device"] for row in csv.DictReader(file)] == ["MI300X", "H100 SXM"]
    assert "Cost and benefit" in page.read_text()
    assert main(["project", SAMPLE, "--hardware", "H200 SXM", "--cost", "H100 SXM=cheap"]) == 1
    assert "expected DEVICE=NUMBER" in capsys.readouterr().err


def test_inputs_for_the_simulator_and_its_log_beside_them(capsys, tmp_path: Path):
    folder = tmp_path / "inputs"
    status, document = run_json(capsys, "project", SAMPLE, "--hardware", "H200 SXM", "--simulator-inputs", str(folder))
    assert status == 0
    assert "--workload-configuration=workload/run" in document["simulator_inputs"]["command"]
    assert main(["convert", str(folder / "workload"), "-o", str(tmp_path / "again"), "--check"]) == 0
    capsys.readouterr()
    status, document = run_json(
        capsys, "project", str(folder / "workload"), "--network", str(folder / "network.yml"), "--system",
        str(folder / "system.json"), "--simulator-inputs", str(tmp_path / "more"),
    )  # fmt: skip
    assert len(document["finish_ns"]) == 8
    assert (tmp_path / "more" / "network.yml").read_text() == (folder / "network.yml").read_text()


def test_two_simulations_node_by_node_as_text_csv_and_html(capsys, tmp_path: Path):
    table, page = tmp_path / "n.csv", tmp_path / "n.html"
    other = str(samples_root() / "transformer_dp2_tp4_simulated_mi300x")
    words = ["compare", SAMPLE, other, "--by", "id", "--csv", str(table), "--html", str(page)]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "off by" in said
    assert "collective" in said
    status, document = run_json(capsys, *words)
    assert status == 0
    (found,) = document["by_id"]
    assert found["matched_share"] == 1.0
    assert len(found["ranks"]) == 8
    with table.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == [one["name"] for one in found["groups"]]
    assert float(rows[0]["error"]) == pytest.approx(found["groups"][0]["ns"] / found["groups"][0]["baseline_ns"] - 1)
    text = page.read_text()
    assert "When ranks end" in text
    assert "node by node" in text


def test_the_catalogue_is_checked_named_and_written(capsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    status, document = run_json(capsys, "hardware", "--check")
    assert status == 0
    assert all(row["numbers"] == row["sourced"] >= 4 for row in document["check"])
    status, document = run_json(capsys, "hardware", "NVIDIA H100 80GB HBM3", "AMD Instinct MI300X VF")
    assert document["names"] == {"NVIDIA H100 80GB HBM3": "H100 SXM", "AMD Instinct MI300X VF": "MI300X"}
    table = tmp_path / "h.csv"
    assert main(["hardware", "--csv", str(table), "--html", str(tmp_path / "h.html")]) == 0
    with table.open() as file:
        rows = list(csv.DictReader(file))
    assert all(row["source"] for row in rows)
    assert {"device": "H100 SXM", "number": "memory_bandwidth", "value": "3350000000000.0"}.items() <= next(
        row for row in rows if row["device"] == "H100 SXM" and row["number"] == "memory_bandwidth"
    ).items()
    assert main(["hardware", "abacus"]) == 1
    capsys.readouterr()
    mine = tmp_path / "mine.toml"
    mine.write_text(MINIMAL)
    assert main(["hardware", "Mine", "--hardware-file", str(mine)]) == 0
    assert "our sheet: table 1" in capsys.readouterr().out
    monkeypatch.setenv("CHAKRA_HARDWARE", str(mine))
    status, document = run_json(capsys, "project", SAMPLE, "--hardware", "Mine")
    assert (status, document["hardware"]) == (0, "Mine")
    mine.write_text(MINIMAL.replace("= 1e11", "= -1"))
    assert main(["hardware", "--check"]) == 1
    assert "must be a positive number" in capsys.readouterr().err


def test_a_trace_without_times_is_projected_from_what_it_was_simulated_on(capsys, corpus):
    """Work and sizes alone: the projection is what a simulation on the target gives."""
    path = corpus / "chakra_et" / "derived_stg_dp2_tp2_pp2"
    status, document = run_json(capsys, "project", str(path), "--hardware", "MI300X")
    assert status == 0
    assert any("from H100 SXM to MI300X" in text for text in document["assumptions"])
    there = simulate_run(open_run([path]), get_device("MI300X"))
    assert document["span_ns"] == pytest.approx(there.span_ns, rel=0.01)
    status, document = run_json(capsys, "project", str(path), "--hardware", "H100 SXM")
    assert document["projected_total_ns"] == document["source_total_ns"]
