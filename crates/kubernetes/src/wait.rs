//! `forebay-operator wait`: the init container of a pod on a cluster without scheduling gates.
//!
//! The operator annotates a pod when its cache is ready. The kubelet writes the pod's annotations into a file of a
//! downwardAPI volume, so the pod needs no access to the API.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use forebay_core::{Error, Result};

use crate::caches::uses::READY;

/// Poll interval of the file. The kubelet writes it about once a minute.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The arguments of `forebay-operator wait`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// File with the pod's annotations, as a volume of the kind downwardAPI has it
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    /// Seconds after which to give up
    #[arg(long, value_name = "N", default_value_t = 86_400)]
    timeout: u64,
}

/// Waits until the cache is ready.
///
/// # Errors
/// Unavailable when the cache is not ready before the timeout.
pub(crate) async fn run(arguments: &Arguments) -> Result<()> {
    let ready = format!("{READY}=\"true\"");
    let waits = async {
        while !std::fs::read_to_string(&arguments.file).is_ok_and(|text| text.lines().any(|line| line == ready)) {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    let late = || Error::unavailable(format!("the cache is not ready after {} s", arguments.timeout));
    tokio::time::timeout(Duration::from_secs(arguments.timeout), waits).await.map_err(|_| late())
}
