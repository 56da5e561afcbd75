"""Opening files and folders: grouping into runs, ranks, what is reported, and times where there are none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from chakra_core.errors import CorruptTrace, UnknownFormat
from chakra_core.opening import assemble, discover, open_run
from chakra_core.samples import samples_root
from chakra_core.schema import NO_TIME, Category, CommOp, Domain, NodeKind, Severity, TimeKind
from chakra_core.trace import ProcessGroup
from tests.builder import make_trace, node

GRAPH = 'digraph taskgraph {  node0 [label="{device_id=0|Dense_1|Forward|COMP_NODE|simulated_run_time=0.25}",shape=record];\n}'


def test_a_folder_is_grouped_by_name_without_rank(tmp_path: Path):
    for name in ("a.0.graph", "a.1.graph", "a.10.graph", "other.graph"):
        (tmp_path / name).write_text(GRAPH)
    (tmp_path / "notes.csv").write_text("x,y\n")
    runs = {files.label: [path.name for path in files.paths] for files in discover(tmp_path)}
    assert runs == {tmp_path.name: ["a.0.graph", "a.1.graph", "a.10.graph"], "other.graph": ["other.graph"]}


def test_ranks_come_from_names_and_order(tmp_path: Path):
    for name in ("w.3.graph", "w.7.graph"):
        (tmp_path / name).write_text(GRAPH)
    run = open_run([tmp_path])
    assert run.ranks == (0, 1)
    assert "rank-unknown" in {finding.code for finding in run.health}


def test_a_broken_file_is_a_finding_while_others_open(tmp_path: Path):
    (tmp_path / "a.0.graph").write_text(GRAPH)
    (tmp_path / "a.1.graph").write_text("digraph taskgraph {")
    run = open_run([tmp_path / "a.0.graph", tmp_path / "a.1.graph"])
    (finding,) = [finding for finding in run.health if finding.code == "file-unreadable"]
    assert finding.severity == Severity.ERROR
    assert "a.1.graph" in finding.message
    with pytest.raises(CorruptTrace, match=r"a\.1"):
        open_run([tmp_path / "a.1.graph"])


def test_what_is_no_trace_is_said_plainly(tmp_path: Path):
    (tmp_path / "x.txt").write_text("hello")
    with pytest.raises(UnknownFormat, match=r"x\.txt: not a trace"):
        open_run([tmp_path / "x.txt"])
    with pytest.raises(UnknownFormat, match="no file in it"):
        discover(tmp_path)


def test_work_without_times_is_simulated_and_says_on_what():
    trace = make_trace([node("gemm", NO_TIME, 0, flops=10**12)])
    run = assemble([trace], "sizes")
    assert run.time_kind == TimeKind.SIMULATED
    assert run.traces[0].columns.dur_ns[0] > 0
    assert any("H100" in text for text in run.assumptions)


def test_health_of_a_bad_run():
    group = ProcessGroup("0", (0, 1))
    comm = {"comm_op": CommOp.UNKNOWN, "kind": NodeKind.COMM_COLL, "comm_group": 0}
    first = make_trace(
        [node("k", 0, 5), node("k", 3, 5), node("odd", 9, 0, category=Category.OTHER), node("c", 20, 1, **comm)],
        rank=0,
        groups=[group],
    )
    second = make_trace([node("k", 0, 5)], rank=5, groups=[group])
    run = assemble([first, second], "bad")
    codes = {finding.code: finding.count for finding in run.traces[0].health}
    assert codes["stream-overlap"] == 1
    assert codes["zero-duration"] == 1
    assert codes["unclassified"] == 1
    assert codes["collective-size"] == 1
    assert codes["collective-type"] == 1
    assert "collective-group" not in codes


def test_unequal_collective_counts_and_missing_ranks():
    group = ProcessGroup("dp", (0, 1))
    comm = {"comm_op": CommOp.ALL_REDUCE, "kind": NodeKind.COMM_COLL, "comm_group": 0, "comm_bytes": 4}
    first = make_trace([node("c", 0, 1, **comm), node("c", 2, 1, **comm)], rank=0, groups=[group])
    second = make_trace([node("c", 0, 1, **comm)], rank=1, groups=[group])
    codes = {finding.code for finding in assemble([first, second], "uneven").health}
    assert "collective-counts" in codes


def test_orphans_and_unawaited_device_nodes():
    trace = make_trace([node("launch", 0, 1, "cpu"), node("k", 2, 1), node("lost", 4, 1)], [(0, 1)])
    findings = {finding.code: finding for finding in assemble([trace], "x").traces[0].health}
    assert findings["orphan-device-node"].examples == (2,)
    assert findings["device-node-unawaited"].count == 2
    assert trace.columns.domain.tolist() == [Domain.HOST, Domain.DEVICE, Domain.DEVICE]
    assert np.all(trace.columns.start_ns != NO_TIME)


def test_a_profile_beside_an_execution_trace_is_one_rank():
    run = open_run([samples_root() / "pytorch_cpu_step"])
    assert [trace.meta.format for trace in run.traces] == ["pytorch-et + kineto"]
    assert run.traces[0].meta.details["link"]["share"] > 0.99
