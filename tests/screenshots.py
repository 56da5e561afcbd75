"""Make the README's pictures: ``python -m tests.screenshots``. Needs a browser; writes to .github/images."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import waitress
from playwright.sync_api import sync_playwright

from chakra_core.samples import samples_root
from dashboard.app import create_app
from dashboard.settings import Settings
from tests.browser.conftest import browser_path

OUT = Path(__file__).resolve().parent.parent / ".github" / "images"
H100, MI300X = "samples/transformer_dp2_tp4_simulated_h100", "samples/transformer_dp2_tp4_simulated_mi300x"
PICTURES = {
    "timeline": f"timeline?run={MI300X}&node=0.0.300&t=60000000-72000000",
    "overview": f"overview?run={MI300X}",
    "graph": f"graph?run={H100}",
    "bottlenecks": f"bottlenecks?run={MI300X}&theme=dark",
    "compare": f"compare?run={H100}&run={MI300X}",
}


def main() -> int:
    """Serve the samples and photograph every page."""
    server = waitress.create_server(
        create_app(Settings(roots={"samples": samples_root()})).server, host="127.0.0.1", port=0
    )
    threading.Thread(target=server.run, daemon=True).start()
    OUT.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path(), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        for name, address in PICTURES.items():
            page.goto(f"http://127.0.0.1:{server.effective_port}/{address}")
            page.wait_for_selector(f".ck-page-{name}", timeout=60_000)
            page.wait_for_timeout(6000)
            page.screenshot(path=OUT / f"{name}.png")
            sys.stdout.write(f"{name}: {(OUT / f'{name}.png').stat().st_size / 1000:.0f} kB\n")
        browser.close()
    server.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
