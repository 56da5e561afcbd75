// The state of the view lives in stores and in the address: this keeps the two the same.
// Reading happens on load and on back/forward; writing on every change of a store. See dashboard/state.py.
(function () {
  "use strict";
  const RESERVED = new Set(["run", "node", "t", "theme"]);
  let lastPage = null;

  function parse(search) {
    const query = new URLSearchParams(search);
    const node = /^(\d{1,11})\.(\d{1,11})\.(\d{1,11})$/.exec(query.get("node") || "");
    const time = /^(\d{1,18})-(\d{1,18})$/.exec(query.get("t") || "");
    const params = {};
    for (const [key, value] of query) if (!RESERVED.has(key)) params[key] = value;
    return {
      runs: query.getAll("run"),
      selection: node ? { run: +node[1], rank: +node[2], row: +node[3] } : null,
      window: time && +time[1] < +time[2] ? [+time[1], +time[2]] : null,
      theme: query.get("theme"),
      params,
    };
  }

  function search(runs, selection, window_, params, theme) {
    const query = new URLSearchParams();
    for (const ref of runs || []) query.append("run", ref);
    if (selection) query.append("node", `${selection.run}.${selection.rank}.${selection.row}`);
    if (window_) query.append("t", `${Math.max(0, Math.floor(window_[0]))}-${Math.ceil(window_[1])}`);
    if (theme === "dark") query.append("theme", theme);
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

  document.addEventListener("click", (event) => {
    if (event.target.id === "toast") { event.target.style.display = "none"; return; }
    const link = event.target.closest && event.target.closest("a.ck-link");
    if (!link || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    window.dash_clientside.set_props("navigate", { data: link.dataset.page || "open" });
  });

  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    ckState: {
      read(href, defaults) {
        const url = new URL(href || window.location.href, window.location.href);
        const view = parse(url.search);
        const asked = url.pathname.split("/").filter(Boolean)[0] || "";
        const runs = view.runs.length || asked ? view.runs : defaults || [];
        const page = asked || (runs.length ? "overview" : "open");
        lastPage = page;
        return [page, runs, view.selection, view.window, view.params, view.theme || storedTheme() || "light"];
      },
      write(page, runs, selection, window_, params, theme) {
        if (!page) return window.dash_clientside.no_update;
        const text = search(runs, selection, window_, params, theme);
        const address = `/${page}${text}`;
        if (address !== window.location.pathname + window.location.search) {
          window.history[page !== lastPage ? "pushState" : "replaceState"]({}, "", address);
        }
        lastPage = page;
        relinkSoon();
        return text;
      },
      navigate(page) {
        return page || window.dash_clientside.no_update;
      },
      toggleTheme(clicks, theme) {
        return clicks ? (theme === "dark" ? "light" : "dark") : window.dash_clientside.no_update;
      },
      paint(theme) {
        const name = theme === "dark" ? "dark" : "light";
        document.documentElement.dataset.theme = name;
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
