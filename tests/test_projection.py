"""Projection onto other hardware: identity, hand-worked shifts, rendezvous, rules."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chakra_core.errors import AnalysisError
from chakra_core.hardware import get_device
from chakra_core.project.projection import project_run, source_device
from chakra_core.project.retime import Knobs, retime
from chakra_core.project.shift import Waits, move_points
from chakra_core.project.simulate import simulate_run
from chakra_core.project.waits import match_collectives
from chakra_core.schema import Category, CommOp, EdgeKind, TimeKind
from chakra_core.synth import TransformerConfig, transformer_run
from chakra_core.trace import ProcessGroup, Run
from tests.builder import make_trace, node

H100, MI300X = get_device("H100 SXM"), get_device("MI300X")


def call(name, start, dur, **more):
    return node(name, start, dur, lane="thread 1", category=Category.RUNTIME, **more)


def spans(run, number=0):
    columns = run.traces[number].columns
    return list(zip(columns.start_ns.tolist(), (columns.start_ns + columns.dur_ns).tolist(), strict=True))


def projected(*traces, target=H100, **knobs):
    return project_run(Run(tuple(traces), "run"), target, source=H100, knobs=Knobs(**knobs))


def launched(second_launch=10, second_start=65):
    nodes = [
        call("cudaLaunchKernel", 0, 10),
        call("cudaLaunchKernel", second_launch, 10),
        call("cudaDeviceSynchronize", second_launch + 10, second_start + 55 - second_launch),
        node("gemm", 15, 50),
        node("copy", second_start, 60, category=Category.ELEMENTWISE),
    ]
    return make_trace(nodes, [(0, 3, EdgeKind.LAUNCH), (1, 4, EdgeKind.LAUNCH)])


def test_a_faster_kernel_pulls_the_next_one_and_the_waiting_host():
    run = projected(launched(), compute=2.0)
    # gemm halves to [15, 40); the elementwise kernel follows it at once and keeps 60; the host returns 5 after it
    assert spans(run) == [(0, 10), (10, 20), (20, 105), (15, 40), (40, 100)]
    assert run.time_kind == TimeKind.SIMULATED
    assert run.hardware == "H100 SXM"
    assert "compute x 2" in run.assumptions
    assert "1 compute-bound kernels scaled by peak FLOP/s" in run.assumptions


def test_a_launch_bound_kernel_does_not_move():
    run = projected(launched(second_launch=100, second_start=113), compute=2.0)
    assert spans(run)[3:] == [(15, 40), (113, 173)]


def test_a_slower_kernel_pushes_what_follows():
    run = projected(launched(), compute=0.5, memory=2.0)
    assert spans(run) == [(0, 10), (10, 20), (20, 150), (15, 115), (115, 145)]


def collective(start, dur, seq=0, op=CommOp.ALL_REDUCE, size=450_000_000):
    return node("all_reduce", start, dur, lane="gpu:20", comm_op=op, comm_bytes=size, comm_group=0, comm_seq=seq)


def two_ranks():
    group = ProcessGroup("0", (0, 1))
    nodes = ([node("gemm", 0, 100), collective(100, 1_103_000)], [node("gemm", 0, 3_000), collective(3_000, 1_100_100)])
    return [make_trace(entries, [(0, 1)], rank=rank, groups=[group]) for rank, entries in enumerate(nodes)]


def test_collectives_wait_for_the_last_rank():
    run = projected(*two_ranks(), compute=10.0)
    # gemms end at 10 and 300; the transfer (shortest member) lasts 1,100,100 from there; tails stay (0 and 0)
    assert spans(run, 0) == [(0, 10), (10, 1_100_400)]
    assert spans(run, 1) == [(0, 300), (300, 1_100_400)]


def test_collectives_scale_with_their_alpha_beta_time():
    run = projected(*two_ranks(), link=2.0)
    # n = 2: S/bw = 1,000,000 ns + 2 x 3,400 ns; twice the bandwidth: 500,000 + 6,800
    transfer = round(1_100_100 * 506_800 / 1_006_800)
    assert spans(run, 1)[1] == (3_000, 3_000 + transfer)
    assert spans(run, 0)[1] == (100, 3_000 + transfer)


def test_rules_by_category_and_roofline():
    nodes = [
        node("gemm", 0, 1000),
        node("norm", 0, 1000, category=Category.NORMALISATION),
        node("odd", 0, 1000, category=Category.OTHER),
        node("Memcpy HtoD (Pageable -> Device)", 0, 1000, category=Category.COPY),
        node("Memcpy DtoD (Device -> Device)", 0, 1000, category=Category.COPY),
        node("gemm", 0, 1000, flops=1, bytes_accessed=10**9),
        node("op", 0, 1000, lane="thread 1"),
    ]
    found = retime(make_trace(nodes), H100, MI300X, Knobs())
    compute, memory = 989.5 / 1307.4, 3350 / 5300
    assert found.factor == pytest.approx([compute, memory, 1, 1, memory, memory, 1])
    assert found.counts == {
        "kernels scaled by their roofline time, efficiency kept": 1,
        "compute-bound kernels scaled by peak FLOP/s": 1,
        "memory-bound kernels and copies scaled by memory bandwidth": 2,
        "unclassified kernels left as measured": 1,
        "copies between host and device scaled by the host link": 1,
    }


def test_there_and_back_is_the_same_within_rounding():
    there = project_run(Run(tuple(two_ranks()), "run"), MI300X, source=H100)
    back = project_run(there, H100, source=MI300X)
    for number in (0, 1):
        assert np.abs(np.array(spans(back, number)) - np.array(spans(Run(tuple(two_ranks()), ""), number))).max() <= 3


def test_a_replayed_run_is_replayed_again():
    """Where times were made by a replay, projecting is replaying with the other device's durations, to the ns."""
    run = transformer_run(TransformerConfig(layers=2, batches=(4, 3), tp=2))
    here, there = simulate_run(run, H100), simulate_run(run, MI300X)
    moved = project_run(here, MI300X)
    for number in range(4):
        assert np.abs(moved.traces[number].columns.dur_ns - there.traces[number].columns.dur_ns).max() <= 2
    assert moved.span_ns == pytest.approx(there.span_ns, abs=500)
    assert spans(project_run(here, H100), 3) == spans(here, 3)


def test_device_annotations_move_with_their_kernels():
    nodes = [node("gemm", 100, 50), node("gemm", 150, 50), node("step", 95, 110, category=Category.ANNOTATION)]
    nodes[2]["lane"] = "gpu:annotations"
    assert spans(projected(make_trace(nodes), compute=2.0)) == [(100, 125), (125, 150), (95, 155)]


def test_points_in_a_circle_are_broken_at_the_earliest():
    one, two = np.array([0, 1]), np.array([1, 0])
    assert move_points(np.array([5, 9]), Waits.at_once(one, two)).tolist() == [5, 9]


def test_a_call_in_a_circle_with_its_kernel_stays_where_it_was():
    nodes = [
        call("cudaDeviceSynchronize", 0, 1),
        node("gemm", 0, 0, lane="gpu:0"),
        call("cudaLaunchKernel", 1, 0),
        node("gemm", 1, 0, lane="gpu:0"),  # ends with the call that waits, and is launched after it
    ]
    trace = make_trace(nodes, [(0, 1, EdgeKind.LAUNCH), (2, 3, EdgeKind.LAUNCH)])
    assert spans(projected(trace)) == [(0, 1), (0, 0), (1, 1), (1, 1)]


def test_what_cannot_be_projected_is_refused():
    host_only = make_trace([node("op", 0, 1, lane="thread 1")])
    with pytest.raises(AnalysisError, match="no device work"):
        projected(host_only)
    with pytest.raises(AnalysisError, match=r"hardware \(nothing\) is not in the catalogue"):
        source_device(Run((host_only,), "run"))
    with pytest.raises(ValueError, match="must be above 0"):
        Knobs(link=0)
    assert source_device(Run((host_only,), "run", "AMD Instinct MI300X VF")) == MI300X


def overlapping():
    nodes = [
        call("cudaLaunchKernel", 0, 10),
        call("cudaLaunchKernel", 10, 10),
        call("cudaLaunchKernel", 20, 10),
        node("gemm", 15, 100),
        node("all_reduce", 25, 50, lane="gpu:20", comm_op=CommOp.ALL_REDUCE, comm_bytes=1 << 20),
        node("gemm", 115, 40),
    ]
    return make_trace(nodes, [(at, at + 3, EdgeKind.LAUNCH) for at in range(3)])


def test_without_overlap_communication_and_compute_take_turns():
    assert spans(projected(overlapping(), overlap=True))[3:] == [(15, 115), (25, 75), (115, 155)]
    run = projected(overlapping(), overlap=False)
    # in the order of their starts: gemm, then the all-reduce, then the second gemm
    assert spans(run)[3:] == [(15, 115), (115, 165), (165, 205)]
    assert "communication never runs beside compute" in run.assumptions


def test_launch_overhead_scales_calls_and_what_only_waits_for_them():
    trace = launched(second_launch=100, second_start=113)
    run = projected(trace, launch=0.0)
    starts = [start for start, _ in spans(run)]
    assert starts[3] == 0  # the call at 0 takes no time and the kernel starts with it
    assert spans(run)[1] == (90, 90)  # the host's own 90 ns between the calls stay
    assert starts[4] == 90
    assert spans(projected(trace, launch=1.0)) == spans(Run((trace,), "as it was"))


def test_algorithm_domain_and_compression_change_collectives_only():
    here = two_ranks()
    base = spans(projected(*here), 1)[1]
    quarter = spans(projected(*here, compression=4.0), 1)[1]
    # n = 2: 1,000,000 + 6,800 ns before, 250,000 + 6,800 after
    assert quarter[1] - quarter[0] == round(1_100_100 * 256_800 / 1_006_800)
    direct = spans(projected(*here, algorithm="direct"), 1)[1]
    assert direct == base  # among two, all at once is a ring
    apart = spans(projected(*here, domain=1), 1)[1]
    # over the outer network: 450e6 bytes at 50 GB/s and 2 steps of 14 us
    assert apart[1] - apart[0] == round(1_100_100 * (9_000_000 + 28_000) / 1_006_800)


def test_data_parallel_groups_grow():
    dp, tp = ProcessGroup("0", (0, 4), "mesh_dp"), ProcessGroup("1", (0, 1), "mesh_tp")
    nodes = [collective(0, 1_006_800), {**collective(2_000_000, 1_006_800), "comm_group": 1}]
    trace = make_trace(nodes, rank=0, groups=[dp, tp])
    run = project_run(Run((trace,), "run"), H100, source=H100, knobs=Knobs(data_parallel=4.0))
    lengths = [end - start for start, end in spans(run)]
    assert lengths[1] == 1_006_800
    # eight members, in as many domains as a world of 4 ranks holds: one
    assert lengths[0] == round(2 * 7 / 8 * 450_000_000 / 450 + 14 * 3_400)


@st.composite
def traces(draw):
    """Host calls that launch kernels onto two streams, kernels in stream order, some overlapping, some zero-length."""
    count = draw(st.integers(1, 12))
    nodes, edges, host, free = [], [], 0, [0, 0]
    for _ in range(count):
        host += draw(st.integers(0, 20))
        length, stream = draw(st.integers(0, 30)), draw(st.integers(0, 1))
        start = max(host + draw(st.integers(-3, 10)), free[stream] - draw(st.integers(0, 5)), 0)
        duration = draw(st.integers(0, 40))
        free[stream] = start + duration
        name = draw(st.sampled_from(["cudaLaunchKernel", "cudaDeviceSynchronize", "cudaMemcpyAsync"]))
        edges.append((len(nodes), len(nodes) + 1, EdgeKind.LAUNCH))
        nodes += [call(name, host, length), node("gemm", start, duration, lane=f"gpu:{stream}")]
        host += draw(st.integers(0, length + 5))
    return make_trace(nodes, edges)


@settings(max_examples=150, deadline=None)
@given(traces())
def test_own_hardware_gives_the_measured_times_to_the_nanosecond(trace):
    run = projected(trace)
    assert np.array_equal(run.traces[0].columns.start_ns, trace.columns.start_ns)
    assert np.array_equal(run.traces[0].columns.dur_ns, trace.columns.dur_ns)


@settings(max_examples=100, deadline=None)
@given(traces(), st.floats(1.0, 8.0))
def test_faster_hardware_never_ends_later(trace, factor):
    run = projected(trace, compute=factor)
    assert run.end_ns <= trace.end_ns
    assert (run.traces[0].columns.dur_ns >= 0).all()


def test_members_of_meetings_by_hand():
    groups = [ProcessGroup("0", (0, 1)), ProcessGroup("1", (1, 2))]
    reduces = lambda *seqs, group=0: [  # noqa: E731 - a builder of this test alone
        {**collective(10 * at, 5, seq), "comm_group": group} for at, seq in enumerate(seqs)
    ]
    one = make_trace([*reduces(7, 8, 9), collective(90, 5, 7, CommOp.ALL_GATHER)], rank=0, groups=groups)
    two = make_trace([*reduces(8, 7, 9, 9), *reduces(-1, -1, group=1)], rank=1, groups=groups)
    three = make_trace([node("gemm", 0, 1), *reduces(-1, group=1)], rank=2, groups=groups)
    traces, rows, meetings = match_collectives(Run((one, two, three), "run"))
    # 7 and 8 meet by number; 9 is twice on one rank, the gather and the second of group 1 are alone
    assert [*zip(traces.tolist(), rows.tolist(), meetings.tolist(), strict=True)] == [
        (0, 0, 0), (1, 1, 0), (0, 1, 1), (1, 0, 1), (1, 4, 2), (2, 1, 2)
    ]  # fmt: skip
    assert [len(part) for part in match_collectives(Run((make_trace([node("gemm", 0, 1)]),), "run"))] == [0, 0, 0]
