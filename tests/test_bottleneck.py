"""Bottleneck heatmap: parts worked out by hand, and identities over arbitrary work."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chakra_core.analysis.bottleneck import bottlenecks, worst_cells
from chakra_core.analysis.scope import Scope
from chakra_core.schema import Category
from chakra_core.trace import Run
from dashboard.figures.heatmap import heatmap_figure
from tests.builder import make_trace, node


def run_of(*traces) -> Run:
    return Run(tuple(traces), "test")


def test_parts_of_cells_by_hand():
    trace = make_trace(
        [
            node("gemm", 0, 10),
            node("nccl", 5, 10, "gpu:8", category=Category.COMMUNICATION),
            node("copy", 18, 2, "gpu:9", category=Category.COPY),
        ]
    )
    result = bottlenecks(run_of(trace), bins=2)
    assert result.edges_ns.tolist() == [0, 10, 20]
    assert result.parts["compute"].tolist() == [[10, 0]]
    assert result.parts["communication"].tolist() == [[5, 5]]
    assert result.parts["exposed_comm"].tolist() == [[0, 5]]
    assert result.parts["exposed_memory"].tolist() == [[0, 2]]
    assert result.parts["idle"].tolist() == [[0, 3]]
    assert result.metric("score").tolist() == [[0.0, 1.0]]
    assert [result.names[at] for at in result.top_name[0]] == ["gemm", "nccl"]
    assert result.cause(0, 1) == "exposed_comm"
    (worst,) = worst_cells(result)
    assert (worst.bin, worst.lost_ns, worst.start_ns, worst.end_ns) == (1, 10, 10, 20)


def test_lanes_and_ranks_as_rows():
    first = make_trace([node("a", 0, 4), node("b", 0, 4, "gpu:8")], rank=0)
    second = make_trace([node("a", 0, 8)], rank=1)
    run = run_of(first, second)
    assert bottlenecks(run, bins=4).rows == ("rank 0", "rank 1")
    lanes = bottlenecks(run, rows="lanes", bins=4)
    assert lanes.rows == ("0 · gpu:7", "0 · gpu:8", "1 · gpu:7")
    assert bottlenecks(run, Scope(ranks=frozenset({1})), bins=4).rows == ("rank 1",)


def test_host_only_traces_are_judged_by_threads():
    result = bottlenecks(run_of(make_trace([node("op", 0, 5, "cpu:1"), node("op", 8, 2, "cpu:1")])), bins=2)
    assert result.on_host == (True,)
    assert result.parts["idle"].tolist() == [[0, 3]]


def test_empty_runs_and_bad_arguments():
    assert bottlenecks(run_of(make_trace([])), bins=3).shape == (0, 3)
    with pytest.raises(ValueError, match="bins"):
        bottlenecks(run_of(make_trace([])), bins=0)


WORK = st.lists(
    st.tuples(
        st.integers(0, 50),
        st.integers(0, 12),
        st.sampled_from([0, 1, Category.COMMUNICATION, Category.COPY]),
        st.integers(0, 2),
    ),
    max_size=14,
)


@given(WORK, st.integers(1, 9))
def test_parts_sum_to_the_bin(work, bins):
    trace = make_trace(
        [node(f"k{at}", start, dur, f"gpu:{lane}", category=kind) for at, (start, dur, kind, lane) in enumerate(work)]
    )
    result = bottlenecks(run_of(trace), bins=bins)
    width = np.diff(result.edges_ns)
    parts = result.parts
    assert (parts["busy"] + parts["idle"] == width).all()
    assert (parts["compute"] + parts["exposed_comm"] + parts["exposed_memory"] == parts["busy"]).all()
    assert all((part >= 0).all() for part in parts.values())
    assert (parts["communication"] >= parts["exposed_comm"]).all()
    for bin_ in range(bins if result.rows else 0):
        low, high = int(result.edges_ns[bin_]), int(result.edges_ns[bin_ + 1])
        inside = [max(0, min(start + dur, high) - max(start, low)) for start, dur, _, _ in work]
        top = int(result.top_row[0, bin_])
        assert (top < 0) == (max(inside, default=0) == 0)
        assert top < 0 or inside[top] == max(inside)


@pytest.mark.parametrize("nodes", [[], [node("nothing", 5, 0)]])
def test_a_run_without_span_has_no_cells(nodes):
    result = bottlenecks(run_of(make_trace(nodes)))
    assert result.shape == (0, 120)
    assert worst_cells(result) == []
    assert heatmap_figure(result, "score").data[0].z.shape == (0, 120)


def test_bins_of_a_clock_since_the_epoch_are_exact():
    origin = 1_764_000_000_123_456_789  # a float holds these to 256 ns only
    found = bottlenecks(run_of(make_trace([node("gemm", origin, 997)])), bins=7)
    assert found.edges_ns.tolist() == [origin + at * 997 // 7 for at in range(8)]


def test_many_ranks_have_numbers_under_the_pointer():
    traces = [make_trace([node("gemm", 0, 1000 + rank), node("end", 3000, 1)], rank=rank) for rank in range(200)]
    result = bottlenecks(run_of(*traces), bins=120)
    (plot,) = heatmap_figure(result, "score").data
    assert plot.z.shape == (200, 120)
    assert plot.customdata.shape == (200, 120, 7)
    assert plot.customdata.nbytes == 200 * 120 * 7 * 2
    rank, idle, comm, memory, compute, *_ = plot.customdata[150, 0].tolist()
    assert (rank, idle, comm, memory, compute) == (150, 0, 0, 0, 100)
    assert plot.customdata[150, 60, 1] == 100  # idle in the middle
    assert "rank %{customdata[0]}" in plot.hovertemplate
