//! The sources that read files, one file each. A source infers the parts that the user left open, lists files, finds
//! rows, and opens a reader.
//!
//! - `build`: makes an index of a source.
//! - `density`: the content bytes for each stored byte of compressed files.
//! - `format`: the trait `SourceFormat`; `registry`: the format of each source.
//! - `draft`: a source as the user wrote it; `infer`: makes a source of a draft; `look_up`: reads the first files.
//! - `files`, `image_folder`, `tar`, `tfrecord`, `lines` (text and JSON), `json` (documents), `csv`, `computed` (arrays in memory, and
//!   numbers): sources.
//! - `table/`: files with columns (Parquet, Arrow); `shards/`: folders with an `index.json` (MDS, LitData); `tokens/`:
//!   flat files of token ids, and Megatron's.
//!
//! `formats` decodes the bytes of files; `readers` reads rows from them.

mod build;
mod computed;
mod csv;
mod density;
mod draft;
mod files;
mod format;
mod image_folder;
mod infer;
mod json;
mod lines;
mod look_up;
mod registry;
mod shards;
pub(crate) mod table;
mod tar;
mod tfrecord;
mod tokens;

pub(crate) use build::build;
pub use draft::{CsvDraft, CsvHeader, Draft, Features, Inferred, Together};
pub use infer::{infer, infer_following};
pub(crate) use registry::open as open_reader;
