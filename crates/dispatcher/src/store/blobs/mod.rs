//! Blobs: large files named by their content, which jobs need (functions, arrays, indexes).
//!
//! - `store`: the folder of the blobs: look up, read, fetch from etcd.
//! - `key`: the name of a blob, and errors about its file.
//! - `upload`: a blob that is being received.
//! - `delete`: removes garbage in two steps, and lists the stored blobs.
//! - `garbage`: finds the blobs that no job has needed for a grace period.
//! - `room`: bounds the bytes of all blobs and of each tenant's.

pub(super) mod delete;
pub(super) mod garbage;
pub(super) mod key;
pub(super) mod room;
pub(super) mod store;
pub(super) mod upload;
