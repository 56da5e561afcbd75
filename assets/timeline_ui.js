// What surrounds the canvas: toolbar, search, tooltip, status line, help, and the drawer for a range of time.
(function () {
  "use strict";
  const parts = (window.CkTimelineParts = window.CkTimelineParts || {});
  const HELP = [
    ["W S", "zoom in, out at the pointer (or Ctrl + wheel)"],
    ["A D", "move left, right (or drag, or Shift + wheel)"],
    ["wheel", "scroll through the lanes"],
    ["0", "the whole run"],
    ["click", "select; double click fills the window with it"],
    ["F", "centre the selection; again: fill the window with it"],
    [". ,", "next, previous event on the row"],
    ["] [", "follow the arrows: launch to kernel and back, dependencies"],
    ["Shift + drag", "a range of time and what is in it (or drag on the time axis)"],
    ["R", "the range of the selection"],
    ["M", "mark the selection or range; Shift + M keeps it"],
    ["/", "search names; Enter next, Shift + Enter previous"],
    ["Esc", "clear"],
    ["?", "this list"],
  ];

  parts.build = function (tl) {
    const make = parts.element;
    tl.bar = make("div", "ck-tl-bar", null, { role: "toolbar", "aria-label": "Timeline" });
    tl.stage = make("div", "ck-tl-stage");
    tl.canvas = make("canvas", "ck-tl-canvas", null, {
      tabindex: "0", role: "application",
      "aria-label": "Timeline of lanes. W and S zoom, A and D move, question mark lists all keys.",
    });
    tl.tooltip = make("div", "ck-tl-tip", null, { role: "tooltip" });
    tl.tooltip.hidden = true;
    tl.notice = make("div", "ck-tl-notice", null, { role: "status" });
    tl.notice.hidden = true;
    tl.spoken = make("div", "ck-tl-spoken", null, { "aria-live": "polite" });
    tl.help = help();
    tl.help.addEventListener("click", () => { tl.help.hidden = true; });
    tl.drawer = make("div", "ck-tl-drawer");
    tl.drawer.hidden = true;
    tl.line = make("span", "ck-tl-status");
    tl.foot = make("div", "ck-tl-foot");
    tl.foot.append(tl.line);
    tl.stage.append(tl.canvas, tl.tooltip, tl.notice, tl.help);
    tl.root.replaceChildren(tl.bar, tl.stage, tl.drawer, tl.foot, tl.spoken);
  };

  function help() {
    const box = parts.element("div", "ck-tl-help", null, { role: "dialog", "aria-label": "Keys of the timeline" });
    box.hidden = true;
    box.append(parts.element("h3", "", "Keys"));
    const list = parts.element("dl");
    for (const [keys, text] of HELP) list.append(parts.element("dt", "", keys), parts.element("dd", "", text));
    box.append(list);
    return box;
  }

  function button(text, title, act) {
    const made = parts.element("button", "ck-tl-button", text, { type: "button", title });
    made.addEventListener("click", act);
    return made;
  }

  parts.toolbar = function (tl) {
    const { layout } = tl;
    const filter = parts.element("input", "ck-tl-input ck-tl-filter", null, { type: "search", placeholder: "Filter lanes", "aria-label": "Filter lanes" });
    filter.addEventListener("input", () => { tl.tracks.filter = filter.value.trim().toLowerCase(); tl.tracks.arrange(); parts.rearranged(tl); });
    const items = [tl.search.build(), filter];
    if (layout.ranks.length > 1) items.push(rankSelect(tl));
    items.push(
      button("Whole run", "Show the whole run (0)", () => tl.home()),
      button("Unfold", "Open all lanes", () => { tl.tracks.setAll(true); parts.rearranged(tl); }),
      button("Fold", "Fold all lanes to silhouettes", () => { tl.tracks.setAll(false); parts.rearranged(tl); }),
    );
    const kind = parts.element("span", `ck-badge ck-${layout.time_kind}`, layout.time_kind, { title: kindTitle(layout.time_kind) });
    const keys = button("?", "Keys (?)", () => { tl.help.hidden = !tl.help.hidden; tl.canvas.focus(); });
    keys.setAttribute("aria-label", "Keys of the timeline");
    tl.bar.replaceChildren(...items, parts.element("span", "ck-tl-space"), kind, keys);
    tl.foot.replaceChildren(tl.line, legend(tl));
    if (tl.root.dataset.title) tl.bar.prepend(parts.element("span", "ck-tl-title", tl.root.dataset.title));
  };

  const kindTitle = (kind) => ({
    measured: "Times were measured when the run was recorded",
    reconstructed: "The file holds no start times: they follow from dependencies and durations",
    simulated: "Times come from a model of hardware, not from a run",
  })[kind] || "";

  function rankSelect(tl) {
    const select = parts.element("select", "ck-tl-input", null, { "aria-label": "Rank" });
    select.append(parts.element("option", "", "All ranks", { value: "" }));
    for (const rank of tl.layout.ranks) select.append(parts.element("option", "", `Rank ${rank.rank}`, { value: String(rank.rank) }));
    select.addEventListener("change", () => {
      tl.tracks.rank = select.value === "" ? null : Number(select.value);
      if (tl.tracks.rank !== null) tl.tracks.open.add(`r${tl.tracks.rank}`);
      tl.tracks.arrange();
      parts.rearranged(tl);
    });
    return select;
  }

  function legend(tl) {
    const box = parts.element("div", "ck-tl-legend", null, { role: "group", "aria-label": "Categories" });
    tl.chips = new Map();
    for (const one of tl.layout.categories) {
      const chip = parts.element("button", "ck-tl-chip", null, { type: "button", "aria-pressed": String(!tl.hidden.has(one.code)), title: `Show or hide ${one.label}` });
      const swatch = parts.element("span", "ck-tl-swatch");
      swatch.style.background = one.colour;
      chip.append(swatch, parts.element("span", "", one.label));
      chip.addEventListener("click", () => {
        if (!tl.hidden.delete(one.code)) tl.hidden.add(one.code);
        chip.setAttribute("aria-pressed", String(!tl.hidden.has(one.code)));
        tl.repaint();
      });
      chip.hidden = true;
      tl.chips.set(one.code, chip);
      box.append(chip);
    }
    return box;
  }

  // Lanes were folded, filtered or opened: the base picture and the detail follow.
  parts.rearranged = function (tl) {
    tl.scrollBy(0);
    tl.feed.overview();
  };

  parts.status = function (tl) {
    if (!tl.layout) { tl.line.textContent = "Loading the timeline…"; return; }
    const detail = tl.feed.detail;
    if (detail && tl.chips) {
      for (const [code, chip] of tl.chips) if (chip.hidden && (detail.c.includes(code) || (tl.feed.base && tl.feed.base.c.includes(code)))) chip.hidden = false;
    }
    const { t0, t1 } = tl.view;
    const bits = [`${parts.duration(t1 - t0)} in view`];
    if (detail) bits.push(`${parts.count(detail.events)} events`, `${parts.count(tl.rectCount)} rectangles`);
    if (detail && detail.m.some((count) => count > 1)) bits.push(`< ${parts.duration(detail.exact)} summed up`);
    tl.line.textContent = bits.join("  ·  ");
  };

  parts.tip = function (tl, found, x, y) {
    const tip = tl.tooltip;
    if (!found) { tip.hidden = true; return; }
    const rows = [];
    if (found.track) {
      const { track } = found;
      rows.push(["b", track.label]);
      if (track.kind === "lane") rows.push(["", [track.process, track.domain].filter(Boolean).join(" · ")], ["", `${parts.count(track.events)} events in ${parts.count(track.rows)} rows`]);
      else if (track.note) rows.push(["", track.note]);
      if (track.kind === "rank" || track.foldable) rows.push(["i", track.open ? "click to fold" : "click to open"]);
    } else {
      rows.push(["b", found.name]);
      const label = tl.layout.categories.find((one) => one.code === found.c);
      if (found.count > 1) {
        rows.push(["", `longest of ${parts.count(found.count)} events: +${parts.count(found.count - 1)} hidden`]);
        rows.push(["", `${parts.duration(found.busy)} in ${parts.duration(found.d)}, mostly ${label.label}`], ["i", "zoom in to see each"]);
      } else {
        rows.push(["", `${parts.duration(found.d)} · ${label.label}`], ["", `starts at ${parts.duration(found.x)}`]);
      }
    }
    tip.replaceChildren(...rows.map(([tag, text]) => parts.element(tag || "div", tag ? "ck-tl-line" : "", text)));
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, x + 16 + box.width > tl.width ? x - box.width - 12 : x + 16)}px`;
    tip.style.top = `${Math.max(4, y + 18 + box.height > tl.height ? y - box.height - 10 : y + 18)}px`;
  };

  // Search: n of m, with the page of hits around the current one.
  class Search {
    constructor(tl) {
      this.tl = tl;
      this.text = "";
      this.reset();
    }

    reset() { this.total = 0; this.index = -1; this.offset = 0; this.hits = []; }

    build() {
      const make = parts.element;
      this.input = make("input", "ck-tl-input ck-tl-search", null, { type: "search", placeholder: "Search names  ( / )", "aria-label": "Search names" });
      this.label = make("span", "ck-tl-hits", "", { "aria-live": "polite" });
      this.input.addEventListener("input", () => { window.clearTimeout(this.timer); this.timer = window.setTimeout(() => this.run(), 180); });
      this.input.addEventListener("keydown", (event) => {
        if (event.key === "Enter") { event.preventDefault(); this.go(event.shiftKey ? -1 : 1); }
        if (event.key === "Escape") { event.preventDefault(); this.close(); this.tl.canvas.focus(); }
      });
      const box = make("div", "ck-tl-searchbox");
      box.append(this.input, this.label, button("‹", "Previous hit (Shift + Enter)", () => this.go(-1)), button("›", "Next hit (Enter)", () => this.go(1)));
      return box;
    }

    open() { this.input.focus(); this.input.select(); }
    close() { this.input.value = ""; this.text = ""; this.reset(); this.show(); }
    matches(name) { return name.toLowerCase().includes(this.lower); }
    current() { return this.text && this.visited ? this.hits[this.index - this.offset] || null : null; }

    async run() {
      const text = this.input.value.trim();
      if (text === this.text) return;
      this.text = text;
      this.lower = text.toLowerCase();
      this.visited = false;
      this.reset();
      if (text) await this.fetch({ near: Math.floor(this.tl.view.t0) });
      this.show();
    }

    async fetch(query) {
      const asked = this.text;
      try {
        const answer = await this.tl.feed.get("find", { q: asked.slice(0, 200), ...query });
        if (asked !== this.text) return;
        Object.assign(this, { total: answer.total, offset: answer.offset, hits: answer.hits });
        if (query.near !== undefined) this.index = answer.total ? answer.index : -1;
      } catch (error) {
        this.tl.onError(error.message);
      }
    }

    async go(way) {
      window.clearTimeout(this.timer);
      if (this.input.value.trim() !== this.text) await this.run();
      if (!this.total) return;
      if (this.visited) this.index = (this.index + way + this.total) % this.total;
      this.visited = true;
      if (this.index < this.offset || this.index >= this.offset + this.hits.length) await this.fetch({ offset: Math.max(this.index - 50, 0) });
      const hit = this.current();
      if (hit) { this.tl.select(hit); this.tl.show(hit, false); }
      this.show();
    }

    show() {
      this.label.textContent = !this.text ? "" : !this.total ? "none" : this.visited ? `${parts.count(this.index + 1)} of ${parts.count(this.total)}` : `${parts.count(this.total)}`;
      this.tl.repaint();
    }
  }
  parts.Search = Search;

  parts.closeDrawer = function (tl) {
    tl.drawer.hidden = true;
    tl.drawer.replaceChildren();
  };

  // What happens in a range of time, by name.
  parts.area = async function (tl) {
    const { t0, t1 } = tl.area;
    tl.root.dispatchEvent(new CustomEvent("ck-area", { bubbles: true, detail: { t0, t1 } }));
    const rows = tl.tracks.everyRow();
    try {
      const answer = await tl.feed.get("area", { t0: Math.floor(t0), t1: Math.max(Math.ceil(t1), Math.floor(t0) + 1), rows: parts.ranges(rows) });
      drawer(tl, answer);
    } catch (error) {
      tl.onError(error.message);
    }
  };

  const COLUMNS = [["name", "Name"], ["lane", "Kind"], ["count", "Count"], ["total", "Time in range"], ["mean", "Mean"], ["longest", "Longest"]];

  function drawer(tl, answer) {
    const make = parts.element;
    const head = make("div", "ck-tl-drawer-head");
    head.append(
      make("strong", "", `${parts.duration(answer.t1 - answer.t0)} selected`),
      make("span", "ck-hint", `${parts.count(answer.events)} events of ${parts.count(answer.names)} names in the shown lanes. Events are clipped to the range; nested ones count in their callers too.`),
      button("Zoom to it", "Show just this range", () => tl.go(answer.t0, answer.t1, true)),
      button("Close", "Close (Esc)", () => { tl.area = null; parts.closeDrawer(tl); tl.repaint(); }),
    );
    const table = make("table", "ck-tl-table");
    const top = make("tr");
    const body = make("tbody");
    let sorted = "total";
    const fill = (key) => {
      const way = key === "name" || key === "lane" ? 1 : -1;
      const rows = [...answer.rows].sort((a, b) => (a[key] < b[key] ? -way : a[key] > b[key] ? way : 0));
      body.replaceChildren(...rows.map((row) => line(tl, row)));
    };
    for (const [key, text] of COLUMNS) {
      const cell = make("th", key === "name" || key === "lane" ? "" : "ck-num");
      cell.append(button(text, `Sort by ${text.toLowerCase()}`, () => { sorted = key; fill(sorted); }));
      top.append(cell);
    }
    const thead = make("thead");
    thead.append(top);
    table.append(thead, body);
    fill(sorted);
    const scroll = make("div", "ck-tl-drawer-body");
    scroll.append(table);
    tl.drawer.replaceChildren(head, scoped(tl), scroll);
    tl.drawer.hidden = false;
  }

  // The range is the scope of the other pages (assets/scope.js): say so, and how to take it back.
  function scoped(tl) {
    const made = parts.element("div", "ck-tl-drawer-head ck-hint");
    if (!tl.root.closest(".ck-page-timeline")) return made;
    const back = button("Whole run", "Let the other pages count the whole run again", () => {
      window.dash_clientside.set_props("scope", { data: null });
      made.replaceChildren("Every page counts the whole run.");
    });
    made.append("Every page with a scope control now counts this range only.", back);
    return made;
  }

  function line(tl, row) {
    const make = parts.element;
    const made = make("tr", "", null, { tabindex: "0", title: "Select its longest event" });
    const name = make("td", "ck-tl-name");
    const swatch = make("span", "ck-tl-swatch");
    swatch.style.background = tl.colours[row.c];
    name.append(swatch, row.name);
    made.append(name, make("td", "", row.lane), make("td", "ck-num", parts.count(row.count)), make("td", "ck-num", parts.duration(row.total)), make("td", "ck-num", parts.duration(row.mean)), make("td", "ck-num", parts.duration(row.longest)));
    const act = () => tl.select({ rank: row.rank, node: row.node });
    made.addEventListener("click", act);
    made.addEventListener("keydown", (event) => { if (event.key === "Enter") act(); });
    return made;
  }
})();
