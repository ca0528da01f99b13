//! `forebay dispatcher`

use std::time::Duration;

use forebay_core::{Error, Result};
use forebay_server::{
    BlobLimits, DispatcherConfig, HttpOptions, Retention, Scaling, Timing, check_offers, dispatcher_main, init_logs,
};

use crate::arguments::Dispatcher;
use crate::exit::Failure;

pub(crate) fn run(mut arguments: Dispatcher) -> Result<(), Failure> {
    init_logs(if arguments.process.exit_with_parent { "warn" } else { "info" }).map_err(Failure::Usage)?;
    // Lives as long as the dispatcher.
    let own =
        if arguments.state_dir.is_none() { Some(crate::commands::scratch("forebay-dispatcher-", None)?) } else { None };
    if let Some(folder) = &own {
        let at = folder.path();
        eprintln!(
            "the state is in the temporary folder {}: give --state-dir, and jobs survive a restart",
            at.display()
        );
        (arguments.state_dir, arguments.temporary) = (Some(at.to_owned()), true);
    }
    let config = config(arguments).map_err(Failure::Usage)?;
    Ok(dispatcher_main(config)?)
}

/// # Errors
/// Invalid if options are incompatible.
fn config(arguments: Dispatcher) -> Result<DispatcherConfig> {
    let lease = Duration::from_millis(arguments.lease_ms);
    let heartbeat = arguments.heartbeat_ms.map_or(lease / 5, Duration::from_millis);
    check(heartbeat, lease)?;
    let (policy, workers_max) = (arguments.policy, arguments.max_workers);
    let scaling = Scaling { policy, objective: arguments.aim.try_into()?, workers_max };
    scaling.check()?;
    check_offers(&arguments.offers)?;
    Ok(DispatcherConfig {
        listen: arguments.listen,
        state_dir: arguments.state_dir.unwrap_or_default(),
        store: arguments.store,
        advertise: arguments.advertise,
        blob_dir: arguments.blob_dir,
        tls: arguments.identity.into(),
        tokens: arguments.tokens,
        scaling,
        offers: arguments.offers,
        timing: Timing { heartbeat, lease, ..Timing::default() },
        retention: Retention {
            jobs: arguments.keep_jobs as usize,
            age: arguments.keep_jobs_for,
            ..Retention::default()
        },
        blobs: BlobLimits { bytes: arguments.blob_bytes, keep_free: arguments.keep_free },
        request_bytes_max: arguments.request_bytes,
        allow_sources: arguments.allow_sources,
        metrics: arguments.metrics,
        http: arguments.http.map(|listen| HttpOptions { listen, any_port: false, hosts: arguments.http_hosts }),
        cache: arguments.cache.try_into()?,
        is_temporary: arguments.temporary,
        process: arguments.process.into(),
    })
}

/// A worker must send a message before it counts as lost, even if one of its messages is late.
fn check(heartbeat: Duration, lease: Duration) -> Result<()> {
    if heartbeat * 2 <= lease {
        return Ok(());
    }
    let message =
        format!("--heartbeat-ms {} is more than half of --lease-ms {}", heartbeat.as_millis(), lease.as_millis());
    Err(Error::invalid(message).hint("workers would be taken for lost between two heartbeats; a fifth is the default"))
}
