//! Writes rows into files, and resumes after the counted ones.

use std::fs::File;
use std::sync::Arc;

use forebay_core::{Error, ErrorKind, Result};
use forebay_data::{Chunk, Schema};

use super::encode::{self, Encoder, row_bytes};
use super::head::{Complete, Head, SoFar};
use super::place::{Known, Place};
use super::shards::write_index;
use super::{Format, Poll};

/// The size to which rows are gathered before they are encoded: the unit of decoding in Arrow files.
const BATCH_BYTES: usize = 1 << 20;
/// The most `file_bytes` in a store, which accepts at most 10,000 blocks of 8 MiB.
const STORED_BYTES_MAX: u64 = 64 << 30;

/// Writes one stream of rows to one folder.
pub struct Writer {
    place: Place,
    head: Head,
    known: Known,
    schema: Arc<Schema>,
    rows: u64,
    current: Option<Box<dyn Encoder>>,
    /// Bytes of rows in the current file, gathered rows included.
    bytes: u64,
    /// Rows that are not encoded yet, and their bytes.
    waiting: (Vec<Chunk>, usize),
    /// The rest of a delivery after the end of a file.
    left: Option<Left>,
    _lock: Option<File>,
}

/// A delivery that is partly written.
struct Left {
    rows: Chunk,
    bytes: Vec<usize>,
    at: usize,
}

/// The progress of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// The state from which the reader continues; `None` at the beginning.
    pub state: Option<String>,
    /// Rows that are saved.
    pub rows: u64,
    /// Whether the save is complete.
    pub complete: bool,
}

impl Writer {
    /// Begins a save in a folder (a path, or a url of a store), which is created if needed, or resumes an earlier save
    /// of the same rows. With `overwrite` it removes an earlier save. A thread that waits for a store calls `poll`.
    ///
    /// # Errors
    /// Conflict when another process writes there, when another save is there, or when it has other files; Invalid when
    /// the format cannot represent a column; NotFound, Unavailable, PermissionDenied, Exhausted or Invalid where it
    /// cannot be written.
    pub fn begin(folder: &str, head: Head, overwrite: bool, poll: Poll) -> Result<(Self, Progress)> {
        let schema = Arc::new(Schema::new(head.schema.clone())?);
        head.files.format.check(&schema, head.files.bytes)?;
        let place = Place::of(folder, poll)?;
        if matches!(place, Place::Store(_)) && head.files.bytes > STORED_BYTES_MAX {
            let message = format!("file_bytes={} is too much for a file of a store", head.files.bytes);
            return Err(Error::invalid(message).hint(format!("at most {STORED_BYTES_MAX}")));
        }
        place.make(head.consumer.is_some())?;
        let found = place.head(&head.file());
        if matches!(found, Ok((None, _))) && !overwrite {
            place.refuse_strange()?;
        }
        let lock = place.lock(head.consumer)?;
        let (found, known) = match (found, overwrite) {
            (found, true) => {
                let is_mds = |(head, _): (Option<Head>, _)| head.is_some_and(|head| head.files.format == Format::Mds);
                place.remove(&head, found.is_ok_and(is_mds))?;
                (None, place.head(&head.file())?.1)
            }
            (Ok(found), false) => found,
            (Err(e), false) => return Err(e),
        };
        place.refuse_others(&head)?;
        place.tidy(&head)?;
        let (current, bytes, waiting, left) = (None, 0, (Vec::new(), 0), None);
        let mut writer = Self { place, head, known, schema, rows: 0, current, bytes, waiting, left, _lock: lock };
        writer.take_over(found)?;
        let SoFar { rows, state, .. } = writer.head.so_far.clone();
        writer.rows = rows;
        let progress = Progress { state, rows, complete: writer.head.complete.is_some() };
        Ok((writer, progress))
    }

    /// Continues from an existing head, or writes the first one: from now on, an earlier writer gets a Conflict.
    fn take_over(&mut self, found: Option<Head>) -> Result<()> {
        if let Some(found) = found {
            if let Some((is, is_not)) = found.differs(&self.head) {
                return Err(Error::new(ErrorKind::Conflict, format!("this folder holds {is}, not {is_not}"))
                    .with("folder", self.place.name())
                    .hint("save to another folder, or with overwrite=True"));
            }
            self.head = found;
            if self.head.complete.is_some() {
                return write_index(&self.place, &self.head);
            }
        }
        self.head.writer = matches!(self.place, Place::Store(_)).then(|| format!("{:032x}", unlike_others()));
        self.place.write_head(&self.head, &mut self.known)
    }

    /// Adds rows. When the file is full, returns how many of them fit: the caller must then call [`Writer::end_part`],
    /// and [`Writer::go_on`] before it adds more.
    ///
    /// # Errors
    /// As [`Writer::begin`] where it cannot be written; Data where a row has no form in the format.
    pub fn push(&mut self, rows: &Chunk) -> Result<Option<u64>> {
        self.left = Some(Left { rows: rows.clone(), bytes: row_bytes(rows)?, at: 0 });
        self.go_on()
    }

    /// Adds the rest of the last pushed rows, as [`Writer::push`] does.
    ///
    /// # Errors
    /// As [`Writer::push`].
    pub fn go_on(&mut self) -> Result<Option<u64>> {
        let Some(mut left) = self.left.take() else { return Ok(None) };
        let batch = BATCH_BYTES.min(usize::try_from(self.head.files.bytes).unwrap_or(BATCH_BYTES));
        while left.at < left.bytes.len() {
            let first = left.at;
            while left.at < left.bytes.len() && self.waiting.1 < batch && self.bytes < self.head.files.bytes {
                self.waiting.1 += left.bytes[left.at];
                self.bytes += left.bytes[left.at] as u64;
                left.at += 1;
            }
            self.waiting.0.push(left.rows.slice(first, left.at - first));
            self.rows += (left.at - first) as u64;
            if self.waiting.1 >= batch {
                self.encode()?;
            }
            if self.bytes >= self.head.files.bytes {
                let used = left.at as u64;
                self.left = Some(left);
                return Ok(Some(used));
            }
        }
        Ok(None)
    }

    /// Encodes the gathered rows.
    fn encode(&mut self) -> Result<()> {
        let (chunks, _) = std::mem::take(&mut self.waiting);
        if chunks.is_empty() {
            return Ok(());
        }
        let rows = Chunk::concat(&chunks)?;
        self.file()?.add(&rows)
    }

    /// Returns the current file.
    fn file(&mut self) -> Result<&mut Box<dyn Encoder>> {
        if self.current.is_none() {
            let sink = self.place.create(&self.head.part(self.head.so_far.parts))?;
            let (head, first) = (&self.head, self.head.so_far.rows);
            self.current = Some(encode::begin(&head.files, &self.schema, head.consumer, first, sink)?);
        }
        self.current.as_mut().ok_or_else(|| Error::internal("no file was begun"))
    }

    /// Ends a file, if one was begun: from now on it counts, and the reader continues from `state`.
    ///
    /// # Errors
    /// As [`Writer::begin`] where it cannot be written; Conflict when another process has taken over the save.
    pub fn end_part(&mut self, state: &str) -> Result<()> {
        self.encode()?;
        self.bytes = 0;
        let Some(encoder) = self.current.take() else { return Ok(()) };
        let sink = encoder.finish()?;
        // A writer that was replaced must not overwrite a file of its successor.
        self.place.check_head(&self.head.file(), &self.known)?;
        sink.finish()?;
        let so_far = &mut self.head.so_far;
        *so_far = SoFar { parts: so_far.parts + 1, rows: self.rows, state: Some(state.to_owned()) };
        self.place.write_head(&self.head, &mut self.known)
    }

    /// Completes the save; returns its totals.
    ///
    /// # Errors
    /// As [`Writer::end_part`].
    pub fn finish(mut self, state: &str) -> Result<Complete> {
        if let Some(complete) = self.head.complete {
            return Ok(complete);
        }
        if self.rows == 0 {
            // A file without rows still has the columns.
            self.file()?;
        }
        self.end_part(state)?;
        let complete = Complete { parts: self.head.so_far.parts, rows: self.rows };
        (self.head.complete, self.head.writer) = (Some(complete), None);
        self.place.write_head(&self.head, &mut self.known)?;
        write_index(&self.place, &self.head)?;
        Ok(complete)
    }

    /// Returns the rows that were written so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }
}

/// Returns a number that no other writer has.
fn unlike_others() -> u128 {
    use std::hash::BuildHasher;
    let random = || std::hash::RandomState::new().hash_one(std::process::id());
    u128::from(random()) << 64 | u128::from(random())
}
