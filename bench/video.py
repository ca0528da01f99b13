"""Clips of videos: decode_video beside torchcodec and PyAV alone.

    python bench/video.py --videos 64

Makes videos (once): H.264, 340 x 256, 10 seconds at 30 frames a second, x264's preset "medium" with its own keyframes.
Each reader makes clips of 16 frames, every fourth one, from a random place of each video, 224 x 224, in a separate
process, in turns, on as many threads as there are cores. Seconds count from the second batch on, because processes and
libraries start before; processor time is that of all processes, their start included.

- forebay: functions in processes of their own, as is the default; "threads" is `executor="thread"`.
- torchcodec: a decoder of one thread for each video in a pool of threads, which scales the frames.
- PyAV: what a function of a user does: seek before the clip, decode to its end, scale the frames that are wanted.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import io
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from machine import about

READERS = ("forebay", "forebay, threads", "torchcodec", "PyAV")
FRAMES, STRIDE, SIDE, BATCH = 16, 4, 224, 4
LENGTH = 300


def make(folder: Path, videos: int) -> None:
    """Writes the videos, unless they are there."""
    import av

    folder.mkdir(parents=True, exist_ok=True)
    y, x = np.mgrid[0:256, 0:340]
    for video in range(videos):
        if (path := folder / f"{video:04}.mp4").exists():
            continue
        rng = np.random.default_rng(video)
        waves = rng.uniform(0.02, 0.3, (4, 3))
        with av.open(str(folder / "made"), "w", format="mp4") as out:
            stream = out.add_stream("libx264", rate=30)
            stream.width, stream.height, stream.pix_fmt = 340, 256, "yuv420p"
            for n in range(LENGTH):
                moved = [np.sin(a * x + b * y + c * n) for a, b, c in waves]
                pixels = 128 + 30 * np.stack([moved[0] + moved[1], moved[1] + moved[2], moved[2] + moved[3]], -1)
                pixels += rng.normal(0, 4, pixels.shape)
                out.mux(stream.encode(av.VideoFrame.from_ndarray(pixels.clip(0, 255).astype(np.uint8))))
            out.mux(stream.encode(None))
        (folder / "made").rename(path)


def batches(reader: str, paths: list[str]) -> Iterator[np.ndarray]:
    """Yields batches of clips."""
    if reader.startswith("forebay"):
        import forebay as fb

        ds = fb.from_files(paths).shuffle().drop("path")
        ds = ds.decode_video("bytes", frames=FRAMES, stride=STRIDE, start="random", size=SIDE).batch(BATCH)
        for batch in ds.iter(seed=1, executor="thread" if reader.endswith("threads") else None):
            yield batch["bytes"]
        return
    clip = of_torchcodec if reader == "torchcodec" else of_pyav
    rng = np.random.default_rng(1)
    starts = rng.integers(0, LENGTH - (FRAMES - 1) * STRIDE, len(paths)).tolist()
    order = [paths[i] for i in rng.permutation(len(paths))]
    if reader == "torchcodec":
        import torch

        torch.set_num_threads(1)
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        clips = pool.map(clip, order, starts)
        while batch := [made for _, made in zip(range(BATCH), clips, strict=False)]:
            yield np.stack(batch)


def of_torchcodec(path: str, start: int) -> np.ndarray:
    """Returns a clip by torchcodec."""
    from torchcodec.decoders import VideoDecoder
    from torchcodec.transforms import Resize

    decoder = VideoDecoder(
        Path(path).read_bytes(), dimension_order="NHWC", num_ffmpeg_threads=1, transforms=[Resize((SIDE, SIDE))]
    )
    return decoder.get_frames_at(list(range(start, start + FRAMES * STRIDE, STRIDE))).data.numpy()


def of_pyav(path: str, start: int) -> np.ndarray:
    """Returns a clip by PyAV alone."""
    import av

    with av.open(io.BytesIO(Path(path).read_bytes())) as container:
        stream = container.streams.video[0]
        stream.thread_type = "NONE"
        tick = round(1 / 30 / stream.time_base)
        container.seek(start * tick, stream=stream)
        made = []
        for frame in container.decode(stream):
            place = frame.pts // tick - start
            if place >= 0 and place % STRIDE == 0:
                made.append(frame.to_ndarray(width=SIDE, height=SIDE, format="rgb24", threads=1))
            if len(made) == FRAMES:
                break
        return np.stack(made)


def main() -> None:
    """Prints clips a second and processor time of each reader."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--videos", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=4, help="how often each video is read")
    parser.add_argument("--folder", type=Path, default=Path("/tmp/forebay-video"), help="where the videos are made")
    parser.add_argument("--reader", choices=READERS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.reader:
        paths = sorted(str(path) for path in arguments.folder.glob("*.mp4"))[: arguments.videos] * arguments.epochs
        began, clips = 0.0, 0
        for number, batch in enumerate(batches(arguments.reader, paths)):
            assert batch.shape[1:] == (FRAMES, SIDE, SIDE, 3), batch.shape
            began, clips = (time.perf_counter(), 0) if number == 0 else (began, clips + len(batch))
        seconds = time.perf_counter() - began
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        print(json.dumps([clips / seconds, sum(one.ru_utime + one.ru_stime for one in used) / len(paths)]))
        return
    make(arguments.folder, arguments.videos)
    print(about("av", "torchcodec"))
    print(f"{arguments.videos * arguments.epochs} clips, {len(os.sched_getaffinity(0))} cores")
    rates: dict[str, list[tuple[float, float]]] = {}
    for _ in range(arguments.rounds):
        for reader in READERS:
            given = ["--folder", str(arguments.folder), "--reader", reader, "--videos", str(arguments.videos)]
            command = [sys.executable, __file__, *given, "--epochs", str(arguments.epochs)]
            # Function processes end with their iterator, so that their processor time is known.
            variables = {**os.environ, "FOREBAY_FUNCTION_IDLE": "0"}
            done = subprocess.run(command, capture_output=True, text=True, env=variables)
            if done.returncode == 0:
                rates.setdefault(reader, []).append(json.loads(done.stdout.splitlines()[-1]))
            elif "ModuleNotFoundError" not in done.stderr and "Could not load libtorchcodec" not in done.stderr:
                sys.exit(done.stderr)
    for reader, found in rates.items():
        rate, cost = (statistics.median(figures) for figures in zip(*found, strict=True))
        print(f"{reader:18} {rate:8.1f} clips/s {cost * 1000:8.1f} CPU-s for 1,000 clips")


if __name__ == "__main__":
    main()
