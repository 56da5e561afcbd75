"""Linking host traces with profiles: by hand, on the inputs that break other linkers, and on real pairs."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from chakra_core.graph import break_cycles
from chakra_core.link import LinkRefused, link, match
from chakra_core.opening import discover, open_run, open_trace
from chakra_core.samples import samples_root
from chakra_core.schema import CommOp, Domain, EdgeKind, NodeKind
from chakra_core.trace import Trace


def open_pair(host: Path, device: Path) -> tuple[Trace, Trace]:
    return open_trace(host)[0], open_trace(device)[0]


def repro(corpus: Path, name: str) -> tuple[Trace, Trace]:
    return open_pair(corpus / "repro" / f"{name}_host.json", corpus / "repro" / f"{name}_kineto.json")


def named(trace: Trace, name: str) -> int:
    (row,) = [row for row in range(len(trace)) if trace.name_of(row) == name]
    return row


def chain(trace: Trace, row: int) -> list[str]:
    names = []
    while row >= 0:
        names.append(trace.name_of(row))
        row = int(trace.columns.parent[row])
    return names


def edges(trace: Trace) -> set[tuple[str, str, EdgeKind]]:
    targets = trace.edges.targets()
    return {
        (trace.name_of(int(a)), trace.name_of(int(b)), EdgeKind(int(kind)))
        for a, b, kind in zip(trace.edges.sources, targets, trace.edges.kinds, strict=True)
    }


def test_a_small_pair_by_hand(corpus):
    host, device = repro(corpus, "base")
    trace = link(host, device)
    assert trace.meta.details["link"] | {"host": "", "device": ""} == {
        "method": "record function id", "matched": 4, "operators": 4, "events": 5, "share": 1.0, "offset": 0, "left_out": 0,
        "host": "", "device": "",
    }  # fmt: skip
    assert len(trace) == len(device) + 2  # the two roots are only in the host trace
    mm = named(trace, "aten::mm")
    assert int(trace.columns.id[mm]) == 3  # the host trace's id
    assert int(trace.columns.dur_ns[mm]) == 100_000  # the profile's time
    assert chain(trace, named(trace, "k_mm"))[:3] == ["k_mm", "cudaLaunchKernel", "aten::mm"]
    assert len(set(trace.columns.id.tolist())) == len(trace)
    assert trace.attributes(3)["rf_id"] == 1
    assert trace.attributes(3)["External id"] == 1
    found = edges(trace)
    assert ("k_mm", "k_add", EdgeKind.STREAM) in found
    assert ("cudaLaunchKernel", "k_mm", EdgeKind.LAUNCH) in found
    assert ("[pytorch|profiler|execution_trace|thread]", "aten::mm", EdgeKind.CONTROL) in found


METHODS = {
    "no_profilerstep_162": "record function id", "no_rf_id_152": "external id", "no_external_id": "record function id",
    "cpu_only_197": "record function id", "launch_cudaGraphLaunch_194": "record function id",
    "one_unlisted_launch_194": "record function id", "missing_launch_event": "record function id",
    "broadcast_161": "record function id", "unknown_coll_37": "record function id",
    "truncated_kineto_166": "record function id", "new_schema": "record function id", "ns_float_ts": "record function id",
}  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_what_breaks_other_linkers(corpus, name):
    host, device = repro(corpus, name)
    trace = link(host, device)
    codes = {finding.code for finding in trace.health}
    assert trace.meta.details["link"]["method"] == METHODS[name]
    assert trace.meta.details["link"]["share"] == 1.0
    kernels = np.flatnonzero(trace.columns.domain == Domain.DEVICE)
    assert len(kernels) == len(device.device_rows) == (0 if name == "cpu_only_197" else 4)
    assert trace.columns.dur_ns[kernels].sum() == device.columns.dur_ns[device.device_rows].sum()
    if name == "truncated_kineto_166":
        assert "truncated" in codes
    if name == "new_schema":
        assert "unknown-schema" in codes
    if name == "missing_launch_event":
        assert "kernel-without-launch" in codes
    collectives = trace.columns.comm_op[kernels]
    if name == "broadcast_161":
        assert CommOp.BROADCAST in collectives
    if name == "unknown_coll_37":
        assert (collectives != CommOp.NONE).any()
    if name == "ns_float_ts":
        assert (trace.columns.start_ns[kernels] % 1000 != 0).any()


def test_a_recorded_pair_with_every_operator(corpus):
    folder = corpus / "link" / "simple_add_a100"
    (trace,) = open_run([folder]).traces
    assert trace.meta.details["link"]["matched"] == 36
    assert trace.meta.details["link"]["operators"] == 36


@pytest.fixture(scope="module")
def dlrm(corpus):
    return open_run([corpus / "link" / "dlrm_v100_8"])


def test_eight_ranks_of_a_recommender(dlrm, corpus):
    assert dlrm.ranks == tuple(range(8))
    assert [trace.meta.format for trace in dlrm.traces] == ["pytorch-et + kineto"] * 8
    for trace, path in zip(dlrm.traces, sorted((corpus / "link" / "dlrm_v100_8" / "device").iterdir()), strict=True):
        found = trace.meta.details["link"]
        assert found["matched"] / found["operators"] >= 0.99
        (profile,) = open_trace(path)
        ours, theirs = trace.device_rows, profile.device_rows
        assert len(ours) == len(theirs)
        assert trace.columns.dur_ns[ours].sum() == profile.columns.dur_ns[theirs].sum()
        assert (trace.columns.comm_op[ours] != CommOp.NONE).sum() == (
            profile.columns.comm_op[theirs] != CommOp.NONE
        ).sum()
        orphans = next((entry.count for entry in trace.health if entry.code == "orphan-device"), 0)
        assert (trace.columns.parent[ours] < 0).sum() == orphans
        assert not break_cycles(trace.edges)[1].any()


def test_collectives_get_what_only_the_host_trace_knows(dlrm):
    for trace in dlrm.traces:
        c = trace.columns
        rows = np.flatnonzero((c.domain == Domain.DEVICE) & (c.kind == NodeKind.COMM_COLL))
        assert len(rows) == 8
        assert not (c.comm_op[rows] == CommOp.UNKNOWN).any()


def test_one_step_of_a_profile_of_many(corpus):
    folder = corpus / "link" / "linear_2080ti"
    (trace,) = open_run([folder]).traces
    found = trace.meta.details["link"]
    assert (found["method"], found["matched"], found["operators"]) == ("order", 928, 928)
    assert found["left_out"] > 50_000
    assert "link-outside" in {entry.code for entry in trace.health}
    assert 200 < len(trace.device_rows) < 400  # of 10,356 in the profile


@pytest.mark.parametrize("name", ["single", "compile_inductor", "ddp4", "rpc"])
def test_recordings_of_a_recent_pytorch(corpus, name):
    run = open_run([corpus / "collected" / "pytorch_2.13" / name])
    for trace in run.traces:
        found = trace.meta.details["link"]
        assert (found["method"], found["matched"]) == ("record function id", found["operators"])
        assert (trace.edges.kinds == EdgeKind.DATA).any()


def test_a_gloo_collective_keeps_its_annotation_and_operator(corpus):
    (trace, *_) = open_run([corpus / "collected" / "pytorch_2.13" / "ddp4"]).traces
    c = trace.columns
    rows = np.flatnonzero(c.comm_op == CommOp.ALL_REDUCE)
    assert len(rows)
    assert all(trace.name_of(int(row)).startswith(("gloo:", "c10d::")) for row in rows)


def test_files_of_different_runs_are_refused_with_the_evidence(corpus):
    host, _ = open_pair(corpus / "link/dlrm_v100_8/host/dlrm_eg_0.json", corpus / "repro/base_kineto.json")
    (other,) = open_trace(corpus / "collected/pytorch_2.13/single/kineto.json")
    with pytest.raises(LinkRefused, match=r"not of one run: of 1,672 operators and 1,966 events only these agree"):
        link(host, other)
    (rank1,) = open_trace(sorted((corpus / "link/dlrm_v100_8/device").iterdir())[1])
    with pytest.raises(LinkRefused, match=r"of rank 0, .* of rank 1"):
        match(host, rank1)


@pytest.mark.parametrize(
    ("host", "device"),
    [
        ("collected/pytorch_2.13/single/et_host.json", "collected/pytorch_2.13/ddp4/kineto_0.json"),
        ("collected/pytorch_2.13/ddp4/et_host_0.json", "collected/pytorch_2.13/single/kineto.json"),
        ("collected/pytorch_2.13/single/et_host.json", "repro/base_kineto.json"),
        ("collected/pytorch_2.13/ddp4/et_host_0.json", "repro/base_kineto.json"),
    ],
)
def test_like_models_are_not_taken_for_a_pair(corpus, host, device):
    with pytest.raises(LinkRefused, match=r"only these agree|of rank"):
        link(*open_pair(corpus / host, corpus / device))


def test_a_refused_pair_opens_as_the_profile_with_a_finding(corpus, tmp_path):
    shutil.copy(corpus / "repro/base_host.json", tmp_path / "host.json")
    shutil.copy(corpus / "collected/pytorch_2.13/single/kineto.json", tmp_path / "kineto.json")
    run = open_run([tmp_path])
    assert [trace.meta.format for trace in run.traces] == ["kineto"]
    (finding,) = [entry for entry in run.health if entry.code == "link-refused"]
    assert "only these agree" in finding.message


def test_pairs_are_found_beside_each_other_and_in_named_folders(tmp_path):
    source = samples_root() / "pytorch_ddp_gloo_4_ranks"
    shutil.copytree(source / "host", tmp_path / "one" / "host")
    shutil.copytree(source / "kineto", tmp_path / "one" / "device")
    (found,) = discover(tmp_path / "one")
    assert len(found.paths) == 8
    flat = tmp_path / "flat"
    flat.mkdir()
    for rank in range(4):
        shutil.copy(source / "host" / f"rank{rank}.json.gz", flat / f"et_{rank}.json.gz")
        shutil.copy(source / "kineto" / f"rank{rank}.json.gz", flat / f"profile_{rank}.json.gz")
    (found,) = discover(flat)
    assert len(found.paths) == 8
    run = open_run([flat])
    assert [trace.meta.details["link"]["share"] for trace in run.traces] == [1.0] * 4
    (flat / "et_3.json.gz").unlink()
    assert len(discover(flat)) == 2  # not as many: which belongs to which is not guessed


def test_numbers_off_by_a_constant(tmp_path):
    source = samples_root() / "pytorch_cpu_step"
    document = json.loads(gzip.decompress((source / "kineto.json.gz").read_bytes()))
    for event in document["traceEvents"]:
        args = event.get("args", {})
        if "Record function id" in args:
            args["External id"] = args.pop("Record function id") + 5000
    (tmp_path / "kineto.json").write_text(json.dumps(document))
    host, device = open_pair(next((source / "host").iterdir()), tmp_path / "kineto.json")
    found = match(host, device)
    assert (found.method, found.offset) == ("external id", 5000)
    assert found.share > 0.99  # one number of the profile's own met an operator's
    for event in document["traceEvents"]:
        event.get("args", {}).pop("External id", None)
    (tmp_path / "bare.json").write_text(json.dumps(document))
    (bare,) = open_trace(tmp_path / "bare.json")
    found = match(host, bare)
    assert found.method == "order"
    assert found.share > 0.95
