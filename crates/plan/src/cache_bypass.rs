//! Where a place that is kept cuts an image op in two that would run as one: what rows run through for which there is no room
//! there.
//!
//! Decoding a whole picture and then cropping it costs far more than decoding what the crop needs, so a cache that has room for
//! a tenth of the rows would make the other nine slower than no cache. They take the ops on both sides of the place as one
//! instead, and meet the kept ones at the end of that: the same bits, as everywhere where image ops are fused.
//!
//! A pure function of the stages, but which rows go which way is nothing that a row can depend on.

use std::sync::Arc;

use forebay_data::Schema;

use crate::reorder::Access;
use crate::stages::{Stages, Step, Work};

/// See the module's documentation.
#[derive(Debug, Clone)]
pub struct CacheBypass {
    /// What comes before the image op: the prefix without its last work, and then the works [between](CacheBypass::between), which are
    /// about other columns.
    pub before: Vec<Work>,
    /// The last work of the prefix and the first one behind it on the same column, as one.
    pub image: Work,
    /// How many works there are behind the place before the one on the same column.
    pub between: usize,
}

impl Stages {
    /// Returns the seam of `works`, which begin with the prefix; `None` where nothing would be fused across its end, or where
    /// random ops were frozen.
    pub fn cache_bypass(&self, works: &[Work]) -> Option<CacheBypass> {
        let (prefix, behind) = works.split_at(self.prefix().len());
        let (Work::Image { column, steps }, before) = prefix.split_last()? else { return None };
        if !self.frozen().is_empty() {
            return None;
        }
        let is_next = |work: &Work| matches!(work, Work::Image { column: own, .. } if own == column);
        let between = behind.iter().position(is_next)?;
        let mut schema = match before.last().and_then(|work| work.steps().last()) {
            Some(step) => step.schema.clone(),
            None => Arc::new(self.source.schema().ok()?),
        };
        let mut works = before.to_vec();
        for work in &behind[..between] {
            let Work::Table(step) = work else { return None };
            if !is_beside(step, column, &schema) {
                return None;
            }
            works.push(Work::Table(over(&mut schema, step)?));
        }
        let steps = steps.iter().chain(behind[between].steps());
        let steps = steps.map(|step| over(&mut schema, step)).collect::<Option<_>>()?;
        Some(CacheBypass { before: works, image: Work::Image { column: column.clone(), steps }, between })
    }
}

/// Says whether an op may run before those on a column just as well as behind them. A filter may not: a picture that is broken
/// is told of, whether its row would have stayed or not.
fn is_beside(step: &Step, column: &str, input: &Schema) -> bool {
    let touches = |columns: &[String]| columns.iter().any(|own| own == column);
    Access::of_node(&step.node, input)
        .is_some_and(|a| !a.may_fail && !a.filters && !touches(&a.reads) && !touches(&a.writes))
}

/// Returns a step as it is over rows of `schema`, which becomes that of the rows after it.
fn over(schema: &mut Arc<Schema>, step: &Step) -> Option<Step> {
    *schema = Arc::new(step.node.op.apply(schema).ok()?);
    Some(Step { schema: schema.clone(), ..step.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::{Binary, Expr};
    use crate::op::{ImageMode, Op};
    use crate::{Graph, Node, Source};

    fn seam(ops: Vec<Op>) -> Option<CacheBypass> {
        let source = Source::ImageFolder { root: "photos".to_owned() };
        let graph = Graph::new(source, None).expect("a source");
        let graph = ops.into_iter().fold(graph, |graph, op| graph.then(Node::new(op)).expect("an op"));
        let stages = Stages::new(&graph).expect("stages");
        stages.cache_bypass(&stages.split)
    }

    fn decode() -> Op {
        Op::DecodeImage { column: "image".to_owned(), mode: ImageMode::Rgb }
    }

    fn crop() -> Op {
        Op::CenterCrop { column: "image".to_owned(), height: 8, width: 8 }
    }

    fn double(column: &str) -> Op {
        let label = || Box::new(Expr::Col { name: "label".to_owned() });
        let value = Expr::Binary { op: Binary::Add, left: label(), right: label() };
        Op::WithColumn { column: column.to_owned(), value }
    }

    const CACHE: Op = Op::Cache { freeze: false };

    fn names<'a>(works: impl IntoIterator<Item = &'a Work>) -> Vec<&'static str> {
        works.into_iter().flat_map(Work::steps).map(|step| step.node.op.name()).collect()
    }

    #[test]
    fn what_is_beside_the_image_runs_before_it_and_the_image_once() {
        let drop = Op::Drop { columns: vec!["path".to_owned()] };
        let found = seam(vec![decode(), CACHE, drop, double("twice"), crop()]).expect("a seam");
        assert_eq!(names([&found.image]), ["decode_image", "center_crop"]);
        assert_eq!(names(&found.before), ["drop", "with_column"]);
        assert_eq!(found.between, 2);
        let schema = &found.image.steps()[1].schema;
        let columns: Vec<_> = schema.fields().iter().map(|field| field.name.as_str()).collect();
        assert_eq!(columns, ["image", "label", "twice"]);
    }

    #[test]
    fn there_is_none_where_nothing_would_be_fused() {
        assert!(seam(vec![decode(), crop()]).is_none(), "nothing is kept");
        assert!(seam(vec![CACHE, decode(), crop()]).is_none(), "rows are kept as they are read");
        assert!(seam(vec![decode(), crop(), CACHE, double("twice")]).is_none(), "no image op behind it");
        let cast = Op::Cast { columns: vec![("image".to_owned(), forebay_data::DType::Uint8.into())] };
        assert!(seam(vec![decode(), CACHE, cast, crop()]).is_none(), "an op on the image is between");
        let label = Box::new(Expr::Col { name: "label".to_owned() });
        let predicate = Expr::Binary { op: Binary::Eq, left: label, right: Box::new(Expr::Int { value: 0 }) };
        let some = Op::FilterExpr { predicate };
        assert!(
            seam(vec![decode(), CACHE, some, crop()]).is_none(),
            "whether a broken picture is told of would change"
        );
    }

    #[test]
    fn frozen_ops_keep_their_epoch() {
        let flip = Op::RandomFlip {
            column: "image".to_owned(),
            probability: 0.5,
            direction: crate::op::Direction::Horizontal,
        };
        assert!(seam(vec![decode(), flip, Op::Cache { freeze: true }, crop()]).is_none());
    }
}
