"""The Roofline page in the browser: ceilings of a chosen device, and a point that selects its calls."""

from __future__ import annotations

import re

import pytest

from tests.browser.conftest import open_run, until

pytestmark = pytest.mark.browser

HOST = "samples/pytorch_cpu_step"
DEVICE = "samples/transformer_dp2_tp4_simulated_h100"
TABLE = '[id*="ck-table\\"}"][id*="roofline-operators"] .ag-center-cols-container .ag-row'


def test_a_chosen_device_gives_ceilings(page, base_url):
    open_run(page, base_url, HOST, "roofline")
    page.wait_for_selector("#roofline-body :text('No ceilings')")
    page.click("#roofline-device")
    page.keyboard.type("H100 SXM")
    page.click(".dash-dropdown-option:has-text('H100 SXM') >> nth=0")
    page.wait_for_selector("dt:text-is('Time above the roofline')")
    page.wait_for_url(re.compile("device=H100"))
    page.wait_for_selector(f"{TABLE} [col-id='bound']:has-text('memory')")


def test_a_point_selects_its_calls(page, base_url):
    open_run(page, base_url, HOST, "roofline")
    page.wait_for_selector("#roofline-plot .points path.point")
    until(page, "() => document.querySelectorAll('#roofline-plot .points path.point').length > 3")
    box = page.locator("#roofline-plot .points path.point").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=3)
    page.wait_for_selector("#roofline-plot .hoverlayer .hovertext")
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_url(re.compile(r"node=0\.0\.\d+.*nodes=0\.0\.n\d+"))


def test_work_that_the_trace_states_is_shown(page, base_url):
    open_run(page, base_url, DEVICE, "roofline")
    page.wait_for_selector(f"{TABLE}[row-index='0']")
    assert "H100" in page.inner_text("#roofline-body .ck-fact-row")
