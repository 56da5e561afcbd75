"""Critical path, launches, queues and idle causes beside what HTA computes of the same traces (tests/golden/README.md)."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from chakra_core.analysis.breakdown import breakdown
from chakra_core.analysis.launch import launches
from chakra_core.analysis.measured_path import causes_of, measured_graph, solve
from chakra_core.analysis.scope import WHOLE, Scope
from chakra_core.readers.base import Source
from chakra_core.readers.kineto import READER
from chakra_core.schema import NO_TIME, Category, Domain
from chakra_core.trace import Trace
from tests.conftest import corpus_root

US = 1000
CROSS = "kineto/cross_hw/{}.{}.json.gz"
TRACES = {
    "amd_mi250": "kineto/mi250_minitoy_rocm62.json.gz",
    "cp_alexnet": "kineto/a100_alexnet_2023.json.gz",
    "cp_event_sync": "kineto/a100_cuda_event_sync.json.gz",
    "dlrm8": "link/dlrm_v100_8/device",
    "nccl_parser_config": "kineto/a100_ddp_nccl_args_rank0of2.json.gz",
    "ns_resolution": "kineto/v100_displaytimeunit_ns_2024-04.json.gz",
    "trace_diff_control": "kineto/compare_a100_v100/control_a100_rank3of8.json.gz",
    "trace_diff_test": "kineto/compare_a100_v100/test_v100_rank1of2.json.gz",
    "trace_filter": "kineto/multirank_sampled_ws128",
    "triton_example": "kineto/a100_triton_single_kernel.json.gz",
    "tl_h100_Falconsai_nsfw_image_detection": CROSS.format("Falconsai_nsfw_image_detection__1016002", "h100"),
    "tl_mi300_Falconsai_nsfw_image_detection": CROSS.format("Falconsai_nsfw_image_detection__1016002", "mi300x"),
    "tl_h100_Qwen_Qwen1.5-0.5B-Chat": CROSS.format("Qwen_Qwen1.5-0.5B-Chat__1016005", "h100"),
    "tl_mi300_Qwen_Qwen1.5-0.5B-Chat": CROSS.format("Qwen_Qwen1.5-0.5B-Chat__1016005", "mi300x"),
    "tl_h100_gaunernst_bert-small-uncased": CROSS.format("gaunernst_bert-small-uncased__1016001", "h100"),
    "tl_mi300_gaunernst_bert-small-uncased": CROSS.format("gaunernst_bert-small-uncased__1016001", "mi300x"),
}
_ALEXNET = "[param|pytorch.model.alex_net|0|0|0|measure|forward]"
_STEP = (
    "amd_mi250", "dlrm8", "nccl_parser_config", "trace_diff_control", "trace_diff_test", "trace_filter", "triton_example",
)  # fmt: skip
WINDOWS = {
    "cp_alexnet": (_ALEXNET, 1), "ns_resolution": ("ProfilerStep", 1), **dict.fromkeys(_STEP, ("ProfilerStep", 0)),
}  # fmt: skip
"""Annotation and instance that HTA's path was computed for; of the others the whole trace."""


@pytest.fixture(scope="module")
def load():
    """Read a trace of the golden folder once: the first file where it is a folder."""
    root = corpus_root()
    if root is None or not (root.parent / "golden").is_dir():
        pytest.skip("no corpus with golden values")
    cache: dict[str, Trace] = {}

    def read(name: str) -> Trace:
        path = root / TRACES[name]
        path = min(path.iterdir()) if path.is_dir() else path
        if name not in cache:
            cache[name] = READER.read(Source(path))[0]
        return cache[name]

    return read


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def rounded(trace: Trace) -> Trace:
    """Times as HTA sees them: begins rounded up and ends down to whole microseconds."""
    c = trace.columns
    timed = c.start_ns != NO_TIME
    start = np.where(timed, -(-c.start_ns // US) * US, c.start_ns)
    end = np.where(timed, (c.start_ns + c.dur_ns) // US * US, 0)
    return trace.with_(columns=c.with_(start_ns=start, dur_ns=np.where(timed, np.maximum(end - start, 0), 0)))


def window(trace: Trace, name: str) -> Scope:
    if name not in WINDOWS:
        return WHOLE
    text, instance = WINDOWS[name]
    c = trace.columns
    rows = np.flatnonzero((c.category == Category.ANNOTATION) & (c.domain == Domain.HOST))
    rows = sorted((row for row in rows.tolist() if text in trace.name_of(row)), key=lambda row: c.start_ns[row])
    start = int(c.start_ns[rows[instance]])
    return Scope((start, start + int(c.dur_ns[rows[instance]]) + 1))


def path_of(trace: Trace, name: str, **options: bool):
    return solve(measured_graph(trace, window(trace, name), **options), len(trace))


def hta(golden: Path, name: str) -> dict[str, str]:
    return next(row for row in rows_of(golden / "hta/critical_path_summary.csv") if row["trace"] == name)


SAME = (
    "cp_alexnet", "cp_event_sync", "nccl_parser_config", "ns_resolution", "trace_diff_control", "triton_example",
    "tl_h100_Falconsai_nsfw_image_detection", "tl_mi300_Falconsai_nsfw_image_detection", "tl_mi300_Qwen_Qwen1.5-0.5B-Chat",
    "tl_h100_gaunernst_bert-small-uncased",
)  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_path_is_as_long_as_htas_on_its_edges_and_rounding(golden, load, name):
    expected = float(hta(golden, name)["cp_us"]) * US
    assert path_of(rounded(load(name)), name, order_only=False).length_ns == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("name", ["cp_alexnet", "cp_event_sync", "nccl_parser_config", "triton_example"])
def test_path_is_as_long_as_htas_in_nanoseconds_too(golden, load, name):
    expected = float(hta(golden, name)["cp_us"]) * US
    assert path_of(load(name), name).length_ns == pytest.approx(expected, rel=0.01)


def test_path_by_cause_is_htas(golden, load):
    entry = hta(golden, "cp_alexnet")
    causes = causes_of(path_of(load("cp_alexnet"), "cp_alexnet"))
    assert causes["host"] == pytest.approx(float(entry["bound_cpu_bound"]) * US, rel=0.01)
    assert causes["compute"] + causes["copy"] == float(entry["bound_gpu_compute_bound"]) * US
    assert causes["idle"] == float(entry["bound_gpu_kernel_kernel_overhead"]) * US
    assert causes["launch"] == float(entry["bound_gpu_kernel_launch_overhead"]) * US


def test_dependencies_that_hta_leaves_out_only_lengthen_the_path(load):
    """A kernel cannot start before its launch or before the work ahead of it, whichever of them it waited for last."""
    for name in ("ns_resolution", "trace_diff_control", "tl_mi300_Qwen_Qwen1.5-0.5B-Chat"):
        trace = load(name)
        short, full = path_of(trace, name, order_only=False), path_of(trace, name)
        assert full.length_ns >= short.length_ns
        assert full.length_ns <= full.elapsed_ns


def test_hta_loses_the_autograd_thread_of_an_amd_trace(golden, load):
    entry, trace = hta(golden, "amd_mi250"), load("amd_mi250")
    graph = measured_graph(trace, window(trace, "amd_mi250"))
    assert 2 * len(graph) > 2 * float(entry["graph_nodes"])  # HTA has points of 40 events, of more than twice as many
    path = solve(graph, len(trace))
    lanes = {trace.lanes[lane].name for lane in trace.columns.lane[path.rows[path.rows >= 0]]}
    assert any("autograd" in lane for lane in lanes)
    on_engine = sum(
        int(ns) for row, ns in zip(path.rows, path.spent_ns, strict=True)
        if row >= 0 and "autograd" in trace.lanes[trace.columns.lane[row]].name
    )  # fmt: skip
    assert path.length_ns - on_engine == pytest.approx(float(entry["cp_us"]) * US, rel=0.6)


def test_hta_does_not_see_waits_between_streams_without_cuda_sync_events(golden, load):
    """DLRM waits for all-to-all kernels on another stream: they end 1 to 3 microseconds before what waits starts."""
    entry, trace = hta(golden, "dlrm8"), load("dlrm8")
    causes = causes_of(path_of(trace, "dlrm8", order_only=False))
    assert float(entry["bound_gpu_compute_bound"]) < 10  # microseconds: HTA's path stays on the host
    assert causes["communication"] > 3_000 * US
    assert sum(causes.values()) > float(entry["cp_us"]) * US


def test_hta_starts_at_a_kernel_whose_launch_it_dropped(golden, load):
    """H100 Qwen: the first 15 ms, kernels launched before the trace began and a call that waits for them, are lost."""
    name = "tl_h100_Qwen_Qwen1.5-0.5B-Chat"
    entry, trace = hta(golden, name), load(name)
    path = path_of(rounded(trace), name, order_only=False)
    before = float(entry["cp_us"]) * US
    lost = path.length_ns - before
    c = trace.columns
    unknown = trace.device_rows[c.parent[trace.device_rows] < 0]
    first = int(c.start_ns[unknown].min()), int((c.start_ns + c.dur_ns)[unknown].max())
    assert first[1] - first[0] == pytest.approx(lost, rel=0.05)
    assert path.length_ns <= path.elapsed_ns


def test_hta_loses_kernels_of_graph_launches(golden, load):
    """Of all kernels that one call launches HTA keeps one, so a stream that is busy throughout does not reach its path."""
    entry, trace = hta(golden, "trace_diff_test"), load("trace_diff_test")
    scope = window(trace, "trace_diff_test")
    result = launches(trace, scope)
    assert result.graphs.sum() >= 1
    assert result.work[result.graphs].sum() > 500
    path = path_of(trace, "trace_diff_test")
    assert float(entry["bound_gpu_compute_bound"]) == 0
    assert causes_of(path)["compute"] > float(entry["cp_us"]) * US


def test_rounding_alone_explains_the_rest(golden, load):
    """Operators of a microsecond each: HTA's whole microseconds lose some percent of a path of thousands of them."""
    for name in SAME[6:8]:
        expected = float(hta(golden, name)["cp_us"]) * US
        assert path_of(load(name), name).length_ns == pytest.approx(expected, rel=0.06)


LAUNCHES = ("cp_alexnet", "cp_event_sync", "dlrm8", "tl_h100_Falconsai_nsfw_image_detection",
    "tl_h100_Qwen_Qwen1.5-0.5B-Chat", "tl_h100_gaunernst_bert-small-uncased", "ns_resolution", "nccl_parser_config",
    "trace_filter",
)  # fmt: skip


@pytest.mark.parametrize("name", LAUNCHES)
def test_launch_delays_are_htas(golden, load, name):
    trace = load(name)
    c = trace.columns
    result = launches(trace)
    ours = {
        int(c.correlation[call]): (int(c.dur_ns[call]), int(c.dur_ns[row]), int(delay))
        for call, row, delay in zip(result.call, result.row, result.delay_ns, strict=True)
    }
    theirs = rows_of(golden / f"hta/{name}/cuda_kernel_launch_stats.0.csv")
    assert theirs
    for entry in theirs:
        mine = ours[int(float(entry["correlation"]))]
        expected = [float(entry[key]) * US for key in ("cpu_duration", "gpu_duration", "launch_delay")]
        assert np.abs(np.array(mine) - expected).max() <= 3 * US, entry


@pytest.mark.parametrize(
    "name",
    ["cp_alexnet", "cp_event_sync", "dlrm8", "tl_h100_Falconsai_nsfw_image_detection", "tl_mi300_gaunernst_bert-small-uncased",
     "tl_h100_Qwen_Qwen1.5-0.5B-Chat", "tl_mi300_Falconsai_nsfw_image_detection", "tl_h100_gaunernst_bert-small-uncased"],
)  # fmt: skip
def test_queue_lengths_are_htas(golden, load, name):
    trace = load(name)
    theirs: dict[str, list[int]] = defaultdict(list)
    for entry in rows_of(golden / f"hta/{name}/queue_length_time_series.0.csv"):
        theirs[entry["stream"].removesuffix(".0")].append(int(float(entry["queue_length"])))
    ours = {trace.lanes[stream.lane].key.split("/")[-1]: stream for stream in launches(trace).streams}
    for stream, lengths in theirs.items():
        mine = ours[stream]
        assert abs(mine.longest - max(lengths)) <= 1, stream  # moments that whole microseconds merge
        assert mine.length[-1] == lengths[-1] == 0


@pytest.mark.parametrize("name", ["cp_alexnet", "tl_h100_Qwen_Qwen1.5-0.5B-Chat"])
def test_idle_causes_are_htas(golden, load, name):
    trace = load(name)
    words = {"host_wait": "host", "kernel_wait": "kernel wait", "other": "other"}
    theirs = {
        (entry["stream"].removesuffix(".0"), words[entry["idle_category"]]): float(entry["idle_time"]) * US
        for entry in rows_of(golden / f"hta/{name}/idle_time_breakdown.0.csv")
    }
    ours = defaultdict(int)
    gaps = defaultdict(int)
    for cause in breakdown(trace).idle_causes:
        key = trace.lanes[cause.lane].key.split("/")[-1], cause.cause
        ours[key] += cause.idle_ns
        gaps[key] += cause.count
    assert theirs
    for key, expected in theirs.items():
        assert abs(ours[key] - expected) <= 2 * US * gaps[key] + 2 * US, key
