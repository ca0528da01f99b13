"""The gain from the order of ops: pipelines in a naive order, run as written, reordered, and measured first.

    python bench/order.py [--images 600] [--rounds 5] [--threads 0] [--out FILE.json] [--svg FILE.svg]

`resnet` is Pecan's ResNet-50 pipeline in its naive order (decode, mirror, change colours on whole images, resize late,
to floats, and the filter last); `augment` the same without a filter; `table` the same mistake without images: a costly
function before a filter that keeps a tenth. Every order has a turn in each round, so a machine that changes its speed
affects all of them; the table has medians.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from pathlib import Path

import forebay as fb
import numpy as np
from chart import bars


def augment(folder: Path) -> fb.Dataset:
    """JPEGs of 500 by 375 pixels, changed before they are made smaller."""
    return (
        fb.from_image_folder(str(folder))
        .shuffle()
        .decode_image("image", mode="RGB")
        .random_flip("image")
        .color_jitter("image", brightness=0.4, contrast=0.4, saturation=0.4)
        .with_column("wanted", fb.col("label") % 2)
        .resize("image", (224, 224))
        .normalize("image", mean=fb.IMAGENET_MEAN, std=fb.IMAGENET_STD, layout="CHW")
    )


def resnet(folder: Path) -> fb.Dataset:
    """Keeps half of the classes."""
    return augment(folder).filter(fb.col("wanted") == 0)


def waves(row: dict[str, np.generic]) -> dict[str, object]:
    """A function that takes about a tenth of a millisecond."""
    return {"power": float(np.abs(np.fft.rfft(np.full(4096, float(row["id"])))).sum())}


def table(rows: int) -> fb.Dataset:
    """Returns numbers, of which a tenth is kept."""
    ds = fb.range(rows).map(waves, reads=["id"], writes=["power"], schema={"power": "float64"})
    return ds.filter(fb.col("id").hash_mod(10) == 0).batch(64)


def seconds(ds: fb.Dataset, order: str, threads: int) -> float:
    """Returns the time of one epoch."""
    began = time.perf_counter()
    for _ in ds.iter(seed=1, threads=threads, order=order):
        pass
    return time.perf_counter() - began


def compare(ds: fb.Dataset, rows: int, rounds: int, threads: int) -> dict[str, dict[str, float]]:
    """Returns the samples of the source that pass in a second, by order."""
    measured, relaxed = (ds.optimize(samples=64, order=order) for order in ("exact", "relaxed"))
    print(measured.explain(splits=False))
    print(ds.explain(splits=False, order="relaxed").partition("as it runs")[2])
    ways = {
        "as written": (ds, "off"),
        "exact": (ds, "exact"),
        "measured": (measured, "exact"),
        "relaxed": (ds, "relaxed"),
        "relaxed, measured": (relaxed, "relaxed"),
    }
    runs: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, (dataset, order) in ways.items():
            runs[way].append(seconds(dataset, order, threads))
    medians = {way: statistics.median(times) for way, times in runs.items()}
    written = medians["as written"]
    return {way: {"rows_per_second": rows / t, "times": written / t} for way, t in medians.items()}


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--svg", type=Path)
    arguments = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        from forebay._src.bench.data import photos  # type: ignore[import-not-found]

        photos(Path(folder), arguments.images)
        rows = 10_000
        for name, pipeline in (("resnet", resnet), ("augment", augment)):
            ds = pipeline(Path(folder)).drop("path", "wanted").batch(32)
            found[name] = compare(ds, arguments.images, arguments.rounds, arguments.threads)
        found["table"] = compare(table(rows), rows, arguments.rounds, arguments.threads)
    for name, ways in found.items():
        print(f"{name:18} {'samples/s':>12} {'x as written':>13}")
        for way, figures in ways.items():
            print(f"{way:18} {figures['rows_per_second']:12.0f} {figures['times']:13.2f}")
    if arguments.out:
        arguments.out.write_text(json.dumps(found, indent=1) + "\n")
    if arguments.svg:
        panels = {
            f"{name}, samples a second": [(way, figures["rows_per_second"]) for way, figures in ways.items()]
            for name, ways in found.items()
        }
        note = f"medians of {arguments.rounds} runs in turns, {os.cpu_count()} x {platform.machine()}"
        arguments.svg.write_text(bars(panels, lambda way: way != "as written", note))


if __name__ == "__main__":
    main()
