"""Rows of CSV files: from_csv beside pyarrow's reader and, if it is installed, Polars'.

    python bench/csv_files.py --rows 4000000

Makes eight files (once): an integer, two floats, a truth value, a word, and a text in quotes. Each reader makes columns
of all rows, in batches, in a separate process, in turns, with as many threads as there are cores. The page cache is
warm.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from machine import about

FILES = 8
READERS = ("forebay", "forebay shuffled", "pyarrow", "polars")


def make(folder: Path, rows: int) -> None:
    """Writes the files, unless they are there."""
    if (folder / f"done-{rows}").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    for file in range(FILES):
        with (folder / f"{file}.csv").open("w") as to:
            to.write("id,x,y,ok,word,text\n")
            count = rows // FILES
            x, y = rng.normal(0, 1e3, count), rng.random(count)
            words = rng.integers(0, 5000, (count, 2))
            for i in range(count):
                ok = "true" if y[i] < 0.5 else "false"
                to.write(
                    f'{file * count + i},{x[i]:.6f},{y[i]:.9f},{ok},w{words[i, 0]},"text, of word {words[i, 1]}"\n'
                )
    (folder / f"done-{rows}").touch()


def read(reader: str, folder: Path) -> int:
    """Reads all rows; returns their number."""
    paths = sorted(str(path) for path in folder.glob("*.csv"))
    if reader.startswith("forebay"):
        import forebay as fb

        ds = fb.from_csv(paths)
        ds = ds.shuffle() if reader.endswith("shuffled") else ds
        return sum(len(batch["id"]) for batch in ds.batch(8192).iter(seed=1))
    if reader == "pyarrow":
        from pyarrow import csv

        return sum(batch.num_rows for path in paths for batch in csv.open_csv(path))
    import polars as pl

    return int(pl.read_csv(folder / "*.csv").height)


def main() -> None:
    """Prints rows a second of each reader, and the ratio to the fastest other one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/forebay-csv"), help="where the files are made")
    parser.add_argument("--reader", choices=READERS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.reader:
        began = time.perf_counter()
        rows = read(arguments.reader, arguments.folder)
        print(json.dumps([rows, time.perf_counter() - began]))
        return
    make(arguments.folder, arguments.rows)
    print(about("pyarrow", "polars"))
    size = sum(path.stat().st_size for path in arguments.folder.glob("*.csv"))
    print(f"{arguments.rows:,} rows in {FILES} files, {size / 1e6:.0f} MB, {len(os.sched_getaffinity(0))} cores")
    rates: dict[str, list[float]] = {}
    for _ in range(arguments.rounds):
        for reader in READERS:
            command = [sys.executable, __file__, "--folder", str(arguments.folder), "--reader", reader]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode == 0:
                rows, seconds = json.loads(done.stdout.splitlines()[-1])
                rates.setdefault(reader, []).append(rows / seconds)
            elif "ModuleNotFoundError" not in done.stderr:
                sys.exit(done.stderr)
    for reader, found in rates.items():
        print(f"{reader:18} {statistics.median(found):14,.0f} rows/s")


if __name__ == "__main__":
    main()
