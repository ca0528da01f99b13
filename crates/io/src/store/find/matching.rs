//! Finds the local files that match a pattern, folder by folder.
//!
//! A name that is not UTF-8 is compared with its invalid bytes replaced by `U+FFFD`: this decides whether it matches,
//! and a name that does not match is ignored.

use std::path::{Path, PathBuf};

use forebay_core::{Error, Result};
use glob::{MatchOptions, Pattern};

use super::folders::{self, Entry};
use crate::fail;

/// `*` and `?` do not match a leading dot or a slash, as in the shell.
pub(in crate::store) const OPTIONS: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

/// One part of a pattern, between slashes.
enum Part {
    Name(String),
    Any(Pattern),
    /// `**`: this folder, and all below it.
    Folders,
}

/// Calls `visit` with every path that matches a pattern, in no order.
///
/// # Errors
/// Invalid for an invalid pattern; any error of listing a folder; any error that `visit` returns.
pub(in crate::store) fn each(pattern: &str, visit: &mut dyn FnMut(PathBuf) -> Result<()>) -> Result<()> {
    let wrong = |e: glob::PatternError| Error::invalid(format!("not a pattern: {}", e.msg)).with("file", pattern);
    Pattern::new(pattern).map_err(wrong)?;
    let part = |text: &str| match (text, only_name(text)) {
        ("**", _) => Ok(Part::Folders),
        (_, Some(name)) => Ok(Part::Name(name)),
        (text, None) => Pattern::new(text).map(Part::Any).map_err(wrong),
    };
    let parts = pattern.split('/').filter(|text| !text.is_empty()).map(part).collect::<Result<Vec<_>>>()?;
    below(PathBuf::from(if pattern.starts_with('/') { "/" } else { "." }), &parts, visit)
}

/// Returns the only name that a part matches, if there is just one: a bracket with one character is that character.
pub(crate) fn only_name(part: &str) -> Option<String> {
    let mut name = String::with_capacity(part.len());
    let mut letters = part.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '*' | '?' => return None,
            '[' => {
                name.extend(letters.next().filter(|&letter| letter != '!'));
                letters.next().filter(|&letter| letter == ']')?;
            }
            letter => name.push(letter),
        }
    }
    Some(name)
}

fn below(at: PathBuf, parts: &[Part], visit: &mut dyn FnMut(PathBuf) -> Result<()>) -> Result<()> {
    let Some((part, rest)) = parts.split_first() else { return visit(at) };
    match part {
        Part::Name(name) => {
            let next = at.join(name);
            // A dangling link matches, too: its reader gets the error.
            if rest.is_empty() && next.symlink_metadata().is_err() {
                return Ok(());
            }
            below(next, rest, visit)
        }
        Part::Any(pattern) => {
            if !at.is_dir() {
                return Ok(());
            }
            for entry in entries(&at)? {
                let name = entry.map_err(|e| fail::io(&at.to_string_lossy(), e))?.file_name();
                if pattern.matches_with(&name.to_string_lossy(), OPTIONS) {
                    below(at.join(name), rest, visit)?;
                }
            }
            Ok(())
        }
        Part::Folders => {
            if !at.is_dir() {
                return Ok(());
            }
            let mut found = vec![at.clone()];
            folders::walk(&at, |path, entry, _| {
                if matches!(entry, Entry::Folder) {
                    found.push(path);
                }
                Ok(())
            })?;
            found.into_iter().try_for_each(|folder| below(folder, rest, visit))
        }
    }
}

fn entries(folder: &Path) -> Result<std::fs::ReadDir> {
    std::fs::read_dir(folder).map_err(|e| fail::io(&folder.to_string_lossy(), e))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    /// Files named `a`, `b` and ä in Latin-1, in four folders, one of which is named ä.
    fn tree() -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        for folder in [&b"."[..], b"x", b"x/[y]", b"\xe4"] {
            let folder = root.path().join(OsStr::from_bytes(folder));
            std::fs::create_dir_all(&folder).expect("made");
            for name in [&b"a.jpg"[..], b"b.txt", b"\xe4.jpg", b".h.jpg"] {
                std::fs::write(folder.join(OsStr::from_bytes(name)), "").expect("written");
            }
        }
        root
    }

    #[test]
    fn only_names_that_match_are_of_concern() {
        let root = tree();
        let found = |pattern: &str| {
            let mut found = Vec::new();
            let base = Pattern::escape(root.path().to_str().expect("utf-8"));
            each(&format!("{base}/{pattern}"), &mut |path| {
                let below = path.strip_prefix(root.path()).expect("below");
                found.push(below.as_os_str().as_bytes().escape_ascii().to_string());
                Ok(())
            })
            .expect("a pattern");
            found.sort();
            found.join(" ")
        };
        assert_eq!(found("a*"), "a.jpg");
        assert_eq!(found("?.jpg"), "\\xe4.jpg a.jpg");
        assert_eq!(found("[a-z]"), "x");
        assert_eq!(found("x/[[]y]/*.txt"), "x/[y]/b.txt");
        assert_eq!(found("[x]/b.txt"), "x/b.txt");
        assert_eq!(found("**/b.txt"), "\\xe4/b.txt b.txt x/[y]/b.txt x/b.txt");
        assert_eq!(found("**/**/[.]h.jpg").split(' ').count(), 8, "found in more than one way");
        assert_eq!(found("nothing/*"), "");
        assert_eq!(found("a.jpg/*"), "");
        assert_eq!(found(".*.jpg"), ".h.jpg");
    }
}
