//! The constants of a spectrum: windows, mel bands, and the cosines of cepstra. Computed in f64, kept as f32.

use std::f64::consts::{PI, TAU};

use forebay_plan::{Mel, MelNorm, MelScale, Window};

/// Returns a window of `length` samples.
pub(super) fn window(kind: Window, length: usize) -> Vec<f32> {
    let periodic = |i: usize| libm::cos(TAU * i as f64 / length as f64);
    let value = |i: usize| match kind {
        Window::Hann => 0.5 - 0.5 * periodic(i),
        Window::Hamming => 0.54 - 0.46 * periodic(i),
        Window::Povey if length == 1 => 1.0,
        Window::Povey => libm::pow(0.5 - 0.5 * libm::cos(TAU * i as f64 / (length - 1) as f64), 0.85),
        Window::Ones => 1.0,
    };
    (0..length).map(|i| value(i) as f32).collect()
}

/// A mel band: its first frequency and the weights from there on.
pub(super) struct Band {
    pub(super) first: usize,
    pub(super) weights: Vec<f32>,
}

/// Returns the bands over the frequencies of a transform of `n_fft` samples.
pub(super) fn mel_bands(mel: &Mel, sample_rate: u32, n_fft: usize) -> Vec<Band> {
    let (low, high) = (to_mel(mel.scale, mel.fmin), to_mel(mel.scale, mel.fmax));
    let edge = |i: usize| low + (high - low) * i as f64 / (mel.bands + 1) as f64;
    let hz = |i: usize| from_mel(mel.scale, edge(i));
    let frequency = |bin: usize| bin as f64 * f64::from(sample_rate) / n_fft as f64;
    // Triangles are straight in Hz, or in mel.
    let (place, corner): (&dyn Fn(usize) -> f64, &dyn Fn(usize) -> f64) = match mel.scale {
        MelScale::Kaldi => (&|bin| to_mel(mel.scale, frequency(bin)), &edge),
        MelScale::Slaney | MelScale::Htk => (&frequency, &hz),
    };
    let band = |m: usize| {
        let (left, middle, right) = (corner(m), corner(m + 1), corner(m + 2));
        let height = match mel.norm {
            MelNorm::Slaney => 2.0 / (hz(m + 2) - hz(m)),
            MelNorm::Height => 1.0,
        };
        let weight = |bin: usize| {
            let x = place(bin);
            height * ((x - left) / (middle - left)).min((right - x) / (right - middle)).max(0.0)
        };
        let first = (0..=n_fft / 2).find(|&bin| weight(bin) > 0.0).unwrap_or(0);
        let weights = (first..=n_fft / 2).map(weight).take_while(|&weight| weight > 0.0);
        Band { first, weights: weights.map(|weight| weight as f32).collect() }
    };
    (0..mel.bands).map(band).collect()
}

/// Slaney's scale is linear below this frequency, 200 / 3 Hz for a mel, and grows by 6.4 in 27 mel above.
const SLANEY_HZ: f64 = 1000.0;

fn to_mel(scale: MelScale, hz: f64) -> f64 {
    match scale {
        MelScale::Slaney if hz < SLANEY_HZ => hz * 3.0 / 200.0,
        MelScale::Slaney => 15.0 + libm::log(hz / SLANEY_HZ) * 27.0 / libm::log(6.4),
        MelScale::Htk => 2595.0 * libm::log10(1.0 + hz / 700.0),
        MelScale::Kaldi => 1127.0 * libm::log(1.0 + hz / 700.0),
    }
}

fn from_mel(scale: MelScale, mel: f64) -> f64 {
    match scale {
        MelScale::Slaney if mel < 15.0 => mel * 200.0 / 3.0,
        MelScale::Slaney => SLANEY_HZ * libm::exp((mel - 15.0) * libm::log(6.4) / 27.0),
        MelScale::Htk => 700.0 * (libm::pow(10.0, mel / 2595.0) - 1.0),
        MelScale::Kaldi => 700.0 * (libm::exp(mel / 1127.0) - 1.0),
    }
}

/// Returns the rows of the orthonormal cosine transform (DCT-II) from `bands` numbers to `coefficients`.
pub(super) fn cosines(coefficients: usize, bands: usize) -> Vec<Vec<f32>> {
    let scale = |k: usize| (if k == 0 { 1.0 } else { 2.0 } / bands as f64).sqrt();
    let row = |k: usize| {
        let value = |band: usize| scale(k) * libm::cos(PI * k as f64 * (2 * band + 1) as f64 / (2 * bands) as f64);
        (0..bands).map(|band| value(band) as f32).collect()
    };
    (0..coefficients).map(row).collect()
}
