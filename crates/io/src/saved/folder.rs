//! The folder: what it holds, said by a small JSON file and by the names of its parts.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use forebay_core::{Error, ErrorKind, Result};
use forebay_data::Field;
use serde::{Deserialize, Serialize};

use crate::fail;

/// The format of the folder. Another one is refused.
const FORMAT: u32 = 1;
/// What the folder holds.
const HEAD: &str = "_forebay.json";
/// What files that are being written are called until they are done.
pub(super) const UNFINISHED: &str = ".unfinished";

/// What is saved in a folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// The format of the folder.
    format: u32,
    /// The version of Forebay that began it.
    version: String,
    /// Which dataset.
    pub dataset: String,
    /// What everything random in it followed from.
    pub seed: u64,
    /// How many epochs of it, one behind the other.
    pub epochs: u64,
    /// Its columns.
    pub schema: Vec<Field>,
    /// How much there is; `None` while it is being written.
    pub complete: Option<Complete>,
}

/// All that was saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Complete {
    /// Files.
    pub parts: u64,
    /// Rows in them.
    pub rows: u64,
}

/// A folder that was looked into.
#[derive(Debug, Clone)]
pub struct Saved {
    /// What it says of itself.
    pub head: Head,
    /// Its parts, in order.
    pub parts: Vec<PathBuf>,
}

impl Head {
    /// Says what is to be saved.
    pub fn new(dataset: &str, seed: u64, epochs: u64, schema: Vec<Field>) -> Self {
        let (version, dataset) = (forebay_core::VERSION.to_owned(), dataset.to_owned());
        Self { format: FORMAT, version, dataset, seed, epochs, schema, complete: None }
    }

    /// Says whether both are the same rows.
    pub(super) fn is_of(&self, other: &Self) -> bool {
        (&self.dataset, self.seed, self.epochs, &self.schema)
            == (&other.dataset, other.seed, other.epochs, &other.schema)
    }

    /// Writes it into its folder, all at once.
    ///
    /// # Errors
    /// Unavailable or PermissionDenied, naming the file.
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        let (path, json) = (folder.join(HEAD), serde_json::to_vec_pretty(self));
        let json = json.map_err(|e| Error::internal(format!("a head: {e}")))?;
        let new = folder.join(format!("{HEAD}{UNFINISHED}"));
        let write = || {
            let mut file = File::create(&new)?;
            file.write_all(&json)?;
            file.sync_all()
        };
        write().map_err(|e| unwritten(&new, &e))?;
        publish(&new, &path)
    }
}

/// Gives a file that is done its name, for good.
///
/// # Errors
/// Unavailable or PermissionDenied, naming the file.
pub(super) fn publish(from: &Path, to: &Path) -> Result<()> {
    let sync = || {
        fs::rename(from, to)?;
        to.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    };
    sync().map_err(|e| unwritten(to, &e))
}

/// Something could not be written.
pub(super) fn unwritten(path: &Path, e: &io::Error) -> Error {
    let (kind, hint) = match e.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            (ErrorKind::Exhausted, "make room and save again: it goes on behind the last file")
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            (ErrorKind::PermissionDenied, "give this user write permission on the folder, or save to another one")
        }
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            (ErrorKind::Invalid, "a file is where a folder is needed: save to another path")
        }
        _ => (ErrorKind::Unavailable, "save again: it goes on behind the last file"),
    };
    Error::new(kind, format!("this could not be written: {e}")).with("file", path.display()).hint(hint)
}

/// Names a part.
pub(super) fn part(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("part-{number:08}.arrow"))
}

/// Looks into a folder that `save` wrote; `None` when nothing was ever saved there.
///
/// # Errors
/// Data when it is not such a folder, or of another format, or lacks parts that were there.
pub fn open(folder: &Path) -> Result<Option<Saved>> {
    let path = folder.join(HEAD);
    let json = match fs::read(&path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
            return Err(Error::invalid("this is a file, not a folder that save() wrote")
                .with("file", folder.display())
                .hint("load() takes the folder; from_arrow() reads files by themselves"));
        }
        Err(e) => return Err(fail::io(&path.to_string_lossy(), e)),
        Ok(json) => json,
    };
    let broken = |what: String| {
        Error::data(what).with("file", path.display()).hint("save it again, to another folder or with overwrite=True")
    };
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let Format { format } =
        serde_json::from_slice(&json).map_err(|e| broken(format!("not what save() writes: {e}")))?;
    if format != FORMAT {
        return Err(Error::new(
            ErrorKind::Version,
            format!("format {format} is not known: this version reads {FORMAT}"),
        )
        .with("file", path.display())
        .hint("read it with the version of Forebay that wrote it, or save it again"));
    }
    let head: Head = serde_json::from_slice(&json).map_err(|e| broken(format!("not what save() writes: {e}")))?;
    let parts: Vec<PathBuf> = (0..).map(|n| part(folder, n)).take_while(|path| path.is_file()).collect();
    if let Some(complete) = head.complete
        && complete.parts != parts.len() as u64
    {
        let (is, was) = (parts.len(), complete.parts);
        return Err(broken(format!("{is} of {was} parts are there, without a gap"))
            .with("next", part(folder, is as u64).display()));
    }
    Ok(Some(Saved { head, parts }))
}
