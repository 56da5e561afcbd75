// Mouse and keyboard of the timeline, as in Perfetto.
(function () {
  "use strict";
  const parts = (window.CkTimelineParts = window.CkTimelineParts || {});
  let active = null;

  parts.attach = function (tl) {
    const canvas = tl.canvas;
    canvas.addEventListener("wheel", (event) => wheel(tl, event), { passive: false });
    canvas.addEventListener("pointerdown", (event) => press(tl, event));
    canvas.addEventListener("pointermove", (event) => hover(tl, event));
    canvas.addEventListener("pointerleave", () => leave(tl));
    canvas.addEventListener("dblclick", (event) => {
      const found = tl.pick(...spot(tl, event));
      if (found) tl.show(found, true);
    });
    tl.root.addEventListener("pointerenter", () => { active = tl; });
    tl.root.addEventListener("focusin", () => { active = tl; });
    active = active && active.root.isConnected ? active : tl;
  };

  const spot = (tl, event) => {
    const box = tl.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };

  function wheel(tl, event) {
    if (!tl.layout) return;
    event.preventDefault();
    const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
    const [x] = spot(tl, event);
    const [dx, dy] = [event.deltaX * unit, event.deltaY * unit];
    if (event.ctrlKey || event.metaKey) tl.zoom(Math.exp(Math.max(-200, Math.min(200, dy)) * 0.004), x, false);
    else if (event.shiftKey || Math.abs(dx) > Math.abs(dy)) tl.pan((dx || dy) / tl.width, false);
    else tl.scrollBy(dy);
  }

  function press(tl, event) {
    if (!tl.layout || event.button !== 0) return;
    const [x, y] = spot(tl, event);
    tl.canvas.focus({ preventScroll: true });
    tl.canvas.setPointerCapture(event.pointerId);
    const drag = y < parts.MINI && x > parts.GUTTER ? miniDrag(tl, x)
      : x < parts.GUTTER && y > parts.TOP ? gutterClick(tl, y)
        : event.shiftKey || y < parts.TOP ? areaDrag(tl, x) : panDrag(tl, x, y);
    tl.dragging = true;
    let far = false;
    const move = (next) => {
      const [nx, ny] = spot(tl, next);
      if (!far && Math.abs(nx - x) + Math.abs(ny - y) < 4) return;
      far = true;
      drag.move(nx, ny);
    };
    const done = (next) => {
      tl.canvas.removeEventListener("pointermove", move);
      tl.canvas.removeEventListener("pointerup", done);
      tl.canvas.removeEventListener("pointercancel", done);
      tl.dragging = false;
      tl.canvas.style.cursor = "";
      const [nx, ny] = spot(tl, next);
      if (far) { if (drag.drop) drag.drop(nx, ny); } else if (drag.click) drag.click(nx, ny);
    };
    tl.canvas.addEventListener("pointermove", move);
    tl.canvas.addEventListener("pointerup", done);
    tl.canvas.addEventListener("pointercancel", done);
  }

  function panDrag(tl, x, y) {
    const { t0, t1 } = tl.view;
    const perPixel = 1 / tl.scale;
    const scroll = tl.scroll;
    return {
      move(nx, ny) {
        tl.canvas.style.cursor = "grabbing";
        const by = (x - nx) * perPixel;
        tl.scroll = scroll;
        tl.scrollBy(y - ny);
        tl.go(t0 + by, t1 + by, false);
      },
      click(nx, ny) {
        const found = tl.pick(nx, ny);
        if (found || tl.selected) tl.select(found);
      },
    };
  }

  function areaDrag(tl, x) {
    const from = tl.timeOf(Math.max(x, parts.GUTTER));
    return {
      move(nx) {
        const to = tl.timeOf(Math.max(nx, parts.GUTTER));
        tl.area = { t0: Math.min(from, to), t1: Math.max(from, to) };
        tl.canvas.style.cursor = "col-resize";
        tl.repaint();
      },
      drop() { parts.area(tl); },
    };
  }

  function gutterClick(tl, y) {
    return {
      move() {},
      click() {
        const track = tl.tracks.at(y - parts.TOP + tl.scroll);
        if (!track || (track.kind === "lane" && !track.foldable)) return;
        tl.tracks.toggle(track.key);
        parts.rearranged(tl);
      },
    };
  }

  function miniDrag(tl, x) {
    const perPixel = tl.span / (tl.width - parts.GUTTER);
    const at = (x - parts.GUTTER) * perPixel;
    const { t0, t1 } = tl.view;
    const inside = at >= t0 && at <= t1;
    const half = (t1 - t0) / 2;
    const grip = inside ? at - (t0 + t1) / 2 : 0;
    const to = (nx) => {
      const middle = (nx - parts.GUTTER) * perPixel - grip;
      tl.go(middle - half, middle + half, false);
    };
    return { move: to, click: inside ? null : to };
  }

  function hover(tl, event) {
    const [x, y] = spot(tl, event);
    tl.pointer = { x, y };
    if (tl.dragging) { parts.tip(tl, null); return; }
    const found = tl.pick(x, y);
    tl.hover = found;
    tl.hoverTrack = tl.tracks && x < parts.GUTTER && y > parts.TOP ? tl.tracks.at(y - parts.TOP + tl.scroll) : null;
    tl.canvas.style.cursor = found || (tl.hoverTrack && (tl.hoverTrack.foldable || tl.hoverTrack.kind === "rank")) ? "pointer" : "";
    parts.tip(tl, found || (tl.hoverTrack ? { track: tl.hoverTrack } : null), x, y);
    tl.repaint();
  }

  function leave(tl) {
    tl.pointer = null;
    tl.hover = null;
    tl.hoverTrack = null;
    parts.tip(tl, null);
    tl.repaint();
  }

  async function step(tl, way) {
    if (!tl.selected) return;
    try {
      const { node } = await tl.feed.get("step", { rank: tl.selected.rank, row: tl.selected.node, way });
      if (node) { tl.select(node); tl.show(node, false); }
    } catch (error) {
      tl.onError(error.message);
    }
  }

  // "]" goes along arrows that leave the selection (launch first), "[" along those that reach it.
  function flow(tl, way) {
    const found = tl.arrows.filter((arrow) => arrow.way === way);
    const next = found.find((arrow) => arrow.kind === "launch") || found[0];
    if (next) { tl.select(next); tl.show(next, false); }
  }

  function mark(tl, keep) {
    if (!tl.selected && !tl.area) return;
    const made = tl.area ? { ...tl.area } : { t0: tl.selected.x, t1: tl.selected.x + tl.selected.d };
    if (!keep) tl.marks = tl.marks.filter((one) => one.keep);
    tl.marks.push({ ...made, keep });
    tl.repaint();
  }

  function centre(tl) {
    const one = tl.selected;
    if (!one) return;
    const { t0, t1 } = tl.goal();
    const off = Math.abs(one.x + one.d / 2 - (t0 + t1) / 2);
    if (off < (t1 - t0) * 0.02) { tl.show(one, true); return; }
    tl.tracks.reveal(one.row);
    const half = (t1 - t0) / 2;
    tl.show(one, false);
    if (!tl.target) tl.go(one.x + one.d / 2 - half, one.x + one.d / 2 + half, true);
  }

  function clear(tl) {
    if (!tl.help.hidden) { tl.help.hidden = true; return; }
    tl.area = null;
    tl.marks = tl.marks.filter((one) => one.keep);
    parts.closeDrawer(tl);
    tl.search.close();
    if (tl.selected) tl.select(null);
    if (tl.nodes) window.dash_clientside.set_props("nodes", { data: null });
    tl.repaint();
  }

  const KEYS = {
    w: (tl, again) => tl.zoom(again ? 0.86 : 0.66, pointerX(tl), true),
    s: (tl, again) => tl.zoom(again ? 1.16 : 1.5, pointerX(tl), true),
    a: (tl, again) => tl.pan(again ? -0.1 : -0.25, true),
    d: (tl, again) => tl.pan(again ? 0.1 : 0.25, true),
    ArrowLeft: (tl) => tl.pan(-0.1, true),
    ArrowRight: (tl) => tl.pan(0.1, true),
    ArrowUp: (tl) => tl.scrollBy(-40),
    ArrowDown: (tl) => tl.scrollBy(40),
    PageUp: (tl) => tl.scrollBy(-tl.height * 0.8),
    PageDown: (tl) => tl.scrollBy(tl.height * 0.8),
    0: (tl) => tl.home(),
    Home: (tl) => tl.home(),
    f: centre,
    ".": (tl) => step(tl, "next"),
    ",": (tl) => step(tl, "previous"),
    "]": (tl) => flow(tl, "out"),
    "[": (tl) => flow(tl, "in"),
    m: (tl) => mark(tl, false),
    M: (tl) => mark(tl, true),
    r: (tl) => { if (tl.selected) { tl.area = { t0: tl.selected.x, t1: tl.selected.x + tl.selected.d }; parts.area(tl); } },
    "/": (tl) => tl.search.open(),
    "?": (tl) => { tl.help.hidden = !tl.help.hidden; },
    Escape: clear,
  };

  const pointerX = (tl) => (tl.pointer && tl.pointer.x > parts.GUTTER ? tl.pointer.x : undefined);

  document.addEventListener("keydown", (event) => {
    const tl = active;
    if (!tl || !tl.root.isConnected || !tl.layout || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = event.target;
    if (at.closest && at.closest("input, textarea, select, [contenteditable], .ag-root")) return;
    if (at !== document.body && !tl.root.contains(at)) {
      if (!(at.closest && at.closest(".ck-page")) || /^(Arrow|Page|Home)/.test(event.key)) return;
    }
    const act = KEYS[event.key] || (event.key.length === 1 && event.key !== event.key.toLowerCase() ? KEYS[event.key.toLowerCase()] : null);
    if (!act) return;
    event.preventDefault();
    act(tl, event.repeat);
  });
})();
