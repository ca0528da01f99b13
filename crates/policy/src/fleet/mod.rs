//! Which workers there should be, if several types of them can be started.
//!
//! ```text
//! offers, observation (a moment) ──▶ policy ──▶ how many of each kind, reasons
//!                       previous ──▶        ──▶ previous, for the next moment
//! ```
//!
//! See `README.md` beside this file. Not here: how many threads jobs want (`scaling`), and how workers are started
//! (`provision`).

mod count;
mod cover;
mod memory;
mod pace;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use forebay_core::{Error, Result, Ticks};

pub use count::{Mix, Need, Unit, parts};
pub use memory::{PATIENCE, RETRY};
pub use pace::{Worked, learn};

use crate::placement::PRICE_MAX;
use cover::{Choice, capacity, cover, order, price};
use memory::Memory;

/// The most worker types.
pub const OFFERS_MAX: usize = 16;
/// The most workers of one kind, and the most threads of one.
const WORKERS_MAX: u32 = 100_000;
const THREADS_MAX: u32 = 4096;
/// The factor by which the present mix may cost more than the cheapest one and still be kept,
const SLACK: f64 = 1.05;
/// or the time for which it may cost more than that.
pub const HOLD: Duration = Duration::from_secs(120);

/// The threads that are always wanted: they need one worker of any type.
const NEED_MIN: f64 = 1e-3;

/// A worker type that can be started.
///
/// Written as `kind=NAME,price=P,threads=N`, with `max=N` (default: 1000), and `spot` if the cloud may take workers
/// back.
#[derive(Debug, Clone, PartialEq)]
pub struct Offer {
    /// Its name.
    pub kind: String,
    /// The price of one for an hour; 0 if it is paid for anyway.
    pub price: f64,
    /// The threads of one.
    pub threads: u32,
    /// The most workers that can be started.
    pub max: u32,
    /// Whether the cloud may take them back at any time.
    pub spot: bool,
}

impl FromStr for Offer {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        const PRICE: &str = "its price is missing, or not from 0 to 1000000 for an hour";
        const THREADS: &str = "its threads are missing, or not from 1 to 4096";
        const MAX: &str = "the most of it is not from 1 to 100000";
        let wrong = |what: &str| {
            Error::invalid(format!("{text:?} offers no kind of workers: {what}"))
                .hint("write kind=NAME,price=0.38,threads=8, and max=20 and spot where they hold")
        };
        let (mut kind, mut price, mut threads, mut max, mut spot) = (None, None, None, None, false);
        for part in text.split(',') {
            let is_new = match part.trim().split_once('=') {
                Some(("kind", name)) => kind.replace(name.to_owned()).is_none(),
                Some(("price", p)) => price.replace(p.parse::<f64>().map_err(|_| wrong(PRICE))?).is_none(),
                Some(("threads", n)) => threads.replace(n.parse::<u32>().map_err(|_| wrong(THREADS))?).is_none(),
                Some(("max", n)) => max.replace(n.parse::<u32>().map_err(|_| wrong(MAX))?).is_none(),
                None if part.trim() == "spot" => !std::mem::replace(&mut spot, true),
                _ => return Err(wrong(&format!("{part:?} is not known"))),
            };
            if !is_new {
                return Err(wrong(&format!("{part:?} is one too many")));
            }
        }
        let price = price.filter(|p| (0.0..=PRICE_MAX).contains(p)).ok_or_else(|| wrong(PRICE))?;
        let threads = threads.filter(|n| (1..=THREADS_MAX).contains(n)).ok_or_else(|| wrong(THREADS))?;
        let max = Some(max.unwrap_or(1000)).filter(|n| (1..=WORKERS_MAX).contains(n)).ok_or_else(|| wrong(MAX))?;
        let kind = kind.filter(|name| !name.is_empty()).ok_or_else(|| wrong("it has no name"))?;
        Ok(Self { kind, price, threads, max, spot })
    }
}

/// The state of the workers at one moment. Lists have an entry for each offer.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// When.
    pub at: Ticks,
    /// The threads (of pace 1) that all jobs want together; `None` while unknown.
    pub need: Option<f64>,
    /// The threads of workers of no offered type: no decision ends them.
    pub others: f64,
    /// The workers that are there.
    pub there: Vec<u32>,
    /// The pace of the threads of each type.
    pub paces: Vec<f64>,
    /// The most workers of all kinds together.
    pub workers_max: u32,
}

/// How many workers of a type there should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Their number.
    pub workers: u32,
    /// The reason.
    pub reason: Reason,
}

/// The reason of a number of workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The workers are part of the cheapest mix.
    Cheapest,
    /// Cheaper workers meet the need.
    NotNeeded,
    /// So many of them stay until their replacements are there.
    Replaced(u32),
    /// So many more are started, because others are later than usual.
    FillsIn(u32),
    /// No more come; they are requested again at this time.
    Away(Ticks),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cheapest => f.write_str("the cheapest for what jobs want"),
            Self::NotNeeded => f.write_str("others are cheaper, and enough"),
            Self::Replaced(1) => f.write_str("one stays until what replaces it is there"),
            Self::Replaced(workers) => write!(f, "{workers} stay until what replaces them is there"),
            Self::FillsIn(1) => f.write_str("one more fills in for a worker that is later than usual"),
            Self::FillsIn(workers) => write!(f, "{workers} more fill in for workers that are later than usual"),
            Self::Away(_) => {
                write!(f, "no more came for {} minutes: others fill up, and it is tried again", PATIENCE.as_secs() / 60)
            }
        }
    }
}

/// Checks that each offer can be told from the others.
///
/// # Errors
/// Two offers are of one type, and both spot or neither; there are more than [`OFFERS_MAX`].
pub fn check(offers: &[Offer]) -> Result<()> {
    let is_same = |a: &Offer, b: &Offer| a.kind == b.kind && a.spot == b.spot;
    let twice = offers.iter().enumerate().find(|(i, a)| offers[..*i].iter().any(|b| is_same(a, b)));
    if let Some((_, offer)) = twice {
        let spot = if offer.spot { " (spot)" } else { "" };
        return Err(Error::invalid(format!("workers of kind {}{spot} are offered twice", offer.kind))
            .hint("give each kind a name of its own, or one offer with a larger max"));
    }
    if offers.len() > OFFERS_MAX {
        return Err(Error::invalid(format!("{} kinds of workers are offered", offers.len()))
            .hint(format!("use at most {OFFERS_MAX}")));
    }
    Ok(())
}

/// Returns one worker of the type that is used first, while the need is unknown; `None` without offers.
pub fn first(offers: &[Offer], paces: &[f64]) -> Option<Mix> {
    let choices: Vec<_> = offers.iter().zip(paces).map(|(offer, pace)| Choice::of(offer, *pace, offer.max)).collect();
    let kind = *order(&choices).first()?;
    let mut one = Mix::none(offers.len());
    one.add(Some(kind), f64::from(offers[kind].threads));
    Some(one)
}

/// The state between moments.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Previous {
    kinds: Vec<Memory>,
    /// Since when the mix costs too much beside another that covers the need.
    dear: Option<Ticks>,
}

impl Previous {
    /// Begins with the workers that are there as the mix.
    pub fn of(offers: &[Offer], there: &[u32]) -> Self {
        let memory = |(offer, &there): (&Offer, &u32)| Memory::of(there.min(offer.max));
        Self { kinds: offers.iter().zip(there).map(memory).collect(), dear: None }
    }
}

/// Decides how many workers of each type there should be; `None` while the need of jobs is unknown.
pub fn decide(offers: &[Offer], seen: &Observation, before: &Previous) -> (Option<Vec<Wanted>>, Previous) {
    let mut next = before.clone();
    next.kinds.resize(offers.len(), Memory::default());
    let Some(need) = seen.need.filter(|need| need.is_finite()) else { return (None, next) };
    next.kinds.iter_mut().zip(&seen.there).for_each(|(kind, &there)| kind.see(seen.at, there));
    let choice = |((offer, pace), (kind, &there)): ((&Offer, &f64), (&Memory, &u32))| {
        Choice::of(offer, *pace, if kind.away.is_some() { there.min(offer.max) } else { offer.max })
    };
    let choices: Vec<_> = offers.iter().zip(&seen.paces).zip(next.kinds.iter().zip(&seen.there)).map(choice).collect();
    let least = if seen.others > 0.0 { 0.0 } else { NEED_MIN };
    let need = (need - seen.others).max(least);
    let target = target(need, &choices, seen, &mut next);
    let kept = kept(need, &choices, seen, &target);
    let late: Vec<_> = next.kinds.iter().map(|kind| kind.is_late(seen.at)).collect();
    let filled = filled(need, &choices, seen, [&target, &kept], &late);
    let more = kept.iter().zip(&filled);
    let wanted = target.iter().zip(more).zip(&mut next.kinds).map(|((&target, (&kept, &filled)), kind)| {
        (kind.target, kind.wanted) = (target, target + kept + filled);
        let reason = match kind.away {
            _ if filled > 0 => Reason::FillsIn(filled),
            _ if kept > 0 => Reason::Replaced(kept),
            Some(until) => Reason::Away(until),
            None if target == 0 => Reason::NotNeeded,
            None => Reason::Cheapest,
        };
        Wanted { workers: kind.wanted, reason }
    });
    (Some(wanted.collect()), next)
}

/// Returns the mix: the present one if it covers the need, and another gains little or has not been cheaper for long.
fn target(need: f64, choices: &[Choice], seen: &Observation, next: &mut Previous) -> Vec<u32> {
    let best = cover(need, choices, seen.workers_max);
    let least = price(&best, choices);
    let old: Vec<_> = next.kinds.iter().map(|kind| kind.target).collect();
    let fits = old.iter().zip(choices).all(|(count, kind)| *count <= kind.max);
    let room = seen.workers_max.checked_sub(old.iter().sum()).filter(|_| fits);
    let covers = |mix: &[u32]| capacity(mix, choices) >= need * (1.0 - 1e-9);
    if room.is_none() || !covers(&old) {
        next.dear = None;
        // Add to the present mix rather than replace it.
        let more = room.map(|room| more(need, choices, room, &old));
        return more.filter(|mix| covers(mix) && price(mix, choices) <= least * SLACK).unwrap_or(best);
    }
    // If all is paid for anyway, fewer workers are better.
    let is_less = least == 0.0 && best.iter().sum::<u32>() < old.iter().sum();
    if price(&old, choices) <= least * SLACK && !is_less {
        next.dear = None;
        return old;
    }
    let since = *next.dear.get_or_insert(seen.at);
    if seen.at - since < HOLD {
        return old;
    }
    next.dear = None;
    best
}

/// Returns a mix with the workers that it lacks.
fn more(need: f64, choices: &[Choice], room: u32, mix: &[u32]) -> Vec<u32> {
    let left = |(kind, count): (&Choice, &u32)| Choice { max: kind.max - count, ..*kind };
    let rest: Vec<_> = choices.iter().zip(mix).map(left).collect();
    let added = cover(need - capacity(mix, choices), &rest, room);
    mix.iter().zip(added).map(|(count, added)| count + added).collect()
}

/// Returns how many more workers of each type stay while the mix is not complete.
fn kept(need: f64, choices: &[Choice], seen: &Observation, target: &[u32]) -> Vec<u32> {
    let there: Vec<_> = seen.there.iter().zip(target).map(|(there, target)| *there.min(target)).collect();
    let mut missing = need - capacity(&there, choices);
    let mut room = seen.workers_max.saturating_sub(target.iter().sum());
    let mut kept = vec![0; choices.len()];
    for at in order(choices) {
        if missing <= need * 1e-9 {
            break;
        }
        let spare = seen.there[at].saturating_sub(target[at]).min(room);
        let enough = (missing / choices[at].capacity).ceil() as u32;
        kept[at] = spare.min(enough);
        room -= kept[at];
        missing -= f64::from(kept[at]) * choices[at].capacity;
    }
    kept
}

/// Returns how many more workers of each type replace late ones. They go as soon as the late ones come, and cost less
/// until then than waiting trainers.
fn filled(need: f64, choices: &[Choice], seen: &Observation, [target, kept]: [&[u32]; 2], late: &[bool]) -> Vec<u32> {
    let mix: Vec<_> = target.iter().zip(kept).map(|(target, kept)| target + kept).collect();
    let counted =
        |(((mix, there), _), late): (((&u32, &u32), &Choice), &bool)| if *late { *mix.min(there) } else { *mix };
    let coming: Vec<_> = mix.iter().zip(&seen.there).zip(choices).zip(late).map(counted).collect();
    let room = seen.workers_max.saturating_sub(mix.iter().sum());
    let missing = need - capacity(&coming, choices);
    if missing <= need * 1e-9 || room == 0 || !late.contains(&true) {
        return vec![0; choices.len()];
    }
    let left = |((kind, late), mix): ((&Choice, &bool), &u32)| Choice {
        max: if *late { 0 } else { kind.max.saturating_sub(*mix) },
        ..*kind
    };
    let others: Vec<_> = choices.iter().zip(late).zip(&mix).map(left).collect();
    cover(missing, &others, room)
}

#[cfg(test)]
mod tests;
