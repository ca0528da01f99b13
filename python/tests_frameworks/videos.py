"""Videos for tests, made by the encoders of PyAV's wheels: each frame says which it is."""

from __future__ import annotations

import io
import subprocess
import sys
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import av
import forebay as fb
import numpy as np
import pytest
from forebay import errors as E

HEIGHT, WIDTH = 96, 128
#: Codec, container, and options of the encoder, by a name.
KINDS: dict[str, tuple[str, str, dict[str, str]]] = {
    "H.264 with B-frames": ("libx264", "mp4", {"x264-params": "keyint=24:bframes=3:b-pyramid=normal"}),
    "H.264, open GOP": ("libx264", "mp4", {"x264-params": "open-gop=1:keyint=16:bframes=3:scenecut=0"}),
    "H.264, intra refresh": ("libx264", "mp4", {"x264-params": "intra-refresh=1:keyint=20:bframes=0"}),
    "H.264, one keyframe": ("libx264", "matroska", {"x264-params": "keyint=infinite"}),
    "H.264 in MPEG-TS": ("libx264", "mpegts", {"x264-params": "keyint=24"}),
    "H.264 in FLV": ("libx264", "flv", {"x264-params": "keyint=24"}),
    "H.264 without times": ("libx264", "h264", {"x264-params": "keyint=24"}),
    "H.264 in fragments": ("libx264", "mp4", {"x264-params": "keyint=24", "movflags": "frag_keyframe+empty_moov"}),
    "HEVC, open GOP": ("libx265", "mp4", {"x265-params": "keyint=16:open-gop=1:log-level=none"}),
    "AV1": ("libsvtav1", "mp4", {"svtav1-params": "keyint=24"}),
    "VP9": ("libvpx-vp9", "webm", {"auto-alt-ref": "1", "lag-in-frames": "16", "g": "24", "deadline": "realtime"}),
    "VP8": ("libvpx", "webm", {"auto-alt-ref": "1", "lag-in-frames": "16", "g": "24", "deadline": "realtime"}),
    "MPEG-4 with B-frames": ("mpeg4", "mp4", {"bf": "2", "g": "12"}),
    "MPEG-4 in AVI": ("mpeg4", "avi", {"bf": "2", "g": "12"}),
    "MPEG-2": ("mpeg2video", "mpeg", {"bf": "2", "g": "12"}),
    "10 bits": ("libx264", "mp4", {"pix_fmt": "yuv420p10le"}),
}


def picture(number: int, height: int = HEIGHT, width: int = WIDTH) -> np.ndarray[Any, Any]:
    """Returns a frame: gradients that move, and the bits of its number as light and dark squares at the top."""
    y, x = np.mgrid[0:height, 0:width]
    made = np.stack([(x + 3 * number) % 256, (2 * y + number) % 256, (x + y + 5 * number) % 256], -1).astype(np.uint8)
    made = made // 4 + 96
    side = width // 16
    for bit in range(16):
        made[:side, bit * side : (bit + 1) * side] = 235 if number >> bit & 1 else 20
    return made


def number(pixels: np.ndarray[Any, Any]) -> int:
    """Returns which frame this is."""
    side = pixels.shape[1] // 16
    middle = side // 2
    return sum(1 << bit for bit in range(16) if pixels[middle, bit * side + middle].mean() > 128)


@lru_cache(maxsize=64)
def encoded(
    frames: int = 60,
    kind: str = "H.264 with B-frames",
    *,
    times: tuple[int, ...] | None = None,
    rotation: int | None = None,
    size: tuple[int, int] = (HEIGHT, WIDTH),
    rate: int = 25,
    is_child: bool = False,
) -> bytes:
    """Returns a file. `times` are those of the frames, in milliseconds."""
    codec, container, options = KINDS[kind]
    if codec == "libsvtav1" and not is_child:
        # This encoder gives the threads of its process the highest priority, which its children would inherit.
        code = f"import sys, videos; sys.stdout.buffer.write(videos.encoded({frames}, {kind!r}, is_child=True))"
        made = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parent, capture_output=True, check=True)
        return made.stdout
    options = dict(options)
    file = io.BytesIO()
    moved = {"movflags": options.pop("movflags")} if "movflags" in options else {}
    with av.open(file, "w", format=container, container_options=moved) as out:
        stream: Any = out.add_stream(codec, rate=rate)
        stream.height, stream.width = size
        stream.pix_fmt = options.pop("pix_fmt", "yuv420p")
        stream.options = options
        stream.codec_context.thread_count = 1
        if rotation is not None:
            stream.set_display_rotation(rotation)
        if times is not None:
            stream.time_base = stream.codec_context.time_base = Fraction(1, 1000)
        for n in range(frames):
            frame = av.VideoFrame.from_ndarray(picture(n, *size), "rgb24")
            if times is not None:
                frame.pts, frame.time_base = times[n], Fraction(1, 1000)
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
    return file.getvalue()


def decoded(file: bytes) -> list[Any]:
    """Returns all frames, decoded from the beginning by PyAV alone."""
    with av.open(io.BytesIO(file)) as container:
        stream = container.streams.video[0]
        stream.thread_type = "NONE"
        stream.codec_context.flags |= av.codec.context.Flags.bitexact
        return list(container.decode(stream))


def clip(file: bytes, **how: Any) -> dict[str, Any]:
    """Returns the row of one video."""
    ds = fb.from_dict({"video": [file]}).decode_video("video", times="times", **how)
    return next(iter(ds.iter(executor="thread", seed=how.get("seed", 0))))


def numbers(pixels: np.ndarray[Any, Any]) -> list[int]:
    """Returns which frames these are."""
    return [number(frame) for frame in pixels]


def failure(file: bytes | str, **how: Any) -> str:
    """Returns the message of a video that fails, and checks that the sample is named and is left out."""
    ds = fb.from_dict({"video": [file, encoded(20)] if isinstance(file, bytes) else [file]}).decode_video(
        "video", **how
    )
    with pytest.raises(E.DataError) as caught:
        list(ds.iter(executor="thread"))
    assert caught.value.context["sample"] == "row 0"
    assert "traceback" not in caught.value.context
    assert caught.value.message.startswith("decode_video failed: the video ")
    assert caught.value.context["op"] == "decode_video"
    left = list(ds.iter(executor="thread", on_error="skip", error_budget=1.0))
    assert len(left) == (1 if isinstance(file, bytes) else 0)
    return caught.value.message
