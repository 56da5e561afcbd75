"""Draw 4,000 events on 60 rows as Plotly bars and on our canvas, in one browser: ``python -m tests.benchmarks.draw_timeline``.

Prints, for each, the milliseconds to the first picture, to redraw after a zoom (median of 9), and the worst frame of
a drag.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import plotly
from playwright.sync_api import Page, Route, sync_playwright

from dashboard.app import assets_root
from dashboard.theme import CATEGORY_COLOURS
from tests.browser.conftest import browser_path

ROWS, EVENTS, SPAN = 60, 4000, 1_000_000_000
PARTS = ("format", "tracks", "data", "draw", "input", "ui")

FRAMES = """async (move) => {
  const times = []; let last = performance.now();
  for (let k = 0; k < 40; k += 1) {
    window[move](k);
    await new Promise(requestAnimationFrame);
    const now = performance.now(); times.push(now - last); last = now;
  }
  return Math.max(...times);
}"""


def events() -> dict[str, list[Any]]:
    """Columns as the window route sends them."""
    rng = np.random.default_rng(5)
    row = np.sort(rng.integers(0, ROWS, EVENTS))
    x = rng.integers(0, SPAN, EVENTS)
    order = np.lexsort((x, row))
    dur = rng.integers(SPAN // 4000, SPAN // 80, EVENTS)
    some = {"row": row, "x": x[order], "d": dur, "n": np.arange(EVENTS), "c": rng.integers(1, 9, EVENTS)}
    some |= {"m": np.ones(EVENTS, int), "b": dur, "k": rng.integers(0, 50, EVENTS)}
    return {key: value.tolist() for key, value in some.items()} | {"names": [f"kernel_{k}" for k in range(50)]}


def canvas(page: Page, columns: dict[str, list[Any]]) -> None:
    """Our script, with its routes answered from here."""
    lanes = [
        {"name": f"stream {k}", "process": "", "domain": "device", "device": 0, "row": k, "rows": 1, "events": 9}
        for k in range(ROWS)
    ]
    layout = {
        "label": "x", "time_kind": "measured", "span": SPAN, "rows": ROWS, "overview": {"bin": SPAN, "of": "devices", "series": {"compute": [1]}},
        "categories": [{"code": int(c), "label": c.label, "colour": colour} for c, colour in CATEGORY_COLOURS.items()],
        "ranks": [{"rank": 0, "hardware": "", "time_kind": "measured", "untimed": 0, "lanes": lanes}],
    }  # fmt: skip
    window = {"t0": -SPAN, "t1": 2 * SPAN, "exact": 1, "bin": 1, "events": EVENTS, **columns}

    def answer(route: Route) -> None:
        content = layout if "layout" in route.request.url else window
        route.fulfill(body=json.dumps(content), content_type="application/json")

    page.route("**/api/timeline/**", answer)
    page.evaluate("window.dash_clientside = {set_props() {}}")
    page.evaluate("document.body.innerHTML = '<div class=ck-timeline id=t data-ref=r style=\"height:1200px\"></div>'")
    for path in (*(f"timeline_{part}.js" for part in PARTS), "timeline.js"):
        page.add_script_tag(path=str(assets_root() / path))
    page.add_style_tag(path=str(assets_root() / "timeline.css"))
    page.evaluate("document.body.append(document.createElement('i'))")
    page.wait_for_selector("#t[data-ready]")
    page.wait_for_timeout(300)
    script = """() => { const tl = window.ckTimelines.t; tl.feed.soon = () => {};
      const one = () => { const at = performance.now(); window.CkTimelineParts.draw(tl);
        tl.context.getImageData(0, 0, 1, 1); return performance.now() - at; };
      window.move = (k) => tl.go(k * 1e6, k * 1e6 + 9e8);
      const first = one(); const zooms = [];
      for (let k = 0; k < 9; k += 1) { tl.view = {t0: k * 3e7, t1: 1e9 - k * 3e7}; zooms.push(one()); }
      return [first, zooms, tl.rectCount]; }"""
    first, zooms, drawn = page.evaluate(script)
    report(f"canvas ({drawn} drawn)", first, zooms, page.evaluate(FRAMES, "move"))


def bars(page: Page, columns: dict[str, list[Any]]) -> None:
    """Plotly's horizontal bars, one trace per category."""
    page.evaluate("document.body.innerHTML = '<div id=t style=\"width:1500px;height:1200px\"></div>'")
    page.add_script_tag(path=str(Path(plotly.__file__).parent / "package_data" / "plotly.min.js"))
    script = """async (c) => {
      const kinds = [...new Set(c.c)];
      const traces = kinds.map((kind) => { const at = c.c.map((v, i) => v === kind ? i : -1).filter((i) => i >= 0);
        return {type: 'bar', orientation: 'h', y: at.map((i) => c.row[i]), base: at.map((i) => c.x[i]), x: at.map((i) => c.d[i])}; });
      let at = performance.now();
      await Plotly.newPlot('t', traces, {barmode: 'overlay', xaxis: {range: [0, 1e9]}});
      const first = performance.now() - at; const zooms = [];
      window.move = (k) => Plotly.relayout('t', {'xaxis.range': [k * 1e6, k * 1e6 + 9e8]});
      for (let k = 0; k < 9; k += 1) { at = performance.now();
        await Plotly.relayout('t', {'xaxis.range': [k * 3e7, 1e9 - k * 3e7]}); zooms.push(performance.now() - at); }
      return [first, zooms]; }"""
    first, zooms = page.evaluate(script, columns)
    report("Plotly bars, one trace per category", first, zooms, page.evaluate(FRAMES, "move"))


def report(what: str, first: float, zooms: list[float], worst: float) -> None:
    """One line of the table."""
    print(f"{what:38} first {first:7.1f} ms  zoom {statistics.median(zooms):7.1f} ms  worst frame {worst:7.1f} ms")


def main() -> None:
    """Measure both."""
    columns = events()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path(), args=["--no-sandbox"])
        for draw in (bars, canvas):
            page = browser.new_page(viewport={"width": 1500, "height": 1250})
            page.route(
                "http://bench.test/",
                lambda route: route.fulfill(body="<html><body></body></html>", content_type="text/html"),
            )
            page.goto("http://bench.test/")
            draw(page, columns)
        browser.close()


if __name__ == "__main__":
    main()
