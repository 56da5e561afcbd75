// A cell of an exported table: spreadsheets read text that starts like a formula as one, so such text gets a quote.
(function () {
  "use strict";
  const space = (window.dashAgGridFunctions = window.dashAgGridFunctions || {});
  const UNITS = { ns: 1, "µs": 1e3, ms: 1e6, s: 1e9 };

  // Cells hold ns; the header of a column of times ends in the unit that is shown, and saved.
  space.ckCell = function (params) {
    const value = params.value;
    if (typeof value === "number") {
      const title = String(params.column.getColDef().headerName || "");
      return value / (UNITS[title.split(" ").pop()] || 1);
    }
    if (typeof value === "string" && /^[\s\u00a0]*[=+\-@\t\r|%]/.test(value)) return `'${value}`;
    if (typeof value === "string" && value.startsWith(":")) return `'${value}`;
    return value;
  };
})();
