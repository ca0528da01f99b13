//! The order of a mix: which part the row at a place is from, and which of that part's rows it is. A function of the
//! place and a key, without a state.
//!
//! Places are divided into windows of [`WINDOW`]. In a window of `n` places, a part of share `p` has `p * n` rows,
//! rounded down or up, and a permutation of the window orders them. The shares lie side by side on a line of length
//! `n`, and each window lays points at distance 1 on that line; a part has the rows of the points on its share. The
//! first point follows the van der Corput sequence, so over many windows the counts of each part are exact, too, and
//! the count before any window is a sum of at most 32 terms.
//!
//! If each batch has the share of each part, too, the plan sorts the rows of a window by part and deals them to the
//! window's batches in turn. A permutation orders the batches, and another one orders the rows of each batch. If a window
//! is no whole number of batches, the plan takes the rows of its last batch at equal distances first.
//!
//! A mix has **phases**: runs of full windows with the same shares, and one closing window. In the last phase, that has
//! the last rows of the part that ends the mix. Weights that change begin a phase (`stretches`), and so does a part that
//! ends before others with `stop="once"`.
//!
//! Beside it: `combination`, the rows of all kinds of datasets that are read as one; `interleave`, where datasets take
//! turns; `stretches`, the weights of a mix as they change within an epoch; `streamed_mix`, where the datasets are not
//! counted.
//!
//! Invariants: the rows of each part come in order, and each once; the length does not depend on the key. Windows,
//! points and the dealing to batches are fixed for ever: changing them changes the order in which users' jobs see their
//! data.

pub(crate) mod combination;
mod interleave;
pub(crate) mod streamed_mix;
pub(crate) mod stretches;

use forebay_core::rng::mix64;

use crate::epoch::permute::Permutation;
use crate::source::{Changes, Stop};
use stretches::{Stretch, stretches, taking_part};

/// The places of a window in which shares hold.
pub(crate) const WINDOW: u64 = 1024;
/// The fraction bits of a position on the line.
const BITS: u32 = 32;
/// The most windows of a phase, so that places and counts are below 2^64.
pub(super) const WINDOWS_MAX: u64 = u64::MAX / (2 * WINDOW);

/// The shares of parts in a run of windows.
#[derive(Debug, Clone)]
pub(super) struct Shares {
    /// The end of the share of each part on the line of a window, in 2^-32 of a place.
    ends: Vec<u64>,
    /// The windows before the run: its points follow theirs.
    lead: u64,
}

impl Shares {
    /// Divides the line by weights. A part of weight 0 has no share.
    pub(super) fn new(weights: &[f64], lead: u64) -> Self {
        let (sum, whole) = (weights.iter().sum::<f64>(), WINDOW << BITS);
        let last = weights.iter().rposition(|weight| *weight > 0.0).unwrap_or(0);
        let mut before = 0.0;
        let end = |(part, weight): (usize, &f64)| {
            before += weight;
            if part >= last { whole } else { ((before / sum * whole as f64).round() as u64).min(whole) }
        };
        Self { ends: weights.iter().enumerate().map(end).collect(), lead }
    }

    /// Returns the rows of each part in a full window, on average.
    fn rates(&self) -> Vec<f64> {
        differences(self.ends.iter().copied()).map(|share| share as f64 / (1u64 << BITS) as f64).collect()
    }

    /// Returns the rows of each part in the first `windows` windows.
    fn before(&self, windows: u64) -> Vec<u64> {
        let points = |end: u64| points_below(self.lead + windows, end) - points_below(self.lead, end);
        let of = |end: &u64| windows * (end >> BITS) + points(end & low(BITS));
        differences(self.ends.iter().map(of)).collect()
    }

    /// Returns the rows of each part in the window of this number, which has `places` places.
    pub(super) fn window(&self, window: u64, places: u64) -> Vec<u64> {
        let of = |end: &u64| {
            let end = (u128::from(*end) * u128::from(places) / u128::from(WINDOW)) as u64;
            (end >> BITS) + u64::from(first_point(self.lead + window) < (end & low(BITS)))
        };
        differences(self.ends.iter().map(of)).collect()
    }
}

/// Returns the first point of a window, in 2^-32: 1/2, 0, 3/4, 1/4, …
fn first_point(window: u64) -> u64 {
    u64::from(((window ^ 1) as u32).reverse_bits())
}

/// Returns how many of the first `windows` windows have their first point below `end`, which is below 2^32.
fn points_below(windows: u64, end: u64) -> u64 {
    // In 2^32 windows, each point comes once.
    let mut count = (windows >> BITS) * end;
    let rest = windows & low(BITS);
    for bit in (1..BITS).filter(|bit| rest >> bit & 1 == 1) {
        // The points of 2^bit windows: from the first on, at equal distances.
        let first = u64::from(((rest >> (bit + 1) << (bit + 1)) as u32).reverse_bits());
        count += end.saturating_sub(first).div_ceil(1 << (BITS - bit));
    }
    count + u64::from(rest & 1 == 1 && first_point(rest - 1) < end)
}

fn low(bits: u32) -> u64 {
    (1 << bits) - 1
}

fn differences(sums: impl Iterator<Item = u64>) -> impl Iterator<Item = u64> {
    sums.scan(0, |before, sum| Some(sum - std::mem::replace(before, sum)))
}

/// A run of full windows with the same shares, and a closing window.
#[derive(Debug, Clone)]
struct Phase {
    /// Its first place.
    start: u64,
    /// The number of its first window.
    first_window: u64,
    /// The rows of each part before it.
    before: Vec<u64>,
    shares: Shares,
    /// The number of full windows.
    windows: u64,
    /// The rows of each part in the closing window.
    closing: Vec<u64>,
}

impl Phase {
    fn len(&self) -> u64 {
        self.windows * WINDOW + self.closing.iter().sum::<u64>()
    }

    /// Returns the rows of each part before one of its windows.
    fn before(&self, window: u64) -> Vec<u64> {
        let inside = self.shares.before(window);
        self.before.iter().zip(inside).map(|(before, inside)| before + inside).collect()
    }

    /// Returns the rows of each part in one of its windows.
    fn counts(&self, window: u64) -> Vec<u64> {
        if window < self.windows { self.shares.window(window, WINDOW) } else { self.closing.clone() }
    }
}

/// The order of a mix.
#[derive(Debug, Clone)]
pub(super) struct Mix {
    phases: Vec<Phase>,
    len: Option<u64>,
    /// The rows of each part in an epoch, if it ends.
    counts: Vec<u64>,
    /// The rows of a batch, if each batch has the share of each part: a divisor of [`WINDOW`].
    batch: Option<u64>,
}

/// Why a mix has no plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoPlan {
    /// It has 2^63 rows or more.
    TooMany,
    /// A part is to be read whole, and has rows left where its weight is 0 to the end.
    NeverRead(usize),
}

impl Mix {
    /// Plans a mix of parts with so many rows. Without [`Stop::Once`], no part may be empty.
    pub(super) fn new(weights: &[f64], changes: Option<&Changes>, stop: Stop, lens: &[u64]) -> Result<Self, NoPlan> {
        let mut mix = Self { phases: Vec::new(), len: Some(0), counts: vec![0; lens.len()], batch: None };
        let stretches = stretches(weights, changes);
        for (at, stretch) in stretches.iter().enumerate() {
            let is_over = match stop {
                Stop::First => mix.until_one_ends(stretch, lens)?,
                Stop::All => mix.until_all_ended(stretch, lens)?,
                Stop::Once => mix.each_once(&stretches[at..], lens)?,
                Stop::Rows(rows) => mix.until_row(stretch, rows)?,
                Stop::Never => {
                    mix.push_whole(stretch)?;
                    stretch.is_last
                }
            };
            if is_over {
                break;
            }
        }
        if stop == Stop::Never {
            mix.len = None;
        }
        Ok(mix)
    }

    /// Gives each batch of `rows` rows the share of each part.
    pub(super) fn per_batch(self, rows: Option<u64>) -> Self {
        Self { batch: rows, ..self }
    }

    /// Adds a stretch, as far as it has rows below this one. Returns whether it is the end.
    fn until_row(&mut self, stretch: &Stretch, rows: u64) -> Result<bool, NoPlan> {
        let left = rows - self.len.unwrap_or(0);
        if !stretch.is_last && stretch.rows() <= left {
            self.push_whole(stretch)?;
            return Ok(stretch.rows() == left);
        }
        let windows = Some(left / WINDOW).filter(|windows| *windows <= WINDOWS_MAX).ok_or(NoPlan::TooMany)?;
        let shares = Shares::new(&stretch.weights, stretch.first_window);
        let closing = shares.window(windows, left % WINDOW);
        self.push(shares, (stretch.first_window, windows), closing)?;
        Ok(true)
    }

    /// Adds a stretch until a part has been read whole. Returns whether one has.
    fn until_one_ends(&mut self, stretch: &Stretch, lens: &[u64]) -> Result<bool, NoPlan> {
        let left = self.left(lens);
        if left.contains(&0) {
            return Ok(true);
        }
        let shares = Shares::new(&stretch.weights, stretch.first_window);
        if !stretch.is_last && rows_of(&shares, stretch).iter().zip(&left).all(|(rows, left)| rows <= left) {
            self.push_whole(stretch)?;
            return Ok(false);
        }
        let (windows, closing) = until_one_ends(&shares, stretch.windows, &left).ok_or(NoPlan::TooMany)?;
        self.push(shares, (stretch.first_window, windows), closing)?;
        Ok(true)
    }

    /// Adds a stretch until all parts have been read whole. Returns whether they have.
    fn until_all_ended(&mut self, stretch: &Stretch, lens: &[u64]) -> Result<bool, NoPlan> {
        let left = self.left(lens);
        if left.iter().all(|rows| *rows == 0) {
            return Ok(true);
        }
        let shares = Shares::new(&stretch.weights, stretch.first_window);
        if !stretch.is_last && rows_of(&shares, stretch).iter().zip(&left).any(|(rows, left)| rows < left) {
            self.push_whole(stretch)?;
            return Ok(false);
        }
        let stuck = stretch.weights.iter().zip(&left).position(|(weight, left)| *weight == 0.0 && *left > 0);
        if let (true, Some(part)) = (stretch.is_last, stuck) {
            return Err(NoPlan::NeverRead(part));
        }
        let (windows, closing) = until_all_ended(&shares, stretch.windows, &left).ok_or(NoPlan::TooMany)?;
        self.push(shares, (stretch.first_window, windows), closing)?;
        Ok(true)
    }

    /// Adds the first stretch, a phase for each part that ends in it. Returns whether all parts have been read whole.
    fn each_once(&mut self, stretches: &[Stretch], lens: &[u64]) -> Result<bool, NoPlan> {
        let Some(mut stretch) = stretches.first().cloned() else { return Ok(true) };
        loop {
            let left = self.left(lens);
            let Some(part) = left.iter().position(|rows| *rows > 0) else { return Ok(true) };
            let weights = taking_part(stretches, |part| left[part] > 0).ok_or(NoPlan::NeverRead(part))?;
            let shares = Shares::new(&weights, stretch.first_window);
            let first_window = self.phases.last().map_or(0, |last| last.first_window + last.windows + 1);
            let rows = rows_of(&shares, &stretch);
            if !stretch.is_last && rows.iter().zip(&left).all(|(rows, left)| rows <= left) {
                let closing = shares.window(stretch.windows, stretch.rest);
                self.push(shares, (first_window, stretch.windows), closing)?;
                return Ok(false);
            }
            let (windows, closing) = until_one_ends(&shares, stretch.windows, &left).ok_or(NoPlan::TooMany)?;
            let used = windows * WINDOW + closing.iter().sum::<u64>();
            self.push(shares, (first_window, windows), closing)?;
            if !stretch.is_last {
                let rest = stretch.rows().saturating_sub(used);
                if rest == 0 {
                    return Ok(self.left(lens).iter().all(|rows| *rows == 0));
                }
                (stretch.windows, stretch.rest) = (rest / WINDOW, rest % WINDOW);
            }
        }
    }

    /// Returns the rows of each part that have not come, as if it came once.
    fn left(&self, lens: &[u64]) -> Vec<u64> {
        lens.iter().zip(&self.counts).map(|(len, count)| len.saturating_sub(*count)).collect()
    }

    fn push_whole(&mut self, stretch: &Stretch) -> Result<(), NoPlan> {
        let shares = Shares::new(&stretch.weights, stretch.first_window);
        let closing = shares.window(stretch.windows, stretch.rest);
        self.push(shares, (stretch.first_window, stretch.windows), closing)
    }

    fn push(&mut self, shares: Shares, windows: (u64, u64), closing: Vec<u64>) -> Result<(), NoPlan> {
        let ((first_window, windows), start) = (windows, self.len.unwrap_or(0));
        let phase = Phase { start, first_window, before: self.counts.clone(), shares, windows, closing };
        self.len = Some(start.checked_add(phase.len()).ok_or(NoPlan::TooMany)?);
        let inside = phase.shares.before(windows);
        let counts = self.counts.iter_mut().zip(inside).zip(&phase.closing);
        counts.for_each(|((count, inside), closing)| *count += inside + closing);
        self.phases.push(phase);
        Ok(())
    }

    /// Returns its length; `None` is endless.
    pub(super) fn len(&self) -> Option<u64> {
        self.len
    }

    /// Returns how many rows of a part an epoch has; `None` is endless.
    pub(super) fn count(&self, part: usize) -> Option<u64> {
        self.len.map(|_| self.counts[part])
    }

    /// Returns the window of a place, which is below the length, and the place inside of it.
    fn find(&self, place: u64) -> (usize, u64, usize) {
        let place = if self.len.is_none() { place % (WINDOWS_MAX * WINDOW) } else { place };
        let phase = self.phases.partition_point(|phase| phase.start <= place).saturating_sub(1);
        let inside = place - self.phases[phase].start;
        let window = (inside / WINDOW).min(self.phases[phase].windows);
        (phase, window, (inside - window * WINDOW) as usize)
    }
}

/// Returns the largest number of windows for which `fits` is true. It is true for 0, and from some number on false.
fn last_window(estimate: f64, fits: impl Fn(u64) -> bool) -> Option<u64> {
    let estimate = Some(estimate as u64).filter(|estimate| *estimate < WINDOWS_MAX / 2)?;
    // The estimate is off by a few windows.
    let (mut low, mut high, mut step) = (0, estimate, 1);
    if fits(estimate) {
        (low, high) = (estimate, estimate + 1);
        while fits(high) {
            (low, high) = (high, Some(high + step).filter(|high| *high < WINDOWS_MAX)?);
            step *= 2;
        }
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle) { low = middle } else { high = middle }
    }
    Some(low)
}

/// Returns the rows of each part in a stretch.
fn rows_of(shares: &Shares, stretch: &Stretch) -> Vec<u64> {
    let closing = shares.window(stretch.windows, stretch.rest);
    shares.before(stretch.windows).iter().zip(closing).map(|(rows, closing)| rows + closing).collect()
}

/// Returns the windows before the first part ends, at most `most`, and the rows of each part in the closing window.
fn until_one_ends(shares: &Shares, most: u64, left: &[u64]) -> Option<(u64, Vec<u64>)> {
    let rates = shares.rates();
    let ends = |left: &[u64]| {
        let ends = left.iter().zip(&rates).map(|(left, rate)| if *rate > 0.0 { *left as f64 / rate } else { f64::MAX });
        ends.enumerate().min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0, 0.0))
    };
    let fits = |windows: u64| shares.before(windows).iter().zip(left).all(|(has, left)| has <= left);
    let windows = last_window(ends(left).1, fits)?.min(most);
    let left: Vec<u64> = left.iter().zip(shares.before(windows)).map(|(left, has)| left - has).collect();
    let (first, time) = ends(&left);
    let mut closing: Vec<u64> =
        left.iter().zip(&rates).map(|(left, rate)| ((rate * time).round() as u64).min(*left)).collect();
    closing[first] = left[first];
    Some((windows, closing))
}

/// Returns the windows before all parts have ended, at most `most`, and the rows of each part in the closing window.
fn until_all_ended(shares: &Shares, most: u64, lens: &[u64]) -> Option<(u64, Vec<u64>)> {
    let rates = shares.rates();
    // A part of no share has no row left.
    let end = |left: &[u64]| {
        let ends = left.iter().zip(&rates).filter(|(left, _)| **left > 0).map(|(left, rate)| *left as f64 / rate);
        ends.fold(0.0, f64::max)
    };
    let fits = |windows: u64| shares.before(windows).iter().zip(lens).any(|(has, len)| has < len);
    let windows = last_window(end(lens), fits)?.min(most);
    let left: Vec<u64> = lens.iter().zip(shares.before(windows)).map(|(len, has)| len.saturating_sub(has)).collect();
    // A part of a small share may have one row left that is due much later.
    let time = end(&left).min(1.0);
    let closing = left.iter().zip(&rates).map(|(left, rate)| ((rate * time).round() as u64).max(*left)).collect();
    Some((windows, closing))
}

/// The part of a place, and the number of its row among that part's.
pub(super) type MixedRow = (usize, u64);

/// The last window that was looked at.
#[derive(Debug)]
struct Layout {
    key: u64,
    phase: usize,
    window: u64,
    /// The rows of each part before it.
    before: Vec<u64>,
    /// The part of each place.
    parts: Vec<u16>,
    /// How many earlier places of the window have the same part.
    ranks: Vec<u16>,
}

/// Finds the rows of a mix. Keeps the last window, because neighbouring places mostly share it.
#[derive(Debug, Default)]
pub(super) struct MixFinder {
    last: Option<Layout>,
}

impl MixFinder {
    /// Returns the part and the row of a place, which is below the length of the mix. `key` is that of the epoch.
    pub(super) fn find(&mut self, mix: &Mix, key: u64, place: u64) -> MixedRow {
        let (phase, window, inside) = mix.find(place);
        let is_last = |last: &Layout| (last.key, last.phase, last.window) == (key, phase, window);
        let layout = match self.last.take() {
            Some(last) if is_last(&last) => last,
            _ => Layout::new(mix, key, phase, window),
        };
        let part = usize::from(layout.parts[inside]);
        let row = layout.before[part] + u64::from(layout.ranks[inside]);
        self.last = Some(layout);
        (part, row)
    }
}

/// Returns the part of each place of a window that has `counts` rows of the parts. With `batch`, each batch of so many
/// rows has the share of each part; if the batch does not divide the window, within one row of the rounded share.
pub(super) fn lay_out(counts: &[u64], batch: Option<u64>, key: u64, window: u64) -> Vec<u16> {
    let sorted: Vec<u16> =
        counts.iter().zip(0u16..).flat_map(|(count, part)| std::iter::repeat_n(part, *count as usize)).collect();
    let key = mix64(key ^ mix64(window.wrapping_add(1)));
    let Some(batch) = batch.map(|rows| rows as usize).filter(|rows| *rows < sorted.len()) else {
        return permuted(&sorted, key);
    };
    let keys = (1..).map(|number| mix64(key ^ mix64(number)));
    dealt(&sorted, batch, key).chunks(batch).zip(keys).flat_map(|(rows, key)| permuted(rows, key)).collect()
}

/// Deals rows, sorted by part, to batches, of which the last one may be shorter.
fn dealt(sorted: &[u16], batch: usize, key: u64) -> Vec<u16> {
    let (rows, batches, short) = (sorted.len(), sorted.len() / batch, sorted.len() % batch);
    let is_of_last = |place: &usize| (place + 1) * short / rows > place * short / rows;
    let (last, others): (Vec<usize>, Vec<usize>) = (0..rows).partition(is_of_last);
    let numbers: Vec<usize> = (0..batches).collect();
    let of_batch = |number: usize| others.iter().skip(number).step_by(batches);
    let places = permuted(&numbers, key).into_iter().flat_map(of_batch).chain(&last);
    places.map(|place| sorted[*place]).collect()
}

/// Returns the values in the order of a permutation.
fn permuted<T: Copy>(values: &[T], key: u64) -> Vec<T> {
    let mut slots: Vec<u64> = (0..values.len() as u64).collect();
    Permutation::new(values.len() as u64, key).map(&mut slots);
    slots.into_iter().map(|slot| values[slot as usize]).collect()
}

impl Layout {
    fn new(mix: &Mix, key: u64, phase: usize, window: u64) -> Self {
        let of = &mix.phases[phase];
        let (before, counts) = (of.before(window), of.counts(window));
        let parts = lay_out(&counts, mix.batch, key, of.first_window + window);
        let mut next = vec![0u16; counts.len()];
        let rank = |part: &u16| {
            let next = &mut next[usize::from(*part)];
            *next += 1;
            *next - 1
        };
        let ranks = parts.iter().map(rank).collect();
        Self { key, phase, window, before, parts, ranks }
    }
}

#[cfg(test)]
mod tests;
