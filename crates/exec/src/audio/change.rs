//! Changes of a sound or a spectrum: crops, gains, noise, masks. Sums are in f64, in the order of the samples.

use forebay_core::rng::SampleRng;
use forebay_core::{Error, Result};
use forebay_plan::Loudness;
use forebay_plan::ops::{NormalizeAudio, RandomGain, RandomNoise, SpecAugment};

use crate::image::real::normal;

/// Returns `length` frames of `channels` samples from `start` on, with zeros behind the last if `pad`.
///
/// # Errors
/// Data when zeros alone would be returned.
pub(crate) fn crop(sound: &[f32], channels: usize, start: usize, length: usize, pad: bool) -> Result<Vec<f32>> {
    let frames = sound.len() / channels.max(1);
    if pad && start > 0 && start >= frames {
        return Err(Error::data(format!("crop_audio: the sound has {frames} samples, and the part begins at {start}"))
            .hint("leave short sounds out with filter, or write pad=False"));
    }
    let end = start.saturating_add(length).min(frames);
    let mut part = sound[start.min(end) * channels..end * channels].to_vec();
    if pad {
        part.resize(length * channels, 0.0);
    }
    Ok(part)
}

/// Draws where a part of `length` samples begins.
pub(crate) fn offset(samples: usize, length: usize, rng: &mut SampleRng) -> usize {
    let most = samples.saturating_sub(length);
    rng.up_to(u32::try_from(most).unwrap_or(u32::MAX)) as usize
}

/// Returns the factor of an amplitude.
fn factor(db: f64) -> f64 {
    libm::pow(10.0, db / 20.0)
}

pub(super) fn mean_square(sound: &[f32]) -> f64 {
    sound.iter().map(|&sample| f64::from(sample) * f64::from(sample)).sum::<f64>() / sound.len().max(1) as f64
}

pub(super) fn scaled(sound: &[f32], by: f64) -> Vec<f32> {
    sound.iter().map(|&sample| (f64::from(sample) * by) as f32).collect()
}

/// Returns the greatest absolute value.
pub(super) fn peak(sound: &[f32]) -> f64 {
    sound.iter().fold(0.0, |peak, sample| f64::from(sample.abs()).max(peak))
}

/// Added to the variance, as wav2vec 2.0's feature extractor does.
const VARIANCE_MIN: f64 = 1e-7;

pub(crate) fn normalize(op: &NormalizeAudio, sound: &[f32]) -> Vec<f32> {
    let level = match op.to {
        Loudness::Peak => peak(sound),
        Loudness::Rms => mean_square(sound).sqrt(),
        Loudness::Standard => {
            let mean = sound.iter().map(|&sample| f64::from(sample)).sum::<f64>() / sound.len().max(1) as f64;
            let square = |sample: &f32| (f64::from(*sample) - mean) * (f64::from(*sample) - mean);
            let variance = sound.iter().map(square).sum::<f64>() / sound.len().max(1) as f64;
            let by = 1.0 / (variance + VARIANCE_MIN).sqrt();
            return sound.iter().map(|&sample| ((f64::from(sample) - mean) * by) as f32).collect();
        }
    };
    if level > 0.0 { scaled(sound, factor(op.db) / level) } else { sound.to_vec() }
}

pub(crate) fn gain(op: &RandomGain, sound: &[f32], rng: &mut SampleRng) -> Vec<f32> {
    if rng.unit() >= op.probability {
        return sound.to_vec();
    }
    scaled(sound, factor(rng.uniform(op.db.0, op.db.1)))
}

/// Adds noise. `noise` has samples of as many channels, or is `None` for white noise.
///
/// # Errors
/// Data when there is a column of noise, and this row has none.
pub(crate) fn add_noise(
    op: &RandomNoise,
    sound: &[f32],
    noise: Option<&[f32]>,
    channels: usize,
    rng: &mut SampleRng,
) -> Result<Vec<f32>> {
    if rng.unit() >= op.probability || sound.is_empty() {
        return Ok(sound.to_vec());
    }
    let ratio = rng.uniform(op.snr_db.0, op.snr_db.1);
    let noise: Vec<f32> = match noise {
        None => (0..sound.len()).map(|_| normal(rng) as f32).collect(),
        Some([]) => {
            return Err(Error::data("random_noise: the noise has no sample").hint("leave empty noise out with filter"));
        }
        Some(noise) => {
            let (own, other) = (sound.len() / channels, noise.len() / channels);
            // A longer one is cut at a random place, a shorter one begins anywhere and is repeated.
            let start = if other > own { offset(other, own, rng) } else { offset(other, 1, rng) };
            noise.iter().cycle().skip(start * channels).take(sound.len()).copied().collect()
        }
    };
    let (own, other) = (mean_square(sound), mean_square(&noise));
    if own <= 0.0 || other <= 0.0 {
        return Ok(sound.to_vec());
    }
    let by = (own / other).sqrt() / factor(ratio);
    Ok(sound.iter().zip(&noise).map(|(&a, &b)| (f64::from(a) + f64::from(b) * by) as f32).collect())
}

/// Masks bands and spans of a spectrum, in place.
pub(crate) fn mask(op: &SpecAugment, shape: [usize; 2], values: &mut [f32], rng: &mut SampleRng) {
    let [frames, bins] = if op.time_first { shape } else { [shape[1], shape[0]] };
    let longest = op.time_width.min((op.time_ratio * frames as f64) as usize);
    let widths = [(op.freq_masks, op.freq_width, bins), (op.time_masks, longest, frames)];
    for (is_time, (masks, most, size)) in [false, true].into_iter().zip(widths) {
        for _ in 0..masks {
            let width = rng.up_to(most.min(size) as u32) as usize;
            let start = rng.up_to((size - width) as u32) as usize;
            let span = start..start + width;
            if is_time == op.time_first {
                values[span.start * shape[1]..span.end * shape[1]].fill(op.value as f32);
            } else {
                values.chunks_exact_mut(shape[1].max(1)).for_each(|row| row[span.clone()].fill(op.value as f32));
            }
        }
    }
}
