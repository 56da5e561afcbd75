"""Steps: those that are marked, those that show in repetition, and none where there are none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chakra_core.analysis._repeat import LEAST, period_of
from chakra_core.analysis.steps import find_steps
from chakra_core.opening import open_run
from chakra_core.samples import samples_root
from chakra_core.schema import Category
from tests.builder import make_trace, node

MARK = {"lane": "main", "category": Category.ANNOTATION}


def spans(trace):
    return [(step.number, step.start_ns, step.end_ns) for step in find_steps(trace)]


@pytest.mark.parametrize("name", ["ProfilerStep#{}", "train {}", "TraceContext {}", "Iteration: {}", "step_{}"])
def test_marked_steps_keep_their_numbers_and_none_is_dropped(name):
    trace = make_trace([node(name.format(at), 100 * at, 90, **MARK) for at in (3, 4, 5)])
    assert spans(trace) == [(3, 300, 390), (4, 400, 490), (5, 500, 590)]
    assert all(step.marked for step in find_steps(trace))


def test_a_step_on_two_threads_spans_both_and_a_lane_of_steps_counts():
    two = make_trace(
        [node("ProfilerStep#1", 0, 50, **MARK), node("ProfilerStep#1", 20, 60, **{**MARK, "lane": "other"})]
    )
    assert spans(two) == [(1, 0, 80)]
    lane = {"lane": "Steps", "category": Category.ANNOTATION}
    assert spans(make_trace([node("7", 0, 10, **lane), node("8", 10, 10, **lane), node("9", 5, 5)])) == [
        (7, 0, 10), (8, 10, 20),
    ]  # fmt: skip


def test_steps_show_in_what_repeats():
    """A start-up of 3, then four times ten kernels of 5 every 10, then 4 of a fifth: no step."""
    names = ["a", "b", "c", *[f"k{at}" for _ in range(4) for at in range(10)], "k0", "k1", "k2", "k3"]
    trace = make_trace([node(name, 10 * at, 5) for at, name in enumerate(names)])
    assert spans(trace) == [(0, 30, 130), (1, 130, 230), (2, 230, 330), (3, 330, 425)]
    assert not any(step.marked for step in find_steps(trace))


def test_layers_are_not_steps():
    """Three steps of 12 alike layers of 8 kernels between an embedding and a head."""
    step = ["embed", *[f"k{at}" for _ in range(12) for at in range(8)], "head"]
    found = find_steps(make_trace([node(name, 10 * at, 5) for at, name in enumerate(step * 3)]))
    assert [found[0].start_ns, found[1].start_ns, len(found)] == [0, 980, 3]


def test_what_does_not_repeat_has_no_steps():
    assert find_steps(make_trace([node(f"k{at}", at, 1) for at in range(50)])) == ()
    assert find_steps(make_trace([node("k", at, 1) for at in range(8)])) == ()
    assert find_steps(make_trace([])) == ()


@given(st.lists(st.integers(0, 5), min_size=LEAST, max_size=30), st.integers(3, 6))
def test_the_period_divides_what_was_repeated(unit, times):
    period, first = period_of(np.array(unit * times))
    returns = [lag for lag in range(LEAST, len(unit) + 1) if (unit * times)[lag:] == (unit * times)[:-lag]]
    assert period == min(returns)
    assert first == 0


def test_a_sample_with_two_steps():
    (trace, *_) = open_run([samples_root() / "transformer_dp2_tp4_simulated_h100"]).traces
    assert len(find_steps(trace)) in (0, 2)
