"""The presentation times of a video's frames, from the packets of its container: nothing is decoded.

Packets come in the order of decoding. Sorted by their times they are the frames in the order of display, so the n-th
frame has a time by which it is found again, at any rate. Packets before the first keyframe, and frames that
are displayed before it, cannot be decoded; frames that an edit list leaves out are not displayed.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from forebay._src.video.settings import VideoError

#: The most packets of a video that are looked at: 10 hours at 100 frames of a second, and some.
PACKETS_MAX = 1 << 22
#: By how many frames the order of display may differ from the order of decoding: H.264 and HEVC allow 16.
REORDER_MAX = 32


@dataclass(frozen=True)
class Key:
    """A keyframe: its times in the order of display and of decoding."""

    pts: int
    dts: int | None


@dataclass(frozen=True)
class Timeline:
    """The times of frames.

    Attributes:
        pts: Of each displayed frame, in the order of display, in ticks.
        keys: The keyframes, in order.
        end: The end of the last frame, in ticks; None if only the beginning was looked at.
        tick: The seconds of a tick.
        is_timed: Whether packets have times; else ticks count frames, which are found by decoding from the beginning.
    """

    pts: list[int]
    keys: list[Key]
    end: int | None
    tick: Fraction
    is_timed: bool

    def seconds(self, pts: int) -> float:
        """Returns a time in seconds from the first frame on."""
        return float((pts - self.pts[0]) * self.tick)

    def key_of(self, pts: int) -> int:
        """Returns the number of the last keyframe at or before a frame."""
        return max(0, bisect.bisect_right(self.keys, pts, key=lambda key: key.pts) - 1)

    def frames_between(self, pts: int, key: int) -> int:
        """Returns how many frames are displayed from a frame on to a keyframe."""
        return bisect.bisect_left(self.pts, self.keys[key].pts) - bisect.bisect_left(self.pts, pts)


def scan(packets: Iterator[Any], stream: Any, frames: int | None, seconds: float | None) -> Timeline:
    """Reads the times of packets, to the end or as far as frame `frames` or second `seconds` needs.

    Raises:
        VideoError: There are no frames, too many, or the file is cut off.
    """
    tick, found, durations = stream.time_base, [], 0
    keys: list[Key] = []
    until: Fraction | None = None
    end: int | None = None
    count, is_timed = 0, True
    for packet in packets:
        if packet.dts is None and packet.size == 0:
            end = 0
            break
        count += 1
        if count > PACKETS_MAX:
            raise VideoError(f"has more than {PACKETS_MAX} packets: cut it into parts")
        # A broadcast that was recorded has such packets, and decoders tell which frames they spoil.
        if packet.is_corrupt and "mpegts" not in stream.container.format.name:
            raise VideoError("is cut off, or damaged")
        pts = packet.pts
        is_timed &= pts is not None
        if not is_timed:
            continue
        if packet.is_keyframe and (not keys or pts > keys[-1].pts):
            keys.append(Key(pts, packet.dts))
        if not keys or pts < keys[0].pts or packet.is_discard:
            continue
        found.append(pts)
        durations = packet.duration or durations
        if frames is not None and len(found) > frames + REORDER_MAX:
            break
        if seconds is not None:
            until = keys[0].pts + Fraction(seconds) / tick if until is None else until
            # Frames that come later in the file are displayed later than they are decoded.
            if packet.dts is not None and packet.dts > until and len(found) > REORDER_MAX:
                break
    else:
        end = 0
    if not is_timed:
        rate = stream.average_rate or stream.guessed_rate or Fraction(25)
        return Timeline(list(range(count)), [Key(0, None)], count, 1 / Fraction(rate), is_timed=False)
    if not found:
        raise VideoError("has no frame that can be decoded" if count else "has no frame")
    found.sort()
    if end is not None:
        end = found[-1] + _duration(found, durations, stream)
    return Timeline(found, keys, end, tick, is_timed=True)


def _duration(found: list[int], given: int, stream: Any) -> int:
    """Returns the ticks of the last frame: as the file says, or else the average of the frames before it."""
    if given > 0:
        return given
    if len(found) > 1:
        return max(1, (found[-1] - found[0]) // (len(found) - 1))
    rate = stream.average_rate or stream.guessed_rate
    return max(1, round(1 / (Fraction(rate) * stream.time_base))) if rate else 1
