//! What the command line needs of the process that it runs in.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_core::Result;
use forebay_server::{Functions, NoFunctions};
use serde::{Deserialize, Serialize};

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

    /// Lists (`ls`), shows or retries what is in quarantine files; returns what to print and the exit code.
    ///
    /// # Errors
    /// NotFound and Data of a file.
    fn quarantine(&self, action: &str, files: &[PathBuf], sample: Option<&str>, json: bool) -> Result<(String, i32)>;

    /// Measures pipelines on this machine, beside those of the rivals that are installed. What it needs it makes in
    /// `folder`.
    ///
    /// # Errors
    /// What running them gives.
    fn bench(&self, sizes: &BenchSizes, folder: &Path) -> Result<Benched>;

    /// Returns what runs users' Python in a worker.
    fn functions(&self) -> Arc<dyn Functions>;

    /// Returns the command that starts this command line again, without arguments: `python -m forebay`.
    fn command(&self) -> Vec<String>;
}

/// How much to measure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BenchSizes {
    /// How long each rate is measured, in seconds.
    pub seconds: f64,
    /// How often each figure is measured.
    pub rounds: u32,
    /// JPEG files.
    pub images: u32,
    /// Small records.
    pub records: u32,
}

/// What a host measured.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Benched {
    /// What it ran on, and the rivals; `None` is not installed.
    pub versions: BTreeMap<String, Option<String>>,
    /// The figures, in the order in which they are shown.
    pub figures: Vec<Figure>,
    /// What could not be measured, and why.
    pub notes: Vec<String>,
}

/// One figure: the median of its rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// What was measured.
    pub name: String,
    /// Of the value: `ms`, or something a second.
    pub unit: String,
    /// Forebay's.
    pub value: f64,
    /// The rivals', by name.
    pub beside: BTreeMap<String, Beside>,
}

/// A rival's figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// In the same unit.
    pub value: f64,
    /// How many times as good Forebay is: above 1 is better, whichever way the unit counts.
    pub ratio: f64,
}

impl Figure {
    /// Returns a figure that no rival has.
    pub fn new(name: &str, unit: &str, value: f64) -> Self {
        Self { name: name.to_owned(), unit: unit.to_owned(), value, beside: BTreeMap::new() }
    }
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

    fn quarantine(&self, _: &str, _: &[PathBuf], _: Option<&str>, _: bool) -> Result<(String, i32)> {
        Err(no_python())
    }

    fn bench(&self, _: &BenchSizes, _: &Path) -> Result<Benched> {
        let note = "this forebay command has no python: only the dispatcher was measured".to_owned();
        Ok(Benched { notes: vec![note], ..Benched::default() })
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
