//! The folder that `save` writes, here or in a store, and `load` reads: the rows of a pipeline in files, each complete
//! or absent.
//!
//! ```text
//! _forebay.json         description; the number of complete files, their rows, and the reader's state after them
//! part-00000000.arrow   rows, in the order of the stream
//! index.json            only for MDS, once the save is complete: the index of MosaicML's reader
//! ```
//!
//! A file counts once the head counts it: the writer replaces the head atomically when the file is complete. So a
//! writer that resumes after a crash begins after the last counted file, and writes the next one again. Each of several
//! writers has its own head, `_forebay/00001-of-00004.json`, and its parts are `part-00001-of-00004-00000000.arrow`.
//!
//! Invariants: the ends and the bytes of files depend on the rows alone, so writers of the same rows write the same
//! bytes; files are numbered without a gap; of two writers with one head, the earlier one gets an error and stops (in a
//! local folder the second is refused, by a lock that ends with its process).
//!
//! Bound: a writer holds a delivery of the reader, `BATCH_BYTES` of rows, the buffer of an encoder (a row group; for
//! MDS the whole file), and the blocks in flight to a store (four blocks of 8 MiB).

mod encode;
mod head;
mod place;
mod shards;
mod sink;
mod writer;

use std::sync::Arc;

use forebay_core::Result;

pub use encode::{Compression, Format};
pub use head::{Complete, Files, Head, SoFar};
pub use place::{Saved, open};
pub use writer::{Progress, Writer};

/// Called ten times a second by a thread that waits for a store. An error ends the wait with that error (Ctrl-C).
pub type Poll = Arc<dyn Fn() -> Result<()> + Send + Sync>;
