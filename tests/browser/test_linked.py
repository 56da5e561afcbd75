"""Tables, selection and scope hang together: a row marks its nodes, an area of the timeline filters the tables."""

from __future__ import annotations

import csv
import re

import pytest

from tests.browser.conftest import open_run, until

pytestmark = pytest.mark.browser

RUN = "samples/transformer_dp2_tp4_simulated_h100"
KERNELS = '[id*="ck-table\\"}"][id*="kernels"]'


def click_row(page, table: str, at: int = 0) -> None:
    page.wait_for_selector(f"{table} .ag-center-cols-container .ag-row")
    page.click(f"{table} .ag-center-cols-container .ag-row[row-index='{at}'] .ag-cell >> nth=0")


def test_a_row_marks_its_nodes_on_the_timeline_and_in_the_graph(page, base_url):
    open_run(page, base_url, RUN)
    click_row(page, KERNELS)
    page.wait_for_url(re.compile(r"node=0\.0\.\d+.*nodes=0\.0\.n\d+"))
    page.click(".ck-nav a[data-page=timeline]")
    until(
        page,
        "() => { const t = Object.values(window.ckTimelines || {})[0]; return !!(t && t.marked && t.marked.x.length); }",
    )
    marked = page.evaluate("Object.values(window.ckTimelines)[0].marked")
    assert marked["count"] > 1
    page.click(".ck-nav a[data-page=graph]")
    until(page, "() => !!window.ckCy && window.ckCy.nodes('.marked').length > 0")


def test_rows_are_filtered_and_grouped_and_a_group_selects_all_of_its_rows(page, base_url):
    open_run(page, base_url, RUN)
    rows = f"{KERNELS} .ag-center-cols-container .ag-row"
    page.wait_for_selector(rows)
    before = page.locator(rows).count()
    page.fill('[id*="ck-table-filter"][id*="kernels"]', "layer_15/mlp/up")
    until(
        page,
        "([rows, before]) => { const n = document.querySelectorAll(rows).length; return n > 0 && n < before; }",
        [rows, before],
    )
    page.fill('[id*="ck-table-filter"][id*="kernels"]', "")
    page.click('[id*="ck-table-groups"][id*="kernels"]')
    page.click(".dash-dropdown-option:has-text('by kind')")
    page.wait_for_selector(f"{KERNELS} .ck-group-row")
    heads = page.locator(f"{KERNELS} .ck-group-row").count()
    click_row(page, KERNELS)
    page.wait_for_url(re.compile(r"nodes="))
    until(page, "([rows, heads]) => document.querySelectorAll(rows).length > heads", [rows, heads])


def test_the_saved_table_holds_numbers_in_the_units_of_its_header(page, base_url):
    open_run(page, base_url, RUN)
    page.wait_for_selector(KERNELS)
    with page.expect_download() as got:
        page.click('[id*="ck-table-csv"][id*="kernels"]')
    head, first, *_ = csv.reader(got.value.path().read_text(encoding="utf-8-sig").splitlines())
    assert got.value.suggested_filename == "kernels.csv"
    (total,) = (at for at, title in enumerate(head) if title.startswith("Total "))
    assert 0 < float(first[total]) < 1e6


def test_an_area_of_the_timeline_filters_the_tables_of_other_pages(page, base_url):
    open_run(page, base_url, RUN)
    rows = f"{KERNELS} .ag-center-cols-container .ag-row[row-index='0'] [col-id='count']"
    page.wait_for_selector(rows)
    whole = page.inner_text(".ck-panel:has(h2:text-is('Kernels')) .ck-note >> nth=0")
    page.click(".ck-nav a[data-page=timeline]")
    until(page, "() => { const t = Object.values(window.ckTimelines || {})[0]; return !!(t && t.idle); }")
    box = page.locator(".ck-tl-canvas").first.bounding_box()
    page.keyboard.down("Shift")
    page.mouse.move(box["x"] + 500, box["y"] + 200)
    page.mouse.down()
    page.mouse.move(box["x"] + 520, box["y"] + 200, steps=3)
    page.mouse.up()
    page.keyboard.up("Shift")
    page.wait_for_url(re.compile(r"scope=t\d+-\d+"))
    page.wait_for_selector(".ck-tl-drawer:has-text('now counts this range only')")
    page.click(".ck-nav a[data-page=overview]")
    page.wait_for_selector(rows)
    page.wait_for_selector("#scope-words:has-text(' of ')")
    part = page.inner_text(".ck-panel:has(h2:text-is('Kernels')) .ck-note >> nth=0")
    names = [int(re.search(r"([\d,]+) names?", text)[1].replace(",", "")) for text in (whole, part)]
    assert 0 < names[1] < names[0]
