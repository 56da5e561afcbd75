// Drawing of the timeline on its canvas; everything is in time units, so what is there moves with the view at once.
(function () {
  "use strict";
  const parts = (window.CkTimelineParts = window.CkTimelineParts || {});
  const GUTTER = 196;
  const MINI = 38;
  const AXIS = 24;
  const TOP = MINI + AXIS;
  const MOST = 4000;
  const FONT = "11px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
  const BOLD = `600 ${FONT}`;
  const GROUPS = { compute: 1, communication: 10, memory: 8, host: 11 };
  const ARROWS = {
    launch: { tone: "accent", dash: [], width: 1.6 },
    data: { tone: "good", dash: [], width: 1.3 },
    control: { tone: "muted", dash: [5, 3], width: 1.2 },
    stream: { tone: "muted", dash: [2, 3], width: 1.2 },
    sync: { tone: "warn", dash: [6, 3, 1, 3], width: 1.5 },
    inter_thread: { tone: "bad", dash: [4, 3], width: 1.3 },
  };

  function draw(tl) {
    const began = performance.now();
    const g = tl.context;
    const { width, height } = tl;
    g.setTransform(tl.dpr, 0, 0, tl.dpr, 0, 0);
    g.fillStyle = tl.tones.plot;
    g.fillRect(0, 0, width, height);
    g.font = FONT;
    g.textBaseline = "middle";
    if (tl.layout) {
      g.save();
      g.beginPath();
      g.rect(GUTTER, TOP, width - GUTTER, height - TOP);
      g.clip();
      stripes(tl);
      tl.rectCount = slices(tl);
      arrows(tl);
      marks(tl);
      g.restore();
      gutter(tl);
      axis(tl);
      minimap(tl);
      scrollbar(tl);
    }
    tl.lastDrawMs = performance.now() - began;
  }

  function stripes(tl) {
    const g = tl.context;
    for (const track of tl.tracks.list) {
      const y = track.y - tl.scroll + TOP;
      if (y > tl.height || y + track.h < TOP) continue;
      if (track.kind === "rank") {
        g.fillStyle = tl.tones.soft;
        g.fillRect(GUTTER, y, tl.width, track.h);
      }
      g.fillStyle = tl.tones.grid;
      g.fillRect(GUTTER, y + track.h - 1, tl.width, 1);
    }
    g.fillStyle = tl.tones.grid;
    for (const tick of tl.ticks().list) g.fillRect(Math.round(tl.xOf(tick.time)), TOP, 1, tl.height);
  }

  // Draw detail, and around it (or under rows it lacks) the coarse picture of the whole run.
  function slices(tl) {
    const detail = tl.feed.detail;
    const base = tl.feed.base;
    let drawn = 0;
    if (detail) drawn += layer(tl, detail, () => [[-Infinity, Infinity]], MOST);
    const inside = detail && detail.t0 <= tl.view.t0 && detail.t1 >= tl.view.t1;
    if (base) {
      const outside = detail ? [[-Infinity, detail.t0], [detail.t1, Infinity]] : null;
      drawn += layer(tl, base, (row) => {
        if (!detail || !detail.rowSet.has(row)) return [[-Infinity, Infinity]];
        return inside ? [] : outside;
      }, MOST - drawn);
    }
    veil(tl);
    outlines(tl);
    return drawn;
  }

  function layer(tl, rects, clips, most) {
    const g = tl.context;
    const { t0, t1 } = tl.view;
    const scale = tl.scale;
    const texts = [];
    const query = tl.search.text;
    let category = -1;
    let drawn = 0;
    for (const i of rects.order) {
      const start = rects.x[i];
      const dur = rects.d[i];
      if (start > t1 || start + dur < t0) continue;
      const at = tl.tracks.rows.get(rects.row[i]);
      if (!at) continue;
      const y = at.y - tl.scroll + TOP;
      if (y > tl.height || y + at.h < TOP || tl.hidden.has(rects.c[i])) continue;
      if (rects.c[i] !== category) { category = rects.c[i]; g.fillStyle = tl.colours[category]; }
      for (const [low, high] of clips(rects.row[i])) {
        const from = Math.max(start, low, t0 - 10 / scale);
        const to = Math.min(start + dur, high, t1 + 10 / scale);
        if (to < from || (to === from && dur > 0) || drawn >= most) continue;
        const x = GUTTER + (from - t0) * scale;
        const w = Math.max((to - from) * scale, 1);
        one(tl, rects, i, x, y, w, at.h, query);
        drawn += 1;
        if (rects.m[i] === 1 && w > 26 && at.h >= 12) texts.push([i, x, y, w, at.h]);
      }
    }
    g.globalAlpha = 1;
    labels(tl, rects, texts);
    return drawn;
  }

  // An event is a solid bar; several summed up are a pale, hatched band, filled from below as far as they take its time.
  function one(tl, rects, i, x, y, w, h, query) {
    const g = tl.context;
    const dim = query && !tl.search.matches(rects.names[rects.k[i]]) ? 0.25 : 1;
    if (rects.m[i] === 1) {
      g.globalAlpha = dim;
      g.fillRect(x, y, w > 3 ? w - 0.7 : w, h);
      return;
    }
    const share = rects.d[i] > 0 ? Math.min(rects.b[i] / rects.d[i], 1) : 0;
    g.globalAlpha = 0.32 * dim;
    g.fillRect(x, y, w, h);
    g.globalAlpha = 0.85 * dim;
    const filled = Math.max(share * h, 1);
    g.fillRect(x, y + h - filled, w, filled);
    if (w > 6 && h > 5) {
      g.globalAlpha = 0.5 * dim;
      g.fillStyle = tl.hatch;
      g.fillRect(x, y, w, h);
      g.fillStyle = tl.colours[rects.c[i]];
    }
  }

  // Thin diagonal lines in the colour of the background: what tells a band of many events from one long event.
  function hatch(tl) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 6;
    const g = tile.getContext("2d");
    g.strokeStyle = tl.tones.plot;
    g.lineWidth = 1;
    for (const shift of [-6, 0, 6]) {
      g.beginPath();
      g.moveTo(shift, 6);
      g.lineTo(shift + 6, 0);
      g.stroke();
    }
    return tl.context.createPattern(tile, "repeat");
  }

  function labels(tl, rects, texts) {
    const g = tl.context;
    for (const [i, x, y, w, h] of texts) {
      const left = Math.max(x, GUTTER);
      const room = x + w - left - 8;
      if (room < 16) continue;
      const name = rects.names[rects.k[i]];
      const shown = fit(tl, name, room);
      if (!shown) continue;
      const dim = tl.search.text && !tl.search.matches(name);
      g.globalAlpha = dim ? 0.55 : 1;
      g.fillStyle = dim ? tl.tones.ink : tl.inks[rects.c[i]];
      g.fillText(shown, left + 4, y + h / 2 + 0.5);
    }
    g.globalAlpha = 1;
  }

  function measure(tl, text) {
    let width = tl.widths.get(text);
    if (width === undefined) {
      if (tl.widths.size > 20000) tl.widths.clear();
      width = tl.context.measureText(text).width;
      tl.widths.set(text, width);
    }
    return width;
  }

  // As much of a text as fits; nothing where not even three letters do.
  function fit(tl, text, room) {
    const width = measure(tl, text);
    if (width <= room) return text;
    const length = Math.floor((text.length * (room - 7)) / width);
    return length >= 3 ? `${text.slice(0, length)}…` : "";
  }

  // Chosen nodes keep their colour, everything else pales: a veil over the lanes with a hole for each.
  function veil(tl) {
    const found = tl.marked;
    if (!found || !found.row.length) return;
    const g = tl.context;
    g.save();
    g.beginPath();
    g.rect(GUTTER, TOP, tl.width - GUTTER, tl.height - TOP);
    const holes = [];
    for (let i = 0; i < found.row.length; i += 1) {
      const at = tl.tracks.rows.get(found.row[i]);
      if (!at) continue;
      const y = at.y - tl.scroll + TOP;
      const x = tl.xOf(found.x[i]);
      const w = Math.max(found.d[i] * tl.scale, 2);
      if (y > tl.height || y + at.h < TOP || x > tl.width || x + w < GUTTER) continue;
      const left = Math.max(x, GUTTER);
      holes.push([left, y, Math.min(x + w, tl.width) - left, at.h]);
    }
    for (const hole of holes) g.rect(...hole);
    g.globalAlpha = 0.66;
    g.fillStyle = tl.tones.plot;
    g.fill("evenodd");
    g.globalAlpha = 1;
    g.fillStyle = tl.tones.warn;
    for (const [x, y, w, h] of holes) g.fillRect(x, y + h - 2, w, 2);
    g.restore();
  }

  function outlines(tl) {
    const g = tl.context;
    const outline = (event, tone, width) => {
      const at = event && tl.tracks.rows.get(event.row);
      if (!at) return;
      const x = tl.xOf(event.x);
      const w = Math.max(event.d * tl.scale, 2);
      g.strokeStyle = tone;
      g.lineWidth = width;
      const left = Math.max(x, GUTTER - 4);
      g.strokeRect(left - 0.5, at.y - tl.scroll + TOP - 0.5, Math.min(x + w, tl.width + 4) - left, at.h + 1);
    };
    if (tl.hover) outline(tl.hover, tl.tones.muted, 1);
    const hit = tl.search.current();
    if (hit) outline(hit, tl.tones.warn, 2);
    if (tl.selected) outline(tl.selected, tl.tones.ink, 2);
  }

  function arrows(tl) {
    const g = tl.context;
    const me = tl.selected && tl.tracks.locate(tl.selected.row);
    if (!me) return;
    for (const arrow of tl.arrows) {
      const other = tl.tracks.locate(arrow.row);
      if (!other) continue;
      const style = ARROWS[arrow.kind] || ARROWS.control;
      const mine = [me.y + me.h / 2, tl.selected];
      const its = [other.y + other.h / 2, arrow];
      const [[y0, from], [y1, to]] = arrow.way === "in" ? [its, mine] : [mine, its];
      const launch = arrow.kind === "launch";
      curve(tl, launch ? tl.xOf(from.x + Math.min(from.d, Math.max(to.x - from.x, 0))) : tl.xOf(from.x + from.d), y0 - tl.scroll + TOP, tl.xOf(to.x), y1 - tl.scroll + TOP, style);
    }
    g.setLineDash([]);
  }

  function curve(tl, x0, y0, x1, y1, style) {
    const limit = 20 * tl.width;
    if (Math.abs(x0) > limit && Math.abs(x1) > limit && x0 > 0 === x1 > 0) return;
    const g = tl.context;
    const clamp = (x) => Math.max(-limit, Math.min(limit, x));
    const [a, b] = [clamp(x0), clamp(x1)];
    const bend = Math.max(18, Math.min(Math.abs(b - a) / 2, 90));
    g.strokeStyle = g.fillStyle = tl.tones[style.tone];
    g.lineWidth = style.width;
    g.setLineDash(style.dash);
    g.beginPath();
    g.moveTo(a, y0);
    g.bezierCurveTo(a + bend, y0, b - bend, y1, b - 5, y1);
    g.stroke();
    g.setLineDash([]);
    g.beginPath();
    g.moveTo(b, y1);
    g.lineTo(b - 7, y1 - 3.5);
    g.lineTo(b - 7, y1 + 3.5);
    g.fill();
  }

  function marks(tl) {
    const g = tl.context;
    if (tl.area) {
      const [x0, x1] = [tl.xOf(tl.area.t0), tl.xOf(tl.area.t1)];
      g.globalAlpha = 0.13;
      g.fillStyle = tl.tones.accent;
      g.fillRect(x0, TOP, x1 - x0, tl.height);
      g.globalAlpha = 0.9;
      g.fillRect(x0, TOP, 1, tl.height);
      g.fillRect(x1, TOP, 1, tl.height);
      g.globalAlpha = 1;
    }
    for (const mark of tl.marks) {
      g.fillStyle = tl.tones.warn;
      for (const time of [mark.t0, mark.t1]) g.fillRect(Math.round(tl.xOf(time)), TOP, 1, tl.height);
      g.globalAlpha = 0.07;
      g.fillRect(tl.xOf(mark.t0), TOP, (mark.t1 - mark.t0) * tl.scale, tl.height);
      g.globalAlpha = 1;
    }
    if (tl.pointer && tl.pointer.x > GUTTER && tl.pointer.y > TOP) {
      g.fillStyle = tl.tones.line;
      g.fillRect(Math.round(tl.pointer.x), TOP, 1, tl.height);
    }
  }

  function gutter(tl) {
    const g = tl.context;
    g.save();
    g.beginPath();
    g.rect(0, TOP, GUTTER, tl.height - TOP);
    g.clip();
    g.fillStyle = tl.tones.raised;
    g.fillRect(0, TOP, GUTTER, tl.height);
    for (const track of tl.tracks.list) {
      const y = track.y - tl.scroll + TOP;
      if (y <= tl.height && y + track.h >= TOP) label(tl, track, y);
    }
    g.fillStyle = tl.tones.line;
    g.fillRect(GUTTER - 1, TOP, 1, tl.height);
    g.restore();
  }

  function label(tl, track, y) {
    const g = tl.context;
    if (track === tl.hoverTrack && (track.kind === "rank" || track.foldable)) {
      g.fillStyle = tl.tones.soft;
      g.fillRect(0, y, GUTTER - 1, track.h);
    }
    g.fillStyle = tl.tones.grid;
    g.fillRect(0, y + track.h - 1, GUTTER, 1);
    const rank = track.kind === "rank";
    const middle = y + (rank && track.open ? track.h / 2 : Math.min(track.h, 24) / 2);
    if (rank || track.foldable) {
      g.fillStyle = tl.tones.muted;
      g.fillText(track.open ? "▾" : "▸", rank ? 6 : 16, middle);
    }
    g.font = rank ? BOLD : FONT;
    g.fillStyle = tl.tones.ink;
    const more = rank ? (track.open ? "" : `${track.lanes} lanes`) : !track.open ? `${track.rows} rows` : "";
    const moreRoom = more ? measure(tl, more) + 12 : 6;
    g.fillText(fit(tl, track.label, GUTTER - (rank ? 20 : 30) - moreRoom), rank ? 20 : 30, middle);
    g.font = FONT;
    g.fillStyle = tl.tones.muted;
    if (more) g.fillText(more, GUTTER - moreRoom + 2, middle);
    if (track.note && track.h >= 36) g.fillText(fit(tl, track.note, GUTTER - 40), rank ? 20 : 30, middle + 14);
    else if (track.note && rank) g.fillText(fit(tl, track.note, GUTTER - 40 - measure(tl, track.label)), 30 + measure(tl, track.label), middle);
  }

  function axis(tl) {
    const g = tl.context;
    g.fillStyle = tl.tones.raised;
    g.fillRect(0, MINI, tl.width, AXIS);
    g.fillStyle = tl.tones.line;
    g.fillRect(0, TOP - 1, tl.width, 1);
    g.fillRect(0, MINI - 1, tl.width, 1);
    const ticks = tl.ticks();
    for (const tick of ticks.list) {
      const x = Math.round(tl.xOf(tick.time));
      if (x < GUTTER) continue;
      g.fillStyle = tl.tones.line;
      g.fillRect(x, TOP - 7, 1, 6);
      g.fillStyle = tl.tones.muted;
      if (x + 4 + measure(tl, tick.label) < tl.width) g.fillText(tick.label, x + 4, MINI + AXIS / 2);
    }
    g.fillStyle = tl.tones.raised;
    g.fillRect(0, MINI, GUTTER, AXIS - 1);
    g.fillStyle = tl.tones.ink;
    g.fillText(ticks.anchor ? `${ticks.anchor} +` : "time", 8, MINI + AXIS / 2);
    for (const mark of tl.marks.slice(-1)) {
      const x = tl.xOf((mark.t0 + mark.t1) / 2);
      const text = parts.duration(mark.t1 - mark.t0);
      if (x < GUTTER || x > tl.width) continue;
      const half = measure(tl, text) / 2;
      g.fillStyle = tl.tones.warn;
      g.fillRect(x - half - 5, MINI + 3, 2 * half + 10, AXIS - 8);
      g.fillStyle = tl.tones.plot;
      g.fillText(text, x - half, MINI + AXIS / 2 - 1);
    }
  }

  // The whole run above the axis, and the window in it.
  function minimap(tl) {
    const g = tl.context;
    g.fillStyle = tl.tones.soft;
    g.fillRect(0, 0, tl.width, MINI - 1);
    const { overview } = tl.layout;
    const scale = (tl.width - GUTTER) / Math.max(tl.span, 1);
    const w = Math.max(overview.bin * scale, 1);
    const names = Object.keys(overview.series);
    for (let i = 0; i < overview.series[names[0]].length; i += 1) {
      let y = MINI - 2;
      const x = GUTTER + i * overview.bin * scale;
      if (x > tl.width) break;
      for (const name of names) {
        const h = (overview.series[name][i] / 1000) * (MINI - 6);
        if (h <= 0) continue;
        g.fillStyle = tl.colours[GROUPS[name]];
        g.fillRect(x, y - h, w + 0.5, h);
        y -= h;
      }
    }
    const [x0, x1] = [GUTTER + Math.max(tl.view.t0, 0) * scale, GUTTER + Math.min(tl.view.t1, tl.span) * scale];
    g.fillStyle = tl.tones.plot;
    g.globalAlpha = 0.62;
    g.fillRect(GUTTER, 0, x0 - GUTTER, MINI - 1);
    g.fillRect(x1, 0, tl.width - x1, MINI - 1);
    g.globalAlpha = 1;
    g.strokeStyle = tl.tones.accent;
    g.lineWidth = 1.5;
    g.strokeRect(x0, 1, Math.max(x1 - x0, 3), MINI - 3);
    g.fillStyle = tl.tones.raised;
    g.fillRect(0, 0, GUTTER, MINI - 1);
    g.fillStyle = tl.tones.muted;
    g.fillText(`busy ${overview.of}`, 8, 12);
    g.fillText(`whole run ${parts.duration(tl.span)}`, 8, 26);
  }

  function scrollbar(tl) {
    const room = tl.height - TOP;
    if (tl.tracks.height <= room) return;
    const g = tl.context;
    const h = Math.max((room * room) / tl.tracks.height, 24);
    const y = TOP + (tl.scroll / (tl.tracks.height - room)) * (room - h);
    g.globalAlpha = 0.5;
    g.fillStyle = tl.tones.muted;
    g.fillRect(tl.width - 6, y, 4, h);
    g.globalAlpha = 1;
  }

  Object.assign(parts, { draw, hatch, GUTTER, MINI, AXIS, TOP });
})();
