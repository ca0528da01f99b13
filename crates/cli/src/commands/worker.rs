//! `forebay worker`

use forebay_core::Result;
use forebay_server::{Remote, TlsFiles, WorkerConfig, init_logs, worker_main};

use crate::arguments::Worker;
use crate::host::Host;

pub(crate) fn run(arguments: Worker, host: &dyn Host) -> Result<()> {
    init_logs(if arguments.process.exit_with_parent { "warn" } else { "info" });
    let credentials = arguments.access.credentials()?;
    let tls = TlsFiles { client_ca: arguments.tls_client_ca, ..arguments.access.tls() };
    let config = WorkerConfig {
        dispatcher: Remote { address: arguments.dispatcher, credentials },
        tls,
        listen: arguments.listen,
        advertise: arguments.advertise,
        threads: arguments.threads,
        slots: arguments.slots,
        lend: !arguments.no_lend,
        cache: arguments.cache.try_into()?,
        process: arguments.process.into(),
    };
    worker_main(config, host.functions())
}
