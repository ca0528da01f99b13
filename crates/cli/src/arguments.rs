//! Every command and option, with its help.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use forebay_core::Result;
use forebay_server::{CacheConfig, Credentials, Role, TlsFiles};

const EXIT_CODES: &str = "\
Exit codes:
  0  it worked                      4  no such job or file, or no permission
  1  it failed: the message says    5  the data is corrupt, or changed
  2  the command line is wrong      6  a function of yours raised
  3  something did not answer       7  the two sides are of different versions

Logs go to stderr; FOREBAY_LOG=debug says more. NO_COLOR=1 takes the colours away.";

/// Input data processing as a service for machine learning.
#[derive(Debug, Parser)]
#[command(name = "forebay", version, after_help = EXIT_CODES, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a whole service on this machine, until Ctrl-C
    Up(Up),
    /// Run a dispatcher
    Dispatcher(Dispatcher),
    /// Run a worker
    Worker(Worker),
    /// List the jobs of a service
    Jobs(List),
    /// List the workers of a service
    Workers(List),
    /// Run a Python script, its datasets on a service if one is named
    Run(Run),
    /// Show what the datasets of a Python script do, and why
    Explain(Explain),
    /// List, show and retry the samples that were put in quarantine
    Quarantine(Quarantine),
    /// Measure this machine, beside the rivals that are installed
    Bench(Bench),
    /// Prove on this machine what is promised
    Selftest(Selftest),
    /// Make tokens: who may use a service, and as what
    Token(Token),
    /// Print the version
    Version(Version),
}

const UP_EXAMPLES: &str = "\
Examples:
  forebay up                          one worker, with a thread for every core
  forebay up --workers 4 --threads 2  four workers of two threads
  forebay up --state-dir ./state      jobs survive a restart
  forebay up --cache /mnt/nvme/cache  what cache() keeps does, too

Then, in a program: ds.distribute(\"forebay://127.0.0.1:7070\", job=\"name\")";

#[derive(Debug, Args)]
#[command(after_help = UP_EXAMPLES)]
pub(crate) struct Up {
    /// Workers [default: 1]
    #[arg(long, env = "FOREBAY_WORKERS", value_parser = clap::value_parser!(u32).range(0..=1024))]
    pub(crate) workers: Option<u32>,
    /// Port of the dispatcher, on 127.0.0.1; 0 takes any free one
    #[arg(long, env = "FOREBAY_PORT", default_value_t = 7070)]
    pub(crate) port: u16,
    /// Folder of the dispatcher's state [default: a temporary one]
    #[arg(long, env = "FOREBAY_STATE_DIR")]
    pub(crate) state_dir: Option<PathBuf>,
    /// Threads that compute, in each worker; 0 shares out the cores
    #[arg(long, env = "FOREBAY_THREADS", default_value_t = 0)]
    pub(crate) threads: usize,
    #[command(flatten)]
    pub(crate) cache: Cache,
    /// Print the addresses and processes as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// End when stdin ends
    #[arg(long, hide = true)]
    pub(crate) exit_with_parent: bool,
}

const DISPATCHER_EXAMPLES: &str = "\
Examples:
  forebay dispatcher --state-dir /var/lib/forebay
  forebay dispatcher --listen 0.0.0.0:7070 --state-dir ./state \\
    --tls-cert dispatcher.pem --tls-key dispatcher.key --tokens tokens.json";

#[derive(Debug, Args)]
#[command(after_help = DISPATCHER_EXAMPLES)]
pub(crate) struct Dispatcher {
    /// Where it listens; port 0 takes any free one
    #[arg(long, env = "FOREBAY_LISTEN", default_value = "127.0.0.1:7070")]
    pub(crate) listen: SocketAddr,
    /// Folder of its state; one dispatcher at a time
    #[arg(long, env = "FOREBAY_STATE_DIR", default_value = "forebay-state")]
    pub(crate) state_dir: PathBuf,
    /// Silence, in milliseconds, after which a worker's splits go to others
    #[arg(long, env = "FOREBAY_LEASE_MS", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(100..=600_000))]
    pub(crate) lease_ms: u64,
    /// How often, in milliseconds, a worker says that it lives [default: a fifth of the lease]
    #[arg(long, env = "FOREBAY_HEARTBEAT_MS", value_parser = clap::value_parser!(u64).range(10..=60_000))]
    pub(crate) heartbeat_ms: Option<u64>,
    /// File of tokens: who may call, and as what; see `forebay token` [default: everybody may do everything]
    #[arg(long, env = "FOREBAY_TOKENS", value_name = "FILE")]
    pub(crate) tokens: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) identity: Identity,
    #[command(flatten)]
    pub(crate) process: Process,
}

const WORKER_EXAMPLES: &str = "\
Examples:
  forebay worker --dispatcher 10.0.0.5:7070 --listen 0.0.0.0:7080
  forebay worker --dispatcher forebay://dispatcher:7070 --listen 0.0.0.0:7080 --advertise $POD_IP:7080";

#[derive(Debug, Args)]
#[command(after_help = WORKER_EXAMPLES)]
pub(crate) struct Worker {
    /// The dispatcher: forebay://host:port or host:port
    #[arg(long, env = "FOREBAY_DISPATCHER", value_name = "HOST:PORT")]
    pub(crate) dispatcher: String,
    /// Where it serves chunks; port 0 takes any free one
    #[arg(long, env = "FOREBAY_WORKER_LISTEN", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    /// What consumers are told to connect to [default: where it listens]
    #[arg(long, env = "FOREBAY_ADVERTISE", value_name = "HOST:PORT")]
    pub(crate) advertise: Option<String>,
    /// Threads that compute; 0 is one for each core
    #[arg(long, env = "FOREBAY_THREADS", default_value_t = 0)]
    pub(crate) threads: usize,
    /// Splits that wait or are computed at once; 0 is twice the threads and two
    #[arg(long, env = "FOREBAY_SLOTS", default_value_t = 0)]
    pub(crate) slots: usize,
    /// Send copies to readers on this machine too, instead of lending them memory
    #[arg(long, env = "FOREBAY_NO_LEND")]
    pub(crate) no_lend: bool,
    #[command(flatten)]
    pub(crate) cache: Cache,
    /// PEM file of the authority that must have signed the certificates of readers [default: anyone may connect]
    #[arg(long, env = "FOREBAY_TLS_CLIENT_CA", value_name = "FILE")]
    pub(crate) tls_client_ca: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) access: Access,
    #[command(flatten)]
    pub(crate) process: Process,
}

/// Where a worker keeps what `cache()` keeps.
#[derive(Debug, Args)]
pub(crate) struct Cache {
    /// Folder on a local disk for what pipelines with cache() keep; workers may share it [default: memory alone]
    #[arg(long = "cache", env = "FOREBAY_CACHE", value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// The most memory of a worker for it, as 4GiB [default: a quarter of the machine's or container's, at most 8GiB]
    #[arg(long = "cache-memory", env = "FOREBAY_CACHE_MEMORY", value_name = "SIZE", value_parser = bytes)]
    memory: Option<u64>,
    /// The most that is kept in the folder, as 100GiB [default: 32GiB]
    #[arg(long = "cache-disk", env = "FOREBAY_CACHE_DISK", value_name = "SIZE", value_parser = bytes)]
    disk: Option<u64>,
}

fn bytes(text: &str) -> std::result::Result<u64, String> {
    forebay_server::parse_bytes(text).map_err(|e| e.to_string())
}

impl From<Cache> for CacheConfig {
    fn from(cache: Cache) -> Self {
        let Cache { folder, memory, disk } = cache;
        Self { folder, memory, disk }
    }
}

/// Who a dispatcher is, and whom it lets in.
#[derive(Debug, Args)]
pub(crate) struct Identity {
    /// PEM file of its certificate, and of those that lead to the authority; turns TLS on
    #[arg(long, env = "FOREBAY_TLS_CERT", value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// PEM file of the certificate's key
    #[arg(long, env = "FOREBAY_TLS_KEY", value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// PEM file of the authority that must have signed the certificates of clients and workers [default: anyone may connect]
    #[arg(long, env = "FOREBAY_TLS_CLIENT_CA", value_name = "FILE")]
    tls_client_ca: Option<PathBuf>,
}

impl From<Identity> for TlsFiles {
    fn from(identity: Identity) -> Self {
        let Identity { tls_cert: cert, tls_key: key, tls_client_ca: client_ca } = identity;
        Self { cert, key, client_ca, ..Self::default() }
    }
}

/// What is shown to a service, and whom of it is trusted.
#[derive(Debug, Args)]
pub(crate) struct Access {
    /// PEM file of the authority that signed the service's certificates; turns TLS on
    #[arg(long, env = "FOREBAY_TLS_CA", value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// PEM file of the own certificate, and of those that lead to the authority
    #[arg(long, env = "FOREBAY_TLS_CERT", value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// PEM file of the certificate's key
    #[arg(long, env = "FOREBAY_TLS_KEY", value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Name that the service's certificates must have [default: the host of the address]
    #[arg(long, env = "FOREBAY_TLS_NAME", value_name = "NAME")]
    tls_name: Option<String>,
    /// File with the token, if FOREBAY_TOKEN does not hold it
    #[arg(long, env = "FOREBAY_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
    // Of the environment alone: other users see command lines.
    #[arg(long, env = "FOREBAY_TOKEN", hide = true, hide_env_values = true)]
    token: Option<String>,
}

impl Access {
    /// Returns where the certificates are.
    pub(crate) fn tls(&self) -> TlsFiles {
        TlsFiles {
            ca: self.tls_ca.clone(),
            cert: self.tls_cert.clone(),
            key: self.tls_key.clone(),
            name: self.tls_name.clone(),
            client_ca: None,
        }
    }

    /// Reads what there is.
    ///
    /// # Errors
    /// As [`Credentials::load`].
    pub(crate) fn credentials(&self) -> Result<Credentials> {
        Credentials::load(&self.tls(), self.token.as_deref(), self.token_file.as_deref())
    }
}

/// How a process relates to the one that started it. For `up`.
#[derive(Debug, Args)]
pub(crate) struct Process {
    #[arg(long, hide = true)]
    pub(crate) announce: bool,
    #[arg(long, hide = true)]
    pub(crate) exit_with_parent: bool,
}

impl From<Process> for forebay_server::Process {
    fn from(process: Process) -> Self {
        Self { announce: process.announce, exit_with_parent: process.exit_with_parent }
    }
}

const LIST_EXAMPLES: &str = "\
Examples:
  forebay jobs
  forebay workers --service forebay://10.0.0.5:7070 --json";

#[derive(Debug, Args)]
#[command(after_help = LIST_EXAMPLES)]
pub(crate) struct List {
    /// The service: forebay://host:port or host:port
    #[arg(long, env = "FOREBAY_SERVICE", default_value = "forebay://127.0.0.1:7070", value_name = "ADDRESS")]
    pub(crate) service: String,
    /// How long to wait for it, in seconds
    #[arg(long, default_value_t = 5.0)]
    pub(crate) timeout: f64,
    #[command(flatten)]
    pub(crate) access: Access,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

const RUN_EXAMPLES: &str = "\
Examples:
  forebay run train.py --epochs 3
  forebay run --service forebay://10.0.0.5:7070 train.py
  forebay run --workers 2 train.py    with a service that ends with the script";

#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct Run {
    /// The service that the script finds in FOREBAY_SERVICE
    #[arg(long, value_name = "ADDRESS", conflicts_with = "workers")]
    pub(crate) service: Option<String>,
    /// Start a service with this many workers for the script
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) workers: Option<u32>,
    /// The script
    pub(crate) file: PathBuf,
    /// Its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) args: Vec<String>,
}

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  forebay explain train.py
  forebay explain train.py --json";

#[derive(Debug, Args)]
#[command(after_help = EXPLAIN_EXAMPLES)]
pub(crate) struct Explain {
    /// The script
    pub(crate) file: PathBuf,
    /// Also show how an epoch is cut into splits, which indexes the source
    #[arg(long)]
    pub(crate) splits: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

const QUARANTINE_EXAMPLES: &str = "\
Examples:
  forebay quarantine ls                               of quarantine-*.jsonl in this folder
  forebay quarantine show bad.jsonl --sample 'row 7'  its error and its record
  forebay quarantine retry bad.jsonl                  runs the pipeline's row ops on each record, here

`retry` loads the functions that the file holds: use it on files that you trust. It exits with 1 while samples fail.";

#[derive(Debug, Args)]
#[command(after_help = QUARANTINE_EXAMPLES)]
pub(crate) struct Quarantine {
    /// What to do
    #[arg(value_enum)]
    pub(crate) action: QuarantineAction,
    /// The files [default: quarantine-*.jsonl in this folder]
    pub(crate) files: Vec<PathBuf>,
    /// Only the sample of this name, or number
    #[arg(long)]
    pub(crate) sample: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum QuarantineAction {
    /// One line for each sample
    Ls,
    /// Errors and records in full
    Show,
    /// Try them again
    Retry,
}

const BENCH_EXAMPLES: &str = "\
Examples:
  forebay bench
  forebay bench --json > figures.json
  forebay bench --dir /mnt/nvme       the ledger's disk is a part of what is measured

With tensorflow or torch (and torchvision) in the same Python, their pipelines run in turns with ours.
The images need Pillow: pip install pillow";

#[derive(Debug, Args)]
#[command(after_help = BENCH_EXAMPLES)]
pub(crate) struct Bench {
    /// How long each rate is measured, in seconds, after a second at most of warming up
    #[arg(long, default_value_t = 2.0, value_parser = seconds)]
    pub(crate) seconds: f64,
    /// How often each figure is measured; medians are shown
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,
    /// JPEG files to make, 500 by 375 pixels
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) images: u32,
    /// Records of four numbers to make
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub(crate) records: u32,
    /// Splits to grant
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) splits: u64,
    /// Where to make the data and the ledger, in a folder that is removed at the end [default: the temporary folder]
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

fn seconds(text: &str) -> std::result::Result<f64, String> {
    let found = text.parse::<f64>().map_err(|e| e.to_string())?;
    if (0.01..=3600.0).contains(&found) { Ok(found) } else { Err("use 0.01 to 3600".to_owned()) }
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  forebay selftest faults --quick\n  forebay selftest faults --help")]
pub(crate) struct Selftest {
    #[command(subcommand)]
    pub(crate) what: SelftestOf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SelftestOf {
    /// Kill and stop real processes, and compare every batch with what it must be
    Faults(Faults),
}

const FAULTS_EXAMPLES: &str = "\
Examples:
  forebay selftest faults --quick                  a minute or two
  forebay selftest faults                          every scenario at every place, with 1, 2, 3 and 8 workers
  forebay selftest faults --scenario killall --workers 3
  forebay selftest faults --json > faults.json

Every sample has an id and a checksum. What must come out is computed without the service: ids and records by NumPy,
pictures and the order by one thread. A run is good when every sample came once, with its bytes, in its place; when the
pause and what was computed again are within their bounds; and when nothing is left behind. The exit code is 1 where
one is not. The pictures need Pillow: pip install pillow";

#[derive(Debug, Args)]
#[command(after_help = FAULTS_EXAMPLES)]
pub(crate) struct Faults {
    /// Fewer samples, two workers, fewer places
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only this scenario, and the undisturbed run before it; may be given again
    #[arg(long, value_name = "NAME")]
    pub(crate) scenario: Vec<String>,
    /// Only so many workers, with every place; may be given again [default: 1, 2, 3, 8; with --quick, 2]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) workers: Vec<u32>,
    /// Records to make [default: 100003; with --quick, 20011]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1_000..=100_000_000))]
    pub(crate) samples: Option<u32>,
    /// What the data, the order and the places of successive faults follow from
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u32,
    /// Report pauses and what was computed again, and do not judge them: for a machine that is busy with other things
    #[arg(long)]
    pub(crate) no_timing: bool,
    /// Where to make the data and the state, in a folder that is removed at the end [default: the temporary folder]
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

const TOKEN_EXAMPLES: &str = "\
Examples:
  forebay token new --tokens tokens.json --tenant vision > vision.token
  forebay token new --tokens tokens.json --role worker   a worker for every tenant
  forebay token new --tenant vision --json               prints what to add to the file

A token is shown once: the file has only what SHA-256 makes of it. The dispatcher takes a changed file up within a second; to
revoke a token, take its entry out. Quotas stand in the same file:
  \"tenants\": {\"vision\": {\"jobs\": 8, \"consumers\": 64, \"workers\": 16, \"calls_per_second\": 100}}";

#[derive(Debug, Args)]
#[command(after_help = TOKEN_EXAMPLES)]
pub(crate) struct Token {
    #[command(subcommand)]
    pub(crate) what: TokenAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenAction {
    /// Make a token and print it, once
    New(NewToken),
}

#[derive(Debug, Args)]
#[command(after_help = TOKEN_EXAMPLES)]
pub(crate) struct NewToken {
    /// Whose it is; a client's token needs one, a worker's without one computes for every tenant
    #[arg(long, default_value = "")]
    pub(crate) tenant: String,
    /// What its bearer may do
    #[arg(long, value_enum, default_value = "client")]
    pub(crate) role: RoleName,
    /// The dispatcher's file of tokens, which the entry is added to
    #[arg(long, value_name = "FILE")]
    pub(crate) tokens: Option<PathBuf>,
    /// Print the token and the entry as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum RoleName {
    /// Open, read, list and cancel the jobs of its tenant
    Client,
    /// Compute
    Worker,
    /// All of that; list and cancel the jobs of every tenant
    Admin,
}

impl From<RoleName> for Role {
    fn from(name: RoleName) -> Self {
        match name {
            RoleName::Client => Self::Client,
            RoleName::Worker => Self::Worker,
            RoleName::Admin => Self::Admin,
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  forebay version\n  forebay version --json")]
pub(crate) struct Version {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_command_has_examples() {
        use clap::CommandFactory;
        for command in Arguments::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Examples:"), "{}", command.get_name());
        }
    }
}
