"""The details panel: facts, self time and links of a node, worked out by hand; its text is never markup."""

from __future__ import annotations

from pathlib import Path

import pytest
from plotly.io.json import to_json_plotly

from dashboard.details import details
from dashboard.library import Library
from dashboard.state import Selection
from tests.runs import write_runs


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    root: Path = tmp_path_factory.mktemp("built")
    write_runs(root)
    library = Library({"built": root})
    for ref in ("built/host.et", "built/ranks", "built/empty.json"):
        library.get(ref)
    return library


def text_of(library: Library, ref: str, selection: Selection | None) -> str:
    return str(to_json_plotly(details(library, [ref], selection)))


def test_self_time_is_what_the_children_leave(library: Library):
    """Step lasts 1000 ns; matmul (600) and add (200) lie in it."""
    shown = text_of(library, "built/host.et", Selection(0, 0, 0))
    assert '"1.000 \\u00b5s"' in shown
    assert '"self time"' in shown
    assert '"200 ns"' in shown
    assert '"self time"' not in text_of(library, "built/host.et", Selection(0, 0, 1))


def test_links_lead_to_dependencies_and_dependents(library: Library):
    shown = text_of(library, "built/ranks", Selection(0, 1, 2))
    assert "Waits for (1)" in shown
    assert "Awaited by (1)" in shown
    assert '"data-row":"1"' in shown
    assert '"data-row":"3"' in shown
    assert '"data-rank":"1"' in shown


def test_communication_is_described(library: Library):
    shown = text_of(library, "built/ranks", Selection(0, 0, 3))
    assert "all-reduce" in shown
    assert "4.10 kB" in shown
    assert "ranks 0, 1" in shown


@pytest.mark.parametrize(
    ("ref", "selection", "words"),
    [
        ("built/host.et", None, "Select a node"),
        ("built/host.et", Selection(3, 0, 0), "Select a node"),
        ("built/host.et", Selection(0, 7, 0), "in no open run"),
        ("built/host.et", Selection(0, 0, 99), "no such node"),
        ("built/empty.json", Selection(0, 0, 0), "no such node"),
        ("built/hostile.et", Selection(0, 0, 0), "not loaded yet"),
    ],
)
def test_what_is_not_there_is_said(library: Library, ref: str, selection: Selection | None, words: str):
    assert words in text_of(library, ref, selection)
