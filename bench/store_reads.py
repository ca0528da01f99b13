"""The rate at which one process and workers read a store: tar shards and Parquet, in order and shuffled.

    python bench/store_reads.py [--latency 0.02] [--rate 200e6] [--workers 1 2] [--only parquet]

The store is on this machine, answers after `latency` seconds and sends `rate` bytes a second in all (`far.py`). It has
16 shards of 250 samples of 110 KB, and 24 Parquet files of ten float32 columns with row groups of 20,000 rows (1.1 MB).
Samples are batched and not decoded. A shuffle of all rows decodes the row groups in each process, one over windows of
16 MiB in one of them. Each figure is of a separate process, without a cache of the files; `fetched` is the share of the
files' bytes that the store sent.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import forebay as fb
import numpy as np
from far import Far

SHARDS, SAMPLES = 16, 250
FILES, ROWS, GROUP_ROWS, COLUMNS = 24, 200_000, 20_000, 10

PIPELINES: dict[str, Callable[[], fb.Dataset]] = {
    "tar": lambda: fb.from_tar("s3://far/tar/*.tar").batch(50),
    "tar, shuffled": lambda: fb.from_tar("s3://far/tar/*.tar").shuffle().batch(50),
    "parquet": lambda: fb.from_parquet("s3://far/parquet/*.parquet").batch(4096),
    "parquet, shuffled": lambda: fb.from_parquet("s3://far/parquet/*.parquet").shuffle().batch(4096),
    "parquet, windows": lambda: fb.from_parquet("s3://far/parquet/*.parquet").shuffle(window="16MiB").batch(4096),
}


def make(folder: Path) -> dict[str, int]:
    """Writes the files, and returns the bytes of each format."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    for name in ("tar", "parquet"):
        (folder / name).mkdir()
    for shard in range(SHARDS):
        with tarfile.open(folder / "tar" / f"{shard:03}.tar", "w") as tar:
            for sample in range(SAMPLES):
                entry = tarfile.TarInfo(f"{shard:03}{sample:04}.bin")
                entry.size = int(rng.integers(80_000, 140_000))
                tar.addfile(entry, io.BytesIO(rng.bytes(entry.size)))
    for file in range(FILES):
        table = pa.table({f"c{n}": rng.random(ROWS, dtype=np.float32) for n in range(COLUMNS)})
        pq.write_table(table, folder / "parquet" / f"{file:03}.parquet", row_group_size=GROUP_ROWS)
    return {name: sum(p.stat().st_size for p in (folder / name).iterdir()) for name in ("tar", "parquet")}


def measure(name: str, workers: int) -> dict[str, float]:
    """Reads an epoch in this process, or by workers that it starts."""
    ds, rows, first = PIPELINES[name](), 0, 0.0
    with fb.up(workers=workers) if workers else contextlib.nullcontext() as service:
        began = time.perf_counter()
        batches = ds.distribute(service, job="store", seed=1).iter() if service else ds.iter(seed=1)
        for batch in batches:
            first = first or time.perf_counter() - began
            rows += len(next(iter(batch.values())))
        took = time.perf_counter() - began
    return {"first_batch_s": round(first, 2), "rows_per_s": round(rows / took)}


def main() -> None:
    """Measures and prints, or runs as the measured child."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency", type=float, default=0.02)
    parser.add_argument("--rate", type=float, default=200e6)
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--only", default="", help="pipelines whose name begins so")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure, arguments.workers[0])))
        return
    with tempfile.TemporaryDirectory() as made:
        sizes = make(Path(made))
        with Far(Path(made), arguments.latency, arguments.rate) as far:
            for name in PIPELINES:
                for workers in [0, *arguments.workers] if name.startswith(arguments.only) else []:
                    before = far.sent()
                    command = [sys.executable, __file__, "--measure", name, "--workers", str(workers)]
                    env = {**os.environ, "FOREBAY_CACHE_SOURCE": "off", **far.settings}
                    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True)
                    found = json.loads(done.stdout.splitlines()[-1])
                    found["fetched"] = round((far.sent() - before) / sizes[name.partition(",")[0]], 2)
                    print(f"{name}, {f'{workers} workers' if workers else 'one process'}: {found}", flush=True)


if __name__ == "__main__":
    main()
