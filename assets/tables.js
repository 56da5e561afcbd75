// A cell of an exported table: spreadsheets read text that starts like a formula as one, so such text gets a quote.
(function () {
  "use strict";
  const space = (window.dashAgGridFunctions = window.dashAgGridFunctions || {});
  space.ckCell = function (params) {
    const value = params.value;
    if (typeof value === "string" && /^[\s\u00a0]*[=+\-@\t\r|%]/.test(value)) return `'${value}`;
    if (typeof value === "string" && value.startsWith(":")) return `'${value}`;
    return value;
  };
})();
