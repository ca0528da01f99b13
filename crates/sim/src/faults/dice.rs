//! All random choices, from one number: the same seed makes the same choices.

use std::ops::Range;

use forebay_core::rng::{SampleRng, op_key};
use forebay_core::{Epoch, SampleId, Seed};

/// A random stream. Draws for one purpose do not change the draws for another.
#[derive(Debug, Clone)]
pub(crate) struct Dice(SampleRng);

impl Dice {
    /// Makes the stream for one purpose of a seed.
    pub(crate) fn new(seed: u64, purpose: u64) -> Self {
        Self(SampleRng::new(op_key(Seed(seed), Epoch(0), purpose), SampleId(0)))
    }

    /// Draws from a range that is not empty.
    pub(crate) fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + ((u128::from(self.0.next_u64()) * u128::from(range.end - range.start)) >> 64) as u64
    }

    pub(crate) fn index(&mut self, len: usize) -> usize {
        self.within(0..len as u64) as usize
    }

    /// Returns true with this probability, in percent.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.within(0..100) < percent
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }
}
