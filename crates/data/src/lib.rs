//! Columnar chunks over Arrow: the data that flows between ops, between threads and between processes.
//!
//! A [`Chunk`] is a run of rows, column by column; its [`Schema`] has each column's [`Kind`]. Columns are Arrow arrays,
//! so that an Arrow library in any language can read the output of a process:
//!
//! | kind | Arrow storage | extension |
//! |---|---|---|
//! | `Scalar(dtype)` | the primitive array | `arrow.bool8` for booleans (one byte each, so that NumPy can share it) |
//! | `Bytes`, `Utf8` | `LargeBinary`, `LargeUtf8` | – |
//! | `Texts` | `LargeList` of `LargeUtf8` | – |
//! | `Tensor`, every dimension known | `FixedSizeList` of the primitive | `arrow.fixed_shape_tensor` |
//! | `Tensor`, some dimension unknown | `Struct{data: List, shape: FixedSizeList<int32>}` | `arrow.variable_shape_tensor` |
//!
//! Invariants: every column of a chunk has `chunk.num_rows()` rows and the Arrow type of its field; numeric columns
//! without `nullable` have no null; rows of tensors are never missing.
//!
//! ```
//! use std::sync::Arc;
//!
//! use arrow_array::{ArrayRef, Int64Array};
//! use forebay_core::{Epoch, SampleId};
//! use forebay_data::{Chunk, DType, Field, Kind, RowId, Schema};
//!
//! let schema = Arc::new(Schema::new(vec![Field::new("id", Kind::scalar(DType::Int64))])?);
//! let rows: Vec<RowId> = (0..4).map(|row| RowId { sample: SampleId(row), epoch: Epoch(0) }).collect();
//! let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..4));
//! let chunk = Chunk::new(schema, vec![column], rows.into())?;
//!
//! let middle = chunk.slice(1, 2); // shares the column
//! assert_eq!((middle.num_rows(), middle.ids()[0].sample), (2, SampleId(1)));
//! # Ok::<(), forebay_core::Error>(())
//! ```

mod arena;
mod budget;
mod chunk;
mod ipc;
mod lists;
mod loss;
mod memory;
mod parts;
mod ragged;
mod schema;
mod tensor;
mod texts;

pub use arena::{Arena, Block, SharedMemory, is_in_arena};
pub use budget::MemoryBudget;
pub use chunk::{Chunk, RowId, adopt};
pub use ipc::{read_ipc, write_ipc};
pub use lists::Int32Lists;
pub use loss::Loss;
pub use memory::{Bytes, Memory};
pub use ragged::Ragged;
pub use schema::{DType, Field, Kind, Schema, TENSOR_DTYPE};
pub use tensor::{
    FixedTensorBuilder, Slots, VariableTensorBuilder, column_of, tensor_lengths, tensor_shape_of_row, tensor_values,
};
pub use texts::TextLists;
