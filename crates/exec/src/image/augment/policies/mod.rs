//! Policies that draw from a set of operations: AutoAugment and its relatives.

mod aug_mix;
mod auto_augment;
mod operations;
mod rand_augment;
mod trivial_augment;
