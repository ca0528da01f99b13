//! The connection to the dispatcher that leads, kept while it answers and found anew when it does not.

use std::sync::Mutex;

use forebay_core::Result;
use forebay_proto::attempt;
use tonic::transport::Channel;

use crate::lock::lock;
use crate::runtime::Owner;

/// The dispatchers of a service, and the connection to the one that leads.
pub(crate) struct Leader {
    addresses: String,
    channel: Mutex<Option<(Owner, Channel)>>,
}

impl Leader {
    pub(crate) fn new(addresses: &str) -> Self {
        Self { addresses: addresses.to_owned(), channel: Mutex::new(None) }
    }

    /// Returns the addresses as they were given.
    pub(crate) fn addresses(&self) -> &str {
        &self.addresses
    }

    /// Returns the connection of this process.
    ///
    /// # Errors
    /// As [`attempt`].
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn channel(&self) -> Result<Channel> {
        let known =
            lock(&self.channel).as_ref().filter(|(owner, _)| owner.is_here()).map(|(_, channel)| channel.clone());
        if let Some(channel) = known {
            return Ok(channel);
        }
        let new = attempt(&self.addresses).await?;
        self.keep(Some(new.clone()));
        Ok(new)
    }

    /// It does not answer, or does not lead any more: the next call looks for another.
    pub(crate) fn lost(&self) {
        self.keep(None);
    }

    fn keep(&self, channel: Option<Channel>) {
        let before = std::mem::replace(&mut *lock(&self.channel), channel.map(|c| (Owner::this(), c)));
        if let Some((owner, channel)) = before
            && !owner.is_here()
        {
            // The parent's: its runtime is not here to close it.
            std::mem::forget(channel);
        }
    }
}
