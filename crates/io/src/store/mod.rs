//! Access to bytes: local files, or an object store. The interface is [`Object`] and the three functions beside it.
//!
//! Invariant: an [`Object`] is the pinned file, or reading it is an error: requests for a remote one compare its etag,
//! and a local one is checked again after its bytes are read, before they are returned.

mod body;
mod braces;
mod bucket;
pub(crate) mod decoded;
mod fetch;
mod find;
mod folders;
mod forward;
mod guard;
mod http;
mod hub;
pub(crate) mod levels;
mod listing;
mod local;
mod matching;
mod near;
mod object;
mod pinned;
mod refusal;
mod remote;
mod retry;
mod share;
mod target;
mod upload;
mod uri;

pub(crate) use body::Body;
pub(crate) use braces::expand;
pub use bucket::{Bucket, Entry, Wanted};
pub(crate) use find::{absolute, files_of, is_file, list, list_first, stat, walk};
pub(crate) use forward::{CodecOf, Forward};
pub(crate) use matching::only_name;
pub use near::{Arriving, Done, Fetch, NearFile, ReadThrough, RemoteFile};
pub(crate) use object::{Object, Pending};
pub(crate) use pinned::{Found, Mark, Stat};
pub(crate) use target::{Target, Version};
pub(crate) use upload::Upload;
pub use uri::is_remote;
pub(crate) use uri::local_path;

#[cfg(test)]
mod tests;
