//! Sound to spectra: frames, Fourier transform, mel bands, logarithm, cepstral coefficients.
//!
//! The window, the bands and the logarithm are those of the libraries that a preset names, within a few units of
//! float32's last place of the greatest value of a frame.

use forebay_core::{Error, Result};
use forebay_plan::{Edge, Logarithm, Spectrogram};

use super::bands::{Band, cosines, mel_bands, window};
use super::fourier::{Fourier, LANES, Lane, Work};

/// A spectrogram op, with its constants.
pub(crate) struct Spectra {
    op: Spectrogram,
    window: Vec<f32>,
    fourier: Fourier,
    bands: Option<Vec<Band>>,
    cosines: Vec<Vec<f32>>,
}

impl Spectra {
    pub(crate) fn new(op: &Spectrogram) -> Self {
        let bands = op.mel.as_ref().map(|mel| mel_bands(mel, op.sample_rate, op.n_fft));
        let cosines = op.mfcc.zip(op.mel.as_ref()).map_or_else(Vec::new, |(n, mel)| cosines(n, mel.bands));
        Self {
            window: window(op.window, op.win_length),
            fourier: Fourier::new(op.n_fft),
            bands,
            cosines,
            op: op.clone(),
        }
    }

    /// Returns the frames and bins of a sound, and their numbers.
    ///
    /// # Errors
    /// Data when the sound is shorter than a frame.
    pub(crate) fn run(&self, sound: &[f32]) -> Result<([usize; 2], Vec<f32>)> {
        let op = &self.op;
        let frames = op.frames(sound.len());
        if frames == 0 {
            let message = format!("the sound has {} samples, and a frame has {}", sound.len(), op.win_length);
            return Err(Error::data(message)
                .hint("leave short sounds out with filter, or append zeros with crop_audio(pad=True)"));
        }
        let bins = op.mel.as_ref().map_or(op.n_fft / 2 + 1, |mel| mel.bands);
        let mut values = vec![0.0; frames * bins];
        self.spectra(sound, bins, &mut values);
        if let Some(log) = op.log {
            logarithms(log, &mut values);
        }
        let (bins, mut values) = if op.mfcc.is_some() { self.cepstra(bins, &values) } else { (bins, values) };
        if op.time_first {
            return Ok(([frames, bins], values));
        }
        let mut turned = vec![0.0; values.len()];
        for (frame, values) in values.chunks_exact(bins).enumerate() {
            values.iter().enumerate().for_each(|(bin, &value)| turned[bin * frames + frame] = value);
        }
        std::mem::swap(&mut values, &mut turned);
        Ok(([bins, frames], values))
    }

    /// Writes the powers of each frame.
    fn spectra(&self, sound: &[f32], bins: usize, values: &mut [f32]) {
        let op = &self.op;
        let mut work = Work::default();
        let mut frames: Vec<Lane> = vec![[0.0; LANES]; op.n_fft];
        let mut power: Vec<Lane> = vec![[0.0; LANES]; op.n_fft / 2 + 1];
        let mut frame = vec![0.0; op.win_length];
        for (group, values) in values.chunks_mut(bins * LANES).enumerate() {
            let count = values.len() / bins;
            for lane in 0..count {
                self.frame(sound, group * LANES + lane, &mut frame);
                for ((to, &sample), &weight) in frames.iter_mut().zip(&frame).zip(&self.window) {
                    to[lane] = sample * weight;
                }
            }
            self.fourier.power(&frames, &mut work, &mut power);
            if op.power == 1 {
                power.iter_mut().flatten().for_each(|value| *value = value.sqrt());
            }
            let mut write = |bin: usize, sums: &Lane| {
                (0..count).for_each(|lane| values[lane * bins + bin] = sums[lane]);
            };
            match &self.bands {
                None => power.iter().enumerate().for_each(|(bin, power)| write(bin, power)),
                Some(bands) => {
                    for (bin, band) in bands.iter().enumerate() {
                        write(bin, &sum(band, &power));
                    }
                }
            }
        }
    }

    /// Copies the samples of a frame, without its window.
    fn frame(&self, sound: &[f32], at: usize, frame: &mut [f32]) {
        let op = &self.op;
        let middle = (op.n_fft / 2 - (op.n_fft - op.win_length) / 2) as isize;
        let start = (at * op.hop) as isize - if op.edge.is_some() { middle } else { 0 };
        match usize::try_from(start).ok().and_then(|start| sound.get(start..start + frame.len())) {
            Some(samples) => frame.copy_from_slice(samples),
            None => {
                for (i, to) in frame.iter_mut().enumerate() {
                    *to = beyond(sound, start + i as isize, op.edge);
                }
            }
        }
        if op.remove_mean {
            let mean = frame.iter().map(|&sample| f64::from(sample)).sum::<f64>() / frame.len() as f64;
            frame.iter_mut().for_each(|sample| *sample -= mean as f32);
        }
        if op.preemphasis > 0.0 {
            let share = op.preemphasis as f32;
            for i in (1..frame.len()).rev() {
                frame[i] -= share * frame[i - 1];
            }
            frame[0] -= share * frame[0];
        }
    }

    /// Returns the cepstral coefficients of each frame.
    fn cepstra(&self, bands: usize, values: &[f32]) -> (usize, Vec<f32>) {
        let product = |row: &Vec<f32>, frame: &[f32]| {
            row.iter().zip(frame).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>() as f32
        };
        let frames = values.chunks_exact(bands);
        let made = frames.flat_map(|frame| self.cosines.iter().map(move |row| product(row, frame))).collect();
        (self.cosines.len(), made)
    }
}

/// Returns the sample at a place that may lie beyond the ends.
fn beyond(sound: &[f32], at: isize, edge: Option<Edge>) -> f32 {
    let last = sound.len() as isize - 1;
    match (edge, usize::try_from(at).ok().and_then(|at| sound.get(at))) {
        (_, Some(&sample)) => sample,
        (Some(Edge::Reflect), None) if last > 0 => {
            let at = at.rem_euclid(2 * last);
            sound[if at > last { 2 * last - at } else { at } as usize]
        }
        (Some(Edge::Reflect), None) => sound[0],
        _ => 0.0,
    }
}

/// Returns the weighted sum of a band for each frame.
fn sum(band: &Band, power: &[Lane]) -> Lane {
    let mut sums = [0.0; LANES];
    for (&weight, power) in band.weights.iter().zip(&power[band.first..]) {
        for lane in 0..LANES {
            sums[lane] += weight * power[lane];
        }
    }
    sums
}

fn logarithms(log: Logarithm, values: &mut [f32]) {
    let greatest = |values: &[f32]| values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    // `max` would hide a number that is not one.
    let floored = |value: f32, floor: f64| if value < floor as f32 { floor as f32 } else { value };
    match log {
        Logarithm::Natural { floor } => values.iter_mut().for_each(|value| *value = libm::logf(floored(*value, floor))),
        Logarithm::Ten { floor } => values.iter_mut().for_each(|value| *value = libm::log10f(floored(*value, floor))),
        Logarithm::Decibels { floor, top_db } => {
            values.iter_mut().for_each(|value| *value = 10.0 * libm::log10f(floored(*value, floor)));
            if let Some(top_db) = top_db {
                let least = greatest(values) - top_db as f32;
                values.iter_mut().filter(|value| **value < least).for_each(|value| *value = least);
            }
        }
        Logarithm::Whisper {} => {
            values.iter_mut().for_each(|value| *value = libm::log10f(floored(*value, 1e-10)));
            let least = greatest(values) - 8.0;
            values.iter_mut().for_each(|value| *value = (if *value < least { least } else { *value } + 4.0) / 4.0);
        }
    }
}
