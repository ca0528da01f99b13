"""Sound: decoding against libsndfile, resampling against soxr."""

from __future__ import annotations

import io
import random
import struct
import wave

import forebay as fb
import forebay.errors as E
import numpy as np
import pytest
import soundfile
import soxr
from forebay._src.preview.thumbnails import pixels
from sounds import EXACT, close_to, encoded, only, speech


def decoded(data, **options):
    return next(iter(fb.from_dict({"audio": [data]}).decode_audio("audio", **options)))["audio"]


@pytest.mark.parametrize(("container", "subtype"), EXACT)
@pytest.mark.parametrize("channels", [1, 2])
def test_exact_formats_have_the_numbers_of_libsndfile(container, subtype, channels):
    data = encoded(speech(11025, 0.7, channels), 11025, container, subtype)
    want, _ = soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)
    got = decoded(data, mono=False)
    assert got.dtype == np.float32
    assert np.array_equal(got, want)


# libsndfile decodes MP3 with mpg123, and Vorbis with libvorbis: both round in other places.
@pytest.mark.parametrize(("container", "subtype", "bound"), [("OGG", "VORBIS", 2e-6), ("MP3", "MPEG_LAYER_III", 2e-6)])
@pytest.mark.parametrize(("rate", "channels"), [(16000, 1), (44100, 2), (48000, 1)])
def test_lossy_formats_are_within_a_bound_and_have_no_delay(container, subtype, bound, rate, channels):
    data = encoded(speech(rate, 1.1, channels), rate, container, subtype)
    want, _ = soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)
    got = decoded(data, mono=False)
    assert got.shape == want.shape
    assert np.abs(got - want).max() < bound


def test_rate_and_channels_are_told_and_chosen():
    stereo, mono = speech(22050, 0.2, 2), speech(8000, 0.2)
    files = [encoded(stereo, 22050, "FLAC"), encoded(mono, 8000)]
    ds = fb.from_dict({"bytes": files}).decode_audio("bytes", out="audio", sample_rate=16000, rate="rate")
    assert str(ds.schema["audio"]) == "float32[?]"
    assert [int(row["rate"]) for row in ds] == [22050, 8000]
    assert [len(row["audio"]) for row in ds] == [3200, 3200]
    kept = fb.from_dict({"audio": files}).decode_audio("audio", mono=False, channels=2)
    assert str(kept.schema["audio"]) == "float32[?, 2]"
    first, second = (row["audio"] for row in kept)
    assert np.array_equal(decoded(files[0]), (first[:, 0] + first[:, 1]) / 2)
    assert np.array_equal(second[:, 0], second[:, 1])
    with pytest.raises(E.DataError, match="2 channels, not 3"):
        decoded(files[0], mono=False, channels=3)


def streamed_wav(samples: bytes, size: int) -> bytes:
    """Returns a WAV file of a program that could not know the length, as ffmpeg writes to a pipe."""
    head = b"RIFF" + struct.pack("<I", size) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 16000, 2, 16)
    return head + b"data" + struct.pack("<I", size) + samples


def test_a_wav_file_of_unknown_length_is_read_to_its_end():
    samples = np.arange(-500, 500, dtype=np.int16)
    got = decoded(streamed_wav(samples.tobytes(), 0xFFFFFFFF))
    assert np.array_equal(got, samples.astype(np.float32) / 32768)


def test_a_sound_without_samples_is_empty():
    file = io.BytesIO()
    with wave.open(file, "wb") as wav:
        wav.setparams((1, 2, 8000, 0, "NONE", ""))
    assert decoded(file.getvalue(), sample_rate=16000).shape == (0,)


def test_what_is_no_sound_is_named():
    for data, text in [
        (b"", "empty"),
        (b"\x89PNG\r\n\x1a\n" + bytes(50), "begin with 89504e470d0a1a0a"),
        (b"hello, this is a text", "begin with"),
        (b"OggS" + bytes(24) + b"OpusHead" + bytes(80), "Opus"),
        (b"RIFF\0\0\0\0WAVE", "damaged"),
    ]:
        with pytest.raises(E.DataError, match=text) as caught:
            decoded(data)
        assert caught.value.hint
        assert "decode_audio" in str(caught.value)


def test_a_long_sound_is_refused_before_memory_is_taken():
    # A FLAC file of an hour of silence has a few kilobytes.
    data = encoded(np.zeros(8000 * 700, np.float32), 8000, "FLAC")
    with pytest.raises(E.ExhaustedError, match=r"700\.0 s or more.*22 MB") as caught:
        decoded(data)
    assert "max_seconds" in caught.value.hint
    assert decoded(data, max_seconds=700).shape == (5_600_000,)
    head = encoded(speech(8000, 0.1), 8000)
    hostile = head[:40] + struct.pack("<I", 0xFFFFFFF0) + head[44:]
    with pytest.raises(E.ForebayError):
        decoded(hostile)

    ds = fb.from_dict({"audio": [data, head]}).decode_audio("audio")
    assert [row["audio"].shape for row in ds.iter(on_error="skip", error_budget=1)] == [(800,)]


def test_a_sound_that_is_cut_off_is_an_error():
    sound = speech(16000, 0.5)
    for container in ("WAV", "AIFF", "FLAC"):
        data = encoded(sound, 16000, container)
        for share in (0.1, 0.5, 0.9, 0.99):
            with pytest.raises(E.DataError, match="damaged"):
                decoded(data[: int(len(data) * share)])


def test_damaged_files_are_errors_or_sounds_and_never_hang():
    rng = random.Random(5)
    sound = speech(16000, 0.3)
    files = [
        encoded(sound, 16000, *kind)
        for kind in [("WAV", "PCM_16"), ("FLAC", "PCM_16"), ("OGG", "VORBIS"), ("MP3", "MPEG_LAYER_III")]
    ]
    outcomes = {"sound": 0, "error": 0}
    for number in range(200):
        data = bytearray(files[number % len(files)])
        for _ in range(rng.randint(1, 12)):
            at = rng.randrange(min(len(data), 200)) if rng.random() < 0.5 else rng.randrange(len(data))
            data[at] = rng.randrange(256)
        if rng.random() < 0.2:
            del data[rng.randrange(len(data)) :]
        try:
            assert decoded(bytes(data)).ndim == 1
            outcomes["sound"] += 1
        except (E.DataError, E.ExhaustedError):
            outcomes["error"] += 1
    assert min(outcomes.values()) > 20, outcomes


def resampled(sound, before, after):
    ds = fb.from_numpy({"audio": np.asarray(sound, np.float32)[None]})
    return only(ds.resample_audio("audio", after, from_rate=before))


RATES = [(44100, 16000), (48000, 16000), (8000, 16000), (22050, 44100), (16000, 15999), (44101, 16000)]


@pytest.mark.parametrize(("before", "after"), RATES)
def test_resampling_is_soxrs_in_the_pass_band(before, after):
    # A sweep up to 0.9 of the lower Nyquist frequency, faded so that its own edges are within the band.
    time = np.arange(before * 2) / before
    top = 0.9 * min(before, after) / 2
    sweep = 0.5 * np.sin(np.pi * top * time**2 / 2) * np.hanning(len(time))
    got, want = resampled(sweep, before, after), soxr.resample(sweep, before, after, quality="VHQ")
    assert len(got) == -(-len(sweep) * after // before)
    middle = slice(after // 4, after * 7 // 4)
    assert np.abs(got[: len(want)][middle] - want[middle]).max() < 1e-4


@pytest.mark.parametrize(("before", "after"), RATES)
def test_what_a_rate_does_not_hold_is_suppressed(before, after):
    time = np.arange(before) / before
    if after < before:
        tone = np.sin(2 * np.pi * min(before / 2 - 1, after / 2 * 1.01) * time) * np.hanning(before)
        assert np.abs(resampled(tone, before, after)).max() < 1e-5
    else:
        tone = np.sin(2 * np.pi * 0.8 * before / 2 * time) * np.hanning(before)
        spectrum = np.abs(np.fft.rfft(resampled(tone, before, after) * np.hanning(after)))
        images = spectrum[int(len(spectrum) * before / after * 1.01) :]
        assert images.max() < 1e-5 * spectrum.max()


def test_a_constant_stays_a_constant_and_a_click_stays_at_its_time():
    for before, after in RATES:
        steady = resampled(np.ones(before), before, after)
        assert np.abs(steady[after // 4 : after * 3 // 4] - 1).max() < 1e-5
        click = np.zeros(before)
        click[before // 2] = 1
        assert abs(int(np.abs(resampled(click, before, after)).argmax()) - after / 2) <= 1


def test_channels_are_resampled_one_by_one():
    sound = speech(44100, 0.3, 2)
    ds = fb.from_numpy({"audio": sound[None]}).resample_audio("audio", 16000, from_rate=44100)
    for channel in range(2):
        assert np.array_equal(only(ds)[:, channel], resampled(sound[:, channel], 44100, 16000))


def test_parts_are_cut_and_padded():
    ds = fb.from_numpy({"audio": np.arange(1, 11, dtype=np.float32)[None]})

    def crop(seconds, **options):
        return only(ds.crop_audio("audio", seconds, sample_rate=1000, **options)).tolist()

    assert crop(0.003, start=0.002) == [3, 4, 5]
    assert crop(0.004, start=0.008) == [9, 10, 0, 0]
    assert crop(0.004, start=0.008, pad=False) == [9, 10]
    assert crop(0.004, start=0.02, pad=False) == []
    with pytest.raises(E.DataError, match="10 samples, and the part begins at 20"):
        crop(0.004, start=0.02)
    offset = ds.repeat(200).random_offset("audio", 0.004, sample_rate=1000)
    begun = [row["audio"] for row in offset.iter(seed=1)]
    assert all(np.array_equal(part, np.arange(part[0], part[0] + 4)) for part in begun)
    assert {int(part[0]) for part in begun} == set(range(1, 8))
    longer = only(ds.random_offset("audio", 0.012, sample_rate=1000)).tolist()
    assert longer == [*range(1, 11), 0, 0]


def test_loudness_is_what_was_asked_for():
    sound = speech(8000, 1.0) + np.float32(0.1)
    ds = fb.from_numpy({"audio": np.stack([sound, np.zeros_like(sound)])})
    peak, silence = (row["audio"] for row in ds.normalize_audio("audio", db=-3))
    assert abs(np.abs(peak).max() - 10 ** (-3 / 20)) < 1e-6
    assert not silence.any()
    rms = only(ds.normalize_audio("audio", to="rms", db=-20)).astype(np.float64)
    assert abs(np.sqrt((rms**2).mean()) - 0.1) < 1e-6
    standard = only(ds.normalize_audio("audio", to="standard"))
    close_to(standard, (sound - sound.mean()) / np.sqrt(sound.var() + 1e-7), 1e-5)
    gains = [np.abs(row["audio"]).max() for row in ds.take(1).repeat(300).random_gain("audio", db=(-6, 6)).iter(seed=2)]
    gains = 20 * np.log10(np.array(gains) / np.abs(sound).max())
    assert gains.min() > -6.001
    assert gains.max() < 6.001
    assert gains.std() > 3


def test_noise_is_added_at_its_ratio():
    sound = speech(8000, 1.0)
    beep = np.sin(np.arange(1000)).astype(np.float32)
    ds = fb.from_dict({"audio": [encoded(sound, 8000, subtype="FLOAT")] * 40, "noise": [encoded(beep, 8000)] * 40})
    ds = ds.decode_audio("audio", sample_rate=8000).decode_audio("noise", sample_rate=8000)
    for noise in (None, "noise"):
        for row in ds.random_noise("audio", noise=noise, snr_db=(5, 15)).iter(seed=3):
            added = row["audio"].astype(np.float64) - sound
            ratio = 10 * np.log10((sound.astype(np.float64) ** 2).mean() / (added**2).mean())
            assert 4.99 < ratio < 15.01
    half = [np.array_equal(row["audio"], sound) for row in ds.random_noise("audio", p=0.5).iter(seed=3)]
    assert 8 < sum(half) < 32


def test_a_recipe_for_speech_recognition_makes_equal_batches_again(tmp_path, service):
    for number in range(12):
        data = encoded(speech(22050, 0.4 + number / 10, seed=number), 22050, "FLAC")
        (tmp_path / f"{number:02}.flac").write_bytes(data)
    ds = (
        fb.from_files(f"{tmp_path}/*.flac")
        .shuffle()
        .decode_audio("bytes", out="audio", sample_rate=16000)
        .drop("bytes", "path")
        .random_offset("audio", 1.0, pad=False)
        .random_gain("audio")
        .random_noise("audio", p=0.5)
        .log_mel("audio", out="mel")
        .spec_augment("mel", freq_width=10, time_width=20)
        .drop("audio")
        .batch(4, pad={"mel": 0.0}, lengths={"mel": "frames"})
    )
    whole = list(ds.iter(seed=5, threads=1))
    assert [batch["mel"].shape[0] for batch in whole] == [4, 4, 4]
    assert all(batch["mel"].shape[2] == 80 and batch["frames"].max() <= 100 for batch in whole)
    it = ds.iter(seed=5, threads=3)
    first = next(it)
    resumed = ds.iter(seed=5)
    resumed.load_state_dict(it.state_dict())
    rest = list(resumed)
    for got, want in zip([first, *rest], whole, strict=True):
        assert np.array_equal(got["mel"], want["mel"])
        assert np.array_equal(got["frames"], want["frames"])
    there = ds.distribute(service, job="speech", seed=5, epochs=1)
    assert [batch["mel"].tobytes() for batch in there] == [batch["mel"].tobytes() for batch in whole]


def test_previews_and_statistics_know_sound():
    sound = speech(8000, 1.0, 2)
    wave_of = pixels(sound[:, 0])
    assert wave_of.shape == (32, 128)
    assert 0.05 < (wave_of == 40).mean() < 0.6
    assert pixels(sound).shape == (64, 128)
    assert pixels(np.full(1000, np.nan, np.float32)).shape == (32, 128)
    assert pixels(sound[:900, 0]) is None
    ds = fb.from_dict({"audio": [encoded(sound, 8000)] * 3}).decode_audio("audio")
    assert "audio" in str(ds.describe())


def test_the_rate_is_known_or_asked_for():
    files = fb.from_dict({"audio": [b""]})
    with pytest.raises(E.InvalidPipelineError, match="sampling rate of column 'audio' is not known") as caught:
        files.decode_audio("audio").log_mel("audio")
    assert "sample_rate=" in caught.value.hint
    with pytest.raises(E.InvalidPipelineError, match="is not known"):
        files.decode_audio("audio", out="x", sample_rate=16000).decode_audio("audio", out="x").random_offset("x", 1)
    known = files.decode_audio("audio", sample_rate=44100).resample_audio("audio", 16000)
    assert "sample_rate=16000" in known.log_mel("audio").explain()
    turned = known.log_mel("audio", time_first=False).spec_augment("audio")
    assert "time_first=False" in turned.explain().split("spec_augment")[1]


@pytest.mark.parametrize(
    ("write", "text"),
    [
        (lambda ds: ds.decode_audio("id"), "int64, not bytes"),
        (lambda ds: ds.decode_audio("raw", sample_rate=50), "sample_rate=50"),
        (lambda ds: ds.decode_audio("raw", channels=2), "channels=2 and mono=True"),
        (lambda ds: ds.decode_audio("raw", max_seconds=0), "max_seconds=0"),
        (lambda ds: ds.decode_audio("raw", rate="raw"), "for the samples and for their rate"),
        (lambda ds: ds.log_mel("raw", sample_rate=16000), "not decoded yet"),
        (lambda ds: ds.crop_audio("audio", 0.0, sample_rate=16000), "0 samples"),
        (lambda ds: ds.crop_audio("audio", 1e9, sample_rate=16000), "seconds=1000000000.0"),
        (lambda ds: ds.log_mel("audio", sample_rate=8000), "fmax"),
        (lambda ds: ds.log_mel("audio", sample_rate=16000, n_mels=0), "n_mels=0"),
        (lambda ds: ds.log_mel("audio", sample_rate=16000, win_length=500), "win_length=500"),
        (lambda ds: ds.log_mel("audio", sample_rate=16000, n_fft=509), "prime factor 509"),
        (lambda ds: ds.log_mel("audio", sample_rate=16000, log="ln"), "unknown log 'ln'"),
        (lambda ds: ds.log_mel("audio", sample_rate=16000, preset="nemo"), "unknown preset 'nemo'"),
        (lambda ds: ds.mfcc("audio", sample_rate=16000, n_mfcc=129), "n_mfcc=129"),
        (lambda ds: ds.random_gain("audio", db=(3, -3)), "db="),
        (lambda ds: ds.random_noise("audio", noise="id"), "not sound"),
        (lambda ds: ds.spec_augment("audio"), "not a spectrogram"),
        (lambda ds: ds.normalize_audio("audio", to="lufs"), "unknown to 'lufs'"),
    ],
)
def test_wrong_arguments_say_what_to_write(write, text):
    ds = fb.from_numpy({"id": np.arange(2), "audio": np.zeros((2, 1000), np.float32)}).map(
        lambda row: {**row, "raw": b""}
    )
    with pytest.raises(E.InvalidPipelineError, match=text) as caught:
        write(ds)
    assert caught.value.hint


def test_an_unknown_setting_is_named():
    with pytest.raises(TypeError, match=r"'mels'.*n_mels"):
        fb.from_numpy({"audio": np.zeros((1, 400), np.float32)}).log_mel("audio", sample_rate=16000, mels=40)
