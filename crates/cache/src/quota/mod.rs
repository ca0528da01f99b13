//! Which rows a tier with a quota keeps.
//!
//! | module | |
//! |---|---|
//! | `accounts` | the blocks of each prefix in a tier, their bytes, and which block is evicted next |
//! | `value` | what a prefix is worth: the cost of its bytes times its recent passes |

pub(crate) mod accounts;
pub(crate) mod value;
