"""Sweeps, sensitivities and the Pareto front, by hand and by property."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chakra_core.errors import AnalysisError
from chakra_core.hardware import get_device
from chakra_core.project.projection import project_run
from chakra_core.project.retime import FACTORS, Knobs
from chakra_core.project.sweep import outcome_of, pareto, sweep, tornado
from chakra_core.schema import Category
from chakra_core.trace import Run
from tests.builder import make_trace, node

H100 = get_device("H100 SXM")


def run() -> Run:
    nodes = [node("gemm", 0, 800), node("norm", 800, 200, category=Category.NORMALISATION)]
    return Run((make_trace(nodes, [(0, 1)]),), "run", "H100 SXM")


def test_a_sweep_of_two_knobs_in_order():
    found = list(sweep(run(), H100, [("compute", (1.0, 2.0)), ("memory", (1.0, 4.0))]))
    assert [(one.knobs.compute, one.knobs.memory, one.total_ns) for one in found] == [
        (1, 1, 1000), (1, 4, 850), (2, 1, 600), (2, 4, 450)
    ]  # fmt: skip
    assert found[0].parts_ns == {"compute": 1000, "exposed_comm": 0, "exposed_memory": 0, "idle": 0}


def test_a_sweep_is_lazy_and_checks_its_axes():
    assert next(sweep(run(), H100, [("compute", (4.0, -1.0))])).total_ns == 400
    with pytest.raises(AnalysisError, match="one or two of compute"):
        list(sweep(run(), H100, [("colour", (1.0,))]))
    with pytest.raises(ValueError, match="above 0"):
        list(sweep(run(), H100, [("compute", (0.0,))]))


def test_the_tornado_puts_the_most_sensitive_knob_first():
    steps = []
    swings = tornado(run(), H100, factor=2.0, progress=lambda done, of: steps.append((done, of)))
    assert [(swing.knob, swing.low.total_ns, swing.high.total_ns) for swing in swings[:2]] == [
        ("compute", 1800, 600), ("memory", 1200, 900)
    ]  # fmt: skip
    assert {swing.knob for swing in swings} == set(FACTORS)
    assert [swing.width_ns for swing in swings[2:]] == [0] * (len(FACTORS) - 2)
    assert steps == [(at + 1, len(FACTORS)) for at in range(len(FACTORS))]


def test_an_outcome_is_that_of_the_rank_that_takes_longest():
    two = Run(tuple(make_trace([node("gemm", 0, length)], rank=rank) for rank, length in enumerate((5, 9))), "two")
    assert outcome_of(two).total_ns == 9
    with pytest.raises(AnalysisError, match="no device work"):
        outcome_of(Run((make_trace([node("op", 0, 1, lane="thread 1")]),), "host"))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12))
def test_the_front_is_what_nothing_dominates(points):
    front = pareto([(float(a), float(b)) for a, b in points])
    chosen = {points[at] for at in front}
    better = {p for p in points if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in points)}
    assert chosen == better
    assert len(front) == len(better)


@given(st.sampled_from(("compute", "memory", "link")), st.floats(1.0, 100.0))
def test_faster_hardware_is_never_slower(name, value):
    (found,) = sweep(run(), H100, [(name, (value,))])
    assert found.total_ns <= 1000
    assert found.total_ns == outcome_of(project_run(run(), H100, knobs=Knobs(**{name: value}))).total_ns
