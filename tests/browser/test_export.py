"""The Export dialog: a file arrives, and opens again."""

import zipfile

import pytest

from chakra_core.opening import open_run as open_files
from tests.browser.conftest import open_run

pytestmark = pytest.mark.browser


def make(page, what=None, form=None):
    page.click("#open-export")
    page.wait_for_selector("#export-make")
    if what:
        page.get_by_label(what).check()
    if form:
        page.click("#export-to")
        page.get_by_role("option", name=form).click()
    page.click("#export-make")
    page.wait_for_selector("#export-file")
    with page.expect_download() as download:
        page.click("#export-file")
    return download.value


@pytest.fixture
def sample(roots):
    found = open_files([roots["samples"] / "transformer_dp2_tp4_simulated_h100"])
    return "samples/transformer_dp2_tp4_simulated_h100", found


def test_a_whole_run_arrives_and_opens(page, base_url, tmp_path, sample):
    ref, run = sample
    open_run(page, base_url, ref)
    download = make(page)
    assert download.suggested_filename.endswith(".zip")
    download.save_as(tmp_path / "x.zip")
    with zipfile.ZipFile(tmp_path / "x.zip") as packed:
        packed.extractall(tmp_path / "x")
    back = open_files(sorted((tmp_path / "x").glob("*.et")))
    assert [len(trace) for trace in back.traces] == [len(trace) for trace in run.traces]
    assert back.span_ns == run.span_ns


def test_the_visible_range_arrives_as_a_chrome_trace(page, base_url, tmp_path, sample):
    ref, run = sample
    half = run.span_ns // 2
    open_run(page, base_url, ref, "timeline", f"&t=0-{half}")
    download = make(page, "Visible range", "Chrome trace")
    download.save_as(tmp_path / download.suggested_filename)
    back = open_files([tmp_path / download.suggested_filename])
    inside = sum(int(((t.columns.start_ns - run.origin_ns) < half).sum()) for t in run.traces)
    assert 0 < sum(map(len, back.traces)) == inside < sum(map(len, run.traces))
