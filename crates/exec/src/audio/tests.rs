//! Tests of the sound kernels: bits that hold on every machine, and damage.

use forebay_core::SampleId;
use forebay_core::rng::SampleRng;

use super::resample::Resampler;
use super::reverb::convolved;
use super::{Bounds, Sound, decode};

const BOUNDS: Bounds = Bounds { max_seconds: 60.0 };

fn golden() -> Vec<(String, Vec<u8>)> {
    let folder = format!("{}/tests/golden/audio", env!("CARGO_MANIFEST_DIR"));
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let sounds = entries.filter(|path| path.extension().is_some_and(|e| e != "py" && e != "txt"));
    let mut files: Vec<_> = sounds
        .map(|path| (path.file_name().expect("a name").display().to_string(), std::fs::read(&path).expect("a file")))
        .collect();
    files.sort();
    files
}

/// Returns a number that changes with any bit of any sample.
fn digest(samples: &[f32]) -> u64 {
    samples
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, sample| (hash ^ u64::from(sample.to_bits())).wrapping_mul(0x0100_0000_01b3))
}

/// Also for the formats whose decoders use the C library's sines and powers: a machine on which these round otherwise
/// fails here.
#[test]
fn sounds_have_the_bits_that_they_had() {
    let line = |(name, bytes): &(String, Vec<u8>)| {
        let Sound { rate, channels, samples } = decode(bytes, BOUNDS).expect(name);
        let resampled = Resampler::of(rate, 12_345).expect("near rates").run(&samples);
        let (len, room) = (samples.len(), &samples[..samples.len().min(900)]);
        let digests =
            [&samples, &resampled, &convolved(&samples, room, 7)].map(|each| format!(" {:016x}", digest(each)));
        format!("{name} {rate} {channels} {len}{}\n", digests.concat())
    };
    let lines: String = golden().iter().map(line).collect();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/audio/expected.txt");
    assert_eq!(lines, std::fs::read_to_string(path).unwrap_or_default(), "{path} is to be:\n{lines}");
}

#[test]
fn a_sound_cut_anywhere_is_an_error_or_ends_at_a_frame() {
    for (name, bytes) in golden() {
        let whole = decode(&bytes, BOUNDS).expect(&name);
        for len in (0..bytes.len()).step_by(61) {
            // Vorbis, MP3 and ADTS are streams: a part of one is a shorter sound. The others state their lengths.
            match decode(&bytes[..len], BOUNDS) {
                Ok(sound) => {
                    let is_stream = ["ogg", "mp3", "aac"].iter().any(|end| name.ends_with(end));
                    assert!(is_stream && sound.samples.len() <= whole.samples.len(), "{name} cut at {len}");
                }
                Err(e) => assert!(!e.message().is_empty()),
            }
        }
    }
}

#[test]
fn damaged_sounds_never_panic_and_never_hang() {
    let mut rng = SampleRng::new(7, SampleId(1));
    for (_, bytes) in golden() {
        for _ in 0..60 {
            let mut bytes = bytes.clone();
            for _ in 0..=rng.up_to(20) {
                let most = if rng.up_to(1) == 0 { 120.min(bytes.len()) } else { bytes.len() };
                let at = rng.up_to(most as u32 - 1) as usize;
                bytes[at] = rng.next_u32() as u8;
            }
            if let Err(e) = decode(&bytes, BOUNDS) {
                assert!(!e.message().contains("panicked"), "{e}");
            }
        }
    }
}

#[test]
fn rates_that_are_too_far_apart_are_refused() {
    assert!(Resampler::of(768_000, 100).is_err());
    assert_eq!(Resampler::of(48_000, 16_000).expect("near").run(&[0.0; 9]), [0.0; 3]);
}
