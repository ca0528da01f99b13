//! Tenants: the owners of inputs, and how much of the service each may use at a time. Pure.
//!
//! Each input names its tenant. The state answers a request for another tenant's objects as if they did not exist.
//! `access` identifies callers. Without tokens everything belongs to the one tenant without a name.

use std::sync::Arc;

use forebay_core::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

const NAME_BYTES_MAX: usize = 63;

/// How much a tenant may use at a time. An absent value means no limit; for blobs it means half of the room.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Quota {
    /// Jobs that are neither finished nor cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) jobs: Option<u32>,
    /// Consumers with a session, over all its jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) consumers: Option<u32>,
    /// Consumers of its unfinished jobs, attached or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) job_consumers: Option<u32>,
    /// Workers that compute for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) workers: Option<u32>,
    /// Bytes of the functions, arrays and indexes of its jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) blob_bytes: Option<u64>,
    /// The sources that its pipelines may read, instead of the dispatcher's own list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sources: Option<Arc<[String]>>,
    /// Calls of the dispatcher per second; a burst of one second's calls is allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) calls_per_second: Option<u32>,
}

/// The owner of an input.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tenant {
    /// Empty if there are no tokens.
    pub(crate) name: Arc<str>,
    pub(crate) quota: Quota,
}

/// Checks a tenant's name, which becomes the name of a folder.
///
/// # Errors
/// Invalid.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let begins = name.bytes().next().is_some_and(is_plain);
    if begins && name.len() <= NAME_BYTES_MAX && name.bytes().all(|b| is_plain(b) || b == b'-' || b == b'_') {
        return Ok(());
    }
    Err(Error::invalid(format!("{name:?} is no name of a tenant")).hint(format!(
        "use 1 to {NAME_BYTES_MAX} lowercase letters, digits, - and _, beginning with a letter or digit"
    )))
}

/// Refuses one more use if its quota is used up.
///
/// # Errors
/// Exhausted, with the quota and its value.
pub(crate) fn check_quota(tenant: &str, what: &str, has: usize, may: Option<u32>) -> Result<()> {
    match may {
        Some(may) if has >= may as usize => {
            let message = format!("tenant {tenant:?} has {has} {what}, and its quota is {may}");
            Err(Error::new(ErrorKind::Exhausted, message)
                .with("quota", what)
                .hint("end some, or ask for a larger quota"))
        }
        _ => Ok(()),
    }
}

/// Refuses `more` uses if they exceed a quota together with the present ones.
///
/// # Errors
/// Exhausted, with the quota and its value.
pub(crate) fn check_room(tenant: &str, what: &str, has: u64, more: u64, may: u64) -> Result<()> {
    if has.saturating_add(more) <= may {
        return Ok(());
    }
    let message = format!("tenant {tenant:?} has {has} {what} and asks for {more} more, and its quota is {may}");
    Err(Error::new(ErrorKind::Exhausted, message).with("quota", what).hint("end some, or ask for a larger quota"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_names_of_folders_and_of_no_others() {
        for name in ["a", "vision", "team-7_b", &"x".repeat(63)] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in ["", ".", "..", "a/b", "-a", "A", "a.part", "é", "a b", &"x".repeat(64)] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn a_quota_says_what_it_is() {
        assert_eq!(check_quota("a", "jobs", 1, Some(2)), Ok(()));
        assert_eq!(check_quota("a", "jobs", 1 << 20, None), Ok(()));
        let error = check_quota("a", "jobs", 2, Some(2)).expect_err("full");
        assert_eq!(
            (error.kind(), error.message()),
            (ErrorKind::Exhausted, "tenant \"a\" has 2 jobs, and its quota is 2")
        );
    }
}
