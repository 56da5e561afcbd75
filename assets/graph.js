// The graph page: double taps (dash-cytoscape has no event for them) and the Fit button.
(function () {
  "use strict";
  // dash-cytoscape always passes a wheel sensitivity (its default, 1), and cytoscape warns whenever one is passed.
  const warn = console.warn.bind(console);
  console.warn = (...parts) => {
    if (!String(parts[0]).startsWith("You have set a custom wheel sensitivity")) warn(...parts);
  };

  function instance() {
    const box = document.getElementById("graph-cy");
    return box && box._cyreg ? box._cyreg.cy : null;
  }
  const SECOND = 1000; // ms within which the browser may count a second click
  const STILL = 250; // ms after which a picture that has not moved will not move by itself
  let drawn = false;
  let movedAt = performance.now();
  let fitting = 0;
  // Whether the picture rests: no fit is due, the last movement is over, and it fills the place it has.
  window.ckGraphStill = () => {
    const cy = instance();
    return !!cy && !fitting && performance.now() - movedAt > STILL && Math.abs(cy.width() - cy.container().clientWidth) < 2;
  };
  const LARGEST = 1.4; // zoom up to which a picture of few boxes is enlarged
  function fitAll() {
    const cy = instance();
    if (!cy) return;
    cy.fit(undefined, 24);
    if (cy.zoom() > LARGEST) { cy.zoom(LARGEST); cy.center(); }
  }
  function attach() {
    const cy = instance();
    if (!cy) { window.setTimeout(attach, 60); return; }
    if (cy.scratch("ck")) return;
    cy.scratch("ck", true);
    // A tap selects, which opens a panel and so moves the picture. Two things keep a double tap whole nonetheless: the
    // selection waits until it is clear that no second tap follows, and where it comes late (a busy browser), it counts
    // for the node of the first one. The browser's own count of clicks decides, not the time at which we hear of them.
    let first = null;
    const open = (data) => {
      first = null;
      window.dash_clientside.set_props("graph-dbl", { data: { key: data.key, row: data.row, group: data.group, at: Date.now() } });
    };
    const clicks = (event) => (event.originalEvent && event.originalEvent.detail) || 0;
    cy.on("tap", "node", (event) => {
      if (clicks(event) <= 1) first = { data: { ...event.target.data() }, at: event.originalEvent ? event.originalEvent.timeStamp : 0 };
    });
    cy.on("onetap", "node", (event) => {
      window.dash_clientside.set_props("graph-tap", { data: { row: event.target.data().row, at: Date.now() } });
    });
    cy.on("dbltap", "node", (event) => { if (!clicks(event)) open(event.target.data()); }); // fingers: no clicks to count
    const second = (event) => {
      if (!cy.container() || !cy.container().isConnected) { document.removeEventListener("dblclick", second); return; }
      if (first && event.timeStamp - first.at < SECOND) open(first.data);
    };
    document.addEventListener("dblclick", second);
    cy.on("viewport resize layoutstop", () => { movedAt = performance.now(); });
    window.ckCy = cy;
  }
  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    ckGraph: {
      follow(selection) { return selection; },
      // An unchanged layout is not run again for new elements, so the view is fitted here, once they are drawn.
      attach(elements, layout) {
        attach();
        const first = !drawn; drawn = true;
        movedAt = performance.now();
        if (layout && layout.fit && !first) { window.clearTimeout(fitting); fitting = window.setTimeout(() => { fitting = 0; fitAll(); }, 80); }
        return "ck-cy";
      },
      fit() { fitAll(); return "Show everything"; },
    },
  });
})();
