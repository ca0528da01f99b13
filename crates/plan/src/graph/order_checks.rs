//! Whether an op that chooses, numbers or orders rows may stand where the user wrote it.

use std::sync::Arc;

use forebay_core::{Error, Result};

use super::{Graph, Node};
use crate::ops::{Class, Op};
use crate::source::Source;

impl Graph {
    /// Checks that the plan applies `select_rows` and `split`, so that they choose the same rows in every epoch.
    fn check_chosen_rows(&self, op: &Op) -> Result<()> {
        let moved = |n: &&Arc<Node>| matches!(n.op, Op::Take(_) | Op::Skip(_) | Op::Shard(_) | Op::Repeat(_));
        if let (Op::Part(_), Source::Combined(combined)) = (op, &self.source)
            && !combined.is_steady()
        {
            let name = combined.name();
            return Err(Error::invalid(format!(
                "split comes after {name}, whose order differs between epochs: a sample could come into both parts"
            ))
            .hint(format!(
                "split each dataset before {name}; or shuffle behind concatenate, and split before shuffle"
            )));
        }
        let (before, hint) = match op {
            Op::SelectRows(_) => {
                (self.nodes.iter().find(|n| n.op.is_uncounted()), "how many rows it keeps is not known before it runs")
            }
            Op::Part(_) => {
                let unsteady =
                    |n: &Arc<Node>| matches!(n.op, Op::Shuffle(_)) || n.op.is_uncounted() || n.op.fan_out().is_some();
                let first = self.nodes.iter().position(unsteady);
                let chosen = first.and_then(|at| self.nodes[at..].iter().find(moved));
                let again = |n: &&Arc<Node>| matches!(n.op, Op::Repeat(_) | Op::SelectRows(_));
                let chosen = chosen.or_else(|| self.nodes.iter().find(again));
                let global = self.nodes.iter().find(|n| n.op.class() == Class::Global);
                (chosen.or(global), "a sample could come into both parts")
            }
            _ => return Ok(()),
        };
        let Some(before) = before else { return Ok(()) };
        let (op, before) = (op.name(), before.op.name());
        Err(Error::invalid(format!("{op} comes after {before}, and {hint}")).hint(format!("put {op} before {before}")))
    }

    /// Checks that the plan knows the number of rows before `enumerate`; otherwise rows have no numbers.
    fn check_enumerate(&self, op: &Op) -> Result<()> {
        if !matches!(op, Op::Enumerate(_)) {
            return Ok(());
        }
        if self.nodes.iter().any(|n| matches!(n.op, Op::Enumerate(_))) {
            return Err(Error::invalid("enumerate comes after enumerate")
                .hint("one is enough: with_column computes other numbers from it"));
        }
        let uncounted = self.nodes.iter().find(|n| n.op.is_uncounted()).map(|n| n.op.name());
        let uncounted = uncounted.or_else(|| Some(self.source.name()).filter(|_| !self.source.can_index()));
        let Some(before) = uncounted else { return Ok(()) };
        Err(Error::invalid(format!("enumerate comes after {before}, and how many rows come from it is not known"))
            .hint(format!(
                "put enumerate before {before}, where rows have numbers; enumerate(ds) of Python counts what comes"
            )))
    }

    /// Checks that `enumerate` comes before, or after, all ops that make a known number of rows.
    pub(super) fn check_numbered_rows(&self, op: &Op) -> Result<()> {
        let made = |n: &Arc<Node>| n.op.fan_out().is_some();
        let numbered = self.nodes.iter().position(|n| matches!(n.op, Op::Enumerate(_)));
        match numbered {
            Some(at) if op.fan_out().is_some() && self.nodes[..at].iter().any(made) => {
                let name = op.name();
                Err(Error::invalid(format!("{name} comes after enumerate, which comes after another op with count="))
                    .hint(format!("put enumerate before both, or behind both, or leave count= of the last {name} out")))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a shuffle after an op that makes an unknown number of rows. Such a shuffle permutes rows of the source,
    /// so rows that were made of one row would stay together.
    fn check_shuffle(&self, op: &Op) -> Result<()> {
        // As long as the number of rows is known, the plan also shuffles rows that were made of one row.
        let first = self.nodes.iter().position(|n| n.op.is_uncounted());
        let from = if self.source.can_index() { first } else { Some(0) };
        let made = from.and_then(|from| self.nodes[from..].iter().find(|n| n.op.class() == Class::Expand));
        let (Op::Shuffle(_), Some(made)) = (op, made) else { return Ok(()) };
        let name = made.op.name();
        Err(Error::invalid(format!(
            "shuffle comes after {name}, and the rows that {name} makes of one row stay together"
        ))
        .hint(format!("put shuffle before {name}; or save the rows once (save), and shuffle what was saved")))
    }

    /// Checks an order op of the epoch plan: it needs a source that can be counted and no unknown count before it.
    pub(super) fn check_order(&self, op: &Op) -> Result<()> {
        let streams = matches!(op, Op::Take(_) | Op::Skip(_) | Op::Shard(_));
        self.check_enumerate(op)?;
        self.check_chosen_rows(op)?;
        self.check_shuffle(op)?;
        if self.source.is_streamed_mix() && !streams {
            let name = op.name();
            return Err(Error::invalid(format!(
                "{name} comes after mix, and how many rows its datasets give is not known before they are read"
            ))
            .hint(format!(
                "put {name} into the datasets that are mixed; or choose their rows with select_rows in place of \
                 filter, so that they are counted; or save the rows once (save), and read the saved files"
            )));
        }
        if !self.source.can_index() && !streams {
            return Err(Error::invalid(format!(
                "{}: {} cannot be read in any other order",
                op.name(),
                self.source.name()
            ))
            .hint("use from_map_dataset, or write the samples to files first; epochs= repeats a generator"));
        }
        let cut = self.nodes.iter().position(|n| n.op.is_uncounted() && n.op.class() != Class::Global);
        let streamed = |n: &Arc<Node>| matches!(n.op, Op::Take(_) | Op::Skip(_) | Op::Shard(_));
        let from = if self.source.can_index() { cut } else { Some(0) };
        if let (false, Some(cut)) = (streams, from)
            && self.nodes[cut..].iter().any(streamed)
        {
            return Err(Error::invalid(format!(
                "{} after take, skip or shard of a number of rows that is not known before it runs",
                op.name()
            ))
            .hint(format!("put {} before the {}", op.name(), self.nodes[cut].op.name())));
        }
        Ok(())
    }
}
