// A range of time selected on the timeline becomes the scope of all pages; the rest of the scope stays.
(function () {
  "use strict";
  document.addEventListener("ck-area", (event) => {
    if (!event.target.closest(".ck-page-timeline")) return;
    const t0 = Math.max(0, Math.floor(event.detail.t0));
    const t1 = Math.max(t0 + 1, Math.ceil(event.detail.t1));
    const kept = ((window.ckView || {}).scope || "").split("~").filter((part) => part && !/^[st]/.test(part));
    window.dash_clientside.set_props("scope", { data: [`t${t0}-${t1}`, ...kept].join("~") });
  });
  // A button within the summary of the scope control must not fold it.
  document.addEventListener("click", (event) => {
    if (event.target.closest && event.target.closest("#scope-clear")) event.preventDefault();
  });
})();
