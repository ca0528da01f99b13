// The page of cached rows and file pages, as far as workers report them.

import { live } from "./api.js";
import { bytes, empty, h, jobName, num, percent, render, table, tile } from "./dom.js";

export function cache(root, status) {
  return live("cache", {}, (seen) => render(root, page(seen)), status);
}

const count = (value) => (Number.isFinite(value) ? value : 0);

/** Adds up the figures of one job's workers. */
function total(caching) {
  const all = { kept: "nothing", why: "", memory: 0, disk: 0, found: 0, computed: 0, asked: 0, fromDisk: 0, fetched: 0 };
  for (const { cache } of caching) {
    const rows = cache?.rows ?? {};
    const source = cache?.source ?? {};
    if (cache?.kept) [all.kept, all.why] = [String(cache.kept), String(cache.why ?? "")];
    all.memory += count(rows.in_memory);
    all.disk += count(rows.on_disk);
    all.found += count(rows.found_in_memory) + count(rows.found_on_disk) + count(rows.found_at_peers) + count(rows.found_in_store);
    all.computed += count(rows.computed);
    all.asked += count(source.asked);
    all.fromDisk += count(source.from_disk);
    all.fetched += count(source.fetched);
  }
  return all;
}

function page(seen) {
  const jobs = seen.jobs.map((job) => ({ job, all: total(job.caching) }));
  const sum = (of) => jobs.reduce((all, one) => all + of(one.all), 0);
  const [found, computed, asked, disk] = [sum((a) => a.found), sum((a) => a.computed), sum((a) => a.asked), sum((a) => a.fromDisk)];
  const rows = jobs.map(({ job, all }) => ({ key: `${job.tenant}/${job.name}`, cells: [
    jobName(job.tenant, job.name), all.kept, h("span", { class: "small" }, all.why), num(all.memory), num(all.disk),
    all.found + all.computed ? percent(all.found / (all.found + all.computed)) : "–", all.asked ? `${bytes(all.fetched)} of ${bytes(all.asked)}` : "–"] }));
  const heads = [["Job"], ["Keeps"], ["Why", "why"], ["Rows in memory", "num"], ["Rows on disk", "num"], ["Found", "num"], ["Fetched from the store", "num"]];
  return [
    h("h1", null, "Cache"),
    h("div", { class: "tiles" },
      tile("Jobs with a cache", num(jobs.length), ""), tile("Rows found", found + computed ? percent(found / (found + computed)) : "–", `${num(found)} found, ${num(computed)} computed`),
      tile("Rows in memory", num(sum((a) => a.memory)), `${num(sum((a) => a.disk))} on disk`), tile("Bytes from disk", asked ? percent(disk / asked) : "–", `of ${bytes(asked)} of remote files`)),
    h("section", { class: "card" }, rows.length ? table(heads, rows) : empty("No job keeps rows or file pages. See cache() and autocache().")),
  ];
}
