//! Encoded bytes to float32 samples.
//!
//! WAV, AIFF and FLAC have the same bits everywhere. MP3, Vorbis and AAC are decoded in float32 with tables that come
//! from the C library's sine, cosine and power functions: a C library that rounds one of these otherwise gives a last
//! bit otherwise. The crate's code for particular processors is left out of the build.
//!
//! A damaged file is an error, never a shorter sound. Bounds: [`Bounds::max_seconds`], [`SAMPLES_MAX`] samples, and as
//! many packets as the file has bytes.

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};

use forebay_core::{Error, ErrorKind, Result};
use symphonia::core::codecs::CodecParameters;
use symphonia::core::codecs::audio::{AudioDecoder, AudioDecoderOptions};
use symphonia::core::errors::Error as Fault;
use symphonia::core::formats::probe::Hint;
use symphonia::core::formats::{FormatOptions, FormatReader, TrackType};
use symphonia::core::io::{MediaSourceStream, MediaSourceStreamOptions};
use symphonia::core::meta::MetadataOptions;

use super::container::Container;

/// The most samples of one sound, over all channels: 1 GiB of float32.
pub(crate) const SAMPLES_MAX: u64 = 1 << 28;
/// The samples by which an encoder's own count in an MP3 file may be too great: a frame.
const TAG_SLACK: u64 = 1152;
/// The most channels of a sound.
const CHANNELS_MAX: usize = 32;

/// A decoded sound.
#[derive(Debug, Clone, PartialEq)]
pub struct Sound {
    /// Samples of a second.
    pub rate: u32,
    /// The number of channels.
    pub channels: usize,
    /// The samples, from -1 to 1, those of one moment together.
    pub samples: Vec<f32>,
}

/// The bounds of a decoded sound.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// The longest sound, in seconds.
    pub max_seconds: f64,
}

/// Decodes a file.
///
/// # Errors
/// Data when the bytes are no sound, are damaged or cut off; Exhausted when the sound is longer than the bounds allow.
pub fn decode(bytes: &[u8], bounds: Bounds) -> Result<Sound> {
    let container = Container::of(bytes)?;
    // The crate promises no panics for hostile bytes, and is young: a panic is an error of this sample.
    catch_unwind(AssertUnwindSafe(|| decoded(bytes, container, bounds))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Err(damaged(text.unwrap_or("the decoder panicked")))
    })
}

fn decoded(bytes: &[u8], container: Container, bounds: Bounds) -> Result<Sound> {
    let (mut reader, mut decoder, track) = open(bytes)?;
    let expected = track.frames.filter(|_| (container.counts_exactly() || track.is_tagged) && !track.is_endless);
    let mut bound = Bound { bounds, track: &track, container };
    bound.check_header()?;
    let mut sound = Sound { rate: 0, channels: 0, samples: Vec::new() };
    let mut block: Vec<f32> = Vec::new();
    let mut packets = 0;
    while let Some(packet) = next(&mut *reader, &track)? {
        if packets > bytes.len() {
            return Err(damaged("it has more packets than bytes"));
        }
        packets += 1;
        if packet.track_id != track.id {
            continue;
        }
        let heard = decoder.decode(&packet).map_err(|e| fault(&e))?;
        if heard.frames() == 0 {
            continue;
        }
        let (rate, channels) = (heard.spec().rate(), heard.spec().channels().count());
        if sound.samples.is_empty() {
            (sound.rate, sound.channels) = (rate, channels);
            bound.check_spec(rate, channels)?;
        } else if (rate, channels) != (sound.rate, sound.channels) {
            return Err(damaged("its sampling rate or its number of channels changes"));
        }
        bound.check(rate, channels, sound.samples.len() as u64 + heard.samples_interleaved() as u64)?;
        heard.copy_to_vec_interleaved(&mut block);
        sound.samples.extend_from_slice(&block);
    }
    if sound.channels == 0 {
        return empty(&track);
    }
    let frames = (sound.samples.len() / sound.channels) as u64;
    match expected {
        Some(expected) if frames + if track.is_tagged { TAG_SLACK } else { 0 } < expected => {
            Err(damaged(&format!("it is cut off after {frames} of {expected} samples")))
        }
        _ => Ok(sound),
    }
}

/// The parts of a track's header that matter here.
struct TrackFacts {
    id: u32,
    rate: Option<u32>,
    channels: Option<usize>,
    /// The number of samples of a channel, where the header states it.
    frames: Option<u64>,
    /// Whether the encoder of an MP3 file counted its samples.
    is_tagged: bool,
    /// Whether a program that could not know the length wrote the header.
    is_endless: bool,
}

type Opened<'a> = (Box<dyn FormatReader + 'a>, Box<dyn AudioDecoder>, TrackFacts);

fn open(bytes: &[u8]) -> Result<Opened<'_>> {
    let stream = MediaSourceStream::new(Box::new(Cursor::new(bytes)), MediaSourceStreamOptions::default());
    let probe = symphonia::default::get_probe();
    let reader = probe.probe(&Hint::new(), stream, FormatOptions::default(), MetadataOptions::default());
    let reader = reader.map_err(|e| fault(&e))?;
    let track = reader.default_track(TrackType::Audio).ok_or_else(|| damaged("it has no track of sound"))?;
    let Some(CodecParameters::Audio(parameters)) = &track.codec_params else {
        return Err(damaged("its track says nothing of its codec"));
    };
    let facts = TrackFacts {
        id: track.id,
        rate: parameters.sample_rate,
        channels: parameters.channels.as_ref().map(|channels| channels.count()),
        frames: track.num_frames,
        is_tagged: track.delay.is_some_and(|delay| delay > 0) && Container::of(bytes)? == Container::Frames,
        is_endless: bytes.starts_with(b"RIFF") && bytes.get(4..8) == Some(&[0xff; 4]),
    };
    let decoder = symphonia::default::get_codecs().make_audio_decoder(parameters, &AudioDecoderOptions::default());
    let decoder = decoder.map_err(|e| fault(&e))?;
    Ok((reader, decoder, facts))
}

/// Reads the next packet; `None` at the end. A file of unknown length ends where its bytes end.
fn next(reader: &mut dyn FormatReader, track: &TrackFacts) -> Result<Option<symphonia::core::packet::Packet>> {
    match reader.next_packet() {
        Ok(packet) => Ok(packet),
        Err(Fault::IoError(e)) if e.kind() == std::io::ErrorKind::UnexpectedEof && track.is_endless => Ok(None),
        Err(e) => Err(fault(&e)),
    }
}

/// Returns the sound of no samples that a file with a good header holds.
fn empty(track: &TrackFacts) -> Result<Sound> {
    match (track.rate, track.channels) {
        (Some(rate), Some(channels)) if track.frames.unwrap_or(0) == 0 && channels > 0 => {
            Ok(Sound { rate, channels, samples: Vec::new() })
        }
        _ => Err(damaged("it has no sample")),
    }
}

/// The check of a sound's length, before memory is taken for it.
struct Bound<'a> {
    bounds: Bounds,
    track: &'a TrackFacts,
    container: Container,
}

impl Bound<'_> {
    /// Checks the length that the header states.
    fn check_header(&mut self) -> Result<()> {
        let TrackFacts { rate: Some(rate), channels: Some(channels), frames: Some(frames), .. } = *self.track else {
            return Ok(());
        };
        self.check_spec(rate, channels)?;
        if self.track.is_endless || self.container == Container::Frames {
            return Ok(());
        }
        self.check(rate, channels, frames.saturating_mul(channels as u64))
    }

    fn check_spec(&self, rate: u32, channels: usize) -> Result<()> {
        if channels == 0 || channels > CHANNELS_MAX {
            return Err(Error::data(format!("the sound has {channels} channels; 1 to {CHANNELS_MAX} are decoded")));
        }
        if !(100..=768_000).contains(&rate) {
            return Err(Error::data(format!("the sound has {rate} samples a second; 100 to 768000 are decoded")));
        }
        Ok(())
    }

    fn check(&self, rate: u32, channels: usize, samples: u64) -> Result<()> {
        let seconds = samples as f64 / f64::from(rate) / channels as f64;
        let most = self.bounds.max_seconds;
        if seconds <= most && samples <= SAMPLES_MAX {
            return Ok(());
        }
        let bound =
            if seconds > most { format!("max_seconds={most}") } else { format!("{SAMPLES_MAX} samples in one row") };
        let message = format!(
            "the sound has {seconds:.1} s or more, of {channels} channels at {rate} Hz: {} MB decoded",
            samples.saturating_mul(4) / 1_000_000
        );
        Err(Error::new(ErrorKind::Exhausted, message).with("fault", "sample").with("bound", bound).hint(
            "max_seconds= of decode_audio is the bound: raise it, cut the files, or leave long ones out with on_error",
        ))
    }
}

fn fault(error: &Fault) -> Error {
    match error {
        Fault::IoError(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => damaged("it is cut off"),
        Fault::Unsupported(what) => Error::data(format!("the sound cannot be decoded: {what}"))
            .hint("convert it, or decode it by map with a library of yours"),
        other => damaged(&other.to_string()),
    }
}

fn damaged(why: &str) -> Error {
    Error::data(format!("the sound is damaged: {why}"))
        .hint("replace the file, or leave such samples out with on_error")
}
