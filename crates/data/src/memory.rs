//! The seam for the memory of large columns: an [`Arena`] of reusable blocks, or the heap; and its budget.
//!
//! Invariant: the choice changes no bit of a column.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use arrow_buffer::{Buffer, MutableBuffer};

use crate::arena::{Arena, Block};
use crate::budget::MemoryBudget;

/// Smaller columns than this are made on the heap, which is faster for them.
const BLOCK_BYTES_MIN: usize = 64 << 10;
/// The same for columns that are made together: the heap would return their pages to the system when all are dropped.
const TOGETHER_BYTES_MIN: usize = 16 << 10;

/// The memory of large columns. A clone is the same memory; the default is the heap.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    arena: Option<Arc<Arena>>,
    budget: MemoryBudget,
}

impl Memory {
    /// Makes a memory of an arena's blocks, and of the heap once the arena has no more.
    pub fn within(arena: Arc<Arena>) -> Self {
        Self { arena: Some(arena), budget: MemoryBudget::default() }
    }

    /// Returns the same memory for a pipeline with this budget. The arena keeps as many spare bytes as the last call
    /// allowed.
    pub fn with_budget(self, budget: MemoryBudget) -> Self {
        self.arena.iter().for_each(|arena| arena.keep_spare(budget.spare()));
        Self { budget, ..self }
    }

    /// Returns the same memory for one of so many pipelines that share its budget.
    #[must_use]
    pub fn divided(&self, pipelines: usize) -> Self {
        Self { budget: self.budget.divided(pipelines), ..self.clone() }
    }

    /// Returns the budget of a pipeline.
    pub fn budget(&self) -> MemoryBudget {
        self.budget
    }

    /// Returns the memory that all pipelines of this process share; the heap if the system refuses an arena. It lives
    /// as long as a pipeline or one of its batches, so the next epoch reuses the pages of the last.
    pub fn reused() -> Self {
        static SHARED: Mutex<Weak<Arena>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(arena) = shared.upgrade() {
            return Self::within(arena);
        }
        let arena = Arena::private().ok();
        *shared = arena.as_ref().map(Arc::downgrade).unwrap_or_default();
        Self { arena, budget: MemoryBudget::default() }
    }

    /// Returns the arena, if there is one.
    pub fn arena(&self) -> Option<&Arc<Arena>> {
        self.arena.as_ref()
    }

    /// Returns `len` bytes for writing, with arbitrary content.
    pub fn take(&self, len: usize) -> Bytes {
        self.take_from(BLOCK_BYTES_MIN, len)
    }

    /// Returns `len` bytes for one of many columns of the same rows.
    pub fn take_together(&self, len: usize) -> Bytes {
        self.take_from(TOGETHER_BYTES_MIN, len)
    }

    fn take_from(&self, least: usize, len: usize) -> Bytes {
        let block = self.arena.as_ref().filter(|_| len >= least).and_then(|arena| arena.block(len));
        block.map_or_else(|| Bytes::Heap(MutableBuffer::from_len_zeroed(len)), Bytes::Block)
    }
}

/// Bytes for writing, aligned to 64.
#[derive(Debug)]
pub enum Bytes {
    /// On the heap.
    Heap(MutableBuffer),
    /// In an arena.
    Block(Block),
}

impl Bytes {
    /// Returns all of them.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        match self {
            Bytes::Heap(buffer) => buffer.as_slice_mut(),
            Bytes::Block(block) => block.as_mut_slice(),
        }
    }
}

impl From<Bytes> for Buffer {
    fn from(bytes: Bytes) -> Self {
        match bytes {
            Bytes::Heap(buffer) => buffer.into(),
            Bytes::Block(block) => block.into_buffer(),
        }
    }
}
