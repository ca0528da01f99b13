//! All code that knows caching: rows at `cache()` and `autocache()`, and pages of remote files.
//!
//! - `context`: the cache of a process, and the inputs of its decisions
//! - `prefix`: the ops before the cache point; finds their rows, or computes and caches them
//! - `describe`: the cached rows of a prefix by tier, as JSON
//! - `bypass`: the ops of rows that bypass a full cache, and their merge with cached rows
//! - `autocache`: runs the variant that the policy chose, and measures the others
//! - `autocache_profile`: the measurements and decisions of a process, by pipeline
//! - `trial`: one morsel under `autocache()`
//! - `run`: runs the rows of a morsel by a variant with a cache point
//! - `row_keys`: the names of rows in the cache
//! - `page_cached`: remote files of a source, read through the page cache
//! - `warm`: `forebay cache warm`

pub(crate) mod autocache;
pub(crate) mod autocache_profile;
pub(crate) mod bypass;
pub(crate) mod context;
pub(crate) mod describe;
pub(crate) mod page_cached;
pub(crate) mod prefix;
mod row_keys;
pub(crate) mod run;
pub(crate) mod trial;
pub(crate) mod warm;
