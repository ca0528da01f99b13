//! Parses the attributes of a volume, `sources` and `tiers`, which are JSON. Pure.
//!
//! | attribute | value |
//! |---|---|
//! | `sources` | a list of `{"location": URI, "subDirName": folder}`; the folder is absent for a single source at the root |
//! | `prefetch` | `true`: the mount reads all remote files into the tier from its start |
//! | `tiers` | a list of `{"path": folder on the node, "quota": bytes, "medium": MEM, SSD or HDD}`, the fastest first |

use std::collections::{BTreeSet, HashMap};

use forebay_core::{Error, Result};
use serde::{Deserialize, Serialize};

/// Most sources, and most tiers, of a volume.
const SOURCES_MAX: usize = 64;
const TIERS_MAX: usize = 8;
/// Longest name of a folder.
const NAME_MAX: usize = 255;
/// Schemes of the locations that the driver reads.
const SCHEMES: [&str; 7] = ["local", "file", "s3", "gs", "az", "http", "https"];

/// The sources of a volume, and its storage tiers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Content {
    pub(crate) sources: Vec<Source>,
    #[serde(default)]
    pub(crate) tiers: Vec<Tier>,
    /// Whether the mount reads all remote files into the tier. Absent in records without it, as before there was one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) prefetch: bool,
}

/// One source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Source {
    pub(crate) location: String,
    /// Its folder in the volume; empty for a single source at the root.
    #[serde(default)]
    pub(crate) sub_dir_name: String,
}

/// A storage tier of the page cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tier {
    pub(crate) path: String,
    pub(crate) quota: u64,
    #[serde(default)]
    pub(crate) medium: Medium,
}

/// The medium of a tier.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum Medium {
    #[default]
    Mem,
    Ssd,
    Hdd,
}

impl Content {
    /// Parses the attributes. Attributes that Kubernetes adds (`…kubernetes.io/…`) are ignored.
    ///
    /// # Errors
    /// Invalid, with the attribute.
    pub(crate) fn read(attributes: &HashMap<String, String>) -> Result<Self> {
        let known = |name: &str| ["sources", "tiers", "prefetch"].contains(&name) || name.contains("kubernetes.io/");
        if let Some(name) = attributes.keys().find(|name| !known(name)) {
            return Err(Error::invalid(format!(
                "the volume has an attribute {name:?}: there are sources, tiers and prefetch"
            )));
        }
        let sources = attributes.get("sources").map(String::as_str).unwrap_or_default();
        if sources.is_empty() {
            return Err(Error::invalid("the volume has no attribute \"sources\"")
                .hint("name at least one: [{\"location\": \"s3://bucket/folder\"}]"));
        }
        let unreadable = |name: &str, e: serde_json::Error| {
            Error::invalid(format!("the volume's attribute {name:?} cannot be read: {e}"))
        };
        let tiers = attributes.get("tiers").map(String::as_str).filter(|tiers| !tiers.is_empty());
        let prefetch = match attributes.get("prefetch").map_or("", String::as_str) {
            "true" => true,
            "" | "false" => false,
            other => {
                return Err(Error::invalid(format!(
                    "the volume's attribute \"prefetch\" is {other:?}: it is true or false"
                )));
            }
        };
        let content = Self {
            prefetch,
            sources: serde_json::from_str(sources).map_err(|e| unreadable("sources", e))?,
            tiers: serde_json::from_str(tiers.unwrap_or("[]")).map_err(|e| unreadable("tiers", e))?,
        };
        content.check().map(|()| content)
    }

    fn check(&self) -> Result<()> {
        if self.sources.is_empty() || self.sources.len() > SOURCES_MAX || self.tiers.len() > TIERS_MAX {
            let (sources, tiers) = (self.sources.len(), self.tiers.len());
            let message = format!("the volume has {sources} sources and {tiers} tiers");
            return Err(Error::invalid(message).hint(format!("1 to {SOURCES_MAX} sources, at most {TIERS_MAX} tiers")));
        }
        let mut names = BTreeSet::new();
        for source in &self.sources {
            source.check(self.sources.len() > 1).map_err(|e| e.with("source", &source.location))?;
            if !names.insert(&source.sub_dir_name) {
                let message = format!("two sources have the folder {:?}", source.sub_dir_name);
                return Err(Error::invalid(message).with("source", &source.location));
            }
        }
        match self.tiers.iter().find(|tier| tier.quota == 0 || !tier.path.starts_with('/')) {
            Some(tier) => {
                Err(Error::invalid("a tier needs an absolute path and a quota in bytes").with("tier", &tier.path))
            }
            None => Ok(()),
        }
    }

    /// Returns the key of a volume with this content: the name of its state folder.
    pub(crate) fn key(&self, volume: &str) -> String {
        // Serialization of strings and numbers cannot fail.
        let text = serde_json::to_string(&(volume, self)).unwrap_or_default();
        blake3::hash(text.as_bytes()).to_hex()[..32].to_owned()
    }

    /// Returns the tier of the page cache: the first disk, otherwise memory. In front of a disk, the page cache of
    /// Linux is the memory tier.
    pub(crate) fn tier(&self) -> Option<&Tier> {
        self.tiers.iter().find(|tier| tier.medium != Medium::Mem).or(self.tiers.first())
    }
}

impl Source {
    fn check(&self, needs_name: bool) -> Result<()> {
        let (scheme, rest) = self.location.split_once("://").unwrap_or_default();
        if scheme == "pvc" {
            return Err(Error::invalid("a driver on a node cannot mount another claim's volume")
                .hint("use the engine fluid for pvc://, or name the store behind the claim"));
        }
        if !SCHEMES.contains(&scheme) || rest.is_empty() {
            return Err(Error::invalid(format!("the driver cannot read {:?}", self.location))
                .hint(format!("it reads {}", SCHEMES.map(|scheme| format!("{scheme}://")).join(", "))));
        }
        let name = &self.sub_dir_name;
        if name.is_empty() {
            return match needs_name {
                true => Err(Error::invalid("each of several sources needs a subDirName")),
                false => Ok(()),
            };
        }
        let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        if name.starts_with(['.', '-']) || !name.chars().all(inner) || name.len() > NAME_MAX {
            let hint = format!("at most {NAME_MAX} of A-Z, a-z, 0-9, _, . and -, and the first is no . or -");
            return Err(Error::invalid(format!("{name:?} is no subDirName")).hint(hint));
        }
        Ok(())
    }

    /// Returns the path of a source on the node; `None` for a remote source.
    pub(crate) fn local(&self) -> Option<&str> {
        ["local://", "file://"].iter().find_map(|scheme| self.location.strip_prefix(scheme))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(sources: &str, tiers: &str) -> HashMap<String, String> {
        let of = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        HashMap::from([of("sources", sources), of("tiers", tiers), of("csi.storage.kubernetes.io/ephemeral", "false")])
    }

    #[test]
    fn attributes_are_read_as_the_operator_writes_them() {
        let tiers = r#"[{"path":"/dev/shm","quota":1,"medium":"MEM"},{"path":"/ssd","quota":2,"medium":"SSD"}]"#;
        let read = |sources: &str, tiers: &str| Content::read(&attributes(sources, tiers)).expect("read");
        let both =
            read(r#"[{"location":"local:///d","subDirName":"a"},{"location":"s3://b/c","subDirName":"b"}]"#, tiers);
        assert_eq!((both.sources[0].local(), both.sources[1].local()), (Some("/d"), None));
        assert_eq!(both.tier().map(|tier| (tier.path.as_str(), tier.quota)), Some(("/ssd", 2)));
        let one = read(r#"[{"location":"s3://b/c"}]"#, "");
        assert_eq!((one.tier(), one.sources[0].sub_dir_name.as_str()), (None, ""));
        assert_ne!(one.key("v"), one.key("w"));
        assert_ne!(one.key("v"), both.key("v"));
        assert_eq!(one.key("v"), one.clone().key("v"));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let wrong = [
            ("", "", "no attribute \"sources\""),
            ("{}", "", "cannot be read"),
            ("[]", "", "0 sources"),
            (r#"[{"location":"s3://b","subdir":"x"}]"#, "", "unknown field"),
            (r#"[{"location":"pvc://claim/x"}]"#, "", "another claim"),
            (r#"[{"location":"ftp://x/y"}]"#, "", "cannot read \"ftp://x/y\""),
            (r#"[{"location":"s3://"}]"#, "", "cannot read"),
            (r#"[{"location":"/data"}]"#, "", "cannot read"),
            (r#"[{"location":"s3://a"},{"location":"s3://b","subDirName":"b"}]"#, "", "needs a subDirName"),
            (r#"[{"location":"s3://a","subDirName":"b"},{"location":"s3://b","subDirName":"b"}]"#, "", "two sources"),
            (r#"[{"location":"s3://a","subDirName":"../b"}]"#, "", "is no subDirName"),
            (r#"[{"location":"s3://a","subDirName":"a=b"}]"#, "", "is no subDirName"),
            (r#"[{"location":"s3://a"}]"#, r#"[{"path":"x","quota":1}]"#, "absolute path"),
            (r#"[{"location":"s3://a"}]"#, r#"[{"path":"/x","quota":0}]"#, "absolute path and a quota"),
            (r#"[{"location":"s3://a"}]"#, r#"[{"path":"/x","quota":-1}]"#, "cannot be read"),
            (r#"[{"location":"s3://a"}]"#, r#"[{"path":"/x","quota":1,"medium":"TAPE"}]"#, "cannot be read"),
        ];
        for (sources, tiers, expected) in wrong {
            let said = Content::read(&attributes(sources, tiers)).expect_err(sources).to_string();
            assert!(said.contains(expected), "{said}");
        }
        let mut fetching = attributes(r#"[{"location":"s3://a"}]"#, "");
        let plain = Content::read(&fetching).expect("read");
        fetching.insert("prefetch".to_owned(), "true".to_owned());
        let fetches = Content::read(&fetching).expect("read");
        assert!(fetches.prefetch && !plain.prefetch && fetches.key("v") != plain.key("v"));
        fetching.insert("prefetch".to_owned(), "yes".to_owned());
        assert!(Content::read(&fetching).expect_err("wrong").message().contains("\"yes\""));
        let mut more = attributes(r#"[{"location":"s3://a"}]"#, "");
        more.insert("source".to_owned(), String::new());
        assert!(Content::read(&more).expect_err("unknown").message().contains("\"source\""));
    }
}
