"""Rooflines: time, work and ceilings of hand-made calls, and of real traces against a peer's numbers."""

from __future__ import annotations

import json

import numpy as np
import pytest

from chakra_core.analysis.roofline import as_json, device_of, roofline
from chakra_core.analysis.scope import Scope
from chakra_core.hardware import Device, get_device
from chakra_core.schema import Category, CommOp, NodeKind
from chakra_core.trace import INPUT_SEPARATOR
from tests.builder import make_trace, node

DEVICE = Device("toy", "nobody", {"bf16": 1e12, "fp32": 1e11}, memory_bandwidth=1e12, memory_bytes=10**9)
BF16 = "c10::BFloat16"


def said(*shapes, kind=BF16):
    return INPUT_SEPARATOR.join(json.dumps(part) for part in (shapes, [kind] * len(shapes), [""] * len(shapes)))


def calls():
    """Operator linear holds mm (two kernels at once, 60 ns in all) and a copy (20 ns); a second mm; a kernel nobody knows."""
    run_time = {"category": Category.RUNTIME}
    trace = make_trace(
        [
            node("aten::linear", 0, 100, "cpu", inputs=0),
            node("aten::copy_", 5, 10, "cpu", parent=0, inputs=1),
            node("launch", 6, 2, "cpu", parent=1, **run_time),
            node("aten::mm", 20, 70, "cpu", parent=0, inputs=2),
            node("launch", 30, 5, "cpu", parent=3, **run_time),
            node("launch", 50, 10, "cpu", parent=3, **run_time),
            node("copy kernel", 40, 20, "gpu:7", parent=2, category=Category.ELEMENTWISE),
            node("gemm", 60, 40, "gpu:7", parent=4),
            node("gemm", 80, 40, "gpu:8", parent=5),
            node("aten::mm", 100, 10, "cpu", inputs=2),
            node("gemm", 130, 10, "gpu:7", parent=9),
            node("custom", 150, 30, "gpu:7", category=Category.OTHER),
            node("all reduce", 200, 50, "gpu:9", comm_op=CommOp.ALL_REDUCE),
        ]
    )
    inputs = (said([50, 20], [40, 20]), said([50, 20], [50, 20]), said([50, 20], [20, 40]))
    return trace.with_(inputs=inputs)


def test_units_by_hand():
    found = roofline(calls(), device=DEVICE)
    assert found.names == ("aten::mm", "aten::copy_")  # linear itself launches nothing
    assert found.count.tolist() == [2, 1]
    assert found.time_ns.tolist() == [60 + 10, 20]
    assert found.flops.tolist() == [2 * 50 * 20 * 40, 0]
    assert found.moved.tolist() == [2 * (1000 + 800 + 2000), 2 * 2000]
    # one mm: 80 ns for 80,000 operations at 1e12 FLOP/s, 7.6 ns for its bytes; the copy: 4 ns
    assert found.roof_ns.tolist() == pytest.approx([160, 4])
    assert found.compute_bound.tolist() == [True, False]
    assert found.above_ns.tolist() == pytest.approx([0, 16])  # faster than the ceiling is not below zero
    assert found.share.tolist() == pytest.approx([160 / 70, 0.2])
    assert found.rate.tolist() == pytest.approx([160_000 / 70e-9, 0])
    assert found.bandwidth.tolist() == pytest.approx([2 * 7600 / 70e-9, 4000 / 20e-9])
    assert found.intensity.tolist() == pytest.approx([80_000 / 7600, 0])
    assert found.longest.tolist() == [3, 1]
    assert (found.total_ns, found.covered_ns) == (20 + 40 + 40 + 10 + 30, 20 + 40 + 40 + 10)
    above = dict(zip(found.kernel_rows.tolist(), found.kernel_above.tolist(), strict=True))
    assert above == pytest.approx({6: 0.8, 7: 0, 8: 0, 10: 0})


def test_window_chooses_calls_but_does_not_cut_them():
    found = roofline(calls(), Scope((45, 60)), DEVICE)
    assert (found.names, found.time_ns.tolist()) == (("aten::copy_",), [20])


def test_without_a_device_there_are_no_ceilings():
    trace = calls()
    assert device_of(trace) is None
    found = roofline(trace)
    assert found.device is None
    assert np.isnan(found.roof_ns).all()
    assert np.isnan(found.kernel_above).all()
    record = as_json(trace)["roofline"]
    assert record["hardware"] is None
    assert record["above_ns"] is None
    assert record["operators"][0]["bound"] is None
    assert json.dumps(record, allow_nan=False)


def test_what_the_file_states_goes_before_the_formula():
    trace = calls()
    flops = np.full(len(trace), -1, np.int64)
    flops[9] = 123
    found = roofline(trace.with_(columns=trace.columns.with_(flops=flops)), device=DEVICE)
    assert dict(zip(found.flops.tolist(), found.count.tolist(), strict=True)) == {80_000: 1, 0: 1, 123: 1}


def test_device_nodes_with_their_own_work_are_units():
    trace = make_trace([
        node("fusion.1", 0, 10, flops=1000, bytes_accessed=500),
        node("fusion.1", 10, 30, flops=1000, bytes_accessed=500),
        node("send", 50, 10, comm_op=CommOp.SEND, kind=NodeKind.COMM_SEND, flops=0, bytes_accessed=100),
        node("copy", 60, 10, flops=0, bytes_accessed=100, category=Category.COPY),
    ])  # fmt: skip
    found = roofline(trace, device=DEVICE)
    assert (found.names, found.count.tolist(), found.time_ns.tolist()) == (("fusion.1",), [2], [40])
    assert found.precision == ("fp32",)


def test_host_only_traces_take_the_outermost_operators():
    trace = make_trace(
        [
            node("aten::linear", 0, 100, "cpu", inputs=0),
            node("aten::mm", 10, 60, "cpu", parent=0, inputs=1),
            node("aten::mm", 200, 50, "cpu", inputs=1),
        ]
    ).with_(inputs=(said([50, 20], [40, 20]), said([50, 20], [20, 40])))
    found = roofline(trace)
    assert found.on_host
    assert found.names == ("aten::linear", "aten::mm")
    assert found.time_ns.tolist() == [100, 50]
    assert (found.total_ns, found.covered_ns) == (150, 150)


def test_a_kernel_name_tells_tf32():
    trace = make_trace(
        [
            node("aten::mm", 0, 10, "cpu", inputs=0),
            node("ampere_sgemm_128x64", 20, 10, "gpu:7", parent=0),
            node("aten::mm", 40, 10, "cpu", inputs=0),
            node("cutlass_80_tensorop_s1688gemm_128x256", 60, 20, "gpu:7", parent=2),
        ]
    ).with_(inputs=(said([50, 20], [20, 40], kind="float"),))
    found = roofline(trace, device=get_device("A100 SXM 40GB"))
    assert found.precision == ("tf32", "fp32")
    assert found.time_ns.tolist() == [20, 10]


def test_empty_trace():
    found = roofline(make_trace([]), device=DEVICE)
    assert len(found) == found.total_ns == found.covered_ns == 0
