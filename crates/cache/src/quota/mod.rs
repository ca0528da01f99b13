//! Decides which rows a tier with a quota keeps.
//!
//! | module | |
//! |---|---|
//! | `accounts` | the blocks of each prefix in a tier, their bytes, and the block to evict next |
//! | `value` | the value of a prefix: the cost of its bytes times its recent passes |

pub(crate) mod accounts;
pub(crate) mod value;
