"""Ops on tables beside Polars, and packing beside TRL: rows a second and CPU time, with one thread and with two.

    python bench/tables.py --rows 1000000

Makes a Parquet file (once). Expressions, a filter, a join with a small table and a sort run over the file, each in a
process of its own, in turns. Polars' frames are collected, and Forebay's batches of 8,192 rows are counted. `pack`
makes rows of 2,048 ids of documents by best fit, as `trl.pack_dataset` does. A library that is not installed is left
out. Prints the medians of the rounds as JSON. CPU time is that of all threads; on a machine with other work it varies
less than rows a second.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from machine import about

TASKS = ("expressions", "filter", "join", "sort", "pack")
KEYS = 5000
LENGTH = 2048


def make(folder: Path, rows: int) -> Path:
    """Writes the file, unless it is there."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / f"rows-{rows}.parquet"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        rng = np.random.default_rng(0)
        words = pa.array([f"word {i}" for i in range(KEYS)])
        table = {
            "id": np.arange(rows),
            "key": rng.integers(0, KEYS, rows),
            "x": rng.standard_normal(rows),
            "y": rng.random(rows),
            "word": words.take(pa.array(rng.integers(0, KEYS, rows))),
        }
        pq.write_table(pa.table(table), path, row_group_size=65_536)
    return path


def documents(count: int) -> list[Any]:
    """Returns lists of ids; most are short."""
    rng = np.random.default_rng(1)
    lengths = np.minimum(rng.lognormal(5.5, 1.0, count), 8000)
    return [rng.integers(0, 50_000, n).astype(np.int32) for n in lengths.astype(int)]


def forebay(task: str, path: Path, threads: int) -> tuple[int, float]:
    """Runs a task; returns the rows that it reads, and the seconds."""
    import forebay as fb

    x, y = fb.col("x"), fb.col("y")
    if task == "pack":
        given = documents(40_000)
        ds = fb.from_dict({"ids": given})
        begun = time.perf_counter()
        packed = ds.pack("ids", LENGTH, strategy="best_fit", window=1000).batch(8)
        sum(len(batch["ids"]) for batch in packed.iter(threads=threads))
        return len(given), time.perf_counter() - begun
    begun = time.perf_counter()
    ds = fb.from_parquet(path)
    if task == "expressions":
        ds = ds.with_column("z", (x * 2 + y).clip(-1, 3)).with_column("n", fb.col("word").str.upper().str.len())
    elif task == "filter":
        ds = ds.filter((x > 0.5) & fb.col("word").str.ends_with("7"))
    elif task == "join":
        ds = ds.join({"key": np.arange(KEYS), "value": np.arange(KEYS) / 3}, on="key")
    else:
        ds = ds.sort("x")
    for batch in ds.batch(8192).iter(threads=threads):
        len(batch["id"])
    return _rows(path), time.perf_counter() - begun


def others(task: str, path: Path) -> tuple[int, float]:
    """Runs a task in the other library."""
    if task == "pack":
        import datasets
        from trl import pack_dataset

        given = datasets.Dataset.from_dict({"input_ids": documents(40_000)})
        begun = time.perf_counter()
        pack_dataset(given, seq_length=LENGTH, strategy="bfd")
        return len(given), time.perf_counter() - begun
    import polars as pl

    x, y = pl.col("x"), pl.col("y")
    begun = time.perf_counter()
    frame = pl.scan_parquet(path)
    if task == "expressions":
        length = pl.col("word").str.to_uppercase().str.len_chars()
        frame = frame.with_columns(z=(x * 2 + y).clip(-1, 3), n=length)
    elif task == "filter":
        frame = frame.filter((x > 0.5) & pl.col("word").str.ends_with("7"))
    elif task == "join":
        table = pl.LazyFrame({"key": np.arange(KEYS), "value": np.arange(KEYS) / 3})
        frame = frame.join(table, on="key", how="left", maintain_order="left")
    else:
        frame = frame.sort("x", maintain_order=True)
    frame.collect()
    return _rows(path), time.perf_counter() - begun


def _rows(path: Path) -> int:
    return int(path.stem.split("-")[1])


def speed(engine: str, task: str, path: Path, threads: int) -> tuple[float, float] | None:
    """Returns the rows a second and the CPU ms of a process of its own; `None` where the library is missing."""
    environment = {**os.environ, "POLARS_MAX_THREADS": str(threads)}
    done = subprocess.run(
        [sys.executable, __file__, "--one", engine, task, str(path), str(threads)],
        env=environment,
        capture_output=True,
        text=True,
    )
    if "ModuleNotFoundError" in done.stderr or "ImportError" in done.stderr:
        return None
    if done.returncode:
        raise SystemExit(done.stderr)
    rows_per_s, cpu_ms = map(float, done.stdout.split())
    return rows_per_s, cpu_ms


def main() -> None:
    """Runs the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/forebay-bench-tables"))
    parser.add_argument("--tasks", nargs="+", default=TASKS, choices=TASKS)
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        engine, task, path, threads = options.one
        module = importlib.import_module(engine if engine == "forebay" else "trl" if task == "pack" else "polars")
        # Forebay loads its names when one of them is first used: that is no part of the task.
        getattr(module, "__all__", None)
        begun = time.process_time()
        rows, seconds = forebay(task, Path(path), int(threads)) if engine == "forebay" else others(task, Path(path))
        print(rows / seconds, 1000 * (time.process_time() - begun))
        return
    path = make(options.folder, options.rows)
    found: dict[str, dict[str, Any]] = {}
    cpu: dict[str, dict[str, Any]] = {}
    for task in options.tasks:
        for threads in (1, 2):
            speeds: dict[str, list[tuple[float, float]]] = {"forebay": [], "other": []}
            for _ in range(options.rounds):
                for engine, of in speeds.items():
                    one = speed(engine, task, path, threads)
                    if one is not None:
                        of.append(one)
            for column, medians in enumerate((found, cpu)):
                medians[f"{task}, {threads} threads"] = {
                    engine: round(statistics.median(one[column] for one in of)) for engine, of in speeds.items() if of
                }
    print(json.dumps({"rows_per_s": found, "cpu_ms": cpu, "load": os.getloadavg(), "machine": about()}, indent=1))


if __name__ == "__main__":
    main()
