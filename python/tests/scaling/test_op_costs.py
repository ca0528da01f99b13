"""The costs of ops: in one process, and in a service while it runs."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator

import forebay as fb
import pytest
from pipelines import name


def test_each_op_says_what_it_costs_and_which_line_it_is(shards):
    ds = (
        fb.from_tar(f"{shards}/*.tar")
        .decode_image("png")
        .resize("png", (8, 8))
        .map(lambda row: {"sum": int(row["png"].sum())}, reads=["png"], writes=["sum"], name="add up")
        .drop("png")
        .batch(4)
    )
    with ds.iter() as it:
        assert it.stats() == {}, "nothing has begun"
        rows = sum(len(batch["sum"]) for batch in it)
        ops = it.stats()["ops"]
    assert [op["op"] for op in ops] == ["read", "decode_image + resize", "map (add up)", "drop", "batch"]
    read, images, function, rest, batch = ops
    assert all(op["rows_in"] == op["rows_out"] == rows for op in (read, images, function))
    assert all(__file__ in op["line"] and op["seconds"] > 0 for op in (read, images, function))
    assert images["bytes_in"] == read["bytes_out"] > images["bytes_out"] >= rows * 8 * 8 * 3
    assert rest["bytes_in"] == function["bytes_out"]
    assert rest["rows_found"] == 0
    assert batch["bytes_in"] == batch["bytes_out"] >= rest["bytes_out"]


def table(service: fb.Service, job: str, *more: str) -> str:
    command = [sys.executable, "-m", "forebay", "jobs", "show", job, "--service", service.address, *more]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=180).stdout


@pytest.fixture(scope="module")
def steady() -> Iterator[fb.Service]:
    """A service that keeps the initial placement boundary, also on a busy machine."""
    with fb.up(workers=2, threads=1, policy="static:2") as service:
        yield service


def test_a_service_says_what_ops_cost_while_a_job_runs_and_to_the_next_job(shards, steady, until):
    service = steady

    def slow(row):
        time.sleep(0.002)
        return {"sum": int(row["png"].sum())}

    ds = (
        fb.from_tar(f"{shards}/*.tar")
        .shuffle()
        .select("png")
        .decode_image("png")
        .resize("png", (64, 64))
        .map(slow, reads=["png"], writes=["sum"])
        .normalize("png", mean=fb.IMAGENET_MEAN, std=fb.IMAGENET_STD)
        .batch(4)
    )
    job, ops = name(), {}

    def seen() -> bool:
        next(it)
        # In the order in which they run, for any order of the reports.
        ops.clear()
        ops.update(((op.op, op.at), op) for op in service.jobs(job)[0].ops)
        return len(ops) == 5

    with ds.distribute(service, job=job, epochs=None).iter() as it:
        until(seen)
        here = it.stats()["ops"]
        cut = service.jobs(job)[0].cut
    assert cut == "consumers run normalize: 12 KiB a row travel, not 48 KiB"
    assert list(ops) == [
        ("read", "workers"),
        ("select", "workers"),
        ("decode_image + resize", "workers"),
        ("map", "workers"),
        ("normalize", "reader"),
    ]
    read, _, images, function, floats = ops.values()
    assert all(op.seconds > 0 and op.row_us > 0 and op.rows_in > 0 for op in ops.values())
    assert all(__file__ in op.line and not op.earlier for op in ops.values())
    assert read.rows_out >= images.rows_in >= 4
    assert read.inflation is None
    # Two milliseconds for each row, and more if the machine is busy.
    assert function.row_us >= 2000
    assert function.rows_in == function.rows_out
    assert 3 < floats.inflation <= 4
    assert [op["op"] for op in here] == ["normalize"]

    shown = table(service, job)
    assert [line.split()[1] for line in shown.splitlines() if line.startswith("* ")] == ["map"]
    assert "FACTOR" in shown
    assert f"boundary   {cut}" in shown
    assert "-> " in shown
    assert f"{__file__}:" in shown
    (told,) = json.loads(table(service, job, "--json"))
    assert [op["op"] for op in told["ops"]] == [op.op for op in ops.values()]
    assert told["cut"] == cut

    def begins_with_what_is_known() -> bool:
        again = name()
        with ds.distribute(service, job=again).iter() as it:
            next(it)
            known = service.jobs(again)[0].ops
        return [op.op for op in known] == [op.op for op in ops.values()] and all(op.earlier for op in known)

    # Unless a worker has reported it by then.
    until(begins_with_what_is_known)
