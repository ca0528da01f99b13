"""The arguments of `decode_video`, checked, and the bounds of a clip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from forebay._src import arguments
from forebay._src.functions.user_errors import SampleError
from forebay.errors import InvalidPipelineError

Start: TypeAlias = float | Literal["random", "middle", "uniform"]
Short: TypeAlias = Literal["repeat", "loop", "skip", "error"]
Interpolation: TypeAlias = Literal["nearest", "area", "bilinear", "bicubic", "lanczos"]
#: What a user gives for a height and a width: one number is a square.
HeightWidth: TypeAlias = int | tuple[int, int]

#: The most frames of a row, over all clips.
FRAMES_MAX = 1 << 16
#: The most bytes of a row's pixels. Twice as much is needed where frames are repeated.
CLIP_BYTES_MAX = 1 << 30
#: The most pixels of a frame that is decoded: 8K (7,680 x 4,320). A decoder may keep 17 such frames.
FRAME_PIXELS_MAX = 1 << 25
#: The greatest height and width of a frame that is made.
_SIDE_MAX = 1 << 14


class VideoError(SampleError):
    """A video that cannot be decoded: its text goes on after "the video"."""


class DamageError(VideoError):
    """A frame that cannot be decoded from a keyframe."""


@dataclass(frozen=True)
class Settings:
    """How clips are taken from a video.

    Attributes:
        column: The column of encoded bytes, or of paths.
        out: The column of pixels.
        times: The column of presentation times.
        frames: The frames of a clip.
        stride: Each how many frames one is taken; None where `fps` is given.
        fps: How many frames are taken from a second; None where `stride` is given.
        clips: The clips of a video; None for one, without a dimension for it.
        start: Where a clip begins, as the user gave it.
        short: The action where a video ends before a clip does.
        size: Height and width to which frames are scaled.
        shorter: The shorter side to which frames are scaled.
        crop: Height and width of the part that is kept.
        crop_at: The place of this part.
        interpolation: How frames are scaled.
        ffmpeg: The versions of FFmpeg's libraries, on which bits may depend.
    """

    column: str
    out: str
    times: str | None
    frames: int
    stride: int | None
    fps: float | None
    clips: int | None
    start: Start
    short: Short
    size: tuple[int, int] | None
    shorter: int | None
    crop: tuple[int, int] | None
    crop_at: Literal["center", "random"]
    interpolation: Interpolation
    ffmpeg: str

    @property
    def is_random(self) -> bool:
        """Whether a clip depends on random numbers."""
        return self.start == "random" or (self.crop is not None and self.crop_at == "random")

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The shape of a row's pixels; None for a dimension that differs from row to row."""
        height, width = self.crop or self.size or (None, None)
        return (*self.lengths, height, width, 3)

    @property
    def lengths(self) -> tuple[int, ...]:
        """The dimensions of clips and frames."""
        return (self.frames,) if self.clips is None else (self.clips, self.frames)

    @property
    def count(self) -> int:
        """The frames of a row, over all clips."""
        return self.frames * (self.clips or 1)


def checked(op: str, **given: Any) -> Settings:
    """Checks the arguments of a user.

    >>> checked("decode_video", column="v", out="v", times=None, frames=8, stride=None, fps=None, clips=1,
    ...         start="middle", short="repeat", size=64, shorter=None, crop=None, crop_at="center",
    ...         interpolation="bilinear", ffmpeg="").shape
    (8, 64, 64, 3)
    """
    start, fps, stride, clips = given["start"], given["fps"], given["stride"], given["clips"]
    if fps is not None and stride is not None:
        raise _refused(
            op, "both stride= and fps= are given", "stride counts frames, and fps takes frames by their times"
        )
    if fps is not None:
        fps = arguments.number(fps, op, "fps")
        if not 1e-3 <= fps <= 1e4:
            raise _refused(op, f"fps={fps} is out of range", "use 0.001 to 10000 frames of a second")
    else:
        stride = arguments.whole(1 if stride is None else stride, op, "stride", 1, 1 << 20)
    frames = arguments.whole(given["frames"], op, "frames", 1, FRAMES_MAX)
    clips = arguments.whole(clips, op, "clips", 1, FRAMES_MAX)
    if frames * clips > FRAMES_MAX:
        raise _refused(op, f"{clips} clips of {frames} frames are too many", f"use up to {FRAMES_MAX} frames in all")
    settings = Settings(
        column=arguments.text(given["column"], op, "column"),
        out=arguments.text(given["out"], op, "out"),
        times=None if given["times"] is None else arguments.text(given["times"], op, "times"),
        frames=frames,
        stride=stride,
        fps=fps,
        clips=None if clips == 1 else clips,
        start=_start(op, start, clips, is_timed=fps is not None),
        short=arguments.choice(given["short"], op, "short", "repeat", "loop", "skip", "error"),  # type: ignore[arg-type]
        size=_side(op, "size", given["size"]),
        shorter=None if given["shorter"] is None else arguments.whole(given["shorter"], op, "shorter", 1, _SIDE_MAX),
        crop=_side(op, "crop", given["crop"]),
        crop_at=arguments.choice(given["crop_at"], op, "crop_at", "center", "random"),  # type: ignore[arg-type]
        interpolation=arguments.choice(  # type: ignore[arg-type]
            given["interpolation"], op, "interpolation", "nearest", "area", "bilinear", "bicubic", "lanczos"
        ),
        ffmpeg=given["ffmpeg"],
    )
    if settings.times == settings.out:
        raise _refused(op, f"times={settings.times!r} is the column of pixels", "give the times a column of their own")
    _check_sizes(op, settings)
    return settings


def _start(op: str, start: Any, clips: int, *, is_timed: bool) -> Start:
    if isinstance(start, str):
        word = arguments.choice(start, op, "start", "random", "middle", "uniform")
        if word == "middle" and clips > 1:
            raise _refused(op, f"{clips} clips cannot all be in the middle", 'use start="uniform" or start="random"')
        return word  # type: ignore[return-value]
    if clips > 1:
        raise _refused(op, f"{clips} clips have one start", 'use start="uniform" or start="random"')
    if not is_timed:
        return arguments.whole(start, op, "start", 0, 1 << 40)
    seconds = arguments.number(start, op, "start")
    if not 0 <= seconds <= 1e7:
        raise _refused(op, f"start={seconds} is out of range", "use seconds from the first frame on")
    return seconds


def _side(op: str, name: str, value: HeightWidth | None) -> tuple[int, int] | None:
    if value is None:
        return None
    found = arguments.size(value, op)
    for side in found.values():
        arguments.whole(side, op, name, 1, _SIDE_MAX)
    return found["height"], found["width"]


def _check_sizes(op: str, settings: Settings) -> None:
    size, crop, shorter = settings.size, settings.crop, settings.shorter
    if size is not None and shorter is not None:
        raise _refused(op, "both size= and shorter= are given", "shorter= keeps the shape, size= does not")
    least = size or ((shorter, shorter) if shorter is not None else None)
    if crop is not None and least is not None and (crop[0] > least[0] or crop[1] > least[1]):
        raise _refused(op, f"crop={crop} is larger than frames may be", "crop no more than size= or shorter=")
    made = crop or size
    if made is not None and settings.count * made[0] * made[1] * 3 > CLIP_BYTES_MAX:
        raise _refused(op, f"a row has more than {CLIP_BYTES_MAX >> 20} MiB", "use fewer or smaller frames")


def _refused(op: str, what: str, hint: str) -> InvalidPipelineError:
    return InvalidPipelineError(f"{op}: {what}", {"hint": hint})
