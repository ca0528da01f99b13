//! Files and folders as a file system shows them: names, attributes, and bytes by offset.
//!
//! A [`FileTree`] has the files and folders of one source: a folder of this machine, the objects below a prefix of a
//! store, or single files. It caches nothing between two calls. Invariants: a [`TreeFile`] is the pinned file, or
//! reading it is an error; no link of a local folder is followed, so no path leads out of the folder.

mod local;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use forebay_core::{Error, ErrorKind, Result};

use crate::store::find::levels::{self, Found, Level, Listed, is_prefix, level, objects};
use crate::store::{self, Arriving, Object, ReadThrough, Stat, is_remote};
use crate::{Allowed, fail};

use local::{LocalFile, LocalTree};

/// The pinned content of a file: its size, and the properties that distinguish it from other content of this name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pinned {
    stat: Stat,
    /// The inode number; 0 for a remote file.
    number: u64,
}

impl Pinned {
    /// Returns the size in bytes.
    pub fn size(&self) -> u64 {
        self.stat.size
    }
}

impl fmt::Display for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.stat)?;
        if self.number == 0 { Ok(()) } else { write!(f, ", number {}", self.number) }
    }
}

/// The properties of an entry besides its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// The modification time in nanoseconds since 1970; `None` for a folder of a store, which has no time.
    pub mtime: Option<i64>,
    /// Owner, group and permission bits; `None` in a store, which has no such bits.
    pub owner: Option<(u32, u32, u16)>,
}

/// The type of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    /// A folder.
    Folder,
    /// A file, with its content.
    File(Pinned),
    /// A symbolic link, with its target.
    Link(PathBuf),
}

/// A name in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry {
    /// The name, without slashes.
    pub name: OsString,
    /// The type of the entry.
    pub kind: EntryKind,
    /// Its time and its owner.
    pub attributes: Attributes,
}

/// The files and folders of a source. See the module's documentation.
#[derive(Debug)]
pub struct FileTree {
    uri: String,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Local(LocalTree),
    /// The objects below a prefix of a store.
    Prefix,
    /// Single files of stores and servers, by their urls.
    Files(Vec<String>),
}

impl FileTree {
    /// Opens a source: a folder or a file of this machine; a prefix or an object of a store; a file of an http server,
    /// or several with braces (`http://host/train-{000..099}.tar`).
    ///
    /// # Errors
    /// NotFound when there is nothing at `source`; Invalid for an http address that names no file, or for two files of
    /// one name; any error of the system or the store.
    pub fn open(source: &str) -> Result<Self> {
        if !is_remote(source) {
            let path = store::local_path(source);
            let place = Place::Local(LocalTree::open(Path::new(path))?);
            return Ok(Self { uri: path.trim_end_matches('/').to_owned(), place });
        }
        let uri = source.trim_end_matches('/').to_owned();
        if source.get(..4).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http")) || source.contains('{') {
            return Self::of_files(source);
        }
        let is_empty = !is_prefix(&uri)?;
        let is_bucket = uri.split_once("://").is_some_and(|(_, rest)| !rest.contains('/'));
        if !is_empty || is_bucket {
            return Ok(Self { uri, place: Place::Prefix });
        }
        let hint = "check the url: it names neither an object nor the beginning of names of objects";
        objects(std::slice::from_ref(&uri)).map_err(|e| match e.kind() {
            ErrorKind::NotFound => {
                Error::new(ErrorKind::NotFound, "there is nothing here").with("source", &uri).hint(hint)
            }
            _ => e,
        })?;
        Ok(Self { uri: uri.clone(), place: Place::Files(vec![uri]) })
    }

    fn of_files(source: &str) -> Result<Self> {
        let files = store::expand(source)?;
        if source.ends_with('/') {
            let hint = "name the files: http://host/train-{000..099}.tar";
            return Err(Error::invalid("an http server cannot list files").with("source", source).hint(hint));
        }
        let mut names: Vec<&str> = files.iter().map(|uri| name_of(uri)).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|two| two[0] == two[1]) {
            return Err(Error::invalid(format!("two files are called {}", twice[0])).with("source", source));
        }
        objects(&files)?;
        Ok(Self { uri: source.to_owned(), place: Place::Files(files) })
    }

    /// Returns the path or the url of the source.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Says whether its files are remote.
    pub fn is_remote(&self) -> bool {
        !matches!(self.place, Place::Local(_))
    }

    /// Returns the entries of a folder (`""`: the source itself), at most `most`, sorted by name.
    ///
    /// # Errors
    /// NotFound when there is no such folder; Exhausted when it has more entries; any error of the system or the store.
    pub fn list(&self, folder: &Path, most: usize) -> Result<Vec<TreeEntry>> {
        let entries = match &self.place {
            Place::Local(local) => local.list(folder, most)?,
            Place::Prefix => {
                let uri = self.uri_of(folder)?;
                let level = level(&uri, most)?;
                if level.is_empty() && !folder.as_os_str().is_empty() {
                    return Err(fail::missing(&uri));
                }
                entries_of(level)
            }
            Place::Files(files) => objects(files)?.into_iter().map(file).collect(),
        };
        Ok(in_order(entries))
    }

    /// Says whether [`FileTree::look`] asks a store for this path: not for names that a url cannot have as they are, and
    /// not where the source is single files.
    pub fn can_look(&self, path: &Path) -> bool {
        let is_plain = |text: &str| text.trim() == text && !text.contains(|c: char| c.is_control() || c == '\\');
        matches!(self.place, Place::Prefix) && path.to_str().is_some_and(is_plain)
    }

    /// Looks at one name; `None` when it is not there. Of a store this is two requests, however many names a folder has.
    ///
    /// # Errors
    /// Internal for remote names that have to be looked for in lists; what the system or the store says.
    pub fn look(&self, path: &Path) -> Result<Option<TreeEntry>> {
        match &self.place {
            Place::Local(local) => local.look(path),
            Place::Prefix if self.can_look(path) => {
                let name = path.file_name().unwrap_or_default();
                Ok(levels::look(&self.uri_of(path)?)?.map(|found| match found {
                    Found::Folder => folder(name.to_owned()),
                    Found::Object(listed) => TreeEntry { name: name.to_owned(), ..file(listed) },
                }))
            }
            _ => Err(Error::internal("this name of a store is found in its lists")),
        }
    }

    /// Returns the total and the free bytes of this source's file system; `None` in a store.
    pub fn space(&self) -> Option<(u64, u64)> {
        match &self.place {
            Place::Local(local) => local.space(),
            _ => None,
        }
    }

    /// Opens the pinned file. A remote file is read through `near`, if that is given.
    ///
    /// # Errors
    /// Data when a local file has changed. For a changed remote file, reading returns that error.
    pub fn file(&self, path: &Path, pinned: &Pinned, near: Option<&dyn ReadThrough>) -> Result<TreeFile> {
        Ok(TreeFile(match &self.place {
            Place::Local(local) => Bytes::Local(local.file(path, pinned)?),
            _ => Bytes::Remote(Object::open(&self.uri_of(path)?, &pinned.stat, near, &Allowed::everything())?),
        }))
    }

    /// Returns the path of an entry, or its url in the form that the sources of pipelines use.
    ///
    /// # Errors
    /// NotFound for a name that cannot be in a url of a store.
    pub fn uri_of(&self, path: &Path) -> Result<String> {
        match &self.place {
            Place::Local(local) => Ok(local.path_of(path).to_string_lossy().into_owned()),
            Place::Files(files) => {
                let named = files.iter().find(|uri| OsStr::new(name_of(uri)) == path.as_os_str());
                named
                    .or(files.first().filter(|_| path.as_os_str().is_empty()))
                    .cloned()
                    .ok_or_else(|| fail::missing(&self.uri))
            }
            Place::Prefix if path.as_os_str().is_empty() => Ok(self.uri.clone()),
            Place::Prefix => {
                let text = path.to_str().ok_or_else(|| fail::missing(&self.uri))?;
                let text = text.replace('%', "%25").replace('?', "%3F").replace('#', "%23");
                Ok(format!("{}/{text}", self.uri))
            }
        }
    }
}

/// Sorts entries by name. A folder hides an object of the same name, because the folder may hold many files.
fn in_order(mut entries: Vec<TreeEntry>) -> Vec<TreeEntry> {
    let is_file = |entry: &TreeEntry| !matches!(entry.kind, EntryKind::Folder);
    entries.sort_by(|a, b| a.name.cmp(&b.name).then(is_file(a).cmp(&is_file(b))));
    entries.dedup_by(|again, first| again.name == first.name);
    entries
}

fn name_of(uri: &str) -> &str {
    uri.rsplit('/').next().unwrap_or_default()
}

fn file(Listed { name, stat, mtime }: Listed) -> TreeEntry {
    let attributes = Attributes { mtime: Some(mtime), owner: None };
    TreeEntry { name: name.into(), kind: EntryKind::File(Pinned { stat, number: 0 }), attributes }
}

fn folder(name: OsString) -> TreeEntry {
    TreeEntry { name, kind: EntryKind::Folder, attributes: Attributes { mtime: None, owner: None } }
}

fn entries_of(level: Level) -> Vec<TreeEntry> {
    level.folders.into_iter().map(|name| folder(name.into())).chain(level.objects.into_iter().map(file)).collect()
}

/// An open file of a [`FileTree`].
#[derive(Debug)]
pub struct TreeFile(Bytes);

#[derive(Debug)]
enum Bytes {
    Local(LocalFile),
    Remote(Object),
}

impl TreeFile {
    /// Returns the path or the url of the file.
    pub fn uri(&self) -> &str {
        match &self.0 {
            Bytes::Local(local) => local.uri(),
            Bytes::Remote(object) => object.uri(),
        }
    }

    /// Returns its size in bytes.
    pub fn size(&self) -> u64 {
        match &self.0 {
            Bytes::Local(local) => local.size(),
            Bytes::Remote(object) => object.size(),
        }
    }

    /// Says whether a range can be read without a wait for a store.
    pub fn holds(&self, range: Range<u64>) -> bool {
        match &self.0 {
            Bytes::Local(_) => true,
            Bytes::Remote(object) => object.holds(range),
        }
    }

    /// Fills `to` from `offset`, and checks afterwards that the file is still the pinned one.
    ///
    /// # Errors
    /// Data when the file has changed, or ends before the range; any error of the system or the store.
    pub fn read_at(&self, offset: u64, to: &mut [u8]) -> Result<()> {
        match &self.0 {
            Bytes::Local(local) => local.read_at(offset, to),
            Bytes::Remote(object) => object.read_at(offset, to),
        }
    }

    /// Requests a range within the file ahead of its use; `None` for a local file, which is read without a wait.
    pub fn request(&self, offset: u64, len: usize) -> Option<Arriving> {
        match &self.0 {
            Bytes::Local(_) => None,
            Bytes::Remote(object) => {
                let pending = object.request(offset, len)?;
                Some(Box::new(move |to| pending.fill(to)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_hides_an_object_of_its_name_and_names_are_sorted() {
        let object = |name: &str| {
            file(Listed { name: name.to_owned(), stat: Stat { size: 1, mark: store::Mark::Mtime(1) }, mtime: 1 })
        };
        let folder = Level { objects: Vec::new(), folders: vec!["b".to_owned()] };
        let entries = ["c", "b", "a"].map(object).into_iter().chain(entries_of(folder)).collect();
        let found: Vec<_> = in_order(entries).into_iter().map(|e| (e.name, e.kind == EntryKind::Folder)).collect();
        assert_eq!(found, [("a".into(), false), ("b".into(), true), ("c".into(), false)]);
    }

    #[test]
    fn urls_are_those_of_pipelines() {
        let tree = FileTree { uri: "s3://b".to_owned(), place: Place::Prefix };
        assert_eq!(tree.uri_of(Path::new("a/50%?#")).as_deref(), Ok("s3://b/a/50%25%3F%23"));
    }

    #[test]
    fn a_local_name_that_became_a_link_is_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (secret, root) = (folder.path().join("secret"), folder.path().join("root"));
        std::fs::create_dir(&root).expect("made");
        std::fs::write(&secret, "0123").expect("written");
        std::fs::hard_link(&secret, root.join("a")).expect("made");
        let tree = FileTree::open(root.to_str().expect("utf-8")).expect("opens");
        let entries = tree.list(Path::new(""), 9).expect("lists");
        let EntryKind::File(pinned) = &entries[0].kind else { panic!("{entries:?}") };
        let mut bytes = [0; 2];
        tree.file(Path::new("a"), pinned, None).expect("opens").read_at(1, &mut bytes).expect("reads");
        assert_eq!(&bytes, b"12");
        std::fs::remove_file(root.join("a")).expect("removed");
        std::os::unix::fs::symlink("../secret", root.join("a")).expect("made");
        tree.file(Path::new("a"), pinned, None).expect_err("a link now");
    }
}
