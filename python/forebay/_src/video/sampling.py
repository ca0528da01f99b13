"""Which frames a clip has: pure functions of a timeline, the arguments and the row's random numbers."""

from __future__ import annotations

import bisect
import math
from typing import Any

from forebay._src.video.settings import Settings, VideoError
from forebay._src.video.timeline import Timeline


class Short(Exception):
    """The video ends before a clip does, and the row is left out."""


def needed(settings: Settings) -> tuple[int | None, float | None]:
    """Returns the last frame, and the last second, that the clips may have; None where the end has to be known."""
    start = settings.start
    if isinstance(start, str):
        return None, None
    if settings.fps is None:
        return int(start) + (settings.frames - 1) * (settings.stride or 1), None
    return None, start + settings.frames / settings.fps


def chosen(timeline: Timeline, settings: Settings, rng: Any) -> list[int]:
    """Returns the frames of all clips, one after the other, by their places in the timeline.

    Raises:
        Short: The video is too short, and `short="skip"`.
        VideoError: The video is too short, and `short="error"`.
    """
    if settings.fps is None:
        return _by_place(timeline, settings, rng)
    return _by_time(timeline, settings, settings.fps, rng)


def _by_place(timeline: Timeline, settings: Settings, rng: Any) -> list[int]:
    count, stride = len(timeline.pts), settings.stride or 1
    room = max(0, count - (settings.frames - 1) * stride - 1)
    starts = [int(start) for start in _starts(settings, room, lambda: int(rng.integers(room + 1)))]
    wanted = [start + stride * frame for start in starts for frame in range(settings.frames)]
    if max(wanted) < count:
        return wanted
    _check_short(settings, f"has {count} frames, and a clip needs {max(wanted) + 1}")
    return [place % count if settings.short == "loop" else min(place, count - 1) for place in wanted]


def _by_time(timeline: Timeline, settings: Settings, fps: float, rng: Any) -> list[int]:
    length = math.inf if timeline.end is None else timeline.seconds(timeline.end)
    room = 0.0 if timeline.end is None else max(0.0, length - settings.frames / fps)
    starts = _starts(settings, room, lambda: room * float(rng.random()))
    wanted = [start + frame / fps for start in starts for frame in range(settings.frames)]
    if max(wanted) >= length:
        _check_short(settings, f"has {length:g} s, and a clip needs more than {max(wanted):g} s")
        if settings.short == "loop":
            wanted = [second % length for second in wanted]
    # The nearest tick, so that a time that is a frame's own but for its last bits is that frame.
    ticks = [timeline.pts[0] + math.floor(second / float(timeline.tick) + 0.5) for second in wanted]
    return [max(0, bisect.bisect_right(timeline.pts, tick) - 1) for tick in ticks]


def _starts(settings: Settings, room: Any, drawn: Any) -> list[Any]:
    """Returns where each clip begins, if it may begin anywhere from 0 to `room`."""
    clips = settings.clips or 1
    match settings.start:
        case "random":
            return [drawn() for _ in range(clips)]
        case "uniform" if clips > 1:
            return [room * clip / (clips - 1) for clip in range(clips)]
        case "middle" | "uniform":
            return [room / 2]
        case start:
            return [start]


def _check_short(settings: Settings, what: str) -> None:
    if settings.short == "skip":
        raise Short
    if settings.short == "error":
        raise VideoError(f'{what}: short="repeat", "loop" or "skip" decides about such videos')
