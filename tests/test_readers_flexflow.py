"""FlexFlow task graphs: every dialect, worked out by hand, and the real graphs of the corpus."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from chakra_core.errors import CorruptTrace
from chakra_core.opening import open_run
from chakra_core.readers.base import Source
from chakra_core.readers.flexflow import READER
from chakra_core.schema import NO_TIME, CommOp, NodeKind, TimeKind

CHAKRA = """digraph taskgraph {  node0 [color=red,label="{device_id=0|Dense_1|Forward|COMP_NODE|simulated_run_time=0.25}",shape=record];
  node0 -> node1;
  node1 [label="{device_id=1|Comm from a to b|Comm|COMM_SEND_RECV_NODE|src_device_id=0|dst_device_id=1|comm_size=64|run_time=0.5}",shape=record];
  node1 -> node2;
  node2 [color=blue,label="{device_id=1|Dense_1|Backward|COMP_NODE|simulated_run_time=3.82529e-08}",shape=record];
}"""


def write(folder: Path, text: str, name: str = "x.graph") -> Source:
    path = folder / name
    path.write_text(text)
    return Source(path)


def test_transfer_becomes_a_matched_send_and_receive(tmp_path: Path):
    first, second = READER.read(write(tmp_path, CHAKRA))
    assert (first.meta.rank, second.meta.rank, first.meta.world_size) == (0, 1, 2)
    assert first.columns.dur_ns.tolist() == [250_000, 500_000]
    assert second.columns.dur_ns.tolist() == [500_000, 0]
    assert first.columns.kind.tolist() == [NodeKind.COMP, NodeKind.COMM_SEND]
    assert second.columns.kind.tolist() == [NodeKind.COMM_RECV, NodeKind.COMP]
    assert first.columns.comm_op.tolist() == [CommOp.NONE, CommOp.SEND]
    assert (first.columns.comm_peer[1], second.columns.comm_peer[0]) == (1, 0)
    assert first.columns.comm_tag[1] == second.columns.comm_tag[0]
    assert first.columns.comm_bytes[1] == second.columns.comm_bytes[0] == 64
    assert first.edges.of(1)[0].tolist() == [0]
    assert second.edges.of(1)[0].tolist() == [0]
    assert second.edges.of(0)[0].tolist() == []


def test_own_task_graph_has_times_but_no_devices(tmp_path: Path):
    text = """digraph taskgraph {
  node0 [label="{ Linear_0 | Forward | { 0 | 1.5 } }",shape=record];
  node0 -> node1;
  node2 [label="{ Barrier | { 0.5 | 0.75 } }",shape=record];
  node1 [label="{ Comm | { 1.5 | 2 } }",shape=record];
}"""
    (trace,) = READER.read(write(tmp_path, text))
    assert trace.meta.time_kind == TimeKind.SIMULATED
    assert trace.columns.start_ns.tolist() == [0, 500_000, 1_500_000]
    assert trace.columns.dur_ns.tolist() == [1_500_000, 250_000, 500_000]
    assert trace.columns.lane.tolist() == [0, 1, 0]
    assert [trace.name_of(row) for row in range(3)] == ["Linear_0 Forward", "Barrier", "Comm"]


def test_computation_graph_is_found_inside_a_log(tmp_path: Path):
    text = """[0] optimal cost 0.2
digraph taskgraph {
  node0 [label="{ Dense_5 | 5 | { 2 } | { 0 | 1 } | { fwd | bwd | sync | secs } | { 1.0e-02 | 2.0e-02 | 3.0e-02 } | { in | out | weight | bytes } | { 1 | 2 | 3 } }",shape=record];
  node1 [label=Softmax_6];
  node0 -> node1;
}
[0] done
"""
    (trace,) = READER.read(write(tmp_path, text, "run.log"))
    assert trace.columns.dur_ns.tolist() == [60_000, 0]
    assert trace.columns.start_ns.tolist() == [NO_TIME, NO_TIME]
    assert trace.edges.of(1)[0].tolist() == [0]


def test_damage_is_reported_and_the_rest_is_read(tmp_path: Path):
    broken = CHAKRA.replace("simulated_run_time=0.25", "simulated_run_time=much")
    traces = READER.read(write(tmp_path, broken))
    assert {finding.code for finding in traces[0].health} == {"damaged-record", "unresolved-dependency"}
    cut = CHAKRA[: CHAKRA.index("  node2")]
    assert "truncated" in {finding.code for finding in READER.read(write(tmp_path, cut))[0].health}
    with pytest.raises(CorruptTrace, match="no node"):
        READER.read(write(tmp_path, "digraph taskgraph {"))


def test_real_graphs_lose_no_node_and_no_edge(corpus: Path):
    paths = sorted((corpus / "flexflow" / "chakra_dialect").glob("*.graph"))
    assert paths
    for path in paths:
        text = path.read_text()
        nodes = len(re.findall(r"node\d+ \[", text))
        transfers = text.count("COMM_SEND_RECV_NODE")
        assert READER.sniff(text[:4096].encode(), path.name) > 0.9
        traces = READER.read(Source(path))
        assert sum(map(len, traces)) == nodes + transfers
        assert sum(len(trace.edges) for trace in traces) == text.count(" -> ")
        assert len(traces) == int(path.name.split(".")[1])
        assert not any(trace.health for trace in traces)


def test_dependencies_across_devices_are_kept_as_empty_transfers(tmp_path: Path):
    text = """digraph taskgraph {  node7 [label="{device_id=0|A|Forward|COMP_NODE|simulated_run_time=1}",shape=record];
  node8 [label="{device_id=1|B|Forward|COMP_NODE|simulated_run_time=2}",shape=record];
  node7 -> node8;
}"""
    run = open_run([write(tmp_path, text).path])
    first, second = run.traces
    assert [(finding.code, finding.count) for finding in first.health][:1] == [("cross-device-dependency", 1)]
    assert first.columns.comm_op.tolist() == [CommOp.NONE, CommOp.SEND]
    assert second.columns.comm_op.tolist() == [CommOp.NONE, CommOp.RECV]
    assert (first.columns.comm_bytes[1], first.columns.comm_tag[1]) == (0, second.columns.comm_tag[1])
    assert second.edges.of(0)[0].tolist() == [1]
    assert int(second.columns.start_ns[0]) == 1_000_000  # after the other device's millisecond


def test_replay_agrees_with_flexflows_own_simulation(corpus: Path):
    """The same graph in both dialects: without times, replayed; and with the times that FlexFlow's simulator gave."""
    ours = open_run([corpus / "flexflow/mlp2_taskgraph_chakra.dot"])
    theirs = open_run([corpus / "flexflow/mlp2_taskgraph_upstream.dot"])
    assert ours.time_kind == TimeKind.RECONSTRUCTED
    assert not [finding for finding in ours.health if finding.code == "unmatched-wait"]
    assert abs(ours.span_ns - theirs.span_ns) <= 2  # times in the file have six digits


def test_resnet_has_every_node_and_edge_of_its_source(corpus: Path):
    path = corpus / "flexflow/chakra_dialect/resnet.4.graph"
    text = path.read_text()
    transfers = text.count("COMM_SEND_RECV_NODE")
    traces = READER.read(Source(path))
    assert len(traces) == 4
    assert sum(map(len, traces)) == text.count("[") + transfers == 3934
    assert sum(len(trace.edges) for trace in traces) == text.count("->") == 5190
    for trace in traces:
        c = trace.columns
        assert not trace.health
        assert (c.dur_ns[c.comm_op == CommOp.RECV] > 0).any()
    assert sum(int(trace.columns.dur_ns.sum()) for trace in traces) > 0
    ends = {
        (trace.meta.rank, int(peer), int(tag))
        for trace in traces
        for peer, tag in zip(trace.columns.comm_peer, trace.columns.comm_tag, strict=True)
        if peer >= 0
    }
    assert all((peer, rank, tag) in ends for rank, peer, tag in ends)


@pytest.mark.parametrize(
    ("old", "new"),
    [("node1 [", "node99999999999999999999999 ["), ("device_id=1|Comm", "device_id=4294967296|Comm"),
     ("src_device_id=0", "src_device_id=4294967296"), ("comm_size=64", "comm_size=99999999999999999999")],
)  # fmt: skip
def test_impossible_numbers_are_damage(tmp_path: Path, old: str, new: str):
    traces = READER.read(write(tmp_path, CHAKRA.replace(old, new)))
    assert "damaged-record" in {finding.code for finding in traces[0].health}
