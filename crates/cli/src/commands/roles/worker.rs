//! `forebay worker`

use forebay_server::{CacheConfig, Remote, TlsFiles, WorkerConfig, WorkerType, init_logs, worker_main};

use crate::arguments::Worker;
use crate::exit::Failure;
use crate::host::Host;

pub(crate) fn run(arguments: Worker, host: &dyn Host) -> Result<(), Failure> {
    let is_child = arguments.process.exit_with_parent || arguments.local.is_some();
    init_logs(if is_child { "warn" } else { "info" }).map_err(Failure::Usage)?;
    let credentials = arguments.access.credentials()?;
    // A local worker presents its consumer's certificates to the dispatcher, which are not for a server.
    let tls = match arguments.local {
        None => TlsFiles { client_ca: arguments.tls_client_ca, ..arguments.access.tls() },
        Some(_) => TlsFiles::default(),
    };
    let config = WorkerConfig {
        dispatcher: Remote { address: arguments.dispatcher, credentials },
        tls,
        listen: arguments.listen,
        advertise: arguments.advertise,
        threads: arguments.threads,
        slots: arguments.slots,
        memory: arguments.data_memory,
        lend: !arguments.no_lend,
        cache: CacheConfig::try_from(arguments.cache).map_err(Failure::Usage)?,
        worker_type: WorkerType {
            name: arguments.kind.unwrap_or_default(),
            price: arguments.price.unwrap_or(0.0),
            spot: arguments.spot,
        },
        allow_sources: arguments.allow_sources,
        metrics: arguments.metrics,
        local: arguments.local,
        local_key: arguments.local_key,
        process: arguments.process.into(),
    };
    Ok(worker_main(config, host.functions())?)
}
