//! Access to bytes: local files, or an object store. The interface is [`Object`] and the three functions beside it.
//!
//! - `local`, `share`: local files, and shared file systems; `remote/`: object stores; `find/`: patterns, folders
//! - `object`: an open file of either; `ahead`: ranges that are requested together; `forward`, `decoded/`: its content
//!   from front to back, uncompressed
//! - `bucket`, `target`: folders that Forebay writes; `near`: the interface of a cache of remote files
//!
//! Invariant: an [`Object`] is the pinned file, or reading it is an error: requests for a remote one compare its etag,
//! and a local one is checked again after its bytes are read, before they are returned.

mod ahead;
mod bucket;
pub(crate) mod decoded;
pub(crate) mod find;
mod forward;
mod local;
mod near;
mod object;
mod pinned;
mod remote;
mod share;
mod target;
mod uri;

pub(crate) use ahead::Ahead;
pub use bucket::{Bucket, Entry, Wanted};
pub(crate) use find::braces::expand;
pub(crate) use find::matching::only_name;
pub(crate) use find::{absolute, files_of, is_file, list, list_first, stat, walk};
pub(crate) use forward::{CodecOf, Forward};
pub use near::{Arriving, Done, Fetch, NearFile, ReadThrough, RemoteFile};
pub(crate) use object::{Object, Pending};
pub(crate) use pinned::{Found, Mark, Stat};
pub(crate) use remote::body::Body;
pub(crate) use remote::upload::Upload;
pub(crate) use target::{Target, Version};
pub use uri::is_remote;
pub(crate) use uri::local_path;

#[cfg(test)]
mod tests;
