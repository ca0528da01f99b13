"""Rows a second of shuffled Parquet that is larger than the decoded blocks in memory, beside a common alternative.

Run it with nothing else on the machine; each line is a separate process:

    .venv/bin/python bench/shuffle_window.py --rows 8000000 --folder /tmp/shuffle-window

It makes files of 250,000 rows and 39 columns (one row group each) once. Then it reads them in turns: unshuffled, with
`shuffle()`, and with a pyarrow reader over files in random order that shuffles in a buffer of 100,000 rows. For each it
prints the seconds to the first batch of 4096, rows a second after that, CPU-seconds, the peak memory, how far rows move
(1/3 of the epoch is perfect), and how many pairs of rows of a batch come from the same hundredth of the input, as a
multiple of chance. A round has a seed of its own.

With `--copies 10` each file is there ten times, as hard links, so that a source of 80,000,000 rows takes the disk space
of 8,000,000. An id is then there ten times, so the figures omit how far rows move; one batch of ten is kept for the
pairs.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq

FILE_ROWS, BATCH, BUFFER = 250_000, 4096, 100_000
Batch = dict[str, np.ndarray]


def make(folder: Path, rows: int) -> None:
    """Writes the missing files."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(rows // FILE_ROWS):
        path = folder / f"{number:04d}.parquet"
        if path.exists():
            continue
        rng = np.random.default_rng(number)
        columns: dict[str, np.ndarray] = {"id": np.arange(number * FILE_ROWS, (number + 1) * FILE_ROWS)}
        columns["label"] = rng.integers(0, 2, FILE_ROWS).astype(np.int32)
        for i in range(13):
            columns[f"number{i}"] = np.round(rng.exponential(3, FILE_ROWS), 1).astype(np.float32)
        for i in range(24):
            columns[f"class{i}"] = rng.zipf(1.3, FILE_ROWS).clip(max=10**6) if i % 2 else rng.integers(0, 50, FILE_ROWS)
        pq.write_table(pa.table(columns), path)


def linked(folder: Path, copies: int) -> Path:
    """Returns a folder with this number of links to each file."""
    if copies == 1:
        return folder
    links = folder / f"copies-{copies}"
    links.mkdir(exist_ok=True)
    for path in folder.glob("*.parquet"):
        for copy in range(copies):
            link = links / f"{copy}-{path.name}"
            if not link.exists():
                os.link(path, link)
    return links


def forebay(folder: Path, shuffled: bool, seed: int) -> Iterator[Batch]:
    """Yields Forebay's batches."""
    import forebay as fb

    ds = fb.from_parquet(str(folder / "*.parquet"))
    yield from (ds.shuffle() if shuffled else ds).batch(BATCH).iter(seed=seed)


def pyarrow_buffer(folder: Path, seed: int) -> Iterator[Batch]:
    """Yields batches of files in random order, through a buffer that is shuffled as a whole when it is full."""
    rng = np.random.default_rng(seed)
    paths = sorted(str(path) for path in folder.glob("*.parquet"))
    rng.shuffle(paths)
    held: list[pa.RecordBatch] = []
    for part in pa.dataset.dataset(paths).to_batches(batch_size=BATCH * 4):
        held.append(part)
        if sum(batch.num_rows for batch in held) < BUFFER:
            continue
        table = pa.Table.from_batches(held).combine_chunks()
        held.clear()
        table = table.take(pa.array(rng.permutation(table.num_rows)))
        for batch in table.to_batches(BATCH):
            yield {name: batch[name].to_numpy(zero_copy_only=False) for name in batch.schema.names}


READERS = {
    "unshuffled": lambda folder, seed: forebay(folder, False, seed),
    "shuffle()": lambda folder, seed: forebay(folder, True, seed),
    "pyarrow, buffer of 100,000": pyarrow_buffer,
}


def run(reader: str, folder: Path, seed: int, copies: int) -> None:
    """Reads an epoch, and prints its figures."""
    folder = linked(folder, copies)
    began, first, rows, ids = time.perf_counter(), 0.0, 0, []
    for number, batch in enumerate(READERS[reader](folder, seed)):
        first = first or time.perf_counter() - began
        rows += len(batch["id"])
        if number % copies == 0:
            # A view would keep the memory of more than this batch.
            ids.append(batch["id"].copy())
    seconds = time.perf_counter() - began - first
    used = resource.getrusage(resource.RUSAGE_SELF)
    order = np.concatenate(ids)
    hundredth = order[: len(order) // 256 * 256].reshape(-1, 256) * 100 // (order.max() + 1)
    counts = np.apply_along_axis(np.bincount, 1, hundredth[:: max(1, len(hundredth) // 2000)], minlength=100)
    same = float((counts * (counts - 1)).sum() / (len(counts) * 256 * 255) * 100)
    seen = {
        "first": first,
        "rows/s": (rows - len(ids[0])) / seconds,
        "cpu": used.ru_utime + used.ru_stime,
        "MB": used.ru_maxrss / 1024,
        "move": float(np.abs(order - np.arange(len(order))).mean() / rows) if copies == 1 else float("nan"),
        "pairs": same,
    }
    print(json.dumps(seen))


def main() -> None:
    """Reads in turns, and prints medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=8_000_000)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/shuffle-window"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--copies", type=int, default=1, help="times that each file is there")
    parser.add_argument("--reader", choices=READERS, help="read once with this one, in this process")
    parser.add_argument("--seed", type=int, default=0, help="of --reader")
    options = parser.parse_args()
    if options.reader:
        run(options.reader, options.folder, options.seed, options.copies)
        return
    make(options.folder, options.rows)
    seen: dict[str, list[dict[str, float]]] = {reader: [] for reader in READERS}
    for seed in range(options.rounds):
        for reader, all_seen in seen.items():
            command = [sys.executable, __file__, "--reader", reader, "--folder", str(options.folder)]
            command += ["--seed", str(seed), "--copies", str(options.copies)]
            all_seen.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    for reader, all_seen in seen.items():
        median = {what: float(np.median([one[what] for one in all_seen])) for what in all_seen[0]}
        print(
            f"{reader:28} first batch {median['first']:.2f} s, {median['rows/s']:>12,.0f} rows/s, "
            f"{median['cpu']:.1f} CPU-s, {median['MB']:.0f} MB, rows move {median['move']:.3f}, "
            f"pairs {median['pairs']:.1f}"
        )


if __name__ == "__main__":
    main()
