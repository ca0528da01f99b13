//! The native module under the `forebay` Python package.
//!
//! ```text
//! pipeline   the graph that Python builds          iter       the iterator under every iterator
//! sources    sources as Python writes them         functions  users' functions: in this interpreter, or in processes
//! convert    columns <-> NumPy and Python          errors     one exception class for each kind
//! retry      samples from quarantine               cache      the cache of this process
//! saving     the folders of save()                 service    a service, its jobs and workers, and provisioners
//! jpeg       pixels -> JPEG files, for examples    trace      the recording of a trace
//! ```
//!
//! Invariants: nothing waits with the GIL held; no panic reaches Python; only this crate uses pyo3.

mod cache;
mod cli;
mod convert;
mod errors;
mod first_rows;
mod functions;
mod iter;
mod jpeg;
mod memory_budget;
mod optimize;
mod pipeline;
mod progress;
mod retry;
mod saving;
mod service;
mod sources;
mod trace;

use pyo3::prelude::*;

/// The module.
#[pymodule]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::cli::cli_main;
    #[pymodule_export]
    use crate::convert::memory::Memory;
    #[pymodule_export]
    use crate::convert::taken::take_row;
    #[pymodule_export]
    use crate::functions::probe::fields_of_samples;
    #[pymodule_export]
    use crate::functions::process::host::serve_functions;
    #[pymodule_export]
    use crate::iter::{NativeIterator, close_all, ease_cache, flush_cache, raise_error};
    #[pymodule_export]
    use crate::jpeg::encode_jpeg;
    #[pymodule_export]
    use crate::pipeline::Pipeline;
    #[pymodule_export]
    use crate::progress::Progress;
    #[pymodule_export]
    use crate::retry::{record_row, retry};
    #[pymodule_export]
    use crate::saving::{SavedFolder, SavedWriter, saved};
    #[pymodule_export]
    use crate::service::provision::Reconciler;
    #[pymodule_export]
    use crate::service::up::{Up, bytes_of};
    #[pymodule_export]
    use crate::service::{ServiceClient, cores, why_in_process};
    #[pymodule_export]
    use crate::sources::folders::names_in;
    #[pymodule_export]
    use crate::trace::{trace_now, trace_of_batch, trace_start, trace_stop};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        // A panic becomes an InternalError; its text and backtrace are printed only on request.
        if std::env::var_os("FOREBAY_PANICS").is_none() {
            std::panic::set_hook(Box::new(|_| {}));
        }
        forebay_cli::find_notebook_by(crate::progress::notebook);
        module.add("VERSION", forebay_core::VERSION)
    }
}
