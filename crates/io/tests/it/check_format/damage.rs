//! A changed, missing, truncated or damaged file is an error that names the file; the rows of other files stay the
//! same.

use std::collections::HashMap;
use std::path::Path;

use crate::support::places;
use forebay_core::{Error, ErrorKind, Result};
use forebay_data::Chunk;
use forebay_io::{ReadOptions, SourceIndex, infer};
use forebay_plan::Source;

use super::makers::Sample;
use super::{EPOCH, index, open};

/// A file is truncated at this many evenly spaced offsets, one at a time.
const CUTS: usize = 9;
/// A bit is flipped at this many places of a file, one at a time.
const FLIPS: usize = 24;
/// After this many failed rows of a damaged file, the test reads no further row of it.
const FAILURES_MAX: usize = 2;

/// A file that was replaced or removed after it was indexed is refused with its name.
pub(super) fn another_file_is_refused(sample: &Sample, source: &Source) {
    let index = index(source, true).expect("counts");
    for (number, file) in index.files().enumerate() {
        let row = (0..sample.rows).rev().find(|&row| index.origin(row).is_some_and(|(of, _)| of == number));
        let Some(row) = row else { continue };
        let read = || {
            let reader = open(sample, source, &index, ReadOptions::default()).expect("opens");
            reader.gather(&places([row])).expect_err("this file is another one")
        };
        let (path, bytes) = (Path::new(file.uri), std::fs::read(file.uri).expect("a file"));
        let modified = std::fs::metadata(path).and_then(|meta| meta.modified()).expect("a file");
        let touch = |to| std::fs::File::options().write(true).open(path).and_then(|file| file.set_modified(to));
        touch(std::time::SystemTime::UNIX_EPOCH).expect("touched");
        let changed = read();
        assert_eq!((changed.kind(), changed.get("file")), (ErrorKind::Data, Some(file.uri)), "{}", sample.name);
        assert_eq!(changed.message(), "this file changed since it was indexed", "{}", sample.name);
        std::fs::remove_file(path).expect("removed");
        let gone = read();
        assert_eq!((gone.kind(), gone.get("file")), (ErrorKind::NotFound, Some(file.uri)), "{}: {gone}", sample.name);
        std::fs::write(path, bytes).and_then(|()| touch(modified)).expect("written");
    }
}

/// Truncates files, flips bits in them, and reads all rows of the source each time.
pub(super) fn damage_stays_in_its_file(sample: &Sample, source: &Source, whole: &Chunk) {
    let whole_index = index(source, true).expect("counts");
    let origin = |index: &SourceIndex, row: u64| {
        let (file, row) = index.origin(row).expect("rows of files");
        (index.files().nth(file).expect("a file").uri.to_owned(), row)
    };
    let healthy: HashMap<(String, u64), Chunk> =
        (0..sample.rows).map(|row| (origin(&whole_index, row), whole.slice(row as usize, 1))).collect();
    for path in sample.files() {
        let bytes = std::fs::read(&path).expect("a file");
        for (how, damaged) in damages(&bytes) {
            std::fs::write(&path, damaged).expect("written");
            let check = Damaged { sample, path: &path, how: &how };
            if let Some(Err(e)) = sample.draft.clone().map(|draft| infer(draft, None)) {
                check.is_blamed(&e);
            }
            match index(source, true) {
                Err(e) => check.is_blamed(&e),
                Ok(index) => {
                    let wanted = |row: u64| {
                        let (file, of_file) = origin(&index, row);
                        (!goes_with(&path, &file)).then(|| healthy.get(&(file, of_file)).expect("a row from before"))
                    };
                    if let Err(e) = check.read(source, &index, &wanted) {
                        check.is_blamed(&e);
                    }
                }
            }
        }
        std::fs::write(&path, bytes).expect("written");
    }
}

/// Returns the damaged contents of a file, each with a description.
fn damages(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let cuts = (0..CUTS).map(|part| bytes.len() * part / CUTS).chain([bytes.len().saturating_sub(1)]);
    let cut = cuts.map(|at| (format!("cut at byte {at}"), bytes[..at].to_vec()));
    let flips = (0..FLIPS.min(bytes.len())).map(|part| (bytes.len() * part / FLIPS.min(bytes.len()), part % 8));
    let flipped = flips.map(|(at, bit)| {
        let mut bytes = bytes.to_vec();
        bytes[at] ^= 1 << bit;
        (format!("bit {bit} of byte {at} flipped"), bytes)
    });
    cut.chain(flipped).collect()
}

/// A damaged file of a sample.
struct Damaged<'a> {
    sample: &'a Sample,
    path: &'a Path,
    how: &'a str,
}

impl Damaged<'_> {
    /// Reads each row by itself, and each block. `wanted` returns the expected row of a healthy file.
    fn read<'w>(&self, source: &Source, index: &SourceIndex, wanted: &dyn Fn(u64) -> Option<&'w Chunk>) -> Result<()> {
        let reader = open(self.sample, source, index, ReadOptions::default())?;
        let mut failures = 0;
        // A flipped bit may turn the count into millions of rows. Then only the first and the last ones are read.
        let (rows, some) = (index.rows().expect("counted"), 2 * self.sample.rows);
        for row in (0..rows.min(some)).chain(rows.saturating_sub(some).max(some)..rows) {
            let wanted = wanted(row);
            if wanted.is_none() && failures == FAILURES_MAX {
                continue;
            }
            match (reader.gather(&places([row])), wanted) {
                (Ok(got), Some(want)) => assert!(got.same_bits(want), "{self}: row {row} of another file differs"),
                (Err(e), wanted) => {
                    failures += 1;
                    self.is_due(&e, wanted.is_some(), index);
                }
                (Ok(_), None) => {}
            }
        }
        for block in 0..index.blocks() {
            let range = index.block_rows(block).expect("counted");
            let mut row = range.start;
            for chunk in reader.stream(block, EPOCH, 3)? {
                let chunk = match chunk {
                    Ok(chunk) => chunk,
                    Err(e) => {
                        self.is_due(&e, !range.is_empty() && wanted(range.start).is_some(), index);
                        break;
                    }
                };
                chunk.losses().iter().for_each(|loss| self.is_blamed(&loss.error));
                for at in 0..chunk.num_rows() {
                    if let Some(want) = wanted(row) {
                        assert!(chunk.losses().is_empty(), "{self}: a row of another file is lost");
                        assert!(chunk.slice(at, 1).same_bits(want), "{self}: row {row} of another file differs");
                    }
                    row += 1;
                }
            }
        }
        Ok(())
    }

    /// A row of a healthy file may fail only if the damaged file is the first: the columns of other files are compared
    /// with those of the first.
    #[track_caller]
    fn is_due(&self, e: &Error, is_of_healthy: bool, index: &SourceIndex) {
        let is_first = index.files().next().is_some_and(|first| Path::new(first.uri) == self.path);
        assert!(!is_of_healthy || is_first, "{self}: a row of another file fails: {e}");
        self.is_blamed(e);
    }

    #[track_caller]
    fn is_blamed(&self, e: &Error) {
        // A flipped bit may name another file, an unknown type, or more than memory holds.
        let kinds = [ErrorKind::Data, ErrorKind::NotFound, ErrorKind::Invalid, ErrorKind::Exhausted];
        let kinds = if self.how.starts_with("cut") { &kinds[..1] } else { &kinds[..] };
        assert!(kinds.contains(&e.kind()), "{self}: {:?}: {e}", e.kind());
        // An error of an index that was looked up names the shard beside it.
        let named = [e.get("file"), e.get("shard")].into_iter().flatten();
        assert!(named.into_iter().any(|file| goes_with(self.path, file)), "{self}: it is not blamed: {e}");
    }
}

impl std::fmt::Display for Damaged<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {} {}", self.sample.name, self.path.display(), self.how)
    }
}

/// Says whether a file is the damaged one, or a file whose rows the damaged one locates.
fn goes_with(damaged: &Path, other: &str) -> bool {
    let other = Path::new(other);
    let is_index_of =
        damaged.file_name().is_some_and(|name| name == "index.json") && damaged.parent() == other.parent();
    let is_beside = damaged.extension().is_some_and(|ending| ending == "idx" || ending == "bin")
        && damaged.with_extension("") == other.with_extension("");
    damaged == other || is_index_of || is_beside
}
