//! The properties of sources that planners need, in one table: a new source has one line here.

use std::borrow::Cow;

use super::{Source, Wrap};

/// The time at which the number of rows of a source is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowsKnown {
    /// When the user writes the source: it reads no file.
    AtOnce,
    /// When its files are listed, or their footers or indexes are read.
    ByIndex,
    /// When every file is read from its start.
    ByReading,
    /// Never: its rows have no names, and cannot be read in another order.
    Never,
}

/// Properties of a source that do not depend on its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceFacts {
    /// The name of its Python function.
    pub name: &'static str,
    /// When the number of its rows is known.
    pub rows: RowsKnown,
    /// Whether a row cannot be decoded without its neighbours: row groups, or shards that are compressed as a whole.
    pub in_groups: bool,
    /// An upper bound, for most files, of the bytes in memory for each stored byte.
    pub expansion: u64,
    /// Whether a row is a line, so that finding its end costs little.
    pub is_lines: bool,
    /// For rows that are found by reading: whether a reader that begins in the middle of a file finds the next row.
    pub begins_anywhere: bool,
    /// Whether its paths name folders.
    pub names_folders: bool,
}

/// The bytes in memory for each byte of compressed columns or shards.
const COMPRESSED: u64 = 4;

impl SourceFacts {
    const fn new(name: &'static str, rows: RowsKnown) -> Self {
        Self {
            name,
            rows,
            in_groups: false,
            expansion: 1,
            is_lines: false,
            begins_anywhere: true,
            names_folders: false,
        }
    }

    const fn lines(name: &'static str) -> Self {
        Self { is_lines: true, ..Self::new(name, RowsKnown::ByReading) }
    }

    const fn shards(name: &'static str, is_packed: bool) -> Self {
        let expansion = if is_packed { COMPRESSED } else { 1 };
        Self { in_groups: is_packed, expansion, names_folders: true, ..Self::new(name, RowsKnown::ByIndex) }
    }
}

impl Source {
    /// Returns its properties.
    pub fn facts(&self) -> SourceFacts {
        use RowsKnown::{AtOnce, ByIndex, ByReading, Never};
        match self {
            Source::Files { .. } => SourceFacts::new("from_files", ByIndex),
            Source::ImageFolder { .. } => {
                SourceFacts { names_folders: true, ..SourceFacts::new("from_image_folder", ByIndex) }
            }
            Source::Tar { .. } => SourceFacts::new("from_tar", ByReading),
            Source::Tfrecord { .. } => SourceFacts::new("from_tfrecord", ByReading),
            Source::Parquet { .. } => {
                SourceFacts { in_groups: true, expansion: COMPRESSED, ..SourceFacts::new("from_parquet", ByIndex) }
            }
            Source::Arrow { .. } => SourceFacts { in_groups: true, ..SourceFacts::new("from_arrow", ByIndex) },
            Source::Text { .. } => SourceFacts::lines("from_text"),
            Source::Jsonl { .. } => SourceFacts::lines("from_jsonl"),
            Source::Json { .. } => SourceFacts { begins_anywhere: false, ..SourceFacts::new("from_json", ByReading) },
            Source::Csv { dialect, .. } => {
                let is_line = !dialect.multiline;
                SourceFacts { begins_anywhere: is_line, is_lines: is_line, ..SourceFacts::lines("from_csv") }
            }
            Source::Tokens { .. } => SourceFacts::new("from_tokens", ByIndex),
            Source::Megatron { .. } => SourceFacts::new("from_megatron", ByIndex),
            Source::Mds { packed, .. } => SourceFacts::shards("from_mds", *packed),
            Source::Litdata { wrap, .. } => SourceFacts::shards("from_litdata", *wrap != Wrap::None),
            Source::Memory { .. } => SourceFacts::new("from_numpy", AtOnce),
            Source::MapDataset { .. } => SourceFacts::new("from_map_dataset", AtOnce),
            Source::Generator { .. } => SourceFacts::new("from_generator", Never),
            Source::Range { .. } => SourceFacts::new("range", AtOnce),
            // The index has the indexes of all parts.
            Source::Combined(combined) => {
                let expansion = combined.parts.iter().map(|part| part.graph.source().facts().expansion).max();
                let rows = if combined.is_streamed() { Never } else { ByIndex };
                SourceFacts { expansion: expansion.unwrap_or(1), ..SourceFacts::new(combined.name(), rows) }
            }
        }
    }

    /// Returns the name of its Python function.
    pub fn name(&self) -> &'static str {
        self.facts().name
    }

    /// Returns whether it reads files, which are listed and pinned before they are read.
    pub fn reads_files(&self) -> bool {
        if let Source::Combined(combined) = self {
            return combined.parts.iter().any(|part| part.graph.source().reads_files());
        }
        matches!(self.facts().rows, RowsKnown::ByIndex | RowsKnown::ByReading)
    }

    /// Returns whether rows can be counted and read in any order, which `shuffle` and the other order ops need.
    pub fn can_index(&self) -> bool {
        self.facts().rows != RowsKnown::Never
    }

    /// Returns the number of rows if it is known without reading any file.
    pub fn rows(&self) -> Option<u64> {
        match self {
            Source::Memory { rows, .. } | Source::MapDataset { rows, .. } => Some(*rows),
            Source::Range { start, stop, step } => {
                let (span, step) = (i128::from(*stop) - i128::from(*start), i128::from(*step));
                Some(if span.signum() == step.signum() { (span + step - step.signum()) / step } else { 0 } as u64)
            }
            _ => None,
        }
    }

    /// Returns whether one of its files is in a store or on a server.
    pub fn is_remote(&self) -> bool {
        let is_remote =
            |path: &String| path.split_once("://").is_some_and(|(scheme, _)| scheme != "file" && !scheme.contains('/'));
        self.paths().iter().any(is_remote)
    }

    /// Returns whether it is a mix whose rows are put together at the consumer ([`Combined::is_streamed`]).
    ///
    /// [`Combined::is_streamed`]: super::Combined::is_streamed
    pub fn is_streamed_mix(&self) -> bool {
        matches!(self, Source::Combined(combined) if combined.is_streamed())
    }

    /// Returns the rows of an epoch of a mix that is put together at the consumer, if the user set them.
    pub fn rows_of_mix(&self) -> Option<u64> {
        match self {
            Source::Combined(super::Combined {
                how: super::Combining::Mix { stop: super::Stop::Rows(rows), .. },
                ..
            }) if self.is_streamed_mix() => Some(*rows),
            _ => None,
        }
    }

    /// Returns whether its rows never end.
    pub fn is_endless(&self) -> bool {
        matches!(self, Source::Combined(combined) if combined.is_endless())
    }

    /// Returns the patterns of its files; none for a source without files.
    pub fn paths(&self) -> Cow<'_, [String]> {
        Cow::Borrowed(match self {
            Source::Files { paths }
            | Source::Tar { paths, .. }
            | Source::Tfrecord { paths, .. }
            | Source::Parquet { paths, .. }
            | Source::Arrow { paths, .. }
            | Source::Text { paths }
            | Source::Csv { paths, .. }
            | Source::Tokens { paths, .. }
            | Source::Megatron { paths, .. }
            | Source::Mds { paths, .. }
            | Source::Litdata { paths, .. }
            | Source::Json { paths, .. }
            | Source::Jsonl { paths, .. } => paths,
            Source::ImageFolder { root } => std::slice::from_ref(root),
            Source::Memory { .. } | Source::MapDataset { .. } | Source::Generator { .. } | Source::Range { .. } => &[],
            Source::Combined(combined) => {
                let paths = |part: &super::SourcePart| part.graph.source().paths().into_owned();
                return Cow::Owned(combined.parts.iter().flat_map(paths).collect());
            }
        })
    }

    /// Returns the source without its files, so that pipelines over other files compare as equal.
    pub(crate) fn without_paths(&self) -> Self {
        let mut source = self.clone();
        match &mut source {
            Source::Files { paths }
            | Source::Tar { paths, .. }
            | Source::Tfrecord { paths, .. }
            | Source::Parquet { paths, .. }
            | Source::Arrow { paths, .. }
            | Source::Text { paths }
            | Source::Csv { paths, .. }
            | Source::Tokens { paths, .. }
            | Source::Megatron { paths, .. }
            | Source::Mds { paths, .. }
            | Source::Litdata { paths, .. }
            | Source::Json { paths, .. }
            | Source::Jsonl { paths, .. } => paths.clear(),
            Source::ImageFolder { root } => root.clear(),
            Source::Combined(combined) => {
                combined.each_graph(|graph| graph.with_source(graph.source().without_paths()))
            }
            Source::Memory { .. } | Source::MapDataset { .. } | Source::Generator { .. } | Source::Range { .. } => {}
        }
        source
    }

    /// Returns the source as it is hashed and compared: a Python object by its code, not by its pickle.
    pub(crate) fn named(&self) -> Self {
        let mut source = self.clone();
        if let Source::MapDataset { blob, code, .. } | Source::Generator { blob, code, .. } = &mut source {
            blob.name_by(code);
        }
        if let Source::Combined(combined) = &mut source {
            combined.be_named();
        }
        source
    }

    /// Returns its files, rows or range, for people.
    pub fn describe(&self) -> String {
        match self {
            Source::Memory { rows, .. } | Source::MapDataset { rows, .. } => format!("{rows} rows"),
            Source::Generator { .. } => "python generator".to_owned(),
            Source::Range { start, stop, step: 1 } => format!("{start}..{stop}"),
            Source::Range { start, stop, step } => format!("{start}..{stop} by {step}"),
            Source::Combined(combined) => combined.describe(),
            _ => match self.paths().as_ref() {
                [one] => format!("{one:?}"),
                many => format!("{} paths", many.len()),
            },
        }
    }
}
