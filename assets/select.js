// Buttons anywhere on a page that select a node (.ck-select) or go to a page with a time window (data-goto).
(function () {
  "use strict";
  document.addEventListener("click", (event) => {
    const target = event.target.closest && event.target.closest("[data-goto], .ck-select");
    if (!target) return;
    const data = target.dataset;
    const set = window.dash_clientside.set_props;
    if (data.row !== undefined) set("selection", { data: { run: +data.run, rank: +data.rank, row: +data.row } });
    if (data.nodes !== undefined) set("nodes", { data: data.nodes || null });
    if (data.t0 !== undefined) set("window", { data: [+data.t0, +data.t1] });
    if (data.goto) set("navigate", { data: data.goto });
  });
})();
