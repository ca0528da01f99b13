"""A job that comes to workers which are full of another job's long splits does not wait for these to end."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import forebay as fb

ROWS = 100
#: A batch of the long job: about a minute on two threads.
LONG_BATCH = 6000


def slowly(value: fb.Row) -> fb.Row:
    time.sleep(0.02)
    return value


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records that are read from their start: each file is one task of a worker."""
    folder = tmp_path_factory.mktemp("records")
    for name in "abcdefgh":
        (folder / f"{name}.jsonl").write_text("".join(f'{{"id": {i}}}\n' for i in range(100_000)))
    return folder


@pytest.fixture(params=["counted", "streamed"])
def long_job(request: pytest.FixtureRequest, records: Path) -> fb.Dataset:
    if request.param == "counted":
        return fb.range(1_000_000).map(slowly).batch(LONG_BATCH)
    return fb.from_jsonl(str(records / "*.jsonl"), schema={"id": "int64"}).map(slowly).batch(LONG_BATCH)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_new_job_is_computed_while_another_ones_splits_fill_the_worker(long_job: fb.Dataset, threads: int) -> None:
    if threads == 1:
        # One thread computes a morsel to its end, so the other job's are short ones.
        long_job = fb.range(1_000_000).map(slowly).batch(10)
    with fb.up(workers=1, threads=threads) as service:
        first = threading.Event()

        def read(batches: Iterator[fb.Batch]) -> None:
            if next(batches, None) is not None:
                first.set()

        taken = iter(long_job.distribute(service, job="long"))
        reader = threading.Thread(target=read, args=(taken,), daemon=True)
        reader.start()
        deadline = time.monotonic() + 60
        while not any(worker.leases > 2 * threads for worker in service.workers()):
            assert time.monotonic() < deadline, "the long job fills the worker"
            time.sleep(0.05)
        short = fb.range(ROWS).batch(10).distribute(service, job="short")
        ids = np.concatenate([batch["id"] for batch in short])
        assert ids.tolist() == list(range(ROWS)), "and its samples are those of any other time"
        assert threads == 1 or not first.is_set(), "it waited for the other job's first batch"
        service.cancel("long")
        reader.join(60)
