"""Move about in a timeline of ten million events in a real browser: ``python -m tests.benchmarks.browse_timeline [events]``.

The application is served by a process of its own, as ``serve`` does. The pointer drags and the wheel zooms, at random
(seeded), over eight levels of zoom; each gesture ends, and what counts is the time from its last movement to the frame
that shows the new detail. Prints one line of JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from playwright.sync_api import Page, sync_playwright

from tests.browser.conftest import browser_path

GESTURES = 120
_TL = "Object.values(window.ckTimelines)[0]"
_IDLE = f"() => {{ const tl = {_TL}; return tl.idle && tl.settledAt > tl.movedAt; }}"
_READ = f"() => {{ const tl = {_TL}; return [tl.lastSettleMs, tl.lastFetchMs, tl.lastDrawMs, tl.rectCount, tl.feed.detail.t0]; }}"


def serve(n: int) -> None:
    """Serve a synthetic run of ``n`` events; prints the port, then answers until standard input closes."""
    import threading

    import waitress

    from chakra_core.trace import Run
    from dashboard.app import create_app
    from dashboard.library import Library, LoadedRun, LoadStatus
    from dashboard.settings import Settings
    from dashboard.timeline_data import describe
    from tests.benchmarks.bench_lod import synthetic

    loaded = LoadedRun("big", Run((synthetic(n),), "big"))
    describe(loaded)
    with mock.patch.multiple(Library, get=mock.DEFAULT, status=mock.DEFAULT) as made:
        made["get"].return_value = loaded
        made["status"].return_value = LoadStatus("ready", 1.0)
        app = create_app(Settings(roots={"big": Path(__file__).parent}))
        server = waitress.create_server(app.server, host="127.0.0.1", port=0, threads=8)
        threading.Thread(target=server.run, daemon=True).start()
        sys.stdout.write(f"{server.effective_port}\n")
        sys.stdout.flush()
        sys.stdin.read()


def settled(page: Page) -> list[float]:
    """Wait for the detail and read its times."""
    for _ in range(2000):
        if page.evaluate(_IDLE):
            values: list[float] = page.evaluate(_READ)
            return values
        page.wait_for_timeout(5)
    raise TimeoutError("the timeline never settled")


def drag(page: Page, rng: np.random.Generator, box: Any) -> None:
    """Pan by up to a whole window."""
    x, y = box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.5
    by = float(rng.uniform(-0.38, 0.38)) * box["width"]
    page.mouse.move(x - by / 2, y)
    page.mouse.down()
    page.mouse.move(x + by / 2, y + float(rng.uniform(-40, 40)), steps=6)
    page.mouse.up()


def zoom(page: Page, rng: np.random.Generator, box: Any, level: int) -> int:
    """Turn the wheel, in where there is room; the new level."""
    inward = level < 7 and (level <= 0 or rng.random() < 0.55)
    page.mouse.move(box["x"] + box["width"] * float(rng.uniform(0.35, 0.9)), box["y"] + box["height"] * 0.5)
    page.keyboard.down("Control")
    for _ in range(4):
        page.mouse.wheel(0, -120 if inward else 120)
    page.keyboard.up("Control")
    return level + (1 if inward else -1)


def browse(page: Page, address: str) -> dict[str, Any]:
    """Drag and zoom; the distribution of the times."""
    page.goto(f"{address}/timeline?run=big")
    page.wait_for_selector(".ck-timeline[data-ready=true]", timeout=120_000)
    settled(page)
    box = page.locator(".ck-tl-canvas").first.bounding_box()
    rng = np.random.default_rng(5)
    rows, level = [], 0
    for at in range(GESTURES):
        before = page.evaluate(f"() => {_TL}.movedAt")
        if at % 2:
            drag(page, rng, box)
        else:
            level = zoom(page, rng, box, level)
        if page.evaluate(f"() => {_TL}.movedAt") > before:
            rows.append(settled(page))
    settle, fetch, draw, rects, begin = np.array(rows, float).T
    asked = np.append(True, begin[1:] != begin[:-1])
    settle, fetch = settle[asked], fetch[asked]
    return {
        "gestures": len(rows), "answered_by_the_server": int(asked.sum()), "settle_p50_ms": _at(settle, 50), "settle_p95_ms": _at(settle, 95), "settle_max_ms": _at(settle, 100),
        "fetch_p95_ms": _at(fetch, 95), "draw_p95_ms": _at(draw, 95), "most_rectangles": int(rects.max()),
    }  # fmt: skip


def _at(values: Any, share: float) -> float:
    return round(float(np.percentile(values, share)), 1)


def measure(n: int = 10_000_000) -> dict[str, Any]:
    """Serve in another process, browse here."""
    command = [sys.executable, "-m", "tests.benchmarks.browse_timeline", "--serve", str(n)]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server,
        sync_playwright() as playwright,
    ):
        port = server.stdout.readline().strip() if server.stdout else ""
        browser = playwright.chromium.launch(executable_path=browser_path(), args=["--no-sandbox"])
        try:
            found = browse(browser.new_page(viewport={"width": 1440, "height": 900}), f"http://127.0.0.1:{port}")
        finally:
            browser.close()
            if server.stdin:
                server.stdin.close()
    return {"events": n, **found}


def main() -> None:
    """Serve, or measure."""
    if sys.argv[1:2] == ["--serve"]:
        serve(int(sys.argv[2]))
        return
    print(json.dumps(measure(int(float(sys.argv[1])) if len(sys.argv) > 1 else 10_000_000)))


if __name__ == "__main__":
    main()
