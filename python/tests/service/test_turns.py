"""Jobs take turns on a worker of one thread between two rows, however long the morsels of the other jobs are.

Counted in rows of the slow job, not in time: each batch of the other job waits for a few of them.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import forebay as fb
import numpy as np
import pytest

BATCHES = 24
# A batch waits for the row that runs, and for rows that run while the next split is granted and the batch is fetched.
ROWS_A_BATCH = 40


class Slow:
    """Takes 20 ms for a row, and writes a byte for each."""

    def __init__(self, rows: Path) -> None:
        self.rows = str(rows)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        time.sleep(0.02)
        file = os.open(self.rows, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, b".")
        os.close(file)
        return row


def keep(row: dict[str, Any]) -> bool:
    return bool(row["id"] % 3)


def twice(row: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"id": row["id"], "text": "x" * int(row["id"] % 5)}, {"id": -row["id"], "text": ""}]


class Items:
    """A map dataset whose items take 20 ms."""

    def __init__(self, rows: Path) -> None:
        self.slow = Slow(rows)

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, row: int) -> dict[str, Any]:
        return self.slow({"id": row})


def read(batches: Iterator[Any]) -> None:
    """Reads the first batch, unless the job is cancelled before."""
    with contextlib.suppress(fb.errors.ForebayError):
        next(batches, None)


@pytest.mark.parametrize("kind", ["function", "items", "uncounted"])
def test_a_batch_waits_for_a_few_rows_of_another_job(until, tmp_path, kind):
    """It waited for a whole morsel: 64 rows a batch."""
    rows = tmp_path / "rows"
    slow = {
        "function": lambda: fb.range(1_000_000).map(Slow(rows)),
        "items": lambda: fb.from_map_dataset(Items(rows)),
        "uncounted": lambda: fb.range(1_000_000).filter(keep).map(Slow(rows)),
    }[kind]()
    with fb.up(workers=1, threads=1) as service, iter(slow.batch(4).distribute(service, job="long")) as batches:
        threading.Thread(target=lambda: read(batches), daemon=True).start()
        until(lambda: rows.exists())
        with iter(fb.range(BATCHES * 8).batch(8).distribute(service, job="new")) as new:
            next(new)
            before = rows.stat().st_size
            assert sum(1 for _ in new) == BATCHES - 1
            waited = rows.stat().st_size - before
        service.cancel("long")
    assert waited <= ROWS_A_BATCH * BATCHES, waited


def test_rows_of_functions_are_those_of_one_process(tmp_path):
    """A worker calls them for a few rows at a time, a local iterator for all rows of a morsel."""

    def pipeline() -> fb.Dataset:
        noise = lambda row, rng: {**row, "noise": rng.random(3, dtype=np.float32)}  # noqa: E731
        return fb.range(500).flat_map(twice).filter(keep).map(noise).batch(7)

    with fb.up(workers=1, threads=1) as service:
        far = list(pipeline().distribute(service, job="far"))
    near = list(pipeline())
    assert len(far) == len(near)
    for a, b in zip(far, near, strict=True):
        assert a.keys() == b.keys()
        for name in a:
            np.testing.assert_array_equal(a[name], b[name])
