"""Clips of videos, compared with the frames that PyAV decodes from the beginning, and with torchcodec's."""

from __future__ import annotations

import doctest
import io
import os
import pickle
import subprocess
import sys
import tarfile
import uuid
from pathlib import Path
from typing import Any

import av
import forebay as fb
import numpy as np
import pytest
import torch
import videos
from av.video.reformatter import Interpolation, VideoReformatter
from forebay import errors as E
from forebay._src.video import reader, timeline
from videos import KINDS, clip, decoded, encoded, failure, numbers

FLAGS = Interpolation.BILINEAR | Interpolation.ACCURATE_RND | Interpolation.BITEXACT
#: Kinds whose packets have no times.
UNTIMED = {"H.264 without times"}


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return {kind: encoded(60, kind) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_frames_are_those_of_decoding_from_the_beginning(kind, files):
    every, rng, scaler = decoded(files[kind]), np.random.default_rng(7), VideoReformatter()
    assert len(every) == 60
    for start, stride, frames in [(0, 1, 60), (1, 7, 6), *rng.integers(1, 20, (6, 3)).tolist()]:
        row = clip(files[kind], start=start, stride=stride, frames=frames, size=(48, 80))
        at = [min(59, start + stride * n) for n in range(frames)]
        for pixels, n in zip(row["video"], at, strict=True):
            want = scaler.reformat(every[n], width=80, height=48, format="rgb24", interpolation=FLAGS, threads=1)
            assert np.array_equal(pixels, want.to_ndarray())
        if kind not in UNTIMED:
            assert row["times"] == pytest.approx([every[n].time - every[0].time for n in at])
    assert numbers(clip(files[kind], frames=60)["video"]) == list(range(60))


def test_a_clip_costs_the_frames_from_the_keyframe_before_it_on(files, monkeypatch):
    seen: list[int] = []
    real = reader.Reader._decode

    def counted(self, key, left):
        for frame in real(self, key, left):
            seen.append(frame.pts)
            yield frame

    monkeypatch.setattr(reader.Reader, "_decode", counted)
    file = encoded(480)
    for how, most in [({"start": 400}, 26), ({"start": "middle"}, 26), ({"clips": 5, "start": "uniform"}, 5 * 26)]:
        seen.clear()
        assert len(clip(file, frames=2, **how)["video"]) in (2, 5)
        assert 0 < len(seen) <= most
    looked: list[Any] = []
    real_scan = timeline.scan
    monkeypatch.setattr(reader, "scan", lambda *given: looked.append(real_scan(*given)) or looked[-1])
    clip(file, frames=2, start=30)
    clip(file, frames=2, start=1.0, fps=5)
    assert [line.end for line in looked] == [None, None]
    assert max(len(line.pts) for line in looked) < 90


def test_frames_are_taken_by_their_times_at_a_variable_rate():
    steps = np.random.default_rng(3).integers(4, 200, 60)
    times = (np.cumsum(steps) - steps[0]).tolist()
    file = encoded(60, times=tuple(times))
    row = clip(file, fps=8, start=0.5, frames=24)
    wanted = 0.5 + np.arange(24) / 8
    shown = [max(n for n in range(60) if times[n] / 1000 <= second + 1e-6) for second in wanted]
    assert numbers(row["video"]) == shown
    assert row["times"] == pytest.approx([times[n] / 1000 for n in shown])
    even = clip(encoded(50), fps=5, frames=10)
    assert numbers(even["video"]) == list(range(0, 50, 5))


def test_an_edit_list_that_begins_between_keyframes():
    """Frames before the beginning are decoded, and not displayed; the times of the first are negative."""
    given, file = encoded(60), io.BytesIO()
    with av.open(io.BytesIO(given)) as source, av.open(file, "w", format="mp4") as out:
        stream = out.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if packet.dts is not None:
                shift = 9 * packet.duration
                packet.pts, packet.dts, packet.stream = packet.pts - shift, packet.dts - shift, stream
                out.mux(packet)
    row = clip(file.getvalue(), frames=51, short="error")
    assert numbers(row["video"]) == list(range(9, 60))
    assert row["times"] == pytest.approx(np.arange(51) / 25)
    assert numbers(clip(file.getvalue(), frames=2, fps=5, start=0.2)["video"]) == [14, 19]


def test_a_packet_that_makes_no_frame_shows_the_frame_before_it():
    """Encoders of VP8 write frames that others refer to, and that are not displayed."""
    given, file = encoded(30, "VP8"), io.BytesIO()
    with av.open(io.BytesIO(given)) as source, av.open(file, "w", format="webm") as out:
        stream = out.add_stream_from_template(source.streams.video[0])
        for place, packet in enumerate(p for p in source.demux(video=0) if p.dts is not None):
            data = bytearray(bytes(packet))
            if place in (10, 29):
                data[0] &= 0xFF ^ 0x10
            copy = av.Packet(bytes(data))
            copy.pts, copy.dts, copy.time_base = packet.pts, packet.dts, packet.time_base
            copy.is_keyframe, copy.stream = packet.is_keyframe, stream
            out.mux(copy)
    assert len(decoded(file.getvalue())) == 28
    assert numbers(clip(file.getvalue(), frames=30)["video"]) == [*range(10), 9, *range(11, 29), 28]
    assert numbers(clip(file.getvalue(), frames=1, start=10)["video"]) == [9]


def test_image_ops_do_the_same_to_each_frame_of_a_clip_as_torchvision_does():
    """With draws that leave no choice, torchvision's transforms of a `Video` have the same pixels."""
    file, tv = encoded(8, size=(64, 96)), pytest.importorskip("torchvision")
    from torchvision.transforms import v2

    ds = fb.from_dict({"video": [file]}).decode_video("video", frames=5)
    (row,) = ds
    video = tv.tv_tensors.Video(torch.from_numpy(row["video"]).movedim(-1, -3))
    ops: list[tuple[fb.Dataset, Any, int]] = [
        (ds.random_flip("video", p=1.0), v2.RandomHorizontalFlip(1.0), 0),
        (ds.center_crop("video", (40, 51)), v2.CenterCrop((40, 51)), 0),
        (ds.random_invert("video", p=1.0), v2.RandomInvert(1.0), 0),
        (ds.random_autocontrast("video", p=1.0), v2.RandomAutocontrast(1.0), 1),
        (ds.color_jitter("video", contrast=(1.5, 1.5)), v2.ColorJitter(contrast=(1.5, 1.5)), 1),
        (ds.resize("video", shorter=32), v2.Resize(32, antialias=True), 1),
    ]
    for made, transform, apart in ops:
        (row,) = made
        want = transform(video).movedim(-3, -1).numpy().astype(int)
        assert abs(row["video"].astype(int) - want).max() <= apart, transform
    (row,) = ds.normalize("video", mean=fb.IMAGENET_MEAN, std=fb.IMAGENET_STD, layout="CTHW")
    scaled = v2.Normalize(fb.IMAGENET_MEAN, fb.IMAGENET_STD)(v2.ToDtype(torch.float32, scale=True)(video))
    # `ToDtype` multiplies by the reciprocal of 255.
    assert np.allclose(row["video"], scaled.movedim(1, 0).numpy(), rtol=1e-5, atol=1e-6)


def test_the_end_of_a_video():
    file = encoded(10)
    assert numbers(clip(file, frames=6, stride=3)["video"]) == [0, 3, 6, 9, 9, 9]
    assert numbers(clip(file, frames=6, stride=3, short="loop")["video"]) == [0, 3, 6, 9, 2, 5]
    assert numbers(clip(file, frames=3, start=40)["video"]) == [9, 9, 9]
    assert numbers(clip(file, frames=5, fps=10, short="loop")["video"]) == [0, 2, 5, 7, 0]
    assert "has 10 frames, and a clip needs 16" in failure(file, frames=6, stride=3, short="error", start="random")
    ds = fb.from_dict({"video": [file, encoded(20), file], "n": [0, 1, 2]})
    kept = ds.decode_video("video", frames=12, short="skip", start="middle", size=32)
    assert str(kept.schema) == "Schema(video: uint8[12, 32, 32, 3], n: int64)"
    assert [(row["n"], row["video"].shape) for row in kept] == [(1, (12, 32, 32, 3))]


def test_random_clips_are_anywhere_and_the_same_everywhere(tmp_path):
    for n in range(6):
        (tmp_path / f"{n}.mp4").write_bytes(encoded(16))
    ds = fb.from_files(f"{tmp_path}/*.mp4").repeat(10).shuffle()
    ds = ds.decode_video("bytes", frames=4, stride=3, start="random", times="times", size=64, crop=48, crop_at="random")
    ds = ds.drop("path").batch(8)
    first = list(ds.iter(seed=1))
    starts = np.concatenate([batch["times"][:, 0] for batch in first]) * 25
    assert set(starts.round().astype(int)) == set(range(7)), "each start that fits, and no other"
    for how in ({"threads": 1, "executor": "thread"}, {"threads": 3, "executor": "process"}):
        for a, b in zip(first, ds.iter(seed=1, **how), strict=True):
            assert np.array_equal(a["bytes"], b["bytes"])
            assert np.array_equal(a["times"], b["times"])
    with fb.up(workers=2, threads=1) as service:
        for a, b in zip(first, ds.distribute(service, job=uuid.uuid4().hex, seed=1), strict=True):
            assert np.array_equal(a["bytes"], b["bytes"])
    it = ds.iter(seed=1)
    for _ in range(5):
        next(it)
    state = it.state_dict()
    again = pickle.loads(pickle.dumps(ds)).iter(seed=1)
    again.load_state_dict(state)
    assert all(np.array_equal(a["bytes"], b["bytes"]) for a, b in zip(first[5:], again, strict=True))


DIGEST = """
import hashlib, pathlib, sys
import forebay as fb
file = pathlib.Path(sys.argv[1]).read_bytes()
for size in (None, 33, (91, 163)):
    for kind in ("bilinear", "bicubic", "area"):
        ds = fb.from_dict({"video": [file]}).decode_video("video", frames=8, size=size, interpolation=kind)
        for row in ds.iter(executor="thread"):
            print(hashlib.sha256(row["video"].tobytes()).hexdigest())
"""


def test_bits_do_not_depend_on_what_memory_held_before(tmp_path):
    """The C library fills memory with another byte in each process."""
    file = tmp_path / "odd.mp4"
    file.write_bytes(encoded(12, size=(90, 162)))
    told = set()
    for byte in ("0", "85", "170"):
        variables = {**os.environ, "MALLOC_PERTURB_": byte}
        command = [sys.executable, "-c", DIGEST, str(file)]
        told.add(subprocess.run(command, env=variables, check=True, capture_output=True, text=True).stdout)
    assert [len(digests.split()) for digests in told] == [9]


def test_clips_of_one_video_are_a_dimension():
    row = clip(encoded(100), clips=3, frames=4, stride=2, start="uniform", size=64)
    assert row["video"].shape == (3, 4, 64, 64, 3)
    assert (row["times"] * 25).round().tolist() == [[0, 2, 4, 6], [46, 48, 50, 52], [93, 95, 97, 99]]
    assert numbers(clip(encoded(41), frames=3, start="middle")["video"]) == [19, 20, 21]


def test_sizes():
    # Encoders read what lies below frames whose height is no multiple of 16, so two files would differ.
    file = encoded(4, size=(96, 160))
    assert clip(file, frames=2)["video"].shape == (2, 96, 160, 3)
    assert clip(file, frames=2, shorter=48)["video"].shape == (2, 48, 80, 3)
    whole = clip(file, frames=2, shorter=64)["video"]
    assert whole.shape == (2, 64, 106, 3)
    centre = clip(file, frames=2, shorter=64, crop=(60, 64))["video"]
    assert np.array_equal(centre, whole[:, 2:62, 21:85])
    for turn, turned in ((90, 1), (180, 2), (-90, 3)):
        pixels = clip(encoded(4, size=(96, 160), rotation=turn), frames=2, shorter=64)["video"]
        assert np.array_equal(pixels, np.rot90(whole, turned, (1, 2)))
    assert "smaller than the crop" in failure(encoded(4, size=(80, 160)), frames=2, crop=96)
    large = fb.from_dict({"video": [file]}).decode_video("video", frames=4, shorter=9000)
    with pytest.raises(E.DataError, match="take more than 1024 MiB: size= or shorter= makes them smaller"):
        list(large.iter(executor="thread"))


def test_sources(tmp_path):
    file = encoded(12)
    (tmp_path / "a.mp4").write_bytes(file)
    with tarfile.open(tmp_path / "shard.tar", "w") as tar:
        for n in range(3):
            for extension, data in (("mp4", file), ("cls", b"%d" % n)):
                member = tarfile.TarInfo(f"{n:03}.{extension}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    want = clip(file, frames=4)["video"]
    by_bytes = fb.from_files(f"{tmp_path}/*.mp4").decode_video("bytes", frames=4)
    by_path = fb.from_dict({"path": [str(tmp_path / "a.mp4")]}).decode_video("path", out="video", frames=4)
    by_shard = fb.from_tar(f"{tmp_path}/shard.tar").decode_video("mp4", frames=4)
    assert np.array_equal(next(iter(by_bytes))["bytes"], want)
    row = next(iter(by_path))
    assert np.array_equal(row["video"], want)
    assert row["path"].endswith("a.mp4")
    assert [np.array_equal(row["mp4"], want) for row in by_shard] == [True] * 3
    assert "b.mp4' is no file" in failure(str(tmp_path / "b.mp4"))
    assert "files of a store are read as bytes" in failure("s3://bucket/b.mp4")


def test_the_sound_of_a_video_is_decoded_from_the_same_bytes():
    file, rate = io.BytesIO(), 16000
    tone = 0.5 * np.sin(2 * np.pi * 440 * np.arange(rate) / rate).astype(np.float32)
    with av.open(file, "w", format="mp4") as out:
        pictures, sound = out.add_stream("libx264", rate=25), out.add_stream("aac", rate=rate, layout="mono")
        pictures.width, pictures.height, pictures.pix_fmt = videos.WIDTH, videos.HEIGHT, "yuv420p"
        for n in range(25):
            out.mux(pictures.encode(av.VideoFrame.from_ndarray(videos.picture(n), "rgb24")))
        out.mux(pictures.encode(None))
        frame = av.AudioFrame.from_ndarray(tone[None], "fltp", "mono")
        frame.sample_rate = rate
        out.mux(sound.encode(frame))
        out.mux(sound.encode(None))
    ds = fb.from_dict({"file": [file.getvalue()]}).decode_audio("file", out="audio")
    row = next(iter(ds.decode_video("file", frames=25)))
    assert numbers(row["file"]) == list(range(25))
    peak = np.abs(np.fft.rfft(row["audio"][2048 : 2048 + 8000])).argmax() * 2
    assert peak == 440
    assert len(row["audio"]) == pytest.approx(rate, abs=4096)


#: Kinds that torchcodec reads.
THEIRS = [kind for kind in KINDS if kind not in {*UNTIMED, "H.264 in MPEG-TS", "MPEG-4 in AVI", "MPEG-2"}]


@pytest.mark.parametrize("kind", THEIRS)
def test_frames_and_times_are_those_of_torchcodec(kind, files):
    decoders = torchcodec_decoders()
    theirs = decoders.VideoDecoder(files[kind], dimension_order="NHWC")
    whole = theirs.get_frames_in_range(0, len(theirs))
    ours = clip(files[kind], frames=60, short="error")
    assert len(theirs) == 60
    assert ours["times"] == pytest.approx(whole.pts_seconds.numpy() - whole.pts_seconds.numpy()[0])
    # Both convert the same frames; torchcodec's conversion of colours rounds otherwise.
    differences = np.abs(ours["video"].astype(int) - whole.data.numpy().astype(int))
    assert differences.mean() < 1.5
    assert numbers(whole.data.numpy()) == list(range(60))


def torchcodec_decoders() -> Any:
    """Returns torchcodec's module, which also needs FFmpeg on the system."""
    try:
        from torchcodec import decoders
    except Exception as error:
        pytest.skip(f"torchcodec cannot be loaded: {type(error).__name__}")
    return decoders


def test_the_example_of_the_docstring_runs():
    (test,) = doctest.DocTestFinder(recurse=False).find(fb.Dataset.decode_video, "decode_video", globs={})
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert runner.run(test).failed == 0
    assert len(test.examples) > 4


def test_the_page_runs(tmp_path, monkeypatch):
    page = Path(__file__).resolve().parents[2] / "docs" / "recipes" / "video.md"
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    for part in page.read_text().split("```python av\n")[1:]:
        exec(compile(part.partition("```")[0], str(page), "exec"), names)
