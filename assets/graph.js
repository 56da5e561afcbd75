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
  let drawn = false;
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
    // A tap selects, which may open a panel over the node: not before it is clear that it is no double tap.
    cy.on("onetap", "node", (event) => {
      window.dash_clientside.set_props("graph-tap", { data: { row: event.target.data().row, at: Date.now() } });
    });
    cy.on("dbltap", "node", (event) => {
      const data = event.target.data();
      window.dash_clientside.set_props("graph-dbl", { data: { key: data.key, row: data.row, group: data.group, at: Date.now() } });
    });
    window.ckCy = cy;
  }
  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    ckGraph: {
      follow(selection) { return selection; },
      // An unchanged layout is not run again for new elements, so the view is fitted here, once they are drawn.
      attach(elements, layout) {
        attach();
        const first = !drawn; drawn = true;
        if (layout && layout.fit && !first) window.setTimeout(fitAll, 80);
        return "ck-cy";
      },
      fit() { fitAll(); return "Show everything"; },
    },
  });
})();
