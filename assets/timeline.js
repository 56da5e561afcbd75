// The timeline: one instance per <div class="ck-timeline" data-ref data-at>, on the Timeline and the Compare page.
// It owns its view; the shell's stores (selection, window) are written after moving and followed when others write.
// Instances with the same data-group show the same window. `window.ckTimelines[id]` gives access for tests.
(function () {
  "use strict";
  const parts = (window.CkTimelineParts = window.CkTimelineParts || {});
  const kept = new Map();
  const EASE = 0.32;
  const LEAST = 30;
  const STILL = window.matchMedia("(prefers-reduced-motion: reduce)");

  class ChakraTimeline {
    constructor(root) {
      this.root = root;
      this.ref = root.dataset.ref;
      this.at = Number(root.dataset.at || 0);
      this.group = root.dataset.group || "";
      this.dpr = window.devicePixelRatio || 1;
      this.view = { t0: 0, t1: 1 };
      this.target = null;
      this.scroll = 0;
      this.span = 1;
      this.layout = null;
      this.hidden = new Set();
      this.marks = [];
      this.area = null;
      this.selected = null;
      this.arrows = [];
      this.hover = null;
      this.pointer = null;
      this.widths = new Map();
      this.rectCount = 0;
      this.lastDrawMs = 0;
      this.lastFetchMs = 0;
      this.lastSettleMs = 0;
      this.movedAt = 0;
      this.written = null;
      this.search = new parts.Search(this);
      this.feed = new parts.Feed(this);
      parts.build(this);
      this.resize();
      this.theme();
      this.observer = new ResizeObserver(() => this.resize());
      this.observer.observe(this.stage);
      parts.attach(this);
      this.load();
    }

    async load() {
      try {
        const layout = await this.feed.get("layout", {});
        this.layout = layout;
        this.span = Math.max(layout.span, 1);
        this.colours = Object.fromEntries(layout.categories.map((one) => [one.code, one.colour]));
        this.inks = Object.fromEntries(layout.categories.map((one) => [one.code, parts.textOn(one.colour)]));
        const before = kept.get(this.key());
        this.tracks = new parts.Tracks(layout, before && before.open);
        if (before) { this.scroll = before.scroll; this.hidden = before.hidden; }
        const state = fromAddress();
        const [t0, t1] = state.window || [-0.01 * this.span, 1.01 * this.span];
        this.written = state.window;
        this.view = { t0, t1 };
        parts.toolbar(this);
        this.clamp();
        this.feed.overview();
        await this.feed.now();
        if (state.selection) this.follow(state.selection, !state.window);
        this.mark(state.nodes);
        this.root.dataset.ready = "true";
      } catch (error) {
        this.onError(error.message);
      }
    }

    key() { return `${this.root.id}|${this.ref}`; }

    // Geometry
    get scale() { return (this.width - parts.GUTTER) / (this.view.t1 - this.view.t0); }
    xOf(time) { return parts.GUTTER + (time - this.view.t0) * this.scale; }
    timeOf(x) { return this.view.t0 + (x - parts.GUTTER) / this.scale; }
    ticks() { return parts.ticks(this.view.t0, this.view.t1, this.width - parts.GUTTER, 110); }

    box() {
      const top = this.scroll;
      const bottom = top + this.height - parts.TOP;
      const view = this.goal();
      const width = this.width - parts.GUTTER;
      const reach = 8 * 18;
      return { ...view, ns: (view.t1 - view.t0) / width, width, rows: this.tracks ? this.tracks.between(top, bottom) : [], wider: this.tracks ? this.tracks.between(top - reach, bottom + reach) : [] };
    }

    resize() {
      const { width, height } = this.stage.getBoundingClientRect();
      this.dpr = window.devicePixelRatio || 1;
      this.width = Math.max(width, parts.GUTTER + 60);
      this.height = Math.max(height, parts.TOP + 40);
      this.canvas.width = Math.round(this.width * this.dpr);
      this.canvas.height = Math.round(this.height * this.dpr);
      this.context = this.canvas.getContext("2d");
      this.moved(false);
    }

    theme() {
      this.tones = parts.tones(this.root);
    this.hatch = parts.hatch(this);
      this.repaint();
    }

    // Moving
    goal() { return this.target || this.view; }

    go(t0, t1, ease) {
      const span = Math.max(t1 - t0, LEAST);
      const next = this.clamped({ t0: (t0 + t1 - span) / 2, t1: (t0 + t1 + span) / 2 });
      if (ease && !STILL.matches) this.target = next;
      else { this.view = next; this.target = null; }
      this.moved(true);
    }

    clamped(view) {
      const most = this.span * 1.04;
      const span = Math.min(view.t1 - view.t0, most);
      const middle = (view.t0 + view.t1) / 2;
      const edge = Math.min(span * 0.5, this.span * 0.02 + span * 0.1);
      const t0 = Math.min(Math.max(middle - span / 2, -edge), this.span + edge - span);
      return { t0, t1: t0 + span };
    }

    clamp() {
      this.view = this.clamped(this.view);
      this.moved(false);
    }

    zoom(factor, x, ease) {
      const view = this.goal();
      const share = x === undefined ? 0.5 : Math.min(Math.max((x - parts.GUTTER) / (this.width - parts.GUTTER), 0), 1);
      const anchor = view.t0 + share * (view.t1 - view.t0);
      const span = Math.max(Math.min((view.t1 - view.t0) * factor, this.span * 1.04), LEAST);
      this.go(anchor - share * span, anchor + (1 - share) * span, ease);
    }

    pan(share, ease) {
      const view = this.goal();
      const by = share * (view.t1 - view.t0);
      this.go(view.t0 + by, view.t1 + by, ease);
    }

    home() {
      const pad = this.span * 0.01;
      this.go(-pad, this.span + pad);
    }

    scrollBy(pixels) {
      const most = this.tracks ? Math.max(this.tracks.height - (this.height - parts.TOP), 0) : 0;
      this.scroll = Math.min(Math.max(this.scroll + pixels, 0), most);
      this.moved(false);
    }

    moved(inTime) {
      this.movedAt = performance.now();
      this.repaint();
      if (this.layout) this.feed.soon();
      if (inTime && this.layout && !this.led) {
        window.clearTimeout(this.writer);
        this.writer = window.setTimeout(() => this.write(), 220);
        if (this.group) parts.lead(this);
      }
    }

    // Tell the shell: the window, or null where it is the whole run.
    write() {
      if (!this.root.isConnected) return;
      const { t0, t1 } = this.goal();
      const all = t0 <= 0 && t1 >= this.span;
      const value = all ? null : [Math.max(Math.round(t0), 0), Math.max(Math.round(t1), 1)];
      if (JSON.stringify(value) === JSON.stringify(this.written)) return;
      this.written = value;
      window.dash_clientside.set_props("window", { data: value });
    }

    // Follow the shell's window when somebody else wrote it.
    onWindow(value) {
      if (!this.layout || JSON.stringify(value) === JSON.stringify(this.written)) return;
      this.written = value;
      if (value) this.go(value[0], value[1], true); else this.home();
    }

    repaint() {
      if (this.frame) return;
      this.frame = window.requestAnimationFrame(() => {
        this.frame = 0;
        if (!this.root.isConnected) { this.destroy(); return; }
        if (!this.tones) return;
        if (this.target) this.ease();
        parts.draw(this);
        parts.status(this);
      });
    }

    ease() {
      const { t0, t1 } = this.view;
      const to = this.target;
      const near = (to.t1 - to.t0) / 2000;
      if (Math.abs(to.t0 - t0) < near && Math.abs(to.t1 - t1) < near) {
        this.view = to;
        this.target = null;
        return;
      }
      this.view = { t0: t0 + (to.t0 - t0) * EASE, t1: t1 + (to.t1 - t1) * EASE };
      this.repaint();
    }

    // Answers
    onDetail() {
      this.lastFetchMs = this.feed.lastFetchMs;
      if (this.hover && this.pointer) this.hover = null;
      this.say("");
      this.findMarked();
      this.repaint();
      this.onSettled();
    }

    onSettled() {
      window.requestAnimationFrame(() => { this.lastSettleMs = performance.now() - this.movedAt; this.settledAt = performance.now(); });
    }

    onBase() { this.repaint(); }
    onError(message) { this.say(message); }
    say(text) { this.notice.textContent = text; this.notice.hidden = !text; }
    get idle() { return !!this.layout && !this.feed.busy && !this.target && !this.frame; }

    // Selection
    pick(x, y) {
      if (!this.layout || x < parts.GUTTER || y < parts.TOP) return null;
      const row = this.tracks.rowAt(y - parts.TOP + this.scroll);
      if (row < 0) return null;
      for (const rects of [this.feed.detail, this.feed.base]) {
        if (!rects || !rects.rowSet.has(row)) continue;
        const i = rects.near(row, this.timeOf(x), 3 / this.scale);
        if (i < 0 || this.hidden.has(rects.c[i])) return null;
        return { row, node: rects.n[i], x: rects.x[i], d: rects.d[i], c: rects.c[i], count: rects.m[i], busy: rects.b[i], name: rects.names[rects.k[i]], rank: this.rankOf(row) };
      }
      return null;
    }

    rankOf(row) {
      for (const rank of this.layout.ranks) if (rank.lanes.some((lane) => row >= lane.row && row < lane.row + lane.rows)) return rank.rank;
      return -1;
    }

    // Select an event and tell the shell; null clears.
    select(event) {
      const data = event ? { run: this.at, rank: event.rank, row: event.node } : null;
      window.dash_clientside.set_props("selection", { data });
      this.follow(data, false);
    }

    // Show the selection of the shell here; `centre` moves to it where it is out of sight.
    async follow(data, centre) {
      const mine = data && data.run === this.at ? data : null;
      const key = JSON.stringify(mine);
      if (key === this.followed) return;
      this.followed = key;
      if (!mine) { this.selected = null; this.arrows = []; this.repaint(); return; }
      try {
        const answer = await this.feed.get("links", { rank: mine.rank, row: mine.row });
        if (this.followed !== key) return;
        this.selected = answer.node;
        this.arrows = answer.arrows;
        this.spoken.textContent = answer.node ? `${answer.node.name}, ${parts.duration(answer.node.d)}` : "The selected node has no time";
        if (!answer.node) this.say("The selected node has no start time, so it is not on the timeline.");
        else if (centre || !this.inSight(answer.node)) this.show(answer.node, false);
        this.repaint();
      } catch (error) {
        this.onError(error.message);
      }
    }

    // Several chosen nodes (a row of a table): drawn in their colours while all else pales.
    mark(nodes) {
      if (nodes === this.nodes) return;
      this.nodes = nodes;
      this.marked = null;
      this.findMarked();
      this.repaint();
    }

    async findMarked() {
      const detail = this.feed.detail;
      if (!this.nodes || !detail) return;
      const key = this.nodes;
      try {
        const rows = parts.ranges([...detail.rowSet].sort((a, b) => a - b));
        const width = Math.min(Math.ceil((detail.t1 - detail.t0) / Math.max(detail.resolution, 1e-9)), 16384);
        const found = await this.feed.get("marked", { nodes: key, at: this.at, t0: detail.t0, t1: detail.t1, width, rows });
        if (this.nodes !== key || this.feed.detail !== detail) return;
        this.marked = found;
        this.repaint();
      } catch (error) {
        this.onError(error.message);
      }
    }

    inSight(event) {
      const at = this.tracks.rows.get(event.row);
      const y = at ? at.y - this.scroll : -1;
      const { t0, t1 } = this.goal();
      return !!at && at.h > 8 && y >= 0 && y + at.h <= this.height - parts.TOP && event.x + event.d > t0 && event.x < t1;
    }

    // Bring an event into sight; `fit` also makes it fill a good part of the window.
    show(event, fit) {
      this.tracks.reveal(event.row);
      const at = this.tracks.rows.get(event.row);
      const room = this.height - parts.TOP;
      if (at && (at.y < this.scroll || at.y + at.h > this.scroll + room)) {
        this.scroll = Math.max(Math.min(at.y - room / 2, this.tracks.height - room), 0);
      }
      const { t0, t1 } = this.goal();
      const middle = event.x + event.d / 2;
      let span = t1 - t0;
      if (fit) span = Math.max(event.d * 1.6, LEAST);
      else if (span > 400 * Math.max(event.d, 1)) span = Math.min(span, Math.max(event.d, 1) * 400);
      else if (event.d > span) span = event.d * 1.2;
      else if (event.x >= t0 && event.x + event.d <= t1) { this.moved(false); return; }
      this.go(middle - span / 2, middle + span / 2, true);
    }

    destroy() {
      if (this.layout) kept.set(this.key(), { open: this.tracks.open, scroll: this.scroll, hidden: this.hidden });
      window.clearTimeout(this.writer);
      window.clearTimeout(this.feed.timer);
      this.observer.disconnect();
      if (window.ckTimelines[this.root.id] === this) delete window.ckTimelines[this.root.id];
    }
  }

  function fromAddress() {
    const query = new URLSearchParams(window.location.search);
    const node = /^(\d{1,11})\.(\d{1,11})\.(\d{1,11})$/.exec(query.get("node") || "");
    const time = /^(\d{1,18})-(\d{1,18})$/.exec(query.get("t") || "");
    return {
      nodes: (window.ckView && window.ckView.nodes) || query.get("nodes"),
      selection: node ? { run: +node[1], rank: +node[2], row: +node[3] } : null,
      window: time && +time[1] < +time[2] ? [+time[1], +time[2]] : null,
    };
  }

  // The others of a group show what the moved one shows.
  parts.lead = function (leader) {
    for (const other of Object.values(window.ckTimelines)) {
      if (other === leader || other.group !== leader.group || !other.layout) continue;
      const { t0, t1 } = leader.goal();
      other.led = true;
      other.view = { t0, t1 };
      other.target = null;
      other.moved(true);
      other.led = false;
    }
  };

  window.ckTimelines = window.ckTimelines || {};
  function mount() {
    for (const root of document.querySelectorAll(".ck-timeline:not([data-mounted])")) {
      root.dataset.mounted = "true";
      const before = window.ckTimelines[root.id];
      if (before) before.destroy();
      window.ckTimelines[root.id] = new ChakraTimeline(root);
    }
    for (const one of Object.values(window.ckTimelines)) if (!one.root.isConnected) one.destroy();
  }
  let waiting = false;
  new MutationObserver((changes) => {
    const theme = changes.some((change) => change.type === "attributes");
    if (theme) Object.values(window.ckTimelines).forEach((one) => one.theme());
    if (waiting) return;
    waiting = true;
    window.requestAnimationFrame(() => { waiting = false; mount(); });
  }).observe(document.documentElement, { childList: true, subtree: true, attributes: true, attributeFilter: ["data-theme"] });

  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    ckTimeline: {
      // The stores changed, here or elsewhere: every instance follows.
      follow(selection, window_, nodes) {
        for (const one of Object.values(window.ckTimelines)) {
          if (!one.layout) continue;
          one.onWindow(window_ || null);
          one.follow(selection || null, false);
          one.mark(nodes || null);
        }
        return window.dash_clientside.no_update;
      },
    },
  });
  parts.ChakraTimeline = ChakraTimeline;
})();
