"""Durations on catalogue hardware, worked out by hand."""

import numpy as np
import pytest

from chakra_core.errors import AnalysisError
from chakra_core.hardware import get_device
from chakra_core.project.collectives import collective_ns
from chakra_core.project.durations import Rates, group_sizes, simulate_durations
from chakra_core.schema import CommOp, NodeKind
from chakra_core.trace import ProcessGroup
from tests.builder import make_trace, node

H100 = get_device("H100 SXM")


def durations(trace, device=H100, **options):
    return simulate_durations(trace, device, **options).dur_ns.tolist()


def test_roofline_takes_the_slower_of_work_and_traffic():
    trace = make_trace(
        [
            node("compute bound", 0, 0, flops=989_500_000_000, bytes_accessed=1000),  # 1e-3 of a second of peak
            node("memory bound", 0, 0, flops=1000, bytes_accessed=3_350_000_000),  # 1e-3 of a second of bandwidth
            node("nothing", 0, 0, flops=0, bytes_accessed=0),
            node("one flop", 0, 0, flops=1),
            node("copy", 0, 0, kind=NodeKind.MEM_LOAD, flops=10**15, bytes_accessed=3350),
        ]
    )
    assert durations(trace) == [1_000_000, 1_000_000, 0, 1, 1]
    assert durations(trace, rates=Rates(compute=0.5, memory=0.25))[:2] == [2_000_000, 4_000_000]
    assert durations(trace, rates=Rates(precision="fp8"))[0] == 500_000


def test_unsized_nodes_keep_their_duration_and_are_counted():
    trace = make_trace([node("known", 0, 7, flops=989_500), node("unknown", 0, 5)])
    result = simulate_durations(trace, H100)
    assert result.dur_ns.tolist() == [1, 5]
    assert result.kept.tolist() == [1]
    assert "1 nodes state neither work nor size" in result.assumptions[-1]
    assert simulate_durations(trace, H100, only_missing=True).dur_ns.tolist() == [7, 5]


def test_assumptions_name_device_precision_and_share():
    trace = make_trace([node("a", 0, 0, flops=1)])
    (said,) = simulate_durations(trace, get_device("V100 SXM2 16GB"), rates=Rates(compute=0.5)).assumptions
    assert "V100 SXM2 16GB" in said
    assert "125 TFLOP/s fp16 (no bf16 figure for this device) at 50%" in said


def comm(op, size, **more):
    return node(str(op), 0, 0, comm_op=op, comm_bytes=size, **more)


def test_collectives_by_hand():
    group = ProcessGroup("tp", (0, 1, 2, 3))
    size = 450_000_000  # 1e-3 of a second of link bandwidth
    ops = [CommOp.ALL_REDUCE, CommOp.REDUCE_SCATTER, CommOp.ALL_GATHER, CommOp.ALL_TO_ALL, CommOp.BROADCAST]
    trace = make_trace([comm(op, size, comm_group=0) for op in ops], groups=[group])
    # volumes 2*3/4, 3/4, 3, 3/4, 1 ms; steps 6, 3, 3, 3, 3 of 3.4 us
    assert durations(trace) == [1_520_400, 760_200, 3_010_200, 760_200, 1_010_200]


def test_send_receive_barrier_and_a_group_of_one():
    trace = make_trace(
        [
            comm(CommOp.SEND, 450_000, comm_peer=1),
            comm(CommOp.RECV, 450_000, comm_peer=1),
            comm(CommOp.BARRIER, -1, comm_group=0),
            comm(CommOp.ALL_REDUCE, 10**9, comm_group=1),
        ],
        groups=[ProcessGroup("two", (0, 1)), ProcessGroup("alone", (0,))],
    )
    assert durations(trace) == [4400, 4400, 6800, 0]


def test_a_pairwise_linked_device_gives_a_small_group_less():
    groups = [ProcessGroup("all", tuple(range(8))), ProcessGroup("pair", (0, 1))]
    trace = make_trace([comm(CommOp.ALL_REDUCE, 10**9, comm_group=at) for at in (0, 1)], groups=groups)
    whole, pair = durations(trace, get_device("MI300X"))
    assert whole == round(2 * 7 / 8 * 1e9 / 448e9 * 1e9 + 14 * 2700)
    assert pair == round(1e9 / 64e9 * 1e9 + 2 * 2700)


def test_group_sizes_from_members_then_size_then_world():
    groups = [ProcessGroup("listed", (1, 5)), ProcessGroup("sized", size=7), ProcessGroup("bare")]
    nodes = [comm(CommOp.ALL_REDUCE, 1, comm_group=at) for at in (0, 1, 2, -1)]
    trace = make_trace([*nodes, comm(CommOp.SEND, 1, comm_group=1)], groups=groups)
    assert group_sizes(trace, world_size=16).tolist() == [2, 7, 16, 16, 2]
    assert group_sizes(trace).tolist() == [2, 7, 1, 1, 2]


def test_missing_link_figures_are_assumed_aloud_or_refused():
    trace = make_trace([comm(CommOp.ALL_REDUCE, 100, comm_group=0)], groups=[ProcessGroup("g", (0, 1))])
    said = " ".join(simulate_durations(trace, get_device("TPU v6e")).assumptions)
    assert "no published link latency for TPU v6e: 1000 ns per step assumed" in said
    with pytest.raises(AnalysisError, match="no link bandwidth for Trainium 2"):
        simulate_durations(trace, get_device("Trainium 2"))
    given = simulate_durations(trace, get_device("Trainium 2"), rates=Rates(link_bandwidth=1e11, link_latency_ns=10))
    assert given.dur_ns.tolist() == [21]


@pytest.mark.parametrize("share", [0.0, -1.0, 1.5])
def test_shares_outside_zero_to_one_are_refused(share):
    with pytest.raises(ValueError, match="must lie in"):
        Rates(compute=share)


@pytest.mark.parametrize(
    ("op", "golden"), [(CommOp.ALL_REDUCE, 43000), (CommOp.ALL_GATHER, 64744), (CommOp.REDUCE_SCATTER, 22240)]
)
def test_transfer_part_stays_below_the_simulators_ring(op, golden):
    """ASTRA-sim's ring of 4 at 50 GiB/s and 500 ns takes what we take, plus its chunking and endpoint delays."""
    ours = float(collective_ns(op, 2**20, 4, 50 * 2**30, 500.0))
    assert 0.6 * golden < ours < golden


def test_durations_grow_with_size():
    sizes = np.arange(0, 10**6, 10**5)
    times = collective_ns(CommOp.ALL_REDUCE, sizes, 8, 1e11, 500.0)
    assert (np.diff(times) > 0).all()
