"""Compare in a real browser: the largest loss, its instance in the details panel, swapping, and a reloaded address."""

from __future__ import annotations

import re

import pytest

PAIR = "run=samples/transformer_dp2_tp4_simulated_h100&run=samples/transformer_dp2_tp4_simulated_mi300x"

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
