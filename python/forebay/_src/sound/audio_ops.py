"""Ops on sound: decode, resample, crop, change at random."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from forebay._src import arguments
from forebay._src.ops.base import Base
from forebay._src.sound.sampling_rate import check_same_rate, checked_rate, rate_of, samples_of

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset


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
            op["sample_rate"] = checked_rate(sample_rate, "decode_audio", "sample_rate")
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

        Frequencies up to 0.91 of the lower Nyquist frequency pass within 0.001 dB. Frequencies beyond the lower rate
        are at least 100 dB down.

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
            "from_rate": rate_of(self, column, from_rate, "resample_audio", "from_rate"),
            "sample_rate": checked_rate(sample_rate, "resample_audio", "sample_rate"),
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
        rate = rate_of(self, column, sample_rate, "crop_audio")
        op = {
            "op": "crop_audio",
            "column": column,
            "start": samples_of(start, rate, "crop_audio", "start"),
            "length": samples_of(seconds, rate, "crop_audio", "seconds"),
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
        rate = rate_of(self, column, sample_rate, "random_offset")
        op = {
            "op": "random_offset",
            "column": column,
            "length": samples_of(seconds, rate, "random_offset", "seconds"),
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
            check_same_rate(self, column, noise, "random_noise")
        return self._then(op, keep_position, name)

    def random_reverb(
        self,
        column: str,
        impulse_response: str,
        *,
        shift: bool = True,
        keep_level: Literal["rms", "peak"] | None = "rms",
        p: float = 1.0,
        keep_position: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Convolves a sound with the impulse response of a room, so that it sounds as in that room.

        The sound keeps its length: what rings on behind its end is left out. A function with `map` gives each sample a
        random response of its own: see docs/recipes/speech.md. A response that is empty, silent, not finite, or longer
        than 2**18 samples is a `DataError`, whatever is drawn.

        >>> import forebay as fb, numpy as np
        >>> click, room = np.float32([[1, 0, 0, 0]]), np.float32([[0, 1, 0.5]])
        >>> ds = fb.from_numpy({"audio": click, "room": room})
        >>> [round(float(x), 3) for x in next(iter(ds.random_reverb("audio", "room", keep_level="peak")))["audio"]]
        [1.0, 0.5, 0.0, 0.0]

        Args:
            column: The column.
            impulse_response: A column of impulse responses at the sampling rate of the sound, of one channel or of as
                many as the sound.
            shift: Whether the result is moved forward by the delay of the direct sound, the greatest absolute value of
                the response, so that the sound stays at its time.
            keep_level: What stays as it was: `"rms"`, the root of the mean square, or `"peak"`, the greatest absolute
                value. `None`: the result is the convolution itself.
            p: The probability that the sound changes at all.
            keep_position: Whether the optimiser keeps the op at its place.
            name: The name of the op in errors and explanations.
        """
        op: dict[str, Any] = {
            "op": "random_reverb",
            "column": column,
            "impulse_response": arguments.text(impulse_response, "random_reverb", "impulse_response"),
            "shift": arguments.flag(shift, "random_reverb", "shift"),
            "probability": arguments.number(p, "random_reverb", "p"),
        }
        if keep_level is not None:
            op["keep_level"] = arguments.choice(keep_level, "random_reverb", "keep_level", "rms", "peak")
        check_same_rate(self, column, impulse_response, "random_reverb")
        return self._then(op, keep_position, name)
