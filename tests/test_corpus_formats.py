"""Every file of the corpus opens, each by the reader of its format; what is no trace is refused by name and in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from chakra_core.errors import UnknownFormat
from chakra_core.opening import open_trace
from chakra_core.readers import guess_reader, list_readers
from chakra_core.readers._archive import is_archive
from chakra_core.readers.base import Source
from chakra_core.schema import Severity
from tests.conftest import corpus_root

FORMATS = {
    "astrasim/outputs": "astra-sim-log",
    "astrasim/workloads": "astra-sim-text",
    "chakra_et": "chakra-et",
    "chakra_json": "chakra-json",
    "chrome": "kineto",
    "collected/jax_0.10": ("xplane", "kineto"),
    "collected/pytorch_2.13": ("pytorch-et", "kineto"),
    "collected/tensorflow_2.21": ("xplane", "tf-run-metadata"),
    "flexflow": "flexflow",
    "kineto": "kineto",
    "link": ("pytorch-et", "kineto"),
    "pytorch_et": "pytorch-et",
    "repro": ("pytorch-et", "kineto", "astra-sim-text"),
    "xplane": "xplane",
}
NOT_TRACES = {
    "INDEX.md", "README.md", "README.txt",  # about the files beside them
    "custom_allreduce.xml",  # a collective algorithm (MSCCL)
    "workload.json",  # process groups: read with the traces beside it
    "chakra_visualizer_graphviz.dot",  # a drawing: names and edges only
    "execution_details.json",  # which graph a file beside it captured
    "EndToEnd.csv", "detailed.csv", "ce1e724953_EndToEnd.csv",  # tables of ASTRA-sim 1: no ranks, no events
}  # fmt: skip


def files(*, traces: bool) -> list[str]:
    root = corpus_root()
    if root is None:
        return ["no corpus"]
    found = (path for path in sorted(root.rglob("*")) if path.is_file())
    return [str(path.relative_to(root)) for path in found if (path.name not in NOT_TRACES) == traces]


@pytest.mark.parametrize("name", files(traces=True))
def test_opens_by_its_format(corpus: Path, name: str):
    path = corpus / name
    folder = next(folder for folder in FORMATS if name.startswith(folder + "/"))
    expected = FORMATS[folder]
    traces = open_trace(path)
    if not is_archive(Source(path)):
        assert guess_reader(Source(path)).name in ((expected,) if isinstance(expected, str) else expected)
    if path.name == "empty.json":
        assert [len(trace) for trace in traces] == [0]
        return
    assert sum(len(trace) for trace in traces) > 0
    errors = {f.code for trace in traces for f in trace.health if f.severity == Severity.ERROR}
    assert errors <= ({"truncated"} if "truncated" in path.name or "partial" in path.name else set())


@pytest.mark.parametrize("name", files(traces=False))
def test_what_is_no_trace_is_refused(corpus: Path, name: str):
    with pytest.raises(UnknownFormat, match="not a trace in any known format"):
        open_trace(corpus / name)


def test_every_built_in_reader_but_one_has_a_real_file(corpus: Path):
    """No public Legion profiler log is known: its reader is tested on logs written by its documented layout."""
    named = {entry for value in FORMATS.values() for entry in ([value] if isinstance(value, str) else value)}
    assert {reader.name for reader in list_readers()} - named == {"legion-prof"}
    assert all((corpus / folder).is_dir() for folder in FORMATS)
