//! What `save` leaves in a folder, and `load` reads: the rows of a pipeline as Arrow files, each complete or not there.
//!
//! ```text
//! _forebay.json        what is saved here, and once all is there, how much
//! part-00000000.arrow  rows, in the order of the stream; its footer has the reader's state after its last row
//! ```
//!
//! A part and the state behind it become visible together, by one rename. So whoever goes on after a crash begins behind
//! the last part: no row is missing, and none is there twice.
//!
//! Invariants: a part never changes once it is there; parts are numbered without a gap; one writer at a time (a lock that
//! ends with its process).

mod folder;
mod writer;

pub use folder::{Complete, Head, Saved, open};
pub use writer::{Progress, Writer};
