// Runs before the first paint: sets the theme, so that no page flashes in the wrong colours.
(function () {
  "use strict";
  var asked = new URLSearchParams(window.location.search).get("theme");
  var kept = null;
  try { kept = window.localStorage.getItem("ck-theme"); } catch (error) { kept = null; }
  document.documentElement.dataset.theme = asked === "dark" || (!asked && kept === "dark") ? "dark" : "light";
})();
