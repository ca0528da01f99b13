//! Arrow IPC streams, as `pyarrow.ipc.new_stream` and Hugging Face's datasets write them: consecutive messages.
//!
//! No footer has the places of the messages, so their heads are read one by one, once, and their bodies are skipped. A
//! stream ends with a mark. A stream without it was cut off, or its writer was not closed, and rows may be missing.

use std::collections::HashSet;
use std::sync::atomic::AtomicBool;

use arrow_buffer::{Buffer, MutableBuffer};
use arrow_ipc::{Block, MessageHeader};
use arrow_schema::ArrowError;
use forebay_core::{Error, Result};

use super::file::Head;
use super::messages::{HEAD_BYTES_MAX, corrupt, guarded, message, rows_of};
use crate::index::table::Messages;
use crate::parallel::check;
use crate::store::Object;
use crate::{fail, limits};

/// The first bytes of a message, since version 0.15: a mark, and the length of the head.
const PREFIX_BYTES: usize = 8;
/// The bytes of a message that are read first, because they likely hold the head; from a file and from a store.
const GUESS_BYTES: u64 = 1 << 10;
const GUESS_BYTES_REMOTE: u64 = 16 << 10;

/// The head of a message, and where the head ends.
struct Described {
    /// With the mark and the length.
    bytes: Vec<u8>,
    /// Where the message's body begins.
    body: u64,
}

/// Returns how many bytes the head of a message has that begins with `begin`, and whether it is the mark that ends a
/// stream.
fn length(begin: &[u8]) -> Option<(u64, bool)> {
    let word = |at: usize| begin.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
    let (prefix, len) = match word(0)? {
        u32::MAX => (8, word(4)?),
        len => (4, len),
    };
    Some((prefix + u64::from(len), len == 0))
}

/// Reads the head of the message at `at`; `None` at the mark that ends the stream.
fn describe(object: &Object, at: u64) -> Result<Option<Described>> {
    let uri = object.uri();
    let ends = |what: &str| {
        fail::truncated(uri, what)
            .with("offset", at)
            .replace("hint", "the stream was cut off, or its writer was not closed: write or fetch it again")
    };
    let guess = if object.is_remote() { GUESS_BYTES_REMOTE } else { GUESS_BYTES };
    let mut bytes = vec![0; guess.min(object.size().saturating_sub(at)) as usize];
    object.read_at(at, &mut bytes)?;
    let (len, is_end) = length(&bytes).ok_or_else(|| ends("an arrow stream ends without the mark of its end"))?;
    if is_end {
        return match at + len == object.size() {
            true => Ok(None),
            false => Err(fail::corrupt(uri, at + len, "an arrow stream has something behind its end")
                .hint("write one stream into a file; or write it with pyarrow.ipc.new_file")),
        };
    }
    if len > HEAD_BYTES_MAX {
        let what = format!("the head of a message says that it is {len} bytes");
        return Err(corrupt(uri, &what).with("offset", at));
    }
    let body = at
        .checked_add(len)
        .filter(|&end| end <= object.size())
        .ok_or_else(|| ends("an arrow stream ends within a message"))?;
    let read = (bytes.len() as u64).min(len) as usize;
    bytes.resize(len as usize, 0);
    object.read_at(at + read as u64, &mut bytes[read..])?;
    Ok(Some(Described { bytes, body }))
}

/// Reads the schema, and returns where the first message after it begins.
///
/// # Errors
/// Data when it is not an Arrow stream.
pub(super) fn head(object: &Object) -> Result<(Head, u64)> {
    let none = || {
        Error::data("not an arrow file that can be read: it begins neither as a file nor as a stream")
            .with("file", object.uri())
            .hint(
                "it is truncated or of another format: name the files to read by a pattern, data/*.arrow; Feather version 1 is \
                 written again with pyarrow.feather.write_feather",
            )
    };
    let mut begin = vec![0; PREFIX_BYTES.min(object.size() as usize)];
    object.read_at(0, &mut begin)?;
    length(&begin).filter(|&(len, is_end)| !is_end && len <= object.size()).ok_or_else(none)?;
    let described = describe(object, 0)?.ok_or_else(none)?;
    let (head, body) = guarded(object.uri(), || {
        let message = message(&described.bytes)?;
        Ok((Head::new(message.header_as_schema(), message.version())?, message.bodyLength()))
    })?;
    let body = u64::try_from(body).map_err(|_| corrupt(object.uri(), "a length below zero"))?;
    Ok((head, described.body.saturating_add(body)))
}

/// Says whether a record batch or a dictionary comes behind the schema, which begins at `at`. A footer is none.
pub(super) fn has_batches(object: &Object, at: u64) -> Result<bool> {
    let head = |at: u64| -> Result<Option<(Vec<u8>, u64)>> {
        let mut begin = vec![0; PREFIX_BYTES.min(object.size().saturating_sub(at) as usize)];
        object.read_at(at, &mut begin)?;
        let Some((len, false)) = length(&begin) else { return Ok(None) };
        let end = at.checked_add(len).filter(|&end| len <= HEAD_BYTES_MAX && end <= object.size());
        let Some(end) = end else { return Ok(None) };
        let mut bytes = vec![0; len as usize];
        object.read_at(at, &mut bytes)?;
        Ok(Some((bytes, end)))
    };
    let Some((_, next)) = head(at)? else { return Ok(false) };
    let Some((bytes, _)) = head(next)? else { return Ok(false) };
    let is_batch = guarded(object.uri(), || {
        let header = message(&bytes).map(|message| message.header_type());
        Ok(matches!(header, Ok(MessageHeader::RecordBatch | MessageHeader::DictionaryBatch)))
    });
    Ok(is_batch.unwrap_or(false))
}

/// Finds the messages of a stream.
///
/// # Errors
/// Data when it is not an Arrow stream, with the offset of the message that is wrong.
pub(super) fn walk(object: &Object, stop: &AtomicBool) -> Result<Messages> {
    let (head, mut at) = head(object)?;
    let columns = head.schema.fields().len();
    let mut messages = Messages::default();
    loop {
        check(stop)?;
        messages.starts.push(at);
        let Some(described) = describe(object, at)? else { return Ok(messages) };
        let blame = |e: Error| e.with("offset", at);
        let (rows, body) = guarded(object.uri(), || {
            let message = message(&described.bytes)?;
            let rows = match message.header_type() {
                MessageHeader::DictionaryBatch => None,
                MessageHeader::RecordBatch => {
                    message.header_as_record_batch().map(|batch| rows_of(batch, columns)).transpose()?
                }
                other => {
                    let what =
                        format!("a message that is no record batch: {}", other.variant_name().unwrap_or("unknown"));
                    return Err(ArrowError::ParseError(what));
                }
            };
            Ok((rows, message.bodyLength()))
        })
        .map_err(blame)?;
        let below = |_| blame(corrupt(object.uri(), "a length below zero"));
        match rows {
            Some(rows) => messages.rows.push(rows),
            None => messages.dictionaries.push(messages.starts.len() as u64 - 1),
        }
        let end = described.body.checked_add(u64::try_from(body).map_err(below)?);
        at = end
            .filter(|&end| end <= object.size())
            .ok_or_else(|| fail::truncated(object.uri(), "an arrow stream ends within a message").with("offset", at))?;
    }
}

/// The messages of a stream, told apart.
#[derive(Debug)]
pub(super) struct Stream {
    starts: Vec<u64>,
    /// The message of each record batch.
    batches: Vec<usize>,
    dictionaries: Vec<Dictionary>,
}

#[derive(Debug)]
struct Dictionary {
    message: usize,
    /// The id that columns use; not read where all dictionaries are before all record batches, because each is then
    /// needed.
    id: i64,
    /// Whether it extends the dictionary before it with the same id. Otherwise it replaces that dictionary.
    is_delta: bool,
}

impl Stream {
    /// Creates it from the index of a stream. Heads of dictionaries are read again where a later one may replace an
    /// earlier one.
    ///
    /// # Errors
    /// Data when the messages are not those of a stream, or a head cannot be read.
    pub(super) fn new(object: &Object, messages: Messages) -> Result<Self> {
        let Messages { starts, dictionaries, rows } = messages;
        let is_dictionary: HashSet<u64> = dictionaries.iter().copied().collect();
        let count = starts.len().saturating_sub(1);
        let batches: Vec<usize> = (0..count).filter(|&at| !is_dictionary.contains(&(at as u64))).collect();
        let is_one = batches.len() == rows.len() && starts.is_sorted() && dictionaries.is_sorted();
        if !is_one || dictionaries.last().is_some_and(|&last| last >= count as u64) {
            return Err(corrupt(object.uri(), "the index is of another stream"));
        }
        let first = batches.first().copied().unwrap_or(count);
        let may_change = dictionaries.iter().any(|&at| at as usize > first);
        let dictionary = |at: &u64| {
            let message = *at as usize;
            let (id, is_delta) = if may_change { named(object, starts[message])? } else { (*at as i64, false) };
            Ok(Dictionary { message, id, is_delta })
        };
        let dictionaries = dictionaries.iter().map(dictionary).collect::<Result<_>>()?;
        Ok(Self { starts, batches, dictionaries })
    }

    /// Returns the message of a record batch.
    pub(super) fn batch(&self, group: usize) -> Option<usize> {
        self.batches.get(group).copied()
    }

    /// Returns how many dictionaries are before a message, and which of these are in force there, in order.
    pub(super) fn dictionaries(&self, message: usize) -> (usize, Vec<usize>) {
        let count = self.dictionaries.partition_point(|dictionary| dictionary.message < message);
        let mut replaced = HashSet::new();
        let in_force = |dictionary: &&Dictionary| {
            let is_in_force = !replaced.contains(&dictionary.id);
            if !dictionary.is_delta {
                replaced.insert(dictionary.id);
            }
            is_in_force
        };
        let mut found: Vec<usize> =
            self.dictionaries[..count].iter().rev().filter(in_force).map(|d| d.message).collect();
        found.reverse();
        (count, found)
    }

    /// Reads a message.
    ///
    /// # Errors
    /// Data when it is not there; Exhausted when it is above the memory limit.
    pub(super) fn read(&self, object: &Object, message: usize) -> Result<(Block, Buffer)> {
        let (start, all) = (self.starts[message], self.starts[message + 1] - self.starts[message]);
        limits::group("a record batch", all, limits::group_bytes_max(all)).map_err(|e| e.with("file", object.uri()))?;
        object.check_range(start, all)?;
        let mut bytes = MutableBuffer::from_len_zeroed(all as usize);
        object.read_at(start, bytes.as_slice_mut())?;
        let bytes: Buffer = bytes.into();
        let broken = || corrupt(object.uri(), "a message is not where it was").with("offset", start);
        let (head, _) = length(&bytes[..bytes.len().min(PREFIX_BYTES)]).ok_or_else(broken)?;
        let body = all.checked_sub(head).ok_or_else(broken)?;
        let head = i32::try_from(head).map_err(|_| broken())?;
        Ok((Block::new(start as i64, head, body as i64), bytes))
    }
}

/// Reads the id of a dictionary, and whether it extends another.
fn named(object: &Object, at: u64) -> Result<(i64, bool)> {
    let none = || corrupt(object.uri(), "a dictionary is not where it was").with("offset", at);
    let described = describe(object, at)?.ok_or_else(none)?;
    guarded(object.uri(), || {
        let message = message(&described.bytes)?;
        let dictionary = message.header_as_dictionary_batch();
        let dictionary = dictionary.ok_or_else(|| ArrowError::ParseError("no dictionary".to_owned()))?;
        Ok((dictionary.id(), dictionary.isDelta()))
    })
}
