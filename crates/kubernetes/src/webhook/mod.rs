//! The mutating admission webhook: it adds a cache's volume and a scheduling gate to each pod that uses the cache.
//!
//! ```text
//! inject         changes a pod (pure)               admission      finds a pod's cache, and answers the API server
//! certificates   the webhook's CA and key           registration   the MutatingWebhookConfiguration
//! server         the HTTPS server
//! ```

mod admission;
mod certificates;

mod inject;
mod registration;
mod server;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use forebay_core::{Error, Result};

use crate::cluster::objects::ApiClient;
pub(crate) use admission::Admission;
use certificates::Identity;
pub(crate) use certificates::Names;
pub(crate) use registration::{Capabilities, WebhookAddress};

/// Interval between two checks of the certificate and the registration.
const INTERVAL: Duration = Duration::from_secs(60);

/// A running webhook.
pub(crate) struct Webhook {
    api: ApiClient,
    names: Names,
    address: WebhookAddress,
    capabilities: Capabilities,
    identity: Arc<Identity>,
}

impl Webhook {
    /// Starts to serve at this address, on each replica of the operator.
    ///
    /// # Errors
    /// Unavailable when the address is taken, or the certificate can neither be read nor written.
    pub(crate) async fn start(
        admission: Admission,
        at: SocketAddr,
        names: Names,
        address: WebhookAddress,
    ) -> Result<Self> {
        let (api, capabilities) = (admission.api.clone(), admission.capabilities);
        let identity = Arc::new(Identity::default());
        certificates::renew(&api, &names, &identity).await.map_err(Error::unavailable)?;
        server::start(at, identity.clone(), Arc::new(admission)).await?;
        Ok(Self { api, names, address, capabilities, identity })
    }

    /// Renews the certificate. The leader also reconciles the registration. Never returns.
    pub(crate) async fn maintain(&self, registers: bool) {
        loop {
            match certificates::renew(&self.api, &self.names, &self.identity).await {
                Ok(authority) if registers => {
                    if let Err(error) =
                        registration::register(&self.api, &self.address, self.capabilities, &authority).await
                    {
                        tracing::error!(error = %error, "the webhook is not registered; tried again");
                    }
                }
                Ok(_) => {}
                Err(error) => tracing::error!(error, "the webhook's certificate cannot be kept; tried again"),
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }
}
