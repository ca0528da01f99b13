//! The ops of a pipeline, each a struct of its arguments that describes itself, in one file.
//!
//! - `op`: the enum of all ops, which only dispatches; `spec`: the properties that an op declares; `access`: the
//!   columns that it reads and writes; `annotated`: an image op with the columns that follow the image
//! - `columns/`: ops on columns, by expressions and by Python functions; `images/`, `augment/`: ops on an image column;
//!   `audio/`: sound and its spectra; `text/`: tokens; `batches/`: batches, and ops inside them; `order/`: which rows come in which order; `cache`:
//!   where rows may be cached
//! - `checks`: checks of arguments that ops share
//! - `expr/`: the expression language of `filter` and `with_column`

mod access;
mod annotated;
mod audio;
mod augment;
mod batches;
mod cache;
mod checks;
mod columns;
pub(crate) mod expr;
mod images;
mod op;
mod order;
mod spec;
mod text;

pub use access::Access;
pub use annotated::Annotated;
pub use audio::*;
pub use augment::*;
pub use batches::*;
pub use cache::{Autocache, Cache};
pub use columns::*;
pub use images::*;
pub use op::Op;
pub use order::*;
pub use spec::Class;
pub use text::*;

pub(crate) use spec::{BYTE_NS, names};
