"""The timeline's own gestures in a real browser: picking, arrows, search, ranges, folding, and the request budget."""

from __future__ import annotations

import re

import pytest

from tests.browser.conftest import open_run, until

pytestmark = pytest.mark.browser

RUN = "samples/transformer_dp2_tp4_simulated_h100"
STEP = "samples/pytorch_cpu_step"
TL = "Object.values(window.ckTimelines)[0]"

FIND_SLICE = f"""() => {{
  const tl = {TL}, rects = tl.feed.detail;
  for (let i = 0; i < rects.length; i += 1) {{
    const at = tl.tracks.rows.get(rects.row[i]);
    const x = tl.xOf(rects.x[i] + rects.d[i] / 2);
    const y = at ? at.y - tl.scroll + 62 + at.h / 2 : -1;
    if (rects.m[i] === 1 && rects.d[i] * tl.scale > 20 && at && at.h > 10 && x > 260 && x < tl.width - 20 && y > 90 && y < tl.height - 20)
      return {{ x, y, node: rects.n[i], rank: tl.rankOf(rects.row[i]), name: rects.names[rects.k[i]] }};
  }}
  return null;
}}"""


def start(page, base_url, more="", ref=RUN):
    open_run(page, base_url, ref, "timeline", more)
    until(page, "() => !!document.querySelector('.ck-timeline[data-ready=true]')")
    settle(page)


def settle(page):
    until(page, f"() => {TL}.idle")
    page.wait_for_timeout(60)


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)
        page.wait_for_timeout(60)
    settle(page)


def point(page, x, y):
    box = page.locator(".ck-tl-canvas").first.bounding_box()
    page.mouse.move(box["x"] + x, box["y"] + y)


def pick_one(page, least=20):
    found = page.evaluate(FIND_SLICE.replace("> 20", f"> {least}", 1))
    assert found
    point(page, found["x"], found["y"])
    page.mouse.down()
    page.mouse.up()
    page.wait_for_url(re.compile(r"node=\d+\.\d+\.\d+"))
    until(page, f"() => {TL}.selected !== null")
    return found


def test_a_click_selects_what_is_under_the_pointer_and_a_reload_shows_it_again(page, base_url):
    start(page, base_url, "&t=100000000-104000000")
    found = pick_one(page)
    assert f"node=0.{found['rank']}.{found['node']}" in page.url
    assert page.evaluate(f"() => {TL}.selected.name") == found["name"]
    page.reload()
    until(
        page,
        f"() => Object.values(window.ckTimelines).length && {TL}.selected && {TL}.selected.node === {found['node']}",
    )
    settle(page)
    view = page.evaluate(f"() => {TL}.view")
    assert [round(view["t0"]), round(view["t1"])] == pytest.approx([100_000_000, 104_000_000], abs=2)


def test_the_tooltip_says_what_it_is_and_markup_stays_text(page, base_url):
    start(page, base_url, "&t=100000000-104000000")
    found = page.evaluate(FIND_SLICE)
    point(page, found["x"], found["y"])
    page.wait_for_selector(".ck-tl-tip:visible")
    assert found["name"] in page.locator(".ck-tl-tip").inner_text()
    assert page.locator(".ck-tl-tip b").count() == 1


def test_a_selected_operator_shows_arrows_and_brackets_follow_them(page, base_url):
    start(page, base_url, "&t=100000000-104000000")
    pick_one(page)
    ways = page.evaluate(f"() => {TL}.arrows.map((arrow) => arrow.way)")
    assert ways
    first = page.evaluate(f"() => {TL}.selected.node")
    way, key = ("out", "]") if "out" in ways else ("in", "[")
    target = page.evaluate(f"(way) => {TL}.arrows.find((arrow) => arrow.way === way).node", way)
    page.keyboard.press(key)
    until(page, f"(node) => {TL}.selected.node === node", target)
    assert target != first


def test_keys_step_along_the_row_and_f_centres_then_fits(page, base_url):
    start(page, base_url, "&t=100000000-104000000")
    first = pick_one(page)["node"]
    press(page, ".")
    until(page, f"(node) => {TL}.selected.node !== node", first)
    press(page, ",")
    until(page, f"(node) => {TL}.selected.node === node", first)
    press(page, "f")
    press(page, "f")
    shape = page.evaluate(f"() => [{TL}.selected.x, {TL}.selected.d, {TL}.view.t0, {TL}.view.t1]")
    x, dur, t0, t1 = shape
    assert x + dur / 2 == pytest.approx((t0 + t1) / 2, abs=0.03 * (t1 - t0))
    assert 0.4 < dur / (t1 - t0) <= 1


def test_search_counts_hits_and_enter_walks_them_both_ways(page, base_url):
    start(page, base_url)
    page.keyboard.press("/")
    page.keyboard.type("embedding/lookup")
    page.keyboard.press("Enter")
    until(page, "() => /^[\\d,]+ of [\\d,]+$/.test(document.querySelector('.ck-tl-hits').textContent)")
    shown = page.locator(".ck-tl-hits").inner_text()
    page.keyboard.press("Enter")
    until(page, "(text) => document.querySelector('.ck-tl-hits').textContent !== text", shown)
    page.keyboard.press("Shift+Enter")
    until(page, "(text) => document.querySelector('.ck-tl-hits').textContent === text", shown)
    until(page, f"() => {TL}.selected && {TL}.selected.name.includes('embedding/lookup')")


def test_a_range_sums_up_by_name_and_escape_closes_it(page, base_url):
    start(page, base_url)
    page.keyboard.down("Shift")
    point(page, 400, 300)
    page.mouse.down()
    point(page, 700, 320)
    page.mouse.up()
    page.keyboard.up("Shift")
    page.wait_for_selector(".ck-tl-drawer tbody tr")
    area = page.evaluate(f"() => {TL}.area")
    shown = page.locator(".ck-tl-drawer-head strong").inner_text()
    assert shown.endswith("selected")
    assert area["t1"] > area["t0"]
    page.keyboard.press("Escape")
    page.wait_for_selector(".ck-tl-drawer", state="hidden")


def test_folding_a_rank_and_filtering_lanes_change_the_rows(page, base_url):
    start(page, base_url)
    before = page.evaluate(f"() => {TL}.tracks.height")
    point(page, 60, 72)
    page.mouse.down()
    page.mouse.up()
    until(page, f"(height) => {TL}.tracks.height < height", before)
    page.fill(".ck-tl-filter", "rank 1 ")
    until(page, f"() => {TL}.tracks.list.every((track) => track.rank === 1)")
    settle(page)
    assert page.evaluate(f"() => {TL}.rectCount") > 0


def test_nothing_drawn_exceeds_the_bound_and_moving_asks_little(page, base_url):
    asked = []
    page.on("request", lambda request: asked.append(request.url) if "/timeline/window" in request.url else None)
    start(page, base_url)
    asked.clear()
    for key in "wwwwssaadd":
        page.keyboard.press(key)
        page.wait_for_timeout(15)
    settle(page)
    assert len(asked) <= 6
    assert 0 < page.evaluate(f"() => {TL}.rectCount") <= 4000
    assert page.evaluate(f"() => {TL}.feed.detail.length") <= 4000


def test_the_theme_changes_without_losing_the_window(page, base_url):
    start(page, base_url, "&t=100000000-104000000")
    light = page.evaluate(f"() => {TL}.tones.plot")
    page.click("#toggle-theme")
    until(page, f"(tone) => Object.values(window.ckTimelines).length && {TL}.layout && {TL}.tones.plot !== tone", light)
    settle(page)
    view = page.evaluate(f"() => {TL}.view")
    assert [round(view["t0"]), round(view["t1"])] == pytest.approx([100_000_000, 104_000_000], abs=2)


def test_nested_host_stacks_are_flame_rows(page, base_url):
    start(page, base_url, ref=STEP)
    rows = page.evaluate(f"() => Math.max(...{TL}.layout.ranks.flatMap((rank) => rank.lanes.map((lane) => lane.rows)))")
    assert rows >= 3
    page.keyboard.press("?")
    page.wait_for_selector(".ck-tl-help:visible")


def test_a_key_right_after_a_click_is_not_lost(page, base_url):
    start(page, base_url)
    span = page.evaluate(f"() => {TL}.view.t1 - {TL}.view.t0")
    pick_one(page, least=3)
    page.keyboard.press("w")
    page.wait_for_timeout(900)
    settle(page)
    assert page.evaluate(f"() => {TL}.view.t1 - {TL}.view.t0") < 0.8 * span
