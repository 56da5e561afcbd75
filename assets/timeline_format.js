// Times in words, ticks, colours: shared by the parts of the timeline (window.CkTimelineParts).
(function () {
  "use strict";
  const parts = (window.CkTimelineParts = window.CkTimelineParts || {});
  const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];

  function grouped(value, digits) {
    const [whole, rest] = value.toFixed(digits).split(".");
    const text = whole.replace(/\B(?=(\d{3})+(?!\d))/g, ",");
    return rest ? `${text}.${rest}` : text;
  }

  parts.count = (value) => grouped(Math.round(value), 0);

  // A duration in the unit that reads best: 1.235 ms.
  parts.duration = function (ns) {
    const size = Math.abs(ns);
    for (const [factor, unit] of UNITS) {
      if (size >= factor || factor === 1) return `${grouped(ns / factor, factor === 1 ? 0 : 3)} ${unit}`;
    }
    return "0 ns";
  };

  // A time with just as many decimals as its step needs: ticks 0.2 ms apart read 3.4 ms.
  function tickLabel(ns, step, unitOf) {
    const [factor, unit] = UNITS.find(([size]) => unitOf >= size) || UNITS[3];
    const digits = Math.max(0, Math.ceil(Math.log10(factor / step) - 1e-9));
    return `${grouped(ns / factor, Math.min(digits, 9))} ${unit}`;
  }

  // Ticks of an axis: 1, 2 or 5 times a power of ten, about `room` pixels apart. Where the window is far from zero
  // compared with its span, times are given from an anchor, which is returned with its own label.
  parts.ticks = function (t0, t1, pixels, room) {
    const span = t1 - t0;
    const rough = (span * room) / Math.max(pixels, 1);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = Math.max([1, 2, 5, 10].map((k) => k * power).find((k) => k >= rough) || 10 * power, 1);
    let anchor = 0;
    if (Math.abs(t0) > 200 * span) {
      const grain = 10 ** Math.ceil(Math.log10(span));
      anchor = Math.floor(t0 / grain) * grain;
    }
    const largest = Math.max(Math.abs(t0 - anchor), Math.abs(t1 - anchor), step);
    const list = [];
    for (let at = Math.ceil((t0 - anchor) / step); at * step + anchor <= t1; at += 1) {
      list.push({ time: at * step + anchor, label: (anchor ? "+" : "") + tickLabel(at * step, step, largest) });
    }
    return { list, step, anchor: anchor ? tickLabel(anchor, 10 ** Math.floor(Math.log10(span)), anchor) : "" };
  };

  // Dark or white text on a fill, whichever contrasts more.
  parts.textOn = function (colour) {
    const [r, g, b] = [1, 3, 5].map((at) => {
      const channel = parseInt(colour.slice(at, at + 2), 16) / 255;
      return channel <= 0.03928 ? channel / 12.92 : ((channel + 0.055) / 1.055) ** 2.4;
    });
    const light = 0.2126 * r + 0.7152 * g + 0.0722 * b;
    return 1.05 / (light + 0.05) >= (light + 0.05) / 0.058 ? "#ffffff" : "#10151c";
  };

  parts.tones = function (element) {
    const style = window.getComputedStyle(element);
    const read = (name) => style.getPropertyValue(`--ck-${name}`).trim();
    const names = ["plot", "ink", "muted", "grid", "line", "accent", "warn", "bad", "good", "back", "raised", "soft"];
    return Object.fromEntries(names.map((name) => [name, read(name) || "#888888"]));
  };

  // A small element with text; text is never markup.
  parts.element = function (tag, className, text, attributes) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined && text !== null) made.textContent = text;
    for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
    return made;
  };
})();
