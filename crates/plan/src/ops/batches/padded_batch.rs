//! `batch` with padded lists, with ragged columns, or with a last batch that is filled up.
//!
//! It has the semantics of tf.data's `padded_batch`: columns whose rows differ in their first dimension are padded at
//! the end, to the longest row of the batch, to the next multiple of a number, or to a fixed length. The op checks,
//! cuts and reports the length of each row before it groups rows, so a row that is too long fails by itself.
//!
//! The lists of a ragged column stay as they are, as with tf.data's `ragged_batch`. Behind the op, a column of lists whose
//! field is not `uniform` is ragged.

use forebay_core::{Error, Result};
use forebay_data::{DType, Field, Kind, Ragged, Schema};
use serde::{Deserialize, Serialize};

use crate::ops::batches::pad::{LENGTH_MAX, is_list, pad_value};
use crate::ops::checks::range;
use crate::ops::spec::{About, Class, Names, OpSpec, with_read};

const NAME: &str = "batch";

/// Groups rows to batches, with padding or ragged columns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaddedBatch {
    /// Rows of a batch.
    pub size: usize,
    /// Whether a short last batch is dropped.
    pub drop_remainder: bool,
    /// The padding of columns of lists; `None` if the op pads no column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub padding: Option<Padding>,
    /// A bool column that is false in rows that fill up a batch. With it, a short batch is filled up with copies of its
    /// last row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid: Option<String>,
    /// The columns whose lists are neither padded nor stacked. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ragged: Vec<String>,
}

/// The padding of columns of lists, by column. A column without an entry that is not ragged is padded with 0, to the
/// longest row of the batch.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Padding {
    /// The number that pads a column. Default: 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<(String, f64)>,
    /// The fixed length of a column's rows. Default: that of the longest row of the batch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<(String, usize)>,
    /// The number of which the padded length of a column is a multiple. Default: 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub multiple_of: Vec<(String, usize)>,
    /// The columns whose longer rows are cut. In other columns, a longer row is an error.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub truncate: Vec<String>,
    /// Pairs of columns: the second one gets the lengths of the rows of the first one, after the cut and before
    /// padding.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lengths: Vec<(String, String)>,
}

impl OpSpec for PaddedBatch {
    fn about(&self) -> About {
        About { name: NAME, class: Class::Group, is_random: false }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        if self.size == 0 {
            return Err(Error::invalid("batch: size must be at least 1").hint("give the rows of a batch"));
        }
        if self.valid.is_some() && self.drop_remainder {
            return Err(Error::invalid("batch: pad_last fills up the batch that drop_remainder leaves out")
                .hint("leave one of them out"));
        }
        self.ragged.iter().try_for_each(|column| check_ragged(input.field(column)?))?;
        if let Some(padding) = &self.padding {
            padding.check(input, &self.ragged)?;
        }
        let mut schema = self.fitted(input)?;
        for field in input.fields().iter().filter(|field| is_list(field) && !self.ragged.contains(&field.name)) {
            let stacked = || Ok(Field { uniform: true, ..field.clone() });
            schema = schema.with(if self.padding.is_some() { self.padded(field) } else { stacked() }?);
        }
        match &self.valid {
            Some(valid) => added(&schema, valid, DType::Bool, "valid"),
            None => Ok(schema),
        }
    }

    fn arguments(&self) -> String {
        let mut parts = vec![self.size.to_string()];
        parts.extend(self.drop_remainder.then(|| "drop_remainder=True".to_owned()));
        parts.extend(self.padding.iter().flat_map(Padding::arguments));
        parts.extend((!self.ragged.is_empty()).then(|| format!("ragged=[{}]", self.ragged.join(", "))));
        parts.extend(self.valid.iter().map(|valid| format!("pad_last=True, valid={valid}")));
        parts.join(", ")
    }

    fn needs(&self, input: &Schema, after: Names) -> Names {
        let lengths = self.padding.iter().flat_map(|padding| &padding.lengths);
        let read: Vec<_> = lengths.filter(|(_, output)| after.contains(output)).map(|(of, _)| of.clone()).collect();
        with_read(input, after, &read)
    }

    fn restrict(&mut self, input: &Schema) -> bool {
        let is_here = |column: &String| input.position(column).is_some();
        self.ragged.retain(is_here);
        let Some(padding) = &mut self.padding else { return true };
        padding.values.retain(|(column, _)| is_here(column));
        padding.to.retain(|(column, _)| is_here(column));
        padding.multiple_of.retain(|(column, _)| is_here(column));
        padding.truncate.retain(is_here);
        padding.lengths.retain(|(column, _)| is_here(column));
        true
    }
}

impl PaddedBatch {
    /// Returns the columns of single rows after their lists are cut, with the columns of lengths.
    ///
    /// # Errors
    /// Invalid when a column of lengths is there already.
    pub fn fitted(&self, input: &Schema) -> Result<Schema> {
        let lengths = self.padding.iter().flat_map(|padding| &padding.lengths);
        lengths
            .into_iter()
            .try_fold(input.clone(), |schema, (_, output)| added(&schema, output, DType::Int32, "lengths"))
    }

    /// Says whether it cuts or measures single rows.
    pub fn fits_rows(&self) -> bool {
        self.padding.as_ref().is_some_and(|padding| !padding.to.is_empty() || !padding.lengths.is_empty())
    }

    /// Says whether a column of rows is padded.
    pub fn is_padded(&self, field: &Field) -> bool {
        self.padding.is_some() && is_list(field) && !self.ragged.contains(&field.name)
    }

    /// Returns the padded length of a column's rows in a batch whose longest row has this length.
    pub fn length_of(&self, column: &str, longest: usize) -> usize {
        let Some(padding) = &self.padding else { return longest };
        let multiple = of(&padding.multiple_of, column).map(|multiple| longest.next_multiple_of(*multiple));
        padding.to_of(column).or(multiple).unwrap_or(longest)
    }

    /// Returns the number that pads a column, as bytes.
    ///
    /// # Errors
    /// Invalid when the column's dtype does not hold the number.
    pub fn pad_of(&self, field: &Field) -> Result<Vec<u8>> {
        pad_value(NAME, self.padding.as_ref().map_or(&[], |padding| &padding.values), field)
    }

    /// Returns a column after the padding.
    fn padded(&self, field: &Field) -> Result<Field> {
        self.pad_of(field)?;
        match (self.padding.as_ref().and_then(|padding| padding.to_of(&field.name)), &field.kind) {
            (Some(length), Kind::Tensor { dtype, shape }) => {
                let shape = std::iter::once(Some(length)).chain(shape[1..].iter().copied()).collect();
                Ok(Field { kind: Kind::Tensor { dtype: *dtype, shape }, ..field.clone() })
            }
            _ => Ok(Field { uniform: true, ..field.clone() }),
        }
    }
}

impl Padding {
    /// Returns the fixed length of a column's rows, if it has one.
    pub fn to_of(&self, column: &str) -> Option<usize> {
        of(&self.to, column).copied()
    }

    fn check(&self, input: &Schema, ragged: &[String]) -> Result<()> {
        let all = [
            ("pad", self.values.iter().map(|(column, _)| column).collect::<Vec<_>>()),
            ("pad_to", self.to.iter().map(|(column, _)| column).collect()),
            ("multiple_of", self.multiple_of.iter().map(|(column, _)| column).collect()),
            ("truncate", self.truncate.iter().collect()),
            ("lengths", self.lengths.iter().map(|(column, _)| column).collect()),
        ];
        for (argument, column) in all.iter().flat_map(|(argument, columns)| columns.iter().map(move |c| (argument, c)))
        {
            let field = input.field(column)?;
            let is_ragged = ragged.contains(column);
            if is_ragged || !is_list(field) {
                let kind = if is_ragged { "ragged".to_owned() } else { field.kind.to_string() };
                let message = format!("batch: column {column:?} is {kind}, and is not padded");
                return Err(Error::invalid(message).hint(format!("leave it out of {argument}=")));
            }
        }
        for (argument, numbers) in [("pad_to", &self.to), ("multiple_of", &self.multiple_of)] {
            let wrong = numbers.iter().find(|(_, number)| !(1..=LENGTH_MAX).contains(number));
            if let Some((_, number)) = wrong {
                return Err(range(NAME, argument, number, &format!("1 to {LENGTH_MAX}")));
            }
        }
        if let Some((column, _)) = self.multiple_of.iter().find(|(column, _)| self.to_of(column).is_some()) {
            let message = format!("batch: column {column:?} is in pad_to and in multiple_of");
            return Err(
                Error::invalid(message).hint("pad_to alone says how long its rows are: leave it out of the other")
            );
        }
        if let Some(column) = self.truncate.iter().find(|column| self.to_of(column).is_none()) {
            let message = format!("batch: rows of column {column:?} are to be cut, and pad_to does not say where");
            return Err(Error::invalid(message).hint(format!("give pad_to={{{column:?}: length}}")));
        }
        let other = input.fields().iter().find(|f| {
            matches!(f.kind, Kind::Tensor { .. }) && f.kind.known_shape().is_none() && Ragged::inner(&f.kind).is_none()
        });
        match other {
            Some(field) => Err(Error::invalid(format!("batch: column {:?} is {}", field.name, field.kind))
                .hint("rows may differ in their first dimension alone")),
            None => Ok(()),
        }
    }

    fn arguments(&self) -> Vec<String> {
        fn mapping<T: std::fmt::Display>(name: &str, values: &[(String, T)]) -> Option<String> {
            let inner: Vec<_> = values.iter().map(|(column, value)| format!("{column}: {value}")).collect();
            (!inner.is_empty()).then(|| format!("{name}={{{}}}", inner.join(", ")))
        }
        let mut parts = vec![mapping("pad", &self.values).unwrap_or_else(|| "pad=0".to_owned())];
        parts.extend(mapping("pad_to", &self.to));
        parts.extend(mapping("multiple_of", &self.multiple_of));
        parts.extend((!self.truncate.is_empty()).then(|| format!("truncate=[{}]", self.truncate.join(", "))));
        parts.extend(mapping("lengths", &self.lengths));
        parts
    }
}

/// Checks that the rows of a ragged column differ in their first dimension alone.
fn check_ragged(field: &Field) -> Result<()> {
    if is_list(field) {
        return Ok(());
    }
    let hint = match &field.kind {
        Kind::Texts => "lists of texts stay lists in a batch: leave the column out of ragged=",
        Kind::Tensor { .. } if field.kind.known_shape().is_none() => {
            "rows may differ in their first dimension alone: resize or crop them, or drop the column"
        }
        Kind::Tensor { .. } => "its rows have one shape, and a batch of them is one array: leave it out of ragged=",
        _ => "only lists of numbers are ragged: leave it out of ragged=",
    };
    let message =
        format!("batch: column {:?} is {}, and no column of lists that differ in length", field.name, field.kind);
    Err(Error::invalid(message).hint(hint))
}

fn of<'a, T>(values: &'a [(String, T)], column: &str) -> Option<&'a T> {
    values.iter().find(|(name, _)| name == column).map(|(_, value)| value)
}

/// Adds a column of numbers that must not be there yet.
fn added(schema: &Schema, name: &str, dtype: DType, argument: &str) -> Result<Schema> {
    if schema.position(name).is_some() {
        return Err(Error::invalid(format!("batch: there is a column {name:?} already"))
            .hint(format!("give another name, as {argument}=")));
    }
    let field = Field::new(name, Kind::scalar(dtype));
    field.check()?;
    Ok(schema.with(field))
}
