//! This process's figures for its own metrics, without a call over the network.

use std::sync::Arc;

use crate::access::Access;
use crate::figures::{Figures, LeaderFigures};
use crate::leader::leadership::Leadership;

/// Returns a dispatcher's figures. Cheap to clone. It requires no token.
#[derive(Clone)]
pub struct View {
    pub(crate) leadership: Arc<Leadership>,
    pub(crate) access: Arc<Access>,
}

impl View {
    /// Returns the figures of this moment.
    pub async fn figures(&self) -> Figures {
        let leading = self.leadership.leading().ok();
        let indexing = leading.as_ref().map(|leading| leading.opener.figures()).unwrap_or_default();
        let leader = match leading {
            Some(leading) => {
                let blob_bytes = leading.blobs.bytes();
                leading.actor.figures().await.ok().map(|figures| LeaderFigures { blob_bytes, ..figures })
            }
            None => None,
        };
        Figures { calls_refused: self.access.refused(), leader, indexing }
    }
}
