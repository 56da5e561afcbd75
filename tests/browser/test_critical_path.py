"""The critical path in the browser: marked on the timeline, drawn in the graph, found anew when something gets faster."""

from __future__ import annotations

import re

import pytest

from tests.browser.conftest import open_run, until

pytestmark = pytest.mark.browser

RUN = "samples/pytorch_cpu_step"


def open_path(page, base_url) -> None:
    open_run(page, base_url, RUN)
    page.click(".ck-nav a[data-page=critical-path]")
    page.wait_for_selector("#critical-path-after .js-plotly-plot")


def test_the_path_is_marked_on_the_timeline(page, base_url):
    open_path(page, base_url)
    page.click("#critical-path-timeline")
    page.wait_for_url(re.compile("/timeline"))
    until(
        page,
        "() => { const t = Object.values(window.ckTimelines || {})[0]; return !!(t && t.marked && t.marked.x.length); }",
    )


def test_the_measured_path_is_drawn_in_the_graph(page, base_url):
    open_path(page, base_url)
    page.click("#critical-path-graph")
    page.wait_for_url(re.compile("mode=measured"))
    until(page, "() => !!window.ckCy && window.ckCy.nodes().length > 3 && window.ckCy.edges().length > 2")


def test_a_slider_finds_the_path_anew(page, base_url):
    open_path(page, base_url)
    page.locator("#critical-path-factor-host [role=slider]").first.focus()
    page.keyboard.press("Home")
    until(page, "() => /shorter/.test(document.querySelector('#critical-path-answer').textContent)")
