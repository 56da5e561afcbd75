"""Collectives of one rank on hand-made traces, and what must hold on any."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chakra_core.analysis.collectives import as_json, bus_factor, collectives, message_sizes, share_in
from chakra_core.analysis.scope import WHOLE, Scope
from chakra_core.intervals import merge
from chakra_core.schema import Category, CommOp
from chakra_core.trace import ProcessGroup
from tests.builder import make_trace, node

FOUR = ProcessGroup("tp", (0, 1, 2, 3))
ALONE = ProcessGroup("alone", (0,))
UNSIZED = ProcessGroup("unsized")


def comm(op, start, dur, size=-1, group=-1, **more):
    return node(op.label, start, dur, "gpu:9", comm_op=op, comm_bytes=size, comm_group=group, **more)


def hardware(trace, name):
    return trace.with_(meta=replace(trace.meta, hardware=name))


def test_bandwidth_by_hand():
    trace = make_trace(
        [
            node("gemm", 0, 60), node("copy", 60, 100, "gpu:8", category=Category.COPY),
            comm(CommOp.ALL_REDUCE, 50, 100, 4000, 0), comm(CommOp.ALL_REDUCE, 200, 300, 4000, 0),
            comm(CommOp.ALL_GATHER, 600, 10, 1000, 0), comm(CommOp.SEND, 620, 20, 500, comm_peer=1),
        ],
        groups=[FOUR],
    )  # fmt: skip
    result = collectives(hardware(trace, "NVIDIA H100 80GB HBM3"))
    assert [result.label(at) for at in range(3)] == ["all-reduce", "send", "all-gather"]
    assert result.members.tolist() == [4, 2, 4]
    assert (result.count[0], result.total_ns[0], result.exposed_ns[0]) == (2, 400, 390)  # a copy hides nothing
    times = [getattr(result, f"{name}_ns")[0] for name in ("min", "median", "mean", "p95", "max")]
    assert times == [100, 100, 200, 300, 300]
    assert result.algbw[0] == pytest.approx(4000 / 200e-9)
    assert result.busbw[0] == pytest.approx(1.5 * 4000 / 200e-9)
    assert result.best_busbw[0] == pytest.approx(1.5 * 4000 / 100e-9)
    assert (result.algbw[1], result.busbw[1]) == pytest.approx((500 / 20e-9, 500 / 20e-9))
    assert result.busbw[2] == pytest.approx(0.75 * 1000 / 10e-9)
    assert result.device is not None
    assert result.link.tolist() == [result.device.link_bandwidth] * 3
    assert not result.missing
    assert result.longest.tolist() == [3, 5, 4]


def test_the_size_of_chakra_is_what_a_rank_puts_in():
    trace = make_trace([comm(CommOp.ALL_GATHER, 0, 10, 1000), comm(CommOp.REDUCE_SCATTER, 20, 10, 1000)])
    chakra = trace.with_(meta=replace(trace.meta, format="chakra-et", world_size=4))
    gather, scatter = (collectives(chakra).busbw[at] for at in (0, 1))
    by_op = {collectives(chakra).label(at): collectives(chakra).busbw[at] for at in (0, 1)}
    assert by_op["all-gather"] == pytest.approx(0.75 * 4000 / 10e-9)
    assert by_op["reduce-scatter"] == pytest.approx(0.75 * 1000 / 10e-9)
    assert {gather, scatter} == set(by_op.values())


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        ([comm(CommOp.ALL_REDUCE, 0, 10, 8, -1)], "no group size is stated"),
        ([comm(CommOp.ALL_REDUCE, 0, 10, 8, 2)], "no group size is stated"),
        ([comm(CommOp.ALL_REDUCE, 0, 10, 8, 1)], "the group has one member"),
        ([comm(CommOp.ALL_REDUCE, 0, 10, -1, 0)], "no message size is stated"),
        ([comm(CommOp.ALL_REDUCE, 0, 10, 0, 0)], "the message is empty"),
        ([comm(CommOp.BARRIER, 0, 10, -1, 0)], "a barrier moves no data"),
        ([comm(CommOp.UNKNOWN, 0, 10, 8, 0)], "the trace does not name the operation"),
        ([comm(CommOp.ALL_REDUCE, 0, 0, 8, 0)], "it takes no time"),
    ],
)
def test_what_is_not_known_is_told_and_never_invented(nodes, reason):
    trace = make_trace(nodes * 3, groups=[FOUR, ALONE, UNSIZED])
    result = collectives(trace)
    assert dict(result.missing) == {reason: 3}
    assert np.isnan(result.busbw).all()
    (record,) = as_json(trace)["collectives"]
    assert (record["busbw_gbps"], record["link_gbps"], record["link_share"]) == (None, None, None)


def test_communication_on_the_host_and_none_at_all():
    trace = make_trace([node("gloo:all_reduce", 0, 10, "main", comm_op=CommOp.ALL_REDUCE, comm_bytes=8, comm_group=0)],
                       groups=[FOUR])  # fmt: skip
    (record,) = as_json(trace)["collectives"]
    assert (record["exposed_ns"], record["exposed_share"]) == (None, None)
    assert record["busbw_gbps"] == pytest.approx(1.2)
    nothing = collectives(make_trace([node("gemm", 0, 10)]))
    assert (len(nothing), nothing.reason) == (0, "the trace records no communication")
    assert collectives(trace, Scope((100, 200))).reason == "no communication lies in the chosen range"


def test_the_type_is_that_of_the_call_that_launched_it():
    nodes = [
        node("aten::linear", 0, 100, "main", shape=1),
        node("nccl:all_reduce", 10, 50, "main", shape=0, parent=0, category=Category.ANNOTATION),
        node("cudaLaunchKernel", 20, 5, "main", parent=1, category=Category.RUNTIME),
        comm(CommOp.ALL_REDUCE, 30, 10, 32, parent=2),
        node("cudaLaunchKernel", 70, 5, "main", parent=0, category=Category.RUNTIME),
        comm(CommOp.ALL_REDUCE, 80, 10, 32, parent=4),
    ]
    trace = make_trace(nodes).with_(shapes=("[16]:bf16", "[4,4]:f32"))
    assert set(collectives(trace).dtype) == {"bf16", ""}


def test_links_within_and_beyond_a_domain():
    groups = [ProcessGroup("in", tuple(range(8))), ProcessGroup("out", (0, 8)), ProcessGroup("wide", size=16)]
    nodes = [comm(CommOp.ALL_REDUCE, 100 * at, 50 - at, 8, at) for at in range(3)]
    result = collectives(hardware(make_trace(nodes, groups=groups), "NVIDIA H100 80GB HBM3"))
    device = result.device
    assert device is not None
    assert result.link.tolist() == [device.link_bandwidth, device.scale_out_bandwidth, device.scale_out_bandwidth]


def test_a_window_cuts_time_and_not_bandwidth():
    trace = make_trace([node("gemm", 0, 20), comm(CommOp.ALL_REDUCE, 10, 100, 4000, 0)], groups=[FOUR])
    whole, cut = collectives(trace), collectives(trace, Scope((50, 80)))
    assert (whole.total_ns[0], whole.exposed_ns[0]) == (100, 90)
    assert (cut.total_ns[0], cut.exposed_ns[0]) == (30, 30)
    assert cut.busbw[0] == whole.busbw[0]
    assert cut.clipped


def test_message_sizes_by_powers_of_two():
    sizes = [0, 1, 3, 4, 7, 64, -1]
    nodes = [comm(CommOp.ALL_REDUCE, 10 * at, 5, size, 0) for at, size in enumerate(sizes)]
    bins = message_sizes(collectives(make_trace(nodes, groups=[FOUR])))
    assert [(one.low, one.high, one.count) for one in bins] == [
        (0, 1, 1), (1, 2, 1), (2, 4, 1), (4, 8, 2), (8, 16, 0), (16, 32, 0), (32, 64, 0), (64, 128, 1),
    ]  # fmt: skip
    assert sum(one.total_ns for one in bins) == 5 * 6


def test_factors():
    assert bus_factor(CommOp.ALL_REDUCE, 8) == 1.75
    assert bus_factor(CommOp.REDUCE, -1) == bus_factor(CommOp.PERMUTE, 4) == 1
    assert bus_factor(CommOp.ALL_TO_ALL, 1) is None
    assert bus_factor(CommOp.UNKNOWN, 8) is None


EVENTS = st.lists(
    st.tuples(
        st.sampled_from([CommOp.NONE, CommOp.ALL_REDUCE, CommOp.SEND, CommOp.BARRIER]), st.integers(0, 60),
        st.integers(0, 30), st.sampled_from([-1, 0, 8, 64]), st.integers(-1, 1),
    ),
    min_size=1, max_size=14,
)  # fmt: skip


@settings(max_examples=80)
@given(EVENTS, st.integers(0, 60), st.integers(1, 40))
def test_sums_and_shares(events, low, length):
    nodes = [node("k", start, dur) if op is CommOp.NONE else comm(op, start, dur, size, group)
             for op, start, dur, size, group in events]  # fmt: skip
    trace = make_trace(nodes, groups=[FOUR, ALONE])
    for scope in (WHOLE, Scope((low, low + length))):
        result = collectives(trace, scope)
        assert (result.exposed_ns <= result.total_ns).all()
        assert (result.exposed_ns >= 0).all()
        assert result.count.sum() == len(result.rows)
        assert result.count.tolist() == np.bincount(result.of, minlength=len(result)).tolist()
        assert sum(result.missing.values()) == result.count[np.isnan(result.busbw)].sum()
        assert (result.min_ns <= result.mean_ns).all()
        assert (result.mean_ns <= result.max_ns).all()
        assert (result.median_ns <= result.p95_ns).all()
        moments = range(*(scope.window or (0, 100)))
        busy = {m for op, s, d, *_ in events if op is CommOp.NONE for m in range(s, s + d)}
        bare = [m for op, s, d, *_ in events if op is not CommOp.NONE for m in range(s, s + d)]
        inside = [m for m in bare if m in moments]
        assert result.total_ns.sum() == len(inside)
        assert result.exposed_ns.sum() == len([m for m in inside if m not in busy])


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), max_size=8),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), min_size=1, max_size=5),
)
def test_share_in_is_a_count_of_moments(parts, windows):
    starts, ends = (np.array([f(part) for part in parts], np.int64) for f in (lambda p: p[0], sum))
    first, last = (np.array([f(part) for part in windows], np.int64) for f in (lambda p: p[0], sum))
    covered = {moment for start, length in parts for moment in range(start, start + length)}
    expected = [len(covered & set(range(start, start + length))) for start, length in windows]
    assert share_in(*merge(starts, ends), first, last).tolist() == expected
