//! Small files of each format, made by this project's writers or byte by byte.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, LargeBinaryArray, LargeStringArray, RecordBatch};
use bytes::Bytes;
use forebay_core::{Epoch, SampleId};
use forebay_data::{Chunk, DType, Field, FixedTensorBuilder, Kind, RowId, Schema, VariableTensorBuilder};
use forebay_io::saved::{Files, Format, Head, Writer};
use forebay_io::{Draft, infer};
use forebay_plan::Source;

/// A small source of one format, in a folder of its own.
pub(super) struct Sample {
    /// Its name in messages.
    pub(super) name: String,
    /// The draft, as the user writes it; `None` for a source that reads no file.
    pub(super) draft: Option<Draft>,
    /// The source, where there is no draft.
    pub(super) made: Option<Source>,
    pub(super) blobs: Vec<Bytes>,
    pub(super) rows: u64,
    folder: tempfile::TempDir,
}

impl Sample {
    /// A sample whose files `make` writes into a folder; `make` returns the draft.
    pub(super) fn of_files(name: &str, rows: u64, make: impl FnOnce(&Path) -> Draft) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let draft = Some(make(folder.path()));
        Self { name: name.to_owned(), draft, made: None, blobs: Vec::new(), rows, folder }
    }

    /// A sample of a source that reads no file.
    pub(super) fn of_none(name: &str, rows: u64, source: Source, blobs: Vec<Bytes>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self { name: name.to_owned(), draft: None, made: Some(source), blobs, rows, folder }
    }

    pub(super) fn source(&self) -> Source {
        match (&self.draft, &self.made) {
            (Some(draft), _) => infer(draft.clone(), None).unwrap_or_else(|e| panic!("{}: {e}", self.name)),
            (None, made) => made.clone().expect("a draft or a source"),
        }
    }

    /// Returns all files of the folder, sorted.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        files_below(self.folder.path(), &mut found);
        found.sort();
        found
    }

    /// Returns the line ends in all files.
    pub(super) fn line_ends(&self) -> usize {
        let ends = |path: PathBuf| std::fs::read(path).expect("a file").iter().filter(|&&byte| byte == b'\n').count();
        self.files().into_iter().map(ends).sum()
    }
}

fn files_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { files_below(&path, found) } else { found.push(path) }
    }
}

/// Rows `first..first + rows`: a number, a text, bytes, two real numbers and a list of any length.
pub(super) fn rows_from(first: i64, rows: usize) -> Chunk {
    let numbers = first..first + rows as i64;
    let mut pairs = FixedTensorBuilder::new(DType::Float32, &[2], rows);
    let mut lists = VariableTensorBuilder::new(DType::Int32, 1);
    for (row, n) in numbers.clone().enumerate() {
        let values = [n as f32 / 3.0, -(n as f32)];
        pairs.slot(row).copy_from_slice(&values.map(f32::to_le_bytes).concat());
        let list: Vec<u8> = (0..n as i32 % 4).flat_map(|i| (i - n as i32).to_le_bytes()).collect();
        lists.push(&[list.len() / 4], &list).expect("a list");
    }
    let texts = numbers.clone().map(|n| Some("zwölf ".repeat(n as usize % 5) + &n.to_string()));
    let blobs = numbers.clone().map(|n| Some(vec![n as u8; n as usize * 7 % 23]));
    let fields = vec![
        Field::new("n", Kind::scalar(DType::Int64)),
        Field::new("text", Kind::Utf8),
        Field::new("blob", Kind::Bytes),
        Field::new("pair", Kind::fixed(DType::Float32, &[2])),
        Field::new("list", Kind::Tensor { dtype: DType::Int32, shape: vec![None] }),
    ];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(numbers)),
        Arc::new(texts.collect::<LargeStringArray>()),
        Arc::new(blobs.collect::<LargeBinaryArray>()),
        pairs.finish().expect("tensors"),
        lists.finish().expect("tensors"),
    ];
    let ids = vec![RowId { sample: SampleId(0), epoch: Epoch(0) }; rows];
    Chunk::new(Arc::new(Schema::new(fields).expect("a schema")), columns, ids.into()).expect("a chunk")
}

/// Saves rows to a folder as `save` does, in several files. Only the files of rows, and an index beside them, stay.
pub(super) fn saved(folder: &Path, rows: &Chunk, format: Format, bytes: u64) {
    let files = Files { format, compression: None, bytes };
    let head = Head::new("a sample", 0, 1, None, files, rows.schema().fields().to_vec());
    let folder = folder.to_str().expect("utf-8");
    let (mut writer, _) = Writer::begin(folder, head, false, Arc::new(|| Ok(()))).expect("begins");
    let mut is_full = writer.push(rows).expect("written").is_some();
    while is_full {
        writer.end_part("a state").expect("written");
        is_full = writer.go_on().expect("written").is_some();
    }
    writer.finish("the last state").expect("written");
    std::fs::remove_file(Path::new(folder).join("_forebay.json")).expect("a head");
}

/// Writes a Parquet file with row groups of `group` rows.
pub(super) fn parquet_of(batch: &RecordBatch, group: usize) -> Vec<u8> {
    let properties = parquet::file::properties::WriterProperties::builder();
    let properties = properties.set_max_row_group_row_count(Some(group)).build();
    let mut bytes = Vec::new();
    let mut writer =
        parquet::arrow::ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).expect("a writer");
    writer.write(batch).expect("written");
    writer.close().expect("written");
    bytes
}

/// Writes an Arrow stream of messages with `group` rows each.
pub(super) fn arrow_stream_of(batch: &RecordBatch, group: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(&mut bytes, &batch.schema()).expect("a writer");
    for first in (0..batch.num_rows()).step_by(group) {
        writer.write(&batch.slice(first, group.min(batch.num_rows() - first))).expect("written");
    }
    writer.finish().expect("written");
    drop(writer);
    bytes
}

/// Compresses a file as a whole.
pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut encoder, bytes).expect("memory");
    encoder.finish().expect("memory")
}

/// Writes the two files of a dataset of Megatron: each document is one sequence.
pub(super) fn write_megatron(folder: &Path, name: &str, documents: &[Vec<u16>]) -> String {
    let ids: Vec<u8> = documents.iter().flatten().flat_map(|id| id.to_le_bytes()).collect();
    let mut index = b"MMIDIDX\0\0".to_vec();
    index.extend(1u64.to_le_bytes());
    index.push(8);
    index.extend((documents.len() as u64).to_le_bytes());
    index.extend((documents.len() as u64 + 1).to_le_bytes());
    index.extend(documents.iter().flat_map(|ids| (ids.len() as i32).to_le_bytes()));
    let begins = documents.iter().scan(0i64, |at, ids| Some(std::mem::replace(at, *at + 2 * ids.len() as i64)));
    index.extend(begins.flat_map(i64::to_le_bytes));
    index.extend((0..=documents.len() as i64).flat_map(i64::to_le_bytes));
    crate::support::write(folder, &format!("{name}.bin"), &ids);
    crate::support::write(folder, &format!("{name}.idx"), &index);
    folder.join(name).to_str().expect("utf-8").to_owned()
}

/// Writes an array of NumPy.
pub(super) fn npy(ids: &[u16]) -> Vec<u8> {
    let head = format!("{{'descr': '<u2', 'fortran_order': False, 'shape': ({},), }}", ids.len());
    let head = format!("{head:<117}\n");
    let mut bytes = b"\x93NUMPY\x01\0".to_vec();
    bytes.extend((head.len() as u16).to_le_bytes());
    bytes.extend(head.as_bytes());
    bytes.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
    bytes
}

/// Divides a TFRecord file before one of its records.
pub(super) fn divided(records: &[u8], at: usize) -> (Vec<u8>, Vec<u8>) {
    let length = |from: usize| u64::from_le_bytes(*records[from..].first_chunk().expect("a length")) as usize;
    let middle = (0..at).fold(0, |from, _| from + length(from) + 16);
    (records[..middle].to_vec(), records[middle..].to_vec())
}

/// Copies a folder of files that another library wrote, and returns its path.
pub(super) fn golden_folder(from: &str, to: &Path) -> String {
    let from: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../python/tests/golden", from].iter().collect();
    for entry in std::fs::read_dir(from).expect("a folder of golden files") {
        let entry = entry.expect("an entry");
        std::fs::copy(entry.path(), to.join(entry.file_name())).expect("copied");
    }
    to.to_str().expect("utf-8").to_owned()
}
