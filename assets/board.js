// The board of the Findings page: pins kept in the browser's own storage, shown as text, each leading back to its place.
(function () {
  "use strict";
  const KEY = "ck-board";
  const MOST = 200;

  function read() {
    try {
      const kept = JSON.parse(window.localStorage.getItem(KEY) || "[]");
      return Array.isArray(kept) ? kept.filter((pin) => pin && typeof pin.title === "string").slice(0, MOST) : [];
    } catch (error) {
      return []; // no storage, or something else wrote there: an empty board
    }
  }
  function write(pins) {
    try { window.localStorage.setItem(KEY, JSON.stringify(pins.slice(0, MOST))); } catch (error) {
      window.dash_clientside.set_props("toast", { children: "This browser keeps nothing: the pin is lost on reload.", style: { display: "block" } });
    }
    draw(pins);
  }

  const make = (tag, className, text) => {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text) made.textContent = text;
    return made;
  };

  // The address of a pin: the present one, with the node, the time and the page of what was pinned.
  function address(data) {
    const query = new URLSearchParams(window.location.search);
    if (data.pinRow !== undefined) query.set("node", `${data.pinRun}.${data.pinRank}.${data.pinRow}`);
    if (data.pinT0 !== undefined) query.set("t", `${data.pinT0}-${data.pinT1}`);
    if (data.pinNodes && data.pinNodes.length <= 1500) query.set("nodes", data.pinNodes);
    const page = data.pinGoto || window.location.pathname.split("/")[1] || "overview";
    return `/${page}?${query.toString().replaceAll("%2F", "/")}`;
  }

  function draw(pins) {
    const box = document.getElementById("findings-board");
    if (!box) return;
    const list = pins || read();
    box.dataset.drawn = "true";
    box.replaceChildren(...list.map((pin, at) => {
      const line = make("div", "ck-pin");
      const text = make("div");
      text.append(make("strong", "", pin.title), make("span", "ck-hint", pin.text || ""));
      line.append(make("span", "ck-badge", pin.kind || "note"), text);
      if (typeof pin.address === "string" && /^\/[a-z-]+\?/.test(pin.address)) {
        const link = make("a", "ck-button ck-small", "Open");
        link.href = pin.address;
        line.append(link);
      }
      const away = make("button", "ck-button ck-small", "Remove");
      away.addEventListener("click", () => write(read().filter((_, other) => other !== at)));
      line.append(away);
      return line;
    }));
    if (!list.length) box.append(make("p", "ck-hint", "Nothing is pinned yet."));
  }

  document.addEventListener("click", (event) => {
    const target = event.target.closest && event.target.closest("[data-pin]");
    if (!target) return;
    const data = target.dataset;
    const pin = { kind: data.pin, title: data.pinTitle || "", text: data.pinText || "", address: address(data) };
    if (data.pin === "note") {
      const box = document.getElementById("findings-note");
      pin.title = (box && box.value.trim()) || "";
      if (!pin.title) { if (box) box.focus(); return; }
      window.dash_clientside.set_props("findings-note", { value: "" });
    }
    if (data.pin === "selection") {
      const name = document.querySelector("#details h3");
      const view = window.ckView || {};
      if (!view.selection || !name) {
        window.dash_clientside.set_props("toast", { children: "No node is selected.", style: { display: "block" } });
        return;
      }
      pin.title = name.textContent.slice(0, 200);
      pin.address = address({ pinGoto: "timeline" });
    }
    write([pin, ...read()]);
  });

  let waiting = false;
  new MutationObserver(() => {
    if (waiting) return;
    waiting = true;
    window.requestAnimationFrame(() => {
      waiting = false;
      const box = document.getElementById("findings-board");
      if (box && !box.dataset.drawn) draw();
    });
  }).observe(document.documentElement, { childList: true, subtree: true });
})();
