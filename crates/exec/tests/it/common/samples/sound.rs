//! Samples of ops on sound and spectra.

use super::*;

/// A column of sound, one of noise, one of encoded sound, and one of spectra.
pub(super) fn sounds() -> Vec<Op> {
    let function = Function {
        blob: BlobId(name("f")),
        code: String::new(),
        name: name("f"),
        batched: false,
        with_rng: false,
        reads: Some(vec![name("a")]),
        timeout_s: 1.0,
        is_op: false,
    };
    let output = vec![
        Field::new("sound", Kind::fixed(DType::Float32, &[300])),
        Field::new("stereo", Kind::fixed(DType::Float32, &[90, 2])),
        Field::new("noise", Kind::fixed(DType::Float32, &[70])),
        Field::new("spectrum", Kind::fixed(DType::Float32, &[20, 12])),
        Field::new("wav", Kind::Bytes),
    ];
    vec![Op::Map(ops::Map { function, output, keep_others: true })]
}

pub(super) fn audio() -> Vec<Sample> {
    let decode = |column, sample_rate, max_seconds| {
        let (column, output, rate) = (name(column), name("decoded"), Some(name("rate")));
        let (mono, channels) = (true, None);
        Op::DecodeAudio(ops::DecodeAudio { column, output, sample_rate, mono, channels, max_seconds, rate })
    };
    let channels = |channels, mono| {
        let (column, output, channels) = (name("wav"), name("wav"), Some(channels));
        let (sample_rate, max_seconds, rate) = (None, 1.0, None);
        Op::DecodeAudio(ops::DecodeAudio { column, output, sample_rate, mono, channels, max_seconds, rate })
    };
    let resample = |column, sample_rate| {
        Op::ResampleAudio(ops::ResampleAudio { column: name(column), from_rate: 8000, sample_rate })
    };
    let crop = |column, length| Op::CropAudio(ops::CropAudio { column: name(column), start: 40, length, pad: true });
    let offset = |column, length| Op::RandomOffset(ops::RandomOffset { column: name(column), length, pad: false });
    let normalize = |column, to, db| Op::NormalizeAudio(ops::NormalizeAudio { column: name(column), to, db });
    let gain = |column, db, probability| Op::RandomGain(ops::RandomGain { column: name(column), db, probability });
    let noise = |column, noise: Option<&str>, snr_db| {
        let (column, noise, probability) = (name(column), noise.map(name), 0.8);
        Op::RandomNoise(ops::RandomNoise { column, noise, snr_db, probability })
    };
    let reverb = |column, response, probability| {
        let (column, impulse_response, keep_level) = (name(column), name(response), Some(SoundLevel::Rms));
        Op::RandomReverb(ops::RandomReverb { column, impulse_response, shift: true, keep_level, probability })
    };
    let mask = |column, time_ratio| {
        let (freq_masks, freq_width, time_masks, time_width, value) = (2, 5, 1, 9, -1.0);
        let (column, time_first) = (name(column), true);
        Op::SpecAugment(ops::SpecAugment {
            column,
            time_first,
            freq_masks,
            freq_width,
            time_masks,
            time_width,
            time_ratio,
            value,
        })
    };
    let standard = Loudness::Standard;
    let mut all = vec![
        sample(decode("wav", Some(16_000), 1.0), sounds(), vec![decode("a", None, 1.0), decode("wav", Some(9), 1.0)]),
        sample(channels(2, false), sounds(), vec![channels(2, true), channels(0, false), decode("wav", None, 0.0)]),
        sample(resample("sound", 11_025), sounds(), vec![resample("sound", 1), resample("wav", 16_000)]),
        sample(resample("stereo", 4000), sounds(), vec![resample("sized", 16_000)]),
        sample(crop("sound", 280), sounds(), vec![crop("sound", 0), crop("a", 280), crop("sound", 1 << 29)]),
        sample(offset("stereo", 33), sounds(), vec![offset("stereo", 0), offset("wav", 33)]),
        sample(normalize("sound", standard, 0.0), sounds(), vec![normalize("sound", standard, f64::NAN)]),
        sample(normalize("stereo", Loudness::Rms, -9.0), sounds(), vec![normalize("wav", Loudness::Peak, 0.0)]),
        sample(
            gain("sound", (-6.0, 6.0), 0.9),
            sounds(),
            vec![gain("sound", (6.0, -6.0), 0.9), gain("a", (0.0, 1.0), 1.0)],
        ),
        sample(noise("sound", Some("noise"), (0.0, 9.0)), sounds(), vec![noise("sound", Some("stereo"), (0.0, 9.0))]),
        sample(noise("stereo", None, (0.0, 9.0)), sounds(), vec![noise("stereo", None, (9.0, 0.0))]),
        sample(
            reverb("stereo", "noise", 0.8),
            sounds(),
            vec![reverb("sound", "stereo", 0.8), reverb("sound", "wav", 0.8), reverb("sound", "noise", 2.0)],
        ),
        sample(mask("spectrum", 0.3), sounds(), vec![mask("spectrum", 1.5), mask("sound", 0.3)]),
    ];
    all.extend(spectra());
    all
}

pub(super) fn spectra() -> Vec<Sample> {
    let mel = |bands, fmax, scale| Some(Mel { bands, fmin: 20.0, fmax, scale, norm: MelNorm::Slaney });
    let spectrogram = |column, mel, log, mfcc| {
        Op::Spectrogram(ops::Spectrogram {
            column: name(column),
            output: name("spectra"),
            sample_rate: 16_000,
            n_fft: 64,
            win_length: 60,
            hop: 16,
            window: Window::Hann,
            edge: Some(Edge::Reflect),
            drop_last: true,
            remove_mean: false,
            preemphasis: 0.0,
            power: 2,
            mel,
            log,
            mfcc,
            time_first: false,
        })
    };
    let plain = |n_fft, hop| {
        Op::Spectrogram(ops::Spectrogram {
            column: name("sound"),
            output: name("sound"),
            sample_rate: 16_000,
            n_fft,
            win_length: n_fft,
            hop,
            window: Window::Povey,
            edge: None,
            drop_last: false,
            remove_mean: true,
            preemphasis: 0.97,
            power: 1,
            mel: None,
            log: None,
            mfcc: None,
            time_first: true,
        })
    };
    let decibels = |floor| Some(Logarithm::Decibels { floor, top_db: Some(80.0) });
    let (slaney, whisper) = (MelScale::Slaney, Some(Logarithm::Whisper {}));
    vec![
        sample(plain(45, 20), sounds(), vec![plain(0, 20), plain(45, 0), plain(1 << 16, 20)]),
        sample(
            spectrogram("sound", mel(8, 8000.0, slaney), whisper, None),
            sounds(),
            vec![
                spectrogram("sound", mel(8, 8001.0, slaney), None, None),
                spectrogram("sound", mel(0, 8000.0, slaney), None, None),
                spectrogram("stereo", None, None, None),
                spectrogram("wav", None, None, None),
            ],
        ),
        sample(
            spectrogram("sound", mel(9, 8000.0, MelScale::Htk), decibels(1e-10), Some(5)),
            sounds(),
            vec![
                spectrogram("sound", mel(9, 8000.0, MelScale::Htk), decibels(1e-10), Some(10)),
                spectrogram("sound", None, decibels(1e-10), Some(5)),
                spectrogram("sound", None, decibels(0.0), None),
            ],
        ),
        sample(
            spectrogram("sound", mel(9, 8000.0, MelScale::Kaldi), Some(Logarithm::Natural { floor: 1e-7 }), None),
            sounds(),
            vec![],
        ),
    ]
}
