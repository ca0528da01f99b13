//! The head: a small JSON file with the description and the progress of a save; also the names of files.

use forebay_core::{Error, ErrorKind, Result};
use forebay_data::Field;
use serde::{Deserialize, Serialize};

use super::Format;
use super::encode::Files;
use super::sink::UNFINISHED;

/// The format of the folder. Other versions are refused.
const FORMAT: u32 = 2;
/// The head of one writer.
const HEAD: &str = "_forebay.json";
/// The folder of the heads of several writers.
pub(super) const HEADS: &str = "_forebay";
/// The most bytes of a head: a state may list many skipped samples.
pub(super) const HEAD_BYTES_MAX: u64 = 64 << 20;

/// The head of one writer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// The format of the folder.
    format: u32,
    /// The version of Forebay that began the save.
    version: String,
    /// The id of the dataset.
    pub dataset: String,
    /// The seed of all randomness in it.
    pub seed: u64,
    /// The number of epochs, saved one after another.
    pub epochs: u64,
    /// The number of this writer, and of all writers; `None` for a single one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer: Option<(u64, u64)>,
    /// The format and size of files.
    pub files: Files,
    /// Its columns.
    pub schema: Vec<Field>,
    /// The id of the process that writes, while the save is incomplete; no other process has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) writer: Option<String>,
    /// The progress.
    pub so_far: SoFar,
    /// The totals; `None` while the save is incomplete.
    pub complete: Option<Complete>,
}

/// The progress of a writer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SoFar {
    /// Files that are complete.
    pub parts: u64,
    /// Rows in them.
    pub rows: u64,
    /// The state from which the reader continues after them; `None` at the beginning.
    pub state: Option<String>,
}

/// The totals of a complete save.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Complete {
    /// Files.
    pub parts: u64,
    /// Rows in them.
    pub rows: u64,
}

impl Head {
    /// Creates the head of a new save.
    pub fn new(
        dataset: &str,
        seed: u64,
        epochs: u64,
        consumer: Option<(u64, u64)>,
        files: Files,
        schema: Vec<Field>,
    ) -> Self {
        let (version, dataset) = (forebay_core::VERSION.to_owned(), dataset.to_owned());
        let so_far = SoFar::default();
        Self {
            format: FORMAT,
            version,
            dataset,
            seed,
            epochs,
            consumer,
            files,
            schema,
            writer: None,
            so_far,
            complete: None,
        }
    }

    /// Parses a head; `named` is for errors.
    ///
    /// # Errors
    /// Data when it is not a head; Version when another version of Forebay wrote it.
    pub(super) fn parse(json: &[u8], named: &str) -> Result<Self> {
        #[derive(Deserialize)]
        struct Numbered {
            format: u32,
        }
        let broken = |e: serde_json::Error| {
            Error::data(format!("not what save() writes: {e}"))
                .with("file", named)
                .hint("save it again, to another folder or with overwrite=True")
        };
        let Numbered { format } = serde_json::from_slice(json).map_err(broken)?;
        if format != FORMAT {
            let message = format!("format {format} is not known: this version reads {FORMAT}");
            return Err(Error::new(ErrorKind::Version, message).with("file", named).hint(
                "read it with the version of Forebay that wrote it, or its files with from_arrow(); or save it again",
            ));
        }
        serde_json::from_slice(json).map_err(broken)
    }

    pub(super) fn json(&self) -> Result<Vec<u8>> {
        serde_json::to_vec_pretty(self).map_err(|e| Error::internal(format!("a head: {e}")))
    }

    /// Returns the name of the head's file.
    pub(super) fn file(&self) -> String {
        self.consumer.map_or(HEAD.to_owned(), head_of)
    }

    /// Returns the name of a file of rows.
    pub(super) fn part(&self, number: u64) -> String {
        let extension = self.files.format.name();
        match self.consumer {
            None => format!("part-{number:08}.{extension}"),
            Some((i, n)) => format!("part-{i:05}-of-{n:05}-{number:08}.{extension}"),
        }
    }

    /// Returns a pattern of the names of the complete files; `None` when there are none.
    pub(super) fn parts(&self) -> Option<String> {
        let last = self.so_far.parts.checked_sub(1)?;
        let of_two = |number: u64| format!("{number:08}");
        let range = format!("{{{}..{}}}", of_two(0), of_two(last));
        Some(self.part(0).replacen(&of_two(0), &range, 1))
    }

    /// Returns a difference between two heads that should describe the same save.
    pub(super) fn differs(&self, other: &Self) -> Option<(String, String)> {
        let what = |head: &Self| {
            let dataset = head.dataset.get(..12).unwrap_or(&head.dataset);
            format!("{} epochs of dataset {dataset} with seed {}", head.epochs, head.seed)
        };
        let files = |head: &Self| format!("{} of {} bytes", head.files.name(), head.files.bytes);
        let of = |head: &Self| (head.dataset.clone(), head.seed, head.epochs, head.schema.clone());
        if of(self) != of(other) {
            return Some((what(self), what(other)));
        }
        (self.files != other.files).then(|| (files(self), files(other)))
    }
}

/// Returns the name of the head of one of several writers.
pub(super) fn head_of((i, n): (u64, u64)) -> String {
    format!("{HEADS}/{i:05}-of-{n:05}.json")
}

/// Returns the name of the head of a single writer.
pub(super) fn only_head() -> &'static str {
    HEAD
}

/// Says whether `save` wrote a file of a folder, by its name. Similar names (`part-00000-ab.parquet`) are not its own.
pub(super) fn is_ours(name: &str) -> bool {
    let name = name.strip_suffix(UNFINISHED).unwrap_or(name);
    name == HEAD || name == HEADS || name.starts_with(&format!("{HEADS}/")) || is_part(name)
}

/// Says whether a file is a file of rows: `part-00000000.arrow`, or `part-00001-of-00004-00000000.arrow`.
fn is_part(name: &str) -> bool {
    let digits = |text: &str, least: usize| text.len() >= least && text.bytes().all(|byte| byte.is_ascii_digit());
    let Some((number, extension)) = name.strip_prefix("part-").and_then(|rest| rest.split_once('.')) else {
        return false;
    };
    let is_numbered = match number.split('-').collect::<Vec<_>>()[..] {
        [number] => digits(number, 8),
        [i, "of", n, number] => digits(i, 5) && digits(n, 5) && digits(number, 8),
        _ => false,
    };
    is_numbered && Format::ALL.into_iter().any(|format| format.name() == extension)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overwrite_removes_is_ours_alone() {
        let files = Files { format: Format::Parquet, compression: None, bytes: 1 };
        for consumer in [None, Some((1, 4)), Some((123_456, 1_000_000))] {
            let head = Head::new("a", 0, 1, consumer, files, Vec::new());
            for name in [head.part(0), head.part(123_456_789), head.file(), format!("{}{UNFINISHED}", head.part(7))] {
                assert!(is_ours(&name), "{name}");
            }
        }
        let others = [
            "part-00000-8a1b.snappy.parquet",
            "part-0000001.arrow",
            "part-00000000.txt",
            "index.json",
            "_lock",
            "part-",
        ];
        for name in others {
            assert!(!is_ours(name), "{name}");
        }
    }
}
