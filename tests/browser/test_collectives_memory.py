"""Collectives and Memory in a real browser: rows select nodes, the scope changes what is shown, words where nothing is."""

from __future__ import annotations

import re

import pytest

from tests.browser.conftest import open_run, until

pytestmark = pytest.mark.browser

RUN = "samples/transformer_dp2_tp4_simulated_mi300x"


def test_a_class_of_collectives_selects_its_nodes(page, base_url):
    open_run(page, base_url, RUN, "collectives")
    page.wait_for_selector(".ck-panel:has(h2:text-is('Bus bandwidth by message size')) .main-svg")
    page.wait_for_selector(".ck-panel:has(h2:text-is('Message sizes')) .main-svg")
    table = ".ck-panel:has(h2:text-is('By operation, group and size'))"
    page.click(f"{table} .ag-row[row-index='0'] .ag-cell[col-id=op]")
    page.wait_for_url(re.compile(r"node=0\.0\.\d+&nodes=0\.0\.r"))
    page.wait_for_selector("#details h3")
    assert page.inner_text(f"{table} .ag-row[row-index='0'] [col-id=busbw]").strip()


def test_the_scope_chooses_the_rank(page, base_url):
    open_run(page, base_url, RUN, "collectives", "&scope=r3")
    page.wait_for_selector(".ck-lead:has-text('rank 3 of 8')")
    open_run(page, base_url, "samples/pytorch_ddp_gloo_4_ranks", "collectives")
    page.wait_for_selector("text=The communication runs on the host")


def test_memory_without_and_with_allocations(page, base_url, roots):
    open_run(page, base_url, "built/host.et", "memory")
    page.wait_for_selector("text=the trace records no allocations")
    page.wait_for_selector("text=records no device work, so no copies")
    if "corpus" not in roots:
        pytest.skip("no corpus: no recorded trace with allocations")
    ref = "corpus/kineto/cross_hw/Falconsai_nsfw_image_detection__1016002.h100.json.gz"
    open_run(page, base_url, ref, "memory")
    page.wait_for_selector(".ck-panel:has(h2:has-text('Allocated over time: cuda:0')) .main-svg")
    table = ".ck-panel:has(h2:text-is('Live at the peak'))"
    page.wait_for_selector(f"{table} .ag-row")
    until(page, "() => document.querySelectorAll('.js-plotly-plot .scatterlayer .trace').length >= 3")
    page.locator(f"{table} .ag-row .ag-cell[col-id=name]:has-text('aten::')").first.click()
    page.wait_for_url(re.compile(r"nodes=0\.0\.r"))
    page.locator("button:has-text('Show the peak on the timeline')").first.click()
    page.wait_for_selector(".ck-page-timeline")
    page.wait_for_url(re.compile(r"timeline\?.*t=\d+-\d+"))
