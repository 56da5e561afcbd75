"""The official Chakra package reads what we write: its jsonizer and visualizer, in an environment of their own.

The environment is made once, under pytest's cache folder, from the package index that pip knows; the tests are skipped
with the reason where that fails. Both tools import three packages of those that mlc-chakra asks for, so only they are
installed.
"""

import json
import subprocess
import sys
from pathlib import Path

import networkx as nx
import pytest

from chakra_core.opening import open_run
from chakra_core.synth import TransformerConfig, transformer_run
from chakra_core.writers.convert import convert

_NEEDS = ("protobuf", "networkx", "graphviz")
_SECONDS = 90


@pytest.fixture(scope="module")
def tools(request):
    """Folder of the official tools."""
    folder = Path(request.config.cache.mkdir("mlc-chakra"))
    done = folder / "done"
    if not done.exists():
        python = folder / "bin" / "python"
        for words in (
            [sys.executable, "-m", "venv", str(folder)],
            [python, "-m", "pip", "install", "-q", "--no-deps", "mlc-chakra==1.0.0"],
            [python, "-m", "pip", "install", "-q", *_NEEDS],
        ):
            try:
                result = subprocess.run(words, capture_output=True, text=True, timeout=_SECONDS, check=False)
            except (OSError, subprocess.TimeoutExpired) as error:
                pytest.skip(f"mlc-chakra cannot be installed: {error}")
            if result.returncode:
                pytest.skip(f"mlc-chakra cannot be installed: {result.stderr.strip()[-300:]}")
        done.touch()
    return folder / "bin"


def sources(corpus):
    """One run of every kind whose files differ."""
    return {
        "measured": open_run([corpus / "kineto/a100_cuda_event_sync.json.gz"]),
        "chakra": open_run([corpus / "chakra_et/derived_stg_dp2_tp2_pp2/workload.0.et"]),
        "gloo": open_run([corpus / "collected/pytorch_2.13/rpc"]),
        "synthetic": transformer_run(TransformerConfig(layers=1, batches=(1, 1), tp=2)),
    }


def test_jsonizer_and_visualizer_read_every_kind(corpus, tmp_path, tools):
    for kind, run in sources(corpus).items():
        check(tools, convert(run, tmp_path / kind).files[0], tmp_path)
    done = convert(run, tmp_path / "archive", purpose="archive", compress=True)
    check(tools, done.files[0], tmp_path)


def check(tools, path, folder):
    for tool, target in (("chakra_jsonizer", folder / "x.json"), ("chakra_visualizer", folder / "x.graphml")):
        words = [tools / tool, "--input_filename", path, "--output_filename", target]
        result = subprocess.run(words, capture_output=True, text=True, timeout=_SECONDS, check=False)
        assert (result.returncode, result.stdout, result.stderr) == (0, "", ""), (tool, path.name)
    text, decoder, at, documents = (folder / "x.json").read_text(), json.JSONDecoder(), 0, []
    while at < len(text):
        document, at = decoder.raw_decode(text, at)
        documents.append(document)
    graph = nx.read_graphml(folder / "x.graphml")
    assert documents[0]["version"] == "1.0.0"
    assert len(documents) - 1 == len(graph)
    edges = {
        (dep, node.get("id", "0"))
        for node in documents[1:]
        for key in ("dataDeps", "ctrlDeps")
        for dep in node.get(key, [])
    }
    assert {(a, b) for a, b in graph.edges} == edges
