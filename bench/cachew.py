"""Cachew's sweep (USENIX ATC 2022, figure 7) on this machine: the cost at which the choice of `autocache()` pays.

    python bench/cachew.py [--rounds 3] [--store 75e6] [--dir /mnt/nvme] [--out FILE.json] [--svg FILE.svg]

A function makes rows of 110 KB 2.5 times as large and also sleeps, in place of work: from 200 to 550 ms for 900 rows.
At each point: nothing cached, rows cached as they are read, rows cached at the end, both on disk; and the choice of
`autocache()`. The table has the time of an epoch, the median from the fourth on, and the additional time in all epochs
for measuring and choosing. Every figure is of a separate process, in turns; the table has medians.

A local disk finds rows faster than any work makes them. With `--store` the cache is in an S3 server that sends so many
bytes a second (`far.py`), as Cachew's was on a file system that machines share, and an epoch has 90 rows: then it
depends on the work whether caching pays. The measured process there is a second one, which finds the rows that the
first has written to the store.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forebay as fb
import numpy as np
from chart import curves
from far import Far

#: Milliseconds of sleep for all rows, the bytes of each, and their larger size.
SLEEPS, ROW_BYTES, LARGE_BYTES = (200, 250, 300, 350, 400, 450, 500, 550), 110_000, 275_000
#: Rows in a cache on disk, and in a store.
ROWS, STORED_ROWS = 900, 90
WAYS = ("compute", "source", "full", "auto")
BATCH = 10
#: In the first epochs rows are computed for the cache, and `autocache()` measures.
FILLING, EPOCHS = 3, 12


def working(row_ms: float) -> Callable[[Any], Any]:
    """Returns a function of rows that makes them larger and sleeps."""

    def work(rows: Any) -> Any:
        time.sleep(row_ms * 1e-3 * len(rows["bytes"]))
        large = np.empty((len(rows["bytes"]), LARGE_BYTES), np.uint8)
        for i, row in enumerate(rows["bytes"]):
            for at in range(0, LARGE_BYTES, ROW_BYTES):
                part = large[i, at : at + ROW_BYTES]
                part[:] = np.frombuffer(row, np.uint8)[: len(part)]
        return {"large": large}

    return work


def dataset(folder: str, way: str, row_ms: float) -> fb.Dataset:
    """Returns the pipeline, cached in one of the ways."""
    ds = fb.from_files(f"{folder}/*.bin").shuffle()
    ds = ds.cache() if way == "source" else ds
    schema = {"large": ("uint8", (LARGE_BYTES,))}
    ds = ds.map(working(row_ms), reads=["bytes"], writes=["large"], batched=True, schema=schema).select(["large"])
    return {"full": ds.cache, "auto": ds.autocache}.get(way, lambda: ds)().batch(BATCH)


def measure(folder: str, way: str, row_ms: float) -> dict[str, Any]:
    """Returns milliseconds of an epoch with a full cache, the additional time of the others, and the cached op."""
    it = dataset(folder, way, row_ms).iter(seed=1, epochs=EPOCHS, threads=1)
    began = [(it.epoch, time.perf_counter())]
    for _ in it:
        if it.epoch != began[-1][0]:
            began.append((it.epoch, time.perf_counter()))
    began.append((EPOCHS, time.perf_counter()))
    took = [(end - begin) * 1e3 for (epoch, begin), (_, end) in itertools.pairwise(began) if epoch >= FILLING]
    kept = it.stats().get("cache", {}).get("kept")
    median = statistics.median(took)
    return {"ms": median, "beyond": sum(took) - median * len(took), "kept": kept}


def child(files: Path, kept: Path, far: Far | None, way: str, row_ms: float) -> dict[str, Any]:
    """Runs `measure` in a separate process, with a folder or a store of its own."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FOREBAY_CACHE")}
    # Memory has room for the index only.
    settings = {"FOREBAY_CACHE_MEMORY": "1MiB", "FOREBAY_CACHE": str(kept), "FOREBAY_CACHE_DISK": "1TiB"}
    if far:
        settings |= {**far.settings, "FOREBAY_CACHE": f"s3://far/{uuid.uuid4().hex}"}
    command = [sys.executable, __file__, "--measure", way, "--sleep", str(row_ms), "--folder", str(files)]
    for _ in range(2 if far else 1):
        done = subprocess.run(command, env={**environment, **settings}, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(done.stderr)
    shutil.rmtree(kept, ignore_errors=True)
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def sweep(folder: Path, rounds: int, far: Far | None) -> dict[str, Any]:
    """Measures every point, each way in turns."""
    files, rows = folder / "rows", STORED_ROWS if far else ROWS
    files.mkdir()
    for i in range(rows):
        (files / f"{i:05}.bin").write_bytes(np.random.default_rng(i).bytes(ROW_BYTES))
    points: dict[str, dict[str, Any]] = {}
    for sleep in SLEEPS:
        runs: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
        for _ in range(rounds):
            for way, found in runs.items():
                found.append(child(files, folder / "kept", far, way, sleep / rows))
        point = {way: statistics.median(run["ms"] for run in found) for way, found in runs.items()}
        off, kept = point["auto"] / min(point[way] for way in WAYS[:-1]) - 1, runs["auto"][-1]["kept"] or "nothing"
        beyond = statistics.median(run["beyond"] for run in runs["auto"])
        points[str(sleep)] = {**point, "off": off, "beyond": beyond, "kept": kept}
        figures = "".join(f"{point[way]:9.0f}" for way in WAYS)
        print(f"{sleep:5}{figures}{100 * off:7.1f} %{beyond:9.0f}  {kept}", flush=True)
    return {"rounds": rounds, "rows": rows, "ms": points}


def main() -> None:
    """Measures and prints, or runs as the measured child."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--store", type=float, help="bytes a second")
    parser.add_argument("--dir", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--svg", type=Path)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--sleep", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.folder, arguments.measure, arguments.sleep)))
        return
    print(f"sleep{''.join(f'{way:>9}' for way in WAYS)}  auto off the best; ms beyond that; kept   (ms for an epoch)")
    with tempfile.TemporaryDirectory(dir=arguments.dir) as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        far = None
        if arguments.store:
            (folder / "store").mkdir()
            far = stack.enter_context(Far(folder / "store", 0.0, arguments.store))
        found = sweep(folder, arguments.rounds, far)
    if arguments.out:
        arguments.out.write_text(json.dumps(found, indent=1) + "\n")
    if arguments.svg:
        names = {"compute": "nothing kept", "source": "rows as read", "full": "rows at the end", "auto": "autocache()"}
        lines = {names[way]: [(float(at), point[way]) for at, point in found["ms"].items()] for way in WAYS}
        arguments.svg.write_text(curves(lines, "work of an epoch, ms", "an epoch, ms"))


if __name__ == "__main__":
    main()
