//! `CacheBackend` of `cache.kubedl.io/v1alpha1`: what users write, what the operator tells, and the definition that
//! clusters get.
//!
//! ```text
//! cache_backend   the spec, with KubeDL's fields and ours       status       what the operator tells
//! definition      the CustomResourceDefinition, made of both    validate     what is wrong with a spec
//! ```

pub(crate) mod cache_backend;
pub(crate) mod definition;
pub(crate) mod status;
pub(crate) mod validate;

pub(crate) use cache_backend::{CacheBackend, CacheBackendSpec, Engine, FluidRuntime, Tier};
pub(crate) use status::{CacheBackendStatus, CacheStatus, Condition, User};
