"""The timeline in a real browser: moving, selecting, and the way from there to the graph and back through the URL."""

from __future__ import annotations

import re

import pytest

from tests.browser.conftest import open_run, until

pytestmark = pytest.mark.browser

RUN = "samples/transformer_dp2_tp4_simulated_h100"
FIRST = "Object.values(window.ckTimelines)[0]"


def ready(page) -> dict[str, float]:
    until(page, "() => !!document.querySelector('.ck-timeline[data-ready=true]')")
    return view(page)


def view(page) -> dict[str, float]:
    return page.evaluate(f"() => ({{...{FIRST}.view}})")


def canvas(page) -> dict[str, float]:
    return page.locator(".ck-timeline canvas").first.bounding_box()


def select_a_slice(page) -> None:
    """Click down the middle of the plot until a slice is hit."""
    box = canvas(page)
    for y in range(120, int(box["height"]) - 20, 9):
        page.mouse.click(box["x"] + box["width"] * 0.55, box["y"] + y)
        page.wait_for_timeout(120)
        if "node=" in page.url:
            return
    raise AssertionError("no slice under the middle of the plot")


def test_keys_zoom_and_pan_and_the_url_follows(page, base_url):
    open_run(page, base_url, RUN, "timeline")
    before = ready(page)
    box = canvas(page)
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 300)
    page.mouse.click(box["x"] + box["width"] * 0.6, box["y"] + box["height"] - 8)
    page.keyboard.press("w")
    span = before["t1"] - before["t0"]
    until(page, f"(span) => {FIRST}.view.t1 - {FIRST}.view.t0 < 0.95 * span", span)
    page.wait_for_url(re.compile(r"t=\d+-\d+"))
    page.wait_for_timeout(500)
    zoomed = view(page)
    page.keyboard.press("d")
    until(page, f"(t0) => {FIRST}.view.t0 > t0", zoomed["t0"])
    page.wait_for_timeout(700)
    moved = view(page)
    page.reload()
    again = ready(page)
    assert abs(again["t0"] - moved["t0"]) < 0.02 * (moved["t1"] - moved["t0"])
    assert abs(again["t1"] - moved["t1"]) < 0.02 * (moved["t1"] - moved["t0"])


def test_dragging_moves_what_is_drawn(page, base_url):
    open_run(page, base_url, RUN, "timeline", "&t=100000000-150000000")
    before = ready(page)
    box = canvas(page)
    page.mouse.move(box["x"] + 700, box["y"] + 400)
    page.mouse.down()
    page.mouse.move(box["x"] + 500, box["y"] + 400, steps=6)
    page.mouse.up()
    until(page, f"(t0) => {FIRST}.view.t0 > t0 + 1e6", before["t0"])
    assert page.evaluate(f"{FIRST}.rectCount") > 0


def test_a_slice_selected_here_is_seen_on_the_graph(page, base_url):
    open_run(page, base_url, RUN, "timeline", "&t=100000000-104000000")
    ready(page)
    select_a_slice(page)
    found = re.search(r"node=0\.(\d+)\.(\d+)", page.url)
    assert found
    page.wait_for_selector("#details h3")
    name = page.inner_text("#details h3")
    assert name
    page.click("#details [data-goto=graph]")
    page.wait_for_selector(".ck-page-graph")
    page.click("#graph-mode")
    page.click(".dash-dropdown-option:has-text('Neighbourhood'), [role=option]:has-text('Neighbourhood')")
    until(
        page,
        "(row) => !!window.ckCy && window.ckCy.nodes('.chosen').map(n => n.data('row')).includes(row)",
        int(found[2]),
    )
    page.click("#details [data-goto=timeline]")
    page.wait_for_selector(".ck-page-timeline")
    ready(page)


def test_search_finds_and_selects(page, base_url):
    open_run(page, base_url, RUN, "timeline")
    ready(page)
    box = page.locator(".ck-page-timeline input[type=search], .ck-page-timeline input").first
    box.fill("embedding/lookup")
    box.press("Enter")
    page.wait_for_url(re.compile(r"node=0\.\d+\.\d+"))
    page.wait_for_selector("#details h3:has-text('embedding/lookup')")


@pytest.mark.parametrize("ref", ["built/empty.json", "built/host.et", "built/hostile.et"])
def test_odd_traces_draw_without_complaint(page, base_url, ref):
    open_run(page, base_url, ref, "timeline", "&theme=dark")
    ready(page)
