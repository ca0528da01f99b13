"""Jobs with the same samples, at the same time: the service computes for one, and serves all."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from keeping import SCHEMA, calls, counted, stream
from pipelines import name

ROWS, BATCH = 10_000, 20


def together(service: fb.Service, datasets: list[fb.Dataset], **options) -> list[list]:
    """Returns the streams of jobs that begin at once."""
    start = threading.Barrier(len(datasets))

    def read(ds: fb.Dataset) -> list:
        it = ds.distribute(service, job=name(), **options).iter()
        start.wait()
        return stream(it)

    with ThreadPoolExecutor(len(datasets)) as pool:
        return list(pool.map(read, datasets))


def shared(service: fb.Service) -> int:
    return sum(worker.rows_shared for worker in service.workers())


def costly(log: Path) -> fb.Dataset:
    return fb.range(ROWS).shuffle().map(counted(log), schema=SCHEMA).batch(BATCH)


@pytest.mark.alone
def test_three_jobs_at_once_cost_what_one_costs(tmp_path, until):
    with fb.up(workers=2, threads=1) as service:
        alone = together(service, [costly(tmp_path / "alone")], seed=4)[0]
        ds = costly(tmp_path / "log")
        streams = together(service, [ds] * 3, seed=4)
        assert streams == [alone] * 3
        once, all_three = calls(tmp_path / "alone").total(), calls(tmp_path / "log").total()
        assert all_three <= 1.1 * once, (all_three, once)
        until(lambda: shared(service) >= 1.8 * ROWS)


def test_another_seed_or_pipeline_is_another_computation(tmp_path, service):
    before = shared(service)
    ds = costly(tmp_path / "log")
    one, other = (stream(ds.iter(seed=seed)) for seed in (1, 2))
    assert one != other
    start = threading.Barrier(2)

    def read(seed: int) -> list:
        start.wait()
        return stream(ds.distribute(service, job=name(), seed=seed))

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(read, (1, 2))) == [one, other]
    assert shared(service) == before


@pytest.mark.parametrize("normalized", ["", "x", "both"])
def test_what_one_job_writes_into_its_batches_no_other_sees(service, normalized):
    # Columns of 245 KB a batch, made where they can be lent to all consumers of this machine, which may write to their
    # batches; each consumer normalises its own.
    pictures = np.random.default_rng(1).integers(0, 256, (800, 80, 90, 3), np.uint8)
    ds = fb.from_numpy({"x": pictures, "y": pictures[::-1].copy()}).shuffle()
    for column in ("x", "y"):
        ds = ds.random_resized_crop(column, 64).random_flip(column)
        if normalized in (column, "both"):
            ds = ds.normalize(column, mean=fb.IMAGENET_MEAN, std=fb.IMAGENET_STD)
    ds = ds.batch(BATCH)
    want = stream(ds.iter(seed=3))
    start = threading.Barrier(3)

    def read(wipe: bool) -> list:
        seen = []
        it = ds.distribute(service, job=name(), seed=3).iter()
        start.wait()
        for batch in it:
            seen += stream([batch])
            if wipe:
                batch["x"][:] = 0
                batch["y"][:] = 0
        return seen

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(read, (True, False, True))) == [want] * 3


def test_a_job_that_stands_still_holds_up_no_other(tmp_path, service):
    ds = costly(tmp_path / "log")
    want = stream(ds.iter(seed=9))
    still = ds.distribute(service, job=name(), seed=9).iter()
    first = stream([next(still)])
    assert stream(ds.distribute(service, job=name(), seed=9)) == want
    assert first + stream(still) == want


def test_a_worker_that_dies_takes_nothing_from_either(tmp_path, until):
    ds = costly(tmp_path / "log")
    want = stream(ds.iter(seed=5))
    with fb.up(workers=3, threads=1) as service:
        jobs = [ds.distribute(service, job=name(), seed=5).iter() for _ in range(2)]
        seen = [stream(next(it) for _ in range(10)) for it in jobs]
        service.kill_worker(0)
        with ThreadPoolExecutor(2) as pool:
            rest = list(pool.map(stream, jobs))
        assert [begun + left for begun, left in zip(seen, rest, strict=True)] == [want] * 2
