"""The gain of `ordered=False` if some samples are slow: rows a second, in order and in any order.

    python bench/any_order.py [--rows 20000] [--slow 0.002] [--seconds 0.25] [--threads 4] [--rounds 3]

Each row takes a millisecond, and a share of them, chosen by their number, `--seconds`: like one large image, or a
request with a late answer. The row function sleeps, so threads, and not cores, are the scarce resource.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import forebay as fb


def pipeline(rows: int, slow: float, seconds: float) -> fb.Dataset:
    """Returns rows of which a share is slow."""
    every = round(1 / slow)

    def work(row: dict[str, Any]) -> dict[str, Any]:
        time.sleep(seconds if row["id"] * 7919 % every == 0 else 0.001)
        return row

    return fb.range(rows).map(work).batch(32)


def rate(ds: fb.Dataset, ordered: bool, threads: int) -> float:
    """Returns the rows a second of one epoch."""
    began, rows = time.perf_counter(), 0
    for batch in ds.iter(ordered=ordered, threads=threads):
        rows += len(batch["id"])
    return rows / (time.perf_counter() - began)


def main() -> None:
    """Prints the rates in order and in any order."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--slow", type=float, default=0.002, help="the share of rows that are slow")
    parser.add_argument("--seconds", type=float, default=0.25, help="what one of them takes")
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    ds = pipeline(given.rows, given.slow, given.seconds)
    rates: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(given.rounds):
        for ordered in rates:
            rates[ordered].append(rate(ds, ordered, given.threads))
    mean_seconds = (1 - given.slow) * 0.001 + given.slow * given.seconds
    most = given.threads / mean_seconds
    print(f"at most {most:.0f} rows/s: {given.threads} threads, {mean_seconds * 1000:.2f} ms a row")
    for ordered, found in rates.items():
        print(f"ordered={ordered}: {statistics.mean(found):.0f} rows/s ({min(found):.0f} to {max(found):.0f})")


if __name__ == "__main__":
    main()
