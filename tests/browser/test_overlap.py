"""Overlap in a real browser: every part is drawn, and the table of idle causes can be grouped."""

from __future__ import annotations

import pytest

from tests.browser.conftest import open_run

pytestmark = pytest.mark.browser


def test_all_parts_are_drawn(page, base_url):
    open_run(page, base_url, "samples/transformer_dp2_tp4_simulated_mi300x", "overlap")
    page.wait_for_selector(".ck-panel:has(h2:text-is('Running at once')) .hm")
    page.wait_for_selector(".ck-panel:has(h2:text-is('What runs, and nothing else')) .bars")
    idle = ".ck-panel:has(h2:text-is('Why streams stand still'))"
    page.wait_for_selector(f"{idle} .ag-row")
    page.wait_for_selector(".ck-panel:has(h2:text-is('What the launching thread does'))")
    assert "idle" in page.inner_text(".ck-panel:has(h2:text-is('What runs, and nothing else'))")


def test_a_trace_without_devices_says_so(page, base_url):
    open_run(page, base_url, "built/host.et", "overlap")
    page.wait_for_selector("text=There is nothing to overlap")
    page.wait_for_selector(".ck-panel:has(h2:text-is('Steps')) p")
