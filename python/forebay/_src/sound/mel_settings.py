"""The settings of spectra: presets of other libraries, and the engine's op for them."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, TypedDict

from forebay._src import arguments
from forebay._src.ops.base import Base
from forebay._src.sound.sampling_rate import rate_of

#: The library or model whose numbers `log_mel` and `mfcc` give.
Preset: TypeAlias = Literal["whisper", "librosa", "torchaudio", "kaldi"]
Window: TypeAlias = Literal["hann", "hamming", "povey", "ones"]
Scale: TypeAlias = Literal["slaney", "htk", "kaldi"]
Log: TypeAlias = Literal["natural", "ten", "db", "whisper"]


class MelSettings(TypedDict, total=False):
    """The arguments of `mel`, `log_mel` and `mfcc` that replace values of a preset."""

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


_FLOOR = 1e-10

#: The values of each preset.
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


def with_preset(op: str, preset: str, given: MelSettings) -> dict[str, Any]:
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


def spectrum_op(
    dataset: Base,
    op: str,
    column: str,
    out: str | None,
    settings: dict[str, Any],
    sample_rate: int | None,
    time_first: bool,
) -> dict[str, Any]:
    """Returns the engine's op of settings that are known by name."""
    rate = rate_of(dataset, column, sample_rate, op)
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
