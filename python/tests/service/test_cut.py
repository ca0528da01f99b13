"""The placement boundary on a service: the figures behind the decision, and that no batch depends on it."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import forebay as fb
import numpy as np
from pipelines import fingerprint, name
from secured import Fleet

SPINNING = 3


@contextmanager
def no_core_left() -> Iterator[None]:
    """Leaves this thread one core, and keeps it busy with more threads than it can run."""
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
        return service.jobs(job)[0].cut.startswith("consumers run no ops: 192 KiB a row travel")

    with ds.distribute(service, job=job, seed=3, epochs=None, local=0).iter() as it:
        with no_core_left():
            until(is_taken_back, 120)
        got += [fingerprint(next(it)) for _ in range(100)]
        (here,) = it.stats()["ops"]
        (told,) = service.jobs(job)
    assert (here["op"], here["rows_in"] > 0) == ("normalize", True), "at first this process ran it"
    (yielded,) = [d for d in told.decisions if d.figures["rule"] == "yields"][:1]
    assert yielded.figures["pressure"] > 0.1
    assert (yielded.figures["local"], told.local_threads) == (0, 0), "no process asked for threads"
    with ds.iter(seed=3, epochs=None) as alone:
        assert got == [fingerprint(next(alone)) for _ in got]


def test_what_a_byte_takes_over_a_network_is_measured_on_both_sides(tmp_path, until):
    fleet = Fleet(tmp_path)
    try:
        address = fleet.dispatcher()
        fleet.worker(address, "--no-lend")
        images = np.arange(64 * 64 * 64 * 3, dtype=np.uint8).reshape(64, 64, 64, 3)
        ds = fb.from_numpy({"image": images}).normalize("image", mean=(0.5,) * 3, std=(0.5,) * 3).batch(16)
        service, got = fb.connect(address), []

        def figures() -> list:
            (job,) = service.jobs("sent")
            return [d.figures["figures"] for d in job.decisions if d.figures["figures"]]

        def is_measured() -> bool:
            got.extend(fingerprint(next(it)) for _ in range(20))
            # Until the costs are known, both have the same default.
            return any(0 < of["send"] != of["receive"] > 0 for of in figures())

        with ds.distribute(service, job="sent", seed=1, epochs=None).iter() as it:
            until(is_measured, 120)
        with ds.iter(seed=1, epochs=None) as alone:
            assert got == [fingerprint(next(alone)) for _ in got]
    finally:
        fleet.close()
