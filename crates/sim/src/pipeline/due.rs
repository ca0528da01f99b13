//! What one consumer must get of its job, and what is left out on the way: a pure function of the pipeline and of the samples that are
//! known to be lost.
//!
//! For most jobs it is what one process gets. Batches of coordinated consumers are cut here anew, of the rows that all of them share:
//! the merge that deals them to consumers in a service says nothing about itself.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use forebay_core::{ConsumerIndex, Epoch, Error, Result};
use forebay_data::Chunk;
use forebay_exec::{Delivery, KnownSkips, Merge, Position, SkippedSample};
use forebay_plan::Ending;

use super::{Pipeline, compute};
use crate::digest::{digests, of_rows};

/// A sample that is left out: the chunk that lacks it (epoch, split, index), its number, and which time round.
pub(crate) type Missing = ((u64, u64, u64), u64, u64);

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Due {
    /// A number for each item.
    pub(crate) items: Vec<u64>,
    /// What is left out, in order.
    pub(crate) missing: Vec<Missing>,
    /// Whether that becomes too much, which ends the stream there.
    pub(crate) is_over: bool,
    /// Which of the items are of each epoch.
    pub(super) ends: Vec<Range<usize>>,
    /// By epoch and split: how many items can be had before anything of it.
    pub(crate) before: BTreeMap<(u64, u64), usize>,
}

/// Samples that are known to be lost, by epoch and split.
pub(crate) type KnownLost = BTreeMap<(u64, u64), Rc<KnownSkips>>;

/// Batches that consumers in step share.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rounds {
    pub(super) consumers: usize,
    pub(super) size: usize,
    pub(super) drop_remainder: bool,
}

impl Pipeline {
    /// Computes what a consumer must get.
    pub(crate) fn due(&self, consumer: u32, known: &KnownLost) -> Result<Due> {
        // Coordinated consumers all read everything: as one that is alone.
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

    /// Takes what a merge gives: items, or rows of which coordinated consumers' batches are made.
    fn take(&self, due: &mut Due, rows: &mut Vec<Chunk>, delivery: Delivery) -> Result<()> {
        match self.rounds {
            None => due.items.extend(digests(&delivery)?),
            Some(_) => rows.push(delivery.chunk),
        }
        Ok(())
    }

    /// Returns how many rounds these rows fill, and how many rows there are.
    fn whole_rounds(&self, rows: &[Chunk]) -> (usize, usize) {
        let count = rows.iter().map(Chunk::num_rows).sum();
        (self.rounds.map_or(0, |rounds| count / (rounds.size * rounds.consumers)), count)
    }

    /// Cuts an epoch's rows into rounds, and takes this consumer's batch of each.
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

    /// The stream ends with an error, which may only be that too much is left out.
    fn ended(mut self, error: Error) -> Result<Self> {
        self.is_over = error.get("fault") == Some("budget");
        if self.is_over { Ok(self) } else { Err(error) }
    }
}

/// Returns what consumers must get of what they have, with an end of epochs that the counts alone decide.
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

/// Names a sample that was left out of a chunk.
pub(crate) fn missing(lost: &SkippedSample, index: u64) -> Missing {
    ((lost.epoch.0, lost.split, index), lost.loss.row.sample.0, lost.loss.row.epoch.0)
}
