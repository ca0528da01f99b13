// The page of all workers.

import { live } from "./api.js";
import { ago, empty, h, later, name, num, pill, render, table, tile } from "./dom.js";
import { pager } from "./overview.js";

const COLUMNS = [["Worker"], ["State"], ["Kind"], ["Address"], ["Threads", "num"], ["Splits held", "num"], ["Splits done", "num"], ["Rows done", "num"], ["Silent", "num"], ["Price/h", "num"]];

export function workers(root, status) {
  const want = { search: "", offset: 0, limit: 100 };
  let end = () => {};
  let last = null;
  const begin = () => {
    end();
    end = live("workers", want, (seen) => { last = seen; render(root, page(last, want, ask)); }, status);
  };
  const ask = (change) => { Object.assign(want, change); begin(); };
  begin();
  return () => end();
}

function page(seen, want, ask) {
  const { counts } = seen;
  const state = (name) => counts.by_state[name] ?? 0;
  return [
    h("h1", null, "Workers"),
    h("div", { class: "tiles" },
      tile("Live", num(counts.live), `${num(counts.threads)} threads`), tile("Compute now", num(state("working")), `${num(state("idle"))} idle`),
      tile("Slow", num(state("slow")), "late with a split"), tile("Lost", num(state("lost")), "in the last 10 minutes"), tile("Leaving", num(state("leaving")), ""),
      counts.price > 0 ? tile("Price per hour", num(counts.price), "") : null),
    h("section", { key: "workers", class: "card", "aria-label": "Workers" },
      h("div", { class: "bar" }, h("input", { type: "search", placeholder: "Search workers", "aria-label": "Search workers", oninput: later((e) => ask({ search: e.target.value, offset: 0 })) }),
        h("span", { class: "count" }, `${num(seen.found)} found`), pager(want, seen.found, ask)),
      seen.workers.length ? table(COLUMNS, seen.workers.map(row)) : empty("No worker. Start one: forebay worker --dispatcher HOST:PORT")),
  ];
}

function row(worker) {
  const off = worker.disk_off ? h("div", { class: "small bad-text" }, `keeps nothing on disk: ${worker.disk_off.slice(0, 200)}`) : null;
  const differs = worker.differs.map((d) => h("div", { class: "small bad-text" }, `gets no splits of ${d.job.slice(0, 60)}, which began with other bits: ${d.difference.slice(0, 200)}`));
  const lost = worker.lost ? h("div", { class: "small" }, `${worker.lost_ms === null ? "" : `${ago(worker.lost_ms / 1000)}: `}${worker.lost}`) : null;
  return { key: worker.worker, cells: [
    h("span", { class: "mono", title: worker.worker }, worker.worker.slice(0, 8)), h("div", null, pill(worker.state), lost, off, ...differs),
    [name(worker.kind, 40), worker.spot ? " (spot)" : ""], h("span", { class: "mono" }, worker.local ? "local" : name(worker.address, 60)), num(worker.threads), num(worker.leases),
    num(worker.splits_done), num(worker.rows_done), `${num(worker.silent_ms / 1000)} s`, worker.price > 0 ? num(worker.price) : "–"] };
}
