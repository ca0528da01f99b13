"""Workers from which a consumer cannot get its splits, beside workers that can compute them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Queue

import forebay as fb
import forebay.errors as E
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from buckets import credentials, delete, put, s3_server

FILES = 12
#: A file is larger than its part that is read, and kept, for the index.
ROWS = 50_000
BATCH = 15_000


@pytest.fixture(scope="module")
def empty() -> Iterator[str]:
    """A store that has none of the files."""
    with s3_server() as server:
        yield server.url


@pytest.fixture
def bucket(moto: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A bucket of Parquet files that this process and the workers of `moto` can read."""
    name = f"unusable-{uuid.uuid4()}"
    put(moto, name)
    for file in range(FILES):
        pq.write_table(pa.table({"n": np.arange(file * ROWS, (file + 1) * ROWS)}), tmp_path / "a.parquet")
        put(moto, f"{name}/{file:02}.parquet", (tmp_path / "a.parquet").read_bytes())
    for key, value in {**credentials(moto), "FOREBAY_CACHE_SOURCE": "off"}.items():
        monkeypatch.setenv(key, value)
    return name


@contextlib.contextmanager
def worker(service: fb.Service, *arguments: str, store: str = "") -> Iterator[None]:
    """Starts a worker, and ends it."""
    command = [sys.executable, "-m", "forebay", "worker", "--dispatcher", service.address, "--threads", "1", *arguments]
    env = {**os.environ, **(credentials(store) if store else {})}
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, env=env) as process:
        try:
            yield
        finally:
            process.kill()


def numbers(bucket: str) -> fb.Dataset:
    return fb.from_parquet(f"s3://{bucket}/*.parquet").with_column("m", fb.col("n") * 2).batch(BATCH)


def stream(batches: Iterator[dict[str, np.ndarray]]) -> tuple[list[list[int]], Exception | None]:
    """Returns the values of the batches, and the error that ended them."""
    read: list[list[int]] = []
    try:
        for batch in batches:
            read.append(batch["m"].tolist())
    except E.ForebayError as error:
        return read, error
    return read, None


def test_workers_that_cannot_see_the_files_leave_the_job_to_the_worker_that_can(moto, empty, bucket, until):
    ds = numbers(bucket)
    with fb.up(workers=0) as service, contextlib.ExitStack() as workers:
        for store in (empty, empty, moto):
            workers.enter_context(worker(service, store=store))
        until(lambda: len(service.workers()) == 3)
        job = f"job-{uuid.uuid4()}"
        there, error = stream(iter(ds.distribute(service, job=job)))
        assert error is None
        assert (there, error) == stream(iter(ds))


def slow(row: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    time.sleep(0.2)
    return {"m": row["m"]}


def test_the_only_worker_that_can_see_the_files_may_be_replaced(moto, empty, bucket, until):
    ds = numbers(bucket).map(slow, schema={"m": "int64"})
    with fb.up(workers=0) as service, contextlib.ExitStack() as workers:
        for store in (empty, empty):
            workers.enter_context(worker(service, store=store))
        with worker(service, store=moto):
            until(lambda: len(service.workers()) == 3)
            there = iter(ds.distribute(service, job=f"job-{uuid.uuid4()}"))
            first = next(there)["m"].tolist()
        until(lambda: sum(worker.state != "lost" for worker in service.workers()) == 2)
        workers.enter_context(worker(service, store=moto))
        rest, error = stream(there)
    assert error is None
    assert [first, *rest] == stream(iter(numbers(bucket)))[0]


def test_a_file_that_no_worker_can_see_ends_the_stream_behind_the_rows_before_it(moto, empty, bucket, until):
    ds, read = numbers(bucket), Queue()
    here, _ = stream(iter(ds))
    with fb.up(workers=0) as service, contextlib.ExitStack() as workers:
        there = iter(ds.distribute(service, job=f"job-{uuid.uuid4()}"))
        threading.Thread(target=lambda: read.put(stream(there)), daemon=True).start()
        until(lambda: bool(service.jobs()))
        delete(moto, f"{bucket}/07.parquet")
        for store in (empty, moto, moto):
            workers.enter_context(worker(service, store=store))
        batches, error = read.get(timeout=120)
    assert isinstance(error, E.NotFoundError)
    assert batches == here[: 7 * ROWS // BATCH]
    assert error.context["file"] == f"s3://{bucket}/07.parquet"
    assert 1 <= len(error.context["workers"].split(", ")) <= 3


def why(service: fb.Service, job: str) -> str:
    command = [sys.executable, "-m", "forebay", "jobs", "why", job, "--service", service.address]
    return subprocess.run(command, capture_output=True, text=True).stdout


def test_a_worker_at_an_address_that_cannot_be_reached_is_named(bucket, until: Callable[..., None]):
    ds, job = numbers(bucket), f"job-{uuid.uuid4()}"
    with fb.up(workers=0) as service, worker(service, "--advertise", "127.0.0.1:1"):
        until(lambda: len(service.workers()) == 1)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            there = ds.distribute(service, job=job, seed=0)
            first = there.iter()
            reader = threading.Thread(target=lambda: next(first), daemon=True)
            reader.start()
            until(lambda: "the worker at 127.0.0.1:1 cannot be reached" in why(service, job))
            until(lambda: any("the worker at 127.0.0.1:1 cannot be reached" in str(w.message) for w in caught))
        with worker(service):
            reader.join(60)
            assert not reader.is_alive()
            assert stream(first)[0] == stream(ds.iter(seed=0))[0][1:]
