// The page of what happened.

import { live } from "./api.js";
import { empty, h, jobName, later, render, table } from "./dom.js";

export function events(root, status) {
  const want = { search: "", most: 300 };
  let end = () => {};
  let last = [];
  const begin = () => {
    end();
    end = live("events", want, (seen) => { last = seen; render(root, page(last, ask)); }, status);
  };
  const ask = (change) => { Object.assign(want, change); begin(); };
  begin();
  return () => end();
}

function page(seen, ask) {
  const rows = seen.map((event) => ({ key: `${event.at_ms}/${event.job}/${event.text}`, cells: [
    h("span", { class: "mono" }, new Date(event.at_ms).toLocaleTimeString("en-GB")), event.kind, event.job === null ? "" : jobName(event.tenant, event.job), event.text] }));
  return [
    h("h1", null, "Events"),
    h("section", { key: "events", class: "card", "aria-label": "Events" },
      h("div", { class: "bar" }, h("input", { type: "search", placeholder: "Search events", "aria-label": "Search events", oninput: later((e) => ask({ search: e.target.value })) }),
        h("span", { class: "count" }, `${seen.length} shown, the newest first`)),
      rows.length ? table([["Time"], ["Kind"], ["Job", "c-name"], ["What", "why"]], rows) : empty("Nothing has happened since this dashboard began to look, or your token may not see it.")),
  ];
}
