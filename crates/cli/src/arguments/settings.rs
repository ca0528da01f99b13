//! Options that several commands take: TLS and tokens, the cache, the optimisation objective.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use forebay_core::Result;
use forebay_server::{CacheConfig, CachePlaces, Credentials, Objective, StorePrices, TlsFiles};

/// What a scaling policy optimises.
#[derive(Debug, Args)]
pub(crate) struct Aim {
    /// Optimisation objective: time, cost, or cost-within:1.05 (the lowest cost at 1.05 times the shortest time or less)
    #[arg(long, env = "FOREBAY_OBJECTIVE", default_value = "time")]
    objective: String,
    /// Price of a trainer's machine for an hour, in any currency; for the objectives with a cost
    #[arg(long, env = "FOREBAY_TRAINER_PRICE", value_name = "PRICE", allow_negative_numbers = true)]
    trainer_price: Option<f64>,
    /// Price of a worker for an hour, in the same currency; for the objectives with a cost
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
    /// Cache for the rows of pipelines with cache(): a folder on a local disk, which keeps the bytes of remote files, too; or the url
    /// of a store that machines share (s3://, gs://, az://, file:///); repeat it to use both [default: memory only]
    #[arg(long = "cache", env = "FOREBAY_CACHE", value_name = "FOLDER|URL", value_parser = places())]
    places: Vec<CachePlaces>,
    /// Maximum memory of a worker for cached rows, such as 4GiB [default: a quarter of the machine's or container's, at most 8GiB]
    #[arg(long = "cache-memory", env = "FOREBAY_CACHE_MEMORY", value_name = "SIZE", value_parser = bytes)]
    memory: Option<u64>,
    /// Quota of the cache folder, such as 100GiB [default: 32GiB]
    #[arg(long = "cache-disk", env = "FOREBAY_CACHE_DISK", value_name = "SIZE", value_parser = bytes)]
    disk: Option<u64>,
    /// Quota of the store, for all that use it together, such as 4TiB [default: 1TiB]
    #[arg(long = "cache-store", env = "FOREBAY_CACHE_STORE", value_name = "SIZE", value_parser = bytes)]
    store: Option<u64>,
    /// Whether the cache folder also keeps the bytes of remote files: on or off [default: on]
    #[arg(long = "cache-source", env = "FOREBAY_CACHE_SOURCE", value_name = "on|off", value_parser = switch)]
    source: Option<bool>,
    /// Prices for the decisions of autocache(), in any currency: of a GiB kept in the store for a month, of a GiB written to it, and of
    /// a worker for an hour, such as month=0.023,write=0.005,worker=0.38 [default: the store costs nothing]
    #[arg(long = "cache-prices", env = "FOREBAY_CACHE_PRICES", value_name = "PRICES", value_parser = prices)]
    prices: Option<StorePrices>,
}

/// Where a dispatcher or a mount keeps the bytes of remote files that it reads.
#[derive(Debug, Args)]
pub(crate) struct SourceCache {
    /// Cache folder for the bytes of remote files; processes of this machine that use the same folder fetch each byte once
    /// [default: none]
    #[arg(long = "cache", env = "FOREBAY_CACHE", value_name = "FOLDER", value_parser = places())]
    places: Vec<CachePlaces>,
    /// Quota of the cache folder, such as 100GiB [default: 32GiB]
    #[arg(long = "cache-disk", env = "FOREBAY_CACHE_DISK", value_name = "SIZE", value_parser = bytes)]
    disk: Option<u64>,
    /// Whether the cache folder keeps the bytes of remote files: on or off [default: on]
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

/// A dispatcher's certificate, and the authority of its callers'.
#[derive(Debug, Args)]
pub(crate) struct Identity {
    /// PEM file of the dispatcher's certificate chain; turns TLS on
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

/// The caller's certificate and token, and the authority that it trusts.
#[derive(Debug, Args)]
pub(crate) struct Access {
    /// PEM file of the authority that signed the service's certificates; turns TLS on
    #[arg(long, env = "FOREBAY_TLS_CA", value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// PEM file of the caller's certificate chain
    #[arg(long, env = "FOREBAY_TLS_CERT", value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// PEM file of the certificate's key
    #[arg(long, env = "FOREBAY_TLS_KEY", value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Name that the service's certificates must carry [default: the host of the address]
    #[arg(long, env = "FOREBAY_TLS_NAME", value_name = "NAME")]
    tls_name: Option<String>,
    /// File with the bearer token [default: the token in FOREBAY_TOKEN]
    #[arg(long, env = "FOREBAY_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
    // Only from the environment, because other users see command lines.
    #[arg(long, env = "FOREBAY_TOKEN", hide = true, hide_env_values = true)]
    token: Option<String>,
}

impl Access {
    /// Returns the files of the certificates.
    pub(crate) fn tls(&self) -> TlsFiles {
        TlsFiles {
            ca: self.tls_ca.clone(),
            cert: self.tls_cert.clone(),
            key: self.tls_key.clone(),
            name: self.tls_name.clone(),
            client_ca: None,
        }
    }

    /// Loads the given certificates and the token.
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
