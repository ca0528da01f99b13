//! Batches rows of one key together: `batch_by_key`.
//!
//! It has the semantics of tf.data's `group_by_window` with batches of one size: a batch is full when as many rows of its
//! key have come. At the end of an epoch the remaining rows come out key by key, in ascending order.
//!
//! Bound: from the row that waits longest on, rows of at most `max_keys` keys come. A row of one more key first closes the
//! batch of the row that waits longest. So the batches are a function of the order of rows.

use forebay_core::{Error, Result};
use forebay_data::{Field, Kind, Ragged, Schema};
use serde::{Deserialize, Serialize};

use crate::ops::batches::bucket_by_length::ROWS_MAX;
use crate::ops::batches::pad::{check_padded, is_list, pad_value};
use crate::ops::checks::range;
use crate::ops::spec::{About, Class, Names, OpSpec, with_read};

const NAME: &str = "batch_by_key";
/// The most columns of a key.
const COLUMNS_MAX: usize = 8;
/// The most keys of which rows may wait.
const KEYS_MAX: usize = 1 << 16;

/// Batches rows of one key together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchByKey {
    /// The columns of the key: whole numbers, truth values or texts.
    pub key: Vec<String>,
    /// Rows of a batch.
    pub size: usize,
    /// The padding of columns of lists, if it is not 0. `None`: nothing is padded, and the rows of a batch have one shape.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub padding: Option<Vec<(String, f64)>>,
    /// Whether batches that are not full are dropped.
    pub drop_remainder: bool,
    /// The most keys of the rows from the row that waits longest on.
    pub max_keys: usize,
}

impl OpSpec for BatchByKey {
    fn about(&self) -> About {
        About { name: NAME, class: Class::Group, is_random: false }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        if !(1..=ROWS_MAX).contains(&self.size) {
            return Err(range(NAME, "size", self.size, &format!("1 to {ROWS_MAX}")));
        }
        if !(1..=KEYS_MAX).contains(&self.max_keys) {
            return Err(range(NAME, "max_keys", self.max_keys, &format!("1 to {KEYS_MAX}")));
        }
        if !(1..=COLUMNS_MAX).contains(&self.key.len()) {
            return Err(Error::invalid(format!("{NAME}: a key of {} columns", self.key.len()))
                .hint(format!("name 1 to {COLUMNS_MAX} columns")));
        }
        self.key.iter().try_for_each(|column| check_key(input.field(column)?))?;
        check_padded(NAME, self.padding.as_deref().unwrap_or_default(), input)?;
        let mut schema = input.clone();
        for field in input.fields().iter().filter(|f| matches!(f.kind, Kind::Tensor { .. })) {
            if field.kind.known_shape().is_none() {
                self.check_padding(field)?;
                schema = schema.with(Field { uniform: true, ..field.clone() });
            }
        }
        Ok(schema)
    }

    fn arguments(&self) -> String {
        let pad = match self.padding.as_deref() {
            None => String::new(),
            Some([]) => ", pad=0".to_owned(),
            Some(values) => {
                let values: Vec<_> = values.iter().map(|(column, value)| format!("{column}: {value}")).collect();
                format!(", pad={{{}}}", values.join(", "))
            }
        };
        let drop = if self.drop_remainder { ", drop_remainder=True" } else { "" };
        format!("{}, {}{pad}, max_keys={}{drop}", self.key.join(" + "), self.size, self.max_keys)
    }

    fn needs(&self, input: &Schema, after: Names) -> Names {
        with_read(input, after, &self.key)
    }

    fn restrict(&mut self, input: &Schema) -> bool {
        self.padding.iter_mut().for_each(|values| values.retain(|(column, _)| input.position(column).is_some()));
        true
    }

    fn is_uncounted(&self) -> bool {
        true
    }
}

impl BatchByKey {
    /// The most bytes of the texts of a key: saved states have keys.
    pub const KEY_BYTES_MAX: usize = 1024;

    /// Returns the padding of a column, as the bytes of one number; `None` if it is not padded.
    ///
    /// # Errors
    /// Invalid when its dtype cannot hold the number.
    pub fn pad_of(&self, field: &Field) -> Result<Option<Vec<u8>>> {
        let Some(values) = self.padding.as_ref().filter(|_| is_list(field)) else { return Ok(None) };
        pad_value(NAME, values, field).map(Some)
    }

    /// Says whether the key of a row may be too long. Such a row fails by itself, before rows are grouped.
    pub fn fits_rows(&self, input: &Schema) -> bool {
        self.key.iter().any(|column| input.field(column).is_ok_and(|field| field.kind == Kind::Utf8))
    }

    /// Checks that rows of a column of unknown shape may be in one batch.
    fn check_padding(&self, field: &Field) -> Result<()> {
        if self.padding.is_some() && Ragged::inner(&field.kind).is_none() {
            return Err(Error::invalid(format!(
                "{NAME}: column {:?} is {}, and is not padded",
                field.name, field.kind
            ))
            .hint("leave pad out: rows of one key then need one shape; or resize them before"));
        }
        self.pad_of(field).map(|_| ())
    }
}

/// Checks that a column can be of a key.
fn check_key(field: &Field) -> Result<()> {
    let is_float = matches!(&field.kind, Kind::Scalar { dtype } if dtype.is_float());
    if matches!(field.kind, Kind::Utf8) || matches!(field.kind, Kind::Scalar { .. }) && !is_float {
        return Ok(());
    }
    let (name, kind) = (&field.name, &field.kind);
    let hint = match kind {
        Kind::Scalar { .. } => {
            format!("make a whole number of it: .with_column(\"key\", (fb.col({name:?}) * 10).cast(\"int64\"))")
        }
        Kind::Bytes => format!("make a text of it: .cast({name}=\"string\")"),
        _ => "name a column of whole numbers, truth values or texts".to_owned(),
    };
    Err(Error::invalid(format!("{NAME}: column {name:?} is {kind}, which is no key")).hint(hint))
}
