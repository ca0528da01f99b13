// Small charts as SVG.

import { h, num } from "./dom.js";

/** A line of the last rates. */
export function spark(rates) {
  const most = Math.max(...rates, 1e-9);
  const at = (rate, i) => `${(i / Math.max(rates.length - 1, 1)) * 100},${25 - (rate / most) * 23}`;
  const line = rates.length > 1 ? `M${rates.map(at).join("L")}` : "M0,25";
  return h("svg", { class: "spark", viewBox: "0 0 100 26", preserveAspectRatio: "none", role: "img", "aria-label": `last rates up to ${num(most)} a second` },
    h("path", { d: line }));
}

const WIDTH = 400;
const HEIGHT = 130;
const BASE = 112;
const TOP = 14;

/**
 * Points over time. `lines`: [{ of: point => number | null, step }]; `marks`: [{ at, text }] in seconds.
 * A gap of more than `gap` seconds breaks a line.
 */
export function chart({ title, points, lines, marks = [], from, to, gap, format = num, most }) {
  const values = points.flatMap((point) => lines.map((line) => line.of(point))).filter((x) => x !== null && Number.isFinite(x));
  const peak = Math.max(most ?? 0, ...values, 1e-9);
  const x = (at) => ((at - from) / Math.max(to - from, 1)) * WIDTH;
  const y = (value) => BASE - (value / peak) * (BASE - TOP);
  const shown = points.filter((point) => point.at >= from && point.at <= to);
  const drawn = lines.map((line, i) => {
    let path = "";
    let last = null;
    for (const point of thin(shown)) {
      const value = line.of(point);
      if (value === null || !Number.isFinite(value)) { last = null; continue; }
      const joined = last && point.at - last.at <= gap;
      if (!joined) path += `M${x(point.at).toFixed(1)},${y(value).toFixed(1)}`;
      else path += line.step ? `H${x(point.at).toFixed(1)}V${y(value).toFixed(1)}` : `L${x(point.at).toFixed(1)},${y(value).toFixed(1)}`;
      last = point;
    }
    return h("path", { class: `l${i}`, d: path || "M0,0" });
  });
  const seen = marks.filter((mark) => mark.at >= from && mark.at <= to).map((mark) =>
    h("circle", { class: "mark", cx: x(mark.at).toFixed(1), cy: BASE, r: 4 }, h("title", null, mark.text)));
  const now = values.length ? lines.map((line) => format(line.of(points[points.length - 1]))).join(" / ") : "–";
  const minutes = Math.round((to - from) / 60);
  const span = minutes >= 120 ? `${Math.round(minutes / 60)} h ago` : `${minutes} min ago`;
  return h("figure", null, h("figcaption", null, h("span", null, title), h("b", null, now)),
    h("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `${title}: now ${now}` },
      h("line", { class: "grid", x1: 0, x2: WIDTH, y1: TOP, y2: TOP }), h("line", { class: "grid", x1: 0, x2: WIDTH, y1: BASE, y2: BASE }),
      ...drawn, ...seen),
    h("figcaption", null, h("span", null, span), h("span", null, `top line: ${format(peak)}`), h("span", null, "now")));
}

/** At most 400 points: more cannot be seen. */
function thin(points) {
  const every = Math.ceil(points.length / 400);
  return every <= 1 ? points : points.filter((_, i) => (points.length - 1 - i) % every === 0);
}
