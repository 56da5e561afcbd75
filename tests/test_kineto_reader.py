"""The trace-event reader on small, odd and hostile inputs, and its kernels against plain Python."""

from __future__ import annotations

import gzip
import json
import pickle
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chakra_core.analysis.breakdown import breakdown
from chakra_core.errors import CorruptTrace
from chakra_core.readers import _kineto_json as js
from chakra_core.readers import _kineto_nest as nest
from chakra_core.readers import _kineto_raw, _kineto_text
from chakra_core.readers._kineto_comm import message_bytes, shape_signature
from chakra_core.readers._kineto_kinds import rank_in_name
from chakra_core.readers.base import Source
from chakra_core.readers.kineto import READER
from chakra_core.schema import NO_TIME, Category, CommOp, Domain, EdgeKind, LaneKind, NodeKind

US = 1000


def read(tmp_path: Path, content, name: str = "t.json"):
    path = tmp_path / name
    data = (
        content
        if isinstance(content, bytes)
        else content.encode()
        if isinstance(content, str)
        else json.dumps(content).encode()
    )
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return READER.read(Source(path))[0]


def slice_(name, ts, dur, tid=1, cat="cpu_op", **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": args}


def launch(correlation, ts, dur=10, name="cudaLaunchKernel", tid=1):
    return slice_(name, ts, dur, tid=tid, cat="cuda_runtime", correlation=correlation)


def kernel(correlation, ts, dur, stream=7, name="k_gemm", cat="kernel", **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": stream, "ts": ts, "dur": dur,
            "args": {"correlation": correlation, "stream": stream, "device": 0, **args}}  # fmt: skip


def codes(trace):
    return {finding.code: finding.count for finding in trace.health}


def row(trace, name):
    return [trace.name_of(at) for at in range(len(trace))].index(name)


def edges(trace, kind):
    chosen = trace.edges.kinds == kind
    pairs = zip(trace.edges.sources[chosen].tolist(), trace.edges.targets()[chosen].tolist(), strict=True)
    return sorted((trace.name_of(one), trace.name_of(two)) for one, two in pairs)


# --- numbers ---------------------------------------------------------------------------------------------------------


def scaled(text: str, power: int = 3):
    data = np.zeros(len(text) + js.PADDING, np.uint8)
    data[: len(text)] = np.frombuffer(text.encode(), np.uint8)
    return js.parse_scaled(data, 0, len(text), power)


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("1675274932123456.789", 1675274932123456789),
        ("1675274932123456.7894", 1675274932123456789),
        ("1675274932123456.7895", 1675274932123456790),
        ("0", 0), ("-1.5", -1500), ("100.123", 100123), ('"42.001"', 42001), ("1e3", 1000000), ("1.5E-3", 2),
        ("1675274932.123456789e6", 1675274932123456789), ("0.0004", 0), ("0.0005", 1), ("1e-400", 0),
    ],
)  # fmt: skip
def test_times_are_read_from_their_digits(text, nanoseconds):
    assert scaled(text) == (nanoseconds, True)


@pytest.mark.parametrize(
    "text", ["NaN", "Infinity", "-Infinity", "1e400", "1e30", "", '""', "true", "null", "1e", "abc"]
)
def test_what_is_no_finite_number_is_refused(text):
    assert scaled(text)[1] is False


@given(st.integers(-(10**12), 10**12), st.integers(0, 999_999), st.integers(-3, 3))
def test_times_agree_with_exact_fractions(whole, millionths, exponent):
    text = f"{whole}.{millionths:06d}e{exponent}"
    exact = Fraction(text) * 1000
    rounded = int(abs(exact) + Fraction(1, 2)) * (1 if exact >= 0 else -1)
    assert scaled(text) == (rounded, True)


def test_fractions_of_a_microsecond_survive(tmp_path):
    trace = read(
        tmp_path, '{"traceEvents":[{"ph":"X","name":"a","pid":1,"tid":1,"ts":1675274932123456.789,"dur":0.001}]}'
    )
    assert trace.columns.start_ns.tolist() == [1675274932123456789]
    assert trace.columns.dur_ns.tolist() == [1]


def test_display_unit_does_not_change_times_and_base_is_added(tmp_path):
    document = {"displayTimeUnit": "ns", "baseTimeNanoseconds": 10**18, "traceEvents": [slice_("a", 1.5, 2)]}
    assert read(tmp_path, document).columns.start_ns.tolist() == [10**18 + 1500]


# --- nesting ---------------------------------------------------------------------------------------------------------

_SLICES = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 12), st.integers(0, 6), st.integers(0, 2)), max_size=24)


def arrays(slices):
    track, start, dur, rank = (
        (np.array(column, np.int64) for column in zip(*slices, strict=True)) if slices else (np.zeros(0, np.int64),) * 4
    )
    return track, start, start + dur, rank


@given(_SLICES)
def test_parents_agree_with_brute_force(slices):
    track, start, end, rank = arrays(slices)
    order = nest.order_slices(track, start, end, rank)
    assert order.tolist() == sorted(range(len(slices)), key=lambda at: (track[at], start[at], -end[at], rank[at], at))
    parent, partial = nest.nest_slices(order, track, start, end, 0)
    for place, at in enumerate(order.tolist()):
        earlier = [o for o in order[:place].tolist() if track[o] == track[at] and end[o] > start[at]]
        around = [o for o in earlier if end[o] >= end[at]]
        assert parent[at] == (around[-1] if around else -1)
        if partial[at]:
            assert any(end[o] < end[at] for o in earlier)


def test_whole_microseconds_leave_a_child_one_too_long_inside(tmp_path):
    trace = read(tmp_path, [slice_("op", 10, 5), slice_("child", 13, 3), slice_("next", 15, 2)])
    parents = trace.columns.parent.tolist()
    assert parents[row(trace, "child")] == row(trace, "op")
    assert parents[row(trace, "next")] == -1


@given(_SLICES)
def test_stream_order_agrees_with_brute_force(slices):
    track, start, end, _ = arrays(slices)
    order = np.array(sorted(range(len(slices)), key=lambda at: (track[at], start[at], end[at], at)), np.int64)
    before, overlaps = nest.stream_predecessors(order, track, start, end)
    for place, at in enumerate(order.tolist()):
        earlier = [o for o in order[:place].tolist() if track[o] == track[at]]
        done = [o for o in earlier if end[o] <= start[at]]
        assert before[at] == (done[-1] if done else -1)
        assert overlaps[at] == any(end[o] > start[at] for o in earlier)


@given(st.lists(st.integers(-5, 5) | st.integers(-(2**63), 2**63 - 1)))
def test_numbering_values(values):
    array = np.array(values, np.int64)
    firsts, inverse = nest.first_of_each(array)
    assert array[firsts].tolist() == list(dict.fromkeys(values))
    assert array[firsts][inverse].tolist() == values


def test_ten_thousand_values_outgrow_the_first_table():
    firsts, inverse = nest.first_of_each(np.arange(10_000, dtype=np.int64))
    assert len(firsts) == 10_000
    assert inverse.tolist() == list(range(10_000))


# --- launches and edges ----------------------------------------------------------------------------------------------


def test_kernels_hang_under_their_launch_and_streams_are_ordered(tmp_path):
    trace = read(tmp_path, [
        slice_("aten::mm", 0, 30), launch(1, 5), kernel(1, 40, 10, name="k1"),
        slice_("aten::add", 31, 20), launch(2, 35), kernel(2, 60, 5, name="k2"), kernel(2, 62, 9, name="k3", stream=9),
    ])  # fmt: skip
    c = trace.columns
    assert trace.name_of(int(c.parent[row(trace, "k1")])) == "cudaLaunchKernel"
    assert trace.name_of(int(c.parent[c.parent[row(trace, "k2")]])) == "aten::add"
    assert edges(trace, EdgeKind.STREAM) == [("k1", "k2")]
    assert edges(trace, EdgeKind.LAUNCH) == [
        ("cudaLaunchKernel", "k1"),
        ("cudaLaunchKernel", "k2"),
        ("cudaLaunchKernel", "k3"),
    ]
    assert [lane.name for lane in trace.lanes if lane.kind == LaneKind.STREAM] == ["stream 7", "stream 9"]


def test_a_kernel_without_a_launch_finds_its_operator_by_external_id(tmp_path):
    events = [slice_("aten::mm", 0, 30, **{"External id": 5}), kernel(77, 40, 10, **{"External id": 5})]
    trace = read(tmp_path, events)
    assert trace.name_of(int(trace.columns.parent[1])) == "aten::mm"
    assert codes(trace)["kernel-without-launch"] == 1
    lost = read(tmp_path, [slice_("aten::mm", 0, 30, **{"External id": 77}), kernel(77, 40, 10, **{"External id": 77})])
    assert lost.columns.parent.tolist() == [-1, -1]


def test_launch_flows_stand_in_for_a_missing_correlation(tmp_path):
    work = {
        "ph": "X",
        "cat": "mtia_ccp_events",
        "name": "pe_exe",
        "pid": 17,
        "tid": 3774,
        "ts": 50,
        "dur": 5,
        "args": {"stream": 1},
    }
    flows = [{"ph": "f", "cat": "ac2g", "id": 9, "pid": 17, "tid": 3774, "ts": 50, "bp": "e"},
             {"ph": "s", "cat": "ac2g", "id": 9, "pid": 1, "tid": 1, "ts": 12}]  # fmt: skip
    trace = read(tmp_path, [slice_("runFunction", 10, 20, cat="mtia_runtime"), work, *flows])
    assert edges(trace, EdgeKind.LAUNCH) == [("runFunction", "pe_exe")]


def test_forward_operators_lead_to_their_backward(tmp_path):
    trace = read(tmp_path, [
        slice_("aten::mul", 0, 10), slice_("inner", 0, 4), slice_("MulBackward0", 50, 10, tid=2),
        {"ph": "s", "cat": "fwdbwd", "id": 1, "pid": 1, "tid": 1, "ts": 0},
        {"ph": "f", "cat": "fwdbwd", "id": 1, "pid": 1, "tid": 2, "ts": 50, "bp": "e"},
    ])  # fmt: skip
    assert edges(trace, EdgeKind.INTER_THREAD) == [("aten::mul", "MulBackward0")]


def test_device_synchronisation_waits_for_the_last_kernel_of_each_stream(tmp_path):
    trace = read(tmp_path, [
        launch(1, 0), launch(2, 11), launch(3, 22), kernel(1, 20, 10, name="a"), kernel(2, 35, 10, name="b"),
        kernel(3, 30, 8, name="c", stream=9), launch(9, 34, 20, name="cudaDeviceSynchronize"), slice_("next", 60, 5),
    ])  # fmt: skip
    assert edges(trace, EdgeKind.SYNC) == [("b", "next"), ("c", "next")]


def test_stream_wait_leads_from_kernel_to_kernel(tmp_path):
    wait = {"ph": "X", "cat": "cuda_sync", "name": "Stream Wait Event", "pid": 0, "tid": 9, "ts": 40, "dur": 0,
            "args": {"stream": 9, "wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 2, "correlation": 3, "device": 0}}  # fmt: skip
    trace = read(tmp_path, [
        launch(1, 0), launch(2, 12, 2, name="cudaEventRecord"), launch(3, 16, 2, name="cudaStreamWaitEvent"), launch(4, 20, 2),
        kernel(1, 15, 10, name="a"), wait, kernel(4, 45, 5, name="b", stream=9),
    ])  # fmt: skip
    assert edges(trace, EdgeKind.SYNC) == [("a", "b")]
    assert len(trace.device_rows) == 2
    sync = row(trace, "Stream Wait Event")
    assert (trace.columns.domain[sync], trace.columns.category[sync]) == (Domain.HOST, Category.RUNTIME)


_TIMES = st.integers(0, 40)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 6), _TIMES, st.integers(0, 8)), max_size=8),
    st.lists(st.tuples(st.integers(1, 6), _TIMES, st.integers(0, 8), st.integers(7, 8)), max_size=8),
    st.lists(st.tuples(st.sampled_from(["cudaDeviceSynchronize", "cudaStreamSynchronize"]), _TIMES, st.integers(0, 9)), max_size=4),
    st.lists(st.tuples(st.integers(0, 3), _TIMES, st.integers(1, 2)), max_size=6),
)  # fmt: skip
def test_edges_never_close_a_cycle(tmp_path_factory, launches, kernels, syncs, flows):
    events = [launch(corr, ts, dur) for corr, ts, dur in launches]
    events += [kernel(corr, ts, dur, stream) for corr, ts, dur, stream in kernels]
    events += [launch(100 + at, ts, dur, name=name) for at, (name, ts, dur) in enumerate(syncs)]
    events += [slice_("op", ts, 3, tid=tid) for _, ts, tid in flows]
    events += [{"ph": "sf"[at % 2], "cat": "fwdbwd", "id": key, "pid": 1, "tid": tid, "ts": ts}
               for at, (key, ts, tid) in enumerate(flows)]  # fmt: skip
    trace = read(tmp_path_factory.mktemp("acyclic"), events)
    graph = nx.DiGraph(list(zip(trace.edges.sources.tolist(), trace.edges.targets().tolist(), strict=True)))
    assert nx.is_directed_acyclic_graph(graph)
    first = {}
    for at, (corr, _, _) in enumerate(launches):
        first.setdefault(corr, at)
    for at, (corr, _, _, _) in enumerate(kernels):
        assert trace.columns.parent[len(launches) + at] == first.get(corr, -1)


# --- other kinds of events ---------------------------------------------------------------------------------------------


def test_begin_and_end_pair_up_by_nesting(tmp_path):
    def event(ph, ts, name=""):
        return {"ph": ph, "name": name, "pid": 1, "tid": 1, "ts": ts}

    trace = read(tmp_path, [event("E", 1), event("B", 2, "outer"), event("B", 3, "inner"), event("E", 5), event("E", 9), event("B", 11, "open"), event("X", 20, "x") | {"dur": 4}])  # fmt: skip
    spans = {
        trace.name_of(at): (int(trace.columns.start_ns[at]), int(trace.columns.dur_ns[at])) for at in range(len(trace))
    }
    assert spans == {
        "outer": (2 * US, 7 * US),
        "inner": (3 * US, 2 * US),
        "open": (11 * US, 9 * US),
        "x": (20 * US, 4 * US),
    }
    assert trace.columns.parent[row(trace, "inner")] == row(trace, "outer")
    assert codes(trace)["unmatched-end"] == 1
    assert codes(trace)["unmatched-begin"] == 1
    assert trace.meta.events == 7
    assert trace.meta.format == "chrome"


def test_asynchronous_pairs_and_markers(tmp_path):
    trace = read(tmp_path, [
        {"ph": "b", "cat": "net", "id": "0xa", "name": "request", "pid": 1, "tid": 1, "ts": 1, "args": {"url": "u"}},
        {"ph": "b", "cat": "net", "id": "0xb", "name": "request", "pid": 1, "tid": 1, "ts": 2},
        {"ph": "e", "cat": "net", "id": "0xa", "name": "request", "pid": 1, "tid": 9, "ts": 7, "args": {"status": 200}},
        {"ph": "e", "cat": "net", "id": "0xb", "name": "request", "pid": 1, "tid": 9, "ts": 4},
        {"ph": "C", "name": "heap", "pid": 1, "ts": 3, "args": {"bytes": 12.5}},
        {"name": "late", "args": {"value": 7}, "pid": 1, "ts": 3, "ph": "C"},
        {"ph": "i", "name": "mark", "pid": 1, "tid": 1, "ts": 5, "s": "t"},
        slice_("op", 0, 9),
        {"ph": "P", "name": "sample", "pid": 1, "tid": 1, "ts": 5},
    ])  # fmt: skip
    assert trace.columns.dur_ns.tolist() == [6 * US, 2 * US, 9 * US]
    assert trace.attributes(0)["url"] == "u"
    assert trace.attributes(0)["status"] == 200
    markers = trace.markers
    assert [trace.names[code] for code in markers.name] == ["heap", "late", "mark"]
    assert markers.value[1] == 7
    assert np.isnan(markers.value[2])
    assert trace.lanes[markers.lane[2]].kind == LaneKind.THREAD
    assert codes(trace)["samples-ignored"] == 1


def test_capitalised_categories_of_2021(tmp_path):
    trace = read(tmp_path, {"schemaVersion": 1, "traceEvents": [
        {"ph": "X", "cat": "Operator", "name": "aten::mm", "pid": 5, "tid": "77", "ts": 0, "dur": 30},
        {"ph": "X", "cat": "Runtime", "name": "cudaLaunchKernel", "pid": 5, "tid": "77", "ts": 2, "dur": 3, "args": {"correlation": 4}},
        {"ph": "X", "cat": "Kernel", "name": "volta_sgemm_128x64_nn", "pid": 0, "tid": "stream 7", "ts": 10, "dur": 5, "args": {"correlation": 4, "external id": 9}},
        {"ph": "X", "cat": "Memset", "name": "Memset (Device)", "pid": 0, "tid": "stream 7", "ts": 16, "dur": 1, "args": {"bytes": 64}},
    ]})  # fmt: skip
    assert trace.columns.category.tolist() == [Category.HOST_OP, Category.RUNTIME, Category.GEMM, Category.MEMSET]
    assert trace.columns.parent.tolist() == [-1, 0, 1, -1]
    assert [(lane.name, lane.device) for lane in trace.lanes if lane.domain == Domain.DEVICE] == [("stream 7", 0)]
    assert trace.columns.bytes_accessed.tolist() == [-1, -1, -1, 64]


def test_processes_that_are_devices(tmp_path):
    def meta(name, tid, value):
        return {"ph": "M", "name": name, "pid": 3, "tid": tid, "args": {"name": value}}

    trace = read(tmp_path, [
        meta("process_name", 0, "/device:GPU:0 (pid 3)"), meta("thread_name", 1, "Stream #17(Kernel)"), meta("thread_name", 2, "XLA Modules"),
        {"ph": "X", "pid": 3, "tid": 1, "ts": 1, "dur": 2, "name": "all-reduce.1"}, {"ph": "X", "pid": 3, "tid": 2, "ts": 1, "dur": 2, "name": "jit_f"},
        {"ph": "X", "pid": 4, "tid": 1, "ts": 1, "dur": 2, "name": "main"},
    ])  # fmt: skip
    assert trace.columns.category.tolist() == [Category.COMMUNICATION, Category.ANNOTATION, Category.HOST_OP]
    assert len(trace.device_rows) == 1
    assert "Stream #17(Kernel)" in {lane.name for lane in trace.lanes}


def test_collective_facts_from_kernel_record_and_annotation(tmp_path):
    facts = {"Collective name": "_allgather_base", "In msg nelems": 8, "Out msg nelems": 64, "dtype": "BFloat16", "Group size": 8,
             "Process Group Name": "3", "Process Group Ranks": "[0, 1, 2, 3, 4, 5, 6, 7]", "Seq": 5}  # fmt: skip
    events = [
        slice_("record_param_comms", 0, 20, **facts), launch(1, 2, 5), kernel(1, 30, 9, name="ncclDevKernel_AllGather_RING_LL()"),
        slice_("nccl:all_to_all", 100, 20, cat="user_annotation", **{"Input Dims": [[4, 2]], "Input type": ["float"]}),
        launch(2, 105, 5), kernel(2, 130, 9, name="ncclDevKernel_SendRecv(x)"), kernel(9, 150, 1, name="ncclDevKernel_Generic()"),
    ]  # fmt: skip
    trace = read(tmp_path, {"traceEvents": events, "distributedInfo": {"rank": 3, "world_size": 8}})
    c = trace.columns
    rows = np.flatnonzero(c.comm_op != CommOp.NONE)
    assert c.comm_op[rows].tolist() == [CommOp.ALL_GATHER, CommOp.ALL_TO_ALL, CommOp.UNKNOWN]
    assert c.comm_bytes[rows].tolist() == [128, 32, -1]
    assert c.comm_seq[rows].tolist() == [5, -1, -1]
    assert trace.meta.groups[c.comm_group[rows[0]]].ranks == tuple(range(8))
    assert set(c.kind[rows].tolist()) == {NodeKind.COMM_COLL}
    assert codes(trace)["collective-type"] == 1
    assert codes(trace)["collective-size"] == 1


def test_shape_signatures():
    assert shape_signature([[2, 3], [], [3, 4]], ["float", "Scalar", "c10::Half"]) == "[2,3]x[3,4]:f32,f16"
    assert shape_signature([[[2], [3]], []], ["TensorList", "Scalar"]) == "([2],[3])"
    assert shape_signature([[], []], ["", ""]) == ""
    assert shape_signature([[5]], None) == "[5]"
    assert shape_signature("x", None) == ""


def test_message_sizes_follow_nccl_tests():
    assert message_bytes(CommOp.ALL_REDUCE, 10, 10, 4) == 40
    assert message_bytes(CommOp.ALL_GATHER, 10, 80, 2) == 160
    assert message_bytes(CommOp.REDUCE_SCATTER, 80, 10, 2) == 160
    assert message_bytes(CommOp.ALL_TO_ALL, 30, 50, 4) == 120
    assert message_bytes(CommOp.SEND, -1, -1, 4) == -1
    assert message_bytes(CommOp.ALL_REDUCE, 10, 10, 0) == -1


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("trace_rank0of8.json", (0, 8)), ("sampled_rank-1.json", (1, -1)), ("a100_rank3of8.json.gz", (3, 8)),
        ("graph_capture_rank_0.1773709742341309550.pt.trace.json", (0, -1)), ("kineto_2.json", (2, -1)),
        ("worker7_step_12.1694.pt.trace.json", (7, -1)), ("trace1.json", (-1, -1)), ("resnet50_workers4.json", (-1, -1)),
    ],
)  # fmt: skip
def test_ranks_in_file_names(name, expected):
    assert rank_in_name(name) == expected


def test_sniffing():
    assert READER.sniff(b'{"schemaVersion": 1, "traceEvents": [', "x") > 0.9
    assert READER.sniff(b'[{"ph": "X"', "x") > 0.5
    assert READER.sniff(b'[{"file": 1}]', "x") == 0
    assert READER.sniff(b'{"schema": "1.1.1", "nodes": []}', "x") == 0
    assert READER.sniff(b"\x08\x01", "x") == 0


# --- hostile and damaged inputs ----------------------------------------------------------------------------------------


def test_names_and_arguments_full_of_syntax(tmp_path):
    names = [
        'a"b',
        "back\\slash",
        "{[}],:",
        "<script>alert(1)</script>",
        "new\nline\ttab",
        "ünïcode ✓ 𝄞",
        "",
        "x" * 70_000,
        '\\"',
        "\\\\",
    ]
    trace = read(tmp_path, {"traceEvents": [slice_(name, at, 1, note=name) for at, name in enumerate(names)]})
    assert [trace.name_of(at) for at in range(len(trace))] == names
    assert [trace.attributes(at)["note"] for at in range(len(trace))] == names


def test_bytes_that_are_no_text(tmp_path):
    data = b'{"traceEvents":[{"ph":"X","name":"a\xff\xfe\x01b\nc","pid":1,"tid":1,"ts":1,"dur":1,"args":{"k":"\x02\xc3"}}]}'
    trace = read(tmp_path, data)
    assert trace.name_of(0) == "a��\x01b\nc"
    assert trace.attributes(0)["k"] == "\x02�"
    lone = read(tmp_path, '{"traceEvents":[{"ph":"X","name":"\\ud800x","pid":1,"tid":1,"ts":1,"dur":1}]}')
    assert lone.name_of(0).encode("utf-8")


def test_numbers_beyond_every_range(tmp_path):
    text = """[{"ph":"X","name":"nan","pid":1,"tid":1,"ts":NaN,"dur":1},{"ph":"X","name":"inf","pid":1,"tid":1,"ts":1e400,"dur":1},
    {"ph":"X","name":"huge","pid":1,"tid":1,"ts":9223372036854775807,"dur":1e300},
    {"ph":"X","name":"negative","pid":1,"tid":1,"ts":5,"dur":-3},{"ph":"X","name":"none","pid":1,"tid":1,"ts":6},
    {"ph":"X","cat":"kernel","name":"big id","pid":1,"tid":1,"ts":"7","dur":"2","args":{"correlation":18446744073709551615,"x":NaN}}]"""
    trace = read(tmp_path, text)
    assert trace.columns.start_ns.tolist()[:3] == [NO_TIME] * 3
    assert trace.columns.start_ns.tolist()[5] == 7 * US
    assert trace.columns.dur_ns.tolist()[3:] == [0, 0, 2 * US]
    assert codes(trace)["negative-duration"] == 1
    assert codes(trace)["missing-duration"] == 2
    assert json.dumps(trace.attributes(5), allow_nan=False)
    assert trace.attributes(5)["correlation"] == 2**64 - 1


def test_deep_nesting_is_read_without_recursion(tmp_path):
    deep = "[" * 100_000 + "]" * 100_000
    trace = read(
        tmp_path, '[{"ph":"X","name":"a","args":{"deep":' + deep + ',"correlation":5},"pid":1,"tid":1,"ts":1,"dur":1}]'
    )
    assert trace.columns.correlation.tolist() == [5]
    assert "raw" in trace.attributes(0)
    dims = read(
        tmp_path,
        '[{"ph":"X","cat":"cpu_op","name":"a","args":{"Input Dims":' + deep + '},"pid":1,"tid":1,"ts":1,"dur":1}]',
    )
    assert dims.columns.shape.tolist() == [-1]


def test_an_event_larger_than_the_buffer_and_one_with_endless_arguments(tmp_path):
    events = [slice_("a", 1, 1, text="y" * 9_000_000), slice_("b", 2, 1)]
    many = ",".join(f'"dtype":"{at}"' for at in range(5000))
    text = json.dumps(events)[:-1] + ',{"ph":"X","name":"c","pid":1,"tid":1,"ts":3,"dur":1,"args":{' + many + "}}]"
    trace = read(tmp_path, text)
    assert trace.names == ("a", "b", "c")
    assert len(trace.attributes(0)["text"]) == 9_000_000


def test_a_hundred_thousand_open_begins_and_crossing_slices_take_no_time(tmp_path):
    began = time.perf_counter()
    opens = ",".join(json.dumps({"ph": "B", "name": "b", "pid": 1, "tid": 1, "ts": at}) for at in range(100_000))
    trace = read(tmp_path, "[" + opens + "]")
    assert codes(trace)["unmatched-begin"] == 100_000
    crossing = ",".join(
        json.dumps({"ph": "X", "name": "x", "pid": 1, "tid": 1, "ts": 2 * at, "dur": 10**6}) for at in range(100_000)
    )
    crossed = read(tmp_path, "[" + crossing + "]")
    assert codes(crossed)["partial-overlap"] == 99_999
    assert time.perf_counter() - began < 20


def test_many_different_strings_and_events_grow_every_table(tmp_path):
    events = [
        slice_(f"operator number {at} {'z' * (at % 50)}", at, 1, **{"Collective name": "allreduce", "dtype": "Float"})
        for at in range(80_000)
    ]
    trace = read(tmp_path, {"traceEvents": events})
    assert trace.meta.events == 80_000
    assert trace.name_of(79_999) == events[-1]["name"]
    assert len(set(trace.names)) == 80_000


def test_a_cut_file_gives_what_comes_before_the_cut(tmp_path):
    whole = json.dumps({"traceEvents": [slice_("a", 1, 1), slice_("b", 2, 1), slice_("c", 3, 1)]})
    at = whole.index('{"ph"', whole.index('"b"')) + 30
    trace = read(tmp_path, whole[:at])
    assert [trace.name_of(r) for r in range(len(trace))] == ["a", "b"]
    finding = next(finding for finding in trace.health if finding.code == "truncated")
    assert f"byte {at - 30:,}" in finding.message


def test_a_cut_gzip_gives_what_could_be_inflated(tmp_path):
    data = gzip.compress(
        json.dumps({"traceEvents": [slice_(f"name {at * 7919 % 10007}", at, 1) for at in range(20_000)]}).encode()
    )
    path = tmp_path / "cut.json.gz"
    path.write_bytes(data[: len(data) // 2])
    trace = READER.read(Source(path))[0]
    assert 1000 < len(trace) < 20_000
    assert codes(trace)["truncated"] == 1


def test_a_damaged_event_is_left_out_and_reading_goes_on(tmp_path):
    text = json.dumps([slice_("a", 1, 1), slice_("BAD", 2, 1), slice_("c", 3, 1), slice_("d", 4, 1)])
    trace = read(tmp_path, text.replace('"BAD"', '"B"A"D"'))
    assert [trace.name_of(r) for r in range(len(trace))] == ["a", "c", "d"]
    assert codes(trace)["damaged-record"] == 1


def test_bare_lists_may_lack_their_end(tmp_path):
    text = json.dumps([slice_("a", 1, 1), slice_("b", 2, 1)])[:-1]
    for tail in ("", ",", ",\n"):
        trace = read(tmp_path, text + tail)
        assert len(trace) == 2
        assert "truncated" not in codes(trace)


def test_elements_that_are_no_events(tmp_path):
    trace = read(tmp_path, '{"traceEvents":[1,null,"x",[],{},{"ph":5},{"name":7,"ph":"X","ts":1,"dur":1}]}')
    assert trace.meta.events == 7
    assert len(trace) == 1
    assert trace.attributes(6)["ph"] == "X"


@pytest.mark.parametrize(
    "text", ['{"schemaVersion":1}', '{"traceEvents":null}', '{"traceEvents":[]}', "[]", '{"traceEvents":{}}']
)
def test_empty_traces_open_and_say_so(tmp_path, text):
    trace = read(tmp_path, text)
    assert len(trace) == 0
    assert codes(trace)["empty"] == 1


@pytest.mark.parametrize("text", ["", "nonsense", '{"a": ', "5", '{"traceEvents"'])
def test_what_is_no_trace_is_refused(tmp_path, text):
    with pytest.raises(CorruptTrace, match=r"t\.json"):
        read(tmp_path, text)


def test_broken_metadata_after_the_events(tmp_path):
    trace = read(
        tmp_path, '{"traceEvents":[{"ph":"X","name":"a","pid":1,"tid":1,"ts":1,"dur":1}], "distributedInfo": {"rank": }'
    )
    assert len(trace) == 1
    assert codes(trace)["damaged-metadata"] == 1


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=80), st.integers(0, 400))
def test_any_damage_gives_a_trace_or_a_clear_error(tmp_path_factory, junk, place):
    text = json.dumps(
        {"traceEvents": [slice_("a", 1, 1, x=[1, {"y": 2}]), kernel(1, 2, 3)], "distributedInfo": {"rank": 0}}
    ).encode()
    data = text[: place % len(text)] + junk + text[place % len(text) + len(junk) // 2 :]
    try:
        trace = read(tmp_path_factory.mktemp("junk"), data)
    except CorruptTrace:
        return
    for at in range(len(trace)):
        trace.attributes(int(trace.columns.id[at]))
        trace.name_of(at)


# --- attributes on demand ----------------------------------------------------------------------------------------------


def test_attributes_of_compressed_changed_and_pickled_files(tmp_path, monkeypatch):
    events = {"traceEvents": [slice_("a", 1, 1, k=1), slice_("b", 2, 1, k=2)]}
    packed = read(tmp_path, events, "t.json.gz")
    assert packed.attributes(1)["k"] == 2
    assert pickle.loads(pickle.dumps(packed)).attributes(1)["k"] == 2  # noqa: S301 - our own bytes
    monkeypatch.setattr(_kineto_text, "_PACK", 50)
    packed = read(tmp_path, events, "s.json.gz")
    assert [packed.attributes(at)["k"] for at in (0, 1, 0)] == [1, 2, 1]
    plain = read(tmp_path, events)
    assert plain.attributes(1)["k"] == 2
    (tmp_path / "t.json").write_text("something else", encoding="utf-8")
    assert plain.attributes(1) == {}


def test_arguments_named_like_fields_are_kept_apart(tmp_path):
    trace = read(tmp_path, [slice_("a", 1, 1) | {"args": {"ts": "other", "name": "inner"}}])
    assert trace.attributes(0)["ts"] == 1
    assert trace.attributes(0)["args.ts"] == "other"
    assert trace.attributes(0)["name"] == "inner"


def test_small_buffers_give_the_same(tmp_path, monkeypatch):
    events = {
        "a": 1,
        "traceEvents": [slice_(f"n{at}", at, 1, pad="p" * (at * 37 % 900)) for at in range(3000)],
        "z": [1, 2],
    }
    whole = read(tmp_path, events)
    monkeypatch.setattr(_kineto_raw, "_BUFFER", 1024 * 1024 + 3000)
    parts = read(tmp_path, events, "parts.json")
    assert parts.columns.start_ns.tolist() == whole.columns.start_ns.tolist()
    assert parts.names == whole.names
    assert parts.attributes(2999) == whole.attributes(2999)
    assert parts.meta.details == whole.meta.details


def test_device_events_that_wait_are_no_work(tmp_path: Path):
    def device(name: str, start: int, dur: int, stream: int, **more: int) -> dict[str, Any]:
        return {
            "ph": "X", "cat": "mtia_ccp_events", "name": name, "pid": 0, "tid": stream, "ts": start, "dur": dur,
            "args": {"stream": stream, "device": 0, **more},
        }  # fmt: skip

    trace = read(
        tmp_path,
        [
            device("pe_exe", 0, 10, 1),
            device("event_record", 50, 1, 1, seq_num=7),
            device("event_wait", 20, 33, 2, wait_on_stream=1, seq_num=7),
            device("pe_exe", 60, 40, 2),
        ],
    )
    rows = {(trace.name_of(row), int(trace.columns.start_ns[row])): row for row in range(len(trace))}
    last = rows["pe_exe", 60_000]
    sources, kinds = trace.edges.of(last)
    found = {(int(one), EdgeKind(kind)) for one, kind in zip(sources, kinds, strict=True)}
    assert (rows["event_record", 50_000], EdgeKind.SYNC) in found
    assert trace.columns.category[rows["event_wait", 20_000]] == Category.RUNTIME
    parts = breakdown(trace).total
    assert (parts.total_ns, parts.compute_ns, parts.idle_ns) == (100_000, 50_000, 50_000)
    assert {finding.code: finding.count for finding in trace.health}["device-waits"] == 2
