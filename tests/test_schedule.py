"""Reconstruction of schedules: hand-made cases, and properties that every schedule must have."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from chakra_core.schedule import replay, with_lanes
from chakra_core.schema import NO_TIME, CommOp, NodeKind, TimeKind
from chakra_core.trace import ProcessGroup, Trace
from tests.builder import make_trace, node


def bare(name: str, dur: int, lane: str = "gpu:0", **more):
    return node(name, NO_TIME, dur, lane, **more)


def collective(name: str, dur: int, **more):
    return bare(name, dur, "gpu:comm", comm_op=CommOp.ALL_REDUCE, kind=NodeKind.COMM_COLL, **more)


def starts(*traces: Trace) -> list[list[int]]:
    return [trace.columns.start_ns.tolist() for trace in replay(traces).traces]


def test_dependencies_and_lane_decide():
    trace = make_trace([bare("a", 5), bare("b", 3), bare("c", 2, "gpu:1")], [(0, 2)])
    assert starts(trace) == [[0, 5, 5]]


def test_lowest_id_goes_first_among_ready_nodes():
    trace = make_trace([bare("a", 1, id=9), bare("b", 1, id=3), bare("c", 1, id=5)])
    assert starts(trace) == [[2, 0, 1]]


def test_collective_waits_for_the_last_rank_and_holds_its_lane():
    first = make_trace([collective("ar", 10), collective("next", 1)], rank=0)
    second = make_trace([bare("slow", 7), collective("ar", 10), collective("next", 1)], [(0, 1), (1, 2)], rank=1)
    assert starts(first, second) == [[7, 17], [0, 7, 17]]


def test_groups_are_told_by_name_and_members():
    groups = [ProcessGroup("0", (0, 1)), ProcessGroup("1", (0,))]
    first = make_trace([collective("x", 2, comm_group=1), collective("y", 2, comm_group=0)], rank=0, groups=groups)
    second = make_trace([bare("slow", 9), collective("y", 2, comm_group=0)], [(0, 1)], rank=1, groups=groups)
    assert starts(first, second) == [[0, 9], [0, 9]]


def test_missing_members_do_not_block():
    first = make_trace([collective("x", 2), collective("y", 2)], rank=0)
    second = make_trace([collective("x", 2)], rank=1)
    assert starts(first, second) == [[0, 2], [0]]


def test_opposite_orders_do_not_hang():
    groups = [ProcessGroup("a", (0, 1)), ProcessGroup("b", (0, 1))]
    first = make_trace([collective("a", 2, comm_group=0), collective("b", 2, comm_group=1)], rank=0, groups=groups)
    second = make_trace([collective("b", 2, comm_group=1), collective("a", 2, comm_group=0)], rank=1, groups=groups)
    result = replay([first, second])
    assert result.given_up == 1
    assert all(start > NO_TIME for trace in result.traces for start in trace.columns.start_ns)


def test_receive_ends_no_earlier_than_its_send():
    send = bare("s", 10, comm_op=CommOp.SEND, kind=NodeKind.COMM_SEND, comm_peer=1, comm_tag=4)
    recv = bare("r", 3, comm_op=CommOp.RECV, kind=NodeKind.COMM_RECV, comm_peer=0, comm_tag=4)
    first = make_trace([bare("w", 6), send], [(0, 1)], rank=0)
    second = make_trace([recv, bare("u", 1)], [(0, 1)], rank=1)
    assert starts(first, second) == [[0, 6], [13, 16]]


def test_a_cycle_is_broken_and_reported():
    trace = make_trace([bare("a", 1), bare("b", 1)], [(0, 1), (1, 0)])
    (done,) = replay([trace]).traces
    assert sorted(done.columns.start_ns.tolist()) == [0, 1]
    assert [finding.code for finding in done.health] == ["cycle"]
    assert done.meta.time_kind == TimeKind.RECONSTRUCTED


def test_nodes_without_a_lane_get_a_resource():
    trace = make_trace([bare("k", 2), bare("h", 1, "cpu"), collective("c", 1)])
    laned = with_lanes(trace.with_(columns=trace.columns.with_(lane=[-1, -1, -1]), lanes=()))
    assert [laned.lanes[at].name for at in laned.columns.lane] == ["compute", "host", "communication"]


NODES = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2), st.booleans()), min_size=1, max_size=14)
LINKS = st.lists(st.tuples(st.integers(0, 13), st.integers(0, 13)), max_size=24)


@given(st.lists(st.tuples(NODES, LINKS), min_size=1, max_size=3))
def test_every_schedule_respects_dependencies_lanes_and_meetings(ranks):
    traces = []
    for rank, (nodes, links) in enumerate(ranks):
        rows = [
            collective(f"c{at}", dur) if comm else bare(f"n{at}", dur, f"gpu:{lane}")
            for at, (dur, lane, comm) in enumerate(nodes)
        ]
        edges = [(min(a, b), max(a, b)) for a, b in links if a != b and max(a, b) < len(nodes)]
        traces.append(make_trace(rows, edges, rank=rank))
    result = replay(traces)
    meetings = defaultdict(list)
    for trace in result.traces:
        c = trace.columns
        end = c.start_ns + c.dur_ns
        assert (c.start_ns >= 0).all()
        assert (end[trace.edges.sources] <= c.start_ns[trace.edges.targets()]).all()
        for lane in set(c.lane.tolist()):
            spans = sorted(zip(c.start_ns[c.lane == lane], end[c.lane == lane], strict=True))
            assert all(first[1] <= second[0] for first, second in pairwise(spans))
        for at, row in enumerate(row for row in range(len(trace)) if c.comm_op[row] >= 0):
            meetings[at].append(int(c.start_ns[row]))
    if result.given_up == 0:
        assert all(len(set(times)) == 1 for times in meetings.values())
    again = replay(traces)
    assert all(
        (a.columns.start_ns == b.columns.start_ns).all() for a, b in zip(result.traces, again.traces, strict=True)
    )


@given(NODES, LINKS)
def test_work_is_never_put_off(nodes, links):
    rows = [bare(f"n{at}", dur, f"gpu:{lane}") for at, (dur, lane, _) in enumerate(nodes)]
    edges = [(min(a, b), max(a, b)) for a, b in links if a != b and max(a, b) < len(nodes)]
    (trace,) = replay([make_trace(rows, edges)]).traces
    c = trace.columns
    end = c.start_ns + c.dur_ns
    for row in range(len(trace)):
        begins = int(c.start_ns[row])
        reasons = {0} | {int(end[at]) for at in trace.edges.of(row)[0]} | set(end[c.lane == c.lane[row]].tolist())
        assert begins in reasons
