//! Commands for people who watch a service: the dashboard, and the same in a terminal.

use std::net::SocketAddr;

use clap::Args;

use super::{Access, List, Process};

const DASHBOARD_EXAMPLES: &str = "\
Examples:
  forebay dashboard --service forebay://10.0.0.5:7070    then open http://127.0.0.1:7073/
  forebay dashboard --service 10.0.0.5:7070 --http 0.0.0.0:7073 --http-host dash.example.com

Visitors of a service with tokens sign in with their own and see what it may see. The token of this command only samples
the history. `forebay up` has a dashboard of its own, and `forebay dispatcher --http` too.";

#[derive(Debug, Args)]
#[command(after_help = DASHBOARD_EXAMPLES)]
pub(crate) struct DashboardOf {
    /// Address of the service: forebay://host:port or host:port; of several dispatchers, with commas between them
    #[arg(
        long,
        visible_alias = "dispatcher",
        env = "FOREBAY_SERVICE",
        default_value = "forebay://127.0.0.1:7070",
        value_name = "ADDRESS"
    )]
    pub(crate) service: String,
    /// Address of the pages, without TLS; port 0 takes a free port [default: 127.0.0.1:7073]
    #[arg(long, env = "FOREBAY_HTTP", value_name = "HOST:PORT", value_parser = super::roles::address)]
    pub(crate) http: Option<SocketAddr>,
    /// Name by which browsers reach the pages, besides IP addresses and localhost; repeat it for each
    #[arg(long = "http-host", env = "FOREBAY_HTTP_HOSTS", value_delimiter = ';', value_name = "NAME")]
    pub(crate) hosts: Vec<String>,
    #[command(flatten)]
    pub(crate) access: Access,
    #[command(flatten)]
    pub(crate) process: Process,
}

/// Where `up` serves its dashboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HttpAddress {
    Off,
    At(SocketAddr),
}

/// Reads an address, or `off`.
pub(super) fn http_address(text: &str) -> std::result::Result<HttpAddress, String> {
    if text == "off" { Ok(HttpAddress::Off) } else { super::roles::address(text).map(HttpAddress::At) }
}

const TOP_EXAMPLES: &str = "\
Examples:
  forebay top
  forebay top --service forebay://10.0.0.5:7070
  forebay top --once --json           one look, for scripts

Keys: arrows or j and k select, Enter opens a job, Esc goes back, / filters, s sorts, w shows workers, q ends.";

#[derive(Debug, Args)]
#[command(after_help = TOP_EXAMPLES)]
pub(crate) struct Top {
    /// Print one look and end; --json implies it
    #[arg(long)]
    pub(crate) once: bool,
    /// Time between two looks, in seconds
    #[arg(long, default_value_t = 2.0, value_parser = every)]
    pub(crate) every: f64,
    #[command(flatten)]
    pub(crate) list: List,
}

/// Reads the time between two looks.
fn every(text: &str) -> std::result::Result<f64, String> {
    text.parse().ok().filter(|every| (0.5..=3600.0).contains(every)).ok_or_else(|| "use 0.5 to 3600".to_owned())
}
