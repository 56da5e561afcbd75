"""The bundled samples: listed with an origin, small, free of traces of the machine that made them."""

import gzip
import importlib.util
import json
import re
import sys

import pytest

from chakra_core import intervals
from chakra_core.opening import open_run
from chakra_core.samples import list_samples, samples_root
from chakra_core.schema import Category, Severity

LIMIT = 5 * 1000**2


def files():
    return [path for path in samples_root().rglob("*") if path.is_file() and "__pycache__" not in path.parts]


def test_every_sample_is_there_and_says_where_it_is_from():
    samples = list_samples()
    assert len(samples) >= 4
    for sample in samples:
        assert sample.path.exists()
        assert sample.origin
        assert sample.hardware
        assert sample.time in {"measured", "simulated"}
        assert ("simulated" in sample.path.name) == (sample.time == "simulated"), sample.path


def test_no_sample_is_missing_from_the_index():
    listed = {sample.path.relative_to(samples_root()).parts[0] for sample in list_samples()}
    folders = {path.name for path in samples_root().iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == listed


def test_all_samples_together_stay_below_the_limit():
    assert sum(path.stat().st_size for path in files()) <= LIMIT


def test_no_sample_names_its_machine():
    for path in files():
        if path.name.endswith(".json.gz"):
            text = gzip.decompress(path.read_bytes()).decode()
            assert json.loads(text).get("host_name", "example-host") == "example-host"
            found = re.findall(r'"[^"]*(?:/home/|/root/|/tmp/|/usr/|/opt/|/work/)[^"]*"', text)
            assert not found, (path, found[:3])


@pytest.mark.parametrize("sample", list_samples(), ids=lambda sample: sample.path.parts[-1])
def test_every_sample_opens(sample):
    run = open_run([sample.path])
    assert str(run.time_kind) == sample.time
    assert all(len(trace) > 400 and trace.has_times for trace in run.traces)
    ranks = {"pytorch": 1, "distributed": 4, "synthetic": 8}[sample.kind]
    assert run.ranks == tuple(range(ranks)) or ranks == 1
    assert not [finding for finding in run.health if finding.severity == Severity.ERROR]


def test_simulated_samples_name_hardware_and_assumptions():
    for sample in list_samples():
        if sample.time == "simulated":
            run = open_run([sample.path])
            assert run.hardware == sample.hardware
            assert any("roofline" in said for said in run.assumptions)
            assert len(run.groups) == 6


def test_the_two_devices_show_what_their_descriptions_say():
    """H100: compute-bound (communication exposed in < 10 % of rank 0's time). MI300X: faster, but > 20 % exposed."""
    spans, shares = [], []
    for name in ("h100", "mi300x"):
        trace = open_run([samples_root() / f"transformer_dp2_tp4_simulated_{name}"]).traces[0]
        c = trace.columns
        busy = c.category == Category.COMMUNICATION
        ends = c.start_ns + c.dur_ns
        bare = intervals.subtract(
            *intervals.merge(c.start_ns[busy], ends[busy]), *intervals.merge(c.start_ns[~busy], ends[~busy])
        )
        spans.append(trace.span_ns)
        shares.append(intervals.length(*bare) / trace.span_ns)
    assert shares[0] < 0.1
    assert shares[1] > 0.2
    assert spans[1] < spans[0]


def test_the_synthetic_samples_are_what_their_script_makes(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # the folder is shipped as it is
    spec = importlib.util.spec_from_file_location("make_synthetic", samples_root() / "make_synthetic.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.main(tmp_path)
    made = sorted(tmp_path.rglob("*.et"))
    assert len(made) == 16
    for path in made:
        kept = samples_root() / path.relative_to(tmp_path)
        assert gzip.decompress(path.read_bytes()) == gzip.decompress(kept.read_bytes()), path.name
