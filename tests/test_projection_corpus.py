"""Projection of real traces: identity on their own hardware, and the error against the same model measured there."""

import numpy as np
import pytest

from chakra_core.errors import AnalysisError
from chakra_core.hardware import get_device
from chakra_core.opening import open_run
from chakra_core.project.accuracy import MEASURED, stated_error
from chakra_core.project.projection import project_run, source_device

IDENTITY = [
    "kineto/cross_hw/Falconsai_nsfw_image_detection__1016002.h100.json.gz",
    "kineto/cross_hw/Falconsai_nsfw_image_detection__1016002.mi300x.json.gz",
    "kineto/cross_hw/Qwen_Qwen1.5-0.5B-Chat__1016005.h100.json.gz",
    "kineto/cross_hw/Qwen_Qwen1.5-0.5B-Chat__1016005.mi300x.json.gz",
    "kineto/cross_hw/gaunernst_bert-small-uncased__1016001.h100.json.gz",
    "kineto/cross_hw/gaunernst_bert-small-uncased__1016001.mi300x.json.gz",
    "kineto/compare_a100_v100/control_a100_rank3of8.json.gz",
    "kineto/compare_a100_v100/test_v100_rank1of2.json.gz",
    "kineto/compare_dataloader_2021/resnet50_workers0.pt.trace.json.gz",
    "kineto/compare_dataloader_2021/resnet50_workers4.pt.trace.json.gz",
    "kineto/compare_tiny/hta_base.json.gz",
    "kineto/compare_tiny/hta_test.json.gz",
    "kineto/compare_tiny/test04_gemm_mm_vs_linear/trace1.json",
    "kineto/compare_tiny/test04_gemm_mm_vs_linear/trace2.json",
    "kineto/compare_tiny/test05_gemm_identical_runtime_roofline/trace1.json",
    "kineto/compare_tiny/test05_gemm_identical_runtime_roofline/trace2.json",
    "kineto/a100_quantize_vit/bfloat16.json.gz",
    "kineto/a100_quantize_vit/quant.json.gz",
    "kineto/mi300x_vllm_decode_graph/graph_capture_rank_0.1773709742341309550.pt.trace.json.gz",
    "kineto/mi300x_vllm_decode_graph/graph_execution.json.gz",
    "kineto/multirank_v100_torchrec_4",
    "kineto/multirank_v100_resnet18_2",
    "kineto/multirank_sampled_ws128",
    "link/dlrm_v100_8/device",
    "link/linear_2080ti/linear_kineto.json.gz",
]
"""Every run of the corpus that is one of a pair or of several ranks, and has device work."""


def device_of(run):
    """What it ran on; where the trace does not say, any device is as good: the same one is both source and target."""
    try:
        return source_device(run)
    except AnalysisError:
        return get_device("H100 SXM")


@pytest.mark.parametrize("path", IDENTITY)
def test_own_hardware_gives_the_measured_times(corpus, path):
    run = open_run([corpus / path])
    device = device_of(run)
    same = project_run(run, device, source=device)
    assert same.span_ns == run.span_ns
    for before, after in zip(run.traces, same.traces, strict=True):
        assert np.array_equal(before.columns.start_ns, after.columns.start_ns)
        assert np.array_equal(before.columns.dur_ns, after.columns.dur_ns)


FILES = {
    "nsfw_image_detection (ViT)": "Falconsai_nsfw_image_detection__1016002",
    "Qwen1.5-0.5B-Chat": "Qwen_Qwen1.5-0.5B-Chat__1016005",
    "bert-small-uncased": "gaunernst_bert-small-uncased__1016001",
}
SUFFIXES = {"H100 SXM": "h100", "MI300X": "mi300x"}


def kernel_time(run):
    (trace,) = run.traces
    return int(trace.columns.dur_ns[trace.device_rows].sum())


def device_span(run):
    (trace,) = run.traces
    c, rows = trace.columns, trace.device_rows
    return int((c.start_ns[rows] + c.dur_ns[rows]).max() - c.start_ns[rows].min())


@pytest.mark.parametrize("pair", MEASURED, ids=lambda pair: f"{pair.model} {pair.source} to {pair.target}")
def test_error_against_the_real_pair_is_what_we_say(corpus, pair):
    source, real = (
        open_run([corpus / f"kineto/cross_hw/{FILES[pair.model]}.{SUFFIXES[device]}.json.gz"])
        for device in (pair.source, pair.target)
    )
    projected = project_run(source, get_device(pair.target))
    assert kernel_time(projected) / kernel_time(real) - 1 == pytest.approx(pair.kernels, abs=0.01)
    assert device_span(projected) / device_span(real) - 1 == pytest.approx(pair.span, abs=0.01)
    assert stated_error(pair.source, pair.target) in projected.assumptions


def test_the_error_is_stated_as_a_range_of_what_was_measured():
    assert stated_error("H100 SXM", "MI300X") == (
        "of 3 models measured on both, such projections missed the device time by -9% to +12% "
        "and the sum of kernel times by -48% to -28%"
    )
    assert stated_error("H100 SXM", "H200 SXM") == ""
