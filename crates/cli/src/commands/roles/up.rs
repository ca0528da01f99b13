//! `forebay up`

use forebay_core::{Error, Result};
use forebay_server::{HttpOptions, Remote, RunningDashboard, StopSignal, UpOptions, Workers, init_logs};

use super::dashboard::default_address;
use crate::arguments::{HttpAddress, Up, WorkerCount};
use crate::exit::Failure;
use crate::host::Host;
use crate::output;

/// The started processes.
#[derive(serde::Serialize)]
struct Started {
    service: String,
    dispatcher: u32,
    workers: Vec<u32>,
    /// The address of the dashboard; `null` if there is none.
    dashboard: Option<String>,
}

pub(crate) fn run(arguments: Up, host: &dyn Host) -> Result<(), Failure> {
    init_logs("warn").map_err(Failure::Usage)?;
    let (is_child, json) = (arguments.exit_with_parent, arguments.json);
    let http = http(arguments.http).map_err(Failure::Usage)?;
    let options = options(arguments, host).map_err(Failure::Usage)?;
    if is_child {
        forebay_server::exit_with_parent(|| ())?;
    }
    Ok(serve(options, http, json)?)
}

/// Returns the options of the dashboard; `None` if it is off.
///
/// # Errors
/// Invalid if other machines reach the address.
fn http(address: Option<HttpAddress>) -> Result<Option<HttpOptions>> {
    let (listen, any_port) = match address {
        Some(HttpAddress::Off) => return Ok(None),
        Some(HttpAddress::At(listen)) => (listen, false),
        None => (default_address(), true),
    };
    if !listen.ip().is_loopback() {
        let message = format!("`up` serves only this machine, and {listen} can be reached from other machines");
        return Err(Error::invalid(message).hint("give --http 127.0.0.1:PORT, or use `forebay dashboard`"));
    }
    Ok(Some(HttpOptions { listen, any_port, hosts: Vec::new() }))
}

/// # Errors
/// Invalid if options are incompatible.
fn options(arguments: Up, host: &dyn Host) -> Result<UpOptions> {
    let workers = match (arguments.workers.unwrap_or(WorkerCount::Fixed(1)), arguments.max_workers) {
        (WorkerCount::Auto, max) => Workers::Auto { max: max.unwrap_or(0) as usize },
        (WorkerCount::Fixed(workers), None) => Workers::Fixed(workers as usize),
        (WorkerCount::Fixed(_), Some(_)) => {
            return Err(Error::invalid("--max-workers goes with --workers auto").hint("leave one of them out"));
        }
    };
    let options = UpOptions {
        workers,
        policy: arguments.policy,
        objective: arguments.aim.try_into()?,
        threads: arguments.threads,
        listen: arguments.listen,
        state_dir: arguments.state_dir,
        respawn: true,
        cache: arguments.cache.try_into()?,
        ..UpOptions::new(host.command())
    };
    options.check()?;
    Ok(options)
}

fn serve(options: UpOptions, http: Option<HttpOptions>, json: bool) -> Result<()> {
    // Children end with this process, so a Ctrl-C before they are ready may simply end it.
    let up = crate::commands::start(options)?;
    let stop = StopSignal::new()?;
    let service = format!("forebay://{}", up.address());
    let dashboard = http.map(|http| RunningDashboard::of_service(http, Remote::new(up.address()))).transpose()?;
    let address = dashboard.as_ref().map(|dashboard| format!("http://{}/", dashboard.address()));
    let started = Started { service, dispatcher: up.dispatcher_pid(), workers: up.worker_pids(), dashboard: address };
    if json {
        let line = serde_json::to_string(&started).map_err(|e| Error::internal(e.to_string()))?;
        output::line(&line)?;
    } else {
        output::line(&format!("service     {}", started.service))?;
        output::line(&format!("dispatcher  process {}", started.dispatcher))?;
        for (number, pid) in started.workers.iter().enumerate() {
            output::line(&format!("worker {number:<4} process {pid}"))?;
        }
        if let Some(address) = &started.dashboard {
            output::line(&format!("dashboard   {address}"))?;
        }
        eprintln!("Ctrl-C ends it");
    }
    let stopped = stop.wait(|| up.check());
    up.close();
    stopped
}
