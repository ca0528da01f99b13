//! How often rows will be read again.

/// Passes assumed for a job without end: the number is high, because it reads its data without end.
pub const PASSES_UNKNOWN: f64 = 10.0;
/// The most passes that jobs not yet started are expected to make.
pub const AGAIN_MAX: f64 = 10.0;

/// Returns the remaining passes: the passes `ahead` of running jobs (`None` for a job without end), plus as many as
/// other jobs made `before`, up to [`AGAIN_MAX`].
///
/// Without further knowledge, data that was read `n` times is as likely as not read `n` times more: so data that only
/// this job reads is expected to have no other reader.
pub fn passes_to_come(ahead: impl IntoIterator<Item = Option<f64>>, before: f64) -> f64 {
    let known: f64 = ahead.into_iter().map(|passes| passes.unwrap_or(PASSES_UNKNOWN).max(0.0)).sum();
    known + before.clamp(0.0, AGAIN_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_jobs_have_ahead_and_as_many_again_as_were_made() {
        assert_eq!(passes_to_come([Some(1.0)], 0.0), 1.0);
        assert_eq!(passes_to_come([Some(2.5), Some(1.0), Some(-1.0)], 3.0), 6.5);
        assert_eq!(passes_to_come([None], 0.0), PASSES_UNKNOWN);
        assert_eq!(passes_to_come([Some(1.0)], 1e9), 1.0 + AGAIN_MAX);
        assert_eq!(passes_to_come([], 0.0), 0.0);
    }
}
