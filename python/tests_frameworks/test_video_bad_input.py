"""Videos that are damaged, hostile or no videos, and arguments that are wrong."""

from __future__ import annotations

import io
import os
import re
import struct
import sys
import zlib
from fractions import Fraction
from functools import lru_cache
from typing import Any

import av
import forebay as fb
import numpy as np
import pytest
from forebay import errors as E
from forebay._src.video import decoder
from videos import clip, encoded, failure


def resized() -> bytes:
    """A video whose frames change their size in the middle."""
    parts = [encoded(10, "H.264 without times", size=size) for size in ((96, 128), (64, 96))]
    return b"".join(parts)


def of_one_png(width: int, height: int) -> bytes:
    """A video of one black picture of this size, in few bytes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress(bytes((1 + width) * min(height, 5_000)))
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    file = io.BytesIO()
    with av.open(file, "w", format="mov") as out:
        stream = out.add_stream("png", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 64, "gray"
        out.start_encoding()
        packet = av.Packet(png)
        packet.pts, packet.dts, packet.time_base, packet.stream = 0, 0, Fraction(1, 25), stream
        packet.is_keyframe = True
        out.mux(packet)
    return file.getvalue()


@lru_cache(maxsize=1)
def hostile() -> dict[str, tuple[bytes, str]]:
    """Files that no clip can be made of, each with a part of its message."""
    whole = encoded(30)
    moov = whole.index(b"moov") - 4
    front = encoded(30, "H.264 in fragments")
    nothing = io.BytesIO()
    with av.open(nothing, "w", format="matroska") as out:
        stream = out.add_stream("mpeg4", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 64, "yuv420p"
        out.start_encoding()
    sound = io.BytesIO()
    with av.open(sound, "w", format="mp4") as out:
        stream = out.add_stream("aac", rate=16000, layout="mono")
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 16000), np.float32), "fltp", "mono")
        frame.sample_rate = 16000
        out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
    playlist = b"#EXTM3U\n#EXT-X-TARGETDURATION:5\n#EXTINF:5,\nfile:///etc/hostname\n#EXT-X-ENDLIST\n"
    return {
        "empty": (b"", "is empty"),
        "no video": (b"a text" * 100, "it is no video"),
        "index cut off": (whole[: moov + 100], "has no video, or was cut off"),
        "no index": (whole[:moov], "was cut off"),
        "no frames": (nothing.getvalue(), "was cut off"),
        "sound": (sound.getvalue(), "has no video"),
        "playlist": (playlist, "it is no video"),
        "list of files": (b"ffconcat version 1.0\nfile /etc/hostname\n", "it is no video"),
        "65,535 x 65,535": (of_one_png(65_535, 65_535), "cannot be decoded"),
        "too many pixels": (of_one_png(8_192, 4_112), "cannot be decoded"),
        "header of fragments alone": (front[: front.index(b"moof") - 4], "has no frame"),
        "sizes change": (resized(), "change their size from 128x96 to 96x64: size="),
    }


@pytest.mark.parametrize("name", hostile())
def test_a_hostile_file_fails_its_sample_alone(name):
    file, message = hostile()[name]
    assert message in failure(file, frames=16, size=None)


def test_a_file_that_is_cut_in_its_frames_fails(tmp_path):
    """The index is at the front, so the file begins as a good one."""
    whole, file = encoded(30), tmp_path / "front.mp4"
    with av.open(io.BytesIO(whole)) as given, av.open(file, "w", options={"movflags": "faststart"}) as out:
        stream = out.add_stream_from_template(given.streams.video[0])
        for packet in given.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                out.mux(packet)
    front = file.read_bytes()
    assert front.index(b"moov") < front.index(b"mdat")
    assert "is cut off: its last frame ends at byte" in failure(front[:-100])


def test_frames_that_change_their_size_are_scaled_to_one():
    assert clip(resized(), frames=20, size=(40, 56))["video"].shape == (20, 40, 56, 3)


def test_a_damaged_frame_fails_its_sample():
    whole, rng = bytearray(encoded(60, "H.264, one keyframe")), np.random.default_rng(5)
    said = set()
    for _ in range(12):
        file, at = bytearray(whole), int(rng.integers(len(whole) // 4, len(whole) - 200))
        file[at : at + 12] = rng.bytes(12)
        it = fb.from_dict({"video": [bytes(file)]}).decode_video("video", frames=60)
        it = it.iter(executor="thread", on_error="skip", error_budget=1.0)
        list(it)
        for skipped in it.skipped:
            assert skipped.error.message.endswith("; the clip is of frames 0 to 59")
            said |= set(re.findall("has a damaged frame at|cannot be decoded at", skipped.error.message))
    assert said == {"has a damaged frame at", "cannot be decoded at"}


def test_a_frame_of_the_most_pixels_is_decoded():
    assert clip(of_one_png(8_192, 4_096), frames=1, size=32)["video"].shape == (1, 32, 32, 3)


def test_a_video_of_ten_hours(tmp_path):
    """A frame of each second; a clip from anywhere is read in time."""
    short, file = encoded(250, "MPEG-4 with B-frames", size=(16, 16)), io.BytesIO()
    with av.open(io.BytesIO(short)) as given, av.open(file, "w", format="mp4") as out:
        stream = out.add_stream_from_template(given.streams.video[0])
        packets = [p for p in given.demux(video=0) if p.dts is not None]
        tick = packets[0].duration
        for turn in range(36_000 // 250):
            for made in packets:
                copy = av.Packet(bytes(made))
                copy.is_keyframe, copy.time_base, copy.stream = made.is_keyframe, made.time_base, stream
                copy.pts, copy.dts = ((t + turn * 250 * tick) * 25 for t in (made.pts, made.dts))
                out.mux(copy)
    row = clip(file.getvalue(), frames=4, fps=1, start="random", size=16)
    assert row["times"][0] > 100
    assert np.diff(row["times"]) == pytest.approx([1, 1, 1])
    assert clip(file.getvalue(), frames=2, start="middle")["times"].round().tolist() == [17999, 18000]


def test_videos_are_decoded_in_processes_of_their_own(tmp_path):
    """A file that ends its process, or takes too long, is an error of its sample, and the others come."""

    def where(row):
        return {"pid": os.getpid()}

    ds = fb.from_dict({"video": [encoded(8), encoded(30)], "n": [0, 1]}).decode_video("video", frames=8)
    assert os.getpid() not in {int(row["pid"]) for row in ds.map(where, writes=["pid"])}
    mixed = fb.concatenate([ds.map(where, writes=["pid"]), ds.map(where, writes=["pid"])])
    assert os.getpid() not in {int(row["pid"]) for row in mixed}
    assert os.getpid() in {int(row["pid"]) for row in fb.range(2).map(where, writes=["pid"])}
    # Frames of 64 MB, of which little is kept.
    large = {"shorter": 4000, "crop": 8, "interpolation": "lanczos"}
    slow = fb.from_dict({"video": [encoded(60)]}).decode_video("video", frames=60, timeout=0.05, **large)
    with pytest.raises(E.FunctionError, match=r"no answer within 0.05 s") as caught:
        list(slow)
    assert caught.value.context["sample"] == "row 0"


def test_another_ffmpeg_is_refused(monkeypatch):
    ds = fb.from_dict({"video": [encoded(4)]}).decode_video("video", frames=2)
    monkeypatch.setattr(decoder, "ffmpeg_version", lambda: "1.2 3.4 5.6")
    with pytest.raises(E.FunctionError, match="install the same version of PyAV"):
        list(ds.iter(executor="thread", on_error="skip", error_budget=1.0))
    assert fb.from_dict({"video": [encoded(4)]}).decode_video("video", frames=2).dataset_id != ds.dataset_id
    monkeypatch.setitem(sys.modules, "av", None)
    decoder.library.cache_clear()
    with pytest.raises(E.FunctionError, match=r"decode_video needs PyAV here, pip install 'forebay\[video\]'"):
        list(ds.iter(executor="thread", on_error="skip", error_budget=1.0))


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"frames": 0}, "frames=0"),
    ({"frames": 300, "clips": 300, "start": "random"}, "too many"),
    ({"stride": 2, "fps": 8}, "both stride= and fps="),
    ({"stride": 0}, "stride=0"),
    ({"fps": 0}, "fps=0"),
    ({"start": "begin"}, "unknown start 'begin'"),
    ({"start": -1}, "start=-1"),
    ({"start": 0.5}, "start is a whole number"),
    ({"start": -0.5, "fps": 8}, "start=-0.5"),
    ({"clips": 2}, "2 clips have one start"),
    ({"clips": 2, "start": "middle"}, "in the middle"),
    ({"short": "pad"}, "unknown short 'pad'"),
    ({"size": 224, "shorter": 224}, "both size= and shorter="),
    ({"size": (0, 9)}, "size=0"),
    ({"size": 20_000}, "size=20000"),
    ({"size": 64, "crop": 65}, "crop="),
    ({"size": 4096, "frames": 64}, "more than 1024 MiB"),
    ({"interpolation": "cubic"}, "unknown interpolation"),
    ({"crop_at": "left"}, "unknown crop_at"),
    ({"times": "video"}, "column of pixels"),
    ({"timeout": 0}, "timeout=0"),
]


@pytest.mark.parametrize(("how", "message"), REFUSED, ids=[str(how) for how, _ in REFUSED])
def test_arguments_are_checked_where_they_are_written(how, message):
    with pytest.raises(E.InvalidPipelineError) as caught:
        fb.from_dict({"video": [b""]}).decode_video("video", **how)
    assert message in caught.value.message
    assert caught.value.message.startswith("decode_video: ")


def test_columns_that_are_no_videos_are_refused():
    ds = fb.from_dict({"video": [b"", b""], "n": [1, 2]})
    with pytest.raises(E.InvalidPipelineError, match="column 'n' is int64, and no video"):
        ds.decode_video("n")
    with pytest.raises(E.NotFoundError, match="vide"):
        ds.decode_video("vide")
    with pytest.raises(E.InvalidPipelineError, match="comes after batch"):
        ds.batch(2).decode_video("video")
    with pytest.raises(TypeError, match="write frames=16"):
        ds.decode_video("video", num_frames=16)


def test_without_the_extra_the_error_names_it(monkeypatch):
    def absent() -> str:
        raise ImportError("No module named 'av'")

    monkeypatch.setattr(decoder, "ffmpeg_version", absent)
    with pytest.raises(E.UnavailableError) as caught:
        fb.from_dict({"video": [b""]}).decode_video("video")
    assert caught.value.hint == "pip install 'forebay[video]'"
