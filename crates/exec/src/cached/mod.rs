//! Everything that knows caching: rows at `cache()` and `autocache()`, and pages of remote files.
//!
//! - `context`: the cache of a process, and what decides what it keeps
//! - `prefix`: the ops before the cache point; finds their rows, or computes and keeps them
//! - `describe`: what is kept of a prefix, as JSON
//! - `bypass`: merges cached rows with rows that bypass a full cache
//! - `autocache`: runs the variant that the policy chose, and measures the others
//! - `autocache_profile`: what a process has measured of each pipeline, and decided
//! - `page_cached`: remote files of a source, read through the page cache
//! - `warm`: `forebay cache warm`

pub(crate) mod autocache;
pub(crate) mod autocache_profile;
pub(crate) mod bypass;
pub(crate) mod context;
pub(crate) mod describe;
pub(crate) mod page_cached;
pub(crate) mod prefix;
pub(crate) mod warm;
