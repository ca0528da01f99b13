//! Writes rows into parts, and begins behind those that are there.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_ipc::reader::FileReader;
use arrow_ipc::writer::FileWriter;
use forebay_core::{Error, ErrorKind, Result};
use forebay_data::{Chunk, Schema};

use super::folder::{Complete, Head, UNFINISHED, open, part, publish, unwritten};
use crate::fail;

/// What rows are gathered to before they are written: what is read, and decoded, for a single one.
const BATCH_BYTES: usize = 1 << 20;
/// Whoever writes holds a lock on this.
const LOCK: &str = "_lock";
/// Where the footer of a part has the reader's state behind it.
const STATE: &str = "forebay.state";
/// Where it has the rows of all parts up to its end.
const ROWS: &str = "forebay.rows";

/// Writes one stream of rows to one folder.
pub struct Writer {
    folder: PathBuf,
    head: Head,
    schema: Arc<Schema>,
    /// A part that is at least as large is full.
    part_bytes: u64,
    parts: u64,
    rows: u64,
    current: Option<Part>,
    /// Rows that are too few to be written, and their bytes.
    waiting: (Vec<Chunk>, usize),
    _lock: File,
}

/// The part that is being written.
struct Part {
    path: PathBuf,
    writer: FileWriter<File>,
    bytes: u64,
}

/// How far a folder is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// The state that the reader goes on from; `None` at the beginning.
    pub state: Option<String>,
    /// Rows that are there.
    pub rows: u64,
    /// Whether that is all.
    pub complete: bool,
}

impl Writer {
    /// Begins in a folder, which is made if need be, or goes on in one that the same rows were being saved in. With
    /// `overwrite` what was saved there is removed.
    ///
    /// # Errors
    /// Conflict when somebody writes there, when something else is saved there, or when it is not empty and nothing is
    /// saved in it; Unavailable, PermissionDenied, Exhausted or Invalid where it cannot be written.
    pub fn begin(folder: &Path, head: Head, part_bytes: u64, overwrite: bool) -> Result<(Self, Progress)> {
        fs::create_dir_all(folder).map_err(|e| unwritten(folder, &e))?;
        let found = open(folder);
        if matches!(found, Ok(None)) && !overwrite {
            refuse_strange(folder)?;
        }
        let lock = lock(folder)?;
        let found = match (found, overwrite) {
            (_, true) => {
                remove(folder, &|name| is_ours(name))?;
                None
            }
            (Ok(found), false) => found,
            (Err(e), false) => return Err(e),
        };
        remove(folder, &|name| name.ends_with(UNFINISHED))?;
        let schema = Arc::new(Schema::new(head.schema.clone())?);
        let mut writer = Self {
            folder: folder.to_owned(),
            head,
            schema,
            part_bytes: part_bytes.max(1),
            parts: 0,
            rows: 0,
            current: None,
            waiting: (Vec::new(), 0),
            _lock: lock,
        };
        let mut progress = Progress { state: None, rows: 0, complete: false };
        match found {
            None => writer.head.write(folder)?,
            Some(found) if !found.head.is_of(&writer.head) => {
                let what = |head: &Head| {
                    format!("{} epochs of dataset {} with seed {}", head.epochs, short(&head.dataset), head.seed)
                };
                let message = format!("this folder holds {}, not {}", what(&found.head), what(&writer.head));
                return Err(Error::new(ErrorKind::Conflict, message)
                    .with("folder", folder.display())
                    .hint("save to another folder, or with overwrite=True"));
            }
            Some(found) => {
                writer.parts = found.parts.len() as u64;
                if let Some(last) = found.parts.last() {
                    let (state, rows) = footer(last)?;
                    (writer.rows, progress.state, progress.rows) = (rows, Some(state), rows);
                }
                writer.head = found.head;
                progress.complete = writer.head.complete.is_some();
            }
        }
        Ok((writer, progress))
    }

    /// Adds rows. Returns whether the part is full: then [`Writer::end_part`] is to be called.
    ///
    /// # Errors
    /// As [`Writer::begin`] where it cannot be written.
    pub fn push(&mut self, chunk: &Chunk) -> Result<bool> {
        let rows = chunk.num_rows();
        let per_row = (chunk.num_bytes() / rows.max(1)).max(1);
        let batch_bytes = BATCH_BYTES.min(usize::try_from(self.part_bytes).unwrap_or(BATCH_BYTES));
        let step = (batch_bytes / per_row).clamp(1, rows.max(1));
        for first in (0..rows).step_by(step) {
            let part = chunk.slice(first, step.min(rows - first));
            self.waiting.1 += part.num_rows() * per_row;
            self.waiting.0.push(part);
            if self.waiting.1 >= batch_bytes {
                self.write()?;
            }
        }
        self.rows += rows as u64;
        let written = self.current.as_ref().map_or(0, |part| part.bytes);
        Ok(written + self.waiting.1 as u64 >= self.part_bytes)
    }

    /// Writes what waits as one record batch.
    fn write(&mut self) -> Result<()> {
        let (chunks, bytes) = std::mem::take(&mut self.waiting);
        if chunks.is_empty() {
            return Ok(());
        }
        let batch = Chunk::concat(&chunks)?.to_record_batch(false)?;
        let part = self.part()?;
        part.writer.write(&batch).map_err(|e| unwritten_arrow(&part.path, e))?;
        part.bytes += bytes as u64;
        Ok(())
    }

    /// Returns the part that is being written.
    fn part(&mut self) -> Result<&mut Part> {
        let path = part(&self.folder, self.parts);
        let path = path.with_extension(format!("arrow{UNFINISHED}"));
        match &mut self.current {
            Some(part) => Ok(part),
            none => {
                let file = File::create(&path).map_err(|e| unwritten(&path, &e))?;
                let schema = Chunk::wire_schema(&self.schema, false);
                let writer = FileWriter::try_new(file, &schema).map_err(|e| unwritten_arrow(&path, e))?;
                Ok(none.insert(Part { path, writer, bytes: 0 }))
            }
        }
    }

    /// Ends a part, if one was begun: from now on it is there, and `state` is what the reader goes on from.
    ///
    /// # Errors
    /// As [`Writer::begin`] where it cannot be written.
    pub fn end_part(&mut self, state: &str) -> Result<()> {
        self.write()?;
        let Some(Part { path, mut writer, .. }) = self.current.take() else { return Ok(()) };
        writer.write_metadata(STATE, state);
        writer.write_metadata(ROWS, self.rows.to_string());
        let mut end = || {
            writer.finish()?;
            writer.get_ref().sync_all()?;
            Ok(())
        };
        end().map_err(|e| unwritten_arrow(&path, e))?;
        publish(&path, &part(&self.folder, self.parts))?;
        self.parts += 1;
        Ok(())
    }

    /// Says that this is all; returns how much it is.
    ///
    /// # Errors
    /// As [`Writer::begin`] where it cannot be written.
    pub fn finish(mut self, state: &str) -> Result<Complete> {
        if self.rows == 0 {
            // A file of no rows says what the columns are.
            self.part()?;
        }
        self.end_part(state)?;
        let complete = Complete { parts: self.parts, rows: self.rows };
        self.head.complete = Some(complete);
        self.head.write(&self.folder)?;
        Ok(complete)
    }

    /// Returns the rows that were written so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }
}

/// Enough of a dataset's id to know it by.
fn short(dataset: &str) -> &str {
    dataset.get(..12).unwrap_or(dataset)
}

fn unwritten_arrow(path: &Path, e: arrow_schema::ArrowError) -> Error {
    match e {
        arrow_schema::ArrowError::IoError(_, e) => unwritten(path, &e),
        e => fail::arrow(e).with("file", path.display()),
    }
}

/// Takes the lock that ends with this process.
fn lock(folder: &Path) -> Result<File> {
    let path = folder.join(LOCK);
    let file = File::create(&path).map_err(|e| unwritten(&path, &e))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => {
            Err(Error::new(ErrorKind::Conflict, "another process saves to this folder")
                .with("folder", folder.display())
                .hint("wait for it, or save to another folder"))
        }
        Err(fs::TryLockError::Error(e)) => Err(unwritten(&path, &e)),
    }
}

/// Says whether a file is one that `save` makes.
fn is_ours(name: &str) -> bool {
    name.starts_with("_forebay.json") || (name.starts_with("part-") && name.contains(".arrow"))
}

/// Refuses a folder that holds something else: what is saved is read by listing it, and removed by `overwrite`.
fn refuse_strange(folder: &Path) -> Result<()> {
    let entries = fs::read_dir(folder).map_err(|e| unwritten(folder, &e))?;
    let strange = entries.flatten().find(|entry| entry.file_name() != LOCK);
    match strange {
        None => Ok(()),
        Some(entry) => Err(Error::new(ErrorKind::Conflict, "this folder is not empty, and nothing was saved in it")
            .with("folder", folder.display())
            .with("for example", entry.file_name().to_string_lossy())
            .hint("save to a new folder")),
    }
}

fn remove(folder: &Path, which: &dyn Fn(&str) -> bool) -> Result<()> {
    let entries = fs::read_dir(folder).map_err(|e| unwritten(folder, &e))?;
    for entry in entries.flatten().filter(|entry| which(&entry.file_name().to_string_lossy())) {
        fs::remove_file(entry.path()).map_err(|e| unwritten(&entry.path(), &e))?;
    }
    Ok(())
}

/// Reads the state behind a part, and the rows up to there.
fn footer(path: &Path) -> Result<(String, u64)> {
    let name = path.to_string_lossy();
    let file = File::open(path).map_err(|e| fail::io(&name, e))?;
    let broken = |what: &str| {
        Error::data(format!("this part cannot be gone on from: {what}"))
            .with("file", &name)
            .hint("remove this file to have its rows saved again, or save with overwrite=True")
    };
    let reader = FileReader::try_new(file, None).map_err(|e| broken(&e.to_string()))?;
    let said = reader.custom_metadata();
    let rows = said.get(ROWS).and_then(|rows| rows.parse().ok());
    said.get(STATE).cloned().zip(rows).ok_or_else(|| broken("its footer has no state"))
}
