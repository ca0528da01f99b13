//! Makes a row of each step of a tensor's first dimension: `explode`, `unbatch`.

use forebay_core::{Error, Result};
use forebay_data::{Field, Kind, Schema};
use serde::{Deserialize, Serialize};

use crate::ops::spec::{About, BYTE_NS, Class, Names, OpSpec, with_read};

/// Makes a row of each step of the first dimension of some columns; the others are repeated. A row whose columns have no
/// step makes no row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Explode {
    /// The columns: lists or tensors whose first dimensions are equal in each row.
    pub columns: Vec<String>,
}

impl OpSpec for Explode {
    fn about(&self) -> About {
        About { name: "explode", class: Class::Expand, is_random: false }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        if self.columns.is_empty() {
            return Err(Error::invalid("explode: no columns were given").hint("name a column of lists or tensors"));
        }
        let (mut output, mut first) = (input.clone(), None::<(&String, usize)>);
        for column in &self.columns {
            let field = input.field(column)?;
            let (kind, length) = step_of(field)?;
            if let (Some((other, length)), Some(own)) = (first, length)
                && length != own
            {
                return Err(Error::invalid(format!(
                    "explode: the rows of {other:?} have {length} steps, and those of {column:?} have {own}"
                ))
                .hint("columns that are exploded together have equal first dimensions"));
            }
            first = first.or(length.map(|length| (column, length)));
            // A text may be missing in a list.
            let nullable = field.kind == Kind::Texts;
            output = output.with(Field { nullable, ..Field::new(column.clone(), kind) });
        }
        Ok(output)
    }

    fn arguments(&self) -> String {
        self.columns.join(", ")
    }

    fn needs(&self, input: &Schema, after: Names) -> Names {
        with_read(input, after, &self.columns)
    }

    fn ns(&self, read: f64, made: f64) -> f64 {
        (read + made) * BYTE_NS
    }
}

/// Returns the kind of a step of a column, and the number of steps of each row, if it is always the same.
fn step_of(field: &Field) -> Result<(Kind, Option<usize>)> {
    let name = &field.name;
    match &field.kind {
        Kind::Tensor { dtype, shape } if shape.len() == 1 => Ok((Kind::scalar(*dtype), shape[0])),
        Kind::Tensor { dtype, shape } if !shape.is_empty() => {
            Ok((Kind::Tensor { dtype: *dtype, shape: shape[1..].to_vec() }, shape[0]))
        }
        Kind::Texts => Ok((Kind::Utf8, None)),
        other => Err(Error::invalid(format!("explode: column {name:?} is {other}, which has no first dimension"))
            .hint("name columns of lists or tensors: explode(\"column\") repeats the others")),
    }
}
