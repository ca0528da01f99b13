//! The options of `forebay mount`.

use std::path::PathBuf;

use clap::Args;
use forebay_core::{Error, Result};
use forebay_mount::NamedSource;
use forebay_server::{CacheConfig, CachePlaces};

use super::settings::{bytes, places, switch};

const EXAMPLES: &str = "\
Examples:
  forebay mount s3://bucket/train /data
  forebay mount mnist=s3://bucket/mnist c4=gs://bucket/c4 /data     each below its name
  forebay mount 'https://host/train-{000..099}.tar' /data --cache /nvme/forebay
  forebay mount s3://bucket/train /data --background

The mount is read-only. It ends with Ctrl-C, SIGTERM or `umount DIR`. The same command mounts again where a mount's process
was killed. Credentials are those that pipelines use: see docs/stores.md.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, override_usage = "forebay mount [OPTIONS] <SOURCE>... <DIR>")]
pub(crate) struct Mount {
    /// SOURCE: a folder, url of a store (s3://, gs://, az://), or url of a file (http://, https://); NAME=SOURCE shows it below that
    /// name, which each of several sources needs. DIR, the last: the folder of the mount, which exists and is empty
    #[arg(required = true, value_name = "SOURCE... DIR")]
    pub(crate) sources_and_dir: Vec<String>,
    /// Number of seconds for which names and attributes of remote files are kept before they are listed again
    #[arg(long, env = "FOREBAY_MOUNT_REFRESH", default_value_t = 60.0, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) refresh: f64,
    /// Return when the mount is ready, and serve it in the background
    #[arg(long)]
    pub(crate) background: bool,
    /// Let other users read the mount; for root this is the default
    #[arg(long)]
    pub(crate) allow_other: bool,
    #[command(flatten)]
    pub(crate) cache: PageCache,
}

impl Mount {
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

/// Where a mount keeps the bytes of remote files.
#[derive(Debug, Args)]
pub(crate) struct PageCache {
    /// Cache folder for the bytes of remote files; pipelines of this machine that use the same folder share them [default: none]
    #[arg(long = "cache", env = "FOREBAY_CACHE", value_name = "FOLDER", value_parser = places())]
    places: Vec<CachePlaces>,
    /// Quota of the cache folder, such as 100GiB [default: 32GiB]
    #[arg(long = "cache-disk", env = "FOREBAY_CACHE_DISK", value_name = "SIZE", value_parser = bytes)]
    disk: Option<u64>,
    /// Whether the cache folder keeps the bytes of remote files: on or off [default: on]
    #[arg(long = "cache-source", env = "FOREBAY_CACHE_SOURCE", value_name = "on|off", value_parser = switch)]
    source: Option<bool>,
}

impl TryFrom<PageCache> for CacheConfig {
    type Error = forebay_core::Error;

    fn try_from(cache: PageCache) -> Result<Self> {
        let PageCache { places, disk, source } = cache;
        let mut places = places.into_iter().try_fold(CachePlaces::default(), CachePlaces::and)?;
        // A store keeps rows, and a mount has none.
        places.store = None;
        Ok(Self { places, disk, source, memory: Some(0), ..Self::default() })
    }
}

/// Reads a number of seconds: from a millisecond to a year.
fn seconds(text: &str) -> std::result::Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.001..=31_536_000.0).contains(seconds));
    seconds.ok_or_else(|| "not a number of seconds from 0.001 to 31536000".to_owned())
}
