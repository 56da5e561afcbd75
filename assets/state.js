// The state of the view lives in stores and in the address: this keeps the two the same.
// Reading happens on load and on back/forward; writing on every change of a store. See dashboard/state.py.
(function () {
  "use strict";
  const RESERVED = new Set(["run", "node", "t", "theme", "nodes", "scope"]);
  const LONGEST_NODES = 1500;
  let lastPage = null;
  let lastRuns = null;

  function parse(search) {
    const query = new URLSearchParams(search);
    const node = /^(\d{1,11})\.(\d{1,11})\.(\d{1,11})$/.exec(query.get("node") || "");
    const time = /^(\d{1,18})-(\d{1,18})$/.exec(query.get("t") || "");
    const params = {};
    for (const [key, value] of query) if (!RESERVED.has(key) && value !== "" && !(key in params)) params[key] = value;
    return {
      runs: [...new Set(query.getAll("run").filter((ref) => ref !== ""))],
      selection: node ? { run: +node[1], rank: +node[2], row: +node[3] } : null,
      window: time && +time[1] < +time[2] ? [+time[1], +time[2]] : null,
      theme: query.get("theme") === "dark" ? "dark" : null,
      params,
      nodes: query.get("nodes") || null,
      scope: query.get("scope") || null,
    };
  }

  function search(runs, selection, window_, params, theme, nodes, scope) {
    const query = new URLSearchParams();
    for (const ref of runs || []) query.append("run", ref);
    if (selection) query.append("node", `${selection.run}.${selection.rank}.${selection.row}`);
    if (window_) query.append("t", `${Math.max(0, Math.floor(window_[0]))}-${Math.ceil(window_[1])}`);
    if (theme === "dark") query.append("theme", theme);
    if (nodes && nodes.length <= LONGEST_NODES) query.append("nodes", nodes);
    if (scope) query.append("scope", scope);
    for (const key of Object.keys(params || {}).sort()) {
      const value = params[key];
      if (!RESERVED.has(key) && value !== null && value !== undefined && value !== "") query.append(key, String(value));
    }
    const text = query.toString().replaceAll("%2F", "/");
    return text ? `?${text}` : "";
  }

  function storedTheme() {
    try { return window.localStorage.getItem("ck-theme"); } catch (error) { return null; }
  }

  // Links keep the state: their address is the current one with another page.
  function relink() {
    const text = window.location.search;
    for (const link of document.querySelectorAll("a.ck-link")) {
      const page = link.dataset.page || "open";
      const address = `/${page}${text}`;
      if (link.getAttribute("href") !== address) link.setAttribute("href", address);
      if (link.closest("nav")) {
        link.classList.toggle("ck-active", page === lastPage);
        if (page === lastPage) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
      }
    }
  }

  let waiting = false;
  function relinkSoon() {
    if (waiting) return;
    waiting = true;
    window.requestAnimationFrame(() => { waiting = false; relink(); });
  }

  // Back and forward: the address is read again. (Nothing else than "read" ever looks at it.)
  let visits = 0;
  window.addEventListener("popstate", () => {
    visits += 1;
    window.dash_clientside.set_props("url", { data: visits });
  });

  document.addEventListener("click", (event) => {
    if (event.target.id === "toast") { event.target.style.display = "none"; return; }
    const link = event.target.closest && event.target.closest("a.ck-link");
    if (!link || event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return; // the browser's own: new tab, …
    event.preventDefault();
    window.dash_clientside.set_props("page", { data: link.dataset.page || "open" });
  });

  const same = (a, b) => JSON.stringify(a === undefined ? null : a) === JSON.stringify(b === undefined ? null : b);

  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    ckState: {
      // Address to stores: only those that differ, so that nothing is triggered for nothing.
      read(visit, page, runs, selection, window_, params, theme, nodes, scope, defaults) {
        const none = window.dash_clientside.no_update;
        const view = parse(window.location.search);
        const asked = window.location.pathname.split("/").filter(Boolean)[0] || "";
        const wantedRuns = view.runs.length || asked ? view.runs : defaults || [];
        const bare = window.location.search === "";
        const wanted = [
          asked || (wantedRuns.length ? "overview" : "open"),
          wantedRuns,
          view.selection,
          view.window,
          view.params,
          view.theme || (bare && !visit && storedTheme()) || "light",
          view.nodes,
          view.scope,
        ];
        lastPage = wanted[0];
        lastRuns = wantedRuns;
        return wanted.map((value, at) => (same(value, [page, runs, selection, window_, params, theme, nodes, scope][at]) ? none : value));
      },
      // Stores to address. Another page or other runs are a step of the history; everything else replaces it.
      write(page, runs, selection, window_, params, theme, nodes, scope) {
        if (!page) return window.dash_clientside.no_update;
        window.ckView = { selection, window: window_, nodes, scope }; // for parts of a page that read it when they appear
        const text = search(runs, selection, window_, params, theme, nodes, scope);
        const address = `/${page}${text}`;
        const isStep = lastPage !== null && (page !== lastPage || !same(runs, lastRuns));
        if (address !== window.location.pathname + window.location.search) {
          window.history[isStep ? "pushState" : "replaceState"]({}, "", address);
        }
        lastPage = page;
        lastRuns = runs;
        relinkSoon();
        return text;
      },
      navigate(page) {
        const none = window.dash_clientside.no_update;
        return page ? [page, null] : [none, none];
      },
      // Closing a run renumbers the selection; what was said about the closed run goes with it.
      removeRun(clicks, runs, selection, window_) {
        const none = window.dash_clientside.no_update;
        const gone = window.dash_clientside.callback_context.triggered_id;
        if (!gone || !(clicks || []).some(Boolean)) return [none, none, none, none, none, none];
        let node = selection;
        if (node && node.run === gone.at) node = null;
        else if (node && node.run > gone.at) node = { ...node, run: node.run - 1 };
        return [runs.filter((_, at) => at !== gone.at), node, gone.at === 0 ? null : window_, {}, null, gone.at === 0 ? null : none];
      },
      toggleTheme(clicks, theme) {
        return clicks ? (theme === "dark" ? "light" : "dark") : window.dash_clientside.no_update;
      },
      paint(theme) {
        const name = theme === "dark" ? "dark" : "light";
        document.documentElement.dataset.theme = name;
        document.cookie = `ck_theme=${name}; path=/; SameSite=Strict; max-age=31536000`;
        try { window.localStorage.setItem("ck-theme", name); } catch (error) { /* private mode: the choice is not kept */ }
        return name;
      },
      panel(clicks, selection, page, shown) {
        const by = (window.dash_clientside.callback_context.triggered[0] || {}).prop_id || "";
        let open = (shown || "").includes("ck-with-details");
        if (by.startsWith("toggle-details")) open = !open;
        else if (selection) open = true;
        return `ck-frame ck-at-${page || "none"}${open ? " ck-with-details" : ""}`;
      },
    },
  });
  new MutationObserver(relinkSoon).observe(document.documentElement, { childList: true, subtree: true });
})();
