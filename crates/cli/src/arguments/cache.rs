//! Commands on the cached rows and bytes of a folder, or of a store that machines share.

use clap::{Args, Subcommand};
use forebay_server::CachePlaces;

use super::Cache;
use super::settings::places;

const CACHE_EXAMPLES: &str = "\
Examples:
  forebay cache ls /mnt/nvme/cache                    cached rows by prefix, cached bytes by store
  forebay cache stats /mnt/nvme/cache --json
  forebay cache verify /mnt/nvme/cache                reads every row; exits with 5 when one is corrupt
  forebay cache evict /mnt/nvme/cache --prefix 3f9a21c0
  forebay cache evict /mnt/nvme/cache --all
  forebay cache ls s3://bucket/forebay                in a store that machines share
  forebay cache warm train.py --cache /mnt/nvme/cache   computes the rows of its datasets with cache()
  forebay cache warm 's3://bucket/train-{0000..1023}.tar' --cache /mnt/nvme/cache   fetches files

The folder or url is the one of `--cache`, or FOREBAY_CACHE. Services may run meanwhile; none has to.";

#[derive(Debug, Args)]
#[command(after_help = CACHE_EXAMPLES)]
pub(crate) struct KeptRows {
    #[command(subcommand)]
    pub(crate) what: KeptAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeptAction {
    /// List the contents: cached rows by the prefix that computed them, cached bytes by the place of their files
    #[command(after_help = CACHE_EXAMPLES)]
    Ls(KeptIn),
    /// Show totals
    #[command(after_help = CACHE_EXAMPLES)]
    Stats(KeptIn),
    /// Read every cached row and every page of remote files, and compare checksums; changes nothing
    #[command(after_help = CACHE_EXAMPLES)]
    Verify(KeptIn),
    /// Remove contents; jobs that use them compute or fetch them again
    #[command(after_help = CACHE_EXAMPLES)]
    Evict(Evict),
    /// Fill the cache in advance: compute the cached rows of a script's datasets, or fetch remote files
    #[command(after_help = CACHE_EXAMPLES)]
    Warm(Warm),
}

#[derive(Debug, Args)]
pub(crate) struct Warm {
    /// FILE: the datasets with a cache() at the top level of this Python script. FILE:NAME: the dataset NAME, or the
    /// datasets that the function NAME returns. Or urls of files, with globs and braces
    #[arg(required = true, value_name = "FILE or URL")]
    pub(crate) what: Vec<String>,
    /// Seed of the runs to come; it matters for random ops before cache(freeze=True)
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Compute threads; 0 is one for each core
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
    /// The cache folder, or the url of the store
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
    /// Name in the output of `forebay cache ls`, or its first digits; may be repeated
    #[arg(long, value_name = "PREFIX")]
    pub(crate) prefix: Vec<String>,
    /// Everything
    #[arg(long)]
    pub(crate) all: bool,
}
