"""The scope as text, what it means for a run, and the sentence about it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chakra_core.analysis.scope import WHOLE, Scope
from chakra_core.schema import Category
from chakra_core.trace import Run
from dashboard.library import LoadedRun
from dashboard.scope_bar import parse_time
from dashboard.scopes import ScopeChoice, scope_in, scope_of, sentence
from dashboard.state import Selection, ViewState
from tests.builder import make_trace, node


def loaded() -> LoadedRun:
    """Two ranks with steps 2..4 of 100 each from 1000 on; rank 1 is 10 late."""
    traces = []
    for rank in range(2):
        begin = 1000 + 10 * rank
        steps = [
            node(f"ProfilerStep#{at}", begin + 100 * (at - 2), 100, lane="main", category=Category.ANNOTATION)
            for at in (2, 3, 4)
        ]
        traces.append(make_trace([*steps, node("mm", begin, 300)], rank=rank))
    return LoadedRun("built", Run(tuple(traces), "two"))


@given(
    st.builds(
        ScopeChoice,
        st.none() | st.tuples(st.integers(0, 50), st.integers(50, 99)),
        st.none() | st.tuples(st.integers(0, 10**6), st.integers(10**6 + 1, 10**9)),
        st.none() | st.frozensets(st.integers(0, 500), min_size=1, max_size=40),
        st.none() | st.frozensets(st.text(min_size=1, max_size=12), min_size=1, max_size=5),
        st.booleans(),
    )
)
def test_a_choice_survives_its_text_and_the_url(choice):
    try:
        [name.encode() for name in choice.lanes or ()]
    except UnicodeEncodeError:  # lone surrogates are in no file that could be read
        return
    assert ScopeChoice.parse(choice.text) == choice
    state = ViewState("overview", scope=choice.text)
    assert ScopeChoice.parse(ViewState.parse("/overview", state.search()).scope) == choice


@pytest.mark.parametrize("text", [None, "", "x", "s", "s9-2", "t5-5", "r", "rx", "l", "~~", "s" + "9" * 50, 7])
def test_nonsense_is_the_whole_run(text):
    assert ScopeChoice.parse(text) == ScopeChoice()
    assert scope_of(ScopeChoice.parse(text), loaded(), 0, None, None) == WHOLE


def test_what_a_choice_means():
    run = loaded()
    assert scope_of(ScopeChoice.parse("s3"), run, 0, None, None).window == (1100, 1210), "first start to last end"
    assert scope_of(ScopeChoice.parse("t50-70"), run, 0, None, None).window == (1050, 1070)
    assert scope_of(ScopeChoice.parse("s3~t150-170"), run, 0, None, None).window == (1150, 1170)
    assert scope_of(ScopeChoice.parse("s9"), run, 0, None, None).window == (0, 0), "no such step: nothing"
    full = scope_of(ScopeChoice.parse("r1~lgpu%3A7~n"), run, 0, "0.1.r3", None)
    assert full == Scope(None, frozenset({1}), frozenset({"gpu:7"}), frozenset({(1, 3)}))
    one = scope_of(ScopeChoice.parse("n"), run, 0, None, Selection(0, 1, 2))
    assert one.selection == frozenset({(1, 2)})
    assert scope_of(ScopeChoice.parse("n"), run, 0, None, None).selection is None
    assert scope_in(ViewState("x", scope="t0-9"), run, 0).window == (1000, 1009)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "Numbers are for the whole run, 310 ns."),
        ("s2-3", "Numbers are for steps 2\N{EN DASH}3, 210 ns of 310 ns."),
        ("s4~r1", "Numbers are for step 4, 110 ns of 310 ns, rank 1 of 2."),
        ("lgpu%3A7", "Numbers are for gpu:7."),
        ("n", "Numbers are for chosen nodes, but none is chosen: all of them."),
    ],
)
def test_the_sentence(text, words):
    run, choice = loaded(), ScopeChoice.parse(text)
    assert sentence(choice, run, scope_of(choice, run, 0, None, None)) == words


def test_times_as_typed():
    assert [parse_time(text) for text in ("1,000 us", "2s", " 3 ", "", None, "-1", "1e3", "x ms")] == [
        1_000_000, 2_000_000_000, 3, None, None, None, None, None,
    ]  # fmt: skip
