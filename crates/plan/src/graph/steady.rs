//! Whether a column has the same values in the same order with every seed and in every epoch.

use std::collections::BTreeSet;

use forebay_core::Result;

use super::Graph;
use crate::ops::{Class, Op};
use crate::source::{Combining, Source};

impl Graph {
    /// Returns whether its stream differs between seeds or epochs: it shuffles, mixes, or an op draws random numbers.
    pub fn is_random(&self) -> bool {
        let of_source = match &self.source {
            Source::Combined(combined) => {
                matches!(combined.how, Combining::Mix { .. })
                    || combined.parts.iter().any(|part| part.graph.is_random())
            }
            _ => false,
        };
        of_source || self.nodes.iter().any(|node| node.op.is_random())
    }

    /// Returns the name of an op, or of a source, by which a column has other values, or another order, with another seed
    /// or in another epoch. `None`: it never has.
    ///
    /// # Errors
    /// NotFound for a column that is not there.
    pub fn drawn_by(&self, column: &str) -> Result<Option<&'static str>> {
        self.schema.field(column)?;
        let mut schema = self.source.schema()?;
        let mut drawn: BTreeSet<String> = BTreeSet::new();
        let mut by = None;
        if let Source::Combined(combined) = &self.source {
            if !combined.is_steady() {
                return Ok(Some(combined.name()));
            }
            for part in &combined.parts {
                for field in part.graph.schema.fields() {
                    if let Some(name) = part.graph.drawn_by(&field.name)? {
                        by = Some(name);
                        drawn.insert(field.name.clone());
                    }
                }
            }
        }
        for node in &self.nodes {
            let op = &node.op;
            // These change which rows there are, or their order.
            let chooses = matches!(op.class(), Class::Filter | Class::Expand);
            if matches!(op, Op::Shuffle(_)) || (chooses && op.is_random()) {
                return Ok(Some(op.name()));
            }
            if chooses && op.reads_any(&schema, &drawn) {
                return Ok(by);
            }
            let output = op.apply(&schema)?;
            drawn = op.spec().changed_after(&schema, drawn);
            if op.is_random() {
                by = Some(op.name());
                match op.access(&schema) {
                    Some(access) => drawn.extend(access.writes),
                    None => drawn.extend(output.fields().iter().map(|field| field.name.clone())),
                }
            }
            schema = output;
        }
        Ok(by.filter(|_| drawn.contains(column)))
    }
}

impl Op {
    /// Returns whether it reads one of these columns.
    fn reads_any(&self, input: &forebay_data::Schema, columns: &BTreeSet<String>) -> bool {
        match self.access(input) {
            Some(access) => access.reads.iter().any(|name| columns.contains(name)),
            None => !columns.is_empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Node;
    use crate::ops::{self, Function};
    use crate::source::BlobId;
    use forebay_data::{DType, Field, Kind};

    fn map(reads: &str, writes: &str, with_rng: bool) -> Op {
        let function = Function {
            blob: BlobId("f".to_owned()),
            code: String::new(),
            name: "f".to_owned(),
            batched: false,
            with_rng,
            reads: Some(vec![reads.to_owned()]),
            timeout_s: 1.0,
            is_op: false,
        };
        let output = vec![Field::new(writes, Kind::scalar(DType::Int64))];
        Op::Map(ops::Map { function, output, keep_others: true })
    }

    fn drawn_by(ops: Vec<Op>, column: &str) -> Option<&'static str> {
        let graph = Graph::new(Source::Range { start: 0, stop: 9, step: 1 }, None).expect("a source");
        let graph = ops.into_iter().try_fold(graph, |graph, op| graph.then(Node::new(op))).expect("legal");
        graph.drawn_by(column).expect("there")
    }

    #[test]
    fn draws_reach_what_is_computed_of_them() {
        let drawn = map("id", "x", true);
        assert_eq!(drawn_by(vec![drawn.clone()], "x"), Some("map"));
        assert_eq!(drawn_by(vec![drawn.clone()], "id"), None);
        assert_eq!(drawn_by(vec![drawn.clone(), map("x", "y", false)], "y"), Some("map"));
        assert_eq!(drawn_by(vec![drawn, map("id", "x", false)], "x"), None);
        assert_eq!(drawn_by(vec![Op::SHUFFLE], "id"), Some("shuffle"));
        assert_eq!(drawn_by(vec![Op::Take(ops::Take { count: 3 })], "id"), None);
    }
}
