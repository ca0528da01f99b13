//! The version check: two processes communicate only if they are of the same version.

use forebay_core::{Error, ErrorKind, Result, VERSION};

/// Refuses `theirs` unless it is this process's version; `who` names the other side ("the dispatcher at h:1").
///
/// # Errors
/// Version, with both versions.
pub fn check_version(who: &str, theirs: &str) -> Result<()> {
    if theirs == VERSION {
        return Ok(());
    }
    let theirs = if theirs.is_empty() { "unknown" } else { theirs };
    Err(Error::new(ErrorKind::Version, format!("{who} is forebay {theirs}, and this side is forebay {VERSION}"))
        .hint("install the same version on both sides"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_refused_by_name() {
        assert_eq!(check_version("it", VERSION), Ok(()));
        let error = check_version("the worker", "9.9.9").expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Version);
        assert!(error.message().contains("the worker is forebay 9.9.9"), "{error}");
    }
}
