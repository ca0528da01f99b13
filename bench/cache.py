"""What `cache()` gains: epochs that are computed, found in memory and found on disk, and a cache that is far too small.

    python bench/cache.py [--images 1000] [--rounds 3] [--dir /mnt/nvme] [--out bench/results/cache.json]

The pipeline is W1 stopped before its random crop: JPEGs of 500 by 375 pixels, decoded. Every figure is of a process of
its own, in turns, so that a machine that changes its speed changes all; medians are shown. CPU-seconds are those of the
whole process.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import forebay as fb

#: Of the pictures that `forebay bench` makes.
HEIGHT, WIDTH = 375, 500


def decoded(folder: str, cached: bool) -> fb.Dataset:
    """W1 up to its random crop, in batches."""
    ds = fb.from_image_folder(folder).drop("path").shuffle().decode_image("image", mode="RGB")
    return (ds.cache() if cached else ds).center_crop("image", (HEIGHT, WIDTH)).batch(64)


def cpu() -> float:
    """CPU-seconds of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def epochs(ds: fb.Dataset, count: int) -> list[tuple[float, float, int]]:
    """Seconds, CPU-seconds and images of each epoch."""
    figures = []
    for epoch in range(count):
        began, used, images = time.perf_counter(), cpu(), 0
        for batch in ds.iter(seed=1, epoch=epoch):
            images += len(batch["label"])
        figures.append((time.perf_counter() - began, cpu() - used, images))
    return figures


def measure(what: str, folder: str) -> dict[str, float]:
    """One figure, in this process: of the last epoch, when everything that is kept is there."""
    ds = decoded(folder, what != "computed")
    seconds, used, images = epochs(ds, 3 if what != "computed" else 2)[-1]
    return {"images_per_second": images / seconds, "seconds": seconds, "cpu_per_1000": used / images * 1000}


def child(what: str, folder: str, kept: Path, bytes_of_all: int) -> dict[str, float]:
    """Runs `measure` in a process of its own."""
    settings = {
        "computed": {},
        "memory": {"FOREBAY_CACHE_MEMORY": str(4 * bytes_of_all)},
        # In memory there is room for the index alone.
        "disk": {"FOREBAY_CACHE_MEMORY": "1MiB", "FOREBAY_CACHE": str(kept), "FOREBAY_CACHE_DISK": "1TiB"},
        "tenth": {"FOREBAY_CACHE_MEMORY": str(bytes_of_all // 10)},
    }[what]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FOREBAY_CACHE")}
    command = [sys.executable, __file__, "--measure", what, "--folder", folder]
    done = subprocess.run(command, env={**environment, **settings}, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def pictures(folder: Path, count: int) -> None:
    """Makes the JPEGs that `forebay bench` measures with."""
    from forebay._src.bench.data import photos  # type: ignore[import-not-found]

    photos(folder, count)


def compare(folder: Path, images: int, rounds: int) -> dict[str, Any]:
    """Everything, in turns."""
    bytes_of_all = images * HEIGHT * WIDTH * 3
    runs: dict[str, list[dict[str, float]]] = {"computed": [], "memory": [], "disk": [], "tenth": []}
    for _ in range(rounds):
        for what, figures in runs.items():
            figures.append(child(what, str(folder / "files"), folder / "kept", bytes_of_all))
    medians = {
        what: {name: statistics.median(f[name] for f in figures) for name in figures[0]}
        for what, figures in runs.items()
    }
    computed = medians["computed"]["seconds"]
    for found in medians.values():
        found["times_computed"] = computed / found["seconds"]
    return {"images": images, "rounds": rounds, "figures": medians}


def main() -> None:
    """Measures and prints, or is the child that is measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure, arguments.folder)))
        return
    with tempfile.TemporaryDirectory(dir=arguments.dir) as folder:
        pictures(Path(folder) / "files", arguments.images)
        found = compare(Path(folder), arguments.images, arguments.rounds)
    print(f"{'epoch':10} {'images/s':>10} {'x computed':>11} {'CPU-s / 1,000 images':>21}")
    for what, f in found["figures"].items():
        print(f"{what:10} {f['images_per_second']:10.0f} {f['times_computed']:11.2f} {f['cpu_per_1000']:21.2f}")
    if arguments.out:
        arguments.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
