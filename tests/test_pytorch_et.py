"""PyTorch execution traces: every version of the corpus, call structure, data dependencies, communication, damage."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chakra_core.errors import CorruptTrace
from chakra_core.readers.base import Source
from chakra_core.readers.pytorch_et import READER
from chakra_core.schema import NO_TIME, Category, CommOp, Domain, EdgeKind, LaneKind, NodeKind
from tests.conftest import corpus_root

_ROW = re.compile(
    r"^\| (?P<path>\S+) \| \d+ \| (?:pytorch_et|linked host)[^|]*\| (?P<n>\d+) \| (?P<kernels>\d+) \|", re.MULTILINE
)


def et_files() -> list[str]:
    root = corpus_root()
    if root is None:
        return []
    found = [
        path
        for folder in ("link", "pytorch_et", "collected", "repro")
        for path in sorted((root / folder).rglob("*.json*"))
    ]
    return [str(path.relative_to(root)) for path in found if READER.sniff(Source(path).head, path.name) > 0.5]


def load(path: Path):
    return READER.read(Source(path))[0]


def document(path: Path):
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)


@pytest.fixture(scope="module", params=et_files() or [None])
def opened(request):
    if request.param is None:
        pytest.skip("no corpus: set CHAKRA_CORPUS to a folder of real traces")
    path = corpus_root() / request.param
    return path, load(path)


def test_every_node_is_there_under_its_parent(opened):
    path, trace = opened
    nodes = document(path)["nodes"]
    assert trace.columns.id.tolist() == [node["id"] for node in nodes]
    assert [trace.name_of(row) for row in range(len(trace))] == [node["name"] for node in nodes]
    for row, node in enumerate(nodes):
        above = node.get("parent", node.get("ctrl_deps"))
        expected = -1 if above == node["id"] or trace.columns.parent[row] < 0 else above
        assert expected == (int(trace.columns.id[trace.columns.parent[row]]) if trace.columns.parent[row] >= 0 else -1)
    assert int((trace.columns.parent < 0).sum()) == 1
    assert trace.meta.schema == document(path)["schema"]


def test_dependencies_close_no_cycle_and_producers_come_first(opened):
    _, trace = opened
    targets = trace.edges.targets()
    graph = nx.DiGraph(zip(trace.edges.sources.tolist(), targets.tolist(), strict=True))
    assert nx.is_directed_acyclic_graph(graph)
    data = (trace.edges.kinds == EdgeKind.DATA) & (trace.meta.format == "pytorch-et")
    assert (trace.columns.id[trace.edges.sources[data]] < trace.columns.id[targets[data]]).all()


def test_host_traces_have_no_times_and_linked_ones_have(opened):
    _, trace = opened
    if trace.meta.format == "pytorch-et":
        assert not trace.has_times
        assert (trace.columns.start_ns == NO_TIME).all()
        assert trace.columns.dur_ns.sum() == 0
    else:
        device = trace.device_rows
        assert len(device)
        assert (trace.columns.start_ns[device] != NO_TIME).all()
        assert (trace.columns.parent[device] >= 0).all()


def test_attributes_come_back_whole(opened):
    path, trace = opened
    nodes = document(path)["nodes"]
    for row in range(0, len(nodes), max(1, len(nodes) // 40)):
        found = trace.attributes_of(row)
        for entry in nodes[row].get("attrs", []):
            assert found[entry["name"]] == entry["value"]
        assert found["inputs"] == nodes[row]["inputs"]


def test_counts_of_the_index(corpus: Path):
    checked = 0
    for row in _ROW.finditer((corpus / "INDEX.md").read_text(encoding="utf-8")):
        path = corpus / row["path"]
        if path.is_file():
            trace = load(path)
            assert (trace.meta.events, len(trace)) == (int(row["n"]), int(row["n"])), path
            kernels = np.isin(trace.columns.category[trace.device_rows], (Category.COPY, Category.MEMSET), invert=True)
            assert int(kernels.sum()) == int(row["kernels"]), path
            checked += 1
    assert checked == 8


def test_linked_kernel_time_is_that_of_the_device_trace(corpus: Path):
    folder = corpus / "link" / "dlrm_v100_8"
    trace = load(folder / "linked" / "dlrm_eg_0_plus.json")
    device = document(next((folder / "device").glob("worker0_*")))
    kernels = [event for event in device["traceEvents"] if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    assert int(trace.columns.dur_ns[trace.device_rows].sum()) == sum(event["dur"] for event in kernels) * 1000
    rows = np.flatnonzero(trace.columns.comm_op != CommOp.NONE)
    assert (trace.columns.domain[rows] == Domain.DEVICE).all()
    assert sorted(trace.columns.comm_bytes[rows][trace.columns.comm_op[rows] == CommOp.ALL_REDUCE].tolist()) == [
        448, 907840, 1576964,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "ops", "first"),
    [
        ("link/dlrm_v100_8/host/dlrm_eg_3.json", {CommOp.ALL_TO_ALL: 5, CommOp.ALL_REDUCE: 3}, (24576, "backend 0", 147)),
        ("pytorch_et/1.0.2_allgather_2gpu.json", {CommOp.ALL_GATHER: 10}, (8, "0", 12)),
        ("pytorch_et/1.0.3_resnet_1gpu.json.gz", {CommOp.ALL_REDUCE: 15, CommOp.BROADCAST: 6}, (212480, "0", 33)),
        ("pytorch_et/1.1.0_resnet_2gpu.json.gz", {CommOp.ALL_REDUCE: 15, CommOp.BROADCAST: 6}, (212480, "0", 33)),
        ("collected/pytorch_2.13/rpc/et_host_1.json", {CommOp.ALL_REDUCE: 1, CommOp.ALL_GATHER: 1, CommOp.RECV: 1}, (4096, "0", 3)),
    ],
)  # fmt: skip
def test_collectives_of_every_version(corpus: Path, path, ops, first):
    trace = load(corpus / path)
    c = trace.columns
    rows = np.flatnonzero(c.comm_op != CommOp.NONE)
    assert {
        CommOp(op): int(count) for op, count in zip(*np.unique(c.comm_op[rows], return_counts=True), strict=True)
    } == ops
    assert (c.comm_bytes[rows[0]], trace.meta.groups[c.comm_group[rows[0]]].name, c.comm_seq[rows[0]]) == first
    peers = c.comm_peer[rows[c.comm_op[rows] == CommOp.RECV]].tolist()
    assert peers == [0] * len(peers)


def test_gloo_collectives_come_from_the_backend(corpus: Path):
    trace = load(corpus / "collected" / "pytorch_2.13" / "ddp4" / "et_host_2.json")
    c = trace.columns
    rows = np.flatnonzero(c.comm_op != CommOp.NONE)
    assert {trace.name_of(row).split(":")[0] for row in rows.tolist()} == {"gloo"}
    assert len(rows) == 10
    assert (trace.meta.rank, trace.meta.world_size) == (2, 4)


# --- built traces ----------------------------------------------------------------------------------------------------


def tensor(number, elements=4):
    return [number, number + 1000, 0, elements, 4, "cuda:0"]


def node(number, name, parent, ins=(), outs=(), **more):
    return {"id": number, "name": name, "ctrl_deps": parent,
            "inputs": {"values": list(ins), "shapes": [[2, 2]] * len(ins), "types": ["Tensor(float)"] * len(ins)},
            "outputs": {"values": list(outs), "shapes": [], "types": []},
            "attrs": [{"name": key, "type": "uint64", "value": value} for key, value in more.items()]}  # fmt: skip


ROOT = node(1, "[pytorch|profiler|execution_trace|process]", 1)


def read(tmp_path: Path, nodes, schema="1.1.1-chakra.0.0.4", name="et.json"):
    path = tmp_path / name
    data = (
        nodes
        if isinstance(nodes, bytes)
        else json.dumps({"schema": schema, "pid": 1, "nodes": nodes, "finish_ts": 2}).encode()
    )
    path.write_bytes(data)
    return READER.read(Source(path))[0]


def pairs(trace, kind):
    chosen = trace.edges.kinds == kind
    ends = zip(trace.edges.sources[chosen].tolist(), trace.edges.targets()[chosen].tolist(), strict=True)
    return sorted((int(trace.columns.id[one]), int(trace.columns.id[two])) for one, two in ends)


def codes(trace):
    return {finding.code: finding.count for finding in trace.health}


def test_data_dependencies_lead_from_the_innermost_producer(tmp_path):
    trace = read(tmp_path, [
        node(3, "aten::mm", 2, [tensor(90), tensor(91)], [tensor(50)]),
        node(2, "aten::linear", 1, [tensor(90), tensor(91)], [tensor(50)]),
        node(5, "aten::add_", 4, [tensor(50)], [tensor(50)]),
        node(4, "outer", 1, [tensor(50)]),
        node(6, "aten::relu", 1, [[tensor(50), tensor(90)]], [tensor(51)]),
        ROOT,
    ])  # fmt: skip
    assert pairs(trace, EdgeKind.DATA) == [(3, 4), (3, 5), (5, 6)]
    assert pairs(trace, EdgeKind.CONTROL) == [(1, 2), (1, 4), (1, 6), (2, 3), (4, 5)]
    assert [trace.shapes[code] for code in trace.columns.shape[:2]] == ["[2,2]x[2,2]:f32"] * 2


def test_kinds_threads_and_scopes(tmp_path):
    trace = read(tmp_path, [ROOT, node(2, "step", 1, scope=7, tid=1), node(3, "aten::mm", 2, scope=0, tid=1),
                            node(4, "MmBackward0", 1, scope=1, tid=2)])  # fmt: skip
    c = trace.columns
    assert c.category.tolist() == [Category.ANNOTATION, Category.ANNOTATION, Category.HOST_OP, Category.HOST_OP]
    assert c.kind.tolist() == [NodeKind.METADATA, NodeKind.COMP, NodeKind.COMP, NodeKind.COMP]
    assert [trace.lanes[lane].name for lane in c.lane[1:]] == ["thread 1", "thread 1", "thread 2"]
    assert all(lane.kind == LaneKind.THREAD for lane in trace.lanes)


def test_a_newer_schema_is_read_with_a_warning(tmp_path):
    assert codes(read(tmp_path, [ROOT], schema="1.2.0-chakra.0.0.5")) == {"unknown-schema": 1}
    assert codes(read(tmp_path, [ROOT], schema="1.0.2-chakra.0.0.4")) == {}


def test_damage_is_told_and_the_rest_is_read(tmp_path):
    good = json.dumps({"schema": "1.1.1", "nodes": [ROOT, node(2, "a", 1), node(3, "b", 2)]}).encode()
    cut = read(tmp_path, good[: good.index(b'"b"')])
    assert [cut.name_of(row) for row in range(len(cut))] == [ROOT["name"], "a"]
    assert codes(cut)["truncated"] == 1
    odd = read(tmp_path, good.replace(b'"id": 2', b'"id": "x"').replace(b'"b"', b'"b\xff\x01"'))
    assert codes(odd)["damaged-record"] == 1
    assert codes(odd)["unresolved-dependency"] == 1
    assert odd.name_of(1) == "b�\x01"


def test_parents_that_go_round_in_circles_are_cut(tmp_path):
    trace = read(tmp_path, [ROOT, node(2, "a", 3), node(3, "b", 2), node(4, "c", 99), node(4, "twin", 1)])
    assert codes(trace)["unresolved-dependency"] == 2
    assert codes(trace)["duplicate-id"] == 1
    assert sorted(trace.columns.parent.tolist()) == [-1, -1, -1, 0, 2] or (trace.columns.parent < 0).sum() == 3


def test_a_very_deep_call_stack(tmp_path):
    trace = read(tmp_path, [ROOT, *(node(at, "f", at - 1) for at in range(2, 20_002))])
    assert len(pairs(trace, EdgeKind.CONTROL)) == 20_000


def test_hostile_values(tmp_path):
    deep = "[" * 5000 + "]" * 5000
    text = json.dumps({"schema": "1.1.1", "nodes": [ROOT, node(2, "<b>x</b>", 1, [tensor(2**70)], [None, "x", {}])]})
    text = text.replace('"values": [[1180591620717411303424', '"values": [' + deep + ", [1180591620717411303424")
    trace = read(tmp_path, text.encode())
    assert codes(trace)["damaged-record"] == 1
    plain = read(tmp_path, [ROOT, node(2, "x", 1, [tensor(2**63)], [None, "x", {}, [1, 2], [[[]]]], scope="7", tid={})])
    assert len(plain) == 2


@pytest.mark.parametrize("data", [b"{}", b'{"nodes": 5}', b'{"schema": "1.1.1", "nodes"', b"[]", b""])
def test_what_is_no_trace_is_refused(tmp_path, data):
    with pytest.raises(CorruptTrace, match=r"et\.json"):
        read(tmp_path, data)


def test_sniffing():
    assert READER.sniff(b'{"schema": "1.0.1", "pid": 1, "nodes": [', "x") > 0.9
    assert READER.sniff(b'{"traceEvents": [', "x") == 0
    assert READER.sniff(b'{"nodes": [{"label": 1}]}', "x") < 0.5


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.lists(st.integers(0, 5), max_size=3), st.lists(st.integers(0, 5), max_size=2)),
        max_size=12,
    )
)
def test_data_dependencies_agree_with_brute_force(tmp_path_factory, plan):
    """Operators numbered in start order, each under an earlier one; replayed as nested calls."""
    parents = {at + 2: 1 + place % (at + 1) for at, (place, _, _) in enumerate(plan)}
    nodes = [node(at + 2, f"op{at}", parents[at + 2], [tensor(700 + t) for t in ins], [tensor(700 + t) for t in outs])
             for at, (_, ins, outs) in enumerate(plan)]  # fmt: skip
    trace = read(tmp_path_factory.mktemp("et"), [ROOT, *nodes])
    last = {
        number: max([number, *(child for child in parents if _inside(parents, child, number))])
        for number in [1, *parents]
    }
    producer: dict[int, int] = {}
    expected = set()
    for clock in range(1, len(plan) + 2):
        if clock > 1:
            expected |= {(producer[t], clock) for t in plan[clock - 2][1] if t in producer}
        for done in sorted((number for number in last if last[number] == clock and number > 1), reverse=True):
            for t in plan[done - 2][2]:
                if producer.get(t, -1) < done:
                    producer[t] = done
    assert set(pairs(trace, EdgeKind.DATA)) == expected


def _inside(parents, child, number):
    while child in parents:
        child = parents[child]
        if child == number:
            return True
    return False
