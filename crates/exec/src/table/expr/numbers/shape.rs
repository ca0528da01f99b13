//! The numbers of a column as a flat buffer, with the layout of rows; broadcasting of one layout to another.
//!
//! Element-wise operations work on the flat buffer and need no shapes: a scalar column is a tensor of one number per
//! row. Invariant: `values` holds exactly the layout's numbers, `nulls` one bit for each row.

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, FixedSizeListArray};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer};
use forebay_core::{Error, Result};
use forebay_data::DType;

use super::kernel::bits;
use super::number::Element;

/// The layout of rows in a flat buffer.
#[derive(Debug, Clone)]
pub(in crate::table::expr) enum Layout {
    /// One number for all rows.
    Once,
    /// One number for each row.
    Rows,
    /// The same count of numbers for each row.
    Fixed(Vec<usize>),
    /// A different count of numbers for each row.
    Variable {
        /// The dimensions, for the kind.
        shape: Vec<Option<usize>>,
        /// Where each row begins and ends.
        offsets: OffsetBuffer<i32>,
        /// The shape of each row, as the column stores it.
        shapes: ArrayRef,
    },
}

/// The numbers of a column.
#[derive(Debug, Clone)]
pub(in crate::table::expr) struct Numbers {
    pub(in crate::table::expr) dtype: DType,
    pub(in crate::table::expr) values: Buffer,
    pub(in crate::table::expr) nulls: Option<NullBuffer>,
    pub(in crate::table::expr) layout: Layout,
}

impl Layout {
    /// Returns the ranges of the numbers of each of `rows` rows.
    pub(in crate::table::expr) fn ranges(&self, rows: usize) -> Vec<std::ops::Range<usize>> {
        match self {
            Layout::Once => vec![0..1; rows],
            Layout::Rows => (0..rows).map(|i| i..i + 1).collect(),
            Layout::Fixed(shape) => {
                let n: usize = shape.iter().product();
                (0..rows).map(|i| i * n..(i + 1) * n).collect()
            }
            Layout::Variable { offsets, .. } => offsets.windows(2).map(|w| w[0] as usize..w[1] as usize).collect(),
        }
    }

    /// Returns the count of numbers of `rows` rows.
    pub(in crate::table::expr) fn len(&self, rows: usize) -> usize {
        match self {
            Layout::Once => 1,
            Layout::Rows => rows,
            Layout::Fixed(shape) => rows * shape.iter().product::<usize>(),
            Layout::Variable { offsets, .. } => offsets.last() as usize,
        }
    }

    fn rank(&self) -> usize {
        match self {
            Layout::Once => 0,
            Layout::Rows => 1,
            Layout::Fixed(_) | Layout::Variable { .. } => 2,
        }
    }
}

impl Numbers {
    /// Makes a single number for all rows.
    pub(in crate::table::expr) fn once<T: Element>(dtype: DType, value: T) -> Self {
        Self { dtype, values: Buffer::from_vec(vec![value.store()]), nulls: None, layout: Layout::Once }
    }

    /// Returns the number, if it is a single one for all rows.
    pub(in crate::table::expr) fn single<T: Element>(&self) -> Option<T> {
        matches!(self.layout, Layout::Once).then(|| self.at(0))
    }

    /// Returns one number of the flat buffer.
    pub(in crate::table::expr) fn at<T: Element>(&self, i: usize) -> T {
        T::load(self.values.typed_data::<T::Stored>()[i])
    }

    /// Returns other numbers in the same places.
    pub(in crate::table::expr) fn with(self, dtype: DType, values: Buffer) -> Self {
        Self { dtype, values, ..self }
    }

    /// Repeats numbers to fill `layout`.
    pub(in crate::table::expr) fn expand(self, layout: &Layout, rows: usize) -> Self {
        if self.layout.rank() >= layout.rank() {
            return self;
        }
        let values = bits!(self.dtype, T => {
            let from = self.values.typed_data::<T>();
            Buffer::from_vec(match (&self.layout, layout) {
                (Layout::Once, _) => vec![from[0]; layout.len(rows)],
                (_, Layout::Fixed(shape)) => {
                    let n = shape.iter().product();
                    from.iter().flat_map(|&x| std::iter::repeat_n(x, n)).collect::<Vec<T>>()
                }
                _ => {
                    let mut to = Vec::with_capacity(layout.len(rows));
                    for (range, &x) in layout.ranges(rows).iter().zip(from) {
                        to.extend(std::iter::repeat_n(x, range.len()));
                    }
                    to
                }
            })
        });
        Self { values, layout: layout.clone(), ..self }
    }
}

/// Returns the common layout of the operands.
///
/// # Errors
/// Data when a row has two shapes; Internal when two known shapes differ, which [`forebay_plan::Expr::kind`] refuses.
pub(in crate::table::expr) fn common(operands: &[&Numbers]) -> Result<Layout> {
    let mut widest = &Layout::Once;
    for operand in operands {
        match (widest, &operand.layout) {
            (Layout::Fixed(a), Layout::Fixed(b)) if a == b => {}
            (Layout::Variable { shapes: a, .. }, Layout::Variable { shapes: b, .. }) => check_equal(a, b)?,
            (a, b) if a.rank() == 2 && b.rank() == 2 => return Err(Error::internal("two shapes that differ")),
            (a, b) if b.rank() > a.rank() => widest = b,
            _ => {}
        }
    }
    Ok(widest.clone())
}

/// Refuses rows whose shapes differ.
fn check_equal(a: &ArrayRef, b: &ArrayRef) -> Result<()> {
    let wrong = || Error::internal("the shapes of tensors are lists of int32");
    let (a, b) = (a.as_fixed_size_list_opt().ok_or_else(wrong)?, b.as_fixed_size_list_opt().ok_or_else(wrong)?);
    let dims = |shapes: &FixedSizeListArray| {
        let numbers = shapes.values().as_primitive_opt::<Int32Type>().ok_or_else(wrong)?;
        let rank = shapes.value_length() as usize;
        Ok::<_, Error>(numbers.values().slice(shapes.offset() * rank, shapes.len() * rank))
    };
    let (rank, x, y) = (a.value_length().max(1) as usize, dims(a)?, dims(b)?);
    if x == y {
        return Ok(());
    }
    let differ = x.chunks(rank).zip(y.chunks(rank)).find(|(x, y)| x != y);
    let (x, y) = differ.ok_or_else(|| Error::internal("columns of one chunk that differ in their rows"))?;
    Err(Error::data(format!("the shapes {x:?} and {y:?} in one row do not match"))
        .hint("numbers are computed in pairs: give both lists one length, or leave such rows out with filter"))
}

/// Brings two operands to one layout; single numbers stay single.
///
/// # Errors
/// As [`common`].
pub(in crate::table::expr) fn align(a: Numbers, b: Numbers, rows: usize) -> Result<(Numbers, Numbers, Place)> {
    let layout = common(&[&a, &b])?;
    let nulls = NullBuffer::union(a.nulls.as_ref(), b.nulls.as_ref());
    let expand = |x: Numbers| if matches!(x.layout, Layout::Once) { x } else { x.expand(&layout, rows) };
    let (a, b) = (expand(a), expand(b));
    Ok((a, b, Place { layout, nulls }))
}

/// The common layout and the missing rows of the operands of a result.
#[derive(Debug)]
pub(in crate::table::expr) struct Place {
    pub(in crate::table::expr) layout: Layout,
    pub(in crate::table::expr) nulls: Option<NullBuffer>,
}

impl Place {
    /// Creates the numbers of the result.
    pub(in crate::table::expr) fn fill(self, dtype: DType, values: Buffer) -> Numbers {
        Numbers { dtype, values, nulls: self.nulls, layout: self.layout }
    }
}
