//! A read-only file system over the stores that Forebay reads: `forebay mount`.
//!
//! | module | |
//! |---|---|
//! | `tree` | names, attributes and inode numbers, from the lists of sources |
//! | `reader` | ranges of an open file to bytes, with read-ahead |
//! | `adapter` | requests of the system (FUSE) to the two above |
//! | `open` | the files and folders that are open |
//! | `journal` | a note of these for a process that takes the mount over |
//! | `device` | mounts whose device outlives the process that serves them |
//! | `point` | the folder of a mount: whether it is free, and dead mounts |
//! | `serve` | a mount from its start to its end: [`Mounted`] |
//!
//! Remote files are read through the page cache of their machine, as pipelines read them, so a pipeline and a mount share
//! pages. Invariants: an inode number names one content of one file, so no two contents meet in the system's page cache;
//! a read gives bytes of the content that was opened, or fails with EIO and a line in the log; only a dead mount of
//! Forebay is ever unmounted. The bounds: [`THREADS`], [`OPEN_FILES_MAX`], [`FOLDER_NAMES_MAX`], [`LISTED_NAMES_MAX`],
//! [`AHEAD_BYTES_MAX`].

mod adapter;
mod device;
mod journal;
mod open;
mod point;
mod reader;
mod serve;
mod tree;

pub use device::{Device, is_mounted, mount_device};
pub use open::OPEN_FILES_MAX;
pub use point::{MountLine, detach, top_mount};
pub use reader::AHEAD_BYTES_MAX;
pub use serve::{KEEPER, MountOptions, Mounted, THREADS};
pub use tree::{FOLDER_NAMES_MAX, LISTED_NAMES_MAX, NamedSource};
