// Tables in the browser: what a row selects, filter, groups, and cells that no spreadsheet reads as formulas.
(function () {
  "use strict";
  const space = (window.dashAgGridFunctions = window.dashAgGridFunctions || {});
  const UNITS = { ns: 1, "µs": 1e3, ms: 1e6, s: 1e9 };
  const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

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

  // However rows are sorted, those of an open group stand under its head.
  space.ckGrouped = function (params) {
    const { nodes } = params;
    if (!nodes.some((node) => node.data && node.data.ck_group !== undefined)) return;
    const inside = new Map();
    for (const node of nodes) {
      const of = node.data.ck_in;
      if (of === undefined) continue;
      if (!inside.has(of)) inside.set(of, []);
      inside.get(of).push(node);
    }
    const ordered = [];
    for (const node of nodes) if (node.data.ck_in === undefined) ordered.push(node, ...(inside.get(node.data.ck_group) || []));
    for (const node of nodes) if (node.data.ck_in !== undefined && !ordered.includes(node)) ordered.push(node);
    nodes.splice(0, nodes.length, ...ordered);
  };

  const plainRows = new Map(); // rows of a table before it was grouped, by its id
  const opened = new Map(); // heads of its open groups

  // One text for the chosen nodes of several rows: parts about the same run, rank and kind become one.
  function joined(texts) {
    const parts = new Map();
    for (const text of texts) {
      for (const part of text.split("+")) {
        const [, start, list] = /^(\d+\.\d+\.[nr])(.+)$/.exec(part);
        if (!parts.has(start)) parts.set(start, new Set());
        parts.get(start).add(list);
      }
    }
    return [...parts].map(([start, lists]) => start + [...lists].join("_")).join("+") || null;
  }

  // Rows under heads that bear their sums; a head selects all nodes of its rows.
  function grouped(rows, field, columns, open) {
    const label = columns.find((column) => column.tooltipField) || columns[0];
    const heads = new Map();
    for (const row of rows) {
      const key = String(row[field] ?? "");
      if (!heads.has(key)) heads.set(key, []);
      heads.get(key).push(row);
    }
    const made = [];
    for (const [key, members] of heads) {
      const head = { ck_group: key };
      for (const column of columns) {
        if (column.context && column.context.adds) head[column.field] = members.reduce((sum, row) => sum + (row[column.field] || 0), 0);
      }
      head[label.field] = `${open.has(key) ? "▾" : "▸"} ${key || "none"} (${members.length})`;
      head.nodes = joined(members.map((row) => row.nodes).filter(Boolean));
      const longest = members[0];
      Object.assign(head, { run: longest.run, rank: longest.rank, row: longest.row });
      made.push(head);
      if (open.has(key)) made.push(...members.map((row) => ({ ...row, ck_in: key })));
    }
    return made;
  }

  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    ckTables: {
      pick(chosen, id) {
        const none = window.dash_clientside.no_update;
        const row = (chosen || [])[0];
        if (!row) return none;
        const set = window.dash_clientside.set_props;
        if (Number.isInteger(row.row) && row.row >= 0 && Number.isInteger(row.run)) {
          set("selection", { data: { run: row.run, rank: row.rank, row: row.row } });
        }
        set("nodes", { data: row.nodes || null });
        if (Array.isArray(row.window)) set("window", { data: row.window });
        if (row.ck_group !== undefined) {
          const key = JSON.stringify(id);
          const open = opened.get(key) || new Set();
          if (!open.delete(row.ck_group)) open.add(row.ck_group);
          opened.set(key, open);
          const known = plainRows.get(key);
          if (known) set(id, { rowData: grouped(known.rows, known.field, known.columns, open), selectedRows: [] });
        }
        return none;
      },
      filter(words, options) {
        if (same((options || {}).quickFilterText || "", words || "")) return window.dash_clientside.no_update;
        return { ...options, quickFilterText: words || "" };
      },
      group(field, rows, columns, id) {
        const key = JSON.stringify(id);
        const isGrouped = (rows || []).some((row) => row.ck_group !== undefined);
        const known = isGrouped ? plainRows.get(key).rows : rows;
        opened.set(key, new Set());
        if (!field) { plainRows.delete(key); return known; }
        plainRows.set(key, { rows: known, field, columns });
        return grouped(known, field, columns, new Set());
      },
      save(clicks) { return !!clicks; },
    },
  });
})();
