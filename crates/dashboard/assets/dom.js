// Makes and updates elements. Every text becomes a text node and every name an attribute, so nothing is parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "path", "line", "text", "circle", "title", "g", "rect"]);

/** A description of an element. `key` keeps the element of a row while others come and go. */
export function h(tag, props, ...children) {
  const kept = children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
  return { tag, props: props ?? {}, children: kept, key: props?.key };
}

/** Makes the children of `parent` match; elements that stay keep their focus. */
export function render(parent, ...children) {
  const wanted = children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
  const keyed = new Map();
  const free = [];
  for (const node of parent.childNodes) {
    if (node.wasKey !== undefined) keyed.set(node.wasKey, node);
    else free.push(node);
  }
  let at = parent.firstChild;
  for (const child of wanted) {
    let node = take(child, keyed, free);
    node ??= make(child, parent);
    if (node === at) at = at.nextSibling;
    else parent.insertBefore(node, at);
    update(node, child);
  }
  while (at) {
    const next = at.nextSibling;
    parent.removeChild(at);
    at = next;
  }
}

function take(child, keyed, free) {
  if (typeof child !== "object") {
    const i = free.findIndex((node) => node.nodeType === Node.TEXT_NODE);
    return i < 0 ? null : free.splice(i, 1)[0];
  }
  if (child.key !== undefined) {
    const node = keyed.get(child.key);
    keyed.delete(child.key);
    return node && node.localName === child.tag ? node : null;
  }
  const i = free.findIndex((node) => node.localName === child.tag);
  return i < 0 ? null : free.splice(i, 1)[0];
}

function make(child, parent) {
  if (typeof child !== "object") return document.createTextNode(String(child));
  const isSvg = child.tag === "svg" || (parent.namespaceURI === SVG && SVG_TAGS.has(child.tag));
  const node = isSvg ? document.createElementNS(SVG, child.tag) : document.createElement(child.tag);
  if (child.key !== undefined) node.wasKey = child.key;
  return node;
}

function update(node, child) {
  if (typeof child !== "object") {
    const text = String(child);
    if (node.nodeValue !== text) node.nodeValue = text;
    return;
  }
  const before = node.had ?? {};
  for (const [name, value] of Object.entries(child.props)) set(node, name, value, before[name]);
  for (const name of Object.keys(before)) if (!(name in child.props)) set(node, name, undefined, before[name]);
  node.had = child.props;
  render(node, ...child.children);
}

function set(node, name, value, before) {
  if (name === "key" || value === before) return;
  if (name.startsWith("on")) node[name] = value ?? null;
  else if (name === "style") for (const [key, one] of Object.entries(value ?? {})) node.style.setProperty(key, one);
  else if (name === "value") { if (document.activeElement !== node) node.value = value ?? ""; }
  // Links stay in this page, with any name.
  else if (name === "href" && !String(value ?? "#").startsWith("#")) node.removeAttribute(name);
  else if (value === undefined || value === null || value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? "" : String(value));
}

/** A number for people: 1,234 or 12.3 or 0.12. */
export function num(x) {
  if (x === null || x === undefined || !Number.isFinite(x)) return "–";
  const digits = Math.abs(x) >= 100 || Number.isInteger(x) ? 0 : Math.abs(x) >= 10 ? 1 : 2;
  return x.toLocaleString("en", { maximumFractionDigits: digits });
}

export function percent(share) {
  if (share === null || share === undefined || !Number.isFinite(share)) return "–";
  return `${share > 0 && share < 0.01 ? (100 * share).toFixed(1) : Math.round(100 * share)} %`;
}

export function bytes(n) {
  if (n === null || n === undefined || !Number.isFinite(n)) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let i = 0;
  while (n >= 1024 && i < units.length - 1) { n /= 1024; i += 1; }
  return `${i === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)} ${units[i]}`;
}

export function ago(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s ago`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min ago`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h ago` : `${Math.round(seconds / 86400)} d ago`;
}

/** The workers that compute for a job, of those that are wanted. */
export function workersOf(job) {
  if (job.workers === null) return job.workers_computing ? num(job.workers_computing) : "–";
  return `${num(job.workers_computing)} of ${num(job.workers)}`;
}

/** A name that others chose: isolated from the direction of the text around it, and cut. */
export function name(text, most = 120) {
  const chars = [...String(text)];
  return h("bdi", { title: chars.slice(0, 1000).join("") }, chars.length > most ? `${chars.slice(0, most - 1).join("")}…` : String(text));
}

export function tile(label, value, note) {
  return h("div", { class: "tile" }, h("div", { class: "label" }, label), h("div", { class: "value" }, value), h("div", { class: "note" }, note ?? ""));
}

export function pill(state) {
  const plain = String(state);
  const kinds = ["running", "working", "idle", "slow", "leaving", "lost"];
  const kind = plain.startsWith("waiting") ? "waiting" : kinds.includes(plain) ? plain : "";
  return h("span", { class: `pill ${kind}` }, plain);
}

export function meter(share, kind) {
  const width = `${Math.max(0, Math.min(1, share ?? 0)) * 100}%`;
  return h("div", { class: `meter ${kind ?? ""}`, role: "img", "aria-label": percent(share) }, h("i", { style: { width } }));
}

/** A table that becomes cards on a narrow screen. `columns`: [heading, class]. */
export function table(columns, rows, kind = "") {
  const head = columns.map(([heading, css]) => h("th", { scope: "col", class: css ?? "" }, heading));
  const body = rows.map(({ key, cells }) =>
    h("tr", { key }, cells.map((cell, i) => h("td", { class: columns[i][1] ?? "", "data-label": columns[i][0] }, cell))));
  return h("div", { class: "scroll" }, h("table", { class: `stack ${kind}` }, h("thead", null, h("tr", null, head)), h("tbody", null, body)));
}

export function empty(text) {
  return h("p", { class: "empty" }, text);
}

/** Waits with a search until nothing was typed for a moment. */
let typed = 0;
export function later(search) {
  return (event) => { clearTimeout(typed); typed = setTimeout(() => search(event), 250); };
}

/** The link of a job's page. */
export function jobLink(tenant, job) {
  return `#/job?${new URLSearchParams({ tenant, name: job })}`;
}

/** The name of a job, of its tenant if there are tenants, as a link. */
export function jobName(tenant, job) {
  const of = tenant ? h("span", { class: "soft small" }, name(tenant), "/") : null;
  return h("a", { class: "name", href: jobLink(tenant, job) }, of, name(job));
}
