//! `forebay worker`

use forebay_core::Result;
use forebay_server::{Remote, TlsFiles, WorkerConfig, init_logs, worker_main};

use crate::arguments::Worker;
use crate::host::Host;

pub(crate) fn run(arguments: Worker, host: &dyn Host) -> Result<()> {
    let is_child = arguments.process.exit_with_parent || arguments.local.is_some();
    init_logs(if is_child { "warn" } else { "info" });
    let credentials = arguments.access.credentials()?;
    // What a local worker shows the dispatcher are its reader's certificates, which are no server's.
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
        lend: !arguments.no_lend,
        cache: arguments.cache.try_into()?,
        local: arguments.local,
        process: arguments.process.into(),
    };
    worker_main(config, host.functions())
}
