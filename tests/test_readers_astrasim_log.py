"""ASTRA-sim's logs: the timeline in every spelling, statistics, rotation, and damaged or hostile content."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from chakra_core.analysis import breakdown
from chakra_core.errors import CorruptTrace, LimitExceeded
from chakra_core.opening import open_run
from chakra_core.readers import guess_reader
from chakra_core.readers.astrasim_log import READER
from chakra_core.readers.base import Source
from chakra_core.schema import Category, CommOp, NodeKind, TimeKind
from chakra_core.trace import Trace

PREFIX = "[2026-01-01T10:00:00+0000] [D] <workload>: "
EVENTS = [
    "issue,sys->id=0, tick=0, node->id=1, node->name=fwd, gemm=1, node->type=4",
    "issue,sys->id=1, tick=5, node->id=1, node->name=fwd, node->type=4",
    "callback,sys->id=0, tick=10, node->id=1, node->name=fwd, gemm=1, node->type=4",
    "issue,sys->id=0, tick=10, node->id=18446744073709551615, node->name=ar, node->type=7",
    "callback,sys->id=1, tick=25, node->id=1, node->name=fwd, node->type=4",
    "callback,sys->id=0, tick=70, node->id=18446744073709551615, node->name=ar, node->type=7",
]
STATISTICS = [
    "sys[0] finished, 100 cycles, exposed communication 60 cycles.",
    "sys[0]. Post statistics processing start.",
    "sys[0], Wall time: 100",
    "sys[0], CPU time: 4",
    "sys[0], GPU time: 40",
    "sys[0], Comm time: 50",
    "sys[0], Total compute-communication overlap: 10",
    "sys[0], Compute bound percentage: 12.5%",
]


def read(folder: Path, lines: list[str], name: str = "log.log") -> list[Trace]:
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    source = Source(path)
    assert guess_reader(source) is READER
    return list(READER.read(source))


@pytest.mark.parametrize("prefix", ["", PREFIX])
def test_a_node_runs_from_issue_to_callback(tmp_path: Path, prefix: str):
    zero, one = read(tmp_path, [prefix + line for line in EVENTS])
    assert zero.columns.id.tolist() == [1, 2**64 - 1]
    assert [zero.name_of(row) for row in (0, 1)] == ["fwd, gemm=1", "ar"]
    assert zero.columns.start_ns.tolist() == [0, 10]
    assert zero.columns.dur_ns.tolist() == [10, 60]
    assert zero.columns.kind.tolist() == [NodeKind.COMP, NodeKind.COMM_COLL]
    assert (one.meta.rank, one.meta.world_size, one.columns.dur_ns.tolist()) == (1, 2, [20])
    assert one.meta.time_kind == TimeKind.SIMULATED
    assert zero.attributes(1) == {"issue_tick": 0, "callback_tick": 10, "node_type": 4}
    assert not zero.health
    assert open_run([tmp_path / "log.log"]).time_kind == TimeKind.SIMULATED


def test_the_documented_csv_and_names_that_say_the_kind(tmp_path: Path):
    lines = [
        f"{what},npu={0},cycle={tick},id={node},name={name}"
        for node, name in enumerate(
            ("COMP_NODE_a", "COMM_COLL_NODE_b_ALL_REDUCE", "COMM_SEND_NODE_c", "MEM_LOAD_NODE_d")
        )
        for what, tick in (("issue", node * 10), ("callback", node * 10 + 5))
    ]
    (trace,) = read(tmp_path, lines, "timeline.csv")
    assert trace.columns.kind.tolist() == [NodeKind.COMP, NodeKind.COMM_COLL, NodeKind.COMM_SEND, NodeKind.MEM_LOAD]
    assert trace.columns.comm_op.tolist() == [CommOp.NONE, CommOp.ALL_REDUCE, CommOp.SEND, CommOp.NONE]
    assert trace.columns.category[1:].tolist() == [Category.COMMUNICATION, Category.COMMUNICATION, Category.COPY]
    assert set(trace.columns.dur_ns.tolist()) == {5}


def test_statistics_alone_give_the_same_breakdown_as_the_log_says(tmp_path: Path):
    (trace,) = read(tmp_path, STATISTICS, "out.txt")
    assert "totals-only" in {finding.code for finding in trace.health}
    parts = breakdown.breakdown(trace).total
    assert (parts.total_ns, parts.compute_ns, parts.exposed_comm_ns, parts.comm_ns) == (100, 40, 40, 50)
    assert parts.idle_ns == 20
    assert trace.meta.details["statistics"]["compute_bound_percentage"] == 12.5


def test_finish_line_alone(tmp_path: Path):
    (trace,) = read(tmp_path, STATISTICS[:1], "out.txt")
    assert breakdown.breakdown(trace).total.total_ns == 100
    assert trace.columns.dur_ns.tolist() == [40, 60]


def test_statistics_stay_with_the_timeline(tmp_path: Path):
    zero, _ = read(tmp_path, [*EVENTS, *STATISTICS])
    assert zero.meta.details["statistics"]["exposed_communication"] == 60
    assert zero.meta.schema == "timeline"


def test_rotated_parts_are_one_log(tmp_path: Path):
    (tmp_path / "log.2.log").write_text("\n".join(EVENTS[:2]) + "\n")
    (tmp_path / "log.1.log").write_text("\n".join(EVENTS[2:4]) + "\n")
    (tmp_path / "log.log").write_text("\n".join(EVENTS[4:]) + "\n")
    run = open_run([tmp_path])
    assert [trace.columns.dur_ns.tolist() for trace in run.traces] == [[10, 60], [20]]


def test_what_does_not_fit_is_counted(tmp_path: Path):
    lines = [
        *EVENTS[:5],  # the collective is never called back
        "callback,sys->id=1, tick=26, node->id=9, node->name=x",
        "issue,sys->id=zero, tick=26, node->id=9, node->name=x",
        "issue,sys->id=1, tick=99999999999999999999999, node->id=9, node->name=x",
        "known issue, not an event",
        "issue,sys->id=1, tick=50, node->id=4, node->name=back",
        "callback,sys->id=1, tick=40, node->id=4, node->name=back",
    ]
    zero, one = read(tmp_path, lines)
    found = {finding.code: finding.count for trace in (zero, one) for finding in trace.health}
    assert found == {"unfinished": 1, "damaged-record": 2, "callback-without-issue": 1, "negative-duration": 1}
    assert zero.columns.dur_ns.tolist() == [10, 0]


def test_hostile_logs(tmp_path: Path):
    with pytest.raises(CorruptTrace, match="trace-enabled"):
        read(tmp_path, [f"{PREFIX}nothing"])
    many = [f"issue,sys->id={at}, tick=1, node->id=1, node->name=a" for at in range(65_537)]
    with pytest.raises(LimitExceeded, match="65,537"):
        read(tmp_path, many)
    path = tmp_path / "bad.log"
    path.write_bytes(
        b"issue,sys->id=0, tick=1, node->id=1, node->name=\xff\xfe\x00\ncallback,sys->id=0, tick=4, node->id=1, n"
    )
    (trace,) = READER.read(Source(path))
    assert trace.name_of(0) == "\ufffd\ufffd\x00"
    assert trace.columns.dur_ns.tolist() == [3]


def test_real_output(corpus: Path):
    run = open_run([corpus / "astrasim/outputs/rt_template_stdout.txt"])
    assert run.ranks == tuple(range(8))
    assert {breakdown.breakdown(trace).total.exposed_comm_ns for trace in run.traces} == {117_780}


def test_interleaved_nodes_pair_as_in_plain_python(tmp_path: Path):
    rng = np.random.default_rng(5)
    events = []
    for node in range(300):
        start = int(rng.integers(0, 1000))
        events += [(start, 0, node), (start + 1 + int(rng.integers(0, 99)), 1, node)]
    events.sort()
    lines = [f"{('issue', 'callback')[what]},s=3,t={tick},i={node},n=node {node}" for tick, what, node in events]
    (trace,) = read(tmp_path, lines, "t.csv")
    start = {node: tick for tick, what, node in events if not what}
    assert {
        int(i): (int(s), int(s + d))
        for i, s, d in zip(trace.columns.id, trace.columns.start_ns, trace.columns.dur_ns, strict=True)
    } == {node: (start[node], tick) for tick, what, node in events if what}
