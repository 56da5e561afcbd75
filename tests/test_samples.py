"""The bundled samples: listed with an origin, small, free of traces of the machine that made them."""

import gzip
import json
import re

from chakra_core.samples import list_samples, samples_root

LIMIT = 5 * 1000**2


def files():
    return [path for path in samples_root().rglob("*") if path.is_file() and "__pycache__" not in path.parts]


def test_every_sample_is_there_and_says_where_it_is_from():
    samples = list_samples()
    assert len(samples) >= 2
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
