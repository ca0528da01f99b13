"""The function that `decode_video` runs on each row, in the process in which users' functions run."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from forebay._src.functions.user_errors import SourceError
from forebay._src.video import sampling
from forebay._src.video.pixels import Array, Painter
from forebay._src.video.reader import Reader
from forebay._src.video.settings import Settings, VideoError

#: The column that says that a video was long enough; a filter behind the op reads it.
WHOLE = "__video_is_long_enough"
#: How many clips of a row an error names.
_NAMED_CLIPS = 4


@lru_cache(maxsize=1)
def library() -> Any:
    """Returns PyAV.

    Raises:
        ImportError: It is not installed, or too old.
    """
    import av
    import av.codec.context
    import av.stream
    import av.video.reformatter

    if not (hasattr(av.stream, "Discard") and hasattr(av.video.reformatter.Interpolation, "BITEXACT")):
        raise ImportError(f"PyAV {av.__version__} is too old")
    return av


def ffmpeg_version() -> str:
    """Returns the versions of FFmpeg's decoders, containers and scaler, on which bits may depend."""
    versions = library().library_versions
    return " ".join(".".join(map(str, versions[name][:2])) for name in ("libavcodec", "libavformat", "libswscale"))


class ClipDecoder:
    """Makes clips of a row's video."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """Returns the pixels of clips, and the times of frames."""
        return self.decoded(row, None)

    def decoded(self, row: dict[str, Any], rng: Any) -> dict[str, Any]:
        """Decodes, with random numbers if the settings need them.

        Raises:
            VideoError: The video is damaged, or is no video.
            SourceError: PyAV is not installed here, or has another FFmpeg than the pipeline was written with.
        """
        settings = self.settings
        try:
            av, here = library(), ffmpeg_version()
        except ImportError as error:
            raise SourceError(f"decode_video needs PyAV here, pip install 'forebay[video]': {error}") from None
        if here != settings.ffmpeg:
            what = f"FFmpeg's libraries here are {here}, and the pipeline was written with {settings.ffmpeg}"
            raise SourceError(f"{what}: install the same version of PyAV (av) everywhere")
        source = row[settings.column]
        if source is None:
            raise VideoError(f"the video in column {settings.column!r} is missing")
        try:
            made, times = self._clips(av, source, rng)
            is_whole = True
        except sampling.Short:
            made, times, is_whole = self._nothing(), np.zeros(settings.count), False
        except VideoError as error:
            raise VideoError(f"{self._named(source)} {error}") from None
        except MemoryError:
            raise
        except Exception as error:
            # A hostile file may raise anything, and is the fault of its sample.
            raise VideoError(f"{self._named(source)} cannot be decoded: {_text(error)}") from None
        columns: dict[str, Any] = {settings.out: made.reshape(*settings.lengths, *made.shape[1:])}
        if settings.times is not None:
            columns[settings.times] = times.reshape(settings.lengths)
        if settings.short == "skip":
            columns[WHOLE] = np.bool_(is_whole)
        return columns

    def _clips(self, av: Any, source: bytes | str, rng: Any) -> tuple[Array, Array]:
        settings = self.settings
        reader = Reader(av, source)
        try:
            timeline = reader.scan(*sampling.needed(settings))
            places = sampling.chosen(timeline, settings, rng)
            wanted = sorted({timeline.pts[place] for place in places})
            painter = Painter(av, settings, rng, len(wanted))
            try:
                reader.frames(wanted, painter.paint)
            except VideoError as error:
                raise VideoError(f"{error}; {_clips_of(places, settings.frames)}") from None
        finally:
            reader.close()
        of = {pts: place for place, pts in enumerate(wanted)}
        order = [of[timeline.pts[place]] for place in places]
        made = painter.made if order == list(range(len(wanted))) else painter.made[order]
        return made, np.array([timeline.seconds(timeline.pts[place]) for place in places], np.float64)

    def _named(self, source: bytes | str) -> str:
        return f"the video {source!r}" if isinstance(source, str) else f"the video in column {self.settings.column!r}"

    def _nothing(self) -> Array:
        """Returns the pixels of a row that a filter is about to remove."""
        height, width = self.settings.crop or self.settings.size or (1, 1)
        return np.zeros((self.settings.count, height, width, 3), np.uint8)


class RandomClipDecoder(ClipDecoder):
    """As `ClipDecoder`, with the row's random numbers."""

    def __call__(self, row: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:  # type: ignore[override]
        """Returns the pixels of clips, and the times of frames."""
        return self.decoded(row, rng)


def _clips_of(places: list[int], frames: int) -> str:
    """Names the frames of the first clips of a row."""
    clips = [f"{places[at]} to {places[at + frames - 1]}" for at in range(0, len(places), frames)]
    more = f" and {len(clips) - _NAMED_CLIPS} more" if len(clips) > _NAMED_CLIPS else ""
    return f"the clip is of frames {', '.join(clips[:_NAMED_CLIPS])}{more}"


def _text(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(text).split())
