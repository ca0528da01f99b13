//! Asks the dispatcher for the wanted number of workers; logs an outage once, and its end.

use std::time::Duration;

use forebay_core::{Error, Result};
use forebay_proto::{GetScaleRequest, Link, Remote, attempt, client, to_error};

/// Timeout of a call.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// See the module's documentation.
pub(crate) struct DispatcherClient {
    dispatcher: Remote,
    /// The worker type of this workload, and whether it is spot.
    kind: Option<(String, bool)>,
    link: Option<Link>,
    /// Whether the outage is logged.
    is_reported: bool,
}

impl DispatcherClient {
    pub(crate) fn new(dispatcher: Remote, kind: Option<(String, bool)>) -> Self {
        Self { dispatcher, kind, link: None, is_reported: false }
    }

    /// Returns the wanted number; `None` while the dispatcher does not know it, or does not answer.
    pub(crate) async fn wanted(&mut self) -> Option<u32> {
        let answer = tokio::time::timeout(ANSWER_MAX, self.ask()).await;
        let silent = |_| Err(Error::unavailable(format!("no answer within {} s", ANSWER_MAX.as_secs())));
        let dispatcher = &self.dispatcher.address;
        match answer.unwrap_or_else(silent) {
            Ok(wanted) => {
                if std::mem::take(&mut self.is_reported) {
                    tracing::info!(dispatcher, "the dispatcher says again how many workers are wanted");
                }
                wanted
            }
            Err(error) => {
                self.link = None;
                if !std::mem::replace(&mut self.is_reported, true) {
                    let hint = error.get("hint").unwrap_or_default();
                    let error = error.message();
                    tracing::warn!(
                        dispatcher,
                        error,
                        hint,
                        "not known how many workers are wanted; those there are stay"
                    );
                }
                None
            }
        }
    }

    async fn ask(&mut self) -> Result<Option<u32>> {
        let link = match self.link.take() {
            Some(link) => link,
            None => attempt(&self.dispatcher).await?,
        };
        let answer = client(link.clone()).get_scale(GetScaleRequest {}).await;
        let answer = answer.map_err(|status| to_error(&status, &self.dispatcher.address))?;
        self.link = Some(link);
        answer.into_inner().wanted_of(self.kind.as_ref().map(|(name, spot)| (name.as_str(), *spot)))
    }
}
