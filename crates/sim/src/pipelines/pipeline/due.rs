//! The expected output of one consumer, and the skipped samples on the way: a pure function of the pipeline and of the
//! samples known to be lost.
//!
//! For most jobs it is the output of one process. Batches of coordinated consumers are made here from the rows that all
//! of them share, independent of the merge that a service uses.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use forebay_core::{ConsumerIndex, Epoch, Error, Result};
use forebay_data::Chunk;
use forebay_exec::{Delivery, KnownSkips, Merge, Position, SkippedSample};
use forebay_plan::Ending;

use super::{Pipeline, compute};
use crate::pipelines::digest::{digests, of_rows};

/// A skipped sample: the chunk that lacks it (epoch, split, index), its number, and the repetition.
pub(crate) type Missing = ((u64, u64, u64), u64, u64);

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Due {
    /// A number for each item.
    pub(crate) items: Vec<u64>,
    /// The skipped samples, in order.
    pub(crate) missing: Vec<Missing>,
    /// Whether they exceed the budget, which ends the stream there.
    pub(crate) is_over: bool,
    /// The range of items of each epoch.
    pub(super) ends: Vec<Range<usize>>,
    /// By epoch and split: the number of items that are available before any of its rows.
    pub(crate) before: BTreeMap<(u64, u64), usize>,
}

/// Samples that are known to be lost, by epoch and split.
pub(crate) type KnownLost = BTreeMap<(u64, u64), Rc<KnownSkips>>;

/// The batches that coordinated consumers share.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rounds {
    pub(super) consumers: usize,
    pub(super) size: usize,
    pub(super) drop_remainder: bool,
}

impl Pipeline {
    /// Computes the expected output of a consumer.
    pub(crate) fn due(&self, consumer: u32, known: &KnownLost) -> Result<Due> {
        // Coordinated consumers all read everything, as a single consumer does.
        let reader = if self.rounds.is_some() { 0 } else { consumer };
        let mut merge = Merge::new(self.whole.clone(), ConsumerIndex(reader), &Position::default())?;
        merge.set_budget(self.budget);
        let splits = self.whole.plan().num_splits(ConsumerIndex(reader)).unwrap_or(0);
        let mut due = Due::default();
        for epoch in 0..self.definition.epochs {
            let (mut rows, start) = (Vec::new(), due.items.len());
            for ordinal in 0..splits {
                due.before.insert((epoch, ordinal), due.items.len() + self.whole_rounds(&rows).0);
                for (index, chunk) in (0..).zip(&*self.whole_chunks((reader, epoch, ordinal), known)?) {
                    if merge.is_satisfied() {
                        continue;
                    }
                    let pushed = merge.push(ordinal, index, chunk.clone());
                    let lost = merge.take_skipped();
                    if pushed.is_ok() && lost.len() < chunk.losses().len() {
                        return Err(Error::internal(format!("{:?} are lost, and {lost:?} is told", chunk.losses())));
                    }
                    due.lose(index, lost);
                    while let Some(delivery) = merge.pop() {
                        self.take(&mut due, &mut rows, delivery)?;
                    }
                    if let Err(error) = pushed {
                        self.cut(&mut due, consumer, epoch, &rows, false)?;
                        return due.ended(error);
                    }
                }
            }
            merge.end_epoch()?;
            while let Some(delivery) = merge.pop() {
                self.take(&mut due, &mut rows, delivery)?;
            }
            self.cut(&mut due, consumer, epoch, &rows, true)?;
            due.ends.push(start..due.items.len());
        }
        Ok(due)
    }

    /// Takes the output of a merge: items, or rows for the batches of coordinated consumers.
    fn take(&self, due: &mut Due, rows: &mut Vec<Chunk>, delivery: Delivery) -> Result<()> {
        match self.rounds {
            None => due.items.extend(digests(&delivery)?),
            Some(_) => rows.push(delivery.chunk),
        }
        Ok(())
    }

    /// Returns the number of rounds that these rows fill, and the number of rows.
    fn whole_rounds(&self, rows: &[Chunk]) -> (usize, usize) {
        let count = rows.iter().map(Chunk::num_rows).sum();
        (self.rounds.map_or(0, |rounds| count / (rounds.size * rounds.consumers)), count)
    }

    /// Divides an epoch's rows into rounds, and takes this consumer's batch of each.
    fn cut(&self, due: &mut Due, consumer: u32, epoch: u64, rows: &[Chunk], is_whole: bool) -> Result<()> {
        let Some(rounds) = self.rounds.filter(|_| !rows.is_empty()) else { return Ok(()) };
        let (full, count) = self.whole_rounds(rows);
        let (round, mine) = (rounds.size * rounds.consumers, consumer as usize);
        let mut items: Vec<_> = (0..full).map(|nth| (nth * round + mine * rounds.size, rounds.size)).collect();
        let rest = (count - full * round) / rounds.consumers;
        if is_whole && !rounds.drop_remainder && rest > 0 {
            items.push((full * round + mine * rest, rest));
        }
        due.items.extend(of_rows(Epoch(epoch), &Chunk::concat(rows)?, &items)?);
        Ok(())
    }

    fn whole_chunks(&self, place: (u32, u64, u64), known: &KnownLost) -> Result<Rc<[Chunk]>> {
        let compute = |known: &KnownSkips| {
            Ok::<_, Error>(compute(&self.whole, place, self.whole.resolve_boundary(None), known)?.into())
        };
        if let Some(known) = known.get(&(place.1, place.2)) {
            return compute(known);
        }
        if let Some(chunks) = self.whole_chunks.borrow().get(&place) {
            return Ok(chunks.clone());
        }
        let chunks: Rc<[Chunk]> = compute(&KnownSkips::default())?;
        self.whole_chunks.borrow_mut().insert(place, chunks.clone());
        Ok(chunks)
    }
}

impl Due {
    fn lose(&mut self, index: u64, lost: Vec<SkippedSample>) {
        let missing = lost.into_iter().map(|lost| missing(&lost, index));
        self.missing.extend(missing);
    }

    /// Ends the stream with an error, which may only be an exceeded budget.
    fn ended(mut self, error: Error) -> Result<Self> {
        self.is_over = error.get("fault") == Some("budget");
        if self.is_over { Ok(self) } else { Err(error) }
    }
}

/// Returns the part of the consumers' items that they must get, with an ending of epochs that depends on the counts
/// alone.
pub(super) fn ended(ending: Ending, mut all: Vec<Due>) -> Vec<Rc<Due>> {
    if ending != Ending::Apart {
        let epochs = all.first().map_or(0, |due| due.ends.len());
        let bounds: Vec<(usize, usize)> = (0..epochs)
            .map(|epoch| {
                let counts = || all.iter().map(|due| due.ends[epoch].len());
                (counts().min().unwrap_or(0), counts().max().unwrap_or(0))
            })
            .collect();
        for due in &mut all {
            let epochs = due.ends.iter().zip(&bounds).map(|(items, (least, most))| {
                let mut items = due.items[items.clone()].to_vec();
                match (ending, items.last().copied()) {
                    (Ending::Drop, _) => items.truncate(*least),
                    (Ending::Pad, Some(last)) => items.resize(*most, last),
                    _ => {}
                }
                items
            });
            due.items = epochs.collect::<Vec<_>>().concat();
        }
    }
    all.into_iter().map(Rc::new).collect()
}

/// Returns the name of a sample that was skipped from a chunk.
pub(crate) fn missing(lost: &SkippedSample, index: u64) -> Missing {
    ((lost.epoch.0, lost.split, index), lost.loss.row.sample.0, lost.loss.row.epoch.0)
}
