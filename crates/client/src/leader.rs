//! The connection to the dispatcher that leads, kept while it answers and found anew when it does not.

use std::sync::Mutex;
use std::time::Duration;

use forebay_core::{Error, ErrorKind, Result};
use forebay_proto::{Link, Remote, attempt, reach};

use crate::lock::lock;
use crate::runtime::Owner;

/// The dispatchers of a service, and the connection to the one that leads.
pub(crate) struct Leader {
    remote: Remote,
    link: Mutex<Option<(Owner, Link)>>,
}

impl Leader {
    pub(crate) fn new(remote: Remote) -> Self {
        Self { remote, link: Mutex::new(None) }
    }

    /// Returns the dispatchers, and what to show them.
    pub(crate) fn remote(&self) -> &Remote {
        &self.remote
    }

    /// Returns the addresses as they were given.
    pub(crate) fn addresses(&self) -> &str {
        &self.remote.address
    }

    /// Connects, again and again until the deadline.
    ///
    /// # Errors
    /// As [`reach`].
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn reach(&self, deadline: Duration) -> Result<()> {
        let link = reach(&self.remote, deadline).await?;
        self.keep(Some(link));
        Ok(())
    }

    /// Returns the connection of this process.
    ///
    /// # Errors
    /// As [`attempt`].
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn link(&self) -> Result<Link> {
        let known = lock(&self.link).as_ref().filter(|(owner, _)| owner.is_here()).map(|(_, link)| link.clone());
        if let Some(link) = known {
            return Ok(link);
        }
        let new = attempt(&self.remote).await?;
        self.keep(Some(new.clone()));
        Ok(new)
    }

    /// A call failed. Where the dispatcher did not answer, or does not lead any more, the next call looks for another.
    pub(crate) fn failed(&self, error: &Error) {
        if error.kind() == ErrorKind::Unavailable {
            self.keep(None);
        }
    }

    fn keep(&self, link: Option<Link>) {
        let before = std::mem::replace(&mut *lock(&self.link), link.map(|link| (Owner::this(), link)));
        if let Some((owner, link)) = before
            && !owner.is_here()
        {
            // The parent's: its runtime is not here to close it.
            std::mem::forget(link);
        }
    }
}
