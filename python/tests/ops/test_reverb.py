"""Reverberation: against SciPy's convolution, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import forebay as fb
import forebay.errors as E
import numpy as np
import pytest
import soundfile
from scipy.signal import fftconvolve
from sounds import encoded, only, speech

RATE = 8000


def room(samples: int, channels: int = 1, delay: int = 0, seed: int = 0) -> np.ndarray[Any, Any]:
    """Returns an impulse response: zeros, the direct sound, and noise that fades."""
    rng = np.random.default_rng(seed)
    fading = rng.standard_normal((samples, channels)) * np.exp(-6 * np.arange(samples) / samples)[:, None] * 0.3
    fading[:delay] = 0
    fading[delay] = np.linspace(-2, 1.5, channels) if channels > 1 else -2
    made = fading.astype(np.float32)
    return made[:, 0] if channels == 1 else made


def reverberated(sound: Any, response: Any, **options: Any) -> Any:
    ds = fb.from_map_dataset([{"audio": sound, "room": response}])
    return only(ds.random_reverb("audio", "room", **options).drop("room"))


def wanted(sound: Any, response: Any, shift: bool, keep_level: str | None) -> Any:
    """Returns the formula in float64."""
    sound, response = (np.float64(each).reshape(len(each), -1) for each in (sound, response))
    delay = int(np.abs(response).max(axis=1).argmax()) if shift else 0
    made = np.stack(
        [
            fftconvolve(sound[:, channel], response[:, channel % response.shape[1]])[delay:][: len(sound)]
            for channel in range(sound.shape[1])
        ],
        axis=1,
    )
    made = np.pad(made, [(0, len(sound) - len(made)), (0, 0)])
    level = {"rms": lambda x: np.sqrt((x**2).mean()), "peak": lambda x: np.abs(x).max(), None: lambda x: 1}[keep_level]
    return made * (level(sound) / level(made))


def test_numbers_are_scipys():
    rng = np.random.default_rng(1)
    lengths = [(1, 1), (1, 50), (3, 2), (50, 400), (400, 50), (8000, 1), (8000, 2400), (16000, 16000), (90_000, 700)]
    lengths += [tuple(rng.integers(1, 5000, 2)) for _ in range(30)]
    for number, (samples, taps) in enumerate(lengths):
        channels = 1 + number % 3
        sound = speech(RATE, samples / RATE + 1e-6, channels, number)
        assert len(sound) == samples
        # A delay that leaves a part of the sound without `shift`, too.
        response = room(taps, rng.choice([1, channels]), int(rng.integers(0, min(samples, taps))), number)
        shift, keep_level = bool(rng.random() < 0.5), rng.choice(["rms", "peak", None])
        got = reverberated(sound, response, shift=shift, keep_level=keep_level)
        want = wanted(sound, response, shift, keep_level).reshape(sound.shape)
        assert got.dtype == np.float32
        assert np.abs(got - want).max() <= 2e-6 * np.abs(want).max(), (samples, taps, channels)


def test_an_impulse_changes_nothing_and_a_delay_is_kept_or_taken_out():
    sound = speech(RATE, 0.5)
    bound = 1e-6 * np.abs(sound).max()
    assert np.abs(reverberated(sound, np.float32([1])) - sound).max() < bound
    late = np.zeros(300, np.float32)
    late[200] = 0.25
    assert np.abs(reverberated(sound, late) - sound).max() < bound
    delayed = reverberated(sound, late, shift=False, keep_level=None)
    assert np.abs(delayed[200:] - sound[:-200] / 4).max() < bound
    assert np.abs(delayed[:200]).max() < bound


def test_nothing_becomes_silence_and_not_noise():
    late = np.zeros(1000, np.float32)
    late[999] = 1
    for keep_level in ("rms", "peak"):
        assert not reverberated(speech(RATE, 0.1), late, shift=False, keep_level=keep_level).any()
        assert not reverberated(np.zeros(500, np.float32), late, keep_level=keep_level).any()
    assert reverberated(np.zeros(0, np.float32), late).shape == (0,)


@pytest.mark.parametrize(
    ("sound", "response", "text"),
    [
        (np.ones(9), [], "no sample"),
        (np.ones(9), [0, 0, 0], "only zeros"),
        (np.ones(9), [1, np.nan], "not finite"),
        (np.ones(9), [1, -np.inf], "not finite"),
        (np.ones(9), np.ones(2**18 + 1), "262145 samples, more than 262144"),
        (np.ones((9, 2)), np.ones((5, 3)), "3 channels, and the sound has 2"),
        ([1, np.nan, 1], [1, 2], "sound has numbers that are not finite"),
        ([3e38, 1], [3e38, 2], "too large"),
    ],
)
def test_responses_that_have_no_meaning_are_errors(sound, response, text):
    # A second row makes all lengths, and numbers of channels, those of no schema.
    rows = [{"audio": np.float32(sound), "room": np.float32(response)}]
    rows.append({key: np.ones([n + 1 for n in value.shape], np.float32) for key, value in rows[0].items()})
    ds = fb.from_map_dataset(rows)
    with pytest.raises(E.DataError, match=text) as caught:
        next(iter(ds.random_reverb("audio", "room")))
    assert caught.value.hint
    if "sound has numbers" not in text and text != "too large":
        with pytest.raises(E.DataError, match=text):
            next(iter(ds.random_reverb("audio", "room", p=0.0)))


def test_wrong_arguments_say_what_to_write():
    ds = fb.from_numpy({"audio": np.zeros((2, 90), np.float32), "room": np.zeros((2, 9, 2), np.float32)})
    fast = ds.map(lambda row: {**row, "raw": b""}).decode_audio("raw", out="fast", sample_rate=16000)
    fast = fast.decode_audio("raw", sample_rate=8000)
    for write, text in (
        (lambda: ds.random_reverb("audio", "room"), "other numbers of channels"),
        (lambda: ds.random_reverb("audio", "audio", keep_level="lufs"), "unknown keep_level 'lufs'"),
        (lambda: ds.random_reverb("audio", "audio", p=2), "p=2|probability=2"),
        (lambda: ds.random_reverb("audio", "audio", shift=1), "shift"),
        (lambda: fast.random_reverb("fast", "raw"), "'fast' has 16000 samples of a second, and 'raw' 8000"),
        (lambda: fast.random_noise("raw", noise="fast"), "'raw' has 8000 samples of a second, and 'fast' 16000"),
        (lambda: fb.zip(fast.select("fast"), fast.select("raw")).random_reverb("fast", "raw"), "16000 samples"),
    ):
        with pytest.raises(E.InvalidPipelineError, match=text) as caught:
            write()
        assert caught.value.hint


def test_each_epoch_has_another_room_the_same_here_and_on_a_service(tmp_path: Path, service: fb.Service):
    for number in range(6):
        soundfile.write(tmp_path / f"{number}.wav", speech(16000, 0.4 + number / 10, seed=number), 16000)
    rooms = [encoded(room(taps, seed=taps), 16000) for taps in (100, 900, 4000)]

    def with_room(row, rng):
        return {"room": rooms[rng.integers(len(rooms))]}

    ds = (
        fb.from_files(f"{tmp_path}/*.wav")
        .shuffle()
        .map(with_room, reads=[], writes="room", schema={"room": "bytes"})
        .decode_audio("bytes", out="audio", sample_rate=16000)
        .decode_audio("room", sample_rate=16000)
        .random_reverb("audio", "room", p=0.8)
        .drop("room", "bytes")
        .random_noise("audio", snr_db=(10, 30))
        .log_mel("audio", out="mel")
        .drop("audio")
        .batch(2, pad={"mel": 0.0}, lengths={"mel": "frames"})
    )
    whole = [batch["mel"].tobytes() for batch in ds.iter(seed=5, epochs=2, threads=1)]
    assert len(set(whole)) == 6
    assert [batch["mel"].tobytes() for batch in ds.iter(seed=5, epochs=2, threads=3)] == whole
    there = ds.distribute(service, job="rooms", seed=5, epochs=2)
    assert [batch["mel"].tobytes() for batch in there] == whole
