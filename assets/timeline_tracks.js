// The vertical arrangement: ranks, lanes and rows; which are open, filtered, and where each row is drawn.
(function () {
  "use strict";
  const parts = (window.CkTimelineParts = window.CkTimelineParts || {});
  const ROW = 18;
  const HEAD = 22;
  const FOLDED = 22;
  const OPEN_ROWS = 44;
  const OPEN_LANES = 60;
  const SQUEEZED = 14;

  class Tracks {
    constructor(layout, kept) {
      this.layout = layout;
      this.filter = "";
      this.rank = null;
      this.open = kept || this.defaults();
      this.arrange();
    }

    // Everything is open where it fits a screen; else the lanes with most events, as far as they fit.
    defaults() {
      const open = new Set();
      let lanes = 0;
      let rows = 0;
      const candidates = [];
      this.layout.ranks.forEach((rank, at) => {
        if (at > 0 && lanes + rank.lanes.length > OPEN_LANES) return;
        lanes += rank.lanes.length;
        rows += rank.lanes.length;
        open.add(`r${rank.rank}`);
        for (const lane of rank.lanes) if (lane.rows > 1) candidates.push(lane); // spreading 100,000 overflows the stack
      });
      candidates.sort((a, b) => b.events - a.events);
      for (const lane of candidates) {
        if (rows + lane.rows - 1 > OPEN_ROWS && this.layout.rows > OPEN_ROWS) continue;
        rows += lane.rows - 1;
        open.add(`l${lane.row}`);
      }
      return open;
    }

    toggle(key) {
      if (!this.open.delete(key)) this.open.add(key);
      this.arrange();
    }

    setAll(open) {
      this.open = new Set();
      for (const rank of this.layout.ranks) {
        this.open.add(`r${rank.rank}`);
        if (open) for (const lane of rank.lanes) if (lane.rows > 1) this.open.add(`l${lane.row}`);
      }
      this.arrange();
    }

    matches(rank, lane) {
      if (this.rank !== null && rank.rank !== this.rank) return false;
      if (!this.filter) return true;
      return `rank ${rank.rank} ${lane.name} ${lane.process} ${lane.domain}`.toLowerCase().includes(this.filter);
    }

    // Compute `list` (what the gutter shows) and `rows`: row number -> {y, h}.
    arrange() {
      this.list = [];
      this.rows = new Map();
      let y = 0;
      for (const rank of this.layout.ranks) {
        const lanes = rank.lanes.filter((lane) => this.matches(rank, lane));
        if (!lanes.length) continue;
        const key = `r${rank.rank}`;
        const open = this.open.has(key);
        const head = { kind: "rank", key, rank: rank.rank, y, h: open ? HEAD : 40, open, label: `Rank ${rank.rank}`, note: rank.hardware, lanes: lanes.length };
        this.list.push(head);
        if (!open) {
          this.squeeze(lanes.map((lane) => lane.row), y + 3, head.h - 6);
          y += head.h;
          continue;
        }
        y += head.h;
        let process = null;
        for (const lane of lanes) {
          y = this.place(rank, lane, y, lane.process !== process ? lane.process : "");
          process = lane.process;
        }
        y += 6;
      }
      this.height = y;
    }

    place(rank, lane, y, process) {
      const key = `l${lane.row}`;
      const foldable = lane.rows > 1;
      const open = !foldable || this.open.has(key);
      const h = open ? Math.max(lane.rows * ROW, ROW) + 4 : FOLDED + 4;
      this.list.push({ kind: "lane", key, rank: rank.rank, y, h, open, foldable, label: lane.name, note: process, rows: lane.rows, events: lane.events, domain: lane.domain, process: lane.process });
      if (open) for (let at = 0; at < lane.rows; at += 1) this.rows.set(lane.row + at, { y: y + 2 + at * ROW, h: ROW - 2 });
      else this.squeeze(Array.from({ length: lane.rows }, (_, at) => lane.row + at), y + 2, FOLDED);
      return y + h;
    }

    // A folded lane shows rows at even depths as thin lines, a folded rank the first row of each of its lanes.
    squeeze(rows, y, height) {
      const every = Math.max(rows.length / SQUEEZED, 1);
      const shown = rows.filter((_, at) => Math.floor(at / every) !== Math.floor((at - 1) / every));
      const each = height / shown.length;
      shown.forEach((row, at) => this.rows.set(row, { y: y + at * each, h: Math.max(each - (each > 4 ? 1 : 0.4), 1) }));
    }

    // Where a row is, or the track that would hold it while it is folded away; null where it is filtered out.
    locate(row) {
      const at = this.rows.get(row);
      if (at) return at;
      for (const rank of this.layout.ranks) {
        for (const lane of rank.lanes) {
          if (row < lane.row || row >= lane.row + lane.rows) continue;
          const track = this.list.find((one) => one.key === `l${lane.row}`) || this.list.find((one) => one.key === `r${rank.rank}`);
          return track ? { y: track.y + track.h - 5, h: 4 } : null;
        }
      }
      return null;
    }

    // Open what a row is folded into. Returns whether that changed anything.
    reveal(row) {
      for (const rank of this.layout.ranks) {
        for (const lane of rank.lanes) {
          if (row < lane.row || row >= lane.row + lane.rows) continue;
          const wanted = [`r${rank.rank}`, ...(lane.rows > 1 ? [`l${lane.row}`] : [])].filter((key) => !this.open.has(key));
          wanted.forEach((key) => this.open.add(key));
          if (wanted.length) this.arrange();
          return wanted.length > 0;
        }
      }
      return false;
    }

    // Every row of the lanes that pass the filter, the folded ones too.
    everyRow() {
      const rows = [];
      for (const rank of this.layout.ranks) {
        for (const lane of rank.lanes) if (this.matches(rank, lane)) for (let at = 0; at < lane.rows; at += 1) rows.push(lane.row + at);
      }
      return rows;
    }

    // Rows drawn between two heights, as ranges for a request: "0-3,7".
    between(top, bottom) {
      const rows = [];
      for (const [row, at] of this.rows) if (at.y + at.h >= top && at.y <= bottom) rows.push(row);
      return rows.sort((a, b) => a - b).slice(0, 900);
    }

    at(y) {
      return this.list.find((track) => y >= track.y && y < track.y + track.h) || null;
    }

    rowAt(y) {
      let best = null;
      for (const [row, at] of this.rows) {
        if (y >= at.y - 1 && y < at.y + at.h + 1) {
          const off = Math.abs(y - at.y - at.h / 2);
          if (!best || off < best.off) best = { row, off };
        }
      }
      return best ? best.row : -1;
    }
  }

  parts.Tracks = Tracks;
  parts.ranges = function (rows) {
    const out = [];
    for (let at = 0; at < rows.length; ) {
      let end = at;
      while (end + 1 < rows.length && rows[end + 1] === rows[end] + 1) end += 1;
      out.push(rows[end] > rows[at] ? `${rows[at]}-${rows[end]}` : `${rows[at]}`);
      at = end + 1;
    }
    return out.join(",");
  };
})();
