"""Pixels of frames: scaled by FFmpeg, with flags that make bits equal on all processors; turned and cropped."""

from __future__ import annotations

from typing import Any

import numpy as np
from forebay._src.video.settings import CLIP_BYTES_MAX, Settings, VideoError

Array = np.ndarray[Any, Any]
_KINDS = {"nearest": "POINT", "area": "AREA", "bilinear": "BILINEAR", "bicubic": "BICUBIC", "lanczos": "LANCZOS"}


class Painter:
    """Makes pixels of frames. All frames of a row become one size."""

    def __init__(self, av: Any, settings: Settings, rng: Any, count: int) -> None:
        kinds = av.video.reformatter.Interpolation
        self._flags = getattr(kinds, _KINDS[settings.interpolation]) | kinds.ACCURATE_RND | kinds.BITEXACT
        self._scaler = av.video.reformatter.VideoReformatter()
        self._settings, self._count = settings, count
        is_drawn = settings.crop is not None and settings.crop_at == "random"
        #: Where the crop is, as shares of the room: one draw for all frames.
        self._place = (float(rng.random()), float(rng.random())) if is_drawn else (0.5, 0.5)
        self._made: Array | None = None
        self._first: tuple[int, int] | None = None

    @property
    def made(self) -> Array:
        """The pixels of all frames: `[frames, height, width, 3]`."""
        if self._made is None:
            raise VideoError("has no frame")
        return self._made

    def paint(self, place: int, frame: Any) -> None:
        """Makes the pixels of the frame at this place."""
        turns = _turns(frame)
        height, width = (frame.width, frame.height) if turns % 2 else (frame.height, frame.width)
        if self._first is None:
            self._first = (height, width)
        elif self._first != (height, width) and self._settings.size is None:
            before, now = ("x".join(map(str, reversed(size))) for size in (self._first, (height, width)))
            raise VideoError(f"has frames that change their size from {before} to {now}: size= makes all of them equal")
        tall, wide = self._scaled(height, width)
        self._check_bytes(tall, wide)
        to = (wide, tall) if turns % 2 else (tall, wide)
        scaled = self._scaler.reformat(
            frame, height=to[0], width=to[1], format="rgb24", interpolation=self._flags, threads=1
        )
        plane = scaled.planes[0]
        pixels = np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)[: to[0], : to[1] * 3]
        pixels = self._cropped(np.rot90(pixels.reshape(to[0], to[1], 3), turns))
        if self._made is None:
            self._made = np.empty((self._count, *pixels.shape), np.uint8)
        self._made[place] = pixels

    def _check_bytes(self, height: int, width: int) -> None:
        """Refuses a row that takes too much memory, before a frame of it is scaled."""
        made = self._settings.crop or (height, width)
        if max(self._settings.count * made[0] * made[1], height * width) * 3 > CLIP_BYTES_MAX:
            what = f"{self._settings.count} frames of {width}x{height}"
            raise VideoError(
                f"makes {what}, which take more than {CLIP_BYTES_MAX >> 20} MiB: size= or shorter= makes them smaller"
            )

    def _scaled(self, height: int, width: int) -> tuple[int, int]:
        """Returns height and width to which a frame of this size is scaled."""
        settings = self._settings
        if settings.size is not None:
            return settings.size
        if settings.shorter is None:
            return height, width
        least = min(height, width)
        return (
            max(1, int(settings.shorter * height / least)),
            max(1, int(settings.shorter * width / least)),
        )

    def _cropped(self, pixels: Array) -> Array:
        crop = self._settings.crop
        if crop is None:
            return pixels
        room = (pixels.shape[0] - crop[0], pixels.shape[1] - crop[1])
        if min(room) < 0:
            size = f"{pixels.shape[1]}x{pixels.shape[0]}"
            raise VideoError(f"has frames of {size}, which are smaller than the crop: shorter= makes them larger")
        if self._settings.crop_at == "center":
            top, left = (round(free / 2) for free in room)
        else:
            top, left = (min(free, int((free + 1) * share)) for free, share in zip(room, self._place, strict=True))
        return pixels[top : top + crop[0], left : left + crop[1]]


def _turns(frame: Any) -> int:
    """Returns by how many quarter turns a frame has to be turned to the left, as its container says."""
    turns: int = round(frame.rotation / 90) % 4
    return turns
