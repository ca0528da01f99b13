//! The processes of a service: all of them at once, a dispatcher, a worker.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use forebay_server::{JobKey, Offer, Policy};

use super::{Access, Aim, Cache, HttpAddress, Identity, Process, SourceCache};

const UP_EXAMPLES: &str = "\
Examples:
  forebay up                          one worker, with a thread for every core
  forebay up --workers 4 --threads 2  four workers of two threads
  forebay up --workers auto           as many as the jobs need, at most one for every core
  forebay up --state-dir ./state      jobs survive a restart
  forebay up --cache /mnt/nvme/cache  cached rows survive a restart, too
  forebay up --cache /mnt/nvme/cache --cache s3://bucket/forebay   and other machines share them

Then, in a program: ds.distribute(\"forebay://127.0.0.1:7070\", job=\"name\")";

#[derive(Debug, Args)]
#[command(after_help = UP_EXAMPLES)]
pub(crate) struct Up {
    /// Number of workers, or `auto`: as many as the jobs need [default: 1]
    #[arg(long, env = "FOREBAY_WORKERS", value_name = "N|auto", value_parser = worker_count)]
    pub(crate) workers: Option<WorkerCount>,
    /// Maximum number of workers with `--workers auto` [default: the number of cores]
    #[arg(long, env = "FOREBAY_MAX_WORKERS", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) max_workers: Option<u32>,
    /// Scaling policy, which decides how many workers there are: forebay or static:N
    #[arg(long, env = "FOREBAY_POLICY", default_value = "forebay", value_parser = policy)]
    pub(crate) policy: Policy,
    #[command(flatten)]
    pub(crate) aim: Aim,
    /// Address on which the dispatcher listens, on this machine only; port 0 takes a free port
    #[arg(long, env = "FOREBAY_LISTEN", default_value = "127.0.0.1:7070", value_name = "HOST:PORT", value_parser = address)]
    pub(crate) listen: SocketAddr,
    /// Folder for the dispatcher's state [default: a temporary folder]
    #[arg(long, env = "FOREBAY_STATE_DIR")]
    pub(crate) state_dir: Option<PathBuf>,
    /// Compute threads of each worker; 0 divides the cores among the workers, and is 1 with `--workers auto`
    #[arg(long, env = "FOREBAY_THREADS", default_value_t = 0, value_parser = threads)]
    pub(crate) threads: usize,
    #[command(flatten)]
    pub(crate) cache: Cache,
    /// Address of the dashboard, on this machine only, or `off` [default: 127.0.0.1:7073, or a free port]
    #[arg(long, env = "FOREBAY_UP_HTTP", value_name = "HOST:PORT|off", value_parser = super::dashboard::http_address)]
    pub(crate) http: Option<HttpAddress>,
    /// Print addresses and process ids as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// End when stdin ends
    #[arg(long, hide = true)]
    pub(crate) exit_with_parent: bool,
}

/// The most threads of a worker.
const THREADS_MAX: usize = 4096;

/// The number of workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkerCount {
    Fixed(u32),
    Auto,
}

fn worker_count(text: &str) -> std::result::Result<WorkerCount, String> {
    match text.parse() {
        _ if text == "auto" => Ok(WorkerCount::Auto),
        Ok(workers) if workers <= 1024 => Ok(WorkerCount::Fixed(workers)),
        _ => Err("use 0 to 1024, or auto".to_owned()),
    }
}

/// Reads a number of threads that a machine can have.
fn threads(text: &str) -> std::result::Result<usize, String> {
    text.parse().ok().filter(|threads| *threads <= THREADS_MAX).ok_or_else(|| format!("use 0 to {THREADS_MAX}"))
}

/// Reads an address of this machine. If the name has several addresses, takes an IPv4 one, which every client
/// understands.
pub(super) fn address(text: &str) -> std::result::Result<SocketAddr, String> {
    let wrong = || "use HOST:PORT, as 0.0.0.0:7070 or localhost:7070".to_owned();
    if !text.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok()) {
        return Err(wrong());
    }
    let found: Vec<_> = text.to_socket_addrs().map_err(|e| e.to_string())?.collect();
    found.iter().find(|at| at.is_ipv4()).or(found.first()).copied().ok_or_else(wrong)
}

/// Reads the price of a worker.
fn price(text: &str) -> std::result::Result<f64, String> {
    let price = text.parse().map_err(|_| "use a number".to_owned())?;
    forebay_server::check_price(price).map(|()| price).map_err(|e| e.to_string())
}

/// Reads the name of a kind of workers.
fn kind(text: &str) -> std::result::Result<String, String> {
    forebay_server::check_worker_type(text).map(|()| text.to_owned()).map_err(|e| e.to_string())
}

/// Reads a kind of workers that can be started.
fn offer(text: &str) -> std::result::Result<Offer, String> {
    let offer: Offer = text.parse().map_err(|e: forebay_core::Error| e.to_string())?;
    kind(&offer.kind).map(|_| offer)
}

/// Reads the most bytes of a request.
fn request_bytes(text: &str) -> std::result::Result<u64, String> {
    let bytes = super::settings::bytes(text)?;
    let range = 1 << 20..=1 << 30;
    if range.contains(&bytes) { Ok(bytes) } else { Err("use 1MiB to 1GiB".to_owned()) }
}

/// Reads a duration with its unit.
fn age(text: &str) -> std::result::Result<Duration, String> {
    let wrong = || "use a time with its unit: 30s, 12h, 7d".to_owned();
    let days = text.strip_suffix('d').map(|days| days.trim().parse::<f64>().map(|days| days * 86_400.0));
    let seconds = days.unwrap_or_else(|| Ok(super::time(text).unwrap_or(f64::NAN))).map_err(|_| wrong())?;
    Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
}

fn policy(text: &str) -> std::result::Result<Policy, String> {
    text.parse().map_err(|_| "use forebay, or static:N with N from 1 on".to_owned())
}

const DISPATCHER_EXAMPLES: &str = "\
Examples:
  forebay dispatcher --state-dir /var/lib/forebay
  forebay dispatcher --state-dir /var/lib/forebay --http 127.0.0.1:7073    with a dashboard
  forebay dispatcher --listen 0.0.0.0:7070 --state-dir ./state \\
    --tls-cert dispatcher.pem --tls-key dispatcher.key --tokens tokens.json
  forebay dispatcher --listen 0.0.0.0:7070 --offer kind=big,price=0.38,threads=8 \\
    --offer kind=big,price=0.11,threads=8,max=20,spot
  forebay dispatcher --listen 0.0.0.0:7070 --store etcd://e1:2379,e2:2379,e3:2379/forebay

With --store, start two or three dispatchers: one leads, the others stand by to take over. Give workers and clients the
addresses of all of them, with commas between: docs/operations.md.";

#[derive(Debug, Args)]
#[command(after_help = DISPATCHER_EXAMPLES)]
pub(crate) struct Dispatcher {
    /// Address on which the dispatcher listens; port 0 takes a free port
    #[arg(long, env = "FOREBAY_LISTEN", default_value = "127.0.0.1:7070", value_name = "HOST:PORT", value_parser = address)]
    pub(crate) listen: SocketAddr,
    /// Folder for its state, so that jobs survive a restart; for one dispatcher at a time [default: a temporary folder]
    #[arg(long, env = "FOREBAY_STATE_DIR")]
    pub(crate) state_dir: Option<PathBuf>,
    /// Keep the state in etcd, which several dispatchers share; the state folder is then a local cache
    #[arg(long, env = "FOREBAY_STORE", value_name = "etcd://HOST:PORT,.../PREFIX")]
    pub(crate) store: Option<String>,
    /// With --store, the address that clients and workers connect to [default: the address of --listen]
    #[arg(long, env = "FOREBAY_ADVERTISE", value_name = "HOST:PORT")]
    pub(crate) advertise: Option<String>,
    /// With --store, the folder for the jobs' functions and arrays, shared by all dispatchers [default: in etcd, up to 64 MiB each]
    #[arg(long, env = "FOREBAY_BLOB_DIR")]
    pub(crate) blob_dir: Option<PathBuf>,
    /// Lease of a worker, in milliseconds: after so long without a heartbeat its splits go to other workers
    #[arg(long, env = "FOREBAY_LEASE_MS", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(100..=600_000))]
    pub(crate) lease_ms: u64,
    /// Interval between heartbeats of a worker, in milliseconds [default: a fifth of the lease]
    #[arg(long, env = "FOREBAY_HEARTBEAT_MS", value_parser = clap::value_parser!(u64).range(10..=60_000))]
    pub(crate) heartbeat_ms: Option<u64>,
    /// Scaling policy, which decides how many workers there are: forebay or static:N
    #[arg(long, env = "FOREBAY_POLICY", default_value = "forebay", value_parser = policy)]
    pub(crate) policy: Policy,
    #[command(flatten)]
    pub(crate) aim: Aim,
    /// Maximum number of workers that the policy asks for, for one job and for all jobs together
    #[arg(long, env = "FOREBAY_MAX_WORKERS", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) max_workers: u32,
    /// Worker type that can be started: kind=NAME,price=P,threads=N, and optionally max=N and spot; repeat it for each type
    #[arg(long = "offer", env = "FOREBAY_OFFERS", value_delimiter = ';', value_name = "kind=NAME,price=P,threads=N", value_parser = offer)]
    pub(crate) offers: Vec<Offer>,
    /// Number of finished or cancelled jobs to remember for each tenant; the oldest are removed
    #[arg(long, env = "FOREBAY_KEEP_JOBS", default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub(crate) keep_jobs: u32,
    /// Time after which a job without a consumer is removed: 30s, 12h, 7d
    #[arg(long, env = "FOREBAY_KEEP_JOBS_FOR", default_value = "7d", value_name = "TIME", value_parser = age)]
    pub(crate) keep_jobs_for: Duration,
    /// Source that pipelines may read, for tenants without a list in --tokens: /data/, s3://bucket/, https://host/sets/; repeat it for each [default: all sources]
    #[arg(long = "allow-source", env = "FOREBAY_ALLOW_SOURCES", value_delimiter = ';', value_name = "PREFIX")]
    pub(crate) allow_sources: Vec<String>,
    /// Maximum size of all jobs' functions, arrays and indexes together, such as 50GiB [default: as much as the disk holds]
    #[arg(long, env = "FOREBAY_BLOB_BYTES", value_name = "SIZE", value_parser = super::settings::bytes)]
    pub(crate) blob_bytes: Option<u64>,
    /// Space that they leave free on their disk [default: 1GiB, or a twentieth of a smaller disk]
    #[arg(long, env = "FOREBAY_KEEP_FREE", value_name = "SIZE", value_parser = super::settings::bytes)]
    pub(crate) keep_free: Option<u64>,
    /// Maximum size of one request, such as a pipeline that names each of its files; all concurrent requests share twice that
    #[arg(long, env = "FOREBAY_REQUEST_BYTES", default_value = "64MiB", value_name = "SIZE", value_parser = request_bytes)]
    pub(crate) request_bytes: u64,
    /// Address of the metrics for Prometheus and KEDA: http://HOST:PORT/metrics, without TLS [default: no metrics]
    #[arg(long, env = "FOREBAY_METRICS", value_name = "HOST:PORT", value_parser = address)]
    pub(crate) metrics: Option<SocketAddr>,
    /// Address of the dashboard: web pages and an HTTP API, without TLS; port 0 takes a free port [default: no dashboard]
    #[arg(long, env = "FOREBAY_HTTP", value_name = "HOST:PORT", value_parser = address)]
    pub(crate) http: Option<SocketAddr>,
    /// Name by which browsers reach the dashboard, besides IP addresses and localhost; repeat it for each
    #[arg(long = "http-host", env = "FOREBAY_HTTP_HOSTS", value_delimiter = ';', value_name = "NAME")]
    pub(crate) http_hosts: Vec<String>,
    /// File of bearer tokens, which say who may call; see `forebay token` [default: anyone may do anything]
    #[arg(long, env = "FOREBAY_TOKENS", value_name = "FILE")]
    pub(crate) tokens: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) cache: SourceCache,
    #[command(flatten)]
    pub(crate) identity: Identity,
    // For `up`, with a folder that it made.
    #[arg(long, hide = true, requires = "state_dir")]
    pub(crate) temporary: bool,
    #[command(flatten)]
    pub(crate) process: Process,
}

const WORKER_EXAMPLES: &str = "\
Examples:
  forebay worker --dispatcher 10.0.0.5:7070 --listen 0.0.0.0:7080
  forebay worker --dispatcher forebay://dispatcher:7070 --listen 0.0.0.0:7080 --advertise $POD_IP:7080
  forebay worker --dispatcher 10.0.0.5:7070 --listen 0.0.0.0:7080 --cache /mnt/nvme/cache --cache s3://bucket/forebay
  forebay worker --dispatcher 10.0.0.5:7070 --listen 0.0.0.0:7080 --kind c5.4xlarge --price 0.27 --spot";

#[derive(Debug, Args)]
#[command(after_help = WORKER_EXAMPLES)]
pub(crate) struct Worker {
    /// Address of the dispatcher: forebay://host:port or host:port; of several, with commas between them
    #[arg(long, env = "FOREBAY_DISPATCHER", value_name = "HOST:PORT")]
    pub(crate) dispatcher: String,
    /// Address on which the worker serves chunks; port 0 takes a free port
    #[arg(long, env = "FOREBAY_WORKER_LISTEN", default_value = "127.0.0.1:0", value_name = "HOST:PORT", value_parser = address)]
    pub(crate) listen: SocketAddr,
    /// Address that consumers connect to; without a port, that of --listen [default: the address of --listen]
    #[arg(long, env = "FOREBAY_ADVERTISE", value_name = "HOST[:PORT]")]
    pub(crate) advertise: Option<String>,
    /// Compute threads; 0 is one for each core
    #[arg(long, env = "FOREBAY_THREADS", default_value_t = 0, value_parser = threads)]
    pub(crate) threads: usize,
    /// Maximum number of splits that the worker computes or has waiting; 0 is twice the threads plus two
    #[arg(long, env = "FOREBAY_SLOTS", default_value_t = 0)]
    pub(crate) slots: usize,
    /// Memory for data, such as 4GiB, without the memory for cached rows [default: half of the machine's or container's]
    // Not `memory`: clap distinguishes arguments of one command by the names of their fields, and the cache has one of
    // that name.
    #[arg(long = "memory", env = "FOREBAY_MEMORY", value_name = "SIZE", value_parser = super::settings::bytes)]
    pub(crate) data_memory: Option<u64>,
    /// Send copies to consumers on this machine, too, and do not lend them memory
    #[arg(long, env = "FOREBAY_NO_LEND")]
    pub(crate) no_lend: bool,
    #[command(flatten)]
    pub(crate) cache: Cache,
    /// Worker type, a name of your choice for the kind of machine, such as c5.4xlarge [default: none]
    #[arg(long, env = "FOREBAY_KIND", value_name = "NAME", value_parser = kind)]
    pub(crate) kind: Option<String>,
    /// Price of this worker for an hour, in the currency of the other prices
    #[arg(long, env = "FOREBAY_PRICE", value_name = "PRICE", value_parser = price, allow_negative_numbers = true)]
    pub(crate) price: Option<f64>,
    /// The machine is a spot machine, which its provider may take back at any time
    #[arg(long, env = "FOREBAY_SPOT")]
    pub(crate) spot: bool,
    /// Source that pipelines may read on this worker, also where the dispatcher allows more: /data/, s3://bucket/, https://host/sets/; repeat it for each [default: all sources]
    #[arg(long = "allow-source", env = "FOREBAY_ALLOW_SOURCES", value_delimiter = ';', value_name = "PREFIX")]
    pub(crate) allow_sources: Vec<String>,
    /// Address of the metrics for Prometheus: http://HOST:PORT/metrics, without TLS [default: no metrics]
    #[arg(long, env = "FOREBAY_WORKER_METRICS", value_name = "HOST:PORT", value_parser = address)]
    pub(crate) metrics: Option<SocketAddr>,
    /// PEM file of the authority that must have signed the certificates of consumers [default: anyone may connect]
    #[arg(long, env = "FOREBAY_TLS_CLIENT_CA", value_name = "FILE")]
    pub(crate) tls_client_ca: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) access: Access,
    // For the consumers that start local workers.
    #[arg(long, hide = true, value_parser = consumer)]
    pub(crate) local: Option<(u64, u32)>,
    #[arg(long, hide = true, env = "FOREBAY_LOCAL_KEY", hide_env_values = true, value_parser = key, default_value = "")]
    pub(crate) local_key: JobKey,
    #[command(flatten)]
    pub(crate) process: Process,
}

/// Reads the key that proves which consumer started a local worker.
fn key(text: &str) -> std::result::Result<JobKey, &'static str> {
    if text.is_empty() { Ok(JobKey::default()) } else { JobKey::try_from(text.to_owned()) }
}

/// Reads a job and one of its consumers.
fn consumer(text: &str) -> std::result::Result<(u64, u32), String> {
    let parts = text.split_once(':').and_then(|(job, consumer)| Some((job.parse().ok()?, consumer.parse().ok()?)));
    parts.ok_or_else(|| "use JOB:CONSUMER, by their numbers".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_units() {
        let seconds = |text| age(text).map(|age| age.as_secs());
        assert_eq!([seconds("7d"), seconds("12h"), seconds("30s")], [Ok(604_800), Ok(43_200), Ok(30)]);
        assert!(["", "7", "d", "-1d", "infd", "nand", "1e300d", "x"].iter().all(|text| age(text).is_err()));
    }
}
