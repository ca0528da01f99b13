//! How much memory a pipeline may use in a process, and for which purposes.
//!
//! Invariant: the budget decides what is read again and how far ahead is computed, and no bit of a sample. It does not
//! limit the size of a single sample, row group or shuffle window: the files and the pipeline decide these.

/// More bytes than this bring nothing for decoded row groups and blocks, …
const DECODED_BYTES_MAX: u64 = 512 << 20;
/// … for chunks that wait to be delivered, …
const READY_BYTES_MAX: u64 = 128 << 20;
/// … for chunks from a service that wait for their turn, …
const ARRIVED_BYTES_MAX: u64 = 256 << 20;
/// … for chunks that a worker holds for its readers, …
const HELD_BYTES_MAX: u64 = 1 << 30;
/// … and for free blocks that keep their pages.
const SPARE_BYTES_MAX: u64 = 256 << 20;

/// Bytes of a process that data may take. The default has no limit beyond the useful amounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryBudget(u64);

impl Default for MemoryBudget {
    fn default() -> Self {
        Self(u64::MAX)
    }
}

impl MemoryBudget {
    /// Makes the budget that a user sets.
    pub fn of(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Makes the budget of a process on a machine, or in a container, with so much memory: half of it.
    pub fn of_machine(bytes: u64) -> Self {
        Self(bytes / 2)
    }

    /// Returns the part of one of so many readers, which keep no more decoded than one reader with all of it.
    #[must_use]
    pub fn divided(self, readers: usize) -> Self {
        Self(self.0.min(4 * DECODED_BYTES_MAX) / readers.max(1) as u64)
    }

    /// Returns all bytes.
    pub fn bytes(self) -> u64 {
        self.0
    }

    /// Returns the bytes of row groups, and of blocks of compressed files, that a reader keeps decoded: a quarter.
    pub fn decoded(self) -> usize {
        (self.0 / 4).min(DECODED_BYTES_MAX) as usize
    }

    /// Returns the bytes of chunks that wait to be delivered: an eighth.
    pub fn ready(self) -> usize {
        (self.0 / 8).min(READY_BYTES_MAX) as usize
    }

    /// Returns the bytes of chunks that came from a service and wait for their turn: a quarter.
    pub fn arrived(self) -> usize {
        (self.0 / 4).min(ARRIVED_BYTES_MAX) as usize
    }

    /// Returns the bytes of chunks that a worker holds before it requests no more splits: three eighths.
    pub fn held(self) -> usize {
        (self.0 / 8).saturating_mul(3).min(HELD_BYTES_MAX) as usize
    }

    /// Returns the bytes of free blocks that keep their pages: an eighth.
    pub fn spare(self) -> usize {
        (self.0 / 8).min(SPARE_BYTES_MAX) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_budget_are_no_more_than_the_whole() {
        for bytes in [0, 1, 4096, 100 << 20, 1 << 30, 1 << 40, u64::MAX] {
            let budget = MemoryBudget::of(bytes);
            let trainer = [budget.decoded(), budget.ready(), budget.arrived(), budget.spare()];
            let worker = [budget.decoded(), budget.held(), budget.spare()];
            let sum = |parts: &[usize]| parts.iter().map(|part| *part as u64).sum::<u64>();
            assert!(sum(&trainer).max(sum(&worker)) <= bytes, "{bytes}");
        }
        assert_eq!(MemoryBudget::default().decoded(), 512 << 20);
        assert_eq!(MemoryBudget::of_machine(1 << 30), MemoryBudget::of(512 << 20));
    }
}
