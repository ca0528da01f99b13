"""A new job on a service whose only worker holds as many long splits of another job as it may."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import forebay as fb


def slow(row: dict[str, Any]) -> dict[str, Any]:
    time.sleep(0.02)
    return row


def read(batches: Iterator[Any]) -> None:
    """Reads the first batch, unless the job is cancelled before."""
    with contextlib.suppress(fb.errors.ForebayError):
        next(batches, None)


def test_a_new_job_does_not_wait_until_a_split_of_another_job_ends(until):
    """It waited for a free place at the worker: here, more than a minute."""
    with fb.up(workers=1, threads=1) as service:
        long = fb.range(1_000_000).map(slow).batch(4).distribute(service, job="long")
        with iter(long) as batches:
            threading.Thread(target=lambda: read(batches), daemon=True).start()
            # Its places: two for each thread, and two more.
            until(lambda: service.workers()[0].leases == 4)
            with iter(fb.range(64).batch(8).distribute(service, job="new")) as new:
                assert len(next(new)["id"]) == 8
                (worker,) = service.workers()
                assert worker.splits_done in (0, 1), "a split of the first job ended before"
            service.cancel("long")
