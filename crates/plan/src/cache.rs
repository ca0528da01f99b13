//! What `cache()` keeps: the row ops before it, as the first works of a split, and the name of what they make.
//!
//! The name is that of a computation on one row of a source, wherever that row is: which files there are, in which order
//! their rows come and what follows the cache are no part of it, so all pipelines that begin alike share what is kept.
//!
//! Invariants: what is kept of a row depends on that row, on the ops and, where random ones were frozen, on the seed; two
//! prefixes that may give different bytes have different names, and one that another version of Forebay computed
//! is none of ours.

use std::sync::Arc;

use forebay_core::{Error, Result, VERSION};
use forebay_data::Schema;
use serde::Serialize;

use crate::graph::Node;
use crate::op::{Class, Op};
use crate::source::Source;
use crate::stages::{Stages, Work};

/// The part of a split whose output is kept.
#[derive(Debug, Clone)]
pub struct Cached {
    /// How many of the split's works it is: the first ones.
    pub works: usize,
    /// Whether random ops in it draw once and for all, as in epoch 0.
    pub freeze: bool,
    /// The columns that are kept.
    pub schema: Arc<Schema>,
}

/// What the name of a prefix is the hash of.
#[derive(Serialize)]
struct Canonical<'a> {
    forebay: &'a str,
    source: Source,
    /// Each op; for a random one, also the number of its stream.
    ops: Vec<(&'a Op, Option<u64>)>,
}

impl Stages {
    /// Returns the works whose output is kept; none without `cache()`.
    pub fn prefix(&self) -> &[Work] {
        self.cached.as_ref().map_or(&[], |cached| &self.split[..cached.works])
    }

    /// Returns what the name of the prefix is the hash of: the source's kind, the ops before `cache()` with their
    /// arguments, and this version; where [`Stages::frozen`] is not empty, the seed belongs to it, too. `None` without
    /// `cache()`.
    pub fn prefix_graph(&self) -> Option<Vec<u8>> {
        self.cached.as_ref()?;
        let mut steps: Vec<_> = self.prefix().iter().flat_map(Work::steps).collect();
        if self.run_order.is_exact() {
            // Another order of the same bytes is no other prefix.
            steps.sort_by_key(|step| step.place);
        }
        let canonical = Canonical {
            forebay: VERSION,
            source: self.graph.source().without_paths(),
            ops: steps.iter().map(|s| (&s.node.op, s.node.op.is_random().then_some(s.random))).collect(),
        };
        serde_json::to_vec(&canonical).ok()
    }

    /// Returns the names of the ops that draw the same random numbers in every epoch.
    pub fn frozen(&self) -> Vec<&'static str> {
        let steps = self.prefix().iter().flat_map(Work::steps);
        steps.filter(|s| s.node.op.is_random()).map(|s| s.node.op.name()).collect()
    }
}

/// Refuses a `cache()` that could not keep rows, saying what is before it. `merged` is the first op that sees the merged
/// stream.
pub(crate) fn check(stages: &Stages, place: usize, freeze: bool, merged: Option<&Arc<Node>>) -> Result<()> {
    let before = &stages.graph.nodes()[..place];
    if matches!(stages.graph.source(), Source::Generator { .. }) {
        return Err(Error::invalid("cache: a generator's samples have no names to keep them under")
            .hint("use from_map_dataset, or write the samples to files first"));
    }
    if stages.cached.is_some() {
        let earlier = before.iter().find(|n| matches!(n.op, Op::Cache { .. }));
        return Err(Error::invalid(format!("cache comes after cache{}", written(earlier)))
            .hint("the last one is enough: it keeps what all ops before it made"));
    }
    if let Some(node) = merged {
        return Err(Error::invalid(format!(
            "cache comes after {}{}, which works on the merged stream: what it gives of a sample depends on others",
            node.op.name(),
            written(Some(node))
        ))
        .hint(format!("put cache before {}", node.op.name())));
    }
    let whole = stages.split.iter().flat_map(Work::steps).find(|s| s.per_batch);
    if let Some(step) = whole {
        return Err(Error::invalid(format!(
            "cache comes after {}{}, which sees whole batches",
            step.node.op.name(),
            written(Some(&step.node))
        ))
        .hint("put cache before batch, where it keeps samples"));
    }
    let random = before.iter().find(|n| n.op.is_random() && n.op.class() != Class::Order);
    match random {
        Some(node) if !freeze => Err(Error::invalid(format!(
            "cache comes after {}{}, which draws other random numbers in each epoch",
            node.op.name(),
            written(Some(node))
        ))
        .hint(
            "put cache before it; or give freeze=True: then it draws once for each sample, and all epochs see the same \
             augmentation",
        )),
        _ => Ok(()),
    }
}

/// Where an op was written, to be said behind its name.
fn written(node: Option<&Arc<Node>>) -> String {
    node.and_then(|n| n.site.as_ref()).map_or(String::new(), |site| format!(" ({site})"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::{ImageMode, Layout};
    use crate::text::{Pack, Packing};
    use crate::{Expr, Graph, Site};

    fn files(paths: &[&str]) -> Source {
        Source::Files { paths: paths.iter().map(|p| (*p).to_owned()).collect() }
    }

    fn decode() -> Op {
        Op::DecodeImage { column: "bytes".to_owned(), mode: ImageMode::Rgb }
    }

    fn crop(side: usize) -> Op {
        Op::CenterCrop { column: "bytes".to_owned(), height: side, width: side }
    }

    fn flip() -> Op {
        Op::RandomFlip { column: "bytes".to_owned(), probability: 0.5, direction: Default::default() }
    }

    fn normalize() -> Op {
        Op::Normalize { column: "bytes".to_owned(), mean: vec![0.5; 3], std: vec![0.5; 3], layout: Layout::Chw }
    }

    const CACHE: Op = Op::Cache { freeze: false };
    const FREEZE: Op = Op::Cache { freeze: true };

    fn keep_some() -> Op {
        Op::FilterExpr { predicate: Expr::Bool { value: true } }
    }

    /// Stages of ops that are written from line 1 on.
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
        let ops = [Op::Shuffle {}, decode(), crop(8), CACHE, flip(), crop(4), normalize()];
        let stages = stages(files(&["a"]), &ops).expect("legal");
        let names = |works: &[Work]| -> Vec<Vec<_>> {
            works.iter().map(|w| w.steps().iter().map(|s| s.node.op.name()).collect()).collect()
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
    fn a_reader_does_nothing_that_comes_before_the_cache() {
        let cut = |ops: &[Op]| stages(files(&["a"]), ops).expect("legal").cut().expect("a cut");
        assert_eq!(cut(&[decode(), crop(224), normalize()]).reader.len(), 1);
        assert_eq!(cut(&[decode(), crop(224), CACHE, normalize()]).reader.len(), 1);
        assert_eq!(cut(&[decode(), crop(224), normalize(), CACHE]).reader.len(), 0);
    }

    #[test]
    fn a_prefix_is_named_by_what_it_computes_and_by_nothing_else() {
        let same = key(files(&["a"]), &[decode(), crop(8), CACHE]);
        assert_eq!(key(files(&["b", "c"]), &[decode(), crop(8), CACHE]), same, "files are named by themselves");
        assert_eq!(key(files(&["a"]), &[Op::Shuffle {}, decode(), Op::Take { count: 3 }, crop(8), CACHE]), same);
        assert_eq!(key(files(&["a"]), &[decode(), crop(8), Op::Batch { size: 2, drop_remainder: false }, CACHE]), same);
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
        let later = [Op::Shuffle {}, decode(), flip(), FREEZE];
        assert_ne!(key(files(&["a"]), &later), key(files(&["a"]), &frozen), "the flip draws from another stream");
    }

    #[test]
    fn what_cannot_be_kept_is_refused_with_what_is_in_the_way() {
        let refused = |source: Source, ops: &[Op]| {
            let error = stages(source, ops).expect_err("refused");
            assert_eq!(error.get("op").map(|op| op.starts_with("cache")), Some(true), "{error}");
            assert_eq!(error.get("line"), Some(&*format!("train.py:{}", ops.len())), "{error}");
            assert!(error.get("hint").is_some(), "{error}");
            error.message().to_owned()
        };
        let generator = Source::Generator { blob: crate::BlobId("x".to_owned()), fields: vec![] };
        assert!(refused(generator, &[CACHE]).contains("generator"));
        let twice = refused(files(&["a"]), &[CACHE, decode(), CACHE]);
        assert_eq!(twice, "cache comes after cache (train.py:1)");
        assert!(refused(files(&["a"]), &[decode(), flip(), CACHE]).contains("random_flip (train.py:2)"));
        let taken = refused(files(&["a"]), &[keep_some(), Op::Take { count: 3 }, CACHE]);
        assert!(taken.contains("after take (train.py:2)"), "{taken}");
        let batched = refused(files(&["a"]), &[keep_some(), Op::Batch { size: 2, drop_remainder: false }, CACHE]);
        assert!(batched.contains("after batch (train.py:2)"), "{batched}");
        let ids = Source::Jsonl {
            paths: vec![],
            fields: vec![forebay_data::Field::new(
                "ids",
                forebay_data::Kind::Tensor { dtype: forebay_data::DType::Int32, shape: vec![None] },
            )],
        };
        let packing = Packing::Concat { segments: false, drop_remainder: false };
        let pack = Op::Pack(Pack { column: "ids".to_owned(), length: 8, packing, eos_id: None, pad_id: 0 });
        assert!(refused(ids, &[pack, CACHE]).contains("after pack (train.py:1)"));
        stages(files(&["a"]), &[Op::Shuffle {}, keep_some(), decode(), CACHE]).expect("a filter is part of the prefix");
    }
}
