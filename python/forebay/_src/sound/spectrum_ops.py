"""Ops that make spectra of sound, and mask them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Unpack

from forebay._src import arguments
from forebay._src.ops.base import Base
from forebay._src.sound.mel_settings import MelSettings, Preset, Window, spectrum_op, with_preset
from forebay._src.sound.sampling_rate import maker_of

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset


class SpectrumOps(Base):
    """Ops that make `float32[frames, bins]` of a column of sound, and masks of such columns."""

    __slots__ = ()

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
        op = spectrum_op(self, "spectrogram", column, out, settings, sample_rate, time_first)
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
        chosen = {**with_preset("mel", preset, settings), "log": None}
        return self._then(spectrum_op(self, "mel", column, out, chosen, sample_rate, time_first), keep_position, name)

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
        chosen = with_preset("log_mel", preset, settings)
        return self._then(
            spectrum_op(self, "log_mel", column, out, chosen, sample_rate, time_first), keep_position, name
        )

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
        chosen = with_preset("mfcc", preset, settings)
        op = spectrum_op(self, "mfcc", column, out, chosen, sample_rate, time_first)
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
            maker = maker_of(self, column, "spectrogram")
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
