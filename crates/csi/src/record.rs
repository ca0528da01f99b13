//! A volume's file in the state folder: its content and its targets.
//!
//! The driver writes a record before it changes mounts, so that a restarted driver finds all of them. It replaces the
//! file atomically.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use forebay_core::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::content::Content;

/// The version of the format.
const VERSION: u32 = 1;
/// The file in a volume's folder.
const FILE: &str = "volume.json";

/// See the module's documentation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    version: u32,
    /// The volume's id in the calls.
    pub(crate) volume: String,
    pub(crate) content: Content,
    /// The target paths of pods.
    pub(crate) targets: BTreeSet<PathBuf>,
    /// Whether a keeper has served the mount: only then another keeper can take it over.
    pub(crate) was_served: bool,
}

impl Record {
    pub(crate) fn new(volume: &str, content: Content) -> Self {
        Self { version: VERSION, volume: volume.to_owned(), content, targets: BTreeSet::new(), was_served: false }
    }

    /// Reads the record in a volume's folder.
    ///
    /// # Errors
    /// Data for another version or invalid JSON; errors of the system.
    pub(crate) fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(FILE);
        let text = std::fs::read_to_string(&path).map_err(|e| Error::from(e).with("file", path.display()))?;
        let record: Self =
            serde_json::from_str(&text).map_err(|e| Error::data(e.to_string()).with("file", path.display()))?;
        if record.version == VERSION {
            return Ok(record);
        }
        Err(Error::data(format!("the record has version {}: this driver reads {VERSION}", record.version))
            .with("file", path.display()))
    }

    /// Writes the record in a volume's folder.
    ///
    /// # Errors
    /// Errors of the system.
    pub(crate) fn write(&self, folder: &Path) -> Result<()> {
        let (path, part) = (folder.join(FILE), folder.join("volume.part"));
        let text = serde_json::to_string(self).map_err(|e| Error::internal(e.to_string()))?;
        let written = std::fs::write(&part, text).and_then(|()| std::fs::rename(&part, &path));
        written.map_err(|e| Error::from(e).with("file", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let golden = concat!(
            r#"{"version":1,"volume":"forebay.ns.c","content":{"sources":[{"location":"s3://b/c","subDirName":"x"}],"#,
            r#""tiers":[{"path":"/dev/shm","quota":5,"medium":"MEM"}]},"targets":["/a/b"],"was_served":true}"#
        );
        std::fs::write(folder.path().join(FILE), golden).expect("written");
        let record = Record::read(folder.path()).expect("read");
        assert_eq!((record.volume.as_str(), record.targets.len(), record.was_served), ("forebay.ns.c", 1, true));
        record.write(folder.path()).expect("written");
        assert_eq!(std::fs::read_to_string(folder.path().join(FILE)).expect("read"), golden);
        for broken in ["", "{", &golden.replace("\"version\":1", "\"version\":2")] {
            std::fs::write(folder.path().join(FILE), broken).expect("written");
            Record::read(folder.path()).expect_err("broken");
        }
    }
}
