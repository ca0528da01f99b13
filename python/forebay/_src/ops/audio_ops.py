"""Ops on sound: decode, resample, crop, change at random; spectra, and masks of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, Unpack

from forebay._src import arguments
from forebay._src.ops.base import Base
from forebay.errors import InvalidPipelineError

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset

#: The library or model whose numbers `log_mel` and `mfcc` give.
Preset: TypeAlias = Literal["whisper", "librosa", "torchaudio", "kaldi"]
Window: TypeAlias = Literal["hann", "hamming", "povey", "ones"]
Scale: TypeAlias = Literal["slaney", "htk", "kaldi"]
Log: TypeAlias = Literal["natural", "ten", "db", "whisper"]


class MelSettings(TypedDict, total=False):
    """What `mel`, `log_mel` and `mfcc` take in place of a preset's values."""

    n_fft: int
    win_length: int
    hop: int
    window: Window
    edge: Literal["reflect", "zeros"] | None
    power: int
    n_mels: int
    fmin: float
    fmax: float
    scale: Scale
    norm: Literal["slaney"] | None
    log: Log
    floor: float
    top_db: float | None
    preemphasis: float
    remove_mean: bool


_SECONDS_MAX = 86_400.0
_FLOOR = 1e-10

#: What each preset sets.
_PRESETS: dict[str, dict[str, Any]] = {
    "whisper": {
        "n_fft": 400, "hop": 160, "n_mels": 80, "scale": "slaney", "norm": "slaney", "log": "whisper",
        "edge": "reflect", "drop_last": True, "window": "hann", "fmin": 0.0, "floor": _FLOOR, "fmax": 8000.0,
    },
    "librosa": {
        "n_fft": 2048, "hop": 512, "n_mels": 128, "scale": "slaney", "norm": "slaney", "log": "db",
        "edge": "zeros", "window": "hann", "fmin": 0.0, "floor": _FLOOR, "top_db": 80.0,
    },
    "torchaudio": {
        "n_fft": 400, "hop": 200, "n_mels": 128, "scale": "htk", "norm": None, "log": "db",
        "edge": "reflect", "window": "hann", "fmin": 0.0, "floor": _FLOOR, "top_db": 80.0,
    },
    "kaldi": {
        "n_fft": 512, "win_length": 400, "hop": 160, "n_mels": 23, "scale": "kaldi", "norm": None, "log": "natural",
        "edge": None, "window": "povey", "fmin": 20.0, "floor": 2.0**-23, "remove_mean": True, "preemphasis": 0.97,
    },
}  # fmt: skip


class AudioOps(Base):
    """Ops on a column of sound: float32 numbers, `[samples]` or `[samples, channels]`.

    Random ones depend on the seed, the epoch, the op and the sample alone. Times are in seconds; the sampling rate is
    that of the last `decode_audio` or `resample_audio` of the column, unless `sample_rate=` says it.
    """

    __slots__ = ()

    def decode_audio(
        self,
        column: str,
        *,
        out: str | None = None,
        sample_rate: int | None = None,
        mono: bool = True,
        channels: int | None = None,
        max_seconds: float = 600.0,
        rate: str | None = None,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Decodes WAV, AIFF, FLAC, Ogg Vorbis, MP3 or AAC (ADTS, M4A) bytes to float32 numbers, mostly from -1 to 1.

        The result is `[samples]`, or `[samples, channels]` with `mono=False`. A file that is damaged or cut off is a
        `DataError`; no part of it is returned.

        >>> import forebay as fb, io, wave
        >>> file = io.BytesIO()
        >>> with wave.open(file, "wb") as wav:
        ...     wav.setparams((1, 2, 8000, 0, "NONE", ""))
        ...     wav.writeframes(bytes(16000))
        >>> ds = fb.from_dict({"audio": [file.getvalue()]}).decode_audio("audio", sample_rate=16000, rate="rate")
        >>> row = next(iter(ds))
        >>> row["audio"].shape, int(row["rate"])
        ((16000,), 8000)

        Args:
            column: The column of encoded bytes.
            out: The column of numbers; default: the same column.
            sample_rate: Samples of a second of the result: others are resampled. Default: as each file has.
            mono: Whether the channels are averaged to one.
            channels: With `mono=False`: how many channels each file has. One channel is repeated; any other number is a
                `DataError`. Default: as each file has.
            max_seconds: The longest sound, in seconds, at most a day. A longer one is a `ExhaustedError` before memory
                is taken for it.
            rate: A column for the sampling rate of each file, in Hz: int32.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        op: dict[str, Any] = {
            "op": "decode_audio",
            "column": column,
            "output": column if out is None else arguments.text(out, "decode_audio", "out"),
            "mono": arguments.flag(mono, "decode_audio", "mono"),
            "max_seconds": arguments.number(max_seconds, "decode_audio", "max_seconds"),
        }
        if sample_rate is not None:
            op["sample_rate"] = _rate(sample_rate, "decode_audio", "sample_rate")
        if channels is not None:
            op["channels"] = arguments.whole(channels, "decode_audio", "channels", 1)
        if rate is not None:
            op["rate"] = arguments.text(rate, "decode_audio", "rate")
        return self._then(op, keep_position, name)

    def resample_audio(
        self,
        column: str,
        sample_rate: int,
        *,
        from_rate: int | None = None,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Changes the sampling rate: `ceil(samples * sample_rate / from_rate)` samples, without delay.

        Frequencies up to 0.91 of the lower Nyquist frequency pass within 0.001 dB; those that the lower rate does not
        hold are at least 100 dB down.

        >>> import forebay as fb, numpy as np
        >>> ds = fb.from_numpy({"audio": np.zeros((2, 44100), np.float32)})
        >>> print(ds.resample_audio("audio", 16000, from_rate=44100).schema["audio"])
        float32[16000]

        Args:
            column: The column.
            sample_rate: The new sampling rate, in Hz.
            from_rate: The sampling rate of the column; default: known from `decode_audio`.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        op = {
            "op": "resample_audio",
            "column": column,
            "from_rate": self._rate_of(column, from_rate, "resample_audio", "from_rate"),
            "sample_rate": _rate(sample_rate, "resample_audio", "sample_rate"),
        }
        return self._then(op, keep_position, name)

    def crop_audio(
        self,
        column: str,
        seconds: float,
        *,
        start: float = 0.0,
        pad: bool = True,
        sample_rate: int | None = None,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Keeps `seconds` of each sound from `start` on.

        `crop_audio("audio", 30)` is Whisper's `pad_or_trim`.

        >>> import forebay as fb, numpy as np
        >>> ds = fb.from_numpy({"audio": np.ones((1, 3), np.float32)}).crop_audio("audio", 0.005, sample_rate=1000)
        >>> next(iter(ds))["audio"].tolist()
        [1.0, 1.0, 1.0, 0.0, 0.0]

        Args:
            column: The column.
            seconds: The length, rounded to whole samples.
            start: The beginning of the part, in seconds.
            pad: Whether zeros are appended to a shorter sound, so that all have one length. If not, it stays shorter.
                A sound that ends before `start` is a `DataError` with `pad=True`, and empty without.
            sample_rate: The sampling rate of the column; default: known from `decode_audio`.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        rate = self._rate_of(column, sample_rate, "crop_audio")
        op = {
            "op": "crop_audio",
            "column": column,
            "start": _samples(start, rate, "crop_audio", "start"),
            "length": _samples(seconds, rate, "crop_audio", "seconds"),
            "pad": arguments.flag(pad, "crop_audio", "pad"),
        }
        return self._then(op, keep_position, name)

    def random_offset(
        self,
        column: str,
        seconds: float,
        *,
        pad: bool = True,
        sample_rate: int | None = None,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Keeps `seconds` of each sound, from a random place on that is uniform among those with room.

        >>> import forebay as fb, numpy as np
        >>> ds = fb.from_numpy({"audio": np.arange(2000, dtype=np.float32).reshape(2, 1000)})
        >>> rows = list(ds.random_offset("audio", 0.003, sample_rate=1000).iter(seed=1))
        >>> [bool((np.diff(row["audio"]) == 1).all()) for row in rows]
        [True, True]

        Args:
            column: The column.
            seconds: The length, rounded to whole samples.
            pad: Whether zeros are appended to a shorter sound, so that all have one length. If not, it stays shorter.
            sample_rate: The sampling rate of the column; default: known from `decode_audio`.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        rate = self._rate_of(column, sample_rate, "random_offset")
        op = {
            "op": "random_offset",
            "column": column,
            "length": _samples(seconds, rate, "random_offset", "seconds"),
            "pad": arguments.flag(pad, "random_offset", "pad"),
        }
        return self._then(op, keep_position, name)

    def normalize_audio(
        self,
        column: str,
        *,
        to: Literal["peak", "rms", "standard"] = "peak",
        db: float = 0.0,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Makes all sounds equally loud. A sound of zeros stays as it is.

        >>> import forebay as fb, numpy as np
        >>> ds = fb.from_numpy({"audio": np.array([[0.1, -0.2]], np.float32)}).normalize_audio("audio")
        >>> next(iter(ds))["audio"].tolist()
        [0.5, -1.0]

        Args:
            column: The column.
            to: `"peak"` for the greatest absolute value, `"rms"` for the root of the mean square, or `"standard"` for
                mean 0 and variance 1, as wav2vec 2.0 and HuBERT take it.
            db: The level of the peak or of the root of the mean square, in decibels; 0 is a value of 1.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        op = {
            "op": "normalize_audio",
            "column": column,
            "to": arguments.choice(to, "normalize_audio", "to", "peak", "rms", "standard"),
            "db": arguments.number(db, "normalize_audio", "db"),
        }
        return self._then(op, keep_position, name)

    def random_gain(
        self,
        column: str,
        *,
        db: tuple[float, float] = (-6.0, 6.0),
        p: float = 1.0,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Makes a sound louder or softer by a random number of decibels. Values beyond 1 are not cut.

        >>> import forebay as fb, numpy as np
        >>> ds = fb.from_numpy({"audio": np.full((1, 2), 0.25, np.float32)})
        >>> round(float(next(iter(ds.random_gain("audio", db=(6.0206, 6.0206))))["audio"][0]), 5)
        0.5

        Args:
            column: The column.
            db: The least and the greatest gain, in decibels.
            p: The probability that the sound changes at all.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        op = {
            "op": "random_gain",
            "column": column,
            "db": arguments.interval(db, "random_gain", "db"),
            "probability": arguments.number(p, "random_gain", "p"),
        }
        return self._then(op, keep_position, name)

    def random_noise(
        self,
        column: str,
        *,
        noise: str | None = None,
        snr_db: tuple[float, float] = (10.0, 30.0),
        p: float = 1.0,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Adds noise at a random ratio of the powers of sound and noise. A sound or a noise of zeros changes nothing.

        `fb.zip(speech, noises)` gives each sample a noise of its own.

        >>> import forebay as fb, numpy as np
        >>> ds = fb.from_numpy({"audio": np.ones((1, 10_000), np.float32)}).random_noise("audio", snr_db=(20, 20))
        >>> round(float((next(iter(ds))["audio"] - 1).std()), 3)
        0.1

        Args:
            column: The column.
            noise: A column of noise of as many channels and the same sampling rate, from a random place on and repeated
                where it is shorter. Default: white Gaussian noise.
            snr_db: The least and the greatest ratio, in decibels.
            p: The probability that the sound changes at all.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        op: dict[str, Any] = {
            "op": "random_noise",
            "column": column,
            "snr_db": arguments.interval(snr_db, "random_noise", "snr_db"),
            "probability": arguments.number(p, "random_noise", "p"),
        }
        if noise is not None:
            op["noise"] = arguments.text(noise, "random_noise", "noise")
        return self._then(op, keep_position, name)

    def spectrogram(
        self,
        column: str,
        *,
        out: str | None = None,
        n_fft: int = 400,
        win_length: int | None = None,
        hop: int | None = None,
        window: Window = "hann",
        edge: Literal["reflect", "zeros"] | None = "reflect",
        power: int = 2,
        time_first: bool = True,
        sample_rate: int | None = None,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Computes the spectrum of each frame: absolute values of `n_fft // 2 + 1` frequencies, to a power.

        >>> import forebay as fb, numpy as np
        >>> sine = np.sin(np.arange(1000) * 2 * np.pi * 50 / 400).astype(np.float32)
        >>> ds = fb.from_numpy({"audio": sine[None]}).spectrogram("audio", sample_rate=16000, hop=100)
        >>> frames = next(iter(ds))["audio"]
        >>> frames.shape, int(frames[5].argmax())
        ((11, 201), 50)

        Args:
            column: The column of sound, of one channel.
            out: The column of spectra; default: the same column.
            n_fft: The length of the Fourier transform, in samples.
            win_length: The length of a frame, at most `n_fft`, which it is by default.
            hop: The step from frame to frame, in samples; default: half of `win_length`.
            window: `"hann"` and `"hamming"` as torch's; `"povey"` as Kaldi's; `"ones"`.
            edge: The samples beyond the ends: the sound mirrored, or zeros; frame `t` is centred at sample `t * hop`.
                `None`: frame `t` begins at sample `t * hop`, and all frames lie within the sound.
            power: 1 for absolute values, 2 for their squares.
            time_first: Whether the result is `[frames, bins]`, which `batch(pad=)` pads, or `[bins, frames]`.
            sample_rate: The sampling rate of the column; default: known from `decode_audio`.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        given = {"n_fft": n_fft, "win_length": win_length, "hop": hop, "window": window, "power": power}
        settings = {"edge": edge, **{key: value for key, value in given.items() if value is not None}}
        op = self._spectrum("spectrogram", column, out, settings, sample_rate, time_first)
        return self._then(op, keep_position, name)

    def mel(
        self,
        column: str,
        *,
        out: str | None = None,
        preset: Preset = "torchaudio",
        time_first: bool = True,
        sample_rate: int | None = None,
        keep_position: bool = False,
        name: str | None = None,
        **settings: Unpack[MelSettings],
    ) -> Dataset:
        """Computes the power of each mel band in each frame: as `log_mel`, without the logarithm.

        >>> import forebay as fb, numpy as np
        >>> ds = fb.from_numpy({"audio": np.ones((1, 16000), np.float32)})
        >>> print(ds.mel("audio", sample_rate=16000, n_mels=64, hop=160).schema["audio"])
        float32[101, 64]

        Args:
            column: The column of sound, of one channel.
            out: The column of bands; default: the same column.
            preset: As `log_mel`.
            time_first: Whether the result is `[frames, n_mels]`, which `batch(pad=)` pads, or `[n_mels, frames]`.
            sample_rate: The sampling rate of the column; default: known from `decode_audio`.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
            settings: As `log_mel`, besides `log`, `floor` and `top_db`.
        """
        chosen = {**_settings("mel", preset, settings), "log": None}
        return self._then(self._spectrum("mel", column, out, chosen, sample_rate, time_first), keep_position, name)

    def log_mel(
        self,
        column: str,
        *,
        out: str | None = None,
        preset: Preset = "whisper",
        time_first: bool = True,
        sample_rate: int | None = None,
        keep_position: bool = False,
        name: str | None = None,
        **settings: Unpack[MelSettings],
    ) -> Dataset:
        """Computes the logarithm of the power of each mel band in each frame.

        Presets give the numbers of `WhisperFeatureExtractor`, of librosa's `power_to_db(melspectrogram())`, of
        torchaudio's `MelSpectrogram` with `AmplitudeToDB(top_db=80)`, and of Kaldi's `fbank` without dither. Each of
        their settings can be given another value.

        >>> import forebay as fb, numpy as np
        >>> ds = fb.from_numpy({"audio": np.zeros((1, 480_000), np.float32)})
        >>> print(ds.log_mel("audio", out="mel", sample_rate=16000, time_first=False).schema["mel"])
        float32[80, 3000]

        Args:
            column: The column of sound, of one channel.
            out: The column of bands; default: the same column.
            preset: `"whisper"`, `"librosa"`, `"torchaudio"` or `"kaldi"`.
            time_first: Whether the result is `[frames, n_mels]`, which `batch(pad=)` pads, or `[n_mels, frames]`, as
                Whisper, librosa and torchaudio have it.
            sample_rate: The sampling rate of the column; default: known from `decode_audio`.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
            settings: `n_fft`, `win_length`, `hop`, `window`, `edge` and `power` as `spectrogram`; `n_mels`, the number
                of bands; `fmin` and `fmax`, in Hz; `scale`, `"slaney"`, `"htk"` or `"kaldi"`; `norm`, `"slaney"` for
                bands of equal area, or `None`; `log`, `"natural"`, `"ten"`, `"db"` or `"whisper"`; `floor`, the least
                power; `top_db`, the range of `"db"`; `preemphasis`; `remove_mean` of each frame.
        """
        chosen = _settings("log_mel", preset, settings)
        return self._then(self._spectrum("log_mel", column, out, chosen, sample_rate, time_first), keep_position, name)

    def mfcc(
        self,
        column: str,
        *,
        out: str | None = None,
        n_mfcc: int = 20,
        preset: Preset = "librosa",
        time_first: bool = True,
        sample_rate: int | None = None,
        keep_position: bool = False,
        name: str | None = None,
        **settings: Unpack[MelSettings],
    ) -> Dataset:
        """Computes mel-frequency cepstral coefficients: the orthonormal cosine transform of `log_mel`.

        >>> import forebay as fb, numpy as np
        >>> ds = fb.from_numpy({"audio": np.zeros((1, 22050), np.float32)})
        >>> print(ds.mfcc("audio", n_mfcc=13, sample_rate=22050).schema["audio"])
        float32[44, 13]

        Args:
            column: The column of sound, of one channel.
            out: The column of coefficients; default: the same column.
            n_mfcc: The number of coefficients, at most that of the bands.
            preset: As `log_mel`: `"librosa"` and `"torchaudio"` give the numbers of their `mfcc` and `MFCC`.
            time_first: Whether the result is `[frames, n_mfcc]`, which `batch(pad=)` pads, or `[n_mfcc, frames]`.
            sample_rate: The sampling rate of the column; default: known from `decode_audio`.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
            settings: As `log_mel`.
        """
        chosen = _settings("mfcc", preset, settings)
        op = self._spectrum("mfcc", column, out, chosen, sample_rate, time_first)
        op["mfcc"] = arguments.whole(n_mfcc, "mfcc", "n_mfcc", 1)
        return self._then(op, keep_position, name)

    def spec_augment(
        self,
        column: str,
        *,
        freq_masks: int = 2,
        freq_width: int = 27,
        time_masks: int = 2,
        time_width: int = 100,
        time_ratio: float = 1.0,
        value: float = 0.0,
        time_first: bool | None = None,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Masks bands of frequencies and spans of time of a spectrum, at random (SpecAugment, without warping).

        The width of each mask is uniform from 0 to the greatest, and then its place among those with room.

        >>> import forebay as fb, numpy as np
        >>> ds = fb.from_numpy({"mel": np.ones((1, 300, 80), np.float32)}).spec_augment("mel")
        >>> sorted(set(next(iter(ds))["mel"].ravel().tolist()))
        [0.0, 1.0]

        Args:
            column: The column of spectra.
            freq_masks: The number of bands.
            freq_width: The greatest width of a band.
            time_masks: The number of spans.
            time_width: The greatest length of a span, in frames.
            time_ratio: The greatest share of the frames that one span masks.
            value: The value of masked places.
            time_first: Whether the column is `[frames, bins]`; default: as the op that made it, else true.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        if time_first is None:
            maker = self._maker(column, "spectrogram")
            time_first = True if maker is None else bool(maker["time_first"])
        most = 2**31 - 1
        op = {
            "op": "spec_augment",
            "column": column,
            "time_first": arguments.flag(time_first, "spec_augment", "time_first"),
            "freq_masks": arguments.whole(freq_masks, "spec_augment", "freq_masks", 0),
            "freq_width": arguments.whole(freq_width, "spec_augment", "freq_width", 0, most),
            "time_masks": arguments.whole(time_masks, "spec_augment", "time_masks", 0),
            "time_width": arguments.whole(time_width, "spec_augment", "time_width", 0, most),
            "time_ratio": arguments.number(time_ratio, "spec_augment", "time_ratio"),
            "value": arguments.number(value, "spec_augment", "value"),
        }
        return self._then(op, keep_position, name)

    def _spectrum(
        self,
        op: str,
        column: str,
        out: str | None,
        settings: dict[str, Any],
        sample_rate: int | None,
        time_first: bool,
    ) -> dict[str, Any]:
        """Returns the engine's op of settings that are known by name."""
        rate = self._rate_of(column, sample_rate, op)
        n_fft = arguments.whole(settings.get("n_fft", 400), op, "n_fft", 1)
        win_length = arguments.whole(settings.get("win_length", n_fft), op, "win_length", 1)
        edge = settings.get("edge")
        made: dict[str, Any] = {
            "op": "spectrogram",
            "column": column,
            "output": column if out is None else arguments.text(out, op, "out"),
            "sample_rate": rate,
            "n_fft": n_fft,
            "win_length": win_length,
            "hop": arguments.whole(settings.get("hop", max(1, win_length // 2)), op, "hop", 1),
            "window": arguments.choice(settings["window"], op, "window", "hann", "hamming", "povey", "ones"),
            "edge": None if edge is None else arguments.choice(edge, op, "edge", "reflect", "zeros"),
            "drop_last": settings.get("drop_last", False),
            "remove_mean": arguments.flag(settings.get("remove_mean", False), op, "remove_mean"),
            "preemphasis": arguments.number(settings.get("preemphasis", 0.0), op, "preemphasis"),
            "power": arguments.whole(settings.get("power", 2), op, "power", 1, 2),
            "time_first": arguments.flag(time_first, op, "time_first"),
        }
        if "n_mels" in settings:
            made["mel"] = _mel(op, settings, rate)
        if settings.get("log") is not None:
            made["log"] = _log(op, settings)
        return made

    def _rate_of(self, column: str, given: int | None, op: str, argument: str = "sample_rate") -> int:
        """Returns the sampling rate of a column: as given, or as the last op that set it."""
        if given is not None:
            return _rate(given, op, argument)
        maker = self._maker(column, "decode_audio", "resample_audio")
        if maker is not None and maker.get("sample_rate") is not None:
            return int(maker["sample_rate"])
        raise InvalidPipelineError(
            f"{op}: the sampling rate of column {column!r} is not known",
            {"hint": f"write decode_audio(sample_rate=16000) before it, or {argument}= here"},
        )

    def _maker(self, column: str, *kinds: str) -> dict[str, Any] | None:
        """Returns the last op of some kinds that made a column."""
        nodes = json.loads(self._pipeline.to_json())["nodes"]
        ops = (node["op"] for node in reversed(nodes))
        return next((op for op in ops if op["op"] in kinds and op.get("output", op["column"]) == column), None)


def _settings(op: str, preset: str, given: MelSettings) -> dict[str, Any]:
    """Returns a preset with some settings changed."""
    chosen = dict(_PRESETS[arguments.choice(preset, op, "preset", *_PRESETS)])
    known = MelSettings.__annotations__
    for key in given:
        if key not in known:
            raise TypeError(f"{op}() got an unexpected keyword argument {key!r}; settings are {', '.join(known)}")
    if "n_fft" in given and "win_length" not in given:
        chosen.pop("win_length", None)
    return {**chosen, **given}


def _mel(op: str, settings: dict[str, Any], rate: int) -> dict[str, Any]:
    norm = settings["norm"]
    fmax = settings.get("fmax")
    return {
        "bands": arguments.whole(settings["n_mels"], op, "n_mels", 1),
        "fmin": arguments.number(settings["fmin"], op, "fmin"),
        "fmax": rate / 2 if fmax is None else arguments.number(fmax, op, "fmax"),
        "scale": arguments.choice(settings["scale"], op, "scale", "slaney", "htk", "kaldi"),
        "norm": "height" if norm is None else arguments.choice(norm, op, "norm", "slaney"),
    }


def _log(op: str, settings: dict[str, Any]) -> dict[str, Any]:
    log = arguments.choice(settings["log"], op, "log", "natural", "ten", "db", "whisper")
    floor = arguments.number(settings["floor"], op, "floor")
    if log == "whisper":
        return {"whisper": {}}
    if log != "db":
        return {log: {"floor": floor}}
    top_db = settings.get("top_db")
    return {"decibels": {"floor": floor, "top_db": None if top_db is None else arguments.number(top_db, op, "top_db")}}


def _rate(value: Any, op: str, name: str) -> int:
    return arguments.whole(value, op, name, 100, 768_000)


def _samples(value: Any, rate: int, op: str, name: str) -> int:
    """Returns a time in samples."""
    seconds = arguments.number(value, op, name)
    if not 0 <= seconds <= _SECONDS_MAX:
        raise InvalidPipelineError(
            f"{op}: {name}={seconds} is out of range", {"hint": f"use seconds, 0 to {_SECONDS_MAX:.0f}"}
        )
    return round(seconds * rate)
