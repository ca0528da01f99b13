"""The gain of caching the bytes of remote files: two epochs of W1, from local files and from a store.

    python bench/remote.py [--images 1000] [--latency 0.02] [--rate 50e6] [--workers 4] [--rounds 1] [--out FILE.json]

The store is on this machine, answers after `latency` seconds and sends `rate` bytes a second in all (`far.py`). The
JPEGs are those of `bench/cache.py`, as files and in tar shards; each figure is of separate processes with an empty
cache folder, in turns; with several rounds, the table has medians. `fetched` is the share of the files' bytes that the
store sent. One process iterates epoch by epoch; a service runs one job of both.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import forebay as fb
from far import Far

EPOCHS = 2
BATCH = 64


def w1(files: str) -> fb.Dataset:
    """JPEG, random resized crop 224, flip, normalise to float32, batches of 64."""
    ds = fb.from_image_folder(files).drop("path").shuffle().decode_image("image", mode="RGB")
    ds = ds.random_resized_crop("image", 224, antialias=False).random_flip("image")
    return ds.normalize("image", mean=fb.IMAGENET_MEAN, std=fb.IMAGENET_STD).batch(BATCH)


def shards(files: str) -> fb.Dataset:
    """Returns the same from tar files, whose samples are read in any order."""
    ds = fb.from_tar(f"{files}/*.tar").shuffle().decode_image("jpg", mode="RGB")
    ds = ds.random_resized_crop("jpg", 224, antialias=False).random_flip("jpg")
    return ds.normalize("jpg", mean=fb.IMAGENET_MEAN, std=fb.IMAGENET_STD).batch(BATCH)


def measure(files: str, workers: int, images: int) -> list[float]:
    """Returns images a second of each epoch, in this process or by workers that it starts."""
    ds = shards(files) if files.endswith("shards") else w1(files)
    rates = []

    def epoch(batches: Any) -> None:
        began, read = time.perf_counter(), 0
        for batch in batches:
            read += len(next(iter(batch.values())))
        rates.append(read / (time.perf_counter() - began))

    if workers == 0:
        for n in range(EPOCHS):
            epoch(ds.iter(seed=1, epoch=n))
        return rates
    with fb.up(workers=workers) as service:
        it = ds.distribute(service, job="far", seed=1, epochs=EPOCHS).iter()
        for _ in range(EPOCHS):
            epoch(itertools.islice(it, -(-images // BATCH)))
    return rates


def child(files: str, workers: int, images: int, kept: Path, source: str, far: Far) -> dict[str, Any]:
    """Runs `measure` in a separate process, and returns the bytes that the store sent meanwhile."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("FOREBAY_CACHE")}
    settings = {"FOREBAY_CACHE": str(kept), "FOREBAY_CACHE_SOURCE": source, **far.settings}
    before = far.sent()
    command = [sys.executable, __file__, "--measure", files, "--workers", str(workers), "--images", str(images)]
    done = subprocess.run(command, env={**own, **settings}, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return {"images_per_second": json.loads(done.stdout.splitlines()[-1]), "sent": far.sent() - before}


def main() -> None:
    """Measures and prints, or runs as the measured child."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--latency", type=float, default=0.02)
    parser.add_argument("--rate", type=float, default=50e6)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--dir", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure, arguments.workers, arguments.images)))
        return
    with tempfile.TemporaryDirectory(dir=arguments.dir) as name:
        found = compare(Path(name), arguments)
    print(json.dumps(found, indent=2))
    if arguments.out:
        arguments.out.write_text(json.dumps(found, indent=2) + "\n")


def compare(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Measures every figure."""
    from forebay._src.bench.data import photos  # type: ignore[import-not-found]

    photos(folder / "files", arguments.images)
    tars(folder / "files", folder / "shards", 8)
    sizes = {kind: size(folder / kind) for kind in ("files", "shards")}
    ways = [
        (kind, where, source, workers)
        for kind in sizes
        for workers in (0, arguments.workers)
        for where, source in [(f"{folder}/", "off"), ("s3://far/", "off"), ("s3://far/", "on")]
    ]
    runs: dict[str, list[dict[str, Any]]] = {}
    with Far(folder, arguments.latency, arguments.rate) as far:
        for kind, where, source, workers in ways * arguments.rounds:
            with tempfile.TemporaryDirectory(dir=arguments.dir) as kept:
                found = child(where + kind, workers, arguments.images, Path(kept), source, far)
            what = "local" if where[0] == "/" else f"remote, source cache {source}"
            called = f"{kind}, {what}, {f'{workers} workers' if workers else 'one process'}"
            found["fetched"] = round(found.pop("sent") / sizes[kind], 3)
            print(called, found, file=sys.stderr)
            runs.setdefault(called, []).append(found)
    figures = {called: medians(found) for called, found in runs.items()}
    settings = {name: getattr(arguments, name) for name in ("images", "latency", "rate", "rounds")}
    return {**settings, "bytes": sizes, "figures": figures}


def medians(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the medians of several runs of one way: of each epoch, and of the fetched bytes."""
    rates = zip(*(run["images_per_second"] for run in runs), strict=True)
    return {
        "images_per_second": [statistics.median(of_epoch) for of_epoch in rates],
        "fetched": statistics.median(run["fetched"] for run in runs),
    }


def tars(files: Path, to: Path, count: int) -> None:
    """Puts pictures into shards, a sample each."""
    import tarfile

    to.mkdir()
    pictures = sorted(files.rglob("*.jpg"))
    for n in range(count):
        with tarfile.open(to / f"{n:03}.tar", "w") as tar:
            for path in pictures[n::count]:
                tar.add(path, f"{path.stem}.jpg")


def size(folder: Path) -> int:
    """Returns the bytes of all files."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    main()
