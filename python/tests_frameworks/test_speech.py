"""Spectra against transformers: Whisper's features, and functions that follow librosa, torchaudio and Kaldi."""

from __future__ import annotations

import forebay as fb
import numpy as np
import pytest
from transformers import SeamlessM4TFeatureExtractor, Wav2Vec2FeatureExtractor, WhisperFeatureExtractor
from transformers.audio_utils import mel_filter_bank, spectrogram, window_function


def sound(rate: int, seconds: float) -> np.ndarray:
    """Returns tones that glide, with noise."""
    time = np.arange(int(rate * seconds)) / rate
    tone = np.sin(2 * np.pi * (200 + 900 * time) * time) * np.clip(np.sin(5 * time), 0, 1)
    return (0.4 * tone + 0.01 * np.random.default_rng(1).standard_normal(len(time))).astype(np.float32)


def made(ds: fb.Dataset) -> np.ndarray:
    return next(iter(ds))["audio"]


@pytest.mark.parametrize("bands", [80, 128])
def test_whisper(bands: int) -> None:
    heard = sound(16000, 7.3)
    extractor = WhisperFeatureExtractor(feature_size=bands)
    want = extractor(heard, sampling_rate=16000, return_tensors="np")["input_features"][0]
    ds = fb.from_numpy({"audio": heard[None]}).crop_audio("audio", 30, sample_rate=16000)
    got = made(ds.log_mel("audio", preset="whisper", n_mels=bands, sample_rate=16000, time_first=False))
    assert got.shape == want.shape == (bands, 3000)
    # Both compute in float32.
    assert np.abs(got - want).max() < 2e-4


def test_wav2vec() -> None:
    heard = sound(16000, 2.0)
    want = Wav2Vec2FeatureExtractor(do_normalize=True)(heard, sampling_rate=16000, return_tensors="np")["input_values"][
        0
    ]
    got = made(fb.from_numpy({"audio": heard[None]}).normalize_audio("audio", to="standard"))
    assert np.abs(got - want).max() < 1e-4


@pytest.mark.parametrize(
    ("preset", "n_fft", "hop", "scale", "norm", "pad"),
    [("librosa", 2048, 512, "slaney", "slaney", "constant"), ("torchaudio", 400, 200, "htk", None, "reflect")],
)
def test_librosa_and_torchaudio(preset: str, n_fft: int, hop: int, scale: str, norm: str | None, pad: str) -> None:
    heard = sound(22050, 3.0)
    bands = mel_filter_bank(n_fft // 2 + 1, 128, 0.0, 11025.0, 22050, norm=norm, mel_scale=scale)
    window = window_function(n_fft, "hann")
    options = {"power": 2.0, "pad_mode": pad, "mel_filters": bands, "log_mel": "dB", "db_range": 80.0}
    want = spectrogram(heard.astype(np.float64), window, n_fft, hop, **options)
    ds = fb.from_numpy({"audio": heard[None]})
    got = made(ds.log_mel("audio", preset=preset, sample_rate=22050, time_first=False))
    assert got.shape == want.shape
    assert np.abs(got - want).max() < 5e-3


def test_kaldi() -> None:
    # SeamlessM4T takes Kaldi's features of 80 bands, of numbers as 16-bit integers are.
    heard = sound(16000, 2.0)
    extractor = SeamlessM4TFeatureExtractor()
    want = extractor._extract_fbank_features(heard)
    ds = fb.from_numpy({"audio": heard[None] * np.float32(2**15)})
    got = made(ds.log_mel("audio", preset="kaldi", n_mels=80, sample_rate=16000))
    assert got.shape == want.shape
    assert np.abs(got - want).max() < 5e-3
