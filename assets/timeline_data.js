// Requests of the timeline: coalesced, the stale ones dropped; and the rectangles of an answer, indexed for drawing.
(function () {
  "use strict";
  const parts = (window.CkTimelineParts = window.CkTimelineParts || {});
  const QUIET = 60;
  const PATIENCE = 160;
  const WIDER = 0.3;
  const COARSE = 1500;
  const AGAIN = 500;

  class Rects {
    constructor(answer, rows, width) {
      Object.assign(this, answer);
      this.resolution = (answer.t1 - answer.t0) / width;
      this.rowSet = new Set(rows);
      this.length = answer.row.length;
      this.byRow = new Map();
      for (let i = 0; i < this.length; i += 1) {
        const list = this.byRow.get(answer.row[i]);
        if (list) list.push(i); else this.byRow.set(answer.row[i], [i]);
      }
      this.order = Array.from({ length: this.length }, (_, i) => i).sort((a, b) => answer.c[a] - answer.c[b]);
    }

    // The rectangle of a row nearest to a time, at most `slack` ns away; -1 where there is none.
    near(row, time, slack) {
      const list = this.byRow.get(row) || [];
      let low = 0;
      let high = list.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (this.x[list[middle]] <= time) low = middle + 1; else high = middle;
      }
      let best = -1;
      let least = slack;
      for (const at of [low - 2, low - 1, low]) {
        if (at < 0 || at >= list.length) continue;
        const i = list[at];
        const off = Math.max(this.x[i] - time, time - (this.x[i] + this.d[i]), 0);
        if (off < least || (off === 0 && least === 0)) { best = i; least = off; }
      }
      return best;
    }

    indexOf(row, node) {
      return (this.byRow.get(row) || []).find((i) => this.n[i] === node) ?? -1;
    }
  }

  class Feed {
    // `host` gives ref(), view(), box() and is told of answers: onDetail(rects), onBase(rects), onError(message).
    constructor(host) {
      this.host = host;
      this.timer = 0;
      this.waitingSince = 0;
      this.request = null;
      this.detail = null;
      this.base = null;
      this.lastFetchMs = 0;
    }

    async get(path, query, signal) {
      const text = new URLSearchParams({ run: this.host.ref, ...query });
      const answer = await fetch(`/api/timeline/${path}?${text}`, { signal, headers: { Accept: "application/json" } });
      let content = null;
      try { content = await answer.json(); } catch (error) { content = { error: `the server answered ${answer.status}` }; }
      if (answer.status === 503) { // the run is still being opened (again): ask once more
        await new Promise((resolve) => window.setTimeout(resolve, AGAIN));
        return this.get(path, query, signal);
      }
      if (!answer.ok) throw new Error(content.error || `the server answered ${answer.status}`);
      return content;
    }

    // Ask for detail soon: after a short quiet, or a little later while moving goes on.
    soon() {
      const now = performance.now();
      if (!this.waitingSince) this.waitingSince = now;
      window.clearTimeout(this.timer);
      this.timer = window.setTimeout(() => this.now(), Math.max(0, Math.min(QUIET, this.waitingSince + PATIENCE - now)));
    }

    get busy() {
      return this.waitingSince > 0 || this.request !== null;
    }

    // Whether what is there shows a view as finely as a new answer would.
    covers(detail, wanted, view) {
      if (!detail || detail.t0 > view.t0 || detail.t1 < view.t1) return false;
      const finest = view.ns;
      if (detail.resolution > finest * 1.02 && detail.exact > 1) return false;
      if (detail.resolution < finest * 0.6) return false;
      return wanted.every((row) => detail.rowSet.has(row));
    }

    async now() {
      window.clearTimeout(this.timer);
      this.waitingSince = 0;
      const box = this.host.box();
      if (!box.width || !box.wider.length) return;
      if (this.covers(this.detail, box.rows, box)) { this.host.onSettled(); return; }
      if (this.request) this.request.abort();
      const control = new AbortController();
      this.request = control;
      const span = box.t1 - box.t0;
      const t0 = Math.floor(box.t0 - WIDER * span);
      const t1 = Math.max(Math.ceil(box.t1 + WIDER * span), t0 + 1);
      const width = Math.min(Math.ceil((box.width * (t1 - t0)) / span), 16384);
      const began = performance.now();
      try {
        const answer = await this.get("window", { t0, t1, width, rows: parts.ranges(box.wider) }, control.signal);
        if (this.request !== control) return;
        this.request = null;
        this.lastFetchMs = performance.now() - began;
        this.detail = new Rects(answer, box.wider, width);
        this.host.onDetail();
      } catch (error) {
        if (this.request === control) this.request = null;
        if (error.name !== "AbortError") this.host.onError(error.message);
      }
    }

    // The whole run, coarsely: what is drawn at once where detail is not there yet.
    async overview() {
      const rows = [...this.host.tracks.rows.keys()].sort((a, b) => a - b).slice(0, 400);
      if (!rows.length) return;
      const width = 700;
      try {
        const t1 = Math.max(this.host.span, 1);
        const answer = await this.get("window", { t0: 0, t1, width, rows: parts.ranges(rows), most: COARSE });
        this.base = new Rects(answer, rows, width);
        this.host.onBase();
      } catch (error) {
        this.host.onError(error.message);
      }
    }
  }

  parts.Rects = Rects;
  parts.Feed = Feed;
})();
