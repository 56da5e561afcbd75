"""Findings in a real browser: one click to the slice that proves one, thresholds, the board, and the scope."""

from __future__ import annotations

import re

import pytest

from tests.browser.conftest import open_run, until

pytestmark = pytest.mark.browser

RUN = "samples/transformer_dp2_tp4_simulated_h100"


def test_one_click_from_a_finding_to_the_slice_that_proves_it(page, base_url):
    open_run(page, base_url, RUN, "findings")
    card = page.locator("[data-rule='exposed-communication']")
    assert "saves at most" in card.inner_text()
    card.locator("button:has-text('Show on the timeline')").click()
    page.wait_for_url(re.compile(r"/timeline\?.*node=0\.\d+\.\d+.*t=\d+-\d+.*nodes="))
    until(
        page,
        "() => { const t = Object.values(window.ckTimelines || {})[0];"
        " return !!(t && t.selected && t.marked && t.marked.x.length && t.inSight(t.selected)); }",
    )
    shown = page.evaluate("Object.values(window.ckTimelines)[0].selected")
    assert "all_reduce" in shown["name"]


def test_a_threshold_changes_what_is_found_and_stays_in_the_url(page, base_url):
    open_run(page, base_url, RUN, "findings")
    page.click(".ck-limits-box summary")
    box = page.locator("[id*='exposed_comm_share']")
    box.fill("50")
    box.press("Enter")
    page.wait_for_url(re.compile(r"limits=exposed_comm_share"))
    until(page, "() => !document.querySelector(\"[data-rule='exposed-communication']\")")
    page.reload()
    page.wait_for_selector("[data-rule='rank-imbalance']")
    assert page.locator("[data-rule='exposed-communication']").count() == 0


def test_the_board_keeps_findings_and_notes_as_text(page, base_url):
    open_run(page, base_url, RUN, "findings")
    page.click("[data-rule='exposed-communication'] button:has-text('Pin')")
    page.fill("#findings-note", "<b>look</b> at this")
    page.click("button:has-text('Pin note')")
    until(page, "() => document.querySelectorAll('.ck-pin').length === 2")
    page.reload()
    page.wait_for_selector(".ck-pin")
    assert page.locator(".ck-pin strong").all_inner_texts() == ["<b>look</b> at this", "Exposed communication"]
    page.click(".ck-pin:has-text('Exposed communication') a")
    page.wait_for_url(re.compile(r"/timeline\?.*node=0\."))


def test_the_scope_narrows_every_page_and_stays_in_the_url(page, base_url):
    open_run(page, base_url, RUN, more="&scope=t0-1000000~r4")
    page.wait_for_selector("#scope-words:has-text('1.000 ms of')")
    assert "rank 4 of 8" in page.inner_text("#scope-words")
    assert "rank 4, " in page.locator(".ck-panel:has(h2:text-is('Kernels')) .ck-note").first.inner_text()
    page.click(".ck-nav a[data-page=bottlenecks]")
    page.wait_for_selector(".ck-page-bottlenecks")
    assert "scope=t0-1000000" in page.url
    until(page, "() => (document.getElementById('bottlenecks-note') || {}).innerText.startsWith('1 row')")
    page.click("#scope-clear")
    page.wait_for_selector("#scope-words:has-text('whole run')")
    until(page, "() => (document.getElementById('bottlenecks-note') || {}).innerText.startsWith('8 rows')")
    assert "scope=" not in page.url
