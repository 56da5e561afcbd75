"""Fixtures of the browser tests: a served application, and a page that allows no error on the console.

``base_url`` serves the roots ``samples``, ``built`` (see ``tests/runs.py``) and, where it is there, ``corpus``.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import waitress
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

from chakra_core.samples import samples_root
from dashboard.app import create_app
from dashboard.settings import Settings
from tests.conftest import corpus_root
from tests.runs import write_runs

WAIT_MS = 60_000
_NAMES = (
    "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge", "msedge",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
)  # fmt: skip


def browser_path() -> str | None:
    """The browser to drive: ``CHAKRA_BROWSER``, or the first one of the Chromium family that is installed."""
    given = os.environ.get("CHAKRA_BROWSER")
    return given or next((found for name in _NAMES if (found := shutil.which(name))), None)


@pytest.fixture(scope="session")
def roots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The served roots by name."""
    built = tmp_path_factory.mktemp("built")
    write_runs(built)
    found = {"samples": samples_root(), "built": built}
    corpus = corpus_root()
    return {**found, "corpus": corpus} if corpus else found


@pytest.fixture(scope="session")
def upload_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the served application keeps uploads."""
    return tmp_path_factory.mktemp("uploads")


@pytest.fixture(scope="session")
def base_url(roots: dict[str, Path], upload_dir: Path) -> Iterator[str]:
    """Address of an application served by the real server, in a thread, on a free port."""
    app = create_app(Settings(roots=roots, upload_dir=upload_dir))
    server = waitress.create_server(app.server, host="127.0.0.1", port=0, threads=8)
    thread = threading.Thread(target=server.run, name="served application", daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.effective_port}"
    server.close()
    thread.join(5)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for all tests; skipped, with the reason, where there is none."""
    path = browser_path()
    if path is None:
        pytest.skip("no Chromium, Chrome or Edge found: install one or set CHAKRA_BROWSER to its path")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A fresh page of a fresh visitor; an error on its console, or an uncaught exception, fails the test."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(WAIT_MS)
    opened = context.new_page()
    complaints: list[str] = []

    def listen(message: ConsoleMessage) -> None:
        if message.type == "error":
            complaints.append(f"{message.text} ({message.location.get('url', '')})")

    opened.on("console", listen)
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    yield opened
    context.close()
    assert not complaints, complaints


def open_run(page: Page, base_url: str, refs: str | list[str], slug: str = "overview", more: str = "") -> None:
    """Go to a page with these runs open and wait until it shows."""
    chosen = [refs] if isinstance(refs, str) else refs
    query = "&".join(f"run={ref}" for ref in chosen)
    page.goto(f"{base_url}/{slug}?{query}{more}")
    page.wait_for_selector(f".ck-page-{slug}")


def until(page: Page, script: str, argument: object = None, *, seconds: float = 30.0) -> None:
    """Wait until a script is true. Unlike ``wait_for_function`` it evaluates nothing inside the page's own policy."""
    for _ in range(int(seconds / 0.05)):
        if page.evaluate(script, argument):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never became true: {script} ({argument!r})")
