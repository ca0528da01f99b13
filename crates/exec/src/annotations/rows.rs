//! The annotation columns of a chunk, row by row, and the new columns with the moved rows.

use arrow_array::{Array, ArrayRef};
use arrow_buffer::Buffer;
use forebay_core::{Error, Result};
use forebay_data::{
    DType, Field, FixedTensorBuilder, Kind, Ragged, Schema, VariableTensorBuilder, tensor_shape_of_row, tensor_values,
};
use forebay_plan::{Annotations, Role};

/// The columns that follow an image.
pub(crate) struct Rows<'a> {
    pub(super) rules: &'a Annotations,
    pub(super) columns: Vec<Column>,
}

/// A column that follows an image.
pub(super) struct Column {
    pub(super) name: String,
    pub(super) role: Role,
    dtype: DType,
    /// Whether a mask of three dimensions is one plane: its last dimension is 1.
    pub(super) is_one_plane: bool,
    /// The bytes of a mask's pixel outside the image; else empty.
    pub(super) fill: Vec<u8>,
    values: Buffer,
    /// The shape of each row, and the place of its first number.
    rows: Vec<(Vec<usize>, usize)>,
}

/// A row of a column: its shape and its bytes.
#[derive(Debug, Clone)]
pub(crate) struct MadeRow {
    pub(super) shape: Vec<usize>,
    pub(super) bytes: Vec<u8>,
}

/// Floats, each rounded to its dtype.
#[derive(Debug)]
pub(super) struct Numbers {
    pub(super) values: Vec<f64>,
    is_wide: bool,
}

impl Numbers {
    /// Returns other numbers of the same dtype.
    pub(super) fn with(&self, mut values: Vec<f64>) -> Self {
        if !self.is_wide {
            values.iter_mut().for_each(|v| *v = f64::from(*v as f32));
        }
        Self { values, is_wide: self.is_wide }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        match self.is_wide {
            true => self.values.iter().flat_map(|v| v.to_ne_bytes()).collect(),
            false => self.values.iter().flat_map(|v| (*v as f32).to_ne_bytes()).collect(),
        }
    }
}

impl Column {
    fn new(field: &Field, role: Role, fill: f64, column: &ArrayRef) -> Result<Self> {
        let dtype = field.kind.dtype().ok_or_else(|| Error::internal("annotations are tensors"))?;
        let (mut rows, mut start) = (Vec::with_capacity(column.len()), 0);
        for row in 0..column.len() {
            let shape = tensor_shape_of_row(&field.kind, column, row)?;
            let numbers = shape.iter().product::<usize>();
            rows.push((shape, start));
            start += numbers;
        }
        let is_one_plane = matches!(&field.kind, Kind::Tensor { shape, .. } if shape.get(2) == Some(&Some(1)));
        let fill = if role == Role::Mask { Ragged::number(dtype, fill).unwrap_or_default() } else { Vec::new() };
        let values = tensor_values(&field.kind, column)?;
        Ok(Self { name: field.name.clone(), role, dtype, is_one_plane, fill, values, rows })
    }

    pub(super) fn shape(&self, row: usize) -> &[usize] {
        &self.rows[row].0
    }

    pub(super) fn bytes(&self, row: usize) -> &[u8] {
        let ((shape, start), size) = (&self.rows[row], self.dtype.size());
        &self.values.as_slice()[start * size..][..shape.iter().product::<usize>() * size]
    }

    /// Returns the numbers of a row of floats.
    pub(super) fn numbers(&self, row: usize) -> Numbers {
        let bytes = self.bytes(row);
        let values = match self.dtype {
            DType::Float64 => bytes.as_chunks::<8>().0.iter().map(|b| f64::from_ne_bytes(*b)).collect(),
            _ => bytes.as_chunks::<4>().0.iter().map(|b| f64::from(f32::from_ne_bytes(*b))).collect(),
        };
        Numbers { values, is_wide: self.dtype == DType::Float64 }
    }
}

impl<'a> Rows<'a> {
    /// Takes the columns of `rules` that a chunk with these columns has.
    ///
    /// # Errors
    /// Internal when a column is no tensor.
    pub(crate) fn new(rules: &'a Annotations, schema: &Schema, columns: &[ArrayRef]) -> Result<Self> {
        let column = |(name, role): (&String, Role)| {
            let at = schema.position(name).ok_or_else(|| Error::internal(format!("no column {name:?}")))?;
            Column::new(&schema.fields()[at], role, rules.mask_fill, &columns[at])
        };
        Ok(Self { rules, columns: rules.columns().map(column).collect::<Result<_>>()? })
    }

    /// Makes the columns of the moved rows, with their fields in `schema`.
    ///
    /// # Errors
    /// Exhausted when a column is too large.
    pub(crate) fn made(&self, schema: &Schema, rows: &[Vec<MadeRow>]) -> Result<Vec<(Field, ArrayRef)>> {
        let made = |(at, column): (usize, &Column)| {
            let field = schema.field(&column.name)?.clone();
            Ok((field.clone(), made(&field.kind, rows.iter().map(|row| &row[at]), rows.len())?))
        };
        self.columns.iter().enumerate().map(made).collect()
    }
}

fn made<'r>(kind: &Kind, rows: impl Iterator<Item = &'r MadeRow>, len: usize) -> Result<ArrayRef> {
    let Kind::Tensor { dtype, shape } = kind else { return Err(Error::internal("annotations are tensors")) };
    if let Some(known) = kind.known_shape() {
        let mut builder = FixedTensorBuilder::new(*dtype, &known, len);
        for (at, row) in rows.enumerate() {
            let slot = builder.slot(at);
            if slot.len() != row.bytes.len() {
                return Err(Error::internal(format!("a row of shape {:?} for {kind}", row.shape)));
            }
            slot.copy_from_slice(&row.bytes);
        }
        return builder.finish();
    }
    let mut builder = VariableTensorBuilder::new(*dtype, shape.len());
    rows.into_iter().try_for_each(|row| builder.push(&row.shape, &row.bytes))?;
    builder.finish()
}
