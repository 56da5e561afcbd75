"""From a training loop to the page: a PyTorch recording made now opens in a real browser."""

from __future__ import annotations

import pytest

from tests.browser.conftest import open_run
from tests.captures import capture

pytestmark = pytest.mark.browser


def test_a_recording_made_now_opens(page, base_url, roots):
    capture(roots["built"] / "captured", 1)
    open_run(page, base_url, "built/captured/ranks1/trace.0.et")
    page.wait_for_selector("text=aten::addmm")
    assert "measured" in page.locator(".ck-page-overview").inner_text()
