"""The heatmap in a real browser: a click leads to the timeline, controls change the picture, the URL keeps them."""

from __future__ import annotations

import re

import pytest

from tests.browser.conftest import open_run, until

pytestmark = pytest.mark.browser

RUN = "samples/transformer_dp2_tp4_simulated_mi300x"


def test_a_cell_opens_the_timeline_there(page, base_url):
    open_run(page, base_url, RUN, "bottlenecks")
    page.wait_for_selector("#bottlenecks-map .hm")
    box = page.locator("#bottlenecks-map .nsewdrag").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.8, box["y"] + box["height"] * 0.9)
    page.wait_for_selector("#bottlenecks-map .hoverlayer .hovertext")
    hover = page.text_content("#bottlenecks-map .hoverlayer")
    assert "lost" in hover
    assert "exposed communication" in hover
    page.mouse.click(box["x"] + box["width"] * 0.8, box["y"] + box["height"] * 0.9)
    page.wait_for_selector(".ck-page-timeline")
    found = re.search(r"t=(\d+)-(\d+)", page.url)
    assert found
    first, last = int(found[1]), int(found[2])
    assert 0 < last - first < 5_000_000
    assert 0.7 < first / 389_316_000 < 0.9


def test_a_row_of_the_ranking_opens_the_timeline(page, base_url):
    open_run(page, base_url, RUN, "bottlenecks")
    page.click("#bottlenecks-worst .ag-row[row-index='0'] .ag-cell >> nth=0")
    page.wait_for_selector(".ck-page-timeline")
    assert re.search(r"node=0\.\d\.\d+&t=\d+-\d+", page.url)


def test_choices_live_in_the_url(page, base_url):
    open_run(page, base_url, RUN, "bottlenecks", "&metric=idle&rows=lanes&bins=60")
    page.wait_for_selector("#bottlenecks-map .hm")
    assert "24 rows" in page.inner_text("#bottlenecks-note")
    assert "idle" in page.text_content("#bottlenecks-map .infolayer")
    open_run(page, base_url, RUN, "bottlenecks", "&metric=nonsense&rows=&bins=7&show=99")
    page.wait_for_selector("#bottlenecks-map .hm")
    assert "8 rows" in page.inner_text("#bottlenecks-note")


def test_changing_the_metric_redraws(page, base_url):
    open_run(page, base_url, RUN, "bottlenecks")
    page.wait_for_selector("#bottlenecks-map .hm")
    page.click("#bottlenecks-rows")
    page.click("text=streams and threads")
    until(page, "() => document.querySelector('#bottlenecks-note').innerText.startsWith('24 rows')")
    assert "rows=lanes" in page.url
