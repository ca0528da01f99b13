//! The units of time columns at the end of a graph, which begin with those in the files of its source.
//!
//! Expressions on times take the unit from here when they are written. The dataset id does not depend on it, because no op
//! computes with it. Invariant: a column has a unit only if no op but a cast to other whole numbers has computed it from
//! numbers; an op that writes a column ends its unit.

use std::collections::BTreeMap;

use forebay_core::{Error, Result};
use forebay_data::{DType, Schema};

use crate::ops::Op;
use crate::ops::expr::{Binary, Call, Expr, TimeUnit};

/// The unit of each time column.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Times(BTreeMap<String, TimeUnit>);

impl Times {
    /// Takes the units of columns that are there and hold whole numbers.
    pub(super) fn of_columns(units: &BTreeMap<String, TimeUnit>, schema: &Schema) -> Self {
        let is_whole = |name: &String| {
            let dtype = schema.field(name).ok().and_then(|field| field.kind.dtype());
            dtype.is_some_and(|dtype| !dtype.is_float() && dtype != DType::Bool)
        };
        Self(units.iter().filter(|(name, _)| is_whole(name)).map(|(name, unit)| (name.clone(), *unit)).collect())
    }

    /// Returns the units of the columns of datasets that are put side by side.
    pub(super) fn joined<'a>(parts: impl Iterator<Item = &'a Self>) -> Self {
        Self(parts.flat_map(|part| part.0.clone()).collect())
    }

    /// Returns the units of the columns of datasets whose rows follow each other, with their names; `by` combines them.
    ///
    /// # Errors
    /// Invalid when they have different units for a column.
    pub(super) fn common(by: &str, parts: &[(&str, &Self)]) -> Result<Self> {
        let mut units: BTreeMap<String, TimeUnit> = BTreeMap::new();
        for (own, part) in parts {
            for (column, unit) in &part.0 {
                let Some(other) = units.insert(column.clone(), *unit).filter(|other| other != unit) else { continue };
                let (unit, other) = (unit.name(), other.name());
                return Err(Error::invalid(format!(
                    "{by}: column {column:?} counts {unit:?} in {own:?}, and {other:?} in a dataset before it"
                ))
                .hint(
                    "compute one from the other in a column of the same name, as with_column(name, col(name) // 1000)",
                ));
            }
        }
        // A dataset without a unit may have any unit.
        units.retain(|column, _| parts.iter().all(|(_, part)| part.0.contains_key(column)));
        Ok(Self(units))
    }

    /// Returns the units by column.
    pub(super) fn units(&self) -> &BTreeMap<String, TimeUnit> {
        &self.0
    }

    /// Returns the units after an op; `output` are the columns then.
    pub(super) fn after(&self, op: &Op, output: &Schema) -> Self {
        let mut units = self.0.clone();
        match op {
            Op::Rename(op) => {
                let moved = op.columns.iter().filter_map(|(from, to)| Some((to.clone(), units.remove(from)?)));
                let moved: Vec<_> = moved.collect();
                units.extend(moved);
            }
            Op::WithColumn(op) => {
                units.remove(&op.column);
                units.extend(self.unit_of(&op.value).map(|unit| (op.column.clone(), unit)));
            }
            Op::Map(op) => units.retain(|name, _| op.keep_others && op.output.iter().all(|field| field.name != *name)),
            Op::FlatMap(_) => units.clear(),
            _ => {}
        }
        Self::of_columns(&units, output)
    }

    /// Returns the unit of an expression, if it is known.
    fn unit_of(&self, value: &Expr) -> Option<TimeUnit> {
        match value {
            Expr::Col { name } => self.0.get(name).copied(),
            Expr::Call { call: Call::ToTime { unit, .. }, .. } => Some(*unit),
            Expr::FillNull { arg, .. } => self.unit_of(arg),
            // A time and a span.
            Expr::Binary { op: Binary::Add | Binary::Sub, left, right } => {
                matches!(**right, Expr::Int { .. }).then(|| self.unit_of(left)).flatten()
            }
            // The beginning of a span.
            Expr::Binary { op: Binary::Mul, left, right } => match (&**left, &**right) {
                (Expr::Binary { op: Binary::FloorDiv, left, right: span }, times) if **span == *times => {
                    self.unit_of(left)
                }
                _ => None,
            },
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Graph, Node};
    use crate::ops;
    use crate::source::{Combined, Combining, Source, SourcePart, Stop};
    use std::sync::Arc;

    fn rides(unit: TimeUnit) -> Graph {
        let source = Source::Range { start: 0, stop: 9, step: 1 };
        Graph::new(source, None).expect("a source").with_times([("id".to_owned(), unit)].into())
    }

    fn put(graph: &Graph, column: &str, value: Expr) -> Graph {
        graph.then(Node::new(Op::WithColumn(ops::WithColumn { column: column.to_owned(), value }))).expect("legal")
    }

    fn binary(op: Binary, left: Expr, value: i64) -> Expr {
        Expr::Binary { op, left: Box::new(left), right: Box::new(Expr::Int { value }) }
    }

    #[test]
    fn units_follow_copies_and_end_with_other_numbers() {
        let id = || Expr::Col { name: "id".to_owned() };
        let graph = rides(TimeUnit::Ms);
        let floor = binary(Binary::Mul, binary(Binary::FloorDiv, id(), 60_000), 60_000);
        let seconds = binary(Binary::FloorDiv, id(), 1000);
        let graph = put(&put(&put(&graph, "copy", id()), "minute", floor), "seconds", seconds);
        let known: Vec<_> = graph.times().keys().cloned().collect();
        assert_eq!(known, ["copy", "id", "minute"]);
        let rename = Op::Rename(ops::Rename { columns: vec![("copy".to_owned(), "when".to_owned())] });
        let graph = put(&graph.then(Node::new(rename)).expect("legal"), "id", Expr::Int { value: 3 });
        assert_eq!(graph.times().keys().collect::<Vec<_>>(), ["minute", "when"]);
        assert_eq!(Graph::from_json(&graph.to_json()).expect("its own JSON").times(), graph.times());
    }

    #[test]
    fn a_dataset_keeps_its_id() {
        let plain = Graph::new(Source::Range { start: 0, stop: 9, step: 1 }, None).expect("a source");
        assert_eq!(rides(TimeUnit::Ms).dataset_id(), plain.dataset_id());
        assert!(!plain.to_json().contains("times"));
    }

    #[test]
    fn datasets_that_count_differently_are_not_mixed() {
        let mixed = |a: Graph, b: Graph| {
            let part = |name: &str, graph| SourcePart { name: name.to_owned(), graph: Arc::new(graph) };
            let how = Combining::Mix { weights: vec![1.0, 1.0], stop: Stop::First, changes: None, per_batch: None };
            let parts = vec![part("a", a), part("b", b)];
            Graph::new(Source::Combined(Combined { how, parts, column: None }), None)
        };
        let error = mixed(rides(TimeUnit::Ms), rides(TimeUnit::Us)).expect_err("other units");
        assert!(error.message().contains("counts \"us\" in \"b\""), "{error}");
        let same = mixed(rides(TimeUnit::Ms), rides(TimeUnit::Ms)).expect("one unit");
        assert_eq!(same.times().len(), 1);
        assert_eq!(same.dataset_id(), mixed(rides(TimeUnit::S), rides(TimeUnit::S)).expect("one unit").dataset_id());
    }
}
