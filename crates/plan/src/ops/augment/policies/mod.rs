//! Policies that draw from a set of operations: AutoAugment and its relatives.

mod aug_mix;
mod auto_augment;
mod rand_augment;
mod trivial_augment;

pub use aug_mix::AugMix;
pub use auto_augment::{AutoAugment, AutoPolicy};
pub use rand_augment::RandAugment;
pub use trivial_augment::TrivialAugment;
