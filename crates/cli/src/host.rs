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

    /// Runs the demo and returns its table. What it needs it makes in `folder`.
    ///
    /// # Errors
    /// NotFound and Data of the shards; what running a service gives.
    fn demo(&self, options: &DemoOptions, folder: &Path) -> Result<Vec<DemoRow>>;

    /// Injects faults into services on this machine, and compares what comes out with what must. What it needs it makes
    /// in `folder`.
    ///
    /// # Errors
    /// Invalid when there is no such scenario, or no Python; what making the data gives.
    fn faults(&self, options: &FaultsOptions, folder: &Path) -> Result<FaultsFound>;

    /// Computes what the datasets of a script keep, each row once.
    ///
    /// # Errors
    /// As [`Host::run_file`]; Invalid where there is nothing to keep, NotFound where there is no such dataset.
    fn warm(&self, options: &WarmOptions, path: &Path) -> Result<Vec<Warmed>>;

    /// Returns what runs users' Python in a worker.
    fn functions(&self) -> Arc<dyn Functions>;

    /// Returns the command that starts this command line again, without arguments: `python -m forebay`.
    fn command(&self) -> Vec<String>;
}

/// What to keep, and where.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WarmOptions {
    /// The datasets' names; empty: each that keeps rows.
    pub datasets: Vec<String>,
    /// Of the runs to come.
    pub seed: u64,
    /// Threads that compute; 0 is one for each core.
    pub threads: usize,
    /// Where rows are kept, as `FOREBAY_CACHE` says it.
    pub cache: String,
    /// The most bytes of memory; `None` is what a process takes.
    pub memory: Option<u64>,
    /// The most bytes in the folder; `None` as for a worker.
    pub disk: Option<u64>,
    /// The most bytes in the store; `None` as for a worker.
    pub store: Option<u64>,
}

/// What became of one dataset's rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Warmed {
    /// Its name in the script.
    pub dataset: String,
    /// Rows of its source.
    pub rows: u64,
    /// Rows that were not there.
    pub computed: u64,
    /// Rows that are on disk now; filtered ones are not.
    pub on_disk: u64,
    /// Rows that are in the store now.
    pub in_store: u64,
    /// Rows that failed, and are not kept.
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
    pub beside: BTreeMap<String, RivalFigure>,
}

/// A rival's figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RivalFigure {
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

/// How the demo runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DemoOptions {
    /// How long it trains.
    pub epochs: u32,
    /// How many workers there are at first.
    pub workers: u32,
    /// A folder of shards; `None` for digits that are drawn.
    pub shards: Option<PathBuf>,
}

/// One promise of the demo.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DemoRow {
    /// What is promised something of.
    pub name: String,
    /// What the run gave.
    pub found: String,
    /// What it had to give.
    pub promised: String,
    /// Whether it did.
    pub ok: bool,
}

/// Which faults to inject, and how they are judged.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FaultsOptions {
    /// Whether a choice of them will do.
    pub quick: bool,
    /// Only these scenarios; all where empty.
    pub scenarios: Vec<String>,
    /// With so many workers; a choice where empty.
    pub workers: Vec<u32>,
    /// Records; a choice where 0.
    pub samples: u32,
    /// Of the data, of the order, and of where successive faults strike.
    pub seed: u32,
    /// Whether pauses, and what was computed again, are judged.
    pub timing: bool,
}

/// What came of them.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct FaultsFound {
    /// What it ran on.
    pub versions: BTreeMap<String, String>,
    /// A row for each run.
    pub rows: Vec<FaultRow>,
    /// What was left out, and why.
    pub notes: Vec<String>,
}

/// One run under a fault. Times are in milliseconds, and `None` where there are none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FaultRow {
    /// Its name.
    pub scenario: String,
    /// What was read: records or pictures.
    pub data: String,
    /// How many workers there were; 0 where nothing was run.
    pub workers: u32,
    /// What was done.
    pub fault: String,
    /// Where in the stream.
    pub place: String,
    /// What it may cost.
    pub bound: String,
    /// Rows that came, over all epochs.
    pub samples: u64,
    /// Whether each came once in every epoch.
    pub each_once: bool,
    /// Whether all had the bytes that they must have.
    pub bytes: bool,
    /// Whether rows and batches were in their places.
    pub order: bool,
    /// The consumer's longest wait in a run without a fault.
    pub calm_ms: Option<f64>,
    /// Its longest wait from the fault on.
    pub longest_ms: Option<f64>,
    /// From the last restart to the end of that wait.
    pub resumed_ms: Option<f64>,
    /// Splits that were computed more than once.
    pub again: u64,
    /// Splits that were in flight with what died.
    pub again_max: u64,
    /// Processes, memory, sockets, files and leases that were left behind.
    pub left: Vec<String>,
    /// What is not as promised.
    pub problems: Vec<String>,
    /// `ok` or `RED`.
    pub verdict: String,
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
