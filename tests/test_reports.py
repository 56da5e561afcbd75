"""Files to pass on: nothing of a trace becomes markup, script or formula."""

from __future__ import annotations

import csv
import io

from hypothesis import given
from hypothesis import strategies as st

from dashboard.figures.bars import Bar, breakdown_bars
from dashboard.reports import Figure, Table, Text, csv_text, html_page

EVIL = "</script><script>alert(1)</script>"


def test_a_page_escapes_everything():
    figure = breakdown_bars([Bar(EVIL, {"compute": 5, "exposed_comm": 0, "exposed_memory": 0, "idle": 0})])
    page = html_page(
        EVIL, [(EVIL, Text([EVIL])), ("t", Table([EVIL], [[EVIL], [1234567], [None]])), ("f", Figure(figure))]
    )
    assert "<script>alert" not in page
    assert "1,234,567" in page
    assert page.count("<table>") == 1


def test_pages_without_figures_carry_no_script():
    assert "<script" not in html_page("plain", [("a", Text(["b"]))])


@given(st.lists(st.text(max_size=20), min_size=1, max_size=4))
def test_cells_never_start_a_formula(cells):
    (row,) = list(csv.reader(io.StringIO(csv_text(["h"], [cells])[3:], newline="")))
    assert len(row) == len(cells)
    for cell, given_text in zip(row, cells, strict=True):
        assert cell.lstrip()[:1] not in ("=", "+", "-", "@")
        assert cell.removeprefix("'") == given_text.replace("\x00", "").removeprefix("'")
