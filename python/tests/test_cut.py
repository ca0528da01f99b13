"""The cut, on a service: what it is decided on, and that no batch is another one for it."""

from __future__ import annotations

import hashlib
import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import forebay as fb
from pipelines import fingerprint, name

SPINNING = 3


@contextmanager
def no_core_left() -> Iterator[None]:
    """Leaves this thread one core, and keeps that busy with more threads than it can run."""
    cores = os.sched_getaffinity(0)
    over, data = threading.Event(), bytes(1 << 20)

    def spin() -> None:
        while not over.is_set():
            hashlib.sha256(data)  # which lets go of the interpreter

    os.sched_setaffinity(0, {min(cores)})
    threads = [threading.Thread(target=spin) for _ in range(SPINNING)]
    try:
        for thread in threads:
            thread.start()
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()
        os.sched_setaffinity(0, cores)


def test_a_trainer_without_local_workers_that_lacks_cores_has_its_ops_taken_back(shards, service, until):
    ds = (
        fb.from_tar(f"{shards}/*.tar")
        .shuffle()
        .select("png")
        .decode_image("png")
        .resize("png", (128, 128))
        .normalize("png", mean=fb.IMAGENET_MEAN, std=fb.IMAGENET_STD)
        .batch(16)  # large enough to be lent: to take them in costs a reader nothing
    )
    job, got = name(), []

    def is_taken_back() -> bool:
        got.append(fingerprint(next(it)))
        return service.jobs(job)[0].cut.startswith("readers run no ops: 192 KiB a row travel")

    with warnings.catch_warnings(), ds.distribute(service, job=job, seed=3, epochs=None, local=0).iter() as it:
        warnings.simplefilter("error")
        with no_core_left():
            until(is_taken_back, 120)
        got += [fingerprint(next(it)) for _ in range(100)]
        (here,) = it.stats()["ops"]
        (told,) = service.jobs(job)
    assert (here["op"], here["rows_in"] > 0) == ("normalize", True), "at first this process ran it"
    (yielded,) = [d for d in told.decisions if d.figures["rule"] == "yields"][:1]
    assert yielded.figures["pressure"] > 0.1
    assert (yielded.figures["local"], told.local_threads) == (0, 0), "nobody asked for threads"
    with ds.iter(seed=3, epochs=None) as alone:
        assert got == [fingerprint(next(alone)) for _ in got]
