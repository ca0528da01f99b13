//! What `save` leaves in a folder, here or in a store, and `load` reads: the rows of a pipeline in files, each complete or not there.
//!
//! ```text
//! _forebay.json         what is saved here; how many files count, their rows, and the reader's state behind them
//! part-00000000.arrow   rows, in the order of the stream
//! index.json            MDS alone, once all is there: what its own reader wants
//! ```
//!
//! A file counts once the head says so: the head is replaced, all at once, when the file is there. So whoever goes on after a
//! crash begins behind the last file that counts, and writes the next one again. With several writers each has a head of its own,
//! `_forebay/00001-of-00004.json`, and its parts are `part-00001-of-00004-00000000.arrow`.
//!
//! Invariants: where files end, and what bytes they hold, follows from the rows alone, so writers of the same rows write the same
//! bytes; files are numbered without a gap; of two writers with one head, the one that was there first is told so and stops
//! (in a folder of this machine the second is refused, by a lock that ends with its process).
//!
//! Bound: what a writer holds is a delivery of the reader, `BATCH_BYTES` of rows, what an encoder gathers
//! (a row group; of MDS the whole file), and what is on its way to a store (four blocks of 8 MiB).

mod encode;
mod head;
mod place;
mod shards;
mod sink;
mod writer;

pub use crate::poll::Poll;
pub use encode::{Compression, Files, Format};
pub use head::{Complete, Head, SoFar};
pub use place::{Saved, open};
pub use writer::{Progress, Writer};
