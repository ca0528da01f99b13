//! What several commands take: who a process is, what it shows to others, where it keeps rows.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use forebay_core::Result;
use forebay_server::{CacheConfig, CachePlaces, Credentials, Objective, StorePrices, TlsFiles};

/// What is made small where it is decided how many workers there are.
#[derive(Debug, Args)]
pub(crate) struct Aim {
    /// What is made small: time, cost, or cost-within:1.05 (the cheapest that takes at most 1.05 times the shortest time)
    #[arg(long, env = "FOREBAY_OBJECTIVE", default_value = "time")]
    objective: String,
    /// With a cost to be made small, what the machine of a trainer costs, for an hour, in any currency
    #[arg(long, env = "FOREBAY_TRAINER_PRICE", value_name = "PRICE", allow_negative_numbers = true)]
    trainer_price: Option<f64>,
    /// The same, of a worker
    #[arg(long, env = "FOREBAY_WORKER_PRICE", value_name = "PRICE", allow_negative_numbers = true)]
    worker_price: Option<f64>,
}

impl TryFrom<Aim> for Objective {
    type Error = forebay_core::Error;

    fn try_from(aim: Aim) -> Result<Self> {
        Self::priced(&aim.objective, aim.trainer_price, aim.worker_price)
    }
}

/// Where a worker keeps what `cache()` keeps, and the bytes of remote files.
#[derive(Debug, Args)]
pub(crate) struct Cache {
    /// Where what pipelines with cache() keep is kept: a folder on a local disk, which keeps the bytes of remote files, too, the url
    /// of a store that machines share (s3://, gs://, az://, file:///), or both: give it twice [default: memory alone]
    #[arg(long = "cache", env = "FOREBAY_CACHE", value_name = "FOLDER|URL", value_parser = places())]
    places: Vec<CachePlaces>,
    /// The most memory of a worker for it, as 4GiB [default: a quarter of the machine's or container's, at most 8GiB]
    #[arg(long = "cache-memory", env = "FOREBAY_CACHE_MEMORY", value_name = "SIZE", value_parser = bytes)]
    memory: Option<u64>,
    /// The most that is kept in the folder, as 100GiB [default: 32GiB]
    #[arg(long = "cache-disk", env = "FOREBAY_CACHE_DISK", value_name = "SIZE", value_parser = bytes)]
    disk: Option<u64>,
    /// The most that all who use the store keep there together, as 4TiB [default: 1TiB]
    #[arg(long = "cache-store", env = "FOREBAY_CACHE_STORE", value_name = "SIZE", value_parser = bytes)]
    store: Option<u64>,
    /// Whether the folder keeps the bytes of remote files, too: on or off [default: on]
    #[arg(long = "cache-source", env = "FOREBAY_CACHE_SOURCE", value_name = "on|off", value_parser = switch)]
    source: Option<bool>,
    /// What the store costs that autocache() weighs it with, in any currency: a GiB for a month and a GiB written; and what a worker
    /// costs for an hour, as month=0.023,write=0.005,worker=0.38 [default: nothing]
    #[arg(long = "cache-prices", env = "FOREBAY_CACHE_PRICES", value_name = "PRICES", value_parser = prices)]
    prices: Option<StorePrices>,
}

/// Where a dispatcher keeps the bytes of remote files that it reads.
#[derive(Debug, Args)]
pub(crate) struct SourceCache {
    /// Folder for the bytes of remote files that are read to index them: with the one of the workers of this machine they are
    /// fetched once [default: none]
    #[arg(long = "cache", env = "FOREBAY_CACHE", value_name = "FOLDER", value_parser = places())]
    places: Vec<CachePlaces>,
    /// The most that is kept in the folder, as 100GiB [default: 32GiB]
    #[arg(long = "cache-disk", env = "FOREBAY_CACHE_DISK", value_name = "SIZE", value_parser = bytes)]
    disk: Option<u64>,
    /// Whether the folder keeps the bytes of remote files: on or off [default: on]
    #[arg(long = "cache-source", env = "FOREBAY_CACHE_SOURCE", value_name = "on|off", value_parser = switch)]
    source: Option<bool>,
}

impl TryFrom<SourceCache> for CacheConfig {
    type Error = forebay_core::Error;

    fn try_from(cache: SourceCache) -> Result<Self> {
        let SourceCache { places, disk, source } = cache;
        let places = places.into_iter().try_fold(CachePlaces::default(), CachePlaces::and)?;
        Ok(Self { places, disk, source, ..Self::default() })
    }
}

/// Reads a folder, a url, or both with a comma between them, as the environment may have it.
pub(super) fn places() -> impl TypedValueParser<Value = CachePlaces> {
    OsStringValueParser::new().try_map(|text: OsString| CachePlaces::parse(&text).map_err(|e| e.to_string()))
}

fn switch(text: &str) -> std::result::Result<bool, String> {
    forebay_server::parse_switch(text).map_err(|e| e.to_string())
}

fn prices(text: &str) -> std::result::Result<StorePrices, String> {
    text.parse().map_err(|e: forebay_core::Error| e.to_string())
}

pub(super) fn bytes(text: &str) -> std::result::Result<u64, String> {
    forebay_server::parse_bytes(text).map_err(|e| e.to_string())
}

impl TryFrom<Cache> for CacheConfig {
    type Error = forebay_core::Error;

    fn try_from(cache: Cache) -> Result<Self> {
        let Cache { places, memory, disk, store, source, prices } = cache;
        let places = places.into_iter().try_fold(CachePlaces::default(), CachePlaces::and)?;
        Ok(Self { places, memory, disk, store, source, prices })
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
