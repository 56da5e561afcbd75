"""Recurring sequences of kernels: worked examples, and what must hold on any stream."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chakra_core.analysis import analyse_trace
from chakra_core.analysis.scope import Scope
from chakra_core.analysis.sequences import BREAK_NS, LEAST, MOST_KERNELS, sequences
from chakra_core.schema import Category
from tests.builder import make_trace, node

SMALL = Category.ELEMENTWISE


def stream(times=3, *, middle=SMALL, gap=5, lanes=("gpu:7",), apart=1_000_000):
    """``times`` times A (10 ns), B (20 ns) and C (10 ns) with a gap between."""
    nodes = []
    for at in range(times):
        begin, lane = at * apart, lanes[at % len(lanes)]
        nodes.append(node("A", begin, 10, lane, category=SMALL))
        nodes.append(node("B", begin + 10 + gap, 20, lane, category=middle))
        nodes.append(node("C", begin + 30 + 2 * gap, 10, lane, category=SMALL))
    return make_trace(nodes)


def test_a_sequence_by_hand():
    found = sequences(stream())
    assert (found.kernels, found.reason) == (9, "")
    (one,) = found.found
    assert (one.names, one.count) == (("A", "B", "C"), 3)
    assert (one.busy_ns, one.gaps_ns, one.span_ns) == (3 * 40, 3 * 10, 3 * 50)
    assert one.most_ns == 3 * (50 - 20)  # all but B
    assert one.rows.tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert one.longest == 0


def test_large_kernels_stand_at_the_ends_only():
    (one,) = sequences(stream(middle=Category.GEMM)).found
    assert one.names in {("A", "B"), ("B", "C")}
    assert (one.count, one.gaps_ns, one.most_ns) == (3, 15, 3 * 15)


@pytest.mark.parametrize(
    "trace",
    [
        stream(middle=Category.COMMUNICATION),
        stream(gap=BREAK_NS + 1, apart=10 * BREAK_NS),
        stream().with_(columns=stream().columns.with_(start_ns=np.arange(9)[::-1] * 2 * BREAK_NS)),
    ],
    ids=["communication between", "long gaps", "far apart"],
)
def test_what_is_no_sequence(trace):
    found = sequences(trace)
    assert found.found == ()
    assert f"{LEAST} times" in found.reason or "no two kernels" in found.reason


def test_equal_names_on_several_streams_are_one_sequence():
    (one,) = sequences(stream(times=6, lanes=("gpu:7", "gpu:8"))).found
    assert one.count == 6
    assert len({stream(times=6, lanes=("gpu:7", "gpu:8")).columns.lane[row] for row in one.rows[:, 0]}) == 2


def test_kernels_that_the_window_cuts_are_left_out():
    trace = stream(times=4)
    assert sequences(trace, Scope(window=(5, 4_000_000))).found[0].count == 3  # the first A is cut
    assert "too few" in sequences(trace, Scope(window=(0, 900_000))).reason
    assert "too few" in sequences(make_trace([])).reason


def test_the_document_sums_what_fusing_saves():
    document = analyse_trace(stream())["kernel_sequences"]
    assert (document["saves_at_least_ns"], document["saves_at_most_ns"]) == (30, 90)
    assert document["rows"][0]["kernels"] == ["A", "B", "C"]


@st.composite
def streams(draw):
    nodes, now = [], {"gpu:1": 0, "gpu:2": 0}
    kinds = [SMALL, SMALL, SMALL, Category.GEMM, Category.COPY]
    kind_of = {name: draw(st.sampled_from(kinds)) for name in "abc"}
    for _ in range(draw(st.integers(0, 60))):
        name, lane, dur = draw(st.sampled_from("abc")), draw(st.sampled_from(list(now))), draw(st.integers(0, 9))
        now[lane] += draw(st.sampled_from([0, 1, 5, 2 * BREAK_NS]))
        nodes.append(node(name, now[lane], dur, lane, category=kind_of[name]))
        now[lane] += dur
    return make_trace(nodes)


@settings(max_examples=150)
@given(streams())
def test_what_holds_of_every_sequence(trace):
    found, c = sequences(trace).found, trace.columns
    rows = np.concatenate([np.zeros(0, np.int64), *(one.rows.ravel() for one in found)])
    assert len(np.unique(rows)) == len(rows)  # each kernel for one sequence only
    ends = c.start_ns + c.dur_ns
    for one in found:
        assert one.count == len(one.rows) >= LEAST
        assert 2 <= len(one.names) <= MOST_KERNELS
        assert all(tuple(trace.name_of(row) for row in run) == one.names for run in one.rows.tolist())
        assert one.busy_ns == c.dur_ns[one.rows].sum()  # kernels of these streams do not overlap
        assert one.gaps_ns == (c.start_ns[one.rows[:, 1:]] - ends[one.rows[:, :-1]]).sum()
        assert 0 <= one.gaps_ns <= one.most_ns <= one.span_ns
        assert not np.isin(c.category[one.rows], [Category.COPY, Category.COMMUNICATION]).any()
        assert not (c.category[one.rows[:, 1:-1]] == Category.GEMM).any()
    assert [one.most_ns for one in found] == sorted((one.most_ns for one in found), reverse=True)
