//! The two walks of a prefetch over the folders of the sources: one counts, one reads.
//!
//! Before each request the walk waits while a read of a program waits for a store, at most [`GIVE_WAY_MAX`]. So a
//! program that reads all the time slows the prefetch to [`REQUEST_BYTES`] in each of these times, and never stops it.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_core::{Error, ErrorKind, Result};
use forebay_io::{Arriving, EntryKind, FileTree, Pinned, ReadThrough, TreeFile};

use super::progress::{PrefetchState, Shared};
use super::{REQUEST_BYTES, REQUESTS, Remote};
use crate::reader::{AheadBudget, told};
use crate::tree::FOLDER_NAMES_MAX;

/// Time that a request waits for reads of programs.
const GIVE_WAY_MAX: Duration = Duration::from_millis(500);
const GIVE_WAY_STEP: Duration = Duration::from_millis(5);
/// Folders within each other.
const DEPTH_MAX: usize = 256;
/// Failures in the log.
const FAILURES_TOLD: u64 = 10;

/// A part of a file, in the order of requests.
struct Part {
    len: u64,
    is_last: bool,
    uri: Arc<str>,
    /// The request; `None` where the cache holds the part.
    arriving: Option<Arriving>,
}

/// See the module's documentation.
pub(super) struct Walk {
    bytes_max: u64,
    reads: Arc<AheadBudget>,
    shared: Shared,
    /// Bytes of the parts that were requested or held.
    bytes: u64,
    /// The file of which a part failed last.
    failed: Option<Arc<str>>,
}

/// Called for each file of a source.
type Each<'a> = dyn FnMut(&mut Walk, &Path, &Pinned) -> Result<()> + 'a;

impl Walk {
    pub(super) fn new(bytes_max: u64, reads: Arc<AheadBudget>, shared: Shared) -> Self {
        Self { bytes_max, reads, shared, bytes: 0, failed: None }
    }

    pub(super) fn run(&mut self, remote: &[Remote]) {
        let state = match self.count(remote).and_then(|()| self.read(remote)) {
            Ok(()) => PrefetchState::Done,
            Err(e) if e.kind() == ErrorKind::Exhausted => PrefetchState::Full,
            Err(_) => PrefetchState::Stopped,
        };
        self.shared.change(|progress| progress.state = state);
        let progress = self.shared.get();
        let (files, files_done, bytes_done) = (progress.files, progress.files_done, progress.bytes_done);
        tracing::info!(?state, files, files_done, bytes_done, failed = progress.failed, "the prefetch ended");
    }

    fn count(&mut self, remote: &[Remote]) -> Result<()> {
        for (tree, _) in remote {
            self.each(tree, Path::new(""), 0, &mut |walk, _, file| {
                let bytes = file.size();
                walk.shared
                    .change(|progress| (progress.files, progress.bytes) = (progress.files + 1, progress.bytes + bytes));
                Ok(())
            })?;
        }
        // The second walk meets the same failures, which count once.
        self.shared.change(|progress| {
            (progress.state, progress.failed, progress.unlisted) = (PrefetchState::Reading, 0, 0);
        });
        Ok(())
    }

    fn read(&mut self, remote: &[Remote]) -> Result<()> {
        for (tree, near) in remote {
            let (mut parts, mut bytes) = (VecDeque::new(), Vec::new());
            let walked = self.each(tree, Path::new(""), 0, &mut |walk, path, pinned| match tree.file(
                path,
                pinned,
                Some(near as &dyn ReadThrough),
            ) {
                Ok(file) => walk.request(&file, &mut parts, &mut bytes),
                Err(e) => {
                    walk.fail(&tree.uri_of(path).unwrap_or_default(), &e);
                    Ok(())
                }
            });
            while let Some(part) = parts.pop_front() {
                self.receive(part, &mut bytes);
            }
            walked?;
        }
        Ok(())
    }

    /// Requests the parts of a file that the cache does not hold.
    ///
    /// # Errors
    /// Exhausted when the cache folder has no room for the file; Closed when the mount ends.
    fn request(&mut self, file: &TreeFile, parts: &mut VecDeque<Part>, bytes: &mut Vec<u8>) -> Result<()> {
        let (uri, size): (Arc<str>, _) = (file.uri().into(), file.size());
        if self.bytes + size > self.bytes_max {
            return Err(Error::new(ErrorKind::Exhausted, "the cache folder has no room for the next file"));
        }
        for start in (0..size.max(1)).step_by(REQUEST_BYTES as usize) {
            let len = REQUEST_BYTES.min(size - start);
            let is_held = len == 0 || file.holds(start..start + len);
            if !is_held {
                self.give_way()?;
            }
            let arriving = if is_held { None } else { file.request(start, len as usize) };
            parts.push_back(Part { len, is_last: start + len == size, uri: uri.clone(), arriving });
            self.bytes += len;
            if parts.len() >= REQUESTS
                && let Some(part) = parts.pop_front()
            {
                self.receive(part, bytes);
            }
        }
        Ok(())
    }

    /// Waits while a read of a program waits for a store.
    fn give_way(&self) -> Result<()> {
        let began = Instant::now();
        while self.reads.is_read() && began.elapsed() < GIVE_WAY_MAX && !self.shared.is_stopped() {
            std::thread::sleep(GIVE_WAY_STEP);
        }
        self.check()
    }

    fn check(&self) -> Result<()> {
        if self.shared.is_stopped() { Err(Error::new(ErrorKind::Closed, "the mount ends")) } else { Ok(()) }
    }

    /// Waits for a part. A file of which one part fails has failed.
    fn receive(&mut self, part: Part, bytes: &mut Vec<u8>) {
        let arrived = part.arriving.map_or(Ok(()), |arriving| {
            bytes.resize(part.len as usize, 0);
            arriving(bytes)
        });
        let has_failed = self.failed.as_ref() == Some(&part.uri);
        match arrived {
            Ok(()) => self.shared.change(|progress| {
                progress.bytes_done += part.len;
                progress.files_done += u64::from(part.is_last && !has_failed);
            }),
            Err(e) if !has_failed => {
                self.fail(&part.uri, &e);
                self.failed = Some(part.uri);
            }
            Err(_) => {}
        }
    }

    fn fail(&self, uri: &str, e: &Error) {
        self.shared.change(|progress| progress.failed += 1);
        if self.shared.get().failed <= FAILURES_TOLD {
            tracing::warn!("the prefetch leaves out {}", told(uri, e));
        }
    }

    /// Calls `of` with each file below a folder, and leaves out folders that cannot be listed.
    fn each(&mut self, tree: &FileTree, folder: &Path, depth: usize, of: &mut Each<'_>) -> Result<()> {
        let too_deep = || Error::data(format!("folders lie more than {DEPTH_MAX} deep"));
        let listed = if depth < DEPTH_MAX { tree.list(folder, FOLDER_NAMES_MAX) } else { Err(too_deep()) };
        let entries = match listed {
            Ok(entries) => entries,
            Err(e) => {
                self.fail(&tree.uri_of(folder).unwrap_or_default(), &e);
                self.shared.change(|progress| progress.unlisted += 1);
                return Ok(());
            }
        };
        for entry in entries {
            self.check()?;
            let path = folder.join(&entry.name);
            match &entry.kind {
                EntryKind::Folder => self.each(tree, &path, depth + 1, of)?,
                EntryKind::File(pinned) => of(self, &path, pinned)?,
                EntryKind::Link(_) => {}
            }
        }
        Ok(())
    }
}
