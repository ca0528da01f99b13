//! What the command line needs of the process that it runs in.

use std::path::Path;
use std::sync::Arc;

use forebay_core::Result;
use forebay_server::{Functions, NoFunctions};

/// The process around the command line: Python's, where it is started by `forebay` or `python -m forebay`.
///
/// # Contract
/// Methods are called on the thread that called [`crate::run`], one at a time.
pub trait Host {
    /// Runs a Python script as `__main__` with these arguments, and returns its exit code. With `service`, datasets are
    /// read from that service unless the script names another.
    ///
    /// # Errors
    /// Function when it raised, with its traceback.
    fn run_file(&self, path: &Path, args: &[String], service: Option<&str>) -> Result<i32>;

    /// Returns the explanation of every dataset that a script defines, for people or as JSON.
    ///
    /// # Errors
    /// As [`Host::run_file`].
    fn explain_file(&self, path: &Path, splits: bool, json: bool) -> Result<String>;

    /// Returns what runs users' Python in a worker.
    fn functions(&self) -> Arc<dyn Functions>;

    /// Returns the command that starts this command line again, without arguments: `python -m forebay`.
    fn command(&self) -> Vec<String>;
}

/// A host without Python: workers run only what the engine has built in.
#[derive(Debug, Clone, Copy, Default)]
pub struct Native;

impl Host for Native {
    fn run_file(&self, _: &Path, _: &[String], _: Option<&str>) -> Result<i32> {
        Err(no_python())
    }

    fn explain_file(&self, _: &Path, _: bool, _: bool) -> Result<String> {
        Err(no_python())
    }

    fn functions(&self) -> Arc<dyn Functions> {
        Arc::new(NoFunctions)
    }

    fn command(&self) -> Vec<String> {
        let this = std::env::current_exe().map(|p| p.to_string_lossy().into_owned());
        vec![this.unwrap_or_else(|_| "forebay".to_owned())]
    }
}

fn no_python() -> forebay_core::Error {
    forebay_core::Error::invalid("this forebay command has no python").hint("install the python package")
}
