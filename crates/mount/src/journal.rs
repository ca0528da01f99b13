//! A journal of a mount's open files, so that a process that takes the mount over can serve them.
//!
//! The mount appends a record at each open and each close; SIGKILL loses no complete record. Invariants: no file handle
//! is used twice, also not by the next process. A truncated record can only be the last one, and is ignored. Bound: the
//! journal is rewritten when it has more than [`CLOSED_MAX`] records plus four for each open file.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// First line of the journal: its format.
const HEAD: &[u8] = b"forebay opens 1\n";
/// Records that never cause a rewrite.
const CLOSED_MAX: usize = 65_536;
/// Length of a record without its path: kind, handle, inode, source, length of the path.
const RECORD_BYTES: usize = 1 + 8 + 8 + 4 + 4;
const NO_SOURCE: u32 = u32::MAX;

const FILE: u8 = b'F';
const FOLDER: u8 = b'D';
const CLOSED: u8 = b'C';
/// Highest handle so far.
const LAST: u8 = b'L';

/// An open file or folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenRecord {
    pub(crate) ino: u64,
    /// Index of the source; `None` for the root of several sources.
    pub(crate) source: Option<usize>,
    pub(crate) is_folder: bool,
    pub(crate) path: PathBuf,
}

/// The open files of the previous process.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Left {
    /// Its open files and folders, by handle.
    pub(crate) open: HashMap<u64, OpenRecord>,
    /// Its highest handle.
    pub(crate) last: u64,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    file: File,
    records: usize,
    now: Left,
    has_failed: bool,
}

impl Journal {
    /// Opens the journal, and reads the records of the previous process.
    pub(crate) fn open(path: &Path) -> io::Result<(Self, Left)> {
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(e) => return Err(e),
        };
        let (left, now) = (read(&bytes), read(&bytes));
        let file = write_anew(path, &now)?;
        let inner = Mutex::new(Inner { file, records: now.open.len(), now, has_failed: false });
        Ok((Self { path: path.to_owned(), inner }, left))
    }

    pub(crate) fn opened(&self, number: u64, record: OpenRecord) {
        self.note(&record_of(number, &record), |now| {
            now.last = now.last.max(number);
            now.open.insert(number, record);
        });
    }

    pub(crate) fn closed(&self, number: u64) {
        self.note(&bytes_of(CLOSED, number, 0, NO_SOURCE, b""), |now| drop(now.open.remove(&number)));
    }

    fn note(&self, record: &[u8], change: impl FnOnce(&mut Left)) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut inner.now);
        inner.records += 1;
        let written = if inner.records > CLOSED_MAX + 4 * inner.now.open.len() {
            write_anew(&self.path, &inner.now).map(|file| {
                inner.file = file;
                inner.records = inner.now.open.len();
            })
        } else {
            inner.file.write_all(record)
        };
        if let Err(e) = written
            && !std::mem::replace(&mut inner.has_failed, true)
        {
            tracing::warn!(file = %self.path.display(), "if this process dies, open files will fail: they cannot be noted: {e}");
        }
    }
}

/// Replaces the journal atomically.
fn write_anew(path: &Path, now: &Left) -> io::Result<File> {
    let part = path.with_extension("part");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part)?;
    let mut bytes = HEAD.to_vec();
    bytes.extend(bytes_of(LAST, now.last, 0, NO_SOURCE, b""));
    now.open.iter().for_each(|(number, record)| bytes.extend(record_of(*number, record)));
    file.write_all(&bytes)?;
    std::fs::rename(&part, path)?;
    Ok(file)
}

fn record_of(number: u64, record: &OpenRecord) -> Vec<u8> {
    let kind = if record.is_folder { FOLDER } else { FILE };
    let source = record.source.and_then(|source| u32::try_from(source).ok()).unwrap_or(NO_SOURCE);
    bytes_of(kind, number, record.ino, source, record.path.as_os_str().as_bytes())
}

fn bytes_of(kind: u8, number: u64, ino: u64, source: u32, path: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(RECORD_BYTES + path.len());
    bytes.push(kind);
    bytes.extend(number.to_le_bytes());
    bytes.extend(ino.to_le_bytes());
    bytes.extend(source.to_le_bytes());
    bytes.extend((path.len() as u32).to_le_bytes());
    bytes.extend(path);
    bytes
}

/// Parses a journal. A journal of another format counts as empty, and the records after a broken one are ignored.
fn read(bytes: &[u8]) -> Left {
    let mut left = Left::default();
    let Some(mut rest) = bytes.strip_prefix(HEAD) else { return left };
    while let Some((head, behind)) = rest.split_first_chunk::<RECORD_BYTES>() {
        let word = |at: usize| head[at..at + 8].iter().rev().fold(0, |n, b| n << 8 | u64::from(*b));
        let half = |at: usize| head[at..at + 4].iter().rev().fold(0, |n, b| n << 8 | u32::from(*b));
        let (number, len) = (word(1), half(21) as usize);
        let Some(path) = behind.get(..len) else { break };
        rest = &behind[len..];
        left.last = left.last.max(number);
        match head[0] {
            kind @ (FILE | FOLDER) => {
                let source = Some(half(17)).filter(|source| *source != NO_SOURCE).map(|source| source as usize);
                let path = OsString::from_vec(path.to_vec()).into();
                left.open.insert(number, OpenRecord { ino: word(9), source, is_folder: kind == FOLDER, path });
            }
            CLOSED => drop(left.open.remove(&number)),
            LAST => {}
            _ => break,
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(path: &str, source: Option<usize>) -> OpenRecord {
        OpenRecord { ino: 77, source, is_folder: source.is_none(), path: path.into() }
    }

    #[test]
    fn the_next_process_finds_what_is_open() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("opens");
        let (journal, left) = Journal::open(&path).expect("made");
        assert_eq!(left, Left::default());
        journal.opened(1, record("a\nb", Some(3)));
        journal.opened(2, record("", None));
        journal.opened(9, record("gone", Some(0)));
        journal.closed(9);
        let expected = HashMap::from([(1, record("a\nb", Some(3))), (2, record("", None))]);
        for _ in 0..2 {
            // A kill ends the process in the middle of a record.
            OpenOptions::new()
                .append(true)
                .open(&path)
                .and_then(|mut file| file.write_all(b"F12345"))
                .expect("written");
            let (_, left) = Journal::open(&path).expect("opens");
            assert_eq!(left, Left { open: expected.clone(), last: 9 });
        }
        std::fs::write(&path, "another format\n").expect("written");
        assert_eq!(Journal::open(&path).expect("opens").1, Left::default());
    }

    #[test]
    fn records_of_closed_files_take_no_more_room_than_their_bound() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("opens");
        let (journal, _) = Journal::open(&path).expect("made");
        for number in 1..=CLOSED_MAX as u64 {
            journal.opened(number, record("a", Some(0)));
            journal.closed(number);
        }
        let len = std::fs::metadata(&path).expect("there").len();
        assert!(len <= (CLOSED_MAX * (RECORD_BYTES + 1)) as u64, "{len}");
        assert_eq!(Journal::open(&path).expect("opens").1, Left { open: HashMap::new(), last: CLOSED_MAX as u64 });
    }

    #[test]
    fn the_format_stays() {
        let bytes = record_of(0x0102, &record("p", Some(5)));
        assert_eq!(bytes, b"F\x02\x01\0\0\0\0\0\0M\0\0\0\0\0\0\0\x05\0\0\0\x01\0\0\0p");
    }
}
