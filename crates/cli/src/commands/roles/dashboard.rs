//! `forebay dashboard`

use std::net::{Ipv4Addr, SocketAddr};

use forebay_server::{HTTP_PORT, HttpOptions, Remote, dashboard_main, init_logs};

use crate::arguments::DashboardOf;
use crate::exit::Failure;

pub(crate) fn run(arguments: DashboardOf) -> Result<(), Failure> {
    let is_child = arguments.process.exit_with_parent;
    init_logs(if is_child { "warn" } else { "info" }).map_err(Failure::Usage)?;
    let service = Remote { address: arguments.service, credentials: arguments.access.credentials()? };
    service.addresses().map_err(Failure::Usage)?;
    let listen = arguments.http.unwrap_or_else(default_address);
    let options = HttpOptions { listen, any_port: false, hosts: arguments.hosts };
    Ok(dashboard_main(options, service, arguments.process.into())?)
}

/// Returns the default address of a dashboard.
pub(super) fn default_address() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, HTTP_PORT))
}
