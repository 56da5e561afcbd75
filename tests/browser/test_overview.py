"""The overview in a real browser: what it says, where its parts lead, and that names stay text."""

from __future__ import annotations

import csv
import re

import pytest

from tests.browser.conftest import open_run
from tests.runs import FORMULA, HOSTILE

pytestmark = pytest.mark.browser


def test_a_row_of_a_table_selects_the_longest_instance(page, base_url):
    open_run(page, base_url, "built/ranks")
    page.locator(".ag-row [col-id=name]:has-text('gemm')").last.click()
    page.wait_for_url(re.compile(r"node=0\.0\.1&nodes=0\.0\.n\d+$"))
    assert page.locator("#details h3").first.inner_text() == "gemm"
    assert "400 ns" in page.locator("#details").inner_text()


def test_details_walk_along_dependencies(page, base_url):
    open_run(page, base_url, "built/ranks", more="&node=0.0.2")
    page.click("#details .ck-select:has-text('gemm')")
    page.wait_for_url(re.compile(r"node=0\.0\.1$"))
    page.wait_for_selector("#details h3:text-is('gemm')")
    page.click("#toggle-details")
    page.wait_for_selector(".ck-frame:not(.ck-with-details)")


def test_names_from_traces_stay_text(page, base_url):
    page.on("dialog", lambda dialog: pytest.fail(f"a trace opened a dialog: {dialog.message}"))
    open_run(page, base_url, "built/hostile.et", more="&node=0.0.0")
    page.wait_for_selector("#details h3")
    assert page.locator("#details h3").first.inner_text() == HOSTILE
    assert page.locator("img[src='x']").count() == 0
    assert FORMULA in page.locator(".ag-root").last.inner_text()


@pytest.mark.parametrize(
    ("ref", "words"),
    [
        ("built/host.et", "records no device work"),
        ("built/empty.json", "holds no events"),
        ("built/damaged.json", "ends"),
    ],
)
def test_what_does_not_apply_is_said(page, base_url, ref, words):
    open_run(page, base_url, ref)
    assert words in page.locator(".ck-page-overview").inner_text()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_is_cut_off_at_the_side(page, base_url, theme):
    open_run(page, base_url, "samples/transformer_dp2_tp4_simulated_h100", more=f"&theme={theme}")
    page.wait_for_selector(".js-plotly-plot .barlayer")
    wide = page.evaluate(
        "[...document.querySelectorAll('.ck-content')].filter(e => e.scrollWidth > e.clientWidth + 1).length"
    )
    assert wide == 0


def test_an_exported_table_holds_no_formula(page, base_url):
    open_run(page, base_url, "built/hostile.et")
    with page.expect_download() as saved:
        page.locator("button:text-is('CSV')").last.click()
    text = saved.value.path().read_text(encoding="utf-8-sig")
    assert saved.value.suggested_filename == "kernels.csv"
    assert f'"\'{FORMULA.replace(chr(34), chr(34) * 2)}"' in text
    assert HOSTILE in text


def test_an_exported_time_is_in_the_unit_of_its_header(page, base_url):
    open_run(page, base_url, "samples/transformer_dp2_tp4_simulated_h100")
    with page.expect_download() as saved:
        page.locator("button:text-is('CSV')").last.click()
    header, first, *_ = csv.reader(saved.value.path().read_text(encoding="utf-8-sig").splitlines())
    at = next(at for at, title in enumerate(header) if title.startswith("Total "))
    assert header[at].split()[-1] in ("ms", "s")  # so that the value is not what the cell holds, which are ns
    shown = page.locator(".ag-root").last.locator(".ag-row[row-index='0'] .ag-cell[col-id='total_ns']").inner_text()
    assert round(float(first[at]), 3) == float(shown.replace(",", ""))


def test_a_finding_leads_to_the_view_that_proves_it(page, base_url):
    open_run(page, base_url, "samples/transformer_dp2_tp4_simulated_h100")
    page.click(".ck-pointers li:has-text('Exposed communication') button")
    page.wait_for_url(re.compile(r"/timeline\?run=[^&]+&node=0\.\d+\.\d+&t=\d+-\d+"))
    page.wait_for_selector(".ck-page-timeline")
