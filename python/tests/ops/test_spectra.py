"""Spectra of sound, against their formulas in NumPy."""

from __future__ import annotations

import forebay as fb
import forebay.errors as E
import numpy as np
import pytest
from sounds import close_to, encoded, hann, mel_bands, only, powers, speech


def test_log_mel_has_whispers_numbers():
    sound = speech(16000, 2.3)
    ds = fb.from_numpy({"audio": sound[None]})
    mel = powers(sound, 400, 160, "reflect", hann(400)) @ mel_bands(80, 400, 16000, "slaney", True, 0, 8000)
    log = np.log10(np.maximum(mel, 1e-10))[:-1]
    want = (np.maximum(log, log.max() - 8) + 4) / 4
    close_to(only(ds.log_mel("audio", sample_rate=16000)), want, 2e-5)
    close_to(only(ds.log_mel("audio", sample_rate=16000, time_first=False)), want.T, 2e-5)


def test_log_mel_has_librosas_and_torchaudios_numbers():
    sound = speech(22050, 1.7)
    ds = fb.from_numpy({"audio": sound[None]})
    for preset, n_fft, hop, scale, edge in [
        ("librosa", 2048, 512, "slaney", "zeros"),
        ("torchaudio", 400, 200, "htk", "reflect"),
    ]:
        bands = mel_bands(128, n_fft, 22050, scale, scale == "slaney", 0, 11025)
        mel = powers(sound, n_fft, hop, edge, hann(n_fft)) @ bands
        close_to(only(ds.mel("audio", preset=preset, sample_rate=22050)), mel, 2e-6 * mel.max())
        decibels = 10 * np.log10(np.maximum(mel, 1e-10))
        decibels = np.maximum(decibels, decibels.max() - 80)
        close_to(only(ds.log_mel("audio", preset=preset, sample_rate=22050)), decibels, 2e-3)
        cosines = np.cos(np.pi * np.arange(20)[:, None] * (2 * np.arange(128) + 1) / 256) * np.sqrt(2 / 128)
        cosines[0] /= np.sqrt(2)
        close_to(only(ds.mfcc("audio", preset=preset, sample_rate=22050)), decibels @ cosines.T, 5e-3)


def test_log_mel_has_kaldis_numbers():
    sound = speech(16000, 1.1)
    window = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 399)) ** 0.85
    power = powers(sound, 512, 160, None, window, preemphasis=0.97, mean=True)
    mel = power @ mel_bands(23, 512, 16000, "kaldi", False, 20, 8000)
    want = np.log(np.maximum(mel, 2.0**-23))
    close_to(
        only(fb.from_numpy({"audio": sound[None]}).log_mel("audio", preset="kaldi", sample_rate=16000)), want, 2e-4
    )


@pytest.mark.parametrize("n_fft", [1, 2, 3, 7, 10, 31, 64, 113, 121, 400, 441, 512, 720, 1200])
@pytest.mark.parametrize("edge", ["reflect", "zeros", None])
def test_spectra_of_any_length_are_numpys(n_fft, edge):
    sound = np.random.default_rng(n_fft).standard_normal(3 * n_fft + 40).astype(np.float32)
    ds = fb.from_numpy({"audio": sound[None]})
    for hop in (1 + n_fft // 3, 2 * n_fft):
        want = powers(sound, n_fft, hop, edge, hann(n_fft))
        got = only(ds.spectrogram("audio", n_fft=n_fft, hop=hop, edge=edge, sample_rate=16000))
        close_to(got, want, 3e-6 * max(want.max(), 1))
        root = only(ds.spectrogram("audio", n_fft=n_fft, hop=hop, edge=edge, sample_rate=16000, power=1))
        assert np.allclose(root, np.sqrt(got))


def test_a_loud_frame_does_not_reach_its_neighbours():
    quiet = np.full(400 * 8, 1e-6, np.float32)
    loud = quiet.copy()
    loud[400 * 4 : 400 * 5] = 1.0
    options = {"n_fft": 400, "hop": 400, "edge": None, "sample_rate": 16000}
    got, want = (only(fb.from_numpy({"audio": x[None]}).spectrogram("audio", **options)) for x in (loud, quiet))
    assert np.array_equal(np.delete(got, 4, 0), np.delete(want, 4, 0))


def test_a_sound_that_is_too_short_for_a_frame_says_so():
    ds = fb.from_dict({"audio": [encoded(speech(16000, 0.01), 16000)]}).decode_audio("audio", sample_rate=16000)
    with pytest.raises(E.DataError, match="has 160 samples, and a frame has 400") as caught:
        list(ds.log_mel("audio", preset="kaldi"))
    assert "crop_audio" in caught.value.hint


@pytest.mark.parametrize("time_first", [True, False])
def test_masks_have_their_widths_and_directions(time_first):
    shape = (300, 80) if time_first else (80, 300)
    ds = fb.from_numpy({"audio": np.ones((100, *shape), np.float32)})
    masked = ds.spec_augment("audio", freq_width=27, time_width=100, time_masks=1, value=-1.5, time_first=time_first)
    widths = []
    for row in masked.iter(seed=4):
        spectrum = row["audio"] if time_first else row["audio"].T
        assert set(np.unique(spectrum)) <= {1.0, -1.5}
        bands, spans = (spectrum == -1.5).all(0), (spectrum == -1.5).all(1)
        assert np.array_equal(spectrum == -1.5, bands[None, :] | spans[:, None])
        widths.append((bands.sum(), spans.sum()))
    bands, spans = np.array(widths).T
    assert bands.max() <= 54
    assert spans.max() <= 100
    assert bands.mean() > 15
    assert 30 < spans.mean() < 70
    few = ds.spec_augment("audio", freq_masks=0, time_masks=1, time_ratio=0.05, time_first=time_first)
    assert max(int((row["audio"] == 0).sum()) for row in few.iter(seed=4)) <= 15 * 80
