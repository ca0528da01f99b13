//! The columns that follow an image, as `annotate` declared them, at the end of a graph.
//!
//! Invariant: a declaration names columns that exist. `rename` renames them in it, a dropped column leaves it, and it
//! ends with its image. Datasets that are read as one pass their declarations on. So an op that moves an image moves
//! its boxes, too, or is an error.

use forebay_core::{Error, Result};
use forebay_data::Schema;

use crate::ops::{Annotations, Op};

/// The images that have annotations, and their columns.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Declared(Vec<(String, Annotations)>);

impl Declared {
    /// Returns the declarations of datasets that are put side by side.
    pub(super) fn joined<'a>(parts: impl Iterator<Item = &'a Self>) -> Self {
        Self(parts.flat_map(|part| part.0.clone()).collect())
    }

    /// Returns an op so that it moves the columns that follow its image, too.
    ///
    /// # Errors
    /// Invalid when it would move a column that follows an image, without the image.
    pub(super) fn attach(&self, op: Op) -> Result<Op> {
        let Some(column) = op.moved_image() else { return Ok(op) };
        if let Some((image, _)) = self.0.iter().find(|(_, with)| has(with, column)) {
            let name = op.name();
            return Err(Error::invalid(format!("{name}: column {column:?} follows {image:?}"))
                .hint(format!("write {name}({image:?}), which changes both; or put annotate behind this op")));
        }
        let with = self.0.iter().find(|(image, _)| image == column).map(|(_, with)| with.clone());
        Ok(match with {
            Some(with) => op.annotated(&with),
            None => op,
        })
    }

    /// Returns the declarations after an op; `output` are the columns then.
    ///
    /// # Errors
    /// Invalid when an image or a column is declared again.
    pub(super) fn after(&self, op: &Op, output: &Schema) -> Result<Self> {
        let mut declared = self.clone();
        if let Op::Annotate(op) = op {
            let mine = |(image, _): &&(String, Annotations)| {
                *image == op.column || op.with.columns().any(|(name, _)| name == image)
            };
            if let Some((image, _)) = self.0.iter().find(mine) {
                return Err(Error::invalid(format!("annotate: {image:?} has annotations already"))
                    .hint("name all of its columns in one annotate"));
            }
            let taken = op.with.columns().find(|(name, _)| self.0.iter().any(|(_, with)| has(with, name)));
            if let Some((name, _)) = taken {
                return Err(Error::invalid(format!("annotate: column {name:?} follows another image already"))
                    .hint("with_column makes a copy of a column, which may follow the second image"));
            }
            declared.0.push((op.column.clone(), op.with.clone()));
        }
        let rename = |name: &String| {
            let new = match op {
                Op::Rename(op) => op.columns.iter().find(|(from, _)| from == name).map_or(name, |(_, to)| to),
                _ => name,
            };
            output.position(new).map(|_| new.clone())
        };
        declared.0 =
            declared.0.iter().filter_map(|(image, with)| Some((rename(image)?, with.renamed(rename)))).collect();
        declared.0.retain(|(_, with)| with.columns().next().is_some());
        Ok(declared)
    }
}

fn has(with: &Annotations, column: &str) -> bool {
    with.columns().any(|(name, _)| name == column)
}
