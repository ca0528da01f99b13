//! The folders of a node that volumes may read and write, and the command line of a keeper.
//!
//! The author of a volume chooses its paths, so the driver uses a folder of the node only if the driver's own command
//! line allows the folder. Invariant: the driver compares resolved paths, so neither a symbolic link nor `..` leads out
//! of an allowed folder.

use std::ffi::OsString;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use forebay_core::{Error, ErrorKind, Result};

use crate::content::Content;

/// The folder below a tier's path with the page cache.
const KEPT: &str = "forebay";
/// The memory file system of each node.
const MEMORY: &str = "/dev/shm";

/// The folders of a node that volumes may use. All but `root` and `cache` are paths of the node.
#[derive(Debug, Clone)]
pub struct Places {
    /// The node's root file system as the driver sees it: `/`, or a folder of its container.
    pub root: PathBuf,
    /// Folders that volumes may have as sources (`local://`).
    pub local: Vec<PathBuf>,
    /// Folders that may contain tiers, besides `/dev/shm`.
    pub tiers: Vec<PathBuf>,
    /// The page cache of volumes without a tier.
    pub cache: Option<PathBuf>,
    /// The quota of `cache` in bytes; `None` for the default of `forebay mount`.
    pub cache_disk: Option<u64>,
}

impl Places {
    /// Returns the arguments of `forebay mount` for a volume, before the folder of the mount.
    ///
    /// # Errors
    /// PermissionDenied for a folder that the node does not allow; NotFound for a missing folder.
    pub(crate) fn arguments(&self, content: &Content) -> Result<Vec<OsString>> {
        let (folder, disk) = match content.tier() {
            Some(tier) => (Some(self.tier(Path::new(&tier.path))?), Some(tier.quota)),
            None => (self.cache.clone(), self.cache_disk),
        };
        let mut arguments: Vec<OsString> = vec!["mount".into()];
        if let Some(folder) = folder {
            arguments.extend(["--cache".into(), folder.into()]);
            arguments.extend(disk.iter().flat_map(|disk| ["--cache-disk".into(), disk.to_string().into()]));
        }
        // Without a remote source there is nothing to read ahead, and perhaps no cache.
        if content.prefetch && content.sources.iter().any(|source| source.local().is_none()) {
            arguments.push("--prefetch".into());
        }
        arguments.push("--".into());
        for source in &content.sources {
            let place = match source.local() {
                Some(path) => self.local(Path::new(path))?.into_os_string(),
                None => OsString::from(&source.location),
            };
            let mut argument = OsString::from(&source.sub_dir_name);
            if !argument.is_empty() {
                argument.push("=");
            }
            argument.push(place);
            arguments.push(argument);
        }
        Ok(arguments)
    }

    /// Returns a path of the node as the driver sees it.
    fn of_node(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    fn local(&self, path: &Path) -> Result<PathBuf> {
        let denied = || {
            let message = "this node does not show this folder in volumes";
            let hint = "the driver's option --local names the folders of a node that volumes may show";
            Error::new(ErrorKind::PermissionDenied, message).with("source", path.display()).hint(hint)
        };
        is_plain(path).then_some(()).ok_or_else(denied)?;
        // The same error for existing and missing folders hides which folders a node has.
        if !self.local.iter().any(|allowed| path.starts_with(allowed)) {
            return Err(denied());
        }
        let whole = std::fs::canonicalize(self.of_node(path))
            .map_err(|e| Error::from(e).with("source", path.display()).hint("the folder must be on each node"))?;
        let is_within = |allowed: &PathBuf| {
            std::fs::canonicalize(self.of_node(allowed)).is_ok_and(|allowed| whole.starts_with(allowed))
        };
        if self.local.iter().any(is_within) { Ok(whole) } else { Err(denied()) }
    }

    fn tier(&self, path: &Path) -> Result<PathBuf> {
        let denied = || {
            let message = "this node keeps nothing in this folder";
            let hint =
                "the driver's option --tier names the folders of a node in which tiers may lie, besides /dev/shm";
            Error::new(ErrorKind::PermissionDenied, message).with("tier", path.display()).hint(hint)
        };
        is_plain(path).then_some(()).ok_or_else(denied)?;
        let memory = PathBuf::from(MEMORY);
        let allowed =
            self.tiers.iter().chain([&memory]).find(|allowed| path.starts_with(allowed)).ok_or_else(denied)?;
        let missing =
            |e: std::io::Error| Error::from(e).with("tier", path.display()).hint("make the folder on each node");
        let base = std::fs::canonicalize(self.of_node(allowed)).map_err(missing)?;
        let below = path.strip_prefix(allowed).unwrap_or(Path::new("")).join(KEPT);
        let mut folder = base.clone();
        for part in below.components() {
            folder.push(part);
            match std::fs::DirBuilder::new().mode(0o700).create(&folder) {
                Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => return Err(missing(e)),
                _ => {}
            }
            // Any process may write to /dev/shm, so the driver follows no symbolic link there.
            if !std::fs::symlink_metadata(&folder).map_err(missing)?.is_dir() {
                return Err(denied());
            }
        }
        let owner = std::fs::metadata(&folder).map_err(missing)?.uid();
        if owner == rustix::process::geteuid().as_raw() { Ok(folder) } else { Err(denied()) }
    }
}

/// Whether a path is absolute, without `..`.
fn is_plain(path: &Path) -> bool {
    path.is_absolute() && path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::{Medium, Source, Tier};

    fn content(location: &str, tier: &str) -> Content {
        let source = Source { location: location.to_owned(), sub_dir_name: "name".to_owned() };
        let tier = Tier { path: tier.to_owned(), quota: 77, medium: Medium::Ssd };
        Content {
            sources: vec![source],
            tiers: if tier.path.is_empty() { Vec::new() } else { vec![tier] },
            prefetch: false,
        }
    }

    #[test]
    fn only_folders_that_the_node_names_are_used() {
        let root = tempfile::tempdir().expect("a folder");
        let at = |path: &str| std::fs::canonicalize(root.path()).expect("there").join(path);
        for folder in ["data/a", "secret", "ssd", "dev/shm"] {
            std::fs::create_dir_all(at(folder)).expect("made");
        }
        std::os::unix::fs::symlink("../secret", at("data/out")).expect("made");
        std::os::unix::fs::symlink("../secret", at("ssd/out")).expect("made");
        let places = Places {
            root: root.path().to_owned(),
            local: vec!["/data".into()],
            tiers: vec!["/ssd".into()],
            cache: Some("/own".into()),
            cache_disk: Some(5),
        };
        let arguments = |location: &str, tier: &str| -> Result<Vec<String>> {
            let arguments = places.arguments(&content(location, tier))?;
            Ok(arguments.iter().map(|argument| argument.to_string_lossy().into_owned()).collect())
        };
        let folder = at("data/a");
        let local = format!("name={}", folder.display());
        assert_eq!(
            arguments("local:///data/a", ""),
            Ok(["mount", "--cache", "/own", "--cache-disk", "5", "--", &local].map(str::to_owned).to_vec())
        );
        for tier in ["/ssd/x/y", "/dev/shm"] {
            let kept = at(tier.trim_start_matches('/')).join(KEPT).display().to_string();
            let expected = ["mount", "--cache", &kept, "--cache-disk", "77", "--", "name=s3://b/c"];
            assert_eq!(arguments("s3://b/c", tier), Ok(expected.map(str::to_owned).to_vec()));
        }
        for (location, tier) in [
            ("local:///secret", ""),
            ("local:///data/../secret", ""),
            ("local:///data/out", ""),
            ("local://data/a", ""),
            ("s3://b", "/secret"),
            ("s3://b", "/ssd/../secret"),
            ("s3://b", "/ssd/out/x"),
        ] {
            let refused = arguments(location, tier).expect_err(location);
            assert_eq!(refused.kind(), ErrorKind::PermissionDenied, "{location} {tier}: {refused}");
        }
        assert!(!at("secret/x").exists(), "nothing is made behind a link");
        assert_eq!(arguments("local:///data/none", "").expect_err("none").kind(), ErrorKind::NotFound);
    }
}
