"""The gain of `cache()`: epochs that are computed, found in memory and found on disk, and a cache that is too small.

    python bench/cache.py [--images 1000] [--rounds 3] [--dir /mnt/nvme] [--out bench/results/cache.json]

JPEGs of 500 by 375 pixels are decoded, cached, and then delivered unchanged (`decoded`: W1 stopped before its random
crop) or cropped at random, mirrored and normalised (`training`: W1). Every figure is of a separate process, in turns,
so that a machine that changes its speed affects all of them; the table has medians. CPU-seconds are those of the whole
process.
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

#: The size of the pictures that `forebay bench` makes.
HEIGHT, WIDTH = 375, 500
#: The first epochs find pages that the system must clear, and caches that are not full.
EPOCHS = 4


def dataset(folder: str, cached: bool, training: bool) -> fb.Dataset:
    """W1, or W1 up to its random crop, in batches."""
    ds = fb.from_image_folder(folder).drop("path").shuffle().decode_image("image", mode="RGB")
    ds = ds.cache() if cached else ds
    if not training:
        return ds.center_crop("image", (HEIGHT, WIDTH)).batch(64)
    ds = ds.random_resized_crop("image", 224, antialias=False).random_flip("image")
    return ds.normalize("image", mean=fb.IMAGENET_MEAN, std=fb.IMAGENET_STD).batch(64)


def cpu() -> float:
    """Returns the CPU-seconds of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def epochs(ds: fb.Dataset, count: int) -> list[tuple[float, float, int]]:
    """Returns seconds, CPU-seconds and images of each epoch."""
    figures = []
    for epoch in range(count):
        began, used, images = time.perf_counter(), cpu(), 0
        for batch in ds.iter(seed=1, epoch=epoch):
            images += len(batch["label"])
        figures.append((time.perf_counter() - began, cpu() - used, images))
    return figures


def measure(what: str, folder: str, training: bool) -> dict[str, float]:
    """Returns one figure, in this process: of the last epoch, when all rows are cached."""
    ds = dataset(folder, what != "computed", training)
    seconds, used, images = epochs(ds, EPOCHS)[-1]
    return {"images_per_second": images / seconds, "seconds": seconds, "cpu_per_1000": used / images * 1000}


def child(what: str, folder: str, kept: Path, bytes_of_all: int, training: bool) -> dict[str, float]:
    """Runs `measure` in a separate process."""
    settings = {
        "computed": {},
        "memory": {"FOREBAY_CACHE_MEMORY": str(4 * bytes_of_all)},
        # Memory has room for the index only.
        "disk": {"FOREBAY_CACHE_MEMORY": "1MiB", "FOREBAY_CACHE": str(kept), "FOREBAY_CACHE_DISK": "1TiB"},
        "tenth": {"FOREBAY_CACHE_MEMORY": str(bytes_of_all // 10)},
    }[what]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FOREBAY_CACHE")}
    command = [sys.executable, __file__, "--measure", what, "--folder", folder, *["--training"] * training]
    done = subprocess.run(command, env={**environment, **settings}, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def pictures(folder: Path, count: int) -> None:
    """Makes the JPEGs of `forebay bench`."""
    from forebay._src.bench.data import photos  # type: ignore[import-not-found]

    photos(folder, count)


def compare(folder: Path, images: int, rounds: int, training: bool) -> dict[str, Any]:
    """Measures everything, in turns."""
    bytes_of_all = images * HEIGHT * WIDTH * 3
    runs: dict[str, list[dict[str, float]]] = {"computed": [], "memory": [], "disk": [], "tenth": []}
    for _ in range(rounds):
        for what, figures in runs.items():
            figures.append(child(what, str(folder / "files"), folder / "kept", bytes_of_all, training))
    medians = {
        what: {name: statistics.median(f[name] for f in figures) for name in figures[0]}
        for what, figures in runs.items()
    }
    computed = medians["computed"]["seconds"]
    for found in medians.values():
        found["times_computed"] = computed / found["seconds"]
    return {"images": images, "rounds": rounds, "pipeline": name(training), "figures": medians}


def name(training: bool) -> str:
    """Returns the name of a pipeline."""
    return "training" if training else "decoded"


def main() -> None:
    """Measures and prints, or runs as the measured child."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    parser.add_argument("--training", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure, arguments.folder, arguments.training)))
        return
    with tempfile.TemporaryDirectory(dir=arguments.dir) as folder:
        pictures(Path(folder) / "files", arguments.images)
        found = [compare(Path(folder), arguments.images, arguments.rounds, training) for training in (False, True)]
    for pipeline in found:
        print(f"{pipeline['pipeline']:10} {'images/s':>10} {'x computed':>11} {'CPU-s / 1,000 images':>21}")
        for what, f in pipeline["figures"].items():
            print(f"{what:10} {f['images_per_second']:10.0f} {f['times_computed']:11.2f} {f['cpu_per_1000']:21.2f}")
    if arguments.out:
        arguments.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
