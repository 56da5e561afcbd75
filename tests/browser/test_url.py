"""The address is the view: it is written as the view changes, and gives the view back to whoever opens it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.conftest import open_run

pytestmark = pytest.mark.browser


def theme_of(page: Page) -> str:
    return page.evaluate("document.documentElement.dataset.theme")


def test_back_and_forward_show_the_page_of_the_address(page, base_url):
    open_run(page, base_url, "built/ranks")
    page.click("nav a[data-page=open]")
    page.wait_for_selector(".ck-page-open")
    page.wait_for_url(re.compile(r"/open\?run=built/ranks$"))
    page.go_back()
    page.wait_for_selector(".ck-page-overview")
    assert page.url.endswith("/overview?run=built/ranks")
    page.click("nav a[data-page=open]")  # the same target again must work again
    page.wait_for_selector(".ck-page-open")
    page.go_back()
    page.wait_for_selector(".ck-page-overview")
    page.go_forward()
    page.wait_for_selector(".ck-page-open")


def test_a_selection_is_written_and_read_back_elsewhere(page, base_url, browser: Browser):
    open_run(page, base_url, "built/ranks")
    page.locator(".ag-row[row-index='0']").first.click()
    page.wait_for_url(re.compile(r"node=0\.0\.\d+"))
    name = page.locator("#details h3").first.inner_text()
    page.click("#toggle-theme")
    page.wait_for_url(re.compile(r"theme=dark"))
    other = browser.new_context().new_page()
    other.goto(page.url)
    other.wait_for_selector("#details h3")
    assert other.locator("#details h3").first.inner_text() == name
    assert theme_of(other) == "dark"
    assert other.url == page.url
    other.context.close()


def test_the_theme_is_set_before_the_application_runs(page, base_url):
    page.add_init_script(
        "new MutationObserver(() => { const t = document.documentElement.dataset.theme;"
        " if (t) (window.__themes = window.__themes || []).push(t); })"
        ".observe(document, {attributes: true, subtree: true, attributeFilter: ['data-theme']});"
    )
    page.goto(f"{base_url}/open?theme=dark")
    page.wait_for_selector(".ck-page-open")
    assert set(page.evaluate("window.__themes")) == {"dark"}


def test_nonsense_in_the_address_is_left_out(page, base_url):
    page.goto(f"{base_url}/overview?run=built/ranks&node=x.1&t=9-3&theme=pink&note=kept")
    page.wait_for_selector(".ck-page-overview")
    page.wait_for_url(re.compile(r"/overview\?run=built/ranks&note=kept$"))


def test_a_page_that_needs_more_runs_says_so(page, base_url):
    page.goto(f"{base_url}/compare?run=built/ranks")
    page.wait_for_selector("text=Compare needs 2 runs (1 open)")
    page.click("text=Open traces")
    page.wait_for_selector(".ck-page-open")


def test_closing_a_run_renumbers_the_selection(page, base_url):
    open_run(page, base_url, ["built/host.et", "built/ranks"], more="&node=1.1.2&t=0-500")
    page.wait_for_selector("#details h3")
    page.locator(".ck-chip-close").first.click()
    page.wait_for_url(re.compile(r"/overview\?run=built/ranks&node=0\.1\.2$"))
    assert "relu" in page.locator("#details h3").first.inner_text()


def test_a_selection_that_does_not_exist_is_said_to(page, base_url):
    open_run(page, base_url, "built/ranks", more="&node=0.77.1")
    page.wait_for_selector("#details >> text=The selected node is in no open run.")
