"""Forebay's own figures on this machine: latency, the end of an epoch, small records, and what a service costs.

    make bench        (or: python bench/figures.py [--seconds 5])

Nothing here is compared with a rival; bench/README.md says how to run those beside it. Figures depend on what else the
machine does: quote ratios of one run.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import forebay as fb
import numpy as np
from PIL import Image

IMAGES = 512


def photos(folder: Path) -> None:
    """ImageNet-like files: smooth shapes and noise, 500 by 375, quality 93, 4:2:0."""
    rng = np.random.default_rng(1)
    ramp = np.linspace(0, 255, 500)[None, :, None] * np.array([1.0, 0.6, 0.3])
    for i in range(IMAGES):
        noise = rng.normal(0, 12, (375, 500, 3))
        pixels = np.clip(ramp + 40 * np.sin(np.arange(375) / (5 + i % 30))[:, None, None] + noise, 0, 255)
        out = io.BytesIO()
        Image.fromarray(pixels.astype(np.uint8)).save(out, "JPEG", quality=93, subsampling="4:2:0")
        (folder / str(i % 10)).mkdir(exist_ok=True)
        (folder / str(i % 10) / f"{i}.jpg").write_bytes(out.getvalue())


def jpeg(folder: Path) -> fb.Dataset:
    """Decode, random resized crop, flip, normalise: W1 of the comparison, on synthetic images."""
    return (
        fb.from_image_folder(folder)
        .drop("path")
        .shuffle()
        .repeat()
        .decode_image("image")
        .random_resized_crop("image", 224, antialias=False)
        .random_flip("image")
        .normalize("image", mean=fb.IMAGENET_MEAN, std=fb.IMAGENET_STD, layout="HWC")
        .batch(64)
    )


def records() -> fb.Dataset:
    """A million records of four numbers: W2 of the comparison."""
    rng = np.random.default_rng(1)
    data = {"x": rng.standard_normal((1_000_000, 4), np.float32), "y": rng.integers(0, 10, 1_000_000)}
    return fb.from_numpy(data).shuffle().repeat().with_column("x", fb.col("x") * 2.0 + 1.0).batch(256)


def rate(batches: Iterable[dict[str, Any]], column: str, seconds: float) -> float:
    """Rows a second, after a second of warming up."""
    rows, begin = 0, time.perf_counter()
    started = None
    for batch in batches:
        now = time.perf_counter()
        if started is None:
            if now - begin > 1:
                started = now
            continue
        rows += len(batch[column])
        if now - started > seconds:
            return rows / (now - started)
    return float("nan")


def milliseconds(run: Callable[[], Any], times: int = 7) -> float:
    """The median time of a call."""
    taken = []
    for _ in range(times):
        before = time.perf_counter()
        run()
        taken.append(1e3 * (time.perf_counter() - before))
    return statistics.median(taken)


def figures(seconds: float) -> dict[str, Any]:
    """Runs everything."""
    found: dict[str, Any] = {"start python and import, ms": milliseconds(import_forebay)}
    one, small = fb.range(1), records()
    found["epoch of one element, in process, ms"] = milliseconds(lambda: list(one))
    found["records/s, in process"] = rate(small.iter(), "y", seconds)
    with tempfile.TemporaryDirectory() as folder, fb.up(workers=1) as service:
        photos(Path(folder))
        images = jpeg(Path(folder))
        names = iter(range(1000))

        def remote(ds: fb.Dataset, epochs: int = 1) -> Any:
            return ds.distribute(service, job=f"bench-{next(names)}", epochs=epochs)

        found["first batch of images, in process, ms"] = milliseconds(lambda: next(iter(images)), 3)
        found["first batch of images, one worker, ms"] = milliseconds(lambda: next(iter(remote(images))), 3)
        found["epoch of one element, on a service, ms"] = milliseconds(lambda: list(remote(one)))
        found["records/s, one worker"] = rate(remote(small), "y", seconds)
        found["images/s, in process"] = rate(images.iter(), "label", seconds)
        found["images/s, one worker"] = rate(remote(images), "label", seconds)
    return found


def import_forebay() -> None:
    """Starts an interpreter that imports the package and NumPy, and ends."""
    subprocess.run([sys.executable, "-c", "import forebay"], check=True)


def main() -> None:
    """Prints the figures as a table, or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = figures(args.seconds)
    if args.json:
        print(json.dumps(found))
        return
    print(f"{platform.machine()}, {os.cpu_count()} cores, python {platform.python_version()}, numpy {np.__version__}")
    for name, value in found.items():
        print(f"  {name:<44} {value:>14,.1f}")


if __name__ == "__main__":
    main()
