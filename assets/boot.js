// Runs before the first paint: sets the theme, so that no page flashes in the wrong colours. The address decides; a
// visit without any wish gets the theme used last. The cookie tells the server for the layout it sends.
(function () {
  "use strict";
  let kept = null;
  try { kept = window.localStorage.getItem("ck-theme"); } catch (error) { kept = null; } // storage may be forbidden
  const asked = new URLSearchParams(window.location.search).get("theme");
  const theme = asked === "dark" || (window.location.search === "" && kept === "dark") ? "dark" : "light";
  document.documentElement.dataset.theme = theme;
  document.documentElement.dataset.mantineColorScheme = theme;
  document.cookie = `ck_theme=${theme}; path=/; SameSite=Strict; max-age=31536000`;
})();
