"""The measured critical path and what-if on hand-made traces, against a plain longest path, and by property."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chakra_core.analysis.launch import launches
from chakra_core.analysis.measured_path import CAUSES, MeasuredGraph, causes_of, measured_graph, measured_path, solve
from chakra_core.analysis.scope import WHOLE, Scope
from chakra_core.analysis.what_if import Factors, what_if
from chakra_core.errors import ChakraError
from chakra_core.schema import Category, CommOp, EdgeKind, TimeKind
from tests.builder import make_trace, node

RUNTIME = {"lane": "main", "category": Category.RUNTIME}


def call(name, start, dur, **more):
    return node(name, start, dur, **{**RUNTIME, **more})


def spent(trace, path):
    """Pieces of the path as (name, cause, ns)."""
    return [
        (trace.name_of(row) if row >= 0 else "", CAUSES[cause], ns)
        for row, cause, ns in zip(path.rows.tolist(), path.cause.tolist(), path.spent_ns.tolist(), strict=True)
    ]


def test_nested_operators_own_what_they_do_themselves():
    trace = make_trace([node("outer", 0, 100, "main"), node("inner", 20, 30, "main"), node("again", 60, 10, "main")])
    path = measured_path(trace)
    assert spent(trace, path) == [
        ("outer", "host", 20), ("inner", "host", 30), ("outer", "host", 10), ("again", "host", 10), ("outer", "host", 30),
    ]  # fmt: skip
    assert path.length_ns == path.elapsed_ns == 100
    assert path.slack_ns.tolist() == [0, 0, 0]


def test_time_between_operators_counts_only_where_asked():
    trace = make_trace([node("a", 0, 10, "main"), node("b", 40, 10, "main")])
    path = measured_path(trace)
    assert (path.length_ns, path.elapsed_ns, causes_of(path)) == (20, 50, {"host": 20})
    counted = measured_path(trace, between_operators=True)
    assert (counted.length_ns, causes_of(counted)) == (50, {"host": 20, "between operators": 30})


def test_launch_to_an_idle_stream_then_queued_kernels():
    trace = make_trace(
        [
            call("launch", 0, 5), node("k1", 12, 100, parent=0),
            call("launch", 10, 5), node("k2", 115, 50, parent=2),
        ]
    )  # fmt: skip
    path = measured_path(trace)
    assert spent(trace, path) == [
        ("k1", "launch", 12), ("k1", "compute", 100), ("k2", "idle", 3), ("k2", "compute", 50),
    ]  # fmt: skip
    assert path.length_ns == 165
    assert path.from_ns.tolist() == [0, 12, 112, 115]
    assert path.to_ns.tolist() == [12, 112, 115, 165]
    assert path.slack_ns[0] == 165 - (5 + 50)  # the second call begins, and k2 had to wait for that too


def test_a_sync_call_that_waits_is_the_devices_time():
    trace = make_trace(
        [
            call("launch", 0, 10), node("kernel", 20, 100, parent=0),
            call("cudaDeviceSynchronize", 15, 110), node("next", 130, 20, "main"),
        ],
        [(1, 3, EdgeKind.SYNC)],
    )  # fmt: skip
    path = measured_path(trace)
    assert spent(trace, path) == [
        ("kernel", "launch", 20), ("kernel", "compute", 100), ("cudaDeviceSynchronize", "sync", 5), ("next", "host", 20),
    ]  # fmt: skip
    assert path.length_ns == 145


def test_the_last_sync_call_of_a_thread_waits_for_every_stream():
    trace = make_trace(
        [
            call("launch", 0, 4), node("one", 10, 50, "gpu:7", parent=0),
            call("launch", 5, 4), node("two", 12, 90, "gpu:8", parent=2),
            call("hipDeviceSynchronize", 20, 85),
        ]
    )  # fmt: skip
    path = measured_path(trace)
    assert spent(trace, path)[-2:] == [("two", "compute", 90), ("hipDeviceSynchronize", "sync", 3)]
    assert path.length_ns == 4 + 7 + 90 + 3


def test_one_stream_waits_for_another():
    trace = make_trace(
        [
            call("launch", 0, 2), node("copy", 5, 60, "gpu:8", parent=0, category=Category.COPY),
            call("launch", 3, 2), node("kernel", 68, 30, "gpu:7", parent=2),
        ],
        [(1, 3, EdgeKind.SYNC)],
    )  # fmt: skip
    path = measured_path(trace)
    assert spent(trace, path) == [
        ("copy", "launch", 5), ("copy", "copy", 60), ("kernel", "sync", 3), ("kernel", "compute", 30),
    ]  # fmt: skip


@pytest.mark.parametrize(("gap", "expected"), [(3_000, "communication"), (30_000, "launch")])
def test_a_wait_for_another_stream_that_the_trace_only_shows(gap, expected):
    trace = make_trace(
        [
            call("cudaLaunchKernel", 0, 2_000), node("nccl", 5_000, 200_000, "gpu:8", parent=0, comm_op=CommOp.ALL_REDUCE),
            call("cudaStreamWaitEvent", 3_000, 1_000),
            call("cudaLaunchKernel", 4_000, 2_000), node("kernel", 205_000 + gap, 300_000, "gpu:7", parent=3),
        ]
    )  # fmt: skip
    causes = causes_of(measured_path(trace))
    assert expected in causes
    assert causes == (
        {"launch": 5_000, "communication": 200_000, "sync": gap, "compute": 300_000}
        if expected == "communication"
        else {"host": 3_000, "launch": 201_000 + gap, "compute": 300_000}
    )


def test_a_copy_that_its_call_waited_for():
    trace = make_trace(
        [
            call("cudaMemcpyAsync", 0, 50), node("Memcpy DtoH", 10, 35, parent=0, category=Category.COPY),
            node("next", 50, 10, "main"),
        ]
    )  # fmt: skip
    path = measured_path(trace)
    assert causes_of(path) == {"host": 10, "launch": 10, "sync": 5, "copy": 35}
    assert path.length_ns == 60


def test_one_graph_launch_starts_many_kernels():
    trace = make_trace(
        [
            call("cudaGraphLaunch", 0, 10), node("a", 15, 20, parent=0), node("b", 36, 20, parent=0),
            node("c", 15, 70, "gpu:8", parent=0),
        ]
    )  # fmt: skip
    path = measured_path(trace)
    assert spent(trace, path) == [("c", "launch", 15), ("c", "compute", 70)]
    assert path.slack_ns.tolist()[1:] == [29, 29, 0]


def test_without_launches_the_stream_is_the_path():
    trace = make_trace([node("a", 0, 10), node("b", 15, 10), node("n", 25, 5, comm_op=CommOp.ALL_REDUCE)])
    path = measured_path(trace)
    assert causes_of(path) == {"idle": 5, "compute": 20, "communication": 5}
    assert path.length_ns == path.elapsed_ns == 30


def test_events_of_no_length_and_overlaps():
    trace = make_trace(
        [
            node("zero", 10, 0, "main"), node("zero", 10, 0, "main"), node("op", 10, 20, "main"),
            call("launch", 12, 2), node("k", 20, 0, parent=3), node("l", 20, 10, parent=3), node("m", 25, 10, parent=3),
        ]
    )  # fmt: skip
    path = measured_path(trace)
    assert path.length_ns == sum(causes_of(path).values()) <= path.elapsed_ns
    assert (path.slack_ns >= 0).all()


def test_what_two_threads_do_follows_the_flow_between_them():
    nodes = [node("forward", 0, 30, "main"), node("backward", 50, 40, "engine")]
    assert measured_path(make_trace(nodes)).length_ns == 40
    flowed = make_trace(nodes, [(0, 1, EdgeKind.INTER_THREAD)])
    assert measured_path(flowed).length_ns == 70


def test_the_caller_waits_for_the_autograd_engine():
    trace = make_trace(
        [
            node("forward", 0, 30, "main"),
            node("autograd::engine::evaluate_function: MmBackward0", 40, 20, "engine"),
            node("autograd::engine::evaluate_function: AddBackward0", 65, 5, "engine"),
            node("step", 80, 10, "main"),
            node("other", 82, 3, "main"),
        ]
    )  # fmt: skip
    path = measured_path(trace)
    assert path.length_ns == 30 + 20 + 5 + 10
    assert measured_path(trace, between_operators=True).length_ns == 90


def test_two_devices_and_a_window():
    nodes = [
        call("launch", 0, 2), node("before", 5, 100, "gpu:7", parent=0),
        call("launch", 50, 2), node("inside", 110, 20, "gpu:7", parent=2),
        call("launch", 60, 2), node("other", 65, 10, "gpu:9", parent=4),
    ]  # fmt: skip
    trace = make_trace(nodes)
    path = measured_path(trace, Scope((40, 100)))
    assert path.clipped
    assert spent(trace, path) == [("inside", "compute", 20)]  # it waited for `before`: it was not launched late
    assert path.slack_ns[0] == path.slack_ns[1] == -1


def test_nothing_to_say_is_said_in_words():
    assert "no node" in measured_path(make_trace([])).reason
    simulated = make_trace([node("a", 0, 1)], time_kind=TimeKind.SIMULATED)
    assert "simulated" in measured_path(simulated).reason
    trace = make_trace([node("a", 0, 10)])
    assert measured_path(trace, Scope((50, 60))).reason


def test_what_if_by_cause_category_name_and_lane():
    trace = make_trace(
        [
            call("launch", 0, 5), node("gemm", 12, 100, parent=0),
            call("launch", 10, 5), node("reduce", 115, 50, parent=2, comm_op=CommOp.ALL_REDUCE),
        ]
    )  # fmt: skip
    graph = measured_graph(trace)
    assert what_if(trace, graph, Factors(causes={"launch": 0})).path.length_ns == 153
    assert what_if(trace, graph, Factors(causes={"communication": 2})).saved_ns == -50
    assert what_if(trace, graph, Factors(categories={Category.GEMM: 0.5})).saved_ns == 50
    assert what_if(trace, graph, Factors(names={"gemm": 0})).saved_ns == 100
    assert what_if(trace, graph, Factors(lanes={"gpu:7": 0})).path.length_ns == 15
    assert what_if(trace, graph, Factors(lanes={"gpu:7": 0}, causes={"launch": 0, "idle": 0})).path.length_ns == 10
    with pytest.raises(ChakraError, match="give a number"):
        what_if(trace, graph, Factors(causes={"launch": -1}))
    with pytest.raises(ChakraError, match="no cause"):
        what_if(trace, graph, Factors(causes={"lunch": 1}))


@st.composite
def traces(draw):
    """Two threads with operators and launches, two streams, some synchronisation; anything may overlap."""
    nodes, edges = [], []
    for _ in range(draw(st.integers(1, 12))):
        start, dur = draw(st.integers(0, 60)), draw(st.integers(0, 20))
        what = draw(st.sampled_from(["op", "launch", "sync", "copy"]))
        lane = draw(st.sampled_from(["main", "other"]))
        if what == "op":
            nodes.append(node("op", start, dur, lane))
            continue
        name = {"launch": "cudaLaunchKernel", "sync": "cudaStreamSynchronize", "copy": "cudaMemcpyAsync"}[what]
        nodes.append(call(name, start, dur, lane=lane))
        if what != "sync":
            more = {"category": Category.COPY} if what == "copy" else {}
            at = start + draw(st.integers(-3, 30))
            stream = draw(st.sampled_from(["gpu:7", "gpu:8"]))
            nodes.append(node("k", at, draw(st.integers(0, 20)), stream, parent=len(nodes) - 1, **more))
    for _ in range(draw(st.integers(0, 4))):
        one, two = draw(st.integers(0, len(nodes) - 1)), draw(st.integers(0, len(nodes) - 1))
        if one != two:
            edges.append((one, two, draw(st.sampled_from([EdgeKind.SYNC, EdgeKind.INTER_THREAD, EdgeKind.DATA]))))
    return make_trace(nodes, edges)


def longest(graph: MeasuredGraph, weight=None) -> int:
    """Longest path by networkx, over the same edges."""
    edges = graph.edges
    weight = edges.weight if weight is None else weight
    target = np.repeat(np.arange(len(graph.time_ns)), np.diff(edges.ptr))
    oracle = nx.MultiDiGraph()
    oracle.add_nodes_from(range(len(graph.time_ns)))
    oracle.add_weighted_edges_from(zip(edges.source.tolist(), target.tolist(), weight.tolist(), strict=True))
    return int(nx.dag_longest_path_length(oracle))


@given(traces(), st.booleans())
def test_identities(trace, between):
    graph = measured_graph(trace, between_operators=between)
    path = solve(graph, len(trace))
    target = np.repeat(np.arange(len(graph.time_ns)), np.diff(graph.edges.ptr))
    assert (graph.edges.source < target).all()
    spans = graph.time_ns[target] - graph.time_ns[graph.edges.source]
    assert (graph.edges.weight <= spans).all()
    assert (graph.edges.weight >= 0).all()
    assert path.length_ns == longest(graph)
    assert sum(causes_of(path).values()) == path.spent_ns.sum() == path.length_ns <= path.elapsed_ns
    assert (path.spent_ns <= path.to_ns - path.from_ns).all()
    assert (path.to_ns[:-1] <= path.from_ns[1:]).all()
    assert (path.slack_ns >= 0).all()
    assert (path.slack_ns[path.rows[path.rows >= 0]] == 0).all()


@given(traces(), st.dictionaries(st.sampled_from(CAUSES), st.floats(0, 4)), st.integers(0, 11), st.floats(0, 4))
def test_what_if_is_neutral_at_one_and_monotone(trace, causes, which, factor):
    graph = measured_graph(trace)
    before = solve(graph, len(trace))
    same = what_if(
        trace, graph, Factors(dict.fromkeys(CAUSES, 1.0), dict.fromkeys(Category, 1.0), {"k": 1.0}, {"main": 1.0})
    )
    assert same.path.length_ns == before.length_ns
    assert same.path.spent_ns.tolist() == before.spent_ns.tolist()
    changed = what_if(trace, graph, Factors(causes))
    cause = CAUSES[which % len(CAUSES)]
    more = {**causes, cause: max(causes.get(cause, 1.0), factor)}
    assert what_if(trace, graph, Factors(more)).path.length_ns >= changed.path.length_ns


@settings(max_examples=40)
@given(traces(), st.integers(0, 30), st.integers(1, 40))
def test_any_row_may_take_its_slack(trace, low, length):
    graph = measured_graph(trace, Scope((low, low + length)))
    path = solve(graph, len(trace))
    assert (path.slack_ns[graph.rows] >= 0).all()
    for slot in range(len(graph)):
        mine = np.flatnonzero(graph.edges.slot == slot)
        for edge in mine.tolist():
            slower = graph.edges.weight.copy()
            slower[edge] += path.slack_ns[graph.rows[slot]]
            assert longest(graph, slower) == path.length_ns


@given(traces())
def test_queues_end_empty(trace):
    for stream in launches(trace, WHOLE).streams:
        assert (stream.length >= 0).all()
        assert not len(stream.length) or stream.length[-1] == 0
        assert (np.diff(stream.time_ns) > 0).all()
        assert 0 <= stream.host_bound <= 1
