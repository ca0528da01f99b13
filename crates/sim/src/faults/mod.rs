//! Faults: drawn from the seed, applied at their times, and the bugs that are planted.

pub(super) mod dice;
pub(super) mod fault;
pub(super) mod planted;
pub(super) mod scenario;
mod strike;
