//! Reads ranges of an open file, with read-ahead for sequential reads.
//!
//! A range that is on this machine is read directly. Another range is read in blocks, which the reader requests ahead
//! of time: see `window`. Any number of threads may read one file. Invariants: the bytes are of the content that was
//! opened. An error fails one read, and a later read sends a new request.

mod block;
mod window;

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};

use forebay_core::{Error, Result};
use forebay_io::TreeFile;

pub use block::AHEAD_BYTES_MAX;
pub(crate) use block::AheadBudget;
use block::Block;
use window::Window;

thread_local! {
    /// The reply buffer of a thread, as long as its longest read.
    static REPLY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// An open file.
#[derive(Debug)]
pub(crate) struct OpenFile {
    file: TreeFile,
    window: Mutex<Window<Arc<Block>>>,
    budget: Arc<AheadBudget>,
}

impl OpenFile {
    pub(crate) fn new(file: TreeFile, budget: &Arc<AheadBudget>) -> Self {
        let window = Mutex::new(Window::new(file.size()));
        Self { file, window, budget: budget.clone() }
    }

    /// Returns the URI of the file.
    pub(crate) fn uri(&self) -> &str {
        self.file.uri()
    }

    /// Calls `reply` with the bytes of a range, which is cut at the end of the file.
    ///
    /// # Errors
    /// Data when the file has changed; errors of the system and of the store.
    pub(crate) fn read<T>(&self, offset: u64, len: usize, reply: impl FnOnce(&[u8]) -> T) -> Result<T> {
        let len = len.min(self.file.size().saturating_sub(offset) as usize);
        if len == 0 {
            return Ok(reply(&[]));
        }
        let is_held = self.file.holds(offset..offset + len as u64);
        let _reading = (!is_held).then(|| self.budget.read());
        let blocks = if is_held { Vec::new() } else { self.blocks(offset, len) };
        if let [block] = &blocks[..] {
            let bytes = block.bytes(&self.file).inspect_err(|_| self.start_again())?;
            let from = (offset - block.start()) as usize;
            return Ok(reply(&bytes[from..from + len]));
        }
        REPLY.with_borrow_mut(|to| {
            if to.len() < len {
                to.resize(len, 0);
            }
            let to = &mut to[..len];
            if blocks.is_empty() {
                self.file.read_at(offset, to)?;
            }
            for block in &blocks {
                let bytes = block.bytes(&self.file).inspect_err(|_| self.start_again())?;
                let (from, until) = (block.start().max(offset), block.end().min(offset + len as u64));
                let part = &bytes[(from - block.start()) as usize..(until - block.start()) as usize];
                to[(from - offset) as usize..(until - offset) as usize].copy_from_slice(part);
            }
            Ok(reply(to))
        })
    }

    /// Returns the blocks of a range, and requests the blocks ahead of it. Empty if the range is read directly.
    fn blocks(&self, offset: u64, len: usize) -> Vec<Arc<Block>> {
        let range = offset..offset + len as u64;
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = window.plan(range.clone());
        for block in wanted {
            let is_ahead = block.start >= range.end;
            // A block that the read needs may exceed the budget: each thread has at most one such read.
            let Some(block) = Block::ask(&self.file, block, &self.budget, !is_ahead) else { break };
            window.add(block.start()..block.end(), Arc::new(block));
        }
        window.of(range)
    }

    fn start_again(&self) {
        self.window.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Formats the error of a failed read for the log.
pub(crate) fn told(uri: &str, e: &Error) -> String {
    let context = |name: &str| e.get(name).map(|value| format!(", {name} {value}")).unwrap_or_default();
    let parts = ["was", "is", "range", "attempts", "seen"].map(context).concat();
    let file = e.get("file").unwrap_or(uri);
    format!("{}: {file}{parts}", e.message().replace("since it was indexed", "since it was opened"))
}
