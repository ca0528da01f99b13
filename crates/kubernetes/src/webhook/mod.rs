//! The admission webhook: pods that use a cache get its volume, and wait for it.
//!
//! ```text
//! inject        what a pod gets (pure)                 admission      which cache a pod uses, and the answer to the API
//! certificates  the webhook's authority and its key    registration   how the API is told of the webhook
//! server        HTTPS                                    figures        metrics, over HTTP
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

/// How often the certificate is looked at, and the registration is put right.
const INTERVAL: Duration = Duration::from_secs(60);

/// A webhook that serves.
pub(crate) struct Webhook {
    api: ApiClient,
    names: Names,
    address: WebhookAddress,
    capabilities: Capabilities,
    identity: Arc<Identity>,
}

impl Webhook {
    /// Serves at this address, on each replica of the operator.
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

    /// Renews the certificate and, where this operator is the one that acts, keeps the registration right. Never
    /// returns.
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
