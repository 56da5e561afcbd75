"""Compare in a real browser: the largest loss, its instance in the details panel, swapping, and a reloaded address."""

from __future__ import annotations

import re

import pytest

PAIR = "run=samples/transformer_dp2_tp4_simulated_h100&run=samples/transformer_dp2_tp4_simulated_mi300x"

TIMELINES = ("compare-timeline-0", "compare-timeline-1")

pytestmark = pytest.mark.browser


def number(text: str) -> float:
    return float(text.replace(",", "").replace("\N{MINUS SIGN}", "-").replace("+", ""))


def open_compare(page, base_url: str, more: str = "") -> None:
    page.goto(f"{base_url}/compare?{PAIR}{more}")
    page.wait_for_selector("#compare-grid .ag-row[row-index='0']", timeout=60_000)


def cell(page, row: int, column: str):
    return page.locator(f"#compare-grid .ag-row[row-index='{row}'] [col-id='{column}']")


def test_the_largest_loss_leads_to_its_longest_instance(page, base_url):
    open_compare(page, base_url)
    top = number(cell(page, 0, "delta1").inner_text())
    assert top > 0
    assert top >= number(cell(page, 1, "delta1").inner_text())
    assert "ck-worse" in (cell(page, 0, "delta1").get_attribute("class") or "")
    name = cell(page, 0, "name").inner_text()
    cell(page, 0, "ns1").click()
    page.wait_for_url(re.compile(r"node=1\.\d+\.\d+"))
    page.wait_for_selector("#details h3")
    assert name in page.locator("#details h3").first.inner_text()
    cell(page, 0, "ns0").click()
    page.wait_for_url(re.compile(r"node=0\.\d+\.\d+"))


def test_both_timelines_show_one_window_and_the_address_keeps_it(page, base_url):
    open_compare(page, base_url)
    settle(page)
    before = view(page, TIMELINES[0])
    page.locator(f"#{TIMELINES[0]} .ck-tl-canvas").scroll_into_view_if_needed()
    page.locator(f"#{TIMELINES[0]} .ck-tl-canvas").hover(position={"x": 700, "y": 120})
    page.keyboard.down("Control")
    for _ in range(4):
        page.mouse.wheel(0, -240)
        page.wait_for_timeout(60)
    page.keyboard.up("Control")
    page.wait_for_url(re.compile(r"[?&]t=\d+-\d+"))
    settle(page)
    after = view(page, TIMELINES[0])
    assert after[1] - after[0] < 0.8 * (before[1] - before[0])
    assert view(page, TIMELINES[1]) == pytest.approx(after)
    page.reload()
    settle(page)
    for name in TIMELINES:
        assert view(page, name) == pytest.approx(after, abs=2)


def test_a_cell_of_a_heatmap_shows_in_both_timelines(page, base_url):
    open_compare(page, base_url)
    settle(page)
    page.locator("#compare-map-b").scroll_into_view_if_needed()
    box = page.locator("#compare-map-b .nsewdrag").bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.4)
    page.wait_for_url(re.compile(r"[?&]t=\d+-\d+"))
    first, last = map(int, re.search(r"[?&]t=(\d+)-(\d+)", page.url).groups())
    settle(page)
    for name in TIMELINES:
        assert view(page, name) == pytest.approx([first, last], abs=2)


def settle(page) -> None:
    """Wait until both timelines are there and nothing moves or is being fetched."""
    for name in TIMELINES:
        page.wait_for_selector(f"#{name}[data-ready='true']", timeout=60_000)
    idle = "(names) => names.every((name) => window.ckTimelines[name] && window.ckTimelines[name].idle)"
    calm = 0
    for _ in range(600):
        calm = calm + 1 if page.evaluate(idle, TIMELINES) else 0
        if calm == 4:
            return
        page.wait_for_timeout(100)
    pytest.fail("the timelines do not come to rest")


def view(page, name: str) -> list[float]:
    """The window that a timeline shows, in ns from its run's start."""
    return page.evaluate("(name) => { const { t0, t1 } = window.ckTimelines[name].goal(); return [t0, t1]; }", name)


def test_swapping_turns_the_sign_and_survives_a_reload(page, base_url):
    open_compare(page, base_url)
    before = page.locator(".ck-tile").first.inner_text().split("\n")
    page.click("#compare-swap")
    page.wait_for_url(re.compile(r"base=1"))
    page.wait_for_selector("#compare-grid [col-id='delta0']")
    after = page.locator(".ck-tile").first.inner_text().split("\n")
    assert after[2] == f"baseline {before[1]}"
    page.click("#compare-bars >> text=share")
    page.wait_for_url(re.compile(r"bars=share"))
    page.reload()
    page.wait_for_selector("#compare-grid [col-id='delta0']", timeout=60_000)
    assert page.locator(".ck-tile").first.inner_text().split("\n") == after
    page.wait_for_selector("#compare-breakdown .xtitle")
    assert "share" in page.locator("#compare-breakdown .xtitle").first.text_content()
