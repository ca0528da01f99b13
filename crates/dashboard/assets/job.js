// The page of one job.

import { get, live } from "./api.js";
import { chart } from "./chart.js";
import { ago, bytes, empty, h, name, num, percent, pill, render, table, tile, workersOf } from "./dom.js";
import { flow, written } from "./graph.js";

/** Seconds between two calls for the history, and the spans that can be chosen. */
const HISTORY_EVERY = 10000;
const SPANS = [[120, "2 min"], [600, "10 min"], [3600, "1 h"], [86400, "24 h"]];
/** Looks from which rates of ops are made: the dispatcher hears of ops about once a second. */
const LOOKS = 8;

export function job(root, status, params) {
  const id = { name: params.get("name") ?? "", tenant: params.get("tenant") ?? undefined };
  const state = { looks: [], series: null, span: null, events: [] };
  const control = new AbortController();
  const draw = () => { if (state.looks.length) render(root, page(state, (span) => { state.span = span; draw(); })); };
  const remember = async () => {
    try {
      state.series = await get("history", id, control.signal);
      const all = await get("events", { most: 1000 }, control.signal);
      const now = state.looks.at(-1);
      state.events = all.filter((event) => now && event.job === now.name && event.tenant === now.tenant).slice(0, 30);
      draw();
    } catch { /* The stream says what is wrong. */ }
  };
  const end = live("job", id, (seen) => {
    const isFirst = !state.looks.length;
    state.looks = [...state.looks, seen].slice(-LOOKS);
    if (isFirst) remember();
    draw();
  }, (error) => {
    if (error?.status === 404) render(root, h("h1", null, name(id.name, 80)), empty("There is no such job, or its owner is another tenant."), h("a", { href: "#/" }, "All jobs"));
    status(error);
  });
  const timer = setInterval(remember, HISTORY_EVERY);
  return () => { end(); clearInterval(timer); control.abort(); };
}

/** Rows a second of each op, from the oldest look to the newest. */
function rates(looks) {
  const [first, last] = [looks[0], looks.at(-1)];
  const seconds = (last.at_ms - first.at_ms) / 1000;
  return last.ops.map((op, i) => {
    const before = first.ops[i];
    return seconds > 0 && before?.op === op.op ? Math.max(0, op.rows_in - before.rows_in) / seconds : null;
  });
}

function page(state, setSpan) {
  const job = state.looks.at(-1);
  const cost = job.worked.reduce((all, one) => all + one.cost + one.idle_cost, 0);
  const kinds = ["data", "training"].includes(job.why.bound) ? job.why.bound : "";
  const epoch = Math.min(...job.consumers.map((consumer) => consumer.epoch));
  return [
    h("p", { class: "small" }, h("a", { href: "#/" }, "All jobs")),
    h("h1", null, job.tenant ? h("span", { class: "soft" }, name(job.tenant), " / ") : null, name(job.name, 160), " ", pill(job.state)),
    h("section", { key: "why", class: `card verdict ${kinds}`, id: "why", role: "status" }, h("span", { class: "label" }, "What holds it back"), job.why.sentence),
    h("div", { class: "tiles" },
      tile("Batches per second", num(job.recent.batches_per_s), `${num(job.recent.rows_per_s)} rows/s, ${bytes(job.recent.bytes_per_s)}/s`),
      tile("Training waits", percent(job.recent.waited), `of the last ${Math.round(job.recent.seconds)} s`),
      tile("Workers", workersOf(job), job.local_threads ? `${job.local_threads} local threads` : ""),
      tile("Progress", job.progress === null ? `epoch ${epoch}` : percent(job.progress), job.epochs ? `epoch ${Math.min(epoch + 1, job.epochs)} of ${job.epochs}` : "without end"),
      tile("Skipped samples", num(job.consumers.reduce((all, c) => all + c.skipped, 0)), `${job.raced} late splits raced`),
      cost > 0 ? tile("Cost so far", num(cost), "since the dispatcher started") : null),
    h("section", { key: "pipeline", class: "card" }, h("h2", null, "Pipeline"), h("div", { class: "soft small" }, "As written"), written(job.written),
      h("div", { class: "soft small" }, "As it runs", job.cut ? [" · ", job.cut] : null), flow(job, rates(state.looks))),
    charts(state, job, setSpan),
    h("div", { class: "split2" }, decisions(job), happened(state.events, job)),
    consumers(job), inFlight(job),
    kept(job),
  ];
}

function charts(state, job, setSpan) {
  const to = Math.floor(job.at_ms / 1000);
  // Until the user chooses a span: the shortest span that shows the whole history.
  const first = state.series?.fine[0]?.at ?? to;
  const span = state.span ?? (to - first > 150 ? 600 : 120);
  const from = to - span;
  const isDay = span > 3600;
  const points = (isDay ? state.series?.coarse : state.series?.fine) ?? [];
  const marks = job.decisions.map((one) => ({ at: to - one.ago_s, text: `${one.before} → ${one.workers}: ${one.reason}` }));
  const common = { points: points.filter((point) => point.at >= from), from, to, gap: isDay ? 400 : 10 };
  const buttons = SPANS.map(([seconds, text]) => h("button", { type: "button", "aria-pressed": span === seconds ? "true" : "false", class: span === seconds ? "main" : "", onclick: () => setSpan(seconds) }, text));
  return h("section", { key: "history", class: "card", "aria-label": "History" }, h("div", { class: "bar" }, h("h2", null, "History"), h("span", { class: "count" }, buttons)),
    h("div", { class: "charts" },
      chart({ title: "Batches per second", lines: [{ of: (p) => p.batches_per_s }], ...common }),
      chart({ title: "Training waits", lines: [{ of: (p) => p.waited }], format: percent, most: 1, ...common }),
      chart({ title: "Workers there / wanted, with decisions", lines: [{ of: (p) => p.workers, step: true }, { of: (p) => p.wanted, step: true }], marks, most: 1, ...common })));
}

function decisions(job) {
  const rows = job.decisions.slice(-12).reverse().map((one, i) => ({ key: i, cells: [ago(one.ago_s), `${one.before} → ${one.workers}`, h("span", { class: "small" }, one.reason)] }));
  return h("section", { class: "card" }, h("h2", null, "Decisions on workers"),
    rows.length ? table([["When", "short"], ["Workers", "num"], ["Why", "why"]], rows) : empty("None yet."));
}

function consumers(job) {
  const at = (c) => (c.splits ? c.epoch * c.splits + c.split : c.split);
  const apart = Math.max(...job.consumers.map(at)) - Math.min(...job.consumers.map(at));
  const rows = job.consumers.slice(0, 64).map((c) => ({ key: c.consumer, cells: [
    num(c.consumer), c.attached ? "reads" : h("span", { class: "soft" }, "absent"), `${c.epoch} : ${c.split}${c.splits ? ` / ${c.splits}` : ""}`,
    num(c.recent.batches_per_s), percent(c.recent.waited), c.waiting_ms > 1000 ? `${num(c.waiting_ms / 1000)} s` : "–", num(c.ahead), num(c.leased), num(c.skipped)] }));
  const heads = [["Consumer", "num"], ["State"], ["Epoch : split", "short"], ["Batches/s", "num"], ["Waits", "num"], ["Now", "num"], ["Ahead", "num"], ["Leased", "num"], ["Skipped", "num"]];
  return h("section", { key: "consumers", class: "card" }, h("h2", null, "Consumers ", h("span", { class: "soft small" }, job.consumers.length > 1 ? `${num(apart)} splits apart` : "")), table(heads, rows));
}

function inFlight(job) {
  const rows = job.in_flight.map((one) => ({ key: `${one.consumer}/${one.epoch}/${one.split}`, cells: [
    num(one.consumer), `${one.epoch} : ${one.split}`, h("span", { class: "mono" }, one.worker.slice(0, 8)), one.second ? h("span", { class: "pill slow" }, `late, also ${one.second.slice(0, 8)}`) : ""] }));
  return h("section", { key: "flight", class: "card" }, h("h2", null, "Splits in flight"), rows.length ? table([["Consumer", "num"], ["Epoch : split"], ["Worker"], [""]], rows) : empty("None."));
}

function happened(events, job) {
  const rows = events.map((event) => ({ key: `${event.at_ms}/${event.text}`, cells: [ago((job.at_ms - event.at_ms) / 1000), event.kind, h("span", { class: "small" }, event.text)] }));
  return h("section", { class: "card" }, h("h2", null, "What happened"), rows.length ? table([["When", "short"], ["Kind"], ["What", "why"]], rows) : empty("Nothing since this dashboard began to look."));
}

function kept(job) {
  if (!job.caching.length) return null;
  const rows = job.caching.map((one) => ({ key: one.worker, cells: [h("span", { class: "mono" }, one.worker.slice(0, 8)), String(one.cache?.kept ?? "nothing"), h("span", { class: "small" }, String(one.cache?.why ?? ""))] }));
  return h("section", { key: "kept", class: "card" }, h("h2", null, "Cached rows"), table([["Worker"], ["Kept"], ["Why", "why"]], rows));
}
