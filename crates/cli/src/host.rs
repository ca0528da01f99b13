//! The interface of the command line to the process that it runs in.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_core::Result;
use forebay_server::{Functions, NoFunctions};
use serde::{Deserialize, Serialize};

/// The process around the command line: Python's, if it is started by `forebay` or `python -m forebay`.
///
/// # Contract
/// Methods are called on the thread that called [`crate::run`], one at a time.
pub trait Host {
    /// Runs a Python script as `__main__` with these arguments, and returns its exit code. With `service`, datasets use
    /// that service unless the script names another.
    ///
    /// # Errors
    /// Function when it raised, with its traceback.
    fn run_file(&self, path: &Path, args: &[String], service: Option<&str>) -> Result<i32>;

    /// Returns the explanation of every dataset that a script defines, as text or as JSON.
    ///
    /// # Errors
    /// As [`Host::run_file`].
    fn explain_file(&self, path: &Path, splits: bool, json: bool) -> Result<String>;

    /// Lists (`ls`), shows or retries the samples in quarantine files; returns the output and the exit code.
    ///
    /// # Errors
    /// NotFound and Data of a file.
    fn quarantine(&self, action: &str, files: &[PathBuf], sample: Option<&str>, json: bool) -> Result<(String, i32)>;

    /// Measures pipelines on this machine, beside those of the rivals that are installed. Puts its files into `folder`.
    ///
    /// # Errors
    /// Errors of running them.
    fn bench(&self, sizes: &BenchSizes, folder: &Path) -> Result<Benched>;

    /// Runs the demo and returns its table. Puts its files into `folder`.
    ///
    /// # Errors
    /// NotFound and Data of the shards; errors of running a service.
    fn demo(&self, options: &DemoOptions, folder: &Path) -> Result<Vec<DemoRow>>;

    /// Injects faults into services on this machine, and compares their streams with the expected ones. Puts its files
    /// into `folder`.
    ///
    /// # Errors
    /// Invalid when there is no such scenario, or no Python; errors of making the data.
    fn faults(&self, options: &FaultsOptions, folder: &Path) -> Result<FaultsFound>;

    /// Computes the cached rows of a script's datasets, each row once.
    ///
    /// # Errors
    /// As [`Host::run_file`]; Invalid if nothing is cached, NotFound if there is no such dataset.
    fn warm(&self, options: &WarmOptions, path: &Path) -> Result<Vec<Warmed>>;

    /// Returns the interface to users' Python in a worker.
    fn functions(&self) -> Arc<dyn Functions>;

    /// Returns the command that starts this command line again, without arguments: `python -m forebay`.
    fn command(&self) -> Vec<String>;
}

/// The rows to cache, and the places.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WarmOptions {
    /// The seed of the later runs.
    pub seed: u64,
    /// Threads that compute; 0 is one for each core.
    pub threads: usize,
    /// The places of rows, in the form of `FOREBAY_CACHE`.
    pub cache: String,
    /// The most bytes of memory; `None` is the default of a process.
    pub memory: Option<u64>,
    /// The most bytes in the folder; `None` as for a worker.
    pub disk: Option<u64>,
    /// The most bytes in the store; `None` as for a worker.
    pub store: Option<u64>,
}

/// The result for one dataset's rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Warmed {
    /// Its name in the script.
    pub dataset: String,
    /// Rows of its source.
    pub rows: u64,
    /// Rows that were not cached before.
    pub computed: u64,
    /// Rows that are on disk now; filtered ones are not.
    pub on_disk: u64,
    /// Rows that are in the store now.
    pub in_store: u64,
    /// Rows that failed, and are not cached.
    pub failed: u64,
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

/// The measurements of a host.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Benched {
    /// The versions of its software and of the rivals; `None` if not installed.
    pub versions: BTreeMap<String, Option<String>>,
    /// The figures, in the order of display.
    pub figures: Vec<Figure>,
    /// Failed measurements, and the reasons.
    pub notes: Vec<String>,
}

/// One figure: the median of its rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The name of the measurement.
    pub name: String,
    /// The unit of the value: `ms`, or a rate per second.
    pub unit: String,
    /// Forebay's value.
    pub value: f64,
    /// The rivals' values, by name.
    pub beside: BTreeMap<String, RivalFigure>,
}

/// A rival's figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RivalFigure {
    /// The value in the same unit.
    pub value: f64,
    /// How many times as good Forebay is: above 1 is better, for either direction of the unit.
    pub ratio: f64,
}

impl Figure {
    /// Returns a figure without rivals.
    pub fn new(name: &str, unit: &str, value: f64) -> Self {
        Self { name: name.to_owned(), unit: unit.to_owned(), value, beside: BTreeMap::new() }
    }
}

/// The options of the demo.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DemoOptions {
    /// The number of epochs of the training.
    pub epochs: u32,
    /// The number of workers at first.
    pub workers: u32,
    /// A folder of shards; `None` for drawn digits.
    pub shards: Option<PathBuf>,
}

/// One promise of the demo.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DemoRow {
    /// The subject of the promise.
    pub name: String,
    /// The result of the run.
    pub found: String,
    /// The promised result.
    pub promised: String,
    /// Whether they agree.
    pub ok: bool,
}

/// The faults to inject, and the way to judge them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FaultsOptions {
    /// Whether to run only a selection.
    pub quick: bool,
    /// Only these scenarios; if empty, all.
    pub scenarios: Vec<String>,
    /// The numbers of workers; a default selection if empty.
    pub workers: Vec<u32>,
    /// The number of records; a default if 0.
    pub samples: u32,
    /// The seed of the data, of the order, and of the places of successive faults.
    pub seed: u32,
    /// Whether pauses, and repeated computation, are judged.
    pub timing: bool,
}

/// The results of the faults.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct FaultsFound {
    /// The versions of the software.
    pub versions: BTreeMap<String, String>,
    /// A row for each run.
    pub rows: Vec<FaultRow>,
    /// Omitted runs, and the reasons.
    pub notes: Vec<String>,
}

/// One run under a fault. Times are in milliseconds, and `None` if there are none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FaultRow {
    /// The name of the scenario.
    pub scenario: String,
    /// The input: records or pictures.
    pub data: String,
    /// The number of workers; 0 if nothing was run.
    pub workers: u32,
    /// The fault.
    pub fault: String,
    /// The place in the stream.
    pub place: String,
    /// The most that it may cost.
    pub bound: String,
    /// Rows that came, over all epochs.
    pub samples: u64,
    /// Whether each came once in every epoch.
    pub each_once: bool,
    /// Whether all rows had the expected bytes.
    pub bytes: bool,
    /// Whether rows and batches were in the expected places.
    pub order: bool,
    /// The consumer's longest wait in a run without a fault.
    pub calm_ms: Option<f64>,
    /// Its longest wait from the fault on.
    pub longest_ms: Option<f64>,
    /// From the last restart to the end of that wait.
    pub resumed_ms: Option<f64>,
    /// Splits that were computed more than once.
    pub again: u64,
    /// Splits in flight with the process that died.
    pub again_max: u64,
    /// Processes, memory, sockets, files and leases that remained.
    pub left: Vec<String>,
    /// The broken promises.
    pub problems: Vec<String>,
    /// `ok` or `RED`.
    pub verdict: String,
}

/// A host without Python: workers run only the built-in ops.
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

    fn demo(&self, _: &DemoOptions, _: &Path) -> Result<Vec<DemoRow>> {
        Err(no_python())
    }

    fn faults(&self, _: &FaultsOptions, _: &Path) -> Result<FaultsFound> {
        Err(no_python())
    }

    fn warm(&self, _: &WarmOptions, _: &Path) -> Result<Vec<Warmed>> {
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
