//! A placement: how many workers and threads compute, and which ops run where.

use serde::{Deserialize, Serialize};

/// How many workers and threads compute, and which ops run where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Placement {
    /// Workers, in processes of their own.
    pub workers: u32,
    /// Threads on the reader's machine.
    pub local: u32,
    /// Ops that run on the workers, from 1 to all of them; the reader's side runs the rest on the rows that workers
    /// send.
    pub cut: u32,
}
