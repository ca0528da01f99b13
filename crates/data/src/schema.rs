//! The type of each column: name, dtype, shape. Inferred through the whole pipeline before anything runs.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use arrow_schema::{DataType, Field as ArrowField, Schema as ArrowSchema};
use forebay_core::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

/// The type of one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names are NumPy's")]
pub enum DType {
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Float16,
    Float32,
    Float64,
}

impl DType {
    /// Every dtype, in the order of its promotion within a family.
    pub const ALL: [DType; 12] = [
        DType::Bool,
        DType::Int8,
        DType::Int16,
        DType::Int32,
        DType::Int64,
        DType::Uint8,
        DType::Uint16,
        DType::Uint32,
        DType::Uint64,
        DType::Float16,
        DType::Float32,
        DType::Float64,
    ];

    /// Returns NumPy's name.
    pub fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::Int8 => "int8",
            DType::Int16 => "int16",
            DType::Int32 => "int32",
            DType::Int64 => "int64",
            DType::Uint8 => "uint8",
            DType::Uint16 => "uint16",
            DType::Uint32 => "uint32",
            DType::Uint64 => "uint64",
            DType::Float16 => "float16",
            DType::Float32 => "float32",
            DType::Float64 => "float64",
        }
    }

    /// Reads NumPy's name.
    ///
    /// # Errors
    /// Invalid, with the list of names, when there is no such dtype.
    pub fn parse(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|d| d.name() == name).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|d| d.name()).collect();
            Error::invalid(format!("unknown dtype {name:?}")).hint(format!("use one of {}", names.join(", ")))
        })
    }

    /// Returns the size of one number in bytes.
    pub fn size(self) -> usize {
        match self {
            DType::Bool | DType::Int8 | DType::Uint8 => 1,
            DType::Int16 | DType::Uint16 | DType::Float16 => 2,
            DType::Int32 | DType::Uint32 | DType::Float32 => 4,
            DType::Int64 | DType::Uint64 | DType::Float64 => 8,
        }
    }

    /// Returns whether it is a floating point type.
    pub fn is_float(self) -> bool {
        matches!(self, DType::Float16 | DType::Float32 | DType::Float64)
    }

    /// Returns the Arrow type that stores it (`Int8` for booleans: `arrow.bool8`).
    pub fn arrow(self) -> DataType {
        match self {
            DType::Bool | DType::Int8 => DataType::Int8,
            DType::Int16 => DataType::Int16,
            DType::Int32 => DataType::Int32,
            DType::Int64 => DataType::Int64,
            DType::Uint8 => DataType::UInt8,
            DType::Uint16 => DataType::UInt16,
            DType::Uint32 => DataType::UInt32,
            DType::Uint64 => DataType::UInt64,
            DType::Float16 => DataType::Float16,
            DType::Float32 => DataType::Float32,
            DType::Float64 => DataType::Float64,
        }
    }

    /// Returns the dtype that an Arrow primitive type stores, if there is one.
    pub fn from_arrow(ty: &DataType) -> Option<Self> {
        match ty {
            DataType::Boolean => Some(DType::Bool),
            other => Self::ALL.into_iter().skip(1).find(|d| d.arrow() == *other),
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The type of one row of a column.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum Kind {
    /// One number.
    Scalar {
        /// Its type.
        dtype: DType,
    },
    /// A byte string.
    Bytes,
    /// A UTF-8 string.
    Utf8,
    /// A list of UTF-8 strings, of any length.
    Texts,
    /// An n-dimensional array, row-major; `None` is a dimension that differs from row to row.
    Tensor {
        /// The type of its numbers.
        dtype: DType,
        /// Its dimensions, outermost first.
        shape: Vec<Option<usize>>,
    },
}

impl Kind {
    /// Makes a scalar of `dtype`.
    pub fn scalar(dtype: DType) -> Self {
        Kind::Scalar { dtype }
    }

    /// Makes a tensor whose dimensions are all known.
    pub fn fixed(dtype: DType, shape: &[usize]) -> Self {
        Kind::Tensor { dtype, shape: shape.iter().copied().map(Some).collect() }
    }

    /// Returns the type of the numbers, for scalars and tensors.
    pub fn dtype(&self) -> Option<DType> {
        match self {
            Kind::Scalar { dtype } | Kind::Tensor { dtype, .. } => Some(*dtype),
            Kind::Bytes | Kind::Utf8 | Kind::Texts => None,
        }
    }

    /// Returns the shape of one row when every dimension is known; a scalar's is empty.
    pub fn known_shape(&self) -> Option<Vec<usize>> {
        match self {
            Kind::Scalar { .. } => Some(Vec::new()),
            Kind::Tensor { shape, .. } => shape.iter().copied().collect(),
            Kind::Bytes | Kind::Utf8 | Kind::Texts => None,
        }
    }

    /// Returns whether a row may be missing: numbers, bytes, strings and lists of strings may. A tensor may not, because a NumPy array
    /// cannot represent a missing row.
    pub fn can_be_missing(&self) -> bool {
        !matches!(self, Kind::Tensor { .. })
    }

    /// Returns the bytes of one row if the schema alone determines them.
    pub fn row_bytes(&self) -> Option<usize> {
        let shape = self.known_shape()?;
        Some(shape.iter().product::<usize>() * self.dtype()?.size())
    }

    /// Returns the Arrow storage type.
    pub fn arrow(&self) -> DataType {
        match self {
            Kind::Scalar { dtype } => dtype.arrow(),
            Kind::Bytes => DataType::LargeBinary,
            Kind::Utf8 => DataType::LargeUtf8,
            Kind::Texts => DataType::LargeList(text_item()),
            Kind::Tensor { dtype, shape } => match self.known_shape() {
                Some(known) => DataType::FixedSizeList(item(*dtype), known.iter().product::<usize>() as i32),
                None => DataType::Struct(
                    vec![
                        ArrowField::new("data", DataType::List(item(*dtype)), false),
                        ArrowField::new(
                            "shape",
                            DataType::FixedSizeList(item(DType::Int32), shape.len() as i32),
                            false,
                        ),
                    ]
                    .into(),
                ),
            },
        }
    }

    fn extension(&self) -> Option<(&'static str, String)> {
        match self {
            Kind::Scalar { dtype: DType::Bool } => Some(("arrow.bool8", String::new())),
            Kind::Scalar { .. } | Kind::Bytes | Kind::Utf8 | Kind::Texts => None,
            Kind::Tensor { shape, .. } => Some(match self.known_shape() {
                Some(known) => ("arrow.fixed_shape_tensor", format!("{{\"shape\":{known:?}}}").replace(' ', "")),
                None => {
                    let dims: Vec<_> = shape.iter().map(|d| d.map_or("null".to_owned(), |n| n.to_string())).collect();
                    ("arrow.variable_shape_tensor", format!("{{\"uniform_shape\":[{}]}}", dims.join(",")))
                }
            }),
        }
    }
}

/// The metadata key for the dtype of a tensor column whose Arrow type does not determine it: booleans are a byte each.
pub const TENSOR_DTYPE: &str = "forebay.dtype";

/// Returns the child field of every list that Forebay makes.
pub(crate) fn item(dtype: DType) -> Arc<ArrowField> {
    Arc::new(ArrowField::new("item", dtype.arrow(), false))
}

/// Returns the child field of lists of texts.
pub(crate) fn text_item() -> Arc<ArrowField> {
    Arc::new(ArrowField::new("item", DataType::LargeUtf8, true))
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Scalar { dtype } => write!(f, "{dtype}"),
            Kind::Bytes => f.write_str("bytes"),
            Kind::Utf8 => f.write_str("string"),
            Kind::Texts => f.write_str("string[?]"),
            Kind::Tensor { dtype, shape } => {
                let dims: Vec<_> = shape.iter().map(|d| d.map_or("?".to_owned(), |n| n.to_string())).collect();
                write!(f, "{dtype}[{}]", dims.join(", "))
            }
        }
    }
}

/// One column: its name and the type of its rows.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Field {
    /// The column's name. Nested dictionaries flatten to dotted names.
    pub name: String,
    /// The type of one row.
    #[serde(flatten)]
    pub kind: Kind,
    /// Whether a row may be missing. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub nullable: bool,
    /// Whether all rows of one batch have the same shape, although those of another batch may have another: they were
    /// padded. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub uniform: bool,
}

impl Field {
    /// Makes a field that is never null.
    pub fn new(name: impl Into<String>, kind: Kind) -> Self {
        Self { name: name.into(), kind, nullable: false, uniform: false }
    }

    /// Checks that rows are missing only in kinds that allow it.
    ///
    /// # Errors
    /// Invalid, with the column, when it is a tensor that may be missing.
    pub fn check(&self) -> Result<()> {
        if !self.nullable || self.kind.can_be_missing() {
            return Ok(());
        }
        Err(Error::invalid(format!("column {:?} is {} with missing rows, which no array holds", self.name, self.kind))
            .hint("numbers, strings and bytes may be missing; give an array for every row, or leave rows out before"))
    }

    /// Returns the Arrow field, with the extension type's name and metadata.
    pub fn arrow(&self) -> ArrowField {
        let field = ArrowField::new(&self.name, self.kind.arrow(), self.nullable);
        let Some((name, metadata)) = self.kind.extension() else { return field };
        let mut notes = vec![("ARROW:extension:name", name.to_owned()), ("ARROW:extension:metadata", metadata)];
        if matches!(self.kind, Kind::Tensor { dtype: DType::Bool, .. }) {
            notes.push((TENSOR_DTYPE, DType::Bool.name().to_owned()));
        }
        field.with_metadata(notes.into_iter().map(|(k, v)| (k.to_owned(), v)).collect::<HashMap<_, _>>())
    }
}

/// The columns of a chunk, in order. Names are unique.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Schema {
    fields: Vec<Field>,
}

impl Schema {
    /// Makes a schema.
    ///
    /// # Errors
    /// Invalid when two fields have the same name.
    pub fn new(fields: Vec<Field>) -> Result<Self> {
        for (i, field) in fields.iter().enumerate() {
            if fields[..i].iter().any(|f| f.name == field.name) {
                return Err(Error::invalid(format!("two columns are named {:?}", field.name)));
            }
        }
        Ok(Self { fields })
    }

    /// Returns the fields in order.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Returns the index of a column, if there is one with that name.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|f| f.name == name)
    }

    /// Returns a column's field.
    ///
    /// # Errors
    /// NotFound, with the existing columns and the nearest spelling.
    pub fn field(&self, name: &str) -> Result<&Field> {
        self.fields.iter().find(|f| f.name == name).ok_or_else(|| self.unknown(name))
    }

    fn unknown(&self, name: &str) -> Error {
        let names: Vec<_> = self.fields.iter().map(|f| f.name.as_str()).collect();
        let error = Error::new(ErrorKind::NotFound, format!("there is no column {name:?}"))
            .with("columns", if names.is_empty() { "(none)".to_owned() } else { names.join(", ") });
        if let Some(field) = names.iter().find(|n| n.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'))) {
            return error.hint(format!("the fields of this struct are columns: write {field:?}, or rename it"));
        }
        match names.iter().min_by_key(|n| edit_distance(n, name)).filter(|n| edit_distance(n, name) <= 2) {
            Some(near) => error.hint(format!("did you mean {near:?}?")),
            None => error,
        }
    }

    /// Returns the schema with `field` in place of the one with its name, or at the end.
    #[must_use]
    pub fn with(&self, field: Field) -> Self {
        let mut fields = self.fields.clone();
        match self.position(&field.name) {
            Some(i) => fields[i] = field,
            None => fields.push(field),
        }
        Self { fields }
    }

    /// Returns the schema of rows in which none of these columns is missing.
    #[must_use]
    pub fn without_missing(&self, columns: &BTreeSet<&str>) -> Self {
        let field = |f: &Field| Field { nullable: f.nullable && !columns.contains(f.name.as_str()), ..f.clone() };
        Self { fields: self.fields.iter().map(field).collect() }
    }

    /// Returns the Arrow schema.
    pub fn arrow(&self) -> ArrowSchema {
        ArrowSchema::new(self.fields.iter().map(Field::arrow).collect::<Vec<_>>())
    }

    /// Returns the bytes of one row, with `unknown` bytes for each column of unknown size.
    pub fn row_bytes(&self, unknown: usize) -> usize {
        self.fields.iter().map(|f| f.kind.row_bytes().unwrap_or(unknown)).sum()
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<_> = self
            .fields
            .iter()
            .map(|x| format!("{}: {}{}", x.name, x.kind, if x.nullable { "?" } else { "" }))
            .collect();
        write!(f, "{{{}}}", parts.join(", "))
    }
}

/// Returns the Levenshtein distance, for "did you mean".
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut corner = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let next = (corner + usize::from(x != *y)).min(row[j] + 1).min(row[j + 1] + 1);
            corner = row[j + 1];
            row[j + 1] = next;
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digits() -> Schema {
        Schema::new(vec![
            Field::new("__key__", Kind::Utf8),
            Field::new("png", Kind::fixed(DType::Float32, &[1, 28, 28])),
            Field::new("raw", Kind::Tensor { dtype: DType::Uint8, shape: vec![None, None, Some(3)] }),
        ])
        .expect("names differ")
    }

    #[test]
    fn a_typo_names_the_columns_and_the_nearest() {
        let e = digits().field("pgn").expect_err("no such column");
        assert_eq!(e.get("hint"), Some("did you mean \"png\"?"));
        assert_eq!(e.get("columns"), Some("__key__, png, raw"));
        let images = Schema::new(vec![Field::new("image.bytes", Kind::Bytes)]).expect("one name");
        let e = images.field("image").expect_err("a struct is no column");
        assert_eq!(e.get("hint"), Some("the fields of this struct are columns: write \"image.bytes\", or rename it"));
    }

    #[test]
    fn schemas_print_and_read_back() {
        assert_eq!(digits().to_string(), "{__key__: string, png: float32[1, 28, 28], raw: uint8[?, ?, 3]}");
        let json = serde_json::to_string(&digits()).expect("serialises");
        assert_eq!(serde_json::from_str::<Schema>(&json).expect("parses"), digits());
    }

    #[test]
    fn tensors_carry_the_canonical_extension_names() {
        let arrow = digits().arrow();
        let meta = |i: usize| arrow.field(i).metadata().get("ARROW:extension:metadata").cloned();
        assert_eq!(meta(1).as_deref(), Some("{\"shape\":[1,28,28]}"));
        assert_eq!(meta(2).as_deref(), Some("{\"uniform_shape\":[null,null,3]}"));
    }
}
