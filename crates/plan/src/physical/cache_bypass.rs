//! The fused ops that a row runs when its cache point lies inside a fused image op and the cache is full.
//!
//! Decoding a whole image and then cropping it costs far more than decoding the part that the crop needs. So a cache
//! with room for a tenth of the rows would make the other rows slower than no cache. These rows bypass the cache: they
//! run the image ops on both sides of the cache point as one fused op, and are merged with the cached rows after it.
//! Fused image ops give the same bits, so a row does not depend on its branch.
//!
//! A pure function of the stages.

use std::sync::Arc;

use forebay_data::Schema;

use crate::physical::stages::Stages;
use crate::physical::steps::{FusedOp, Step};

/// The ops of a row that bypasses the cache. See the module's documentation.
#[derive(Debug, Clone)]
pub struct CacheBypass {
    /// The ops before the image op: the prefix without its last op, and then the ops
    /// [between](CacheBypass::between), which concern other columns.
    pub before: Vec<FusedOp>,
    /// The last op of the prefix and the first later op on the same column, fused.
    pub image: FusedOp,
    /// The number of fused ops from the cache point to the next image op on the same column.
    pub between: usize,
}

impl Stages {
    /// Returns the bypass for `fused_ops`, which begin with the prefix; `None` if no image op would be fused across the
    /// cache point, if random ops were frozen, or if other columns follow the image.
    pub fn cache_bypass(&self, fused_ops: &[FusedOp]) -> Option<CacheBypass> {
        let (prefix, behind) = fused_ops.split_at(self.prefix().len());
        let (FusedOp::Image { column, steps }, before) = prefix.split_last()? else { return None };
        let annotated = |step: &Step| step.node.op.annotations().is_some();
        if !self.frozen().is_empty() || steps.iter().any(annotated) {
            return None;
        }
        let is_next = |fused: &FusedOp| matches!(fused, FusedOp::Image { column: own, .. } if own == column);
        let between = behind.iter().position(is_next)?;
        if behind[between].steps().iter().any(annotated) {
            return None;
        }
        let mut schema = match before.last().and_then(|fused| fused.steps().last()) {
            Some(step) => step.schema.clone(),
            None => Arc::new(self.source.schema().ok()?),
        };
        let mut fused_ops = before.to_vec();
        for fused in &behind[..between] {
            let FusedOp::Table(step) = fused else { return None };
            if !is_beside(step, column, &schema) {
                return None;
            }
            fused_ops.push(FusedOp::Table(over(&mut schema, step)?));
        }
        let steps = steps.iter().chain(behind[between].steps());
        let steps = steps.map(|step| over(&mut schema, step)).collect::<Option<_>>()?;
        Some(CacheBypass { before: fused_ops, image: FusedOp::Image { column: column.clone(), steps }, between })
    }
}

/// Returns whether an op may run before the ops on a column as well as after them. A filter may not: a broken image is
/// reported, whether the filter would keep its row or not.
fn is_beside(step: &Step, column: &str, input: &Schema) -> bool {
    let touches = |columns: &[String]| columns.iter().any(|own| own == column);
    step.node.access(input).is_some_and(|a| !a.may_fail && !a.filters && !touches(&a.reads) && !touches(&a.writes))
}

/// Returns a step over rows of `schema`, and sets `schema` to the columns after it.
fn over(schema: &mut Arc<Schema>, step: &Step) -> Option<Step> {
    *schema = Arc::new(step.node.op.apply(schema).ok()?);
    Some(Step { schema: schema.clone(), ..step.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::expr::{Binary, Expr};
    use crate::ops::{self, ImageMode, Op};
    use crate::{Graph, Node, Source};

    fn bypass(ops: Vec<Op>) -> Option<CacheBypass> {
        let source = Source::ImageFolder { root: "photos".to_owned() };
        let graph = Graph::new(source, None).expect("a source");
        let graph = ops.into_iter().fold(graph, |graph, op| graph.then(Node::new(op)).expect("an op"));
        let stages = Stages::new(&graph).expect("stages");
        stages.cache_bypass(&stages.split)
    }

    fn decode() -> Op {
        Op::DecodeImage(ops::DecodeImage { column: "image".to_owned(), mode: ImageMode::Rgb, exif: false })
    }

    fn crop() -> Op {
        Op::CenterCrop(ops::CenterCrop { column: "image".to_owned(), height: 8, width: 8 })
    }

    fn double(column: &str) -> Op {
        let label = || Box::new(Expr::Col { name: "label".to_owned() });
        let value = Expr::Binary { op: Binary::Add, left: label(), right: label() };
        Op::WithColumn(ops::WithColumn { column: column.to_owned(), value })
    }

    const CACHE: Op = Op::Cache(ops::Cache { freeze: false });

    fn names<'a>(fused_ops: impl IntoIterator<Item = &'a FusedOp>) -> Vec<&'static str> {
        fused_ops.into_iter().flat_map(FusedOp::steps).map(|step| step.node.op.name()).collect()
    }

    #[test]
    fn ops_on_other_columns_run_before_the_image_op_which_runs_once() {
        let drop = Op::Drop(ops::Drop { columns: vec!["path".to_owned()] });
        let found = bypass(vec![decode(), CACHE, drop, double("twice"), crop()]).expect("a bypass");
        assert_eq!(names([&found.image]), ["decode_image", "center_crop"]);
        assert_eq!(names(&found.before), ["drop", "with_column"]);
        assert_eq!(found.between, 2);
        let schema = &found.image.steps()[1].schema;
        let columns: Vec<_> = schema.fields().iter().map(|field| field.name.as_str()).collect();
        assert_eq!(columns, ["image", "label", "twice"]);
    }

    #[test]
    fn there_is_no_bypass_where_no_op_would_be_fused() {
        assert!(bypass(vec![decode(), crop()]).is_none(), "no cache point");
        assert!(bypass(vec![CACHE, decode(), crop()]).is_none(), "rows are cached as they are read");
        assert!(bypass(vec![decode(), crop(), CACHE, double("twice")]).is_none(), "no image op behind it");
        let cast = Op::Cast(ops::Cast { columns: vec![("image".to_owned(), forebay_data::DType::Uint8.into())] });
        assert!(bypass(vec![decode(), CACHE, cast, crop()]).is_none(), "an op on the image is between");
        let label = Box::new(Expr::Col { name: "label".to_owned() });
        let predicate = Expr::Binary { op: Binary::Eq, left: label, right: Box::new(Expr::Int { value: 0 }) };
        let some = Op::FilterExpr(ops::FilterExpr { predicate });
        assert!(
            bypass(vec![decode(), CACHE, some, crop()]).is_none(),
            "whether a broken image is reported would change"
        );
    }

    #[test]
    fn frozen_ops_keep_their_epoch() {
        let flip = Op::RandomFlip(ops::RandomFlip {
            column: "image".to_owned(),
            probability: 0.5,
            direction: ops::Direction::Horizontal,
        });
        assert!(bypass(vec![decode(), flip, Op::Cache(ops::Cache { freeze: true }), crop()]).is_none());
    }
}
