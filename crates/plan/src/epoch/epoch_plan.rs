//! The epoch plan: which rows make which split, for each consumer. Computed from a few numbers, never stored.
//!
//! Rows are sharded in **units**: a batch if the plan aligns splits with batches, otherwise a run of rows (or a source
//! block that is read from its start). Unit `u` of an epoch belongs to consumer `u mod n` (see `sharding`), so the
//! global sequence of batches is the same for any number of consumers. A split is a run of a consumer's units; a
//! **morsel** is the part of a split that a thread computes at once.
//!
//! Invariants: every unit is in exactly one split; sizes depend on the pipeline and the source alone, so morsels, and
//! with them the groups of rows that a user's batched function gets, are the same everywhere.

use std::ops::Range;
use std::sync::Arc;

use forebay_core::{ConsumerIndex, Epoch, Error, Ordinal, Result, Seed};

use crate::epoch::extent::Extent;
use crate::epoch::lane_order::{LaneOrder, LaneWindow};
use crate::epoch::lanes::Layout as LaneLayout;
use crate::epoch::mix::combination::{BlockStarts, Combination};
use crate::epoch::order::{Blocks, Order, Placed};
use crate::epoch::sharding::Sharding;
use crate::epoch::window::WindowLayout;
use crate::ops::Op;
use crate::physical::sizing::Sizing;
use crate::physical::stages::Stages;
use crate::source::{Source, SourcePart};

/// Returns the order of the rows; `None` if the source is not counted.
fn order(stages: &Stages, extent: &Extent, combination: Option<&Combination>, blocks: Blocks) -> Result<Option<Order>> {
    let ops = stages.order.iter().map(|s| (&s.node.op, s.random));
    let Some(rows) = extent.rows else { return Ok(None) };
    Order::new(combination.map_or(Some(rows), Combination::len), blocks, ops).map(Some)
}

/// Returns the size of a mix without the rows that its plan does not need, though an index may have counted them.
fn uncounted(stages: &Stages, extent: Extent) -> Extent {
    let parts = extent.parts.into_iter().zip(&stages.parts);
    let parts = parts.map(|(part, stages)| if stages.counted { part } else { Extent { rows: None, ..part } });
    Extent { rows: None, parts: parts.collect(), ..extent }
}

/// Plans the datasets of a mix that is merged in the tail. Each consumer mixes its own share of each of them.
fn plans_of_parts(stages: &Stages, extent: &Extent, seed: Seed, sharding: Sharding) -> Result<Vec<Arc<EpochPlan>>> {
    let Source::Combined(combined) = &stages.source else { return Ok(Vec::new()) };
    if !combined.is_streamed() {
        return Ok(Vec::new());
    }
    if extent.parts.len() != combined.parts.len() || stages.parts.len() != combined.parts.len() {
        return Err(Error::internal("the extent is not one of these datasets"));
    }
    let sharding = Sharding::from(sharding.parts() as u32);
    let plan = |(number, part): (usize, &SourcePart)| {
        let (stages, extent) = (&stages.parts[number], extent.parts[number].clone());
        let seed = Combination::part_seed(seed, number);
        let plan = EpochPlan::new(stages, extent, seed, sharding, None);
        plan.map(Arc::new).map_err(|e| e.with("part", &part.name))
    };
    combined.parts.iter().enumerate().map(plan).collect()
}

/// Checks that coordinated consumers, which take turns at the batches of one stream, see the same rows.
fn check_coordinated(stages: &Stages) -> Result<()> {
    if !stages.is_bucketed() && stages.batching().is_none() {
        return Err(Error::invalid("coordinated=True needs batches, and this pipeline has none").hint(
            "use batch, bucket_by_length or batch_by_key: consumers that are coordinated take turns at batches",
        ));
    }
    if stages.graph.on_error().is_tolerant() {
        return Err(Error::invalid("coordinated=True cannot be used when samples that fail are skipped").hint(
            "a sample may fail at one consumer only, which would then have other batches than the others: use on_error=\"raise\"",
        ));
    }
    Ok(())
}

/// Checks that parts are possible: each consumer takes, skips and counts its own rows, and the result must be the same
/// as with one consumer.
fn check_parts(stages: &Stages) -> Result<()> {
    let graph = &stages.graph;
    if matches!(graph.source(), Source::Generator { .. }) {
        return Err(Error::invalid("a generator is read from its start by one consumer: the others would get nothing")
            .hint(
                "let each consumer make its own part and read it alone, use from_map_dataset, or write files first",
            ));
    }
    let in_plan = |place: usize| stages.order.iter().any(|step| step.place == place);
    let after = graph
        .nodes()
        .iter()
        .enumerate()
        .find(|(place, node)| matches!(node.op, Op::Take(_) | Op::Skip(_) | Op::Shard(_)) && !in_plan(*place));
    let Some((place, node)) = after else { return Ok(()) };
    let before = graph.nodes()[..place].iter().find(|node| node.op.is_uncounted());
    let name = before.map_or("ops whose rows are not counted", |node| node.op.name());
    Err(node.blame(
        Error::invalid(format!(
            "{} comes after {name}, and several consumers: which rows these are depends on what all of them keep",
            node.op.name()
        ))
        .hint(format!("put it before {name}; or save the rows once (save), and let consumers share what was saved")),
    ))
}

/// The part of a split that a thread computes at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Morsel {
    /// Units `first..first + count` of the consumer's sequence.
    Units {
        /// The first.
        first: u64,
        /// How many.
        count: u64,
    },
    /// One source block, read from its start.
    Block {
        /// Which one.
        block: u64,
    },
}

/// The plan of a job's epochs.
#[derive(Debug, Clone)]
pub struct EpochPlan {
    order: Option<Order>,
    /// The rows of the datasets, if the source is several counted datasets.
    combination: Option<Arc<Combination>>,
    lane_order: Option<LaneOrder>,
    /// The plan of each dataset, if the source is a mix that is merged in the tail.
    parts: Vec<Arc<EpochPlan>>,
    extent: Extent,
    sharding: Sharding,
    /// Whether the plan knows how many units consumers get.
    counts_known: bool,
    /// Whether samples may be skipped, so that a consumer's position does not determine the number of its units.
    tolerant: bool,
    batched: bool,
    /// Whether a short last unit counts: a short batch does, a short run of samples does not.
    short: bool,
    sizing: Sizing,
    seed: Seed,
    /// The number of rows of an epoch, without the remainder that `drop_remainder` drops.
    places: Option<u64>,
}

impl EpochPlan {
    /// Plans the epochs of a pipeline over a source, choosing sizes unless the job has recorded them.
    ///
    /// # Errors
    /// Invalid when the order ops contradict each other, when the sizes are those of another pipeline, or when even
    /// shares are requested but not possible.
    pub fn new(
        stages: &Stages,
        extent: Extent,
        seed: Seed,
        sharding: impl Into<Sharding>,
        sizing: Option<Sizing>,
    ) -> Result<Self> {
        let sharding = sharding.into();
        let sharding = Sharding { consumers: sharding.consumers.max(1), ..sharding };
        let extent = if stages.source.is_streamed_mix() { uncounted(stages, extent) } else { extent };
        let parts = plans_of_parts(stages, &extent, seed, sharding)?;
        let combination = match extent.rows {
            Some(_) => Combination::new(stages, &extent, None)?.map(Arc::new),
            None => None,
        };
        let given = combination.as_deref().map_or(extent.rows, Combination::len);
        let order = order(stages, &extent, combination.as_deref(), Blocks::default())?;
        let places = order.as_ref().and_then(Order::len).map(|len| match stages.aligned {
            Some(b) if b.drop_remainder => len - len % b.size as u64,
            _ => len,
        });
        let sizing = match sizing {
            Some(sizing) => sizing.check(stages, order.is_some())?,
            None => Sizing::choose(stages, &extent, given, places, sharding.parts() as u32)?,
        };
        let order = match sizing.window_rows {
            0 => order,
            window_rows => self::order(stages, &extent, combination.as_deref(), Blocks { window_rows, starts: None })?,
        };
        let lane_order = match sizing.window_bytes {
            0 => None,
            bytes => LaneOrder::new(stages, &extent, bytes),
        };
        let counts_known = stages.counts_known && order.is_some();
        let tolerant = stages.graph.on_error().is_tolerant();
        let batched = stages.unit.is_some();
        let short = batched && stages.batching().is_some_and(|b| !b.drop_remainder);
        let plan = Self {
            order,
            combination,
            lane_order,
            parts,
            extent,
            sharding,
            counts_known,
            tolerant,
            batched,
            short,
            sizing,
            seed,
            places,
        };
        if sharding.even {
            plan.check_even(stages)?;
        }
        if sharding.coordinated {
            check_coordinated(stages)?;
        }
        if sharding.parts() > 1 {
            check_parts(stages)?;
        }
        Ok(plan)
    }

    /// Checks even shares: they need counts, and at least one unit for each consumer.
    fn check_even(&self, stages: &Stages) -> Result<()> {
        if !self.counts_known {
            let error = Error::invalid(
                "even=True cannot be used here: how much each consumer gets is known only after it has run",
            )
            .hint("leave even out, and let each consumer take a fixed number of steps, with epochs=None");
            return Err(stages.first_uncounted().map_or(error.clone(), |node| node.blame(error)));
        }
        let (n, units) = (self.sharding.consumers, self.whole_units());
        match units {
            Some(units) if units > 0 && units < u64::from(n) => {
                let what = if self.batched { "batches" } else { "samples" };
                Err(Error::invalid(format!(
                    "an epoch has {units} {what} for {n} consumers: with equal shares, each would get none"
                ))
                .hint("use smaller batches or fewer consumers; with even=False some get one and others none"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the same plan for a process that reads rows.
    ///
    /// # Errors
    /// As [`EpochPlan::new`].
    pub fn over(&self, stages: &Stages, starts: BlockStarts) -> Result<Self> {
        let combination = match &self.combination {
            Some(_) => Combination::new(stages, &self.extent, Some(&starts))?.map(Arc::new),
            None => None,
        };
        let starts = combination.as_deref().map_or(starts.starts, Combination::block_starts);
        let blocks = Blocks { window_rows: self.sizing.window_rows, starts: Some(starts) };
        let order = order(stages, &self.extent, combination.as_deref(), blocks)?;
        Ok(Self { order, combination, ..self.clone() })
    }

    /// Returns the same plan for a process that reads windows of files of these sizes.
    pub fn over_files(&self, sizes: Vec<u64>) -> Self {
        Self { lane_order: self.lane_order.as_ref().map(|order| order.over(sizes)), ..self.clone() }
    }

    /// Returns whether it knows the rows. If not, the plan returned by [`EpochPlan::over`] does.
    pub fn knows_rows(&self) -> bool {
        self.order.as_ref().is_none_or(Order::knows_rows)
            && self.combination.as_ref().is_none_or(|combination| combination.knows_rows())
    }

    /// Returns the rows of the datasets that are the source, if it is several and counted.
    pub fn combination(&self) -> Option<&Arc<Combination>> {
        self.combination.as_ref()
    }

    /// Returns the plans of the datasets of a mix that is merged in the tail; none for any other source.
    pub fn parts(&self) -> &[Arc<EpochPlan>] {
        &self.parts
    }

    /// Returns the window layout of a shuffle whose rows are not counted.
    pub fn lane_layout(&self) -> Option<LaneLayout> {
        self.lane_order.as_ref().map(|order| order.layout)
    }

    /// Returns which splits have rows of which window of a shuffle whose rows are counted; `None` without windows.
    pub fn window_layout(&self) -> Option<WindowLayout> {
        let Sizing { unit_rows, split_units, window_rows, .. } = self.sizing;
        WindowLayout::new(window_rows, unit_rows.saturating_mul(split_units).saturating_mul(self.sharding.parts()))
    }

    /// Returns the window of a morsel's block number; `None` if rows are not shuffled, or without
    /// [`EpochPlan::over_files`].
    pub fn window(&self, epoch: Epoch, block: u64) -> Option<LaneWindow> {
        self.lane_order.as_ref()?.window(self.seed, epoch, block)
    }

    /// Returns the sizes, to be recorded with the job.
    pub fn sizing(&self) -> Sizing {
        self.sizing
    }

    /// Returns the number of consumers.
    pub fn consumers(&self) -> u32 {
        self.sharding.consumers
    }

    /// Returns how units are divided among consumers.
    pub fn sharding(&self) -> Sharding {
        self.sharding
    }

    /// Returns the size of the source.
    pub fn extent(&self) -> &Extent {
        &self.extent
    }

    /// Returns whether the plan knows how many units consumers get, apart from failures. Consumers then take units.
    pub fn knows_counts(&self) -> bool {
        self.counts_known
    }

    /// Returns whether another number of consumers can resume within an epoch: a position then names the completed
    /// units.
    pub fn can_reshard(&self) -> bool {
        self.counts_known && !self.tolerant
    }

    /// Returns the rows of an epoch before any filter; `None` if endless or unknown.
    pub fn rows(&self) -> Option<u64> {
        self.places
    }

    /// Returns whether an epoch never ends.
    pub fn is_endless(&self) -> bool {
        self.order.as_ref().is_some_and(|o| o.len().is_none())
            || self.lane_order.as_ref().is_some_and(LaneOrder::is_endless)
    }

    /// Returns a number of rows of the source in which one consumer sees each row that it will ever see, if the data
    /// repeats without a change: no op draws random numbers, and no shuffle decides which rows there are.
    pub fn cycle(&self, stages: &Stages) -> Option<u64> {
        let is_fixed = stages.graph.nodes().iter().all(|n| matches!(n.op, Op::Shuffle(_)) || !n.op.is_random());
        let mut after_shuffle = stages.order.iter().skip_while(|step| !matches!(step.node.op, Op::Shuffle(_)));
        let keeps_all = after_shuffle.all(|step| matches!(step.node.op, Op::Shuffle(_) | Op::Repeat(_)));
        let is_own = matches!(stages.source, Source::Combined(_)) || stages.fan_out().is_some();
        if !is_fixed || !keeps_all || is_own || self.sharding.parts() > 1 {
            return None;
        }
        let times = stages.order.iter().map(|step| if let Op::Repeat(op) = &step.node.op { op.count } else { None });
        self.extent.rows.map(|rows| times.flatten().fold(rows, u64::saturating_mul))
    }

    /// Returns the units of an epoch over all consumers; `None` is endless.
    pub fn units(&self) -> Option<u64> {
        match &self.order {
            Some(_) => self.places.map(|p| p.div_ceil(self.sizing.unit_rows)),
            None => self.lane_order.as_ref().map_or(Some(self.extent.blocks), LaneOrder::units),
        }
    }

    /// Returns the number of units that count.
    fn whole_units(&self) -> Option<u64> {
        let short = |p: u64| if self.short { p.div_ceil(self.sizing.unit_rows) } else { p / self.sizing.unit_rows };
        self.places.map(short)
    }

    /// Returns the number of units after which a consumer's epoch ends, if even shares end it before its last unit.
    /// `phase` is that of the epoch.
    pub fn share(&self, consumer: ConsumerIndex, phase: u64) -> Option<u64> {
        let units = self.whole_units().filter(|_| self.sharding.even)?;
        let share = self.sharding.even_share(consumer, units, phase);
        Some(share).filter(|share| self.consumer_units(consumer).is_some_and(|dealt| *share < dealt))
    }

    /// Returns the units of one consumer; `None` is endless.
    pub fn consumer_units(&self, consumer: ConsumerIndex) -> Option<u64> {
        self.units().map(|units| self.sharding.consumer_units(consumer, units))
    }

    /// Returns the splits of one consumer's epoch; `None` is endless.
    pub fn num_splits(&self, consumer: ConsumerIndex) -> Option<u64> {
        self.consumer_units(consumer).map(|u| u.div_ceil(self.sizing.split_units))
    }

    /// Returns the units of the consumer's sequence that a split covers.
    pub fn split_units(&self, consumer: ConsumerIndex, split: Ordinal) -> Range<u64> {
        let end = self.consumer_units(consumer).unwrap_or(u64::MAX);
        let first = split.0.saturating_mul(self.sizing.split_units).min(end);
        first..first.saturating_add(self.sizing.split_units).min(end)
    }

    /// Returns the split that holds a unit of the consumer's sequence.
    pub fn split_of_unit(&self, unit: u64) -> Ordinal {
        Ordinal(unit / self.sizing.split_units)
    }

    /// Returns the morsels of a split, in order.
    pub fn morsels(&self, consumer: ConsumerIndex, split: Ordinal) -> impl Iterator<Item = Morsel> + use<> {
        let units = self.split_units(consumer, split);
        let size = self.sizing.morsel_units;
        let counted = self.order.is_some();
        let (n, i) = (self.sharding.parts(), self.sharding.part(consumer));
        units.clone().step_by(size as usize).map(move |first| match counted {
            true => Morsel::Units { first, count: size.min(units.end - first) },
            false => Morsel::Block { block: first * n + i },
        })
    }

    /// Returns the number of chunks of a split; `None` if its rows are not counted.
    pub fn num_chunks(&self, consumer: ConsumerIndex, split: Ordinal) -> Option<u64> {
        let units = self.split_units(consumer, split);
        self.order.as_ref().map(|_| (units.end - units.start).div_ceil(self.sizing.morsel_units))
    }

    /// Calls `see` with the source row and the random epoch of each row of a morsel, in order; never if
    /// [`EpochPlan::knows_rows`] is false.
    pub fn places(&self, epoch: Epoch, consumer: ConsumerIndex, morsel: Morsel, mut see: impl FnMut(u64, Epoch)) {
        self.placed(epoch, consumer, morsel, |placed| see(placed.row, placed.epoch));
    }

    /// As [`EpochPlan::places`], with all facts about each place.
    pub fn placed(&self, epoch: Epoch, consumer: ConsumerIndex, morsel: Morsel, mut see: impl FnMut(Placed)) {
        let (Some(order), Morsel::Units { first, count }) = (&self.order, morsel) else { return };
        if !self.knows_rows() {
            return;
        }
        let mut at = order.of_epoch(self.seed, epoch);
        let end = self.places.unwrap_or(u64::MAX);
        // The units of one consumer of all follow each other.
        let (runs, units) = if self.sharding.parts() == 1 { (1, count) } else { (count, 1) };
        let mut each = |see: &mut dyn FnMut(Placed)| {
            for unit in first..first + runs {
                let global = unit * self.sharding.parts() + self.sharding.part(consumer);
                let start = global * self.sizing.unit_rows;
                at.for_each_placed(start..(start + units * self.sizing.unit_rows).min(end), &mut *see);
            }
        };
        let Some(combination) = &self.combination else { return each(&mut see) };
        let mut all = Vec::new();
        each(&mut |placed| all.push(placed));
        let mut rows: Vec<_> = all.iter().map(|placed| placed.row).collect();
        let mut epochs: Vec<_> = all.iter().map(|placed| placed.epoch.0).collect();
        combination.with_seed(self.seed).map(&mut rows, &mut epochs);
        let found = all.into_iter().zip(rows).zip(epochs);
        found.for_each(|((placed, row), epoch)| see(Placed { row, epoch: Epoch(epoch), ..placed }));
    }

    /// Returns the seed.
    pub fn seed(&self) -> Seed {
        self.seed
    }
}
