"""Sounds for tests: files of every format, and the formulas of spectra in NumPy."""

from __future__ import annotations

import io
from typing import Any

import forebay as fb
import numpy as np
import soundfile

#: Container and encoding, as libsndfile names them.
EXACT = [
    ("WAV", "PCM_U8"), ("WAV", "PCM_16"), ("WAV", "PCM_24"), ("WAV", "PCM_32"), ("WAV", "FLOAT"), ("WAV", "DOUBLE"),
    ("WAV", "ULAW"), ("WAV", "ALAW"), ("AIFF", "PCM_16"), ("AIFF", "PCM_24"),
    ("FLAC", "PCM_S8"), ("FLAC", "PCM_16"), ("FLAC", "PCM_24"),
]  # fmt: skip


def speech(rate: int, seconds: float, channels: int = 1, seed: int = 0) -> np.ndarray[Any, Any]:
    """Returns tones that glide, with noise and pauses: `[samples]`, or `[samples, channels]`."""
    rng = np.random.default_rng(seed)
    time = np.arange(int(rate * seconds)) / rate
    made = []
    for channel in range(channels):
        pitch = 120 + 40 * np.sin(2 * np.pi * (0.7 + channel) * time)
        phase = 2 * np.pi * np.cumsum(pitch) / rate
        voiced = sum(np.sin(k * phase) / k for k in range(1, 12))
        envelope = np.clip(np.sin(2 * np.pi * 1.3 * time + channel), 0, 1)
        made.append(0.2 * envelope * voiced + 0.01 * rng.standard_normal(len(time)))
    sound = np.stack(made, 1).astype(np.float32)
    return sound[:, 0] if channels == 1 else sound


def encoded(sound: np.ndarray[Any, Any], rate: int, container: str = "WAV", subtype: str = "PCM_16") -> bytes:
    """Returns a file."""
    file = io.BytesIO()
    soundfile.write(file, sound, rate, format=container, subtype=subtype)
    return file.getvalue()


def mel_bands(bands: int, n_fft: int, rate: int, scale: str, slaney: bool, fmin: float, fmax: float) -> Any:
    """Returns mel bands in float64, `[n_fft // 2 + 1, bands]`, by the formulas of librosa, torchaudio and Kaldi."""

    def to_mel(hz: Any) -> Any:
        if scale == "slaney":
            return np.where(hz < 1000, hz * 3 / 200, 15 + np.log(np.maximum(hz, 1e-9) / 1000) * 27 / np.log(6.4))
        return 2595 * np.log10(1 + hz / 700) if scale == "htk" else 1127 * np.log(1 + hz / 700)

    def to_hz(mel: Any) -> Any:
        if scale == "slaney":
            return np.where(mel < 15, mel * 200 / 3, 1000 * np.exp((mel - 15) * np.log(6.4) / 27))
        return 700 * (10 ** (mel / 2595) - 1) if scale == "htk" else 700 * (np.exp(mel / 1127) - 1)

    edges = np.linspace(to_mel(np.float64(fmin)), to_mel(np.float64(fmax)), bands + 2)
    bins = np.arange(n_fft // 2 + 1) * rate / n_fft
    hz = to_hz(edges)
    corners, places = (edges, to_mel(bins)) if scale == "kaldi" else (hz, bins)
    up = (places[:, None] - corners[None, :-2]) / np.diff(corners)[None, :-1]
    down = (corners[None, 2:] - places[:, None]) / np.diff(corners)[None, 1:]
    triangles = np.maximum(0, np.minimum(up, down))
    return triangles * (2 / (hz[2:] - hz[:-2])) if slaney else triangles


def powers(
    sound: Any, n_fft: int, hop: int, edge: str | None, window: Any, preemphasis: float = 0.0, mean: bool = False
) -> Any:
    """Returns the squared spectrum of each frame in float64, `[frames, n_fft // 2 + 1]`."""
    sound, length = np.asarray(sound, np.float64), len(window)
    if edge is not None:
        sound = np.pad(sound, n_fft // 2, mode="reflect" if edge == "reflect" else "constant")
    span = n_fft if edge is not None else length
    frames = np.stack([sound[at : at + span] for at in range(0, len(sound) - span + 1, hop)])
    before = (span - length) // 2
    frames = frames[:, before : before + length]
    if mean:
        frames = frames - frames.mean(1, keepdims=True)
    if preemphasis:
        frames = frames - preemphasis * np.concatenate([frames[:, :1], frames[:, :-1]], 1)
    return np.abs(np.fft.rfft(frames * window, n_fft)) ** 2


def hann(length: int) -> Any:
    """Returns the periodic Hann window."""
    return 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(length) / length)


def only(ds: fb.Dataset) -> np.ndarray[Any, Any]:
    """Returns the sound, or the spectrum, of the first row."""
    return next(iter(ds))["audio"]


def close_to(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any], bound: float) -> None:
    """Compares two arrays within a bound."""
    assert got.shape == want.shape
    assert np.abs(got - want).max() < bound
