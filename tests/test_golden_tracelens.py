"""Beside TraceLens (171dd74): breakdown, kernels, operators and the work of every distinct call it lists.

Every adjustment that makes the two comparable is made here in the open, and told in ``tests/golden/README.md``.
"""

from __future__ import annotations

import ast
import csv
import json
from collections import defaultdict
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from chakra_core.analysis._climb import owners
from chakra_core.analysis.breakdown import breakdown
from chakra_core.analysis.flops import parse_inputs, work_of
from chakra_core.analysis.operators import kernels, operator_mask
from chakra_core.analysis.roofline import roofline
from chakra_core.opening import open_trace
from chakra_core.schema import Category
from chakra_core.trace import INPUT_SEPARATOR, Trace

csv.field_size_limit(10**9)

MODELS = (
    "Falconsai_nsfw_image_detection__1016002",
    "Qwen_Qwen1.5-0.5B-Chat__1016005",
    "gaunernst_bert-small-uncased__1016001",
)
REPORTS = {
    **{f"h100_{name.rpartition('__')[0]}": f"kineto/cross_hw/{name}.h100.json.gz" for name in MODELS},
    **{f"mi300_{name.rpartition('__')[0]}": f"kineto/cross_hw/{name}.mi300x.json.gz" for name in MODELS},
    "mi300_resnet_act_checkpoint": "kineto/mi300x_ddp_resnet_rank0of8.json.gz",
    "dlrm_rank0": "link/dlrm_v100_8/device/worker0_step_12.1694128201545.pt.trace.json",
}  # fmt: skip
MEMORY = (Category.COPY, Category.MEMSET)
PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::convolution", "aten::convolution_backward",
            "aten::_scaled_dot_product_flash_attention")  # fmt: skip


@cache
def opened(path: Path) -> Trace:
    return open_trace(path)[0]


@pytest.fixture(params=REPORTS)
def report(request, corpus, golden):
    trace = opened(corpus / REPORTS[request.param])

    def table(name):
        with (golden / "tracelens" / "perf_report" / request.param / f"{name}.csv").open(newline="") as file:
            return list(csv.DictReader(file))

    return trace, table


def recomputed(trace: Trace) -> np.ndarray:
    """Device rows launched from below a checkpoint's recomputation: forward work done again in the backward pass."""
    again = np.array([name.endswith(": recompute_fn") for name in trace.names])
    rows = trace.device_rows
    return rows[owners(rows, trace.columns.parent, again[trace.columns.name]) >= 0]


def test_breakdown(report):
    """Memsets count as compute there, and kernels without a launch in the trace are left out.

    Where there is recomputation it is apart from the rest, and memsets are nowhere.
    """
    trace, table = report
    rows = trace.device_rows
    again = recomputed(trace)
    category = trace.columns.category.copy()
    category[rows[category[rows] == Category.MEMSET]] = Category.ANNOTATION if len(again) else Category.ELEMENTWISE
    category[rows[trace.columns.parent[rows] < 0]] = Category.ANNOTATION
    category[again] = Category.ANNOTATION
    found = breakdown(trace.with_(columns=trace.columns.with_(category=category)))
    said = {line["type"]: float(line["time ms"]) * 1e6 for line in table("gpu_timeline")
            if line.get("is_recompute", "False") == "False"}  # fmt: skip
    ours = found.devices[0]
    names = {"total": "total", "computation": "compute", "exposed_comm": "exposed_comm", "idle": "idle",
             "exposed_memcpy": "exposed_memory"}  # fmt: skip
    for theirs, part in names.items():  # each border of theirs is rounded to 2**-12 us
        assert getattr(ours, f"{part}_ns") == pytest.approx(said[f"{theirs}_time"], abs=len(rows)), part


def test_kernels(report):
    """Their table has no copies and no memsets; else every name's count and total are equal."""
    trace, table = report
    said: dict[str, list[float]] = defaultdict(lambda: [0, 0])
    for line in table("kernel_summary"):
        entry = said[line["Kernel name"]]
        entry[0] += int(float(line["Kernel duration (µs)_count"]))
        entry[1] += float(line["Kernel duration (µs)_sum"]) * 1e3
    ours = {record["name"]: record for record in kernels(trace).records()
            if record["category"] not in {category.label for category in MEMORY}}  # fmt: skip
    assert {name: entry[0] for name, entry in said.items()} == {name: entry["count"] for name, entry in ours.items()}
    for name, (count, total) in said.items():
        assert ours[name]["total_ns"] == pytest.approx(total, abs=count), name


def test_operators(report):
    """Kernels by the operator that launched them: no memsets, no collectives there."""
    trace, table = report
    said: dict[str, list[float]] = defaultdict(lambda: [0, 0])
    for line in table("ops_summary"):
        entry = said[line["name"]]
        entry[0] += int(line["Count"])
        entry[1] += float(line["total_direct_kernel_time_sum"]) * 1e3
    c, rows = trace.columns, trace.device_rows
    owner = owners(rows, c.parent, operator_mask(trace))
    kept = (owner >= 0) & (c.category[rows] != Category.COMMUNICATION)
    calls: dict[str, set[int]] = defaultdict(set)
    total: dict[str, int] = defaultdict(int)
    memset: dict[str, int] = defaultdict(int)
    for row, above in zip(rows[kept].tolist(), owner[kept].tolist(), strict=True):
        calls[trace.name_of(above)].add(above)
        total[trace.name_of(above)] += int(c.dur_ns[row])
        memset[trace.name_of(above)] += int(c.dur_ns[row]) if c.category[row] == Category.MEMSET else 0
    assert {name: entry[0] for name, entry in said.items()} == {name: len(rows) for name, rows in calls.items()}
    for name, (_, theirs) in said.items():
        near = {"rel": 1e-6, "abs": 500}  # their sums come from times of 2**-12 us at 32 bits
        assert theirs in (pytest.approx(total[name], **near), pytest.approx(total[name] - memset[name], **near)), name


def test_work_of_products(report):
    """Operations and bytes of GEMMs, convolutions and attention per distinct call."""
    _, table = report
    seen = 0
    for line in table("unified_perf_summary"):
        if line["name"] not in PRODUCTS:
            continue
        said = (ast.literal_eval(line[key] or "()") for key in ("Input Dims", "Input type", "Concrete Inputs"))
        read = parse_inputs(INPUT_SEPARATOR.join(json.dumps(part) for part in said))
        assert read is not None
        found = work_of(line["name"], read)
        assert found is not None, line["name"]
        # they count the gradients of both inputs also where only that of the weight is wanted
        factor = 2 if line["name"].endswith("backward") and read.value(10) == [False, True, False] else 1
        assert found.flops * factor == round(float(line["GFLOPS"]) * 1e9)
        assert found.moved * factor == round(float(line["Data Moved (MB)"]) * 2**20)
        seen += 1
    assert seen


def test_work_in_the_trace_is_that_of_the_table(report):
    """What the roofline finds in the trace, call by call, adds up to TraceLens' GEMM work."""
    trace, table = report
    said: dict[tuple[str, int], int] = defaultdict(int)
    for line in table("unified_perf_summary"):
        if line["name"] in ("aten::mm", "aten::addmm", "aten::bmm"):
            said[line["name"], round(float(line["GFLOPS"]) * 1e9)] += int(line["operation_count"])
    result = roofline(trace)
    ours: dict[tuple[str, int], int] = defaultdict(int)
    for name, flops, count in zip(result.names, result.flops.tolist(), result.count.tolist(), strict=True):
        if name in ("aten::mm", "aten::addmm", "aten::bmm"):
            ours[name, flops] += count
    assert ours == said
    assert np.isfinite(result.roof_ns).all()
