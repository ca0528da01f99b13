//! The executor of an iterator's functions, and its stop.

use std::sync::Arc;

use forebay_core::Error;
use forebay_exec::Functions;
use forebay_plan::BlobId;
use pyo3::prelude::*;

use crate::errors::raise;
use crate::functions::PyFunctions;
use crate::functions::process::ProcessFunctions;

#[derive(Clone)]
pub(crate) enum Runner {
    Thread(Arc<PyFunctions>),
    Process(Arc<ProcessFunctions>),
}

impl Runner {
    /// Makes one for the functions and objects of a pipeline.
    pub(crate) fn new(py: Python<'_>, executor: &str, objects: Vec<BlobId>) -> PyResult<Self> {
        match executor {
            "thread" => Ok(Runner::Thread(Arc::default())),
            "process" => Ok(Runner::Process(Arc::new(processes(py, Some(objects))?))),
            other => {
                let error = Error::invalid(format!("unknown executor {other:?}")).hint("use \"thread\" or \"process\"");
                Err(raise(py, &error))
            }
        }
    }

    pub(crate) fn functions(&self) -> Arc<dyn Functions> {
        match self {
            Runner::Thread(f) => f.clone(),
            Runner::Process(f) => f.clone(),
        }
    }

    /// Prevents further calls; a process that is in one ends soon.
    pub(crate) fn stop(&self) {
        match self {
            Runner::Thread(f) => f.stop(),
            Runner::Process(f) => f.stop(),
        }
    }

    /// Releases the resources that the iterator no longer needs, though it still exists.
    pub(crate) fn rest(&self) {
        if let Runner::Process(f) = self {
            f.rest();
        }
    }

    /// Returns the functions that threads of this process are in, and that nothing ends.
    pub(crate) fn running(&self) -> Vec<String> {
        match self {
            Runner::Thread(f) => f.running(),
            Runner::Process(_) => Vec::new(),
        }
    }
}

/// Returns a pool of processes with this interpreter and its module path; for certain functions alone, or for any.
pub(crate) fn processes(py: Python<'_>, objects: Option<Vec<BlobId>>) -> PyResult<ProcessFunctions> {
    let sys = py.import("sys")?;
    let executable: Option<String> = sys.getattr("executable")?.extract()?;
    let path: Vec<String> = sys.getattr("path")?.try_iter()?.filter_map(|p| p.ok()?.extract().ok()).collect();
    Ok(ProcessFunctions::new(executable.unwrap_or_else(|| "python3".to_owned()), path, objects))
}
