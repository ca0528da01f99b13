//! The policies of other systems, as published, and fixed placements, for comparison with Forebay's policies.
//!
//! - `cachew`: Cachew's AutoScaling, which climbs one worker at a time; `cachew_caching`: its AutoCaching.
//! - `hpa`: Kubernetes' HorizontalPodAutoscaler at 80 % CPU.
//! - `pecan`: Pecan's AutoPlacement.
//! - `placed`: one fixed placement.
//! - `reports`: the windows of Cachew and Pecan, which count batches and not seconds.

pub mod cachew;
pub mod cachew_caching;
pub mod hpa;
pub mod pecan;
pub mod placed;
mod reports;

use forebay_core::Result;
use forebay_policy::scaling::{CHOICES, Choice, Policy};

/// The policies of simulations, besides those of a service.
pub const BASELINES: &[Choice] = &[cachew::CHOICE, hpa::CHOICE, pecan::CHOICE, placed::CHOICE];

/// Reads a policy for a simulation.
///
/// # Errors
/// Invalid, with all usages.
pub fn policy(text: &str) -> Result<Policy> {
    Policy::parse(text, &[CHOICES, BASELINES])
}

/// Reads the gain that one more worker must bring, as a share: the text after `NAME:`, or the default for a plain
/// `NAME`.
fn gain(text: &str, name: &str, default: f64) -> Option<f64> {
    let rest = text.strip_prefix(name)?;
    if rest.is_empty() {
        return Some(default);
    }
    rest.strip_prefix(':')?.parse().ok().filter(|gain| (0.0..1.0).contains(gain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written_and_others_are_refused() {
        for name in
            ["forebay", "cachew", "cachew:0.03", "pecan", "pecan:0", "hpa", "static:7", "static:0+40", "static:2+40@3"]
        {
            assert_eq!(policy(name).expect("a policy").to_string(), name);
        }
        for name in ["", "cachew:2", "cachews", "pecan:-1", "static:+", "static:1+1@0", "static:1@2", "pecans", "hpa:1"]
        {
            assert!(policy(name).is_err(), "{name:?}");
        }
    }
}
