"""The page Overlap, in process: matrix, parts, idle causes, host and steps; words where nothing applies."""

from __future__ import annotations

import pytest
from plotly.io.json import to_json_plotly

from chakra_core.analysis.overlap import COMBINATIONS, DeviceOverlap, overlap
from chakra_core.schema import Category, CommOp
from dashboard.figures.overlap import cause_bars, combination_bars, overlap_matrix
from dashboard.later import parts
from dashboard.library import Library
from dashboard.page import Context
from dashboard.pages.overlap import PAGE
from dashboard.state import ViewState
from tests.builder import make_trace, node
from tests.runs import write_runs


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    root = tmp_path_factory.mktemp("built")
    write_runs(root)
    return Library({"built": root})


def whole(library: Library, ref: str, scope: str = "") -> str:
    context = Context(library, (library.get(ref),), ViewState(PAGE.slug, (ref,), scope=scope))
    assert PAGE.prepare is not None
    PAGE.prepare(context.runs[0])
    return str(to_json_plotly([PAGE.layout(context), *parts(PAGE, context)]))


def test_the_page_of_ranks(library: Library):
    text = whole(library, "built/ranks")
    assert "Running at once" in text
    assert "Why streams stand still" in text
    assert "What the launching thread does" in text
    assert "rank 0 of 2" in text


def test_where_nothing_applies_there_are_words(library: Library):
    text = whole(library, "built/host.et")
    assert "There is nothing to overlap" in text
    assert "no steps with device work" in text
    assert "There is nothing to overlap" in whole(library, "built/ranks", "t100000-100001")


def test_the_matrix_is_that_of_the_parts():
    trace = make_trace(
        [
            node("k", 0, 50), node("n", 40, 40, "gpu:8", comm_op=CommOp.ALL_REDUCE),
            node("m", 45, 45, "gpu:9", category=Category.COPY),
        ]
    )  # fmt: skip
    (found,) = overlap(trace)
    matrix = overlap_matrix(found.parts_ns, found.total_ns).data[0]
    assert list(matrix.x) == ["compute", "communication", "memory"]
    shares = [[round(float(value) * 90 / 100) for value in row] for row in matrix.z]
    assert shares == [[50, 10, 5], [10, 40, 35], [5, 35, 45]]
    bars = combination_bars(["device 0"], [found])
    assert sum(float(one.x[0]) for one in bars.data) == found.total_ns
    assert len(bars.data) == sum(map(bool, found.parts_ns)) + 1
    assert overlap_matrix([0] * len(COMBINATIONS), 0).layout.annotations


@pytest.mark.parametrize("many", [1, 500])
def test_bars_of_one_and_many(many):
    found = [DeviceOverlap(at, -1, 10, (4, 1, 0, 2, 0, 0, 0), 3) for at in range(many)]
    figure = combination_bars([f"device {at}" for at in range(many)], found, "dark")
    assert figure.layout.barmode == "stack"
    assert len(figure.layout.yaxis.ticktext) <= 96
    assert len(cause_bars([f"s{at}" for at in range(many)], {"host": [1] * many, "other": [2] * many}).data) == 2
