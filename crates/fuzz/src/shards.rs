//! Formats of several files: an index, and the shards that it describes. Also flat files of token ids, which have
//! neither.
//!
//! An input is a byte that chooses how files are named or read, the length of the index (`u16`), the index and the
//! shard. In the text of an index, `@` stands for the size of the shard, so that a mutated shard of another size is
//! still read.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};

use forebay_data::DType;
use forebay_io::Draft;

use crate::files::read;

/// A folder that each run of a target on this thread writes again. Deleted with the thread.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let thread = format!("{:?}", std::thread::current().id()).replace(['(', ')'], "-");
        let path = std::env::temp_dir().join(format!("forebay-fuzz-{}-{thread}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn write(&self, files: &[(&str, &[u8])]) -> &Path {
        for entry in fs::read_dir(&self.0).expect("a folder") {
            fs::remove_file(entry.expect("an entry").path()).expect("removed");
        }
        files.iter().for_each(|(name, bytes)| fs::write(self.0.join(name), bytes).expect("written"));
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

thread_local! {
    static FOLDER: RefCell<Folder> = RefCell::new(Folder::new());
}

/// Reads `files`; `draft` receives their folder.
fn read_files(files: &[(&str, &[u8])], draft: impl FnOnce(&Path) -> Draft) {
    FOLDER.with_borrow(|folder| read(draft(folder.write(files))));
}

fn path_of(folder: &Path) -> Vec<String> {
    vec![folder.to_str().expect("text").to_owned()]
}

/// The parts of an input.
struct Parts<'d> {
    choice: u8,
    index: &'d [u8],
    shard: &'d [u8],
}

fn parts(data: &[u8]) -> Option<Parts<'_>> {
    let (&choice, data) = data.split_first()?;
    let (len, data) = data.split_first_chunk::<2>()?;
    let (index, shard) = data.split_at_checked(u16::from_le_bytes(*len).into())?;
    Some(Parts { choice, index, shard })
}

/// Puts the size of the shard where the index has `@`.
fn with_size(parts: &Parts<'_>) -> Vec<u8> {
    let size = parts.shard.len().to_string();
    let pieces: Vec<&[u8]> = parts.index.split(|byte| *byte == b'@').collect();
    pieces.join(size.as_bytes())
}

/// MosaicML's shards: the first byte chooses whether the shard is compressed.
pub(crate) fn mds(data: &[u8]) {
    let Some(parts) = parts(data) else { return };
    let name = ["s.mds", "s.mds.zstd", "s.mds.gz"][usize::from(parts.choice % 3)];
    let files = [("index.json", &with_size(&parts)[..]), (name, parts.shard)];
    read_files(&files, |folder| Draft::Mds { paths: path_of(folder), columns: None });
}

/// LitData's chunks: `c.bin`.
pub(crate) fn litdata(data: &[u8]) {
    let Some(parts) = parts(data) else { return };
    let files = [("index.json", &with_size(&parts)[..]), ("c.bin", parts.shard)];
    read_files(&files, |folder| Draft::Litdata { paths: path_of(folder), columns: None });
}

/// Megatron's datasets: `m.idx` and `m.bin`.
pub(crate) fn megatron(data: &[u8]) {
    let Some(parts) = parts(data) else { return };
    let files = [("m.idx", parts.index), ("m.bin", parts.shard)];
    read_files(&files, |folder| {
        let paths = path_of(&folder.join("m"));
        Draft::Megatron { paths, column: "ids".to_owned() }
    });
}

/// A flat file, of llm.c or of NumPy. The first byte chooses the type, the length of a row and its stride.
pub(crate) fn tokens(data: &[u8]) {
    let Some((&choice, file)) = data.split_first() else { return };
    let dtype = [DType::Uint16, DType::Uint32, DType::Int32, DType::Int64][usize::from(choice & 3)];
    let length = u64::from(choice >> 2 & 7) + 1;
    let stride = (choice >> 5 > 0).then_some(u64::from(choice >> 5));
    read_files(&[("t.bin", file)], |folder| {
        let paths = path_of(&folder.join("t.bin"));
        Draft::Tokens { paths, dtype, length, stride, column: "ids".to_owned() }
    });
}
