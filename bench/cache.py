"""What `cache()` gains: epochs that are computed, found in memory and found on disk, and a cache that is far too small.

    python bench/cache.py [--images 1000] [--rounds 3] [--dir /mnt/nvme] [--out bench/results/cache.json]
    python bench/cache.py --cachew [--rounds 3] [--dir /mnt/nvme] [--out bench/results/cachew.json]

The pipeline is W1 stopped before its random crop: JPEGs of 500 by 375 pixels, decoded. Every figure is of a process of
its own, in turns, so that a machine that changes its speed changes all; medians are shown. CPU-seconds are those of the
whole process.

With `--cachew`, the sweep of Cachew's figure 7 on this machine: rows of 110 KB, made 2.5 times as large, with a sleep
that stands for their work, from 200 to 550 ms for 900 rows. At each point: nothing kept, rows kept as they are read,
rows kept at the end, both on disk; and what `autocache()` chooses. The epoch that is shown is the fourth.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
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


#: Cachew's sweep: milliseconds of sleep for so many rows of so many bytes, made larger by that.
SLEEPS, SWEEP_ROWS, ROW_BYTES, INFLATED = (200, 250, 300, 350, 400, 450, 500, 550), 900, 110_000, 2.5
WAYS = ("compute", "source", "full", "auto")


def working(sleep_ms: float) -> Any:
    """A function of a batch of rows that makes them larger and sleeps."""
    import numpy as np

    def work(rows: Any) -> Any:
        time.sleep(sleep_ms * 1e-3 * len(rows["bytes"]) / SWEEP_ROWS)
        x = np.empty((len(rows["bytes"]), int(INFLATED * ROW_BYTES)), np.uint8)
        for i, row in enumerate(rows["bytes"]):
            for at in range(0, x.shape[1], ROW_BYTES):
                part = x[i, at : at + ROW_BYTES]
                part[:] = np.frombuffer(row, np.uint8)[: len(part)]
        return {"x": x}

    return work


def swept(folder: str, way: str, sleep_ms: float) -> fb.Dataset:
    """The pipeline of the sweep, kept in one of the ways."""
    ds = fb.from_files(f"{folder}/*.bin").shuffle()
    ds = ds.cache() if way == "source" else ds
    work = working(sleep_ms)
    schema = {"x": ("uint8", (int(INFLATED * ROW_BYTES),))}
    ds = ds.map(work, reads=["bytes"], writes=["x"], batched=True, schema=schema).select(["x"])
    return {"full": ds.cache, "auto": ds.autocache}.get(way, lambda: ds)().batch(50)


def sweep_point(folder: str, way: str, sleep_ms: float) -> dict[str, Any]:
    """Milliseconds for 900 rows in the fourth epoch, in this process, and what was kept."""
    it = swept(folder, way, sleep_ms).iter(seed=1, epochs=4, threads=1)
    rows, began = 0, 0.0
    for batch in it:
        if it.epoch == 3 and began:
            rows += len(batch["x"])
        elif it.epoch == 3:
            began = time.perf_counter()
    kept = it.stats().get("cache", {}).get("kept")
    return {"ms": (time.perf_counter() - began) * 1e3 / rows * SWEEP_ROWS, "kept": kept}


def cachew(folder: Path, rounds: int) -> dict[str, Any]:
    """Every point of the sweep, each way in turns."""
    import numpy as np

    files = folder / "rows"
    files.mkdir()
    for i in range(SWEEP_ROWS):
        (files / f"{i:05}.bin").write_bytes(np.random.default_rng(i).bytes(ROW_BYTES))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FOREBAY_CACHE")}
    points: dict[str, dict[str, Any]] = {}
    for sleep in SLEEPS:
        runs: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
        for turn in range(rounds):
            for way, found in runs.items():
                kept = folder / f"{sleep}-{turn}-{way}"
                # In memory there is room for the index alone.
                settings = {"FOREBAY_CACHE_MEMORY": "1MiB", "FOREBAY_CACHE": str(kept), "FOREBAY_CACHE_DISK": "1TiB"}
                command = [sys.executable, __file__, "--measure", f"{way}:{sleep}", "--folder", str(files)]
                done = subprocess.run(
                    command, env={**environment, **settings}, capture_output=True, text=True, check=False
                )
                if done.returncode != 0:
                    sys.exit(done.stderr)
                found.append(json.loads(done.stdout.splitlines()[-1]))
                shutil.rmtree(kept, ignore_errors=True)
        point = {way: statistics.median(run["ms"] for run in found) for way, found in runs.items()}
        best = min(point[way] for way in WAYS[:-1])
        points[str(sleep)] = {**point, "off": point["auto"] / best - 1, "kept": runs["auto"][-1]["kept"]}
        figures = "".join(f"{point[way]:9.0f}" for way in WAYS)
        print(f"{sleep:5}{figures}{100 * points[str(sleep)]['off']:7.1f} %  {points[str(sleep)]['kept'] or 'nothing'}")
    return {"rounds": rounds, "ms_per_900_rows": points}


def main() -> None:
    """Measures and prints, or is the child that is measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--cachew", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure and ":" in arguments.measure:
        way, sleep = arguments.measure.split(":")
        print(json.dumps(sweep_point(arguments.folder, way, float(sleep))))
        return
    if arguments.measure:
        print(json.dumps(measure(arguments.measure, arguments.folder)))
        return
    if arguments.cachew:
        print(f"sleep{''.join(f'{way:>9}' for way in WAYS)}  auto off the best; kept   (ms for {SWEEP_ROWS} rows)")
        with tempfile.TemporaryDirectory(dir=arguments.dir) as folder:
            found = cachew(Path(folder), arguments.rounds)
        if arguments.out:
            arguments.out.write_text(json.dumps(found, indent=1) + "\n")
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
