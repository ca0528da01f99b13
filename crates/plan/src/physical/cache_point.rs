//! Cache points: the row ops before `cache()` (the prefix) and the name of their output, and the candidates of
//! `autocache()`, each of which is treated as a `cache()` at its place.
//!
//! The name identifies a computation on one row of a source. It does not depend on the list of files, the order of
//! their rows or the ops after the cache point, so all pipelines with the same prefix share cached rows.
//!
//! Invariants: a cached row depends only on the source row, on the ops and, if random ops are frozen, on the seed. Two
//! prefixes that may give different bytes have different names, and so have prefixes of different versions of Forebay.

use std::sync::Arc;

use forebay_core::{Error, Result, VERSION};
use forebay_data::Schema;
use serde::Serialize;

use crate::graph::{Graph, Node};
use crate::ops::{Cache, Class, Op};
use crate::physical::stages::Stages;
use crate::physical::steps::FusedOp;
use crate::source::{Source, SourcePart};

/// The part of a split whose output is cached.
#[derive(Debug, Clone)]
pub struct CachePoint {
    /// The number of fused ops in it: the first ones of the split.
    pub fused_ops: usize,
    /// Whether random ops in it draw the same numbers in every epoch, those of epoch 0.
    pub freeze: bool,
    /// The cached columns.
    pub schema: Arc<Schema>,
}

/// A place where `autocache()` may cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheCandidate {
    /// The number of row ops before it.
    pub steps: usize,
    /// The ops before it, for messages.
    pub name: String,
}

/// The input of the hash that names a prefix.
#[derive(Serialize)]
struct Canonical<'a> {
    forebay: &'a str,
    source: Source,
    /// Each op; for a random one, also the number of its stream.
    ops: Vec<(Op, Option<u64>)>,
}

impl Stages {
    /// Returns the fused ops of the prefix; none without `cache()`.
    pub fn prefix(&self) -> &[FusedOp] {
        self.cached.as_ref().map_or(&[], |cached| &self.split[..cached.fused_ops])
    }

    /// Returns the bytes to hash for the name of the prefix: the source's kind, the ops before `cache()` with their
    /// arguments, and this version. If [`Stages::frozen`] is not empty, the name must include the seed, too. `None`
    /// without `cache()`.
    pub fn prefix_graph(&self) -> Option<Vec<u8>> {
        self.cached.as_ref()?;
        let mut steps: Vec<_> = self.prefix().iter().flat_map(FusedOp::steps).collect();
        if self.run_order.is_exact() {
            // An order that gives the same bytes is the same prefix.
            steps.sort_by_key(|step| step.place);
        }
        let canonical = Canonical {
            forebay: VERSION,
            source: self.source.without_paths().named(),
            ops: steps.iter().map(|s| (s.node.op.named(), s.node.op.is_random().then_some(s.random))).collect(),
        };
        serde_json::to_vec(&canonical).ok()
    }

    /// Returns the names of the ops that draw the same random numbers in every epoch.
    pub fn frozen(&self) -> Vec<&'static str> {
        let Some(_) = &self.cached else { return Vec::new() };
        let steps = self.prefix().iter().flat_map(FusedOp::steps).map(|step| &step.node);
        let nodes = steps.chain(augmenting_in_parts(self.graph.source()));
        nodes.filter(|node| node.op.is_random()).map(|node| node.op.name()).collect()
    }
}

impl Graph {
    /// Returns the pipeline up to `cache()`, which computes the cached row of each source row once; `None` without
    /// `cache()`. Its rows have the same names.
    ///
    /// # Errors
    /// Internal when the graph does not pass its own checks.
    pub fn cached_prefix(&self) -> Result<Option<Self>> {
        let Some(place) = self.nodes().iter().position(|node| matches!(node.op, Op::Cache(_))) else {
            return Ok(None);
        };
        // A shuffle stays, because frozen random ops draw by their number among all random ops.
        let stays = |op: &Op| matches!(op.class(), Class::RowWise | Class::Filter) || matches!(op, Op::Shuffle(_));
        let mut nodes = self.nodes()[..=place].iter().filter(|node| stays(&node.op));
        let all = Self::new(self.source().clone(), None)?.with_on_error(self.on_error());
        nodes.try_fold(all, |graph, node| graph.then((**node).clone())).map(Some)
    }
}

/// Returns the random row ops of the datasets that are the source.
fn augmenting_in_parts(source: &Source) -> Box<dyn Iterator<Item = &Arc<Node>> + '_> {
    let Source::Combined(combined) = source else { return Box::new(std::iter::empty()) };
    fn of_part(part: &SourcePart) -> impl Iterator<Item = &Arc<Node>> {
        let graph = &part.graph;
        let own = graph.nodes().iter().filter(|node| node.op.is_random() && node.op.class() != Class::Order);
        own.chain(augmenting_in_parts(graph.source()))
    }
    Box::new(combined.parts.iter().flat_map(of_part))
}

/// Adds a candidate; before the first one, also the rows as read.
pub(crate) fn mark(stages: &mut Stages, steps: usize) {
    for steps in [0, steps] {
        if stages.candidates.last().is_none_or(|last| last.steps < steps) {
            let names: Vec<_> = stages.split.iter().flat_map(FusedOp::steps).map(|step| step.node.op.name()).collect();
            let name = if steps == 0 { "rows as read".to_owned() } else { names.join(" -> ") };
            stages.candidates.push(CacheCandidate { steps, name });
        }
    }
}

/// Refuses a cache point where rows cannot be cached, and names the op before it that prevents it. `merged` is the
/// first op on the merged stream.
pub(crate) fn check(stages: &Stages, place: usize, op: &Op, merged: Option<&Arc<Node>>) -> Result<()> {
    let (name, freeze) = (op.name(), matches!(op, Op::Cache(Cache { freeze: true })));
    let before = &stages.graph.nodes()[..place];
    if stages.graph.source().is_streamed_mix() {
        return Err(Error::invalid(format!("{name} comes after mix, and the rows of its datasets are not counted"))
            .hint("leave it out, or save the rows once (save) and read the saved files"));
    }
    if !stages.graph.source().can_index() {
        return Err(Error::invalid(format!("{name}: a generator's samples have no names to keep them under"))
            .hint("use from_map_dataset, or write the samples to files first"));
    }
    let earlier = before.iter().find(|n| n.op.is_cache_point());
    if let Some(earlier) = earlier.filter(|n| !matches!((&n.op, op), (Op::Autocache(_), Op::Autocache(_)))) {
        let hint = match (&earlier.op, op) {
            (Op::Cache(_), Op::Cache(_)) => "the last one is enough: it keeps what all ops before it made",
            _ => {
                "leave one of the two out: cache keeps its place always, autocache keeps the one of its places that pays"
            }
        };
        let message = format!("{name} comes after {}{}", earlier.op.name(), written(Some(earlier)));
        return Err(Error::invalid(message).hint(hint));
    }
    if let Some(node) = merged {
        return Err(Error::invalid(format!(
            "{name} comes after {}{}, which works on the merged stream: what it gives of a sample depends on others",
            node.op.name(),
            written(Some(node))
        ))
        .hint(format!("put {name} before {}", node.op.name())));
    }
    if let Some(node) = before.iter().find(|n| n.op.class() == Class::Expand) {
        return Err(Error::invalid(format!(
            "{name} comes after {}{}, which makes several rows of one, and rows are kept under the name of their sample",
            node.op.name(),
            written(Some(node))
        ))
        .hint(format!("put {name} before {}", node.op.name())));
    }
    if let Some(node) = before.iter().find(|n| matches!(n.op, Op::Enumerate(_))) {
        return Err(Error::invalid(format!(
            "{name} comes after {}{}, which tells the place of a row in the epoch, and a row that is kept has no place",
            node.op.name(),
            written(Some(node))
        ))
        .hint(format!("put {name} before {}", node.op.name())));
    }
    let whole = stages.split.iter().flat_map(FusedOp::steps).find(|s| s.per_batch);
    if let Some(step) = whole {
        return Err(Error::invalid(format!(
            "{name} comes after {}{}, which sees whole batches",
            step.node.op.name(),
            written(Some(&step.node))
        ))
        .hint(format!("put {name} before batch, where it keeps samples")));
    }
    let mut random = augmenting_in_parts(stages.graph.source()).chain(before);
    let random = random.find(|n| n.op.is_random() && n.op.class() != Class::Order);
    match random {
        Some(node) if !freeze => Err(Error::invalid(format!(
            "{name} comes after {}{}, which draws other random numbers in each epoch",
            node.op.name(),
            written(Some(node))
        ))
        .hint(match op {
            Op::Autocache(_) => "put autocache before it; or use cache(freeze=True), where it draws once for each sample",
            _ => {
                "put cache before it; or give freeze=True: then it draws once for each sample, and all epochs see the same \
                 augmentation"
            }
        })),
        _ => Ok(()),
    }
}

/// Returns the line of an op, to follow its name in a message.
fn written(node: Option<&Arc<Node>>) -> String {
    node.and_then(|n| n.site.as_ref()).map_or(String::new(), |site| format!(" ({site})"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{self, ImageMode, Layout, Pack, Packing};
    use crate::{Expr, Site};

    fn files(paths: &[&str]) -> Source {
        Source::Files { paths: paths.iter().map(|p| (*p).to_owned()).collect() }
    }

    fn decode() -> Op {
        Op::DecodeImage(ops::DecodeImage { column: "bytes".to_owned(), mode: ImageMode::Rgb, exif: false })
    }

    fn crop(side: usize) -> Op {
        Op::CenterCrop(ops::CenterCrop { column: "bytes".to_owned(), height: side, width: side })
    }

    fn flip() -> Op {
        Op::RandomFlip(ops::RandomFlip { column: "bytes".to_owned(), probability: 0.5, direction: Default::default() })
    }

    fn normalize() -> Op {
        Op::Normalize(ops::Normalize {
            column: "bytes".to_owned(),
            mean: vec![0.5; 3],
            std: vec![0.5; 3],
            layout: Layout::Chw,
        })
    }

    const CACHE: Op = Op::Cache(ops::Cache { freeze: false });
    const FREEZE: Op = Op::Cache(ops::Cache { freeze: true });

    fn keep_some() -> Op {
        Op::FilterExpr(ops::FilterExpr { predicate: Expr::Bool { value: true } })
    }

    /// Returns the stages of ops that are written from line 1 on.
    fn stages(source: Source, ops: &[Op]) -> Result<Stages> {
        let node = |(line, op): (u32, &Op)| Node {
            label: (line % 2 == 0).then(|| format!("step {line}")),
            site: Some(Site { file: "train.py".to_owned(), line }),
            ..Node::new(op.clone())
        };
        let graph = (1..).zip(ops).map(node).try_fold(Graph::new(source, None)?, |graph, node| graph.then(node))?;
        Stages::new(&graph)
    }

    fn key(source: Source, ops: &[Op]) -> Vec<u8> {
        stages(source, ops).expect("legal").prefix_graph().expect("there is a cache")
    }

    #[test]
    fn images_are_fused_on_both_sides_of_a_cache_and_random_streams_keep_their_numbers() {
        let ops = [Op::SHUFFLE, decode(), crop(8), CACHE, flip(), crop(4), normalize()];
        let stages = stages(files(&["a"]), &ops).expect("legal");
        let names = |fused_ops: &[FusedOp]| -> Vec<Vec<_>> {
            fused_ops.iter().map(|w| w.steps().iter().map(|s| s.node.op.name()).collect()).collect()
        };
        assert_eq!(
            names(&stages.split),
            [vec!["decode_image", "center_crop"], vec!["random_flip", "center_crop", "normalize"]]
        );
        assert_eq!(names(stages.prefix()), [["decode_image", "center_crop"]]);
        assert_eq!(stages.split[1].steps()[0].random, 1, "behind shuffle");
        assert!(stages.counted && stages.frozen().is_empty());
        assert_eq!(
            Stages::new(&stages.graph).expect("legal").cached.expect("kept").schema,
            stages.split[0].steps()[1].schema
        );
    }

    #[test]
    fn a_consumer_runs_no_op_before_the_cache_point() {
        let boundary = |ops: &[Op]| stages(files(&["a"]), ops).expect("legal").default_boundary().expect("a boundary");
        assert_eq!(boundary(&[decode(), crop(224), normalize()]).consumer.len(), 1);
        assert_eq!(boundary(&[decode(), crop(224), CACHE, normalize()]).consumer.len(), 1);
        assert_eq!(boundary(&[decode(), crop(224), normalize(), CACHE]).consumer.len(), 0);
    }

    #[test]
    fn a_prefix_is_named_by_its_computation_alone() {
        let same = key(files(&["a"]), &[decode(), crop(8), CACHE]);
        assert_eq!(key(files(&["b", "c"]), &[decode(), crop(8), CACHE]), same, "files are named by themselves");
        assert_eq!(
            key(files(&["a"]), &[Op::SHUFFLE, decode(), Op::Take(ops::Take { count: 3 }), crop(8), CACHE]),
            same
        );
        assert_eq!(
            key(files(&["a"]), &[decode(), crop(8), Op::Batch(ops::Batch { size: 2, drop_remainder: false }), CACHE]),
            same
        );
        assert_eq!(key(files(&["a"]), &[decode(), crop(8), FREEZE, flip()]), same, "there is nothing to freeze");
        assert_ne!(key(files(&["a"]), &[decode(), crop(9), CACHE]), same);
        assert_ne!(key(files(&["a"]), &[decode(), CACHE, crop(8)]), same);
        let text = |columns: bool| match columns {
            true => Source::Jsonl { paths: vec![], fields: vec![] },
            false => Source::Tfrecord { paths: vec![], features: Some(vec![]), verify: true },
        };
        assert_ne!(key(text(true), &[CACHE]), key(text(false), &[CACHE]));
    }

    #[test]
    fn where_random_ops_are_frozen_their_streams_are_part_of_the_name() {
        let frozen = [decode(), flip(), FREEZE];
        assert_eq!(stages(files(&["a"]), &frozen).expect("legal").frozen(), ["random_flip"]);
        assert_eq!(stages(files(&["a"]), &[decode(), CACHE, flip()]).expect("legal").frozen(), [""; 0]);
        let later = [Op::SHUFFLE, decode(), flip(), FREEZE];
        assert_ne!(key(files(&["a"]), &later), key(files(&["a"]), &frozen), "the flip draws from another stream");
    }

    #[test]
    fn a_candidate_is_a_cache_point_once_it_is_chosen_and_has_no_effect_before() {
        const MAY: Op = Op::Autocache(ops::Autocache {});
        let plain = [Op::SHUFFLE, decode(), crop(8), flip(), crop(4)];
        let marked =
            [Op::SHUFFLE, MAY, decode(), MAY, Op::Take(ops::Take { count: 9 }), crop(8), MAY, MAY, flip(), crop(4)];
        let names = |fused_ops: &[FusedOp]| -> Vec<Vec<_>> {
            fused_ops.iter().map(|w| w.steps().iter().map(|s| s.node.op.name()).collect()).collect()
        };
        let of = |ops: &[Op]| stages(files(&["a"]), ops).expect("legal");
        let (whole, auto) = (of(&plain), of(&marked));
        assert_eq!(names(&auto.split), names(&whole.split), "fused as if it were not there");
        assert!(auto.counted && auto.cached.is_none());
        let found: Vec<_> = auto.candidates.iter().map(|c| (c.steps, c.name.as_str())).collect();
        assert_eq!(found, [(0, "rows as read"), (1, "decode_image"), (2, "decode_image -> center_crop")]);
        for candidate in &auto.candidates {
            let chosen = auto.with_cache_at(candidate).expect("legal");
            let mut written = plain[1..].to_vec();
            written.insert(candidate.steps, CACHE);
            let cached = of(&written);
            assert_eq!(chosen.prefix_graph(), cached.prefix_graph(), "{}", candidate.name);
            assert_eq!(names(&chosen.split), names(&cached.split), "{}", candidate.name);
            let (a, b) = (chosen.cached.expect("kept"), cached.cached.expect("kept"));
            assert_eq!((a.fused_ops, a.schema), (b.fused_ops, b.schema));
        }
    }

    #[test]
    fn the_cached_prefix_alone_gives_the_same_rows_under_the_same_name() {
        let of = |ops: &[Op]| stages(files(&["a"]), ops).expect("legal");
        let written = [
            Op::SHUFFLE,
            Op::Take(ops::Take { count: 3 }),
            decode(),
            flip(),
            Op::Repeat(ops::Repeat { count: Some(2) }),
            FREEZE,
            crop(4),
        ];
        let alone = of(&written).graph.cached_prefix().expect("legal").expect("there is a cache");
        let names: Vec<_> = alone.nodes().iter().map(|node| node.op.name()).collect();
        assert_eq!(names, ["shuffle", "decode_image", "random_flip", "cache"]);
        assert_eq!(Stages::new(&alone).expect("legal").prefix_graph(), of(&written).prefix_graph());
        assert!(of(&[decode()]).graph.cached_prefix().expect("legal").is_none());
    }

    #[test]
    fn a_worker_runs_the_same_ops_with_any_candidate() {
        let ops = [decode(), crop(224), Op::Autocache(ops::Autocache {}), normalize()];
        let auto = stages(files(&["a"]), &ops).expect("legal");
        let ops = |fused_ops: &[FusedOp]| {
            fused_ops.iter().flat_map(FusedOp::steps).map(|s| s.node.op.name()).collect::<Vec<_>>()
        };
        let boundaries: Vec<_> = std::iter::once(auto.clone())
            .chain(auto.candidates.iter().map(|c| auto.with_cache_at(c).expect("legal")))
            .map(|stages| stages.default_boundary().expect("a boundary"))
            .map(|b| (ops(&b.worker), ops(&b.consumer), b.schema))
            .collect();
        assert_eq!(boundaries[0].1, ["normalize"]);
        assert!(boundaries.iter().all(|b| *b == boundaries[0]), "{boundaries:?}");
        let late = stages(files(&["a"]), &[decode(), crop(224), normalize(), Op::Autocache(ops::Autocache {})])
            .expect("legal");
        assert_eq!(late.default_boundary().expect("a boundary").consumer.len(), 0);
    }

    #[test]
    fn a_cache_point_that_cannot_work_is_refused_with_the_op_in_the_way() {
        let refused = |source: Source, ops: &[Op]| {
            let error = stages(source, ops).expect_err("refused");
            assert_eq!(error.get("op").map(|op| op.contains("cache")), Some(true), "{error}");
            assert_eq!(error.get("line"), Some(&*format!("train.py:{}", ops.len())), "{error}");
            assert!(error.get("hint").is_some(), "{error}");
            error.message().to_owned()
        };
        let generator = Source::Generator { blob: crate::BlobId("x".to_owned()), code: String::new(), fields: vec![] };
        assert!(refused(generator, &[CACHE]).contains("generator"));
        let twice = refused(files(&["a"]), &[CACHE, decode(), CACHE]);
        assert_eq!(twice, "cache comes after cache (train.py:1)");
        assert!(refused(files(&["a"]), &[decode(), flip(), CACHE]).contains("random_flip (train.py:2)"));
        const MAY: Op = Op::Autocache(ops::Autocache {});
        assert_eq!(refused(files(&["a"]), &[MAY, decode(), CACHE]), "cache comes after autocache (train.py:1)");
        assert_eq!(refused(files(&["a"]), &[CACHE, decode(), MAY]), "autocache comes after cache (train.py:1)");
        assert!(refused(files(&["a"]), &[decode(), flip(), MAY]).contains("random_flip (train.py:2)"));
        let taken = refused(files(&["a"]), &[keep_some(), Op::Take(ops::Take { count: 3 }), CACHE]);
        assert!(taken.contains("after take (train.py:2)"), "{taken}");
        let batched =
            refused(files(&["a"]), &[keep_some(), Op::Batch(ops::Batch { size: 2, drop_remainder: false }), CACHE]);
        assert!(batched.contains("after batch (train.py:2)"), "{batched}");
        let ids = Source::Jsonl {
            paths: vec![],
            fields: vec![forebay_data::Field::new(
                "ids",
                forebay_data::Kind::Tensor { dtype: forebay_data::DType::Int32, shape: vec![None] },
            )],
        };
        let packing = Packing::Concat { segments: false, drop_remainder: false };
        let pack = Op::Pack(Pack {
            column: "ids".to_owned(),
            length: 8,
            packing,
            eos_id: None,
            pad_id: 0,
            along: vec![],
            cu_seqlens: false,
        });
        assert!(refused(ids, &[pack, CACHE]).contains("after pack (train.py:1)"));
        stages(files(&["a"]), &[Op::SHUFFLE, keep_some(), decode(), CACHE]).expect("a filter is part of the prefix");
    }
}
