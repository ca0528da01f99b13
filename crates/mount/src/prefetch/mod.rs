//! Reads all remote files of a mount into the page cache, in a thread of its own, while programs read the mount.
//!
//! A first walk counts files and bytes, so that the progress has an end; a second walk reads, folder by folder, in the
//! order of names. Invariants: reads of programs come first (see `walk`). A page that the cache folder has is not
//! requested again, so a process that takes a mount over continues. The prefetch reads at most as many bytes as the
//! cache folder may have, so it evicts none of its own pages. Bounds: [`REQUESTS`] requests of [`REQUEST_BYTES`] in
//! flight; the lists of the folders on the way to one file.
//!
//! - `progress`: what was found and read so far
//! - `walk`: the two walks

mod progress;
mod walk;

use std::sync::Arc;
use std::thread::JoinHandle;

use forebay_core::Result;
use forebay_exec::PageCachedSource;
use forebay_io::FileTree;

pub(crate) use progress::Shared;
pub use progress::{PrefetchProgress, PrefetchState};
use walk::Walk;

use crate::reader::AheadBudget;

/// Requests of a prefetch in flight.
pub(crate) const REQUESTS: usize = 8;
/// Bytes of one request.
pub(crate) const REQUEST_BYTES: u64 = 4 << 20;

/// Remote files, and the cache that they are read into.
pub(crate) type Remote = (Arc<FileTree>, PageCachedSource);

/// A thread that reads ahead of programs. Dropping it lets the thread continue: call [`Prefetch::stop`].
#[derive(Debug)]
pub(crate) struct Prefetch {
    shared: Shared,
    thread: JoinHandle<()>,
}

impl Prefetch {
    /// Starts to read files: at most `bytes_max` bytes.
    ///
    /// # Errors
    /// Errors of the system.
    pub(crate) fn start(remote: Vec<Remote>, bytes_max: u64, reads: Arc<AheadBudget>, shared: Shared) -> Result<Self> {
        let mut walk = Walk::new(bytes_max, reads, shared.clone());
        let thread =
            std::thread::Builder::new().name("forebay-prefetch".to_owned()).spawn(move || walk.run(&remote))?;
        Ok(Self { shared, thread })
    }

    /// Returns the progress, which outlives the thread.
    pub(crate) fn progress(&self) -> Shared {
        self.shared.clone()
    }

    /// Lets the thread end after the requests in flight.
    pub(crate) fn stop(&self) {
        self.shared.stop();
    }

    /// Says whether the thread has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }
}
