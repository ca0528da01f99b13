//! The pipeline for people: as written, as it runs, and where each part runs.

use std::fmt::Write;

use forebay_core::ConsumerIndex;

use crate::epoch::epoch_plan::EpochPlan;
use crate::ops::Op;
use crate::physical::stages::Stages;
use crate::physical::steps::{FusedOp, Step, TailStep};
use crate::source::{Between, Changes, Combined, Combining, Source};

/// The most names of unread columns that are listed.
const COLUMNS_SHOWN: usize = 8;

/// The most datasets of one combination that are listed.
const PARTS_SHOWN: usize = 20;
/// The most changes of a share that are shown.
const SHARES_SHOWN: usize = 4;

/// Returns an op as the user would write it.
pub fn describe(op: &Op) -> String {
    format!("{}({})", op.name(), op.spec().arguments())
}

/// Returns the explanation of a pipeline; with its plan, also how its epochs are divided into splits.
pub fn explain(stages: &Stages, plan: Option<&EpochPlan>) -> String {
    let mut out = String::new();
    as_written(&mut out, stages);
    as_run(&mut out, stages);
    if let Some(plan) = plan {
        splits(&mut out, stages, plan);
    }
    out
}

fn as_written(out: &mut String, stages: &Stages) {
    let graph = &stages.graph;
    let _ = writeln!(out, "as written  (dataset {:.12})", graph.dataset_id().to_string());
    let source = format!("{}({})", graph.source().name(), graph.source().describe());
    let mut schema = graph.source().schema().unwrap_or_default();
    let _ = writeln!(out, "  {source}\n      {schema}");
    if let Source::Combined(combined) = graph.source() {
        parts(out, combined, 6);
    }
    for node in graph.nodes() {
        let after = node.op.apply(&schema).unwrap_or_default();
        let site = node.site.as_ref().map_or(String::new(), |s| format!("    # {s}"));
        let _ = writeln!(out, "  .{}{site}", describe(&node.op));
        if after != schema {
            let changed: Vec<_> = after
                .fields()
                .iter()
                .filter(|f| !schema.fields().contains(f))
                .map(|f| format!("{}: {}", f.name, f.kind))
                .collect();
            let gone =
                schema.fields().iter().filter(|f| after.position(&f.name).is_none()).map(|f| format!("-{}", f.name));
            let _ = writeln!(out, "      {}", changed.into_iter().chain(gone).collect::<Vec<_>>().join(", "));
        }
        schema = after;
    }
}

/// Writes the datasets that are the source, with their shares and ops.
fn parts(out: &mut String, combined: &Combined, indent: usize) {
    for (number, part) in combined.parts.iter().enumerate().take(PARTS_SHOWN) {
        let share = share(&combined.how, number);
        let source = part.graph.source();
        let ops: String = part.graph.nodes().iter().map(|node| format!(".{}", describe(&node.op))).collect();
        let _ = writeln!(out, "{:indent$}{}{share}: {}({}){ops}", "", part.name, source.name(), source.describe());
        if let Source::Combined(inner) = source {
            parts(out, inner, indent + 2);
        }
    }
    if let Some(more) = combined.parts.len().checked_sub(PARTS_SHOWN).filter(|more| *more > 0) {
        let _ = writeln!(out, "{:indent$}and {more} more", "");
    }
}

/// Returns the share of a dataset of a mix, and the shares that come later.
fn share(how: &Combining, part: usize) -> String {
    let Combining::Mix { weights, changes, .. } = how else { return String::new() };
    let percent =
        |weights: &[f64]| format!("{:.4} %", weights.get(part).unwrap_or(&0.0) / weights.iter().sum::<f64>() * 100.0);
    let mut text = percent(weights);
    if let Some(Changes { between, points }) = changes {
        let to = if *between == Between::Linear { "to" } else { "and" };
        for point in points.iter().take(SHARES_SHOWN) {
            let _ = write!(text, ", {to} {} at row {}", percent(&point.weights), point.row);
        }
        if points.len() > SHARES_SHOWN {
            text.push_str(", ...");
        }
    }
    format!(" ({text})")
}

/// Writes how many rows of each dataset an epoch has.
fn part_counts(out: &mut String, stages: &Stages, plan: &EpochPlan) {
    let (Source::Combined(combined), Some(combination)) = (stages.graph.source(), plan.combination()) else { return };
    let all = combination.len();
    for (part, (rows, count)) in combined.parts.iter().zip(combination.counts()).take(PARTS_SHOWN) {
        let count = match (count, all) {
            (Some(count), Some(all)) if all > 0 && !combined.is_by_number() => {
                format!("{count} in an epoch, {:.4} % of it", count as f64 / all as f64 * 100.0)
            }
            (Some(count), _) => format!("{count} in an epoch"),
            (None, _) => "again and again".to_owned(),
        };
        let _ = writeln!(out, "  {} has {rows} rows: {count}", part.name);
    }
    if combination.window_memory() > 0 {
        let bytes = combination.window_memory().div_ceil(1 << 20);
        let _ = writeln!(out, "  about {bytes} MiB of memory for the windows of their shuffles that are read at once");
    }
}

fn as_run(out: &mut String, stages: &Stages) {
    let graph = &stages.graph;
    let _ = writeln!(out, "as it runs");
    let how = match (stages.counted, graph.source().reads_files()) {
        _ if graph.source().is_streamed_mix() => "each dataset is a pipeline of its own",
        (true, true) => "rows are counted and read in any order",
        (true, false) => "rows are read in any order",
        (false, _) => "each block is read from its start",
    };
    for line in stages.run_order.lines(graph) {
        let _ = writeln!(out, "  {line}");
    }
    let order: Vec<_> = stages.order.iter().map(|s| describe(&s.node.op)).collect();
    let order = if order.is_empty() { "as stored".to_owned() } else { order.join(" -> ") };
    let _ = writeln!(out, "  epoch plan (computed, no data moves): {order}");
    let _ = writeln!(out, "  in each split, on a worker or here:");
    let _ = writeln!(out, "    read {}: {how}{}", graph.source().name(), not_read(stages));
    let after = stages.split.iter().skip(stages.prefix().len());
    stages.prefix().iter().for_each(|fused| {
        let _ = writeln!(out, "    {}", describe_fused(fused));
    });
    cache_point(out, stages);
    after.for_each(|fused| {
        let _ = writeln!(out, "    {}", describe_fused(fused));
    });
    if let Some(b) = stages.aligned {
        let _ = writeln!(out, "    batch({}): splits are whole batches", b.size);
    }
    candidates(out, stages);
    on_consumer(out, stages);
    if !stages.tail.is_empty() {
        let _ = writeln!(out, "  after the merge, at the consumer (the rows are known only now):");
    }
    for step in &stages.tail {
        let text = match step {
            TailStep::Mix => "mix: rows of each dataset in its own order, in shares that hold in windows".to_owned(),
            TailStep::RowOps(fused) => describe_fused(fused),
            TailStep::Take(n) => format!("take({n})"),
            TailStep::Skip(n) => format!("skip({n})"),
            TailStep::Shard { count, index } => format!("shard({count}, {index})"),
            TailStep::Pack(step) | TailStep::Bucket(step) => describe(&step.node.op),
            TailStep::Batch(b) => format!("batch({})", b.size),
        };
        let _ = writeln!(out, "    {text}");
    }
}

/// Returns the columns of the source that are not read.
fn not_read(stages: &Stages) -> String {
    let (Ok(all), Ok(read)) = (stages.graph.source().schema(), stages.source.schema()) else { return String::new() };
    let left: Vec<_> = all.fields().iter().map(|f| &*f.name).filter(|name| read.position(name).is_none()).collect();
    match left.len() {
        0 => String::new(),
        1..=COLUMNS_SHOWN => format!("; not needed, so not read: {}", left.join(", ")),
        more => format!("; {more} columns are not needed, so not read"),
    }
}

/// Writes the cache point, and the ops that it freezes.
fn cache_point(out: &mut String, stages: &Stages) {
    let Some(cached) = &stages.cached else { return };
    let columns = cached.schema.fields().len();
    let _ = writeln!(
        out,
        "    cache: what is above runs once for each sample; its {columns} columns are kept and found again"
    );
    let frozen = stages.frozen();
    if !frozen.is_empty() {
        let names = frozen.join(", ");
        let _ = writeln!(out, "      frozen: {names} of a sample is the same in every epoch, so it augments less");
    }
}

/// Writes the candidates of `autocache()`.
fn candidates(out: &mut String, stages: &Stages) {
    if stages.candidates.is_empty() {
        return;
    }
    let names: Vec<_> = stages.candidates.iter().map(|candidate| candidate.name.as_str()).collect();
    let _ = writeln!(
        out,
        "    autocache: after a few measurements, what costs least: nothing is kept, or {}",
        names.join(", or ")
    );
    let _ =
        writeln!(out, "      each process decides for itself, and again when the figures move; no row depends on it");
}

/// Writes the ops that consumers of a service run, and the bytes that this saves.
fn on_consumer(out: &mut String, stages: &Stages) {
    let (Ok(boundary), Ok(whole)) = (stages.default_boundary(), stages.split_schema()) else { return };
    if boundary.consumer.is_empty() {
        return;
    }
    let size = |schema: &forebay_data::Schema| schema.row_bytes(0).div_ceil(1 << 10);
    let ops: Vec<_> = boundary.consumer.iter().flat_map(FusedOp::steps).map(|s| s.node.op.name()).collect();
    let (sent, made) = (size(&boundary.schema), size(&whole));
    let _ = writeln!(out, "    on a service, consumers do {}: {sent} KiB a row travel, not {made}", ops.join(" + "));
    let _ =
        writeln!(out, "      that is where it begins: what ops turn out to cost, and the trainer's cores, may move it");
}

fn describe_fused(fused: &FusedOp) -> String {
    match fused {
        FusedOp::Image { column, steps } if steps.len() > 1 => {
            let names: Vec<_> = steps.iter().map(|s| s.node.op.name()).collect();
            format!("one pass over {column:?}: {}", names.join(" + "))
        }
        FusedOp::Function(step) | FusedOp::FlatMap(step) => {
            let group = if step.per_batch { "for each batch" } else { "in python" };
            format!("{}  ({group})", describe(&step.node.op))
        }
        FusedOp::Mix(step) => format!("{}  (for each batch)", describe(&step.node.op)),
        FusedOp::Pad(step) => {
            let how = match &step.node.op {
                Op::Batch(_) => "stack lists of one length: ",
                Op::PaddedBatch(batch) if !batch.ragged.is_empty() => "lists: ",
                _ => "pad: ",
            };
            format!("{how}{}  (for each batch)", describe(&step.node.op))
        }
        FusedOp::Table(Step { node, .. }) if matches!(node.op, Op::PaddedBatch(_)) => {
            "lengths of rows: checked, cut and told".to_owned()
        }
        FusedOp::Table(Step { node, .. }) if matches!(node.op, Op::BucketByLength(_) | Op::BatchByKey(_)) => {
            format!("rows that no batch of {} can hold: refused", node.op.name())
        }
        other => other.steps().iter().map(|s| describe(&s.node.op)).collect(),
    }
}

fn splits(out: &mut String, stages: &Stages, plan: &EpochPlan) {
    let sizing = plan.sizing();
    let count = |n: Option<u64>| n.map_or("endless".to_owned(), |n| n.to_string());
    if let Source::Combined(combined) = &stages.source
        && combined.is_streamed()
    {
        let _ = writeln!(out, "splits");
        for (part, plan) in combined.parts.iter().zip(plan.parts()).take(PARTS_SHOWN) {
            let _ = writeln!(out, "  {}: {} an epoch of it", part.name, count(plan.num_splits(ConsumerIndex(0))));
        }
        return;
    }
    let n = plan.num_splits(ConsumerIndex(0));
    let _ = writeln!(out, "splits");
    part_counts(out, stages, plan);
    if let Some(layout) = plan.lane_layout() {
        let (n, lanes) = (count(n), layout.lanes());
        let _ = writeln!(out, "  {n} an epoch, one for each window of the shuffle");
        let _ = writeln!(
            out,
            "  shuffled over windows of about {} bytes, each of pieces of {lanes} files (or runs of files) that are read side by side, in an \
             order of the epoch; rows are not counted, so the first batch needs one window and no pass over the source",
            sizing.window_bytes
        );
        windows(out, stages, plan);
        return;
    }
    if sizing.unit_rows == 0 {
        let _ = writeln!(out, "  {} an epoch, one for each source block", count(n));
        return;
    }
    let unit = if stages.aligned.is_some() { "batches" } else { "runs of rows" };
    let _ = writeln!(
        out,
        "  {} rows an epoch in {} splits of {} {unit} of {} rows, computed {} at a time",
        count(plan.rows()),
        count(n),
        sizing.split_units,
        sizing.unit_rows,
        sizing.morsel_units
    );
    if sizing.window_rows > 0 {
        let (rows, blocks) = (sizing.window_rows, plan.extent().blocks);
        let _ = writeln!(out, "  shuffled over windows of {rows} rows, of {blocks} blocks in random order");
        windows(out, stages, plan);
    }
    if plan.consumers() > 1 {
        shares(out, unit, plan);
    }
}

/// Writes the memory of the windows.
fn windows(out: &mut String, stages: &Stages, plan: &EpochPlan) {
    let bytes = plan.sizing().window_memory(stages, plan.extent()).unwrap_or(0);
    let _ = writeln!(out, "  about {} MiB of memory for the windows that are read at once", bytes.div_ceil(1 << 20));
}

/// Writes how many units each of several consumers gets.
fn shares(out: &mut String, unit: &str, plan: &EpochPlan) {
    let n = plan.consumers();
    if plan.sharding().coordinated {
        let _ = writeln!(out, "  each of {n} consumers reads all of them, and takes its part of every {n} batches");
        return;
    }
    let what = match (plan.knows_counts(), plan.sharding().even, plan.units()) {
        (false, _, _) => "how much each gets is known only when it has run".to_owned(),
        (true, _, None) => "without end".to_owned(),
        (true, true, Some(units)) => {
            let share = plan.share(ConsumerIndex(0), 0).or(plan.consumer_units(ConsumerIndex(0))).unwrap_or(0);
            format!("{share} to each; of {units}, {} are left out", units - share * u64::from(n))
        }
        (true, false, Some(units)) => format!("all {units}, so that some may get one more than others"),
    };
    let _ = writeln!(out, "  {unit} are dealt to {n} consumers, one after the other: {what}");
}
