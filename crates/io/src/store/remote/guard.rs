//! Keeps jobs of tenants from addresses outside their rules: of this machine, of its link, and of servers to which
//! others redirect.
//!
//! An address is checked at the connection, after its name was resolved, so a name that resolves differently the next
//! time reaches no other address. This module also follows redirects itself, one by one, for the same reason.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use object_store::client::{HttpRequest, HttpResponse};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use url::{Host, Url};

use super::http::Wrong;
use crate::Allowed;
use crate::allowed::is_own;

/// The time limit of a connection attempt.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Redirections of one request.
pub(super) const REDIRECTS_MAX: usize = 5;

/// The rules of a job, where they limit its connections.
#[derive(Debug, Clone)]
pub(super) struct Guard(pub(super) Allowed);

impl Guard {
    /// Returns a client that connects to allowed addresses only, and follows no redirects.
    pub(super) fn client(&self) -> reqwest::Result<reqwest::Client> {
        reqwest::Client::builder()
            .user_agent(concat!("forebay/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_MAX)
            .redirect(Policy::none())
            .no_proxy()
            .dns_resolver(Arc::new(self.clone()))
            .build()
    }

    /// Refuses a host that is written as an address: no name is resolved then.
    pub(super) fn check(&self, request: &HttpRequest) -> Result<(), Wrong> {
        let url = Url::parse(&request.uri().to_string()).ok();
        let address = match url.as_ref().and_then(Url::host) {
            Some(Host::Ipv4(v4)) => IpAddr::V4(v4),
            Some(Host::Ipv6(v6)) => IpAddr::V6(v6),
            _ => return Ok(()),
        };
        let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
        if is_own(address) && !self.0.names_host(host) { Err(Wrong::Own(address.to_string())) } else { Ok(()) }
    }

    /// Returns the target of an answer's redirect, if it has one.
    ///
    /// # Errors
    /// Elsewhere, when the rules do not allow the target.
    pub(super) fn follow(&self, from: &str, answer: &HttpResponse) -> Result<Option<Url>, Wrong> {
        if !matches!(answer.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
            return Ok(None);
        }
        let to = answer.headers().get("location").and_then(|to| to.to_str().ok()).unwrap_or_default();
        let elsewhere = || Wrong::Elsewhere(to.to_owned());
        let from = Url::parse(from).map_err(|_| elsewhere())?;
        let to = from.join(to).map_err(|_| elsewhere())?;
        if self.0.may_follow(&from, &to) { Ok(Some(to)) } else { Err(Wrong::Elsewhere(to.to_string())) }
    }
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.clone();
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let found: Vec<SocketAddr> = tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
            let named = guard.0.names_host(&host);
            let (own, others): (Vec<_>, Vec<_>) = found.into_iter().partition(|at| !named && is_own(at.ip()));
            match (others.is_empty(), own.first()) {
                (true, Some(own)) => Err(Wrong::Own(format!("{host}, which is {}", own.ip())).into()),
                _ => Ok(Box::new(others.into_iter()) as Addrs),
            }
        })
    }
}
