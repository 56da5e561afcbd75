"""Files for the simulator obey its rules, whatever the trace: checked with the rules themselves, written down apart."""

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chakra_core.opening import open_run, open_trace
from chakra_core.schema import Category, CommOp, Domain, EdgeKind, NodeKind
from chakra_core.trace import Edges, ProcessGroup, Run
from chakra_core.writers.check import as_written, check_ranks
from chakra_core.writers.convert import convert
from tests.astra_rules import Refused, attributes, load, simulate
from tests.builder import make_trace, node

GROUPS = [ProcessGroup("tp", (0, 1)), ProcessGroup("default", (0, 1, 2), size=3), ProcessGroup("7", (1, 2))]
REDUCE = {"comm_op": CommOp.ALL_REDUCE, "comm_bytes": 4096}


def run_of(*traces):
    return Run(tuple(traces), "run")


def finishes(done):
    ended = simulate(done.files[0].with_name(done.files[0].name.split(".")[0]), len(done.files), done.groups_file)
    traces = [as_written(trace) for path in done.files for trace in open_trace(path)]
    assert check_ranks(traces, done.groups) == ()
    return all(ended)


@st.composite
def ranks(draw):
    """Three ranks of anything: host and device work, communication that matches or not, edges that may close cycles."""
    made = []
    for rank in range(3):
        nodes = []
        for _ in range(draw(st.integers(1, 7))):
            kind = draw(
                st.sampled_from(
                    [
                        NodeKind.COMP,
                        NodeKind.COMP,
                        NodeKind.METADATA,
                        NodeKind.INVALID,
                        *([NodeKind.COMM_COLL] * 4),
                        NodeKind.COMM_SEND,
                        NodeKind.COMM_RECV,
                    ]
                )
            )
            entry = node(
                "n",
                draw(st.integers(0, 9)),
                draw(st.integers(0, 5)),
                lane=draw(st.sampled_from(["thread 1", "gpu:7"])),
                kind=kind,
            )
            if kind >= NodeKind.COMM_SEND:
                op = {NodeKind.COMM_SEND: CommOp.SEND, NodeKind.COMM_RECV: CommOp.RECV}.get(kind)
                entry["comm_op"] = (
                    draw(
                        st.sampled_from(
                            [
                                CommOp.ALL_REDUCE,
                                CommOp.ALL_GATHER,
                                CommOp.BROADCAST,
                                CommOp.GATHER,
                                CommOp.BARRIER,
                                CommOp.UNKNOWN,
                            ]
                        )
                    )
                    if op is None
                    else op
                )
                entry["comm_bytes"] = draw(st.sampled_from([-1, 0, 8, 4096]))
                entry["comm_group"] = draw(st.integers(-1, 2)) if op is None else -1
                entry["comm_seq"] = draw(st.sampled_from([-1, 1]))
                entry["comm_peer"] = -1 if op is None else draw(st.integers(-1, 3))
                entry["comm_tag"] = draw(st.integers(-1, 1))
            nodes.append(entry)
        last = len(nodes) - 1
        pairs = draw(
            st.lists(st.tuples(st.integers(0, last), st.integers(0, last), st.sampled_from(list(EdgeKind))), max_size=8)
        )
        made.append(make_trace(nodes, list(dict.fromkeys(pairs)), rank=rank, groups=GROUPS))
    return made


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(ranks())
def test_any_run_finishes(tmp_path_factory, made):
    assert finishes(convert(run_of(*made), tmp_path_factory.mktemp("w") / "w"))


def test_the_rules_refuse_what_they_should(tmp_path):
    trace = make_trace([node("m", 0, 1, kind=NodeKind.METADATA), node("r", 1, 1, lane="thread 1", **REDUCE)], [(0, 1)])
    with pytest.raises(Refused):
        simulate(tmp_path / "a", 1, convert(run_of(trace), tmp_path / "a", purpose="archive").groups_file)


def test_groups_are_integers_and_all_ranks_are_zero(tmp_path):
    traces = [
        make_trace(
            [node("a", 0, 1, comm_group=1, **REDUCE), node("b", 2, 1, comm_group=0, **REDUCE) if rank < 2 else node("c", 2, 1)],
            rank=rank, groups=GROUPS,
        )
        for rank in range(3)
    ]  # fmt: skip
    done = convert(run_of(*traces), tmp_path / "w")
    assert json.loads(done.groups_file.read_text()) == {"1": [0, 1], "7": [1, 2]}
    named = [{said.get("pg_name") for said in map(attributes, load(path).values())} for path in done.files]
    assert named == [{"0", "1"}, {"0", "1"}, {"0", None}]
    assert finishes(done)


def test_ranks_that_meet_collectives_in_another_order_share_one(tmp_path):
    small, large = {**REDUCE, "comm_bytes": 8}, REDUCE
    first = make_trace([node("a", 0, 1, **small), node("b", 5, 1, **large)], rank=0)
    second = make_trace([node("b", 0, 1, **large), node("a", 5, 1, **small)], rank=1)
    done = convert(run_of(first, second), tmp_path / "w")
    assert finishes(done)
    assert not [change for change in done.changes if change.code in ("replayed", "resized")]


def test_receive_before_its_own_send_is_put_in_order(tmp_path):
    talk = [
        [node("r", 0, 1, kind=NodeKind.COMM_RECV, comm_op=CommOp.RECV, comm_peer=1 - rank, comm_bytes=8),
         node("s", 2, 1, kind=NodeKind.COMM_SEND, comm_op=CommOp.SEND, comm_peer=1 - rank, comm_bytes=8)]
        for rank in (0, 1)
    ]  # fmt: skip
    assert finishes(convert(run_of(*(make_trace(one, rank=at) for at, one in enumerate(talk))), tmp_path / "w"))


def test_what_cannot_be_simulated_is_replayed_and_comes_back_as_what_it_is(tmp_path):
    gather = node("g", 0, 7_000, comm_op=CommOp.GATHER, comm_bytes=64)
    lonely = node("s", 9_000, 1, kind=NodeKind.COMM_RECV, comm_op=CommOp.RECV, comm_peer=5, comm_bytes=8)
    done = convert(run_of(make_trace([gather, lonely], rank=0)), tmp_path / "w")
    said = [attributes(entry) for entry in load(done.files[0]).values()]
    assert [one["comm_type"] for one in said] == [CommOp.BROADCAST, CommOp.BROADCAST]
    assert {change.code: change.count for change in done.changes}["replayed"] == 2
    (back,) = open_trace(done.files[0])
    assert back.columns.comm_op.tolist() == [CommOp.GATHER, CommOp.RECV]
    assert back.columns.kind.tolist() == [NodeKind.COMM_COLL, NodeKind.COMM_RECV]
    assert back.columns.dur_ns.tolist() == [7_000, 1]
    assert finishes(done)


def test_host_runs_for_its_own_time(tmp_path):
    nodes = [
        node("step", 0, 100_000, lane="thread 1"),
        node("launch", 10_000, 5_000, lane="thread 1", parent=0, category=Category.RUNTIME),
        node("sync", 20_000, 60_000, lane="thread 1", parent=0, category=Category.RUNTIME),
        node("kernel", 16_000, 60_000, parent=1),
    ]
    trace = make_trace(nodes, [(1, 3, EdgeKind.LAUNCH), (3, 2, EdgeKind.SYNC)])
    done = convert(run_of(trace), tmp_path / "w")
    entries = {entry.name: entry for entry in load(done.files[0]).values()}
    # step: 100 - 5 - 60; sync waits for the kernel, which ends at 76, until 80
    assert {name: entry.duration_micros for name, entry in entries.items()} == {
        "step": 35,
        "launch": 5,
        "kernel": 60,
        "sync": 4,
    }
    (back,) = open_trace(done.files[0])
    assert {back.name_of(row): int(back.columns.dur_ns[row]) for row in range(4)} == {
        "step": 100_000,
        "launch": 5_000,
        "sync": 60_000,
        "kernel": 60_000,
    }
    assert list(entries["launch"].ctrl_deps) == [100]
    assert list(entries["launch"].data_deps) == [100]
    assert set(entries["sync"].data_deps) == {101, 103}


def test_ranks_are_numbered_from_zero(tmp_path):
    traces = [make_trace([node("a", 0, 1, **REDUCE)], rank=rank) for rank in (3, 5)]
    done = convert(run_of(*traces), tmp_path / "w.et")
    assert [path.name for path in done.files] == ["w.0.et", "w.1.et"]
    assert finishes(done)
    assert "rank-numbered" in {change.code for change in done.changes}


def test_the_check_names_every_broken_rule():
    nodes = [
        node("m", 0, 1, kind=NodeKind.METADATA),
        node("h", 1, 1, lane="thread 1", comm_op=CommOp.ALL_REDUCE, comm_bytes=-1, comm_group=0),
        node("g", 2, 1, comm_op=CommOp.GATHER, comm_bytes=8),
        node("r", 3, 1, kind=NodeKind.COMM_RECV, comm_op=CommOp.RECV, comm_peer=1, comm_bytes=8),
        node("s", 3, 1, kind=NodeKind.COMM_SEND, comm_op=CommOp.SEND, comm_bytes=8),
    ]
    trace = make_trace(nodes, [(0, 1), (1, 0)], groups=[ProcessGroup("tp", (0, 1))])
    found = {problem.code for problem in check_ranks([trace], {})}
    assert found == {
        "cycle", "metadata-node", "host-communication", "collective-size", "collective-type", "peer", "group-name",
        "collectives-unmatched", "receive-unmatched",
    }  # fmt: skip


@pytest.mark.parametrize(
    "folder",
    [
        "link/dlrm_v100_8/device",
        "link/dlrm_v100_8/linked",
        "collected/pytorch_2.13/ddp4",
        "chakra_et/derived_stg_dp2_tp2_pp2",
        "chakra_et/custom_ring_allreduce_8npu",
    ],
)
def test_corpus_runs_finish(corpus, tmp_path, folder):
    run = open_run([corpus / folder])
    done = convert(run, tmp_path / "w")
    assert finishes(done)
    for trace, path in zip(run.traces, done.files, strict=True):
        (back,) = open_trace(path)
        before = trace.columns.domain == Domain.DEVICE
        kernels = before & (trace.columns.category != Category.ANNOTATION) & (trace.columns.kind >= NodeKind.COMP)
        after = np.isin(back.columns.id, trace.columns.id[kernels])
        assert after.sum() == kernels.sum()
        assert back.columns.dur_ns[after].sum() == trace.columns.dur_ns[kernels].sum()
        ops = [sorted(one.columns.comm_op[one.columns.comm_op >= 0].tolist()) for one in (trace, back)]
        assert ops[0] == ops[1]


def test_edges_of_an_archive_are_all_there(tmp_path):
    trace = make_trace([node("a", 5, 1), node("b", 0, 1), node("c", 2, 1)], [(0, 1), (1, 2, EdgeKind.STREAM), (2, 2)])
    trace = trace.with_(edges=Edges.from_pairs(3, [2, 1, 0], [1, 0, 2], [0, 3, 1]))
    (path,) = convert(run_of(trace), tmp_path / "w", purpose="archive").files
    (back,) = open_trace(path)
    ids = back.columns.id
    found = {
        (int(ids[a]), int(ids[b]), k)
        for a, b, k in zip(back.edges.sources, back.edges.targets(), back.edges.kinds, strict=True)
    }
    assert found == {(102, 101, 0), (101, 100, 3), (100, 102, 1)}
