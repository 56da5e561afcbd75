// Runs opened before, kept in this browser only.
(function () {
  "use strict";
  const KEY = "ck-recent";
  const LIMIT = 8;
  function load() {
    try {
      const kept = JSON.parse(window.localStorage.getItem(KEY) || "[]");
      return Array.isArray(kept) ? kept.filter((entry) => typeof entry === "string") : [];
    } catch (error) { return []; }
  }
  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    ckRecent: {
      list() {
        const box = document.getElementById("open-recent");
        if (!box) return window.dash_clientside.no_update;
        box.replaceChildren();
        for (const ref of load()) {
          const button = document.createElement("button");
          button.className = "ck-entry";
          const name = document.createElement("span");
          name.className = "ck-entry-name";
          name.textContent = ref;
          button.append(name);
          button.addEventListener("click", () => window.dash_clientside.set_props("open-chosen", { data: { ref, at: Date.now() } }));
          box.append(button);
        }
        if (!box.children.length) {
          const hint = document.createElement("p");
          hint.className = "ck-hint";
          hint.textContent = "Nothing was opened in this browser yet.";
          box.append(hint);
        }
        return String(box.children.length);
      },
      // Runs that could not be opened are forgotten again.
      keep(runs, failed) {
        const gone = (failed || []).map((entry) => entry[0]);
        const kept = load().filter((ref) => !(runs || []).includes(ref) && !gone.includes(ref));
        try { window.localStorage.setItem(KEY, JSON.stringify([...(runs || []), ...kept].slice(0, LIMIT))); } catch (error) { /* private mode */ }
        return String((runs || []).length);
      },
    },
  });
})();
