"""Beside HolisticTraceAnalysis (0.6.1): copies and memsets by direction, on every trace for which it lists them.

HTA sums the ``memory bandwidth (GB/s)`` that the profiler states for each copy, and gives count, mean and greatest of
that; here bandwidth is bytes over time. What differs, and who is right, is told in ``tests/golden/README.md``.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from chakra_core.analysis.copies import copies
from chakra_core.opening import open_trace
from tests.test_golden_hta import TRACES

ALL_STEPS = {
    "cp_alexnet", "cp_event_sync", "dlrm8", "tl_h100_Falconsai_nsfw_image_detection",
    "tl_h100_gaunernst_bert-small-uncased", "tl_mi300_Qwen_Qwen1.5-0.5B-Chat", "tl_mi300_gaunernst_bert-small-uncased",
}  # fmt: skip
"""Where HTA drops nothing: its counts are ours."""

WHOLE_US = {"cp_alexnet", "cp_event_sync", "dlrm8", "trace_diff_control", "trace_diff_test", "trace_filter"}
"""Traces whose times are whole microseconds, while the bandwidth that they state is not."""

MORE_THERE = {("trace_diff_test", "Memcpy DtoD")}
"""Copies that overlap: HTA counts the changes of their sum, 7,674 of 4,645 copies."""


def said(path: Path) -> dict[tuple[int, str], tuple[int, float]]:
    """Count and greatest bandwidth by rank and name."""
    with path.open(newline="") as file:
        return {(int(float(row[0])), row[1]): (int(float(row[2])), float(row[9])) for row in list(csv.reader(file))[3:]}


def of_direction(trace, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Bytes and ns of the copies that HTA calls by this name."""
    direction = "fill" if name == "Memset" else name.rsplit(maxsplit=1)[-1]
    rows = np.concatenate([one.rows for one in copies(trace) if one.direction == direction])
    return trace.columns.bytes_accessed[rows], trace.columns.dur_ns[rows]


@pytest.mark.parametrize("name", TRACES)
def test_copies_by_direction(corpus, golden, name):
    path = golden / "hta" / name / "memory_bw_summary.csv"
    source = corpus / TRACES[name]
    expected = said(path) if path.is_file() else {}
    for file in [source] if source.is_file() else sorted(source.glob("*.json*")):
        trace = open_trace(file)[0]
        for (rank, kind), (count, most) in expected.items():
            if rank != max(trace.meta.rank, 0) or (name, kind) in MORE_THERE:
                continue
            size, time = of_direction(trace, kind)
            assert len(size) == count if name in ALL_STEPS else len(size) >= count, kind
            took = np.maximum(time, 1)
            if name in WHOLE_US:
                assert (size / (took + 1000)).max() <= most or len(size) > count
                assert most <= (size / took).max() * (1 + 1e-9)
            else:
                assert (size / took).max() == pytest.approx(most, rel=2e-3)  # it is stated with few digits
