//! `CacheBackend` of `cache.kubedl.io/v1alpha1` and `ForebayService` of `forebay.dev/v1alpha1`: what users write, what
//! the operator tells, and the definitions that clusters get.
//!
//! ```text
//! cache_backend   the spec, with KubeDL's fields and ours       status             what the operator tells
//! service         the spec of a service                         service_status     what the operator tells
//! definition      the CustomResourceDefinitions                 *validate          what is wrong with a spec
//! ```

pub(crate) mod cache_backend;
pub(crate) mod definition;
pub(crate) mod service;
pub(crate) mod service_status;
pub(crate) mod service_validate;
pub(crate) mod status;
pub(crate) mod validate;

pub(crate) use cache_backend::{CacheBackend, CacheBackendSpec, Engine, FluidRuntime, Tier};
pub(crate) use status::{CacheBackendStatus, CacheStatus, Condition, User};
