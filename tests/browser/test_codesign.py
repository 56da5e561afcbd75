"""Co-design in a real browser: sliders change the result and the address, studies run, the projection opens as a run."""

from __future__ import annotations

import re

import pytest

from tests.browser.conftest import open_run, until

pytestmark = pytest.mark.browser

RUN = "samples/transformer_dp2_tp4_simulated_h100"


def device_time(page) -> str:
    return page.inner_text("#codesign-results .ck-tile >> nth=0").split("\n")[1]


def test_a_slider_changes_the_result_and_the_address(page, base_url):
    open_run(page, base_url, RUN, "codesign", "&hardware=H200%20SXM")
    page.wait_for_selector("#codesign-bars .main-svg")
    before = device_time(page)
    assert before.endswith("ms")
    page.focus("#codesign-compute [role=slider]")
    for _ in range(4):  # four quarters: twice the peak
        page.keyboard.press("ArrowRight")
    until(page, "() => location.search.includes('compute=2')")
    until(page, f"() => !document.querySelector('#codesign-results').innerText.includes('{before}')")
    assert float(device_time(page).split()[0]) < float(before.split()[0])
    assert "compute x 2" in page.inner_text(".ck-assumptions")
    page.click("#codesign-reset")
    until(page, "() => !location.search.includes('compute=')")
    until(page, f"() => document.querySelector('#codesign-results').innerText.includes('{before}')")


def test_sensitivities_and_sweep_in_the_background(page, base_url):
    open_run(page, base_url, RUN, "codesign", "&hardware=MI300X")
    page.click("#codesign-tornado-go")
    page.wait_for_selector("#codesign-tornado-figure .bars", timeout=60_000)
    shown = page.inner_text("#codesign-tornado-figure")
    assert "link bandwidth" in shown
    assert "compute peak" in shown
    page.click("#codesign-sweep-go")
    page.wait_for_selector("#codesign-sweep-figure .scatterlayer .trace", timeout=60_000)
    assert page.locator("#codesign-sweep-figure .scatterlayer .trace").count() == 4


def test_devices_and_their_costs(page, base_url):
    open_run(page, base_url, RUN, "codesign", "&hardware=MI300X")
    page.click("#codesign-devices-go")
    page.wait_for_selector("#codesign-devices-grid .ag-row", timeout=60_000)
    assert "link unknown" in page.inner_text("#codesign-devices-grid")
    for row, cost in ((0, "3"), (1, "2"), (3, "1")):
        page.dblclick(f"#codesign-devices-grid .ag-row[row-index='{row}'] [col-id=cost]")
        page.keyboard.type(cost)
        page.keyboard.press("Enter")
    page.wait_for_selector("#codesign-pareto-figure .scatterlayer")
    assert "Least cost x time" in page.inner_text("#codesign-pareto")


def test_the_projection_opens_as_a_run_and_compares(page, base_url):
    open_run(page, base_url, RUN, "codesign", "&hardware=H200%20SXM&memory=2")
    page.click("#codesign-open")
    page.wait_for_selector(".ck-chip >> nth=1")
    until(page, "() => document.querySelectorAll('.ck-chip-label')[1]?.innerText.includes('on H200 SXM (simulated)')")
    assert re.search(r"run=projection", page.url)
    page.click(".ck-nav a[data-page=compare]")
    page.wait_for_selector("#compare-grid .ag-row")
    page.reload()
    page.wait_for_selector("#compare-grid .ag-row", timeout=60_000)
    assert "on H200 SXM (simulated)" in page.inner_text("#compare-runs")
