//! The native module under the `forebay` Python package.
//!
//! ```text
//! pipeline   the graph that Python builds          iter       the iterator under every iterator
//! draft      sources                               runner     thread or process
//! arrays     chunks -> NumPy, sharing memory       functions  users' functions, in this interpreter
//! values     results of functions -> columns       process    users' functions, in separate processes
//! probe      the schema of these results           errors     one exception class for each kind
//! retry      samples from quarantine               cache      the cache of this process
//! jpeg       pixels -> JPEG files, for examples    provision  the reconciler of provisioners
//! saving     the folders of save()                 user_call  calls of users' code
//! taken      copies results that may change        trace      the recording of a trace
//! ```
//!
//! Invariants: nothing waits with the GIL held; no panic reaches Python; only this crate uses pyo3.

mod arrays;
mod blobs;
mod cache;
mod cli;
mod collected;
mod draft;
mod errors;
mod first_rows;
mod functions;
mod indexing;
mod iter;
mod jpeg;
mod masks;
mod memory;
mod memory_budget;
mod numpy;
mod optimize;
mod pipeline;
mod probe;
mod process;
mod progress;
mod provision;
mod retry;
mod rows;
mod runner;
mod saving;
mod service;
mod taken;
mod trace;
mod up;
mod user_call;
mod values;

use pyo3::prelude::*;

/// The module.
#[pymodule]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::cli::cli_main;
    #[pymodule_export]
    use crate::iter::{NativeIterator, close_all, ease_cache, flush_cache, raise_error};
    #[pymodule_export]
    use crate::jpeg::encode_jpeg;
    #[pymodule_export]
    use crate::memory::Memory;
    #[pymodule_export]
    use crate::pipeline::Pipeline;
    #[pymodule_export]
    use crate::probe::fields_of_samples;
    #[pymodule_export]
    use crate::process::host::serve_functions;
    #[pymodule_export]
    use crate::progress::Progress;
    #[pymodule_export]
    use crate::provision::Reconciler;
    #[pymodule_export]
    use crate::retry::{record_row, retry};
    #[pymodule_export]
    use crate::saving::{SavedFolder, SavedWriter, saved};
    #[pymodule_export]
    use crate::service::{ServiceClient, cores, why_in_process};
    #[pymodule_export]
    use crate::taken::take_row;
    #[pymodule_export]
    use crate::trace::{trace_now, trace_of_batch, trace_start, trace_stop};
    #[pymodule_export]
    use crate::up::{Up, bytes_of};

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
