//! The check of versions: two processes communicate if their protocols overlap.
//!
//! A version speaks its own protocol and that of the minor version before, so a fleet is upgraded process by process.
//! Raise [`PROTOCOL`] when a process of the version before would misread a message, and [`PROTOCOL_OLDEST`] when the code
//! for an old protocol goes.

use forebay_core::{Error, ErrorKind, Result, VERSION};
use forebay_plan::{BitVersions, Versions};

use crate::Build;

/// The protocol of this version. 2: processes send their [`Build`].
pub const PROTOCOL: u32 = 2;
/// The oldest protocol that this version speaks.
pub const PROTOCOL_OLDEST: u32 = 1;
/// The version in the text fields of first messages. Processes of protocol 1 have this version, and compare the text.
pub const UNNUMBERED_VERSION: &str = "0.1.0";
/// The protocol without numbers.
const UNNUMBERED: u32 = 1;

impl Build {
    /// Returns that of this process, with the bits that it computes.
    pub fn own(bits: &BitVersions) -> Self {
        let ranged = bits.iter().filter(|(_, versions)| versions.oldest != versions.latest);
        Self {
            protocol: PROTOCOL,
            protocol_oldest: PROTOCOL_OLDEST,
            bits: bits.iter().map(|(name, versions)| (name.to_owned(), versions.latest)).collect(),
            bits_oldest: ranged.map(|(name, versions)| (name.to_owned(), versions.oldest)).collect(),
            version: VERSION.to_owned(),
        }
    }

    /// Returns the bits that a peer computes.
    ///
    /// # Errors
    /// Invalid when there are too many.
    pub fn bits(build: Option<Self>) -> Result<BitVersions> {
        let Some(Self { bits, bits_oldest, .. }) = build else { return Ok(BitVersions::first()) };
        BitVersions::sent(bits.into_iter().map(|(name, latest)| {
            let oldest = bits_oldest.get(&name).copied().unwrap_or(latest);
            (name, Versions { latest, oldest })
        }))
    }
}

/// Refuses a peer whose protocols do not overlap with those of this process; `who` names it ("the dispatcher at h:1"), and
/// `version` is the text of its first message.
///
/// # Errors
/// Version, with both versions.
pub fn check_version(who: &str, version: &str, build: Option<&Build>) -> Result<()> {
    let (latest, oldest) = match build {
        Some(build) => (build.protocol, build.protocol_oldest),
        None if version == UNNUMBERED_VERSION => (UNNUMBERED, UNNUMBERED),
        None => (0, 0),
    };
    if latest >= PROTOCOL_OLDEST && oldest <= PROTOCOL {
        return Ok(());
    }
    let version = build.map_or(version, |build| &build.version);
    let version = if version.is_empty() { "unknown" } else { version };
    let theirs = if latest == 0 { String::new() } else { format!(" (protocols {oldest} to {latest})") };
    let ours = format!("forebay {VERSION} (protocols {PROTOCOL_OLDEST} to {PROTOCOL})");
    Err(Error::new(ErrorKind::Version, format!("{who} is forebay {version}{theirs}, and this side is {ours}"))
        .hint("a version speaks with the minor version before it: upgrade one minor version at a time"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_refused_by_name_if_no_protocol_is_common() {
        let build = |protocol, protocol_oldest| Build {
            protocol,
            protocol_oldest,
            version: "9.9.9".into(),
            ..Build::default()
        };
        let check = |version: &str, build: Option<Build>| check_version("the worker", version, build.as_ref());
        assert_eq!(check(UNNUMBERED_VERSION, Some(Build::own(&BitVersions::own()))), Ok(()));
        assert_eq!(check("0.1.0", None), Ok(()), "the version before protocols had numbers");
        assert_eq!(check(UNNUMBERED_VERSION, Some(build(PROTOCOL + 1, PROTOCOL))), Ok(()), "the next version");
        for (version, theirs) in [
            (UNNUMBERED_VERSION, Some(build(PROTOCOL + 2, PROTOCOL + 1))),
            (UNNUMBERED_VERSION, Some(build(0, 0))),
            ("9.9.9", None),
        ] {
            let error = check(version, theirs).expect_err("refused");
            assert_eq!(error.kind(), ErrorKind::Version);
            assert!(error.message().contains("the worker is forebay 9.9.9"), "{error}");
        }
    }

    #[test]
    fn versions_of_bits_arrive_as_they_were_sent() {
        let bits = BitVersions::own().with("op resize", Versions { latest: 3, oldest: 2 });
        assert_eq!(Build::bits(Some(Build::own(&bits))), Ok(bits));
        assert_eq!(Build::bits(None), Ok(BitVersions::first()));
    }
}
