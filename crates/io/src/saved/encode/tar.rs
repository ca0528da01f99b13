//! Tar archives in WebDataset's layout: one member for each column of a sample, named after both.
//!
//! The column `__key__` names the samples; without it their numbers in the stream do. Headers are POSIX (ustar), with
//! an extended header for a longer name, and contain no owner and no time.

use std::io::Write;

use forebay_core::{Error, Result};
use forebay_data::{Chunk, Field, Kind, Schema};

use super::super::sink::{Sink, of_sink};
use super::cells::{Cells, text};
use super::{Encoder, Format, refused};
use crate::formats::tar::split_name;

const BLOCK: usize = 512;
/// The column that names samples.
const KEY: &str = "__key__";
/// The longest name in a plain header.
const NAME_MAX: usize = 100;
/// The largest member size in a plain header.
const SIZE_MAX: u64 = 0o77_777_777_777;
/// The ending of the names of array columns: WebDataset reads such members with NumPy.
const NPY: &str = "npy";

/// A tar archive.
pub(super) struct Tar {
    name: String,
    sink: Sink,
    consumer: Option<(u64, u64)>,
    /// The number of the next row in the stream.
    next: u64,
    has_keys: bool,
    last_key: Option<String>,
}

/// Refuses columns that cannot be members of a sample.
pub(super) fn check(schema: &Schema) -> Result<()> {
    let members: Vec<_> = schema.fields().iter().filter(|field| field.name != KEY).collect();
    if members.iter().all(|field| field.nullable) {
        return Err(Error::invalid("a sample of a tar archive needs a column that is never missing")
            .hint("without a member, a sample would not be there; fill_null, or save as arrow or parquet"));
    }
    for field in schema.fields() {
        let no = |why: &str, hint: &str| Err(refused(field, Format::Tar, why, hint));
        if field.name == KEY {
            if field.kind != Kind::Utf8 || field.nullable {
                return no("samples are named by it", "make it a text in every row, or drop it to have them numbered");
            }
            continue;
        }
        let is_extension = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-' | '.');
        let name = &field.name;
        if !name.chars().all(is_extension) || name.is_empty() || name.starts_with('.') || name.ends_with('.') {
            return no(
                "a column's name is the extension of its members, of which WebDataset makes lower case",
                "rename() it to small letters, digits, '_', '-' and '.', as in \"jpg\" or \"seg.png\"",
            );
        }
        if field.kind == Kind::Texts {
            return no("no member is a list of texts", "join them to one text, as .list.join(), or save as parquet");
        }
        if matches!(field.kind, Kind::Tensor { .. }) && !is_npy(field) {
            return no(
                "an archive holds bytes, text and numbers",
                "rename() it to \"npy\", or to a name that ends in \".npy\", to have arrays that NumPy reads; encode it to bytes; \
                 or save as arrow or parquet",
            );
        }
    }
    Ok(())
}

fn is_npy(field: &Field) -> bool {
    field.name.rsplit('.').next() == Some(NPY)
}

impl Tar {
    pub(super) fn new(schema: &Schema, consumer: Option<(u64, u64)>, first: u64, sink: Sink) -> Self {
        let has_keys = schema.position(KEY).is_some();
        Self { name: sink.name(), sink, consumer, next: first, has_keys, last_key: None }
    }

    /// Returns the key of a sample, after checking that its members will not be joined with another sample's.
    fn key(&mut self, given: Option<&str>) -> Result<String> {
        let number = self.next;
        self.next += 1;
        let Some(key) = given else {
            return Ok(match self.consumer {
                None => format!("{number:012}"),
                Some((i, _)) => format!("{i:05}-{number:012}"),
            });
        };
        let wrong = |what: &str| {
            Err(Error::data(format!("the key {key:?} {what}")).with("file", &self.name).with("row", number).hint(
                format!("give each sample a {KEY} of its own without dots behind the last '/'; or drop({KEY:?})"),
            ))
        };
        let probe = format!("{key}.x");
        if split_name(&probe) != Some((key, "x")) || key.contains('\0') || key.starts_with('/') {
            return wrong("would be read as another one: the extension begins at the first dot");
        }
        if self.last_key.as_deref() == Some(key) {
            return wrong("is that of the sample before it, and both would be read as one");
        }
        self.last_key = Some(key.to_owned());
        Ok(key.to_owned())
    }

    fn member(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        let too_large = || Error::data(format!("member {name:?} is too large for a tar archive"));
        if bytes.len() as u64 > SIZE_MAX {
            return Err(too_large().with("file", &self.name).hint("a member has less than 8 GiB"));
        }
        if name.len() > NAME_MAX || !name.is_ascii() {
            let path = extended("path", name);
            self.write(&header("././@PaxHeader", path.len(), b'x'), &path)?;
        }
        self.write(&header(name, bytes.len(), b'0'), bytes)
    }

    fn write(&mut self, header: &[u8; BLOCK], bytes: &[u8]) -> Result<()> {
        let padding = bytes.len().next_multiple_of(BLOCK) - bytes.len();
        let mut write = || {
            self.sink.write_all(header)?;
            self.sink.write_all(bytes)?;
            self.sink.write_all(&[0; BLOCK][..padding])
        };
        write().map_err(|e| of_sink(&self.name, e))
    }
}

impl Encoder for Tar {
    fn add(&mut self, rows: &Chunk) -> Result<()> {
        let schema = rows.schema().clone();
        let cells = schema.fields().iter().zip(rows.columns()).map(|(field, column)| Cells::of(field, column));
        let cells = cells.collect::<Result<Vec<_>>>()?;
        let keys = schema.position(KEY).filter(|_| self.has_keys);
        for row in 0..rows.num_rows() {
            let given = keys.map(|at| String::from_utf8_lossy(cells[at].bytes(row)).into_owned());
            let key = self.key(given.as_deref())?;
            let columns = schema.fields().iter().zip(&cells).filter(|(field, _)| field.name != KEY);
            for (field, cells) in columns.filter(|(_, cells)| !cells.is_missing(row)) {
                let name = format!("{key}.{}", field.name);
                match &field.kind {
                    Kind::Bytes | Kind::Utf8 | Kind::Texts => self.member(&name, cells.bytes(row))?,
                    Kind::Scalar { dtype } => self.member(&name, text(*dtype, cells.bytes(row)).as_bytes())?,
                    Kind::Tensor { .. } => self.member(&name, &npy(field, cells, row))?,
                }
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Sink> {
        self.sink.write_all(&[0; 2 * BLOCK]).map_err(|e| of_sink(&self.name, e))?;
        Ok(self.sink)
    }
}

/// Returns a header without a time or an owner.
fn header(name: &str, size: usize, kind: u8) -> [u8; BLOCK] {
    let mut header = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
    let mut end = name.len().min(NAME_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    put(0, &name.as_bytes()[..end]);
    put(100, b"0000644\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{size:011o}\0").as_bytes());
    put(136, b"00000000000\0");
    put(148, b"        ");
    put(156, &[kind]);
    put(257, b"ustar\x0000");
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}

/// Returns a record of an extended header, whose length counts itself.
fn extended(key: &str, value: &str) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let mut len = rest + 1;
    while len != rest + len.to_string().len() {
        len = rest + len.to_string().len();
    }
    format!("{len} {key}={value}\n").into_bytes()
}

/// Returns an array in NumPy's `.npy` format.
fn npy(field: &Field, cells: &Cells, row: usize) -> Vec<u8> {
    let dtype = field.kind.dtype().map_or("", |dtype| match dtype {
        forebay_data::DType::Bool => "|b1",
        forebay_data::DType::Int8 => "|i1",
        forebay_data::DType::Uint8 => "|u1",
        forebay_data::DType::Int16 => "<i2",
        forebay_data::DType::Int32 => "<i4",
        forebay_data::DType::Int64 => "<i8",
        forebay_data::DType::Uint16 => "<u2",
        forebay_data::DType::Uint32 => "<u4",
        forebay_data::DType::Uint64 => "<u8",
        forebay_data::DType::Float16 => "<f2",
        forebay_data::DType::Float32 => "<f4",
        forebay_data::DType::Float64 => "<f8",
    });
    let shape: Vec<u64> = match field.kind.known_shape() {
        Some(shape) => shape.into_iter().map(|dim| dim as u64).collect(),
        None => cells.shape(row),
    };
    let dims: String = shape.iter().map(|dim| format!("{dim},")).collect();
    let head = format!("{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({dims}), }}");
    // The numbers begin at a multiple of 64 bytes.
    let len = (10 + head.len() + 1).next_multiple_of(64) - 10;
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend_from_slice(&(len as u16).to_le_bytes());
    file.extend_from_slice(head.as_bytes());
    file.resize(10 + len - 1, b' ');
    file.push(b'\n');
    file.extend_from_slice(cells.bytes(row));
    file
}
