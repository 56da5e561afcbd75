"""ASTRA-sim text workloads: layouts worked out by hand, and those of Chakra's converter as reference."""

from __future__ import annotations

from pathlib import Path

import pytest

from chakra_core.errors import CorruptTrace
from chakra_core.readers.astrasim_text import READER
from chakra_core.readers.base import Source
from chakra_core.schema import CommOp
from chakra_core.trace import Trace


def read(folder: Path, text: str) -> Trace:
    path = folder / "w.txt"
    path.write_text(text)
    assert READER.sniff(text.encode(), path.name) > 0.5
    return READER.read(Source(path))[0]


def waits(trace: Trace) -> dict[str, list[str]]:
    return {trace.name_of(row): [trace.name_of(int(at)) for at in trace.edges.of(row)[0]] for row in range(len(trace))}


def test_data_parallel(tmp_path: Path):
    trace = read(
        tmp_path,
        "DATA\n2\na -1 10 NONE 0 20 NONE 0 30 ALLREDUCE 64 3\nb -1 11 NONE 0 21 NONE 0 31 ALLREDUCE 128 3\n",
    )
    assert waits(trace) == {
        "a fwd": [],
        "b fwd": ["a fwd"],
        "b wg": ["b fwd"],
        "b wg all-reduce": ["b wg"],
        "b ig": ["b wg"],
        "a wg": ["b ig"],
        "a wg all-reduce": ["a wg"],
    }
    assert trace.columns.dur_ns.tolist() == [10_000, 11_000, 31_000, 0, 21_000, 30_000, 0]
    assert trace.columns.comm_bytes.tolist() == [-1, -1, -1, 128, -1, -1, 64]


def test_model_parallel_blocks_on_activations(tmp_path: Path):
    trace = read(
        tmp_path,
        "MODEL\n2\na -1 1 ALLGATHER 8 2 ALLREDUCE 8 3 NONE 0 1\nb -1 4 ALLGATHER 9 5 ALLREDUCE 9 6 NONE 0 1\n",
    )
    assert waits(trace) == {
        "a fwd": [],
        "a fwd all-gather": ["a fwd"],
        "b fwd": ["a fwd all-gather"],
        "b fwd all-gather": ["b fwd"],
        "b ig": ["b fwd all-gather"],
        "b ig all-reduce": ["b ig"],
        "b wg": ["b ig"],
        "a ig": ["b wg", "b ig all-reduce"],
        "a wg": ["a ig"],
    }


def test_dlrm_overlaps_the_embedding_exchange(tmp_path: Path):
    layers = "\n".join(
        f"{name} -1 1 {comm} 4 1 NONE 0 1 NONE 0 1"
        for name, comm in [("emb", "ALLTOALL"), ("bot", "NONE"), ("top", "NONE")]
    )
    trace = read(tmp_path, f"HYBRID_DLRM 1\n3\n{layers}\n")
    assert waits(trace)["bot fwd"] == ["emb fwd"]
    assert waits(trace)["top fwd"] == ["bot fwd", "emb fwd all-to-all"]


def test_same_graph_as_chakras_converter(corpus: Path):
    import importlib

    reference = importlib.import_module("chakra_core.readers.chakra_et").READER
    (ours,) = READER.read(Source(corpus / "astrasim/workloads/MLP_ModelParallel.txt"))
    (theirs,) = reference.read(Source(corpus / "chakra_et/derived_mlp_model_parallel_32npu/MLP_ModelParallel.0.et"))
    assert len(ours) == len(theirs)
    assert ours.columns.dur_ns.tolist() == theirs.columns.dur_ns.tolist()
    assert ours.columns.comm_op.tolist() == theirs.columns.comm_op.tolist()
    for row in range(len(ours)):
        assert sorted(ours.edges.of(row)[0].tolist()) == sorted(theirs.edges.of(row)[0].tolist())


def test_every_workload_of_the_corpus_opens(corpus: Path):
    for path in sorted((corpus / "astrasim" / "workloads").glob("*.txt")):
        (trace,) = READER.read(Source(path))
        assert len(trace)
        assert not trace.health
        assert CommOp.UNKNOWN not in trace.columns.comm_op


def test_bad_lines_are_counted_and_nothing_useful_is_an_error(tmp_path: Path):
    trace = read(tmp_path, "DATA\n3\na -1 10 NONE 0 20 NONE 0 30 NOVEL 64 3\nb -1 ten\n")
    assert {finding.code for finding in trace.health} == {"damaged-record", "truncated", "collective-type"}
    assert CommOp.UNKNOWN in trace.columns.comm_op
    with pytest.raises(CorruptTrace, match="no line"):
        read(tmp_path, "DATA\n3\nb -1 ten\n")
