//! Convolution of a sound with an impulse response, in blocks.
//!
//! The Fourier transform takes several frames at once, so blocks of the sound lie side by side in its lanes, and the
//! response in the last one. Two blocks are the real and the imaginary part of one frame, because the response is real.
//! Blocks overlap by the response's length, and the part of each result that wraps around is left out (overlap and save).

use forebay_core::rng::SampleRng;
use forebay_core::{Error, Result};
use forebay_plan::SoundLevel;
use forebay_plan::ops::RandomReverb;

use super::change::{mean_square, peak, scaled};
use super::fourier::{Fourier, LANES, LOG2_MAX, Work};

/// The most samples of a channel of a response: 5 s at 48 kHz. A transform then takes 64 MiB.
const RESPONSE_MAX: usize = 1 << (LOG2_MAX - 1);
/// The least new samples of a block, if the sound has so many.
const BLOCK_MIN: usize = 1 << 12;
/// The lane of the response.
const FILTER: usize = LANES - 1;
/// Blocks that are transformed together.
const BLOCKS: usize = 2 * FILTER;
/// A result whose level is this share of the expected one has rounding errors alone.
const ROUNDING: f64 = 1e-5;

/// A sound or a response.
#[derive(Clone, Copy)]
pub(crate) struct Channels<'a> {
    pub(crate) samples: &'a [f32],
    pub(crate) channels: usize,
}

impl Channels<'_> {
    fn len(&self) -> usize {
        self.samples.len() / self.channels.max(1)
    }

    fn of(&self, channel: usize) -> Vec<f32> {
        self.samples.iter().skip(channel).step_by(self.channels.max(1)).copied().collect()
    }
}

/// Convolves a sound with a response of one channel, or of as many as the sound. The length stays.
///
/// # Errors
/// Data when the response is empty, silent, too long or not finite, or has another number of channels, whatever is
/// drawn; and when the result is not finite.
pub(crate) fn reverb(
    op: &RandomReverb,
    sound: Channels<'_>,
    response: Channels<'_>,
    rng: &mut SampleRng,
) -> Result<Vec<f32>> {
    let direct = checked(response, sound.channels)?;
    if rng.unit() >= op.probability || sound.len() == 0 {
        return Ok(sound.samples.to_vec());
    }
    let delay = if op.shift { direct } else { 0 };
    let mut made = vec![0.0; sound.samples.len()];
    for channel in 0..sound.channels {
        let own = convolved(&sound.of(channel), &response.of(channel % response.channels), delay);
        made.iter_mut().skip(channel).step_by(sound.channels).zip(own).for_each(|(to, sample)| *to = sample);
    }
    let levels = match op.keep_level {
        None => None,
        Some(SoundLevel::Peak) => Some((peak(sound.samples), peak(&made))),
        Some(SoundLevel::Rms) => Some((mean_square(sound.samples).sqrt(), mean_square(&made).sqrt())),
    };
    if let Some((before, after)) = levels {
        let expected = before * (mean_square(response.samples) * response.len() as f64).sqrt();
        // A delay that is longer than the sound leaves nothing of it. Numbers that are not finite are no less.
        made = if after <= expected * ROUNDING { vec![0.0; made.len()] } else { scaled(&made, before / after) };
    }
    if made.iter().all(|sample| sample.is_finite()) {
        return Ok(made);
    }
    Err(Error::data("random_reverb: the sound has numbers that are not finite, or too large ones")
        .hint("check_finite finds such sounds before"))
}

/// Returns the place of the greatest absolute value of a response, its direct sound.
fn checked(response: Channels<'_>, channels: usize) -> Result<usize> {
    let error = |what: &str, hint: &str| Err(Error::data(format!("random_reverb: the response {what}")).hint(hint));
    if ![1, channels].contains(&response.channels) {
        let what = format!("has {} channels, and the sound has {channels}", response.channels);
        return error(&what, "decode it with mono=True");
    }
    if response.len() > RESPONSE_MAX {
        let what = format!("has {} samples, more than {RESPONSE_MAX}", response.len());
        return error(&what, "crop_audio cuts it");
    }
    let first = |best: (usize, f32), one: (usize, f32)| if one.1.total_cmp(&best.1).is_gt() { one } else { best };
    match response.samples.iter().map(|sample| sample.abs()).enumerate().reduce(first) {
        None => error("has no sample", "leave empty responses out with filter"),
        Some((_, 0.0)) => error("has only zeros", "leave silent responses out with filter"),
        Some((_, most)) if !most.is_finite() => error("has numbers that are not finite", "mend or remove its file"),
        Some((place, _)) => Ok(place / response.channels),
    }
}

/// Returns as many samples as the sound has of its convolution with a response, from number `delay` on.
pub(super) fn convolved(sound: &[f32], response: &[f32], delay: usize) -> Vec<f32> {
    // New samples of a block: a share of the sound, but not so many that a long sound takes much memory.
    let own = sound.len().div_ceil(BLOCKS).min(response.len().max(BLOCK_MIN));
    let (before, n) = (response.len() - 1, (own + response.len() - 1).next_power_of_two());
    let (own, fourier, mut work) = (n - before, Fourier::kept(n.ilog2()), Work::default());
    let mut made = vec![0.0; sound.len()];
    for (pass, made) in made.chunks_mut(own * BLOCKS).enumerate() {
        let (re, im) = fourier.zeros(&mut work);
        re.iter_mut().zip(response).for_each(|(to, &sample)| to[FILTER] = sample);
        for block in 0..made.len().div_ceil(own) {
            // A frame begins `before` samples ahead of its new ones; ahead of the sound and behind it are zeros.
            let first = (pass * BLOCKS + block) * own + delay;
            let known = sound.get(first.saturating_sub(before)..).unwrap_or_default();
            let part = if block.is_multiple_of(2) { &mut *re } else { &mut *im };
            let frame = part.iter_mut().skip(before.saturating_sub(first));
            frame.zip(known).for_each(|(to, &sample)| to[block / 2] = sample);
        }
        let (re, im) = fourier.transformed(&mut work);
        // The transform of swapped parts is the swapped inverse one, times n.
        for (re, im) in re.iter_mut().zip(im) {
            let ((a, b), (cos, sin)) = ((*re, *im), (re[FILTER], im[FILTER]));
            *re = std::array::from_fn(|lane| a[lane] * sin + b[lane] * cos);
            *im = std::array::from_fn(|lane| a[lane] * cos - b[lane] * sin);
        }
        let (im, re) = fourier.transformed(&mut work);
        for (block, made) in made.chunks_mut(own).enumerate() {
            let part = if block.is_multiple_of(2) { &*re } else { &*im };
            made.iter_mut().zip(&part[before..]).for_each(|(to, lanes)| *to = lanes[block / 2] / n as f32);
        }
    }
    made
}

#[cfg(test)]
mod tests {
    use forebay_core::SampleId;

    use super::*;

    #[test]
    fn a_convolution_in_blocks_is_the_sum_of_products() {
        let mut rng = SampleRng::new(3, SampleId(0));
        let mut noise = |len: usize| (0..len).map(|_| rng.uniform(-1.0, 1.0) as f32).collect::<Vec<_>>();
        for (sound, response, delay) in
            [(1, 1, 0), (5, 9, 3), (900, 1, 0), (700, 300, 250), (4096, 17, 16), (70_000, 64, 5), (300, 800, 799)]
        {
            let (sound, response) = (noise(sound), noise(response));
            let got = convolved(&sound, &response, delay);
            for at in (0..sound.len()).step_by(1 + sound.len() / 500) {
                let taps = response.iter().enumerate();
                let term = |(k, &tap): (usize, &f32)| {
                    let sample = (at + delay).checked_sub(k).and_then(|place| sound.get(place));
                    f64::from(tap) * f64::from(sample.copied().unwrap_or(0.0))
                };
                let want: f64 = taps.map(term).sum();
                assert!((f64::from(got[at]) - want).abs() < 2e-5, "{at} of {}: {} not {want}", sound.len(), got[at]);
            }
        }
    }
}
