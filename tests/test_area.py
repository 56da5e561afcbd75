"""Sums of a range of time: clipped by hand-worked numbers, and against a plain loop."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chakra_core.analysis.area import area
from chakra_core.schema import NO_TIME
from tests.builder import make_trace, node


def test_events_are_clipped_to_the_range():
    trace = make_trace(
        [
            node("a", 0, 10),
            node("b", 10, 10),
            node("a", 20, 10),
            node("a", 40, 5),
            node("z", 15, 0),
            node("u", NO_TIME, 9),
        ]
    )
    table = area(trace, np.arange(6), 5, 25)
    assert [trace.names[code] for code in table.name] == ["a", "b", "z"]
    assert table.count.tolist() == [2, 1, 1]
    assert table.total_ns.tolist() == [10, 10, 0]
    assert table.longest_ns.tolist() == [5, 10, 0]
    assert table.longest.tolist() == [0, 1, 4]


def test_nothing_in_the_range_is_an_empty_table():
    assert len(area(make_trace([node("a", 0, 10)]), np.arange(1), 10, 20).name) == 0


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 50), st.integers(0, 20)), min_size=1), st.integers(0, 60)
)
def test_against_a_loop(made, t0):
    trace = make_trace([node(*one) for one in made])
    expected: dict[str, list[int]] = {}
    for name, start, dur in made:
        if start < t0 + 15 and (start + dur > t0 or start >= t0):
            expected.setdefault(name, []).append(min(start + dur, t0 + 15) - max(start, t0))
    table = area(trace, np.arange(len(made)), t0, t0 + 15)
    found = {
        trace.names[code]: (int(n), int(total))
        for code, n, total in zip(table.name, table.count, table.total_ns, strict=True)
    }
    assert found == {name: (len(times), sum(times)) for name, times in expected.items()}
    assert table.total_ns.tolist() == sorted(table.total_ns.tolist(), reverse=True)
