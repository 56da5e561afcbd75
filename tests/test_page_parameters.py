"""Parameters of a URL that make no sense: pages fall back to what they show without them."""

from __future__ import annotations

import pytest

from chakra_core.trace import Run
from dashboard.library import Library, LoadedRun
from dashboard.page import Context
from dashboard.pages import bottlenecks, findings, graph
from dashboard.pages._graph_view import find_rows
from dashboard.state import ViewState
from tests.builder import make_trace, node

NONSENSE = ("\u00b2", "-1", "9" * 5000, "1e3", "", "\x00", "<b>")
"""Superscript two is a digit to ``str.isdigit`` and no number to ``int``."""


@pytest.mark.parametrize("text", NONSENSE)
@pytest.mark.parametrize(
    ("page", "names"),
    [
        (graph, ("show", "rank", "hops", "open", "from", "mode", "colour")),
        (bottlenecks, ("bins", "show", "rows", "metric")),
        (findings, ("limits",)),
    ],
)
def test_nonsense_is_not_an_error(page, names, text):
    run = LoadedRun("built", Run((make_trace([node("gemm", 0, 5)]),), "run"))
    for name in names:
        state = ViewState(page.PAGE.slug, ("built",), params={name: text})
        assert page.layout(Context(Library({}), (run,), state)).children


@pytest.mark.parametrize("text", NONSENSE)
def test_nonsense_is_searched_for_as_a_name(text):
    assert find_rows(make_trace([node(f"a{text}", 0, 5)]), text) == [0]
