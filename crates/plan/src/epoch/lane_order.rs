//! The order of an epoch whose rows are shuffled and not counted: the windows of its lanes, one after another.

use std::sync::Arc;

use forebay_core::rng::op_key;
use forebay_core::{Epoch, Seed};

use crate::epoch::extent::Extent;
use crate::epoch::lanes::{EpochLanes, Lanes, Layout as LaneLayout};
use crate::epoch::order::FOREVER;
use crate::ops::Op;
use crate::physical::stages::Stages;

/// A window of a shuffle whose rows are not counted.
#[derive(Debug, Clone)]
pub struct LaneWindow {
    /// The lanes of its pieces.
    pub lanes: Arc<EpochLanes>,
    /// Its number in the epoch's order.
    pub number: u64,
    /// The epoch that keys the randomness of its rows.
    pub epoch: Epoch,
}

/// The order of an epoch whose rows are shuffled and not counted.
#[derive(Debug, Clone)]
pub(crate) struct LaneOrder {
    pub(crate) layout: LaneLayout,
    /// The shuffle's number among the random ops.
    random: u64,
    /// How often an epoch repeats each row; `None` is endless.
    repetitions: Option<u64>,
    /// `None` in a plan that is not used to read rows.
    lanes: Option<Arc<Lanes>>,
}

impl LaneOrder {
    pub(crate) fn new(stages: &Stages, extent: &Extent, window_bytes: u64) -> Option<Self> {
        let shuffle = stages.order.iter().find(|step| matches!(step.node.op, Op::Shuffle(_)))?;
        let layout = LaneLayout::new(extent.blocks, extent.bytes, window_bytes, !extent.is_compressed);
        let repetitions = stages.order.iter().try_fold(1u64, |all, step| match &step.node.op {
            Op::Repeat(repeat) => repeat.count.map(|count| all.saturating_mul(count)),
            _ => Some(all),
        });
        Some(Self { layout, random: shuffle.random, repetitions, lanes: None })
    }

    /// Returns the order over files of these sizes, which knows its windows.
    pub(crate) fn over(&self, sizes: Vec<u64>) -> Self {
        Self { lanes: Some(Arc::new(Lanes::new(self.layout, sizes))), ..self.clone() }
    }

    pub(crate) fn is_endless(&self) -> bool {
        self.repetitions.is_none()
    }

    pub(crate) fn units(&self) -> Option<u64> {
        self.repetitions.map(|repetitions| repetitions.saturating_mul(self.layout.windows()))
    }

    /// Returns the window of a unit.
    pub(crate) fn window(&self, seed: Seed, epoch: Epoch, unit: u64) -> Option<LaneWindow> {
        let (repetition, number) = (unit / self.layout.windows(), unit % self.layout.windows());
        let base = epoch.0.wrapping_mul(self.repetitions.unwrap_or(FOREVER));
        let epoch = Epoch(base.wrapping_add(repetition));
        let lanes = self.lanes.as_ref()?.of_epoch(op_key(seed, epoch, self.random));
        Some(LaneWindow { lanes, number, epoch })
    }
}
