//! Checks of arguments that ops on tokens share.

use forebay_core::Result;

use crate::ops::checks::count;

/// The most tokens of a packed row, and of a text that is cut.
const LENGTH_MAX: usize = 1 << 24;

/// Checks a number of tokens.
pub(super) fn tokens(op: &str, argument: &str, value: usize) -> Result<()> {
    count(op, argument, value, LENGTH_MAX)
}
