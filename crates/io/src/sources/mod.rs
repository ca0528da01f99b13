//! The sources that read files, one file each: what the user left open is looked up, files are listed, rows are found,
//! and a reader is opened.
//!
//! - `build`: makes an index of a source.
//! - `format`: the trait `SourceFormat`; `registry`: which source has which format.
//! - `draft`: what the user wrote; `infer`: what it becomes; `look_up`: looking at the first files.
//! - `files`, `image_folder`, `tar`, `tfrecord`, `lines` (text and JSON), `csv`, `parquet`, `arrow`, `tokens`, `megatron`,
//!   `mds`, `litdata`, `computed` (arrays in memory, and numbers): the sources.
//! - `table/`: files that have columns of their own. `shards`: folders that have an `index.json`.
//!
//! What the bytes of a file mean is in `formats`, how rows are read from them in `readers`.

mod arrow;
mod build;
mod computed;
mod csv;
mod draft;
mod files;
mod format;
mod image_folder;
mod infer;
mod lines;
mod litdata;
mod look_up;
mod mds;
mod megatron;
mod parquet;
mod registry;
mod shards;
pub(crate) mod table;
mod tar;
mod tfrecord;
mod tokens;

pub(crate) use build::build;
pub use draft::{CsvDraft, CsvHeader, Draft, Features, Together};
pub use infer::{infer, infer_following};
pub(crate) use registry::open as open_reader;
