"""Chunks that are sent, not lent: the view of a consumer on another machine, over loopback."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import forebay as fb
import numpy as np
import pyarrow as pa
import pyarrow.flight as flight
import pytest

ROWS = 16


@pytest.fixture(scope="module")
def service() -> Iterator[fb.Service]:
    """A service whose one worker lends nothing."""
    with fb.up(workers=0) as service:
        command = [sys.executable, "-m", "forebay", "worker", "--no-lend", "--threads", "2"]
        worker = subprocess.Popen([*command, "--dispatcher", service.address], stderr=subprocess.DEVNULL)
        try:
            yield service
        finally:
            worker.terminate()
            worker.wait(90)


def pictures(folder: Path) -> fb.Dataset:
    return (
        fb.from_image_folder(folder)
        .shuffle()
        .repeat(3)
        .decode_image("image")
        .random_resized_crop("image", 128)
        .normalize("image", mean=fb.IMAGENET_MEAN, std=fb.IMAGENET_STD, layout="CHW")
        .batch(ROWS)
    )


def mapped(row: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {"x": np.full((64, 300), row["id"], np.uint8), "name": f"row {row['id']}", "small": row["id"] * 2}


def mixed() -> fb.Dataset:
    """Large, small and variable columns together; the consumer runs a cast and a drop; ids are needed after."""
    schema = {"x": ("uint8", (64, 300)), "name": "str", "small": "int64"}
    ds = fb.range(200).shuffle().map(mapped, writes=["x", "name", "small"], schema=schema)
    return ds.cast(x="float32").filter(fb.col("small") % 3 != 0).drop("small").batch(ROWS)


def wide() -> fb.Dataset:
    schema = {"x": ("uint8", (64, 300)), "name": "str", "small": "int64"}
    return fb.range(200).map(mapped, writes=["x", "name", "small"], schema=schema).cast(x="float32").batch(ROWS)


def read(ds: fb.Dataset, service: fb.Service, **options) -> fb.DatasetIterator:
    return ds.distribute(service, job=f"sent-{uuid.uuid4().hex[:8]}", seed=3, **{"epochs": 2, **options}).iter()


def same(a, b) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) and a[k].dtype == b[k].dtype for k in a)


@pytest.mark.parametrize("make", [pictures, mixed, wide], ids=["pictures", "mixed", "wide"])
def test_what_is_sent_is_what_this_process_makes(make, service, images):
    ds = make(images) if make is pictures else make()
    here = [batch for epoch in range(2) for batch in ds.iter(seed=3, epoch=epoch)]
    there = list(read(ds, service))
    assert len(here) == len(there) > 0
    assert all(map(same, here, there))


def test_batches_that_are_kept_stay_as_they_were_and_can_be_written(service, images):
    ds = pictures(images)
    kept = list(read(ds, service))
    for batch in read(ds, service):
        batch["image"][:] = 0
    assert all(map(same, kept, read(ds, service)))


def test_any_arrow_client_reads_finished_columns(service, images, until):
    """Forebay's consumers normalise by themselves. Other clients get the pipeline's output."""
    ds, tables = pictures(images), []
    with ds.iter(seed=3, epochs=None) as alone:
        wanted = [next(alone)["image"].reshape(-1) for _ in range(60)]

    def holds_a_batch() -> bool:
        """Reads on until the worker holds a batch: the reader may have taken all of them."""
        next(it)
        [worker] = service.workers()
        with contextlib.suppress(pa.ArrowException, KeyError), flight.connect(f"grpc://{worker.address}") as client:
            tables.extend(client.do_get(info.endpoints[0].ticket).read_all() for info in client.list_flights())
        return any("image" in table.column_names for table in tables)

    with read(ds, service, epochs=None) as it:
        until(holds_a_batch)
    found = [t["image"].combine_chunks().storage.flatten().to_numpy() for t in tables if "image" in t.column_names]
    assert any(np.array_equal(found[0], batch) for batch in wanted)
    assert found[0].dtype == wanted[0].dtype == np.float32


def test_explain_says_what_readers_do(images):
    text = pictures(images).explain()
    assert "consumers do normalize: 49 KiB a row travel, not 193" in text


@pytest.mark.parametrize(
    "said", [b"forebay\x01" + b"\xff" * 64, b"forebay\x01", b"forebay", b"PRI * HTTP/9", b"\0" * 4096]
)
def test_a_stranger_who_sends_anything_disturbs_no_caller(service, images, said):
    it = read(pictures(images), service)
    first = next(it)
    [worker] = service.workers()
    host, port = worker.address.rsplit(":", 1)
    with contextlib.closing(socket.create_connection((host, int(port)), timeout=90)) as stranger:
        stranger.sendall(said)
        rest = list(it)
    assert same(first, next(read(pictures(images), service)))
    assert len(rest) + 1 == len(list(read(pictures(images), service)))
