//! A read-only file system over the stores that Forebay reads: `forebay mount`.
//!
//! | module | |
//! |---|---|
//! | `tree` | names, attributes and inode numbers, from the lists of sources |
//! | `reader` | reads ranges of an open file, with read-ahead |
//! | `adapter` | answers FUSE requests with the two modules above |
//! | `open` | the table of open files and folders |
//! | `journal` | records the open files for a process that takes the mount over |
//! | `device` | FUSE devices that outlive the process that serves them |
//! | `point` | the mount point: checks it, and removes dead mounts |
//! | `prefetch` | reads all remote files into the page cache |
//! | `status` | the status of a running mount, for other programs |
//! | `serve` | a mount from its start to its end: [`Mounted`] |
//!
//! A mount reads remote files through Forebay's page cache of the machine, so pipelines and mounts share pages.
//! Invariants: an inode number belongs to one content of one file, so the kernel's page cache never mixes two contents.
//! A read returns bytes of the content that was opened, or fails with EIO and a line in the log. Forebay unmounts only
//! dead mounts of its own. Bounds: [`THREADS`], [`OPEN_FILES_MAX`], [`FOLDER_NAMES_MAX`], [`LISTED_NAMES_MAX`],
//! [`AHEAD_BYTES_MAX`].

mod adapter;
mod device;
mod journal;
mod open;
mod point;
mod prefetch;
mod reader;
mod serve;
mod status;
mod tree;

pub use device::{Device, is_mounted, mount_device};
pub use open::OPEN_FILES_MAX;
pub use point::{MountLine, detach, top_mount};
pub use prefetch::{PrefetchProgress, PrefetchState};
pub use reader::AHEAD_BYTES_MAX;
pub use serve::{KEEPER, MountOptions, Mounted, THREADS};
pub use status::MountStatus;
pub use tree::{FOLDER_NAMES_MAX, LISTED_NAMES_MAX, NamedSource};
