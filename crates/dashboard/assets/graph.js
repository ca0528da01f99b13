// The pipeline of a job: as written, and as it runs, with the op that costs most.

import { bytes, empty, h, meter, name, num, percent } from "./dom.js";

const PLACES = { workers: "workers", local: "local workers", reader: "trainer" };

export function written(ops) {
  return h("ol", { class: "chips", "aria-label": "As written" },
    ops.map((op) => h("li", { class: "mono", title: op.line ?? "" }, name(op.op, 80))));
}

/** `rates`: rows a second of each op, made of two looks. */
export function flow(job, rates) {
  if (!job.ops.length) return empty("No op has reported its cost yet.");
  const hot = Math.max(...job.ops.map((op) => op.share ?? 0));
  const earlier = job.ops.some((op) => op.earlier);
  const boxes = job.ops.map((op, i) => box(op, rates[i], job.why.bound === "data" && op.share === hot && hot > 0));
  return [
    earlier ? h("p", { class: "soft small" }, "Figures of earlier jobs with the same pipeline: this one has reported none yet.") : null,
    h("ol", { class: "flow", "aria-label": "As it runs" }, boxes.map((one) => h("li", null, one)), h("li", null, trainer(job))),
  ];
}

function box(op, rate, isHot) {
  const place = PLACES[op.at] ?? op.at;
  const side = op.at === "workers" ? "at-workers" : "at-trainer";
  const out = op.rows_out ? op.bytes_out / op.rows_out : null;
  const into = op.rows_in ? op.bytes_in / op.rows_in : null;
  const found = op.rows_found ? [h("dt", null, "found in cache"), h("dd", null, percent(op.rows_found / Math.max(op.rows_in, 1)))] : null;
  return h("div", { class: `op ${side} ${isHot ? "hot" : ""}`, title: op.line ?? "" },
    h("div", { class: "where" }, h("span", null, place), isHot ? h("span", { class: "hot-label" }, "bottleneck") : null),
    h("span", { class: "name" }, name(op.op, 80)),
    h("div", { class: "small" }, `${percent(op.share)} of the CPU`), meter(op.share, isHot ? "data" : ""),
    h("dl", null,
      h("dt", null, "rows/s"), h("dd", null, num(rate)),
      h("dt", null, "time/row"), h("dd", null, `${num(op.row_us)} µs`),
      h("dt", null, "bytes/row"), h("dd", null, op.bytes_in ? `${bytes(into)} → ${bytes(out)}` : bytes(out)), found));
}

function trainer(job) {
  const isHot = job.why.bound === "training";
  return h("div", { class: `op at-trainer ${isHot ? "hot training" : ""}` },
    h("div", { class: "where" }, h("span", null, "trainer"), isHot ? h("span", { class: "hot-label" }, "bottleneck") : null),
    h("span", { class: "name" }, "training"),
    h("div", { class: "small" }, `waits ${percent(job.recent.waited)} of its time`), meter(job.recent.waited, "data"),
    h("dl", null,
      h("dt", null, "batches/s"), h("dd", null, num(job.recent.batches_per_s)),
      h("dt", null, "without waits"), h("dd", null, num(job.recent.demand_per_s)),
      h("dt", null, "consumers"), h("dd", null, num(job.consumers.length))));
}
