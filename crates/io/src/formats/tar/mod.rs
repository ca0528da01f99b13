//! Tar archives (ustar, GNU, PAX) with WebDataset naming, walked header by header without reading payloads.
//!
//! A member's key is its path up to the first dot of the last component; its extension is the rest. Consecutive members
//! with one key are one sample. Folders, links, devices and names without a dot or beginning with one are skipped, as
//! the webdataset library does.

mod header;
mod samples;
mod walk;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use forebay_core::{Error, Result};

use super::compressed;
use crate::index::table::TarTable;
use crate::limits;
use crate::store::{Forward, Object};
pub(crate) use samples::Samples;
use walk::Walk;

/// Splits a name into key and extension, if it is part of a sample.
pub(crate) fn split_name(name: &str) -> Option<(&str, &str)> {
    let last = name.rfind('/').map_or(0, |i| i + 1);
    let dot = last + name[last..].find('.').filter(|&d| d > 0)?;
    Some((&name[..dot], &name[dot + 1..]))
}

/// Returns the places of all samples of an archive, and the reader.
pub(crate) fn table(forward: Forward, extensions: &[String], stop: &AtomicBool) -> Result<(TarTable, Forward)> {
    let mut samples = Samples::new(forward, 0);
    let mut table = TarTable::default();
    while let Some(sample) = samples.next(extensions, |_, _, _| Ok(()))? {
        crate::parallel::check(stop)?;
        table.push(&sample.key, &sample.spans);
    }
    Ok((table, samples.walk.forward))
}

/// Samples that are read to find the extensions.
const SAMPLES: usize = 100;
/// Bytes of an archive after which no further sample is read.
const BYTES: u64 = 64 << 20;

/// An extension of the samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Extension {
    pub(crate) name: String,
    /// Whether one of these samples lacks it.
    pub(crate) lacked: bool,
}

/// Returns the extensions of the first samples, sorted; none in an archive without samples.
pub(crate) fn extensions(object: Arc<Object>) -> Result<Vec<Extension>> {
    // Many small requests would take longer than reading everything.
    let forward = if object.is_remote() { compressed::reading } else { compressed::skipping };
    let mut walk = Walk::new(forward(object.clone())?, 0);
    let (mut key, mut samples) = (None, Vec::<BTreeSet<String>>::new());
    loop {
        let member = match walk.next() {
            Ok(Some(member)) => member,
            Ok(None) => break,
            // The reader of the broken sample gets the error.
            Err(_) if samples.len() > 1 => {
                samples.pop();
                break;
            }
            Err(e) => return Err(e),
        };
        let Some((of, extension)) = split_name(&member.name) else { continue };
        if key.as_deref() != Some(of) {
            if samples.len() == SAMPLES || !samples.is_empty() && member.header > BYTES {
                break;
            }
            key = Some(of.to_owned());
            samples.push(BTreeSet::new());
        }
        let Some(sample) = samples.last_mut() else { continue };
        sample.insert(extension.to_owned());
        limits::columns("members of a sample", sample.len())
            .map_err(|e| e.with("file", object.uri()).with("offset", member.header))?;
    }
    let all: BTreeSet<&String> = samples.iter().flatten().collect();
    limits::columns("members of the first samples", all.len()).map_err(|e| e.with("file", object.uri()))?;
    let lacked = |name: &String| samples.iter().any(|sample| !sample.contains(name));
    Ok(all.into_iter().map(|name| Extension { name: name.clone(), lacked: lacked(name) }).collect())
}

/// Returns the error of a sample without an extension that the source has.
pub(crate) fn lacks(uri: &str, key: &str, extension: &str) -> Error {
    Error::data(format!("a sample has no {extension:?}"))
        .with("file", uri)
        .with("member", format!("{key}.{extension}"))
        .with("key", key)
        .hint(format!(
            "mark it as optional: from_tar(paths, extensions=[{:?}, ...]), with all extensions to read; \
             or skip such samples with on_error=\"skip\"",
            format!("{extension}?")
        ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_split_at_the_first_dot_of_the_last_component() {
        assert_eq!(split_name("a.b/c.d.jpg"), Some(("a.b/c", "d.jpg")));
        assert_eq!(split_name("0001.JPG"), Some(("0001", "JPG")));
        assert_eq!(split_name("x."), Some(("x", "")));
        for other in ["a.b/c", "._x.jpg", "a/.hidden", "noext", ""] {
            assert_eq!(split_name(other), None, "{other}");
        }
    }
}
