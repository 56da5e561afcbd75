"""Every rule on a trace made by hand: it fires with these numbers, and it does not fire without its cause."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chakra_core.analysis.breakdown import breakdown
from chakra_core.analysis.findings import UNKNOWN, Thresholds, as_json, find
from chakra_core.analysis.findings.facts import Facts
from chakra_core.analysis.scope import WHOLE, Scope
from chakra_core.errors import AnalysisError
from chakra_core.schema import Category, CommOp, TimeKind
from chakra_core.trace import Run
from tests.builder import make_trace, node

LAUNCH = {"lane": "main", "category": Category.RUNTIME}
ELEMENT = {"category": Category.ELEMENTWISE}
COMM = {"comm_op": CommOp.ALL_REDUCE}


def found(*traces, scope=WHOLE, **limits):
    run = Run(tuple(traces), "made")
    return {one.rule: one for one in find(run, scope, Thresholds().changed(limits))}


def numbers(finding):
    return {one.label: one.value for one in finding.evidence}


def late(wait: int, call: int):
    """Two kernels of 100; the second is launched ``wait`` after the first ended, by a call of ``call``."""
    return make_trace(
        [
            node("cudaLaunchKernel", 0, 10, **LAUNCH),
            node("first", 10, 100, parent=0),
            node("cudaLaunchKernel", 110 + wait, call, **LAUNCH),
            node("second", 110 + wait + call, 100, parent=2),
        ]
    )


def test_idle_time_is_the_hosts_before_the_launch_and_the_launchs_from_then_on():
    both = found(late(wait=200, call=100))
    host, launch = both["host-bound"], both["launch-bound"]
    assert (host.saving_ns, launch.saving_ns, host.total_ns) == (200, 100, 500)
    assert numbers(host) == {"idle before launches": 200, "gaps": 1, "longest gap": 300, "idle in all": 300}
    assert numbers(launch)["small kernels"] == 2
    assert host.place.row == launch.place.row == 3
    assert host.place.window == (110 - 1000, 410 + 1000)
    assert "40.0 %" in host.text


def test_what_the_critical_path_says_of_a_saving_is_beside_it():
    """The first kernel (100) and the second (100) follow their launches; without calls and waits they remain."""
    one = numbers(found(late(wait=200, call=100))["launch-bound"])
    assert one["critical path shorter by"] > 0
    assert "critical path shorter by" not in numbers(
        found(late(200, 100).with_(meta=type(make_trace([]).meta)(time_kind=TimeKind.SIMULATED)))["launch-bound"]
    )


def test_a_host_that_runs_ahead_is_not_found():
    """The second launch is over before the first kernel ends; the gap of 50 is its way to the device."""
    trace = make_trace(
        [
            node("cudaLaunchKernel", 0, 10, **LAUNCH),
            node("first", 10, 100, parent=0),
            node("cudaLaunchKernel", 20, 10, **LAUNCH),
            node("second", 160, 100, parent=2),
        ]
    )
    both = found(trace)
    assert "host-bound" not in both
    assert both["launch-bound"].saving_ns == 50


def test_gaps_without_a_known_launch_blame_nobody():
    rules = found(make_trace([node("a", 0, 100), node("b", 400, 100)]))
    assert not rules.keys() & {"host-bound", "launch-bound"}
    assert (rules["idle"].saving_ns, rules["idle"].total_ns, rules["idle"].place.row) == (300, 500, 1)
    assert "idle" not in found(late(wait=200, call=100))


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        ("data-loading", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"),
        ("synchronisation", "cudaStreamSynchronize"),
        ("recompiles", "cuModuleLoadData"),
    ],
)
def test_what_the_host_does_while_devices_idle(rule, name):
    """Idle 100..400; two calls, 50..150 and 300..350: 50 + 50 of them lie in the gap."""
    trace = make_trace(
        [node("a", 0, 100), node("b", 400, 100), node(name, 50, 100, lane="main"), node(name, 300, 50, lane="main")]
    )
    one = found(trace)[rule]
    assert (one.saving_ns, one.total_ns) == (100, 500)
    assert numbers(one) == {"idle meanwhile": 100, "calls": 2, "time in calls": 150, "most idle in one call": 50}
    assert one.place.rows == (2, 3)
    busy = make_trace([node("a", 0, 500), node(name, 50, 100, lane="main")])
    assert rule not in found(busy)


def test_communication_in_the_open_is_exposed_or_never_overlaps():
    """Compute 0..100, an all-reduce 80..200: 20 of 120 hidden (17 %), 100 exposed."""
    partly = make_trace([node("mm", 0, 100), node("all_reduce", 80, 120, "gpu:9", **COMM)])
    rules = found(partly)
    assert rules["exposed-communication"].saving_ns == 100
    assert numbers(rules["exposed-communication"])["hidden"] == pytest.approx(1 / 6)
    assert "missing-overlap" not in rules
    apart = found(make_trace([node("mm", 0, 60), node("all_reduce", 60, 140, "gpu:9", **COMM)]))
    assert apart["missing-overlap"].saving_ns == 60, "there is no more compute than that to hide it under"
    assert "exposed-communication" not in apart
    hidden = found(make_trace([node("mm", 0, 200), node("all_reduce", 20, 140, "gpu:9", **COMM)]))
    assert not hidden.keys() & {"exposed-communication", "missing-overlap"}


def test_copies_in_the_open():
    copy = {"category": Category.COPY}
    trace = make_trace(
        [node("mm", 0, 100), node("Memcpy HtoD (Pageable -> Device)", 90, 50, "gpu:9", **copy), node("mm", 200, 100)]
    )
    one = found(trace)["exposed-copies"]
    assert (one.saving_ns, numbers(one)["of pageable memory"], one.place.row) == (40, 1, 1)
    assert "exposed-copies" not in found(trace, exposed_memory_share=0.5)


def test_rows_of_small_kernels_are_worth_fusing():
    """Four of 10 in 0..70, the longest 10: fusing saves 60. A row of three, and one on another stream, do not count."""
    small = [node(f"k{at}", 20 * at, 10, **ELEMENT) for at in range(4)]
    others = [node("mm", 1000, 500), *(node("s", 2000 + 20 * at, 10, **ELEMENT) for at in range(3))]
    trace = make_trace([*small, *others, node("t", 30, 10, "gpu:9", **ELEMENT)])
    one = found(trace, chain_gap_ns=100)["small-kernels"]
    assert (one.saving_ns, one.place.rows) == (60, (0, 1, 2, 3))
    assert numbers(one) == {"rows of small kernels": 1, "kernels in them": 4, "most saved in one row": 60}
    assert "small-kernels" not in found(trace, chain_gap_ns=5)
    assert "small-kernels" not in found(trace, small_kernel_ns=5)


def test_a_stream_that_works_on_alone():
    trace = make_trace([node("a", 0, 100, "gpu:7"), node("b", 0, 300, "gpu:9")])
    one = found(trace)["straggling-streams"]
    assert (one.saving_ns, one.place.row) == (200, 1)
    assert "straggling-streams" not in found(make_trace([node("a", 0, 290, "gpu:7"), node("b", 0, 300, "gpu:9")]))
    assert "straggling-streams" not in found(make_trace([node("a", 0, 300, "gpu:7")]))


def test_recomputation_is_the_device_time_below_it():
    trace = make_trace(
        [
            node("CheckpointFunctionBackward", 0, 100, lane="main"),
            node("launch", 10, 5, parent=0, **LAUNCH),
            node("again", 20, 60, parent=1),
            node("other", 80, 40),
        ]
    )
    one = found(trace)["recomputation"]
    assert (one.saving_ns, one.total_ns, one.place.rows) == (60, 100, (2,))


def test_ranks_and_steps_that_differ():
    slow, fast = (make_trace([node("mm", 0, dur)], rank=rank) for rank, dur in ((0, 100), (1, 300)))
    one = found(slow, fast)["rank-imbalance"]
    assert (one.saving_ns, one.place.rank, numbers(one)["mean compute"]) == (100, 1, 200)
    assert "rank-imbalance" not in found(slow)
    steps = [
        node(f"ProfilerStep#{at}", 1000 * at, dur, lane="main", category=Category.ANNOTATION)
        for at, dur in enumerate((900, 300, 300, 310))
    ]
    uneven = found(make_trace([*steps, node("mm", 0, 4000)]))["step-imbalance"]
    assert (uneven.saving_ns, uneven.place.window) == (595, (0, 900)), "the median of 300, 300, 310, 900 is 305"


def test_the_hottest_kernel_says_where_to_look_and_comes_last():
    trace = make_trace([node("mm", 0, 300), node("x", 300, 100), node("y", 700, 100)])
    ordered = find(Run((trace,), "made"))
    assert ordered[-1].rule == "hot-kernel"
    assert ordered[-1].saving_ns == UNKNOWN
    assert "60.0 %" in ordered[-1].text
    host = found(make_trace([node("step", 0, 1000, lane="main"), node("mm", 100, 600, lane="main", parent=0)]))
    assert host["hot-operator"].text.startswith("mm itself takes 60.0 %")


def test_work_far_below_the_roofline():
    """An H100 SXM could do 1e9 FLOP in about 1 us; this kernel takes 100 us."""
    trace = make_trace([node("mm", 0, 100_000, flops=10**9, bytes_accessed=1000)])
    trace = trace.with_(meta=type(trace.meta)(**{**_fields(trace.meta), "hardware": "NVIDIA H100 80GB HBM3"}))
    one = found(trace)["low-roofline"]
    assert one.saving_ns == pytest.approx(99_000, rel=0.01)
    assert "memory-bound-gemms" not in found(trace)
    thin = trace.with_(columns=trace.columns.with_(flops=[1000], bytes_accessed=[10**8]))
    assert "memory-bound-gemms" in found(thin)
    assert "low-roofline" not in found(make_trace([node("mm", 0, 100_000, flops=10**9, bytes_accessed=1000)]))


def _fields(meta):
    return {name: getattr(meta, name) for name in meta.__dataclass_fields__}


def test_a_scope_narrows_the_rules():
    trace = late(wait=200, call=100)
    assert "host-bound" not in found(trace, scope=Scope(window=(0, 110)))
    assert found(make_trace([]), make_trace([], rank=1)) == {}


def test_several_ranks_give_one_finding_with_the_worst():
    one = found(late(200, 100), late(400, 100).with_(meta=make_trace([], rank=1).meta))["host-bound"]
    assert (one.saving_ns, one.place.rank, one.ranks) == (400, 1, 2)


def test_thresholds_refuse_nonsense():
    with pytest.raises(AnalysisError, match="no such threshold"):
        Thresholds().changed({"x": 1})
    with pytest.raises(AnalysisError, match="from 0 on"):
        Thresholds().changed({"overlap": -1})
    with pytest.raises(AnalysisError, match="from 0 on"):
        Thresholds().changed({"overlap": float("nan")})


def test_the_document_of_the_command_line():
    record = next(one for one in as_json(late(200, 100))["findings"] if one["rule"] == "host-bound")
    assert record["saving_ns"] == 200
    assert record["place"]["row"] == 3
    assert record["evidence"][0] == {"label": "idle before launches", "value": 200, "unit": "ns"}


@st.composite
def traces(draw):
    rows = []
    for _ in range(draw(st.integers(1, 14))):
        start, dur = draw(st.integers(0, 200)), draw(st.integers(0, 60))
        kind = draw(st.sampled_from(["launch", "kernel", "comm", "copy", "sync"]))
        if kind == "kernel":
            launches = [at for at, row in enumerate(rows) if row["name"] == "launch"]
            parent = draw(st.sampled_from([-1, *launches]))
            rows.append(node("k", start, dur, draw(st.sampled_from(["gpu:7", "gpu:9"])), parent=parent, **ELEMENT))
        elif kind == "comm":
            rows.append(node("c", start, dur, "gpu:9", **COMM))
        elif kind == "copy":
            rows.append(node("m", start, dur, "gpu:7", category=Category.COPY))
        else:
            rows.append(node("launch" if kind == "launch" else "cudaDeviceSynchronize", start, dur, **LAUNCH))
    return make_trace(rows, time_kind=TimeKind.MEASURED)


@given(traces())
def test_savings_are_parts_of_device_time_and_gaps_are_split_exactly(trace):
    zero = dict.fromkeys(
        ("idle_share", "fusion_share", "tail_share", "exposed_comm_share", "exposed_memory_share"), 0.0
    )
    total = breakdown(trace).total
    for one in find(Run((trace,), "made"), limits=Thresholds().changed(zero)):
        assert one.saving_ns == UNKNOWN or 0 < one.saving_ns <= one.total_ns == total.total_ns
    gaps = Facts(0, trace, WHOLE).gaps
    assert gaps.dur_ns.sum() == total.idle_ns
    assert (gaps.host_ns >= 0).all()
    assert (gaps.host_ns + gaps.launch_ns <= gaps.dur_ns).all()
