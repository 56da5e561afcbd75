"""Opening in a real browser: samples, the server's folders, uploads, failures beside successes, recent runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from chakra_core.writers.chakra_et import write_et
from tests.browser.conftest import open_run
from tests.runs import host_only, rank_trace

pytestmark = pytest.mark.browser


def test_a_sample_opens_from_its_card(page, base_url):
    page.goto(base_url)
    page.click(".ck-card >> text=Distributed data parallel, four ranks")
    page.wait_for_selector(".ck-page-overview")
    page.wait_for_url(re.compile(r"/overview\?run=samples/pytorch_ddp_gloo_4_ranks/kineto$"))
    assert "4 ranks" in page.locator(".ck-fact-row").inner_text()


def test_the_folder_browser_walks_and_opens(page, base_url):
    page.goto(f"{base_url}/open")
    page.click(".ck-row button:text-is('built')")
    page.click(".ck-entry:has-text('ranks')")
    page.wait_for_selector(".ck-entry:has-text('r.1.et')")
    page.click("text=Open this folder as one run")
    page.wait_for_selector(".ck-page-overview")
    page.wait_for_url(re.compile(r"run=built/ranks$"))


def test_a_file_that_is_no_trace_says_why_while_the_other_is_shown(page, base_url):
    open_run(page, base_url, ["built/notes.txt", "built/host.et"], more="&node=1.0.1")
    problem = page.locator(".ck-problem")
    assert "built/notes.txt was not opened" in problem.inner_text()
    assert "not a trace in any known format" in problem.inner_text()
    page.wait_for_url(re.compile(r"\?run=built/host.et&node=0\.0\.1$"))
    assert page.evaluate("JSON.parse(localStorage.getItem('ck-recent'))") == ["built/host.et"]
    page.click("text=Dismiss")
    page.wait_for_selector(".ck-problem", state="detached")


def test_a_run_that_cannot_be_opened_can_be_tried_again(page, base_url, roots):
    late = roots["built"] / "late.et"
    late.write_text("nothing yet")
    page.goto(f"{base_url}/overview?run=built/late.et")
    page.wait_for_selector(".ck-problem")
    page.wait_for_selector("text=Overview needs a trace")
    write_et(host_only(), late)
    page.click("text=Try again")
    page.wait_for_selector(".ck-page-overview")
    assert page.locator(".ck-problem").count() == 0


def test_dropped_ranks_are_uploaded_as_one_run(page, base_url, tmp_path: Path, upload_dir: Path):
    files = []
    for rank in range(2):
        write_et(rank_trace(rank), tmp_path / f"mine.{rank}.et")
        files.append(tmp_path / f"mine.{rank}.et")
    page.goto(f"{base_url}/open")
    with page.expect_file_chooser() as chooser:
        page.click(".ck-drop strong")
    chooser.value.set_files(files)
    page.wait_for_selector(".ck-page-overview")
    page.wait_for_url(re.compile(r"run=uploads/[0-9a-f]{40}$"))
    assert "2 ranks" in page.locator(".ck-fact-row").inner_text()
    key = next(cookie["value"] for cookie in page.context.cookies() if cookie["name"] == "ck_session")
    assert key not in page.url
    folder = upload_dir / page.url.rsplit("/", 1)[1]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        path.name: path.read_bytes() for path in files
    }


def test_a_file_larger_than_a_piece_arrives_whole(page, base_url, tmp_path: Path, upload_dir: Path):
    big = tmp_path / "big.json"
    big.write_bytes(b'{"traceEvents": []}' + b" " * (17 * 1024 * 1024))
    page.goto(f"{base_url}/open")
    with page.expect_file_chooser() as chooser:
        page.click(".ck-drop strong")
    chooser.value.set_files(big)
    page.wait_for_url(re.compile(r"run=uploads/[0-9a-f]{40}/big.json$"))
    stored = upload_dir / page.url.split("run=uploads/")[1]
    assert stored.read_bytes() == big.read_bytes()


def test_recent_runs_are_offered_again(page, base_url):
    open_run(page, base_url, "built/host.et")
    page.click("nav a[data-page=open]")
    page.click("#open-add input")  # replace instead of adding
    page.click("#open-recent button:has-text('built/host.et')")
    page.wait_for_selector(".ck-page-overview")


def test_a_second_run_is_added_for_comparison(page, base_url):
    open_run(page, base_url, "built/host.et")
    page.click("nav a[data-page=open]")
    page.click(".ck-row button:text-is('built')")
    page.click(".ck-entry:has-text('ranks')")
    page.click("text=Open this folder as one run")
    page.wait_for_selector(".ck-page-compare")
    page.wait_for_url(re.compile(r"/compare\?run=built/host.et&run=built/ranks"))
