//! Ops on a column of sound: decode, resample, crop, change; spectra of it, and masks of spectra.

mod checks;
mod crop_audio;
mod decode_audio;
mod loudness;
mod random_noise;
mod random_reverb;
mod resample_audio;
mod spec_augment;
mod spectrogram;

pub use crop_audio::{CropAudio, RandomOffset};
pub use decode_audio::DecodeAudio;
pub use loudness::{Loudness, NormalizeAudio, RandomGain};
pub use random_noise::RandomNoise;
pub use random_reverb::{RandomReverb, SoundLevel};
pub use resample_audio::ResampleAudio;
pub use spec_augment::SpecAugment;
pub use spectrogram::{Edge, Logarithm, Mel, MelNorm, MelScale, Spectrogram, Window};
