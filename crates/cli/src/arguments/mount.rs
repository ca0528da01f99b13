//! The options of `forebay mount`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use forebay_core::{Error, Result};
use forebay_mount::NamedSource;
use forebay_server::CacheConfig;

use super::SourceCache;
use super::roles::address;

const EXAMPLES: &str = "\
Examples:
  forebay mount s3://bucket/train /data
  forebay mount mnist=s3://bucket/mnist c4=gs://bucket/c4 /data     each below its name
  forebay mount 'https://host/train-{000..099}.tar' /data --cache /nvme/forebay
  forebay mount s3://bucket/train /data --background
  forebay mount s3://bucket/train /data --cache /nvme/forebay --prefetch
  forebay mount --status /data
  forebay mount --status /data --metrics 0.0.0.0:9100               serves the state for Prometheus

The mount is read-only. It ends with Ctrl-C, SIGTERM or `umount DIR`. The same command mounts again where a mount's process
was killed. Credentials are set as for pipelines: see docs/stores.md.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, override_usage = "forebay mount [OPTIONS] <SOURCE>... <DIR>")]
pub(crate) struct Mount {
    /// SOURCE: a folder, url of a store (s3://, gs://, az://), or url of a file (http://, https://); NAME=SOURCE shows it below that
    /// name, which each of several sources needs. DIR, the last: the folder of the mount, which exists and is empty
    #[arg(required_unless_present = "status", value_name = "SOURCE... DIR")]
    pub(crate) sources_and_dir: Vec<String>,
    /// Number of seconds for which the mount keeps names and attributes of remote files before it lists them again
    #[arg(long, env = "FOREBAY_MOUNT_REFRESH", default_value_t = 60.0, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) refresh: f64,
    /// Return when the mount is ready, and serve it in the background
    #[arg(long)]
    pub(crate) background: bool,
    /// Let other users read the mount; for root this is the default
    #[arg(long)]
    pub(crate) allow_other: bool,
    /// Read all remote files into the cache folder from the start, while programs read the mount; their reads come first
    #[arg(long)]
    pub(crate) prefetch: bool,
    /// Print the state of the prefetch of the running mount at DIR
    #[arg(long, value_name = "DIR", conflicts_with = "sources_and_dir")]
    pub(crate) status: Option<PathBuf>,
    /// Address of the metrics for Prometheus: http://HOST:PORT/metrics, without TLS. With --status, serve those of the running
    /// mount at DIR until a signal ends this process [default: no metrics]
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    pub(crate) metrics: Option<SocketAddr>,
    // For the CSI driver: stdin is a device that is mounted at DIR, and the folder has the state for the next process.
    #[arg(long, hide = true, conflicts_with = "background")]
    pub(crate) keeper: Option<PathBuf>,
    #[arg(long, hide = true, requires = "keeper")]
    pub(crate) taken_over: bool,
    #[command(flatten)]
    cache: SourceCache,
}

impl Mount {
    /// Returns the cache of pages: a mount has no rows to keep, in memory or in a store.
    pub(crate) fn cache(self) -> Result<CacheConfig> {
        let mut config = CacheConfig::try_from(self.cache)?;
        config.places.store = None;
        Ok(CacheConfig { memory: Some(0), ..config })
    }

    /// Returns the sources, and the folder of the mount.
    pub(crate) fn split(&self) -> Result<(Vec<NamedSource>, PathBuf)> {
        match self.sources_and_dir.split_last() {
            Some((dir, sources)) if !sources.is_empty() => Ok((NamedSource::parse(sources)?, dir.into())),
            _ => {
                Err(Error::invalid("a mount needs a source and a folder").hint("forebay mount s3://bucket/train /data"))
            }
        }
    }
}

/// Reads a number of seconds: from a millisecond to a year.
fn seconds(text: &str) -> std::result::Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.001..=31_536_000.0).contains(seconds));
    seconds.ok_or_else(|| "not a number of seconds from 0.001 to 31536000".to_owned())
}
