// The page of all jobs.

import { live } from "./api.js";
import { spark } from "./chart.js";
import { empty, h, jobName, later, meter, name, num, percent, pill, render, table, tile, workersOf } from "./dom.js";

const LIMIT = 50;
const COLUMNS = [["Job", "c-name"], ["State", "c-state"], ["Batches/s", "c-rate"], ["Waits", "num c-wait"], ["Workers", "num c-work"], ["Progress", "c-prog"], ["What holds it back", "why"]];

export function overview(root, status) {
  const want = { search: "", sort: "state", offset: 0, limit: LIMIT };
  let end = () => {};
  let last = null;
  const begin = () => {
    end();
    end = live("overview", want, (seen) => { last = seen; draw(); }, status);
  };
  const ask = (change) => { Object.assign(want, change); begin(); };
  const draw = () => render(root, page(last, want, ask));
  begin();
  return () => end();
}

function page(seen, want, ask) {
  const states = seen.jobs_by_state;
  const running = states.running ?? 0;
  const waiting = states["waiting for workers"] ?? 0;
  const bound = seen.jobs.filter((job) => job.why.bound === "data").length;
  const scale = seen.scale;
  const workers = seen.workers;
  const wanted = scale?.wanted ? `${scale.wanted} wanted, ${scale.max_workers} at most` : scale ? "none wanted yet" : `${workers.threads} threads`;
  const kinds = Object.entries(workers.by_kind).map(([kind, n]) => `${n} ${kind}`).join(", ");
  return [
    h("h1", null, "Jobs"),
    h("div", { class: "tiles" },
      tile("Jobs that run", num(running), waiting ? `${waiting} without a worker` : `${num(sum(states))} in all`),
      tile("Held back by data", num(bound), `of ${num(seen.jobs.length)} shown`),
      tile("Workers", num(workers.live), wanted),
      tile("Threads", num(workers.threads), kinds),
      workers.price > 0 ? tile("Price per hour", num(workers.price), "of all workers") : null),
    attention(seen.alarms),
    h("section", { key: "jobs", class: "card", "aria-label": "Jobs" },
      h("div", { class: "bar" },
        h("input", { type: "search", placeholder: "Search jobs", "aria-label": "Search jobs", id: "search", oninput: later((e) => ask({ search: e.target.value, offset: 0 })) }),
        h("label", { class: "small" }, "Sort ", h("select", { id: "sort", onchange: (e) => ask({ sort: e.target.value, offset: 0 }) },
          [["state", "newest"], ["waited", "longest wait"], ["name", "name"]].map(([value, text]) => h("option", { value }, text)))),
        h("span", { class: "count" }, `${num(seen.jobs_found)} found`), pager(want, seen.jobs_found, ask)),
      seen.jobs.length ? table(COLUMNS, seen.jobs.map(row), "jobs") : empty(seen.jobs_found || want.search ? "No job matches." : "No job has been opened yet. In a program: ds.distribute(service, job=\"name\").")),
    h("p", { class: "soft small" }, `Forebay ${seen.version}`),
  ];
}

// One line, also without an alarm, so that the jobs below stay where they are. It opens to the list.
function attention(alarms) {
  const [first] = alarms;
  const line = first ? [h("b", null, first.level), " ", text(first), alarms.length > 1 ? ` and ${num(alarms.length - 1)} more` : null] : "Nothing needs attention.";
  return h("details", { key: "alarms", class: first ? `attention ${first.level}` : "attention" }, h("summary", null, line),
    h("ul", { class: "alarms", "aria-label": "Alarms" }, alarms.map((alarm) => h("li", { class: alarm.level }, h("b", null, alarm.level), text(alarm)))));
}

function text(alarm) {
  return [alarm.text, alarm.job === null ? null : [": ", jobLabel(alarm)]];
}

function jobLabel(alarm) {
  const params = new URLSearchParams({ tenant: alarm.tenant, name: alarm.job });
  return h("a", { href: `#/job?${params}` }, name(alarm.job, 60));
}

function row(job) {
  const waits = job.recent.waited;
  return { key: `${job.tenant}/${job.name}`, cells: [
    jobName(job.tenant, job.name),
    pill(job.state),
    h("div", null, num(job.recent.batches_per_s), spark(job.spark)),
    h("span", { class: waits > 0.05 ? "data-text" : "" }, percent(waits)),
    workersOf(job),
    h("div", null, job.progress === null ? `epoch ${job.epoch}` : percent(job.progress), meter(job.progress)),
    h("div", { title: job.why.sentence }, job.why.sentence),
  ] };
}

export function pager(want, found, ask) {
  if (found <= want.limit && want.offset === 0) return null;
  const go = (offset) => () => ask({ offset });
  return h("span", null,
    h("button", { type: "button", disabled: want.offset === 0, onclick: go(Math.max(0, want.offset - want.limit)) }, "Previous"), " ",
    `${want.offset + 1}–${Math.min(want.offset + want.limit, found)} `,
    h("button", { type: "button", disabled: want.offset + want.limit >= found, onclick: go(want.offset + want.limit) }, "Next"));
}

function sum(counts) {
  return Object.values(counts).reduce((a, b) => a + b, 0);
}
