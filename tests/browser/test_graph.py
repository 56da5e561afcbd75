"""The graph in a real browser: groups open, a selection made elsewhere shows, search, double tap, the URL."""

from __future__ import annotations

import re

import pytest

from tests.browser.conftest import open_run, until

pytestmark = pytest.mark.browser

RUN = "samples/transformer_dp2_tp4_simulated_h100"


def at_node(page, selector: str) -> tuple[float, float]:
    """Where on the screen the first matching box is, once the picture rests."""
    until(
        page,
        "(selector) => !!window.ckCy && window.ckCy.nodes(selector).length > 0 && window.ckGraphStill()",
        selector,
    )
    spot = page.evaluate(
        "(selector) => { const p = window.ckCy.nodes(selector)[0].renderedPosition();"
        " const box = document.getElementById('graph-cy').getBoundingClientRect();"
        " return [box.left + p.x, box.top + p.y]; }",
        selector,
    )
    return spot[0], spot[1]


def boxes(page) -> int:
    return page.evaluate("window.ckCy.nodes().length")


def test_a_group_opens_on_double_tap_and_the_url_keeps_it(page, base_url):
    open_run(page, base_url, RUN, "graph")
    where = at_node(page, ".group")
    before = boxes(page)
    page.mouse.dblclick(*where)
    until(page, "(count) => window.ckCy.nodes().length !== count", before)
    page.wait_for_url(re.compile(r"open="))
    opened = boxes(page)
    until(
        page,
        "() => { const a = window.ckCy.elements().renderedBoundingBox(), b = window.ckCy.container();"
        " return a.x1 >= 0 && a.y1 >= 0 && a.x2 <= b.clientWidth && a.y2 <= b.clientHeight; }",
    )
    page.reload()
    until(page, "(count) => !!window.ckCy && window.ckCy.nodes().length === count", opened)


def test_collapse_all_and_fit(page, base_url):
    open_run(page, base_url, RUN, "graph")
    at_node(page, "node")
    before = boxes(page)
    page.click("#graph-collapse")
    until(page, "(count) => window.ckCy.nodes().length < count", before)
    page.click("#graph-fit")
    assert "boxes stand for 956 of 956 nodes" in page.inner_text("#graph-count")


def test_a_selected_node_is_shown_with_its_neighbourhood(page, base_url):
    open_run(page, base_url, RUN, "graph", "&node=0.0.5&mode=near&hops=1")
    at_node(page, ".chosen")
    assert page.evaluate("window.ckCy.nodes('.chosen').data('row')") == 5
    page.wait_for_selector("#details h3")
    shown = page.evaluate("window.ckCy.nodes().map(n => n.data('row'))")
    assert 5 in shown
    assert len(shown) < 20


def test_search_selects_and_double_tap_goes_to_the_timeline(page, base_url):
    open_run(page, base_url, RUN, "graph", "&mode=near")
    page.fill("#graph-find", "embedding/lookup")
    page.press("#graph-find", "Enter")
    page.click("#graph-matches .ck-select >> nth=0")
    page.wait_for_url(re.compile(r"node=0\.0\.\d+"))
    page.mouse.dblclick(*at_node(page, ".chosen"))
    page.wait_for_selector(".ck-page-timeline")
    assert re.search(r"/timeline\?.*node=0\.0\.\d+.*t=\d+-\d+", page.url)


@pytest.mark.parametrize("mode", ["critical", "groups"])
@pytest.mark.parametrize("colour", ["category", "duration", "slack"])
def test_modes_and_colours_draw_something_with_a_legend(page, base_url, mode, colour):
    open_run(page, base_url, RUN, "graph", f"&mode={mode}&colour={colour}")
    at_node(page, "node")
    assert page.locator("#graph-legend .ck-legend-item").count() >= 2


def test_nonsense_in_the_url_is_ignored(page, base_url):
    open_run(
        page, base_url, RUN, "graph", "&mode=x&rank=99&hops=banana&open=1.999999999999.z&node=0.0.99999999&from=7777777"
    )
    at_node(page, "node")
    assert "of 956 nodes" in page.inner_text("#graph-count")
