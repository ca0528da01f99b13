//! Another sampling rate, by a windowed sinc (Kaiser), as polyphase filter.
//!
//! The pass band ends at 0.91 of the lower Nyquist frequency and is flat to 0.001 dB; from the lower Nyquist frequency
//! on, everything is at least 100 dB down. The delay is 0: sample 0 stays at time 0, and samples beyond the ends are
//! zeros. Weights are computed in f64, sums are in f32 with a fixed order.
//!
//! Bounds: [`TAPS_MAX`] weights for a value, [`WEIGHTS_MAX`] for a pair of rates, and [`KEPT_MAX`] pairs in memory.

use std::collections::VecDeque;
use std::f64::consts::PI;
use std::sync::{Arc, Mutex, PoisonError};

use forebay_core::{Error, ErrorKind, Result};

/// The end of the pass band, as a share of the lower Nyquist frequency.
const PASS: f64 = 0.91;
/// Kaiser's shape for 105 dB of attenuation.
const BETA: f64 = 0.1102 * (105.0 - 8.7);
/// Zero crossings of the sinc on each side: (105 - 8) / (2.285 * 0.09 π) / 2 weights at the lower rate.
const CROSSINGS: f64 = 75.5;
/// The most weights of a pair of rates: 4 MB. Pairs with more phases interpolate between [`PHASES`] of them.
const WEIGHTS_MAX: usize = 1 << 20;
/// The most weights of one value.
const TAPS_MAX: usize = 1 << 20;
/// Phases of an interpolated filter, for each zero crossing: linear interpolation errs by less than -140 dB.
const PHASES: usize = 4096;
/// The pairs of rates whose weights are kept.
const KEPT_MAX: usize = 8;
/// Sums of one dot product.
const LANES: usize = 8;
/// Values that are computed side by side with the same weights, and periods of all phases for which weights are read
/// once: these samples stay in the first level cache.
const SIDE: usize = 4;
const BLOCK: usize = 16;

/// Resamplers by their rates, shared by the threads of a process.
static KEPT: Mutex<VecDeque<Arc<Resampler>>> = Mutex::new(VecDeque::new());

/// The weights for a pair of rates.
pub(crate) struct Resampler {
    from: u32,
    to: u32,
    /// The rates without their common divisor.
    up: u64,
    down: u64,
    /// Weights of a phase, of which the last may be zero.
    taps: usize,
    /// The sample before the first that weights of phase 0 apply to.
    reach: usize,
    phases: Phases,
}

enum Phases {
    /// The weights of each phase.
    Exact(Vec<f32>),
    /// Weights by time, `PHASES` for a zero crossing, and the step of one sample in them.
    Table { values: Vec<f32>, step: f64 },
}

impl Resampler {
    /// Returns the resampler of a pair of rates.
    ///
    /// # Errors
    /// Exhausted when the rates are too far apart.
    pub(crate) fn of(from: u32, to: u32) -> Result<Arc<Self>> {
        let kept = || KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = kept().iter().find(|one| (one.from, one.to) == (from, to)) {
            return Ok(found.clone());
        }
        // Not under the lock: two threads may both make it, with the same weights.
        let made = Arc::new(Self::new(from, to)?);
        let mut kept = kept();
        kept.truncate(KEPT_MAX - 1);
        kept.push_front(made.clone());
        Ok(made)
    }

    fn new(from: u32, to: u32) -> Result<Self> {
        let divisor = gcd(u64::from(from), u64::from(to));
        let (up, down) = (u64::from(to) / divisor, u64::from(from) / divisor);
        // The zero crossings of the sinc for each sample of the input.
        let density = (f64::from(to) / f64::from(from)).min(1.0);
        let reach = libm::ceil(CROSSINGS / density) as usize;
        let taps = (2 * reach + 1).next_multiple_of(LANES);
        if taps > TAPS_MAX {
            return Err(Error::new(
                ErrorKind::Exhausted,
                format!("resampling from {from} to {to} Hz takes {taps} weights"),
            )
            .with("bound", format!("{TAPS_MAX} weights"))
            .hint("resample in two steps"));
        }
        let gain = density * (1.0 + PASS) / 2.0;
        let weight = |time: f64| gain * sinc(time * gain) * kaiser(time * density / CROSSINGS);
        let phases = if (up as usize).saturating_mul(taps) <= WEIGHTS_MAX {
            let mut weights = vec![0.0; up as usize * taps];
            for (phase, weights) in weights.chunks_exact_mut(taps).enumerate() {
                let ahead = phase as f64 / up as f64;
                let exact: Vec<f64> = (0..=2 * reach).map(|tap| weight(tap as f64 - reach as f64 - ahead)).collect();
                // Each phase passes a constant unchanged.
                let sum: f64 = exact.iter().sum();
                weights.iter_mut().zip(exact).for_each(|(to, weight)| *to = (weight / sum) as f32);
            }
            Phases::Exact(weights)
        } else {
            let step = PHASES as f64 * density;
            let last = libm::ceil((reach + 2) as f64 * step) as usize;
            Phases::Table { values: (0..=last).map(|at| weight(at as f64 / step) as f32).collect(), step }
        };
        Ok(Self { from, to, up, down, taps, reach, phases })
    }

    /// Returns the number of samples that so many samples become.
    pub(crate) fn samples(&self, samples: usize) -> usize {
        (samples as u128 * u128::from(self.up)).div_ceil(u128::from(self.down)) as usize
    }

    /// Resamples one channel.
    pub(crate) fn run(&self, input: &[f32]) -> Vec<f32> {
        if self.up == self.down {
            return input.to_vec();
        }
        // Zeros beyond the ends, so that every sum has all its weights.
        let mut padded = vec![0.0; self.reach + input.len() + self.taps + 1];
        padded[self.reach..self.reach + input.len()].copy_from_slice(input);
        let mut made = vec![0.0; self.samples(input.len())];
        match &self.phases {
            Phases::Exact(weights) => self.by_phases(&padded, weights, &mut made),
            Phases::Table { values, step } => {
                let mut between = vec![0.0; self.taps];
                for (at, to) in made.iter_mut().enumerate() {
                    let place = at as u64 * self.down;
                    let ahead = (place % self.up) as f64 / self.up as f64;
                    self.interpolate(values, *step, ahead, &mut between);
                    [*to] = dots(&padded, [(place / self.up) as usize], &between);
                }
            }
        }
        made
    }

    /// Writes the values of each phase in turn, for some periods of all phases at a time.
    fn by_phases(&self, padded: &[f32], weights: &[f32], made: &mut [f32]) {
        let (up, down) = (self.up as usize, self.down as usize);
        let periods = made.len().div_ceil(up);
        for first in (0..periods).step_by(BLOCK) {
            for phase in 0..up {
                let (ahead, own) = (phase * down / up, phase * down % up);
                let weights = &weights[own * self.taps..][..self.taps];
                // The last period may lack the later phases.
                let end = (first + BLOCK).min((made.len() + up - 1 - phase) / up);
                let mut period = first;
                while period + SIDE <= end {
                    let sums: [f32; SIDE] = dots(padded, std::array::from_fn(|i| (period + i) * down + ahead), weights);
                    (0..SIDE).for_each(|i| made[(period + i) * up + phase] = sums[i]);
                    period += SIDE;
                }
                for period in period..end {
                    [made[period * up + phase]] = dots(padded, [period * down + ahead], weights);
                }
            }
        }
    }

    /// Writes the weights of a phase that lies between those of the table.
    fn interpolate(&self, values: &[f32], step: f64, ahead: f64, weights: &mut [f32]) {
        for (tap, weight) in weights.iter_mut().enumerate().take(2 * self.reach + 1) {
            let at = (tap as f64 - self.reach as f64 - ahead).abs() * step;
            let (below, share) = (at as usize, (at - libm::floor(at)) as f32);
            *weight = values[below] + (values[below + 1] - values[below]) * share;
        }
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn sinc(x: f64) -> f64 {
    if x == 0.0 { 1.0 } else { libm::sin(PI * x) / (PI * x) }
}

/// Returns Kaiser's window at `x`, from -1 to 1.
fn kaiser(x: f64) -> f64 {
    if x.abs() > 1.0 { 0.0 } else { bessel(BETA * (1.0 - x * x).sqrt()) / bessel(BETA) }
}

/// Returns the modified Bessel function of the first kind, of order 0.
fn bessel(x: f64) -> f64 {
    let (mut sum, mut term) = (1.0, 1.0);
    for n in 1..64 {
        term *= (x / 2.0 / f64::from(n)) * (x / 2.0 / f64::from(n));
        sum += term;
        if term < sum * f64::EPSILON / 4.0 {
            break;
        }
    }
    sum
}

/// Returns the sums of products of weights with the samples from each start on. A sum is always added in the same
/// order, whichever sums are beside it.
#[inline(always)]
fn dots<const N: usize>(samples: &[f32], starts: [usize; N], weights: &[f32]) -> [f32; N] {
    let parts = starts.map(|start| samples[start..start + weights.len()].as_chunks::<LANES>().0);
    let mut sums = [[0.0; LANES]; N];
    for (at, weights) in weights.as_chunks::<LANES>().0.iter().enumerate() {
        for n in 0..N {
            for lane in 0..LANES {
                sums[n][lane] += parts[n][at][lane] * weights[lane];
            }
        }
    }
    sums.map(|[a, b, c, d, e, f, g, h]| ((a + e) + (c + g)) + ((b + f) + (d + h)))
}
