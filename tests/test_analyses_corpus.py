"""Breakdown, operators and comparison on real traces, beside what HTA and TraceLens compute of them."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from chakra_core.analysis.align import How
from chakra_core.analysis.breakdown import PARTS, breakdown
from chakra_core.analysis.compare import compare
from chakra_core.analysis.operators import by_category, kernels, top_operators
from chakra_core.analysis.scope import Scope, clip_rows
from chakra_core.readers.base import Source
from chakra_core.readers.kineto import READER
from chakra_core.schema import Category, Domain
from chakra_core.trace import Run, Trace

MODELS = (
    "Falconsai_nsfw_image_detection__1016002", "Qwen_Qwen1.5-0.5B-Chat__1016005",
    "gaunernst_bert-small-uncased__1016001",
)  # fmt: skip
DEVICES = ("h100", "mi300x")


def read(path: Path) -> Trace:
    return READER.read(Source(path))[0]


def read_run(path: Path) -> Run:
    return Run((read(path),), path.name)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def kineto_files(corpus: Path) -> list[Path]:
    folders = [corpus / "kineto", corpus / "link", corpus / "chrome", corpus / "collected"]
    found = [path for folder in folders for path in sorted(folder.rglob("*.json*"))]
    return [path for path in found if READER.sniff(Source(path).head, path.name) >= 0.5]


def test_identity_on_every_trace(corpus):
    files = kineto_files(corpus)
    assert len(files) > 40
    with_devices = 0
    for path in files:
        trace = read(path)
        result = breakdown(trace)
        for part in (result.total, *result.devices):
            assert part.total_ns == sum(part.part(name) for name in PARTS), path
            assert all(part.part(name) >= 0 for name in PARTS), path
        work = clip_rows(trace, trace.device_rows)
        if not len(work):
            assert result.reason, path
            continue
        with_devices += 1
        if len(result.devices) == 1:
            assert result.total.total_ns == int(work.end_ns.max() - work.start_ns.min()), path
        summed = int(trace.columns.dur_ns[trace.device_rows].sum())
        table = kernels(trace)
        assert int(table.total_ns.sum()) == summed == sum(by_category(trace).values()), path
        operators = top_operators(trace)
        assert int(operators.device_self_ns.sum()) <= summed, path
        assert (operators.self_ns <= operators.total_ns).all(), path
    assert with_devices > 30


@pytest.mark.parametrize("rank", range(8))
def test_dlrm_equals_hta_to_the_microsecond(corpus, golden, rank):
    expected = rows_of(golden / "hta" / "dlrm8" / "temporal_breakdown.csv")[rank]
    overlap = rows_of(golden / "hta" / "dlrm8" / "comm_comp_overlap.csv")[rank]
    traces = [read(found) for found in sorted((corpus / "link" / "dlrm_v100_8" / "device").glob("*.json*"))]
    trace = next(found for found in traces if found.meta.rank == rank)
    total = breakdown(trace).total
    assert total.total_ns == float(expected["kernel_time(us)"]) * 1000
    assert total.idle_ns == float(expected["idle_time(us)"]) * 1000
    assert total.compute_ns == float(expected["compute_time(us)"]) * 1000
    assert total.exposed_comm_ns + total.exposed_memory_ns == float(expected["non_compute_time(us)"]) * 1000
    assert total.overlap_ratio is not None
    assert 100 * total.overlap_ratio == pytest.approx(float(overlap["comp_comm_overlap_pctg"]), abs=0.005)


def test_idle_causes_of_dlrm_equal_hta(corpus, golden):
    causes = {"host_wait": "host", "kernel_wait": "kernel wait", "other": "other"}
    expected = {
        (entry["stream"], causes[entry["idle_category"]]): float(entry["idle_time"]) * 1000
        for entry in rows_of(golden / "hta" / "dlrm8" / "idle_time_breakdown.0.csv")
        if entry["rank"] == "0"
    }
    traces = [read(found) for found in sorted((corpus / "link" / "dlrm_v100_8" / "device").glob("*.json*"))]
    trace = next(found for found in traces if found.meta.rank == 0)
    ours = {
        (trace.lanes[entry.lane].name.split()[-1], entry.cause): entry.idle_ns for entry in breakdown(trace).idle_causes
    }
    for key, idle in expected.items():
        assert ours.get(key, 0) == idle, key


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("device", DEVICES)
def test_gpu_timeline_equals_tracelens_in_its_window(corpus, golden, model, device):
    """TraceLens clips to the device's ProfilerStep annotation where there is one; it keeps floats of milliseconds."""
    trace = read(corpus / "kineto" / "cross_hw" / f"{model}.{device}.json.gz")
    name = model.rpartition("__")[0]
    folder = golden / "tracelens" / "perf_report" / f"{'h100' if device == 'h100' else 'mi300'}_{name}"
    expected = {entry["type"]: float(entry["time ms"]) * 1e6 for entry in rows_of(folder / "gpu_timeline.csv")}
    total = breakdown(trace, _device_step(trace)).total
    memset = by_category(trace, _device_step(trace)).get(Category.MEMSET, 0)
    assert total.compute_ns == pytest.approx(expected["computation_time"], abs=1000 + memset)
    assert total.exposed_comm_ns == pytest.approx(expected["exposed_comm_time"], abs=1000)
    assert total.exposed_memory_ns == pytest.approx(expected["exposed_memcpy_time"], abs=1000 + memset)
    assert total.busy_ns == pytest.approx(expected["busy_time"], abs=1000)


def _device_step(trace: Trace) -> Scope:
    c = trace.columns
    steps = [
        row
        for row in ((c.domain == Domain.DEVICE) & (c.category == Category.ANNOTATION)).nonzero()[0].tolist()
        if trace.name_of(row).startswith("ProfilerStep")
    ]
    if not steps:
        return Scope()
    return Scope(window=(int(c.start_ns[steps[0]]), int(c.start_ns[steps[0]] + c.dur_ns[steps[0]])))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("device", DEVICES)
def test_kernel_totals_equal_tracelens(corpus, golden, model, device):
    trace = read(corpus / "kineto" / "cross_hw" / f"{model}.{device}.json.gz")
    name = model.rpartition("__")[0]
    folder = golden / "tracelens" / "perf_report" / f"{'h100' if device == 'h100' else 'mi300'}_{name}"
    expected: dict[str, float] = {}
    counts: dict[str, int] = {}
    for entry in rows_of(folder / "kernel_summary.csv"):
        kernel = entry["Kernel name"]
        expected[kernel] = expected.get(kernel, 0.0) + float(entry["Kernel duration (µs)_sum"])
        counts[kernel] = counts.get(kernel, 0) + int(entry["Kernel duration (µs)_count"])
    ours: dict[str, int] = {}
    our_counts: dict[str, int] = {}
    for record in kernels(trace).records():
        ours[record["name"]] = ours.get(record["name"], 0) + record["total_ns"]
        our_counts[record["name"]] = our_counts.get(record["name"], 0) + record["count"]
    for kernel, total_us in expected.items():
        assert our_counts[kernel] == counts[kernel], kernel
        assert ours[kernel] / 1000 == pytest.approx(total_us, abs=1), kernel


def pair(corpus, *names):
    return compare([read_run(corpus / "kineto" / name) for name in names])


@pytest.mark.parametrize("model", [MODELS[0], MODELS[2]])
def test_the_same_model_on_two_vendors_meets_wholly(corpus, model):
    result = pair(corpus, *(f"cross_hw/{model}.{device}.json.gz" for device in DEVICES))
    assert [run.matched_share for run in result.runs] == [1.0, 1.0]
    assert set(result.operators.how.tolist()) <= {How.SHAPES, How.OPERATOR, How.PLACE}


def test_a_model_recorded_mid_run_meets_too(corpus):
    """Qwen's trace begins with kernels launched before the recording: they meet under the operator of their like."""
    result = pair(corpus, *(f"cross_hw/{MODELS[1]}.{device}.json.gz" for device in DEVICES))
    assert all(run.matched_share >= 0.98 for run in result.runs)
    table = result.operators
    by_operator = table.ns[table.how <= How.ENCLOSING].sum(axis=0)
    for run, device in enumerate(DEVICES):
        trace = read(corpus / "kineto" / "cross_hw" / f"{MODELS[1]}.{device}.json.gz")
        launched = trace.columns.parent[trace.device_rows] >= 0
        assert by_operator[run] >= 0.98 * int(trace.columns.dur_ns[trace.device_rows[launched]].sum())


def test_mm_against_linear(corpus):
    """MI300X: a transposing kernel (80 us) and the product (650 us) under aten::mm; H100: aten::addmm, 480 us."""
    result = pair(corpus, *(f"compare_tiny/test04_gemm_mm_vs_linear/trace{at}.json" for at in (1, 2)))
    assert result.operators.names == ("matrix product [1024,2048]x[2048,4096]",)
    assert result.operators.ns.tolist() == [[730_000, 480_000]]
    assert result.operators.kernels.tolist() == [[2, 1]]
    delta = result.deltas[1]
    assert (delta.total_ns, delta.compute_ns, delta.idle_ns) == (-260_000, -250_000, -10_000)


def test_identical_run_times(corpus):
    result = pair(corpus, *(f"compare_tiny/test05_gemm_identical_runtime_roofline/trace{at}.json" for at in (1, 2)))
    assert result.operators.ns.tolist() == [[200_000, 200_000]]
    assert result.deltas[1].total_ns == 0


def test_one_addition_fewer(corpus):
    """The second trace lacks one elementwise kernel of 4 us, the last of the first."""
    result = pair(corpus, "compare_tiny/hta_base.json.gz", "compare_tiny/hta_test.json.gz")
    changed = (result.operators.ns[:, 0] != result.operators.ns[:, 1]).nonzero()[0]
    assert result.operators.ns[changed].tolist() == [[12_000, 8_000]]
    assert result.operators.kernels[changed].tolist() == [[3, 2]]
    assert result.deltas[1].compute_ns == -4_000


def test_more_loading_workers_remove_idle_time(corpus):
    names = [f"compare_dataloader_2021/resnet50_workers{n}.pt.trace.json.gz" for n in (0, 4)]
    delta = pair(corpus, *names).deltas[1]
    assert delta.idle_ns < -190_000_000
    assert abs(delta.compute_ns) < 10_000_000
    assert delta.total_ns == sum(delta.part(part) for part in PARTS)


def test_quantising_this_model_made_its_compute_slower(corpus):
    """Graph launches: 685 and 755 kernels under one compiled region; int8 takes 1.286 ms more of compute."""
    result = pair(corpus, *(f"a100_quantize_vit/{name}.json.gz" for name in ("bfloat16", "quant")))
    assert [run.matched_share for run in result.runs] == [1.0, 1.0]
    assert result.deltas[1].compute_ns == 1_286_000
    assert result.deltas[1].idle_ns == -3_000


def test_an_older_device_computes_longer(corpus):
    names = [f"compare_a100_v100/{name}.json.gz" for name in ("control_a100_rank3of8", "test_v100_rank1of2")]
    result = pair(corpus, *names)
    assert [run.total_ns for run in result.runs] == [464_594_000, 745_239_000]
    assert result.deltas[1].compute_ns == 548_148_000 - 281_336_000
    for at, run in enumerate(result.runs):
        assert result.operators.ns[:, at].sum() == run.work_ns
