//! The options of `forebay csi`.

use std::path::PathBuf;

use clap::Args;
use forebay_csi::{CsiOptions, Places};

use super::settings::bytes;

const EXAMPLES: &str = "\
Examples:
  forebay csi --endpoint unix:///csi/csi.sock --node worker-7 --state /csi/state --cache /var/cache/forebay
  forebay csi --endpoint unix:///csi/csi.sock --node worker-7 --state /csi/state --root /host --local /datasets
  forebay csi --hold --state /csi/state      keeps the devices of mounts, in a container of its own

deploy/kubernetes/csi runs it on each node of a cluster. Credentials of stores are set as for pipelines: see docs/stores.md.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Csi {
    /// Socket on which the driver answers calls: unix:///csi/csi.sock
    #[arg(long, env = "CSI_ENDPOINT", value_name = "URL", required_unless_present = "hold")]
    endpoint: Option<String>,
    /// Name of this node
    #[arg(long, env = "FOREBAY_NODE", value_name = "NAME", required_unless_present = "hold")]
    node: Option<String>,
    /// Folder for mounts, and for what the next driver must know of them
    #[arg(long, env = "FOREBAY_CSI_STATE", value_name = "DIR")]
    pub(crate) state: PathBuf,
    /// Cache folder for the bytes of volumes that name no tier [default: none]
    #[arg(long, env = "FOREBAY_CACHE", value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Quota of that folder, such as 100GiB [default: 32GiB]
    #[arg(long, env = "FOREBAY_CACHE_DISK", value_name = "SIZE", value_parser = bytes)]
    cache_disk: Option<u64>,
    /// Folder where the driver finds the file system of the node
    #[arg(long, env = "FOREBAY_CSI_ROOT", value_name = "DIR", default_value = "/")]
    root: PathBuf,
    /// Folder of the node that volumes may show (local://); may be repeated [default: none]
    #[arg(long, env = "FOREBAY_CSI_LOCAL", value_name = "DIR", value_delimiter = ',')]
    local: Vec<PathBuf>,
    /// Folder of the node in which tiers of volumes may lie, besides /dev/shm; may be repeated [default: none]
    #[arg(long, env = "FOREBAY_CSI_TIER", value_name = "DIR", value_delimiter = ',')]
    tier: Vec<PathBuf>,
    /// Another container runs `forebay csi --hold` with the same state folder
    #[arg(long, conflicts_with = "hold")]
    holder: bool,
    /// Keep the devices of mounts open, so that mounts outlive the other processes; answers no calls
    #[arg(long)]
    pub(crate) hold: bool,
    // For the holder that a driver starts.
    #[arg(long, hide = true, requires = "hold")]
    pub(crate) until_empty: bool,
}

impl Csi {
    /// Returns the options of a driver whose processes start with `command`.
    pub(crate) fn options(self, command: Vec<String>) -> CsiOptions {
        let Self { endpoint, node, state, cache, cache_disk, root, local, tier, holder, .. } = self;
        // Keepers run in another folder than this process.
        let cache = cache.map(|cache| std::path::absolute(&cache).unwrap_or(cache));
        let places = Places { root, local, tiers: tier, cache, cache_disk };
        let (endpoint, node) = (endpoint.unwrap_or_default(), node.unwrap_or_default());
        CsiOptions { endpoint, node, state, places, command, has_holder: holder }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::{Arguments, Command};

    #[test]
    fn the_manifest_of_a_node_starts_it() {
        let manifest = include_str!("../../../../deploy/kubernetes/csi/node.yaml");
        let driver = manifest.split("- name: driver").nth(1).and_then(|rest| rest.split("env:").next()).expect("there");
        let words = driver.lines().filter_map(|line| line.trim().strip_prefix("- "));
        let Command::Csi(csi) = Arguments::parse_from(std::iter::once("forebay").chain(words)).command else {
            panic!("{driver}")
        };
        let options = csi.options(Vec::new());
        assert!(options.has_holder && options.places.cache.is_some());
        assert_eq!((options.node.as_str(), options.places.local.len()), ("$(NODE)", 1));
        let hold = manifest.split("args: [").nth(1).and_then(|rest| rest.split(']').next()).expect("there");
        let words = std::iter::once("forebay").chain(hold.split(", "));
        let Command::Csi(csi) = Arguments::parse_from(words).command else { panic!("{hold}") };
        assert!(csi.hold && csi.state == options.state);
    }
}
