"""Co-design in a real browser: sliders change the result and the address, studies run, the projection opens as a run."""

from __future__ import annotations

import re
import zipfile

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


def choose(page, control: str, words: str) -> None:
    page.click(f"#codesign-{control}")
    page.locator("[role=option]:visible", has_text=words).first.click()


def test_every_control_is_in_the_address_and_goes_back(page, base_url):
    open_run(page, base_url, RUN, "codesign", "&hardware=H200%20SXM")
    page.wait_for_selector("#codesign-bars .main-svg")
    before = device_time(page)
    for control, words, address in (
        ("hardware", "H100 SXM", "hardware=H100"), ("source", "H100 SXM", "source=H100"),
        ("algorithm", "tree", "algorithm=tree"), ("precision", "fp8", "precision=fp8"),
        ("across", "tensor parallel", "tensor"), ("hardware", "H200 SXM", "hardware=H200"),
    ):  # fmt: skip
        choose(page, control, words)
        until(page, f"() => location.search.includes('{address}')")
    page.keyboard.press("Escape")
    page.fill("#codesign-domain", "2")
    until(page, "() => location.search.includes('domain=2')")
    page.locator("label[for=codesign-overlap]").last.click()
    until(page, "() => location.search.includes('overlap=off')")
    for slider in ("compute", "memory", "link", "latency", "launch", "compression", "data_parallel"):
        page.focus(f"#codesign-{slider} [role=slider]")
        page.keyboard.press("ArrowRight")
        until(page, f"() => location.search.includes('{slider}=')")
    until(page, "() => document.querySelector('.ck-assumptions').innerText.includes('tensor parallel=across')")
    assert "communication never runs beside compute" in page.inner_text(".ck-assumptions")
    page.click("#codesign-reset")
    until(page, "() => !/overlap|domain|map=|precision|algorithm|link=/.test(location.search)")
    until(page, f"() => document.querySelector('#codesign-results').innerText.includes('{before}')")


def test_two_knobs_make_contours_and_stop_stops(page, base_url):
    open_run(page, base_url, RUN, "codesign", "&hardware=MI300X")
    choose(page, "sweep-y", "compute peak")
    page.click("#codesign-sweep-go")
    until(page, "() => !document.querySelector('#codesign-sweep-stop').disabled")
    page.click("#codesign-sweep-stop")
    until(page, "() => document.querySelector('#codesign-sweep-result').innerText.includes('stopped')")
    page.click("#codesign-sweep-go")
    page.wait_for_selector("#codesign-sweep-figure .contour", timeout=60_000)


def test_another_run_of_the_workload_stands_beside_it_node_by_node(page, base_url):
    other = "samples/transformer_dp2_tp4_simulated_mi300x"
    open_run(page, base_url, [RUN, other], "codesign", "&hardware=MI300X")
    choose(page, "beside-run", "mi300x")
    page.wait_for_selector("#codesign-beside-result .ag-row")
    said = page.inner_text("#codesign-beside-result")
    assert "100.0% of the nodes met" in said
    assert "collective" in said
    choose(page, "beside-side", "the run as it is")
    until(page, "() => !document.querySelector('#codesign-beside-result').innerText.includes('on MI300X (simulated)')")
    with page.expect_download() as saved:
        page.click("#codesign-inputs")
    with zipfile.ZipFile(saved.value.path()) as archive:
        assert "astra-sim-inputs/system.json" in archive.namelist()


def test_the_error_against_the_real_run_is_stated(page, base_url, roots):
    if "corpus" not in roots:
        pytest.skip("no corpus: set CHAKRA_CORPUS to a folder of real traces")
    pair = [
        f"corpus/kineto/cross_hw/gaunernst_bert-small-uncased__1016001.{name}.json.gz" for name in ("h100", "mi300x")
    ]
    open_run(page, base_url, pair[0], "codesign", "&hardware=MI300X")
    page.wait_for_selector("#codesign-bars .main-svg")
    assert "of 3 models measured on both" in page.inner_text("#codesign-results")
    open_run(page, base_url, pair, "codesign", "&hardware=MI300X")
    page.wait_for_selector("#codesign-bars .main-svg")
    assert "+11.5%" in page.inner_text("#codesign-results .ck-table")
