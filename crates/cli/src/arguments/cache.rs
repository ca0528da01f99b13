//! What is kept in a folder, rows and the bytes of remote files, or in a store that machines share.

use clap::{Args, Subcommand};
use forebay_server::CachePlaces;

use super::Cache;
use super::settings::places;

const CACHE_EXAMPLES: &str = "\
Examples:
  forebay cache ls /mnt/nvme/cache                    what is kept, by what computed it
  forebay cache stats /mnt/nvme/cache --json
  forebay cache verify /mnt/nvme/cache                reads every row; exits with 5 when one is not what was written
  forebay cache evict /mnt/nvme/cache --prefix 3f9a21c0
  forebay cache evict /mnt/nvme/cache --all
  forebay cache ls s3://bucket/forebay                in a store that machines share
  forebay cache warm train.py --cache /mnt/nvme/cache   computes what its datasets with cache() keep
  forebay cache warm 's3://bucket/train-{0000..1023}.tar' --cache /mnt/nvme/cache   brings files here

The folder, or the url, is the one that `--cache` names; FOREBAY_CACHE does, too. No service has to run, and any may.";

#[derive(Debug, Args)]
#[command(after_help = CACHE_EXAMPLES)]
pub(crate) struct KeptRows {
    #[command(subcommand)]
    pub(crate) what: KeptAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeptAction {
    /// List what is kept: rows by what computed them, bytes by where the files are
    #[command(after_help = CACHE_EXAMPLES)]
    Ls(KeptIn),
    /// Show how much there is in all
    #[command(after_help = CACHE_EXAMPLES)]
    Stats(KeptIn),
    /// Read every row and every page of a file, and compare its checksum; changes nothing
    #[command(after_help = CACHE_EXAMPLES)]
    Verify(KeptIn),
    /// Remove what is kept; whoever uses it computes or fetches it again
    #[command(after_help = CACHE_EXAMPLES)]
    Evict(Evict),
    /// Compute what the datasets of a script keep, or bring remote files here, before anybody needs it
    #[command(after_help = CACHE_EXAMPLES)]
    Warm(Warm),
}

#[derive(Debug, Args)]
pub(crate) struct Warm {
    /// A script, of which is looked at what it defines at its top level; or urls of files, with globs and braces
    #[arg(required = true, value_name = "SCRIPT or URL")]
    pub(crate) what: Vec<String>,
    /// Only the dataset of this name; may be given again [default: each that has a cache()]
    #[arg(long, value_name = "NAME")]
    pub(crate) dataset: Vec<String>,
    /// The seed of the runs to come; it matters where random ops are frozen
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Threads that compute; 0 is one for each core
    #[arg(long, env = "FOREBAY_THREADS", default_value_t = 0)]
    pub(crate) threads: usize,
    #[command(flatten)]
    pub(crate) cache: Cache,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct KeptIn {
    /// The folder, or the url of the store
    #[arg(env = "FOREBAY_CACHE", value_name = "FOLDER|URL", value_parser = places())]
    pub(crate) place: CachePlaces,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Evict {
    #[command(flatten)]
    pub(crate) kept: KeptIn,
    #[command(flatten)]
    pub(crate) which: Which,
}

/// Nothing is removed that was not named.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Which {
    /// What `forebay cache ls` calls it, or the first digits of that; may be given again
    #[arg(long, value_name = "PREFIX")]
    pub(crate) prefix: Vec<String>,
    /// Everything
    #[arg(long)]
    pub(crate) all: bool,
}
