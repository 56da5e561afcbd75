"""The Operators page in the browser: another grouping, and rows that select their calls and show how long they take."""

from __future__ import annotations

import re

import pytest

from tests.browser.conftest import open_run, until

pytestmark = pytest.mark.browser

HOST = "samples/pytorch_cpu_step"
DEVICE = "samples/transformer_dp2_tp4_simulated_h100"
NOTE = "#operators-spread-note"


def rows_of(table: str) -> str:
    return f'[id*="ck-table\\"}}"][id*="{table}"] .ag-center-cols-container .ag-row'


def click_row(page, table: str) -> None:
    page.wait_for_selector(f"{rows_of(table)}[row-index='0']")
    page.click(f"{rows_of(table)}[row-index='0'] .ag-cell >> nth=0")


def test_another_grouping_and_a_row_that_selects_its_calls(page, base_url):
    open_run(page, base_url, HOST, "operators")
    page.wait_for_selector(rows_of("operators-groups"))
    assert "all operators" in page.inner_text(NOTE)
    page.click("#operators-by")
    page.click(".dash-dropdown-option:has-text('name and input shapes')")
    page.wait_for_selector("h2:text-is('Operators by name and input shapes')")
    page.wait_for_url(re.compile("group=shapes"))
    click_row(page, "operators-groups")
    page.wait_for_url(re.compile(r"node=0\.0\.\d+.*nodes=0\.0\.r\d+"))
    until(page, "note => / times?$/.test(document.querySelector(note).textContent)", NOTE)
    calls = page.inner_text(f"{rows_of('operators-groups')}[row-index='0'] [col-id='count']")
    assert page.inner_text(NOTE).endswith((f": {calls} times", f": {calls} time"))


def test_a_kernel_shows_how_its_durations_spread(page, base_url):
    open_run(page, base_url, DEVICE, "operators")
    click_row(page, "operators-kernels")
    page.wait_for_url(re.compile(r"nodes=0\.0\.n\d+"))
    until(page, "note => / times?$/.test(document.querySelector(note).textContent)", NOTE)


def test_another_rank_shows_its_own_kernels(page, base_url):
    open_run(page, base_url, DEVICE, "operators")
    page.wait_for_selector(rows_of("operators-kernels"))
    page.click("#operators-rank")
    page.click(".dash-dropdown-option:has-text('rank 3') >> nth=0")
    page.wait_for_url(re.compile("rank=3"))
    page.wait_for_timeout(300)
    click_row(page, "operators-kernels")
    page.wait_for_url(re.compile(r"node=0\.3\.\d+"))
