//! The custom resources `CacheBackend` (`cache.kubedl.io/v1alpha1`) and `ForebayService` (`forebay.dev/v1alpha1`).
//!
//! ```text
//! cache_backend   spec of a CacheBackend            status             status of a CacheBackend
//! service         spec of a ForebayService          service_status     status of a ForebayService
//! definition      the CustomResourceDefinitions     *validate          validation of the specs
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
