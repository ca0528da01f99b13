//! The `forebay` command inside a Python interpreter: scripts run here, and workers have processes for functions.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_cli::{BenchSizes, Benched, DemoOptions, DemoRow, FaultsFound, FaultsOptions, WarmOptions, Warmed};
use forebay_core::{Error, Result};
use forebay_exec::Functions;
use pyo3::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::errors::{from_exception, from_user};
use crate::functions::process::ProcessFunctions;
use crate::functions::runner::processes;

/// Runs a command line (without the program's name) and returns its exit code.
#[pyfunction]
pub(crate) fn cli_main(py: Python<'_>, arguments: Vec<OsString>) -> PyResult<i32> {
    let host = PythonHost { command: command(py)?, functions: Arc::new(processes(py, None)?) };
    crate::errors::detached(py, || {
        let code = forebay_cli::run(arguments, &host);
        host.functions.stop();
        Ok(code)
    })
}

/// Returns the command that starts this command line again.
pub(crate) fn command(py: Python<'_>) -> PyResult<Vec<String>> {
    let executable: Option<String> = py.import("sys")?.getattr("executable")?.extract()?;
    let python = executable.filter(|p| !p.is_empty()).unwrap_or_else(|| "python3".to_owned());
    Ok(vec![python, "-m".to_owned(), "forebay".to_owned()])
}

struct PythonHost {
    command: Vec<String>,
    functions: Arc<ProcessFunctions>,
}

impl forebay_cli::Host for PythonHost {
    fn run_file(&self, path: &Path, args: &[String], service: Option<&str>) -> Result<i32> {
        Python::attach(|py| {
            let module = py.import("forebay._src.command_line.cli").map_err(|e| from_exception(py, &e))?;
            let code = module.call_method1("run_file", (path, args, service)).and_then(|c| c.extract());
            code.map_err(|e| as_error(py, &e))
        })
    }

    fn explain_file(&self, path: &Path, splits: bool, json: bool) -> Result<String> {
        Python::attach(|py| {
            let module = py.import("forebay._src.command_line.cli").map_err(|e| from_exception(py, &e))?;
            let text = module.call_method1("explain_file", (path, splits, json)).and_then(|t| t.extract());
            text.map_err(|e| as_error(py, &e))
        })
    }

    fn quarantine(&self, action: &str, files: &[PathBuf], sample: Option<&str>, json: bool) -> Result<(String, i32)> {
        Python::attach(|py| {
            let module = py.import("forebay._src.iteration.quarantine").map_err(|e| from_exception(py, &e))?;
            let files: Vec<_> = files.iter().map(|f| f.to_string_lossy().into_owned()).collect();
            let done = module.call_method1("command", (action, files, sample, json)).and_then(|d| d.extract());
            done.map_err(|e| as_error(py, &e))
        })
    }

    fn bench(&self, sizes: &BenchSizes, folder: &Path) -> Result<Benched> {
        ask("forebay._src.bench", "bench", sizes, folder)
    }

    fn demo(&self, options: &DemoOptions, folder: &Path) -> Result<Vec<DemoRow>> {
        ask("forebay._src.demo", "demo", options, folder)
    }

    fn faults(&self, options: &FaultsOptions, folder: &Path) -> Result<FaultsFound> {
        ask("forebay._src.selftest", "faults", options, folder)
    }

    fn warm(&self, options: &WarmOptions, path: &Path) -> Result<Vec<Warmed>> {
        ask("forebay._src.command_line.warm", "warm", options, path)
    }

    fn functions(&self) -> Arc<dyn Functions> {
        self.functions.clone()
    }

    fn command(&self) -> Vec<String> {
        self.command.clone()
    }
}

/// Calls a function of the package with options and a folder or file. Both sides speak JSON.
fn ask<T: DeserializeOwned>(module: &str, function: &str, options: &impl Serialize, folder: &Path) -> Result<T> {
    let options = serde_json::to_string(options).map_err(|e| Error::internal(e.to_string()))?;
    let found: String = Python::attach(|py| {
        let module = py.import(module).map_err(|e| from_exception(py, &e))?;
        let found = module.call_method1(function, (options, folder)).and_then(|f| f.extract());
        found.map_err(|e| as_error(py, &e))
    })?;
    serde_json::from_str(&found).map_err(|e| Error::internal(format!("{module}.{function}: {e}")))
}

/// An error of ours keeps its kind; other exceptions are the script's.
fn as_error(py: Python<'_>, exception: &PyErr) -> Error {
    match crate::errors::is_ours(py, exception) {
        true => from_exception(py, exception),
        false => {
            let error = from_user(py, exception);
            let message = format!("the script {}", error.message());
            error.context().iter().fold(Error::new(error.kind(), message), |e, (k, v)| e.with(k, v))
        }
    }
}
