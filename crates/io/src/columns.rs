//! Columns that are filled row by row, for formats that must be parsed.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, LargeBinaryArray, LargeStringArray, make_array};
use arrow_buffer::{Buffer, NullBuffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_data::ArrayDataBuilder;
use forebay_core::{Error, Result};
use forebay_data::{DType, Field, FixedTensorBuilder, Kind, TextLists, VariableTensorBuilder};

use crate::fail;

/// Byte strings that follow each other.
#[derive(Debug)]
pub(crate) struct Binary {
    values: Vec<u8>,
    offsets: Vec<i64>,
}

impl Binary {
    pub(crate) fn new() -> Self {
        Self { values: Vec::new(), offsets: vec![0] }
    }

    /// Makes room for `bytes` more bytes.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.values.reserve_exact(bytes);
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.values.extend_from_slice(bytes);
        self.offsets.push(self.values.len() as i64);
    }

    /// Makes the column. For `Kind::Utf8` the caller must have checked the UTF-8; otherwise this is a Data error.
    pub(crate) fn finish(self, kind: &Kind, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        binary(kind, self.offsets, self.values, nulls)
    }
}

/// Makes a `LargeBinary` or `LargeUtf8` column over a buffer.
pub(crate) fn binary(kind: &Kind, offsets: Vec<i64>, values: Vec<u8>, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    let values = Buffer::from_vec(values);
    Ok(if *kind == Kind::Utf8 {
        let checked = LargeStringArray::try_new(offsets, values, nulls);
        Arc::new(checked.map_err(|e| Error::data(format!("text is not utf-8: {e}")))?)
    } else {
        Arc::new(LargeBinaryArray::try_new(offsets, values, nulls).map_err(fail::arrow)?)
    })
}

/// Makes a column of numbers over a buffer.
pub(crate) fn numbers(dtype: DType, values: Buffer, len: usize, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let data = ArrayDataBuilder::new(dtype.arrow()).len(len).add_buffer(values).nulls(nulls).align_buffers(true);
    Ok(make_array(data.build().map_err(fail::arrow)?))
}

/// Returns the column with rows missing where `nulls` says.
pub(crate) fn with_nulls(column: &ArrayRef, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    match nulls.filter(|n| n.null_count() > 0) {
        None => Ok(column.clone()),
        nulls => Ok(make_array(column.to_data().into_builder().nulls(nulls).build().map_err(fail::arrow)?)),
    }
}

/// Returns the column with no row missing; the rows that were missing have arbitrary values.
pub(crate) fn without_nulls(column: &ArrayRef) -> Result<ArrayRef> {
    if column.nulls().is_none() {
        return Ok(column.clone());
    }
    Ok(make_array(column.to_data().into_builder().nulls(None).build().map_err(fail::arrow)?))
}

/// Fills one column of any kind.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) field: Field,
    cells: Cells,
    nulls: NullBufferBuilder,
}

#[derive(Debug)]
enum Cells {
    Fixed(Vec<u8>),
    Binary(Binary),
    /// Each row in the form of bytes.
    Texts(Binary),
    Variable(VariableTensorBuilder),
}

impl Column {
    pub(crate) fn new(field: &Field, rows: usize) -> Self {
        let cells = match (&field.kind, field.kind.row_bytes()) {
            (_, Some(bytes)) => Cells::Fixed(Vec::with_capacity(bytes * rows)),
            (Kind::Texts, _) => Cells::Texts(Binary::new()),
            (Kind::Tensor { dtype, shape }, _) => Cells::Variable(VariableTensorBuilder::new(*dtype, shape.len())),
            _ => Cells::Binary(Binary::new()),
        };
        Self { field: field.clone(), cells, nulls: NullBufferBuilder::new(rows) }
    }

    /// Appends the bytes of a byte string, of a list of texts ([`TextLists::push`]), or of the numbers of a scalar or a
    /// tensor. There must be as many numbers as the field says; of a tensor only the first dimension may be open.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<()> {
        self.nulls.append_non_null();
        match &mut self.cells {
            Cells::Fixed(values) => values.extend_from_slice(bytes),
            Cells::Binary(values) | Cells::Texts(values) => values.push(bytes),
            Cells::Variable(values) => match &self.field.kind {
                Kind::Tensor { dtype, shape } if shape.len() > 1 => {
                    let inner: Vec<usize> = shape.iter().skip(1).map(|dim| dim.unwrap_or(0)).collect();
                    let step = inner.iter().product::<usize>().max(1) * dtype.size();
                    values.push(&[vec![bytes.len() / step], inner].concat(), bytes)?;
                }
                kind => values.push(&[bytes.len() / kind.dtype().map_or(1, DType::size)], bytes)?,
            },
        }
        Ok(())
    }

    /// Appends the bytes of a tensor whose shape the bytes do not contain.
    pub(crate) fn push_shaped(&mut self, shape: &[usize], bytes: &[u8]) -> Result<()> {
        match &mut self.cells {
            Cells::Variable(values) => {
                values.push(shape, bytes)?;
                self.nulls.append_non_null();
                Ok(())
            }
            Cells::Fixed(_) | Cells::Binary(_) | Cells::Texts(_) => self.push(bytes),
        }
    }

    /// Appends a missing row, or returns an error for a column that allows none.
    pub(crate) fn push_missing(&mut self) -> Result<()> {
        if !self.field.nullable {
            return Err(Error::data(format!("column {:?} has no value in this row", self.field.name)));
        }
        let fixed = self.field.kind.row_bytes().unwrap_or(0);
        self.push(&vec![0; fixed])?;
        self.nulls.truncate(self.nulls.len() - 1);
        self.nulls.append_null();
        Ok(())
    }

    /// Ends the column.
    pub(crate) fn finish(mut self) -> Result<ArrayRef> {
        let nulls = self.nulls.finish();
        match (self.cells, &self.field.kind) {
            (Cells::Binary(values), kind) => values.finish(kind, nulls),
            (Cells::Texts(values), _) => TextLists::from_bytes(&values.offsets, &values.values, nulls),
            (Cells::Variable(values), _) => with_nulls(&values.finish()?, nulls),
            (Cells::Fixed(values), Kind::Scalar { dtype }) => {
                let len = values.len() / dtype.size();
                numbers(*dtype, Buffer::from_vec(values), len, nulls)
            }
            (Cells::Fixed(values), kind) => {
                let shape = kind.known_shape().unwrap_or_default();
                let rows = values.len() / kind.row_bytes().unwrap_or(1).max(1);
                let mut tensor = FixedTensorBuilder::new(kind.dtype().unwrap_or(DType::Uint8), &shape, rows);
                tensor.all().copy_from_slice(&values);
                with_nulls(&tensor.finish()?, nulls)
            }
        }
    }
}
