//! The connection to the leader among the dispatchers: kept while the leader answers, made anew when it does not.

use std::sync::Mutex;
use std::time::Duration;

use forebay_core::{Error, ErrorKind, Result};
use forebay_proto::{Link, Remote, attempt, reach};

use crate::lock::lock;
use crate::runtime::Owner;

/// The dispatchers of a service, and the connection to the leader.
pub(crate) struct Leader {
    remote: Remote,
    link: Mutex<Option<(Owner, Link)>>,
}

impl Leader {
    pub(crate) fn new(remote: Remote) -> Self {
        Self { remote, link: Mutex::new(None) }
    }

    /// Returns the dispatchers' addresses and the credentials for them.
    pub(crate) fn remote(&self) -> &Remote {
        &self.remote
    }

    /// Returns the addresses as the user gave them.
    pub(crate) fn addresses(&self) -> &str {
        &self.remote.address
    }

    /// Connects; retries until the deadline.
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

    /// Returns the connection; connects first if this process has none.
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

    /// A call failed. If the dispatcher did not answer, or does not lead any more, drops the connection, so that the
    /// next call finds the leader.
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
            // The parent process opened it. Its runtime does not exist here and cannot close it.
            std::mem::forget(link);
        }
    }
}
