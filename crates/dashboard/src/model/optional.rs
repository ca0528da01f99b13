//! Numbers of the dispatcher's messages for which 0 means "none".

/// Returns a number for which 0 means "none".
pub(super) fn some(n: u64) -> Option<u64> {
    Some(n).filter(|&n| n > 0)
}
