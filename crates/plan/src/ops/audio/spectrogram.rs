//! The spectrum of a sound over time: `spectrogram`, `mel`, `log_mel` and `mfcc`, by the parts that are there.

use forebay_core::{Error, Result};
use forebay_data::{DType, Field, Kind, Schema};
use serde::{Deserialize, Serialize};

use super::checks::{rate, sound};
use crate::ops::access::Access;
use crate::ops::checks::{count, range};
use crate::ops::spec::{About, Class, OpSpec};

/// Nanoseconds for a byte of sound.
const BYTE_NS: f64 = 10.0;
/// The most samples of a frame.
const FRAME_MAX: usize = 1 << 15;
/// The greatest prime factor of a Fourier transform's length: one of p costs p² / 2 for p numbers.
const PRIME_MAX: usize = 127;
/// The most mel bands.
const MELS_MAX: usize = 1_024;

/// The window of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Window {
    /// Periodic Hann: `torch.hann_window`.
    Hann,
    /// Periodic Hamming: `torch.hamming_window`.
    Hamming,
    /// Symmetric Hann to the power of 0.85: Kaldi's.
    Povey,
    /// All ones.
    Ones,
}

/// The samples beyond the ends of a sound in frames that are centred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Edge {
    /// The sound mirrored at its end.
    Reflect,
    /// Zeros.
    Zeros,
}

/// The scale on which mel bands are equally wide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MelScale {
    /// Slaney's Auditory Toolbox: linear to 1 kHz, then logarithmic. librosa's default, and Whisper's.
    Slaney,
    /// HTK's formula; bands are triangles in Hz. torchaudio's default.
    Htk,
    /// HTK's formula; bands are triangles in mel.
    Kaldi,
}

/// The measure that is the same for all mel bands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MelNorm {
    /// Their height.
    Height,
    /// Their area.
    Slaney,
}

/// The mel bands of a spectrum.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mel {
    /// Their number.
    pub bands: usize,
    /// The lower edge of the first, in Hz.
    pub fmin: f64,
    /// The upper edge of the last, in Hz.
    pub fmax: f64,
    /// Their scale.
    pub scale: MelScale,
    /// What is the same for all of them.
    pub norm: MelNorm,
}

/// The logarithm of a power.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Logarithm {
    /// The natural one, of at least this power.
    Natural {
        /// The least power.
        floor: f64,
    },
    /// To the base of 10, of at least this power.
    Ten {
        /// The least power.
        floor: f64,
    },
    /// Decibels.
    Decibels {
        /// The least power.
        floor: f64,
        /// The least value below the greatest of the sound.
        top_db: Option<f64>,
    },
    /// Whisper's: to the base of 10, at most 8 below the greatest of the sound, `(x + 4) / 4`.
    Whisper {},
}

impl Logarithm {
    fn floor(self) -> f64 {
        match self {
            Logarithm::Natural { floor } | Logarithm::Ten { floor } | Logarithm::Decibels { floor, .. } => floor,
            Logarithm::Whisper {} => 1e-10,
        }
    }
}

/// The spectrum of a sound over time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spectrogram {
    /// The column of sound, of one channel.
    pub column: String,
    /// The column of spectra.
    pub output: String,
    /// The sampling rate of the sound, in Hz.
    pub sample_rate: u32,
    /// The length of the Fourier transform, in samples.
    pub n_fft: usize,
    /// The length of a frame, at most `n_fft`.
    pub win_length: usize,
    /// The step from frame to frame, in samples.
    pub hop: usize,
    /// The window.
    pub window: Window,
    /// The samples beyond the ends; frame `t` is centred at sample `t * hop`. `None`: frame `t` begins there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edge: Option<Edge>,
    /// Whether the last frame is left out, as Whisper does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub drop_last: bool,
    /// Whether the mean of each frame is subtracted, as Kaldi does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub remove_mean: bool,
    /// The share of the sample before that is subtracted from each sample of a frame. Default: 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub preemphasis: f64,
    /// The power of the absolute values: 1 or 2.
    pub power: u32,
    /// The mel bands, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mel: Option<Mel>,
    /// The logarithm, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<Logarithm>,
    /// The number of cepstral coefficients, if they are computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mfcc: Option<usize>,
    /// Whether the result is frames of bins, and not bins of frames.
    pub time_first: bool,
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

impl Spectrogram {
    /// Returns the numbers of a frame.
    pub fn bins(&self) -> usize {
        let bands = self.mel.as_ref().map_or(self.n_fft / 2 + 1, |mel| mel.bands);
        self.mfcc.unwrap_or(bands)
    }

    /// Returns the number of frames of so many samples.
    pub fn frames(&self, samples: usize) -> usize {
        let all = match self.edge {
            // An odd length has one sample less beyond the ends.
            Some(_) if samples > 0 => (samples - self.n_fft % 2) / self.hop + 1,
            None if samples >= self.win_length => (samples - self.win_length) / self.hop + 1,
            _ => 0,
        };
        all.saturating_sub(usize::from(self.drop_last))
    }

    /// Returns the name of its method.
    fn name(&self) -> &'static str {
        match (self.mfcc, &self.mel, self.log) {
            (Some(_), ..) => "mfcc",
            (None, Some(_), Some(_)) => "log_mel",
            (None, Some(_), None) => "mel",
            (None, None, _) => "spectrogram",
        }
    }

    fn check(&self) -> Result<()> {
        let op = self.name();
        rate(op, "sample_rate", self.sample_rate)?;
        count(op, "n_fft", self.n_fft, FRAME_MAX)?;
        let prime = greatest_prime(self.n_fft);
        if prime > PRIME_MAX {
            return Err(Error::invalid(format!("{op}: n_fft={} has the prime factor {prime}", self.n_fft))
                .hint(format!("use a length with prime factors up to {PRIME_MAX}, such as 400 or 512")));
        }
        count(op, "win_length", self.win_length, self.n_fft)?;
        count(op, "hop", self.hop, FRAME_MAX)?;
        if !matches!(self.power, 1 | 2) {
            return Err(range(op, "power", self.power, "1 or 2"));
        }
        if !(0.0..1.0).contains(&self.preemphasis) {
            return Err(range(op, "preemphasis", self.preemphasis, "0 <= preemphasis < 1"));
        }
        if let Some(mel) = &self.mel {
            count(op, "n_mels", mel.bands, MELS_MAX)?;
            let most = f64::from(self.sample_rate) / 2.0;
            if !(0.0 <= mel.fmin && mel.fmin < mel.fmax && mel.fmax <= most) {
                let given = format!("({}, {})", mel.fmin, mel.fmax);
                return Err(range(op, "(fmin, fmax)", given, &format!("0 <= fmin < fmax <= {most}")));
            }
        }
        if let Some(log) = self.log
            && !(log.floor() as f32 > 0.0 && log.floor().is_finite())
        {
            return Err(range(op, "floor", log.floor(), "a positive number that float32 holds"));
        }
        if let Some(Logarithm::Decibels { top_db: Some(top_db), .. }) = self.log
            && !(top_db > 0.0 && top_db.is_finite())
        {
            return Err(range(op, "top_db", top_db, "a positive number, or None"));
        }
        if let Some(coefficients) = self.mfcc {
            let (Some(mel), Some(_)) = (&self.mel, self.log) else {
                return Err(Error::invalid("mfcc: there are no mel bands").hint("give n_mels="));
            };
            count(op, "n_mfcc", coefficients, mel.bands)?;
        }
        Ok(())
    }
}

/// Returns the greatest prime factor of a number, which is at least 1.
fn greatest_prime(mut number: usize) -> usize {
    let mut factor = 2;
    while factor * factor <= number {
        if number.is_multiple_of(factor) { number /= factor } else { factor += 1 }
    }
    number
}

impl OpSpec for Spectrogram {
    fn about(&self) -> About {
        About { name: self.name(), class: Class::RowWise, is_random: false }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        let op = self.name();
        let field = input.field(&self.column)?;
        let shape = sound(op, field)?;
        if shape.len() != 1 {
            return Err(Error::invalid(format!(
                "{op}: column {:?} is {}, of several channels",
                field.name, field.kind
            ))
            .hint("decode it with mono=True"));
        }
        self.check()?;
        let frames = shape[0].map(|samples| self.frames(samples));
        let bins = Some(self.bins());
        let shape = if self.time_first { vec![frames, bins] } else { vec![bins, frames] };
        Ok(input.with(Field::new(&self.output, Kind::Tensor { dtype: DType::Float32, shape })))
    }

    fn is_audio(&self) -> bool {
        true
    }

    fn arguments(&self) -> String {
        let Self { column, sample_rate, n_fft, win_length, hop, .. } = self;
        let output = if self.output == self.column { String::new() } else { format!(", out={}", self.output) };
        let window = if win_length == n_fft { String::new() } else { format!(", win_length={win_length}") };
        let bands = self.mel.as_ref().map_or(String::new(), |mel| format!(", n_mels={}", mel.bands));
        let coefficients = self.mfcc.map_or(String::new(), |mfcc| format!(", n_mfcc={mfcc}"));
        let order = if self.time_first { "" } else { ", time_first=False" };
        format!(
            "{column}{output}, sample_rate={sample_rate}, n_fft={n_fft}{window}, hop={hop}{bands}{coefficients}{order}"
        )
    }

    fn access(&self, _input: &Schema) -> Option<Access> {
        let (reads, writes) = (vec![self.column.clone()], vec![self.output.clone()]);
        Some(Access { reads, writes, may_fail: true, ..Access::default() })
    }

    fn ns(&self, read: f64, _made: f64) -> f64 {
        read * BYTE_NS
    }
}
