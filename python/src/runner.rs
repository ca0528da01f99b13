//! Which executor runs the functions of an iterator, and how it is stopped.

use std::sync::Arc;

use forebay_core::Error;
use forebay_exec::Functions;
use pyo3::prelude::*;

use crate::errors::raise;
use crate::functions::PyFunctions;
use crate::process::ProcessFunctions;

#[derive(Clone)]
pub(crate) enum Runner {
    Thread(Arc<PyFunctions>),
    Process(Arc<ProcessFunctions>),
}

impl Runner {
    pub(crate) fn new(py: Python<'_>, executor: &str) -> PyResult<Self> {
        match executor {
            "thread" => Ok(Runner::Thread(Arc::default())),
            "process" => Ok(Runner::Process(Arc::new(processes(py)?))),
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

    /// Makes calls under way end soon.
    pub(crate) fn stop(&self) {
        match self {
            Runner::Thread(f) => {
                Python::try_attach(|py| f.stop(py));
            }
            Runner::Process(f) => f.stop(),
        }
    }
}

/// A pool of processes with this interpreter and its module path.
pub(crate) fn processes(py: Python<'_>) -> PyResult<ProcessFunctions> {
    let sys = py.import("sys")?;
    let executable: Option<String> = sys.getattr("executable")?.extract()?;
    let path: Vec<String> = sys.getattr("path")?.try_iter()?.filter_map(|p| p.ok()?.extract().ok()).collect();
    Ok(ProcessFunctions::new(executable.unwrap_or_else(|| "python3".to_owned()), path))
}
