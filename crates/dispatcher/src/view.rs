//! How many workers are wanted, as others of this process see it, without a call over the network.

use std::sync::Arc;

use forebay_core::Result;

use crate::leadership::Leadership;

/// Says how many workers are wanted, while this process leads. Cheap to clone. Nobody is asked for a token here.
#[derive(Clone)]
pub struct ScaleView(pub(crate) Arc<Leadership>);

/// How many workers there are, and should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScaleFigures {
    /// By all jobs together; `None` while that is not known.
    pub wanted: Option<u32>,
    /// The workers that there are.
    pub workers: u32,
    /// The most that are ever wanted.
    pub workers_max: u32,
}

impl ScaleView {
    /// Returns the figures of this moment.
    ///
    /// # Errors
    /// Unavailable when this process does not lead.
    pub async fn figures(&self) -> Result<ScaleFigures> {
        let scale = self.0.leading()?.actor.wanted().await?;
        let wanted = Some(scale.wanted).filter(|&wanted| wanted > 0);
        Ok(ScaleFigures { wanted, workers: scale.workers, workers_max: scale.workers_max })
    }
}
