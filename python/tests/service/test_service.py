"""The same stream on a service, after the death of any process."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor

import forebay as fb
import numpy as np
import pyarrow as pa
import pyarrow.flight as flight
import pytest
from pipelines import fingerprint, make, name


def stream(ds, service, **options) -> list:
    return [fingerprint(b) for b in ds.distribute(service, job=name(), **options)]


@pytest.fixture(scope="module", params=[1, 2, 3])
def fleet(request):
    """A service with so many workers, and their number."""
    with fb.up(workers=request.param, threads=1) as service:
        yield service, request.param


def readers(consumers: int, read) -> list[list]:
    """Returns the streams of all consumers, read at once."""

    def stream(i: int) -> list:
        try:
            return [fingerprint(b) for b in read((i, consumers))]
        except fb.errors.InvalidPipelineError as error:
            # There may be fewer batches than consumers.
            return str(error).splitlines()[:1]

    with ThreadPoolExecutor(consumers) as pool:
        return list(pool.map(stream, range(consumers)))


def dropped(ds: fb.Dataset, seed: int, epochs: int, consumers: int) -> list[list]:
    """Returns the streams if all end each epoch with the first of them."""
    streams: list[list] = [[] for _ in range(consumers)]
    for epoch in range(epochs):
        parts = readers(consumers, lambda who, epoch=epoch: ds.iter(consumers=who, seed=seed, epoch=epoch))
        for stream, part in zip(streams, parts, strict=True):
            stream += part[: min(map(len, parts))]
    return streams


@pytest.mark.filterwarnings("ignore::forebay.RanksWarning")
@pytest.mark.parametrize("block", range(14))
def test_random_pipelines_give_the_same_stream_as_in_process(block, shards, fleet):
    service, workers = fleet

    def compare(seed: int, ds: fb.Dataset) -> None:
        epochs, consumers = 1 + seed % 2, 1 + seed % 5 % 3
        options = {"seed": seed, "epochs": epochs, "even": None if seed % 2 else False}
        job = name()
        there = readers(consumers, lambda who: ds.distribute(service, job=job, consumers=who, **options))
        here = readers(consumers, lambda who: ds.iter(consumers=who, **options))
        refused = any(isinstance(item, str) for stream in here for item in stream)
        if consumers > 1 and options["even"] is None and not refused and ds._pipeline.uneven(consumers):
            here = dropped(ds, seed, epochs, consumers)
        assert there == here, (seed, workers, consumers, ds.explain())

    seeds = [1000 * workers + 8 * block + i for i in range(8)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(compare, seeds, [make(seed, shards) for seed in seeds]))


def slow(row):
    import time

    time.sleep(0.002)
    return {"id": row["id"]}


def test_two_consumers_are_disjoint_and_together_complete(service):
    ds = fb.range(1000).shuffle().batch(16)
    job, parts = name(), [[], []]

    def read(i):
        for batch in ds.distribute(service, job=job, consumers=(i, 2), even=False, seed=3, epochs=2):
            parts[i].append(batch["id"].tolist())

    threads = [threading.Thread(target=read, args=(i,)) for i in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(90)
    for i in range(2):
        assert parts[i] == [b["id"].tolist() for b in ds.iter(seed=3, consumers=(i, 2), even=False, epochs=2)]
    assert sorted(x for part in parts for b in part for x in b) == sorted(list(range(1000)) * 2)


def test_a_killed_worker_changes_nothing():
    ds = fb.range(3000).shuffle().map(slow).batch(20)
    want = [b["id"].tolist() for b in ds.iter(seed=1)]
    with fb.up(workers=2, threads=1) as service:
        got = []
        for batch in ds.distribute(service, job="killed", seed=1):
            got.append(batch["id"].tolist())
            if len(got) == 20:
                pid = service.kill_worker(0)
                assert pid not in service.worker_pids
    assert got == want


def test_a_restarted_dispatcher_changes_nothing():
    ds = fb.range(3000).shuffle().map(slow).batch(20)
    want = [b["id"].tolist() for b in ds.iter(seed=1, epochs=2)]
    with fb.up(workers=2, threads=1) as service:
        got = []
        for batch in ds.distribute(service, job="restarted", seed=1, epochs=2):
            got.append(batch["id"].tolist())
            if len(got) in (20, 200):
                before = service.dispatcher_pid
                assert service.restart_dispatcher() != before
    assert got == want


def test_a_worker_that_joins_late_is_used(until):
    ds = fb.range(2000).shuffle().map(slow).batch(10)
    with fb.up(workers=1, threads=1) as service:
        it = ds.distribute(service, job="late", seed=2, epochs=None).iter()
        got = [next(it)["id"].tolist() for _ in range(5)]
        assert service.add_worker() in service.worker_pids

        def is_used() -> bool:
            got.append(next(it)["id"].tolist())
            return sum(w.splits_done > 0 for w in service.workers()) == 2

        until(is_used)
    alone = ds.iter(seed=2, epochs=None)
    assert got == [next(alone)["id"].tolist() for _ in got]


@pytest.mark.parametrize("sign", ["SIGKILL", "SIGTERM", "SIGSTOP"])
def test_a_worker_is_added_while_another_one_dies_or_hangs(sign, until):
    with fb.up(workers=2, threads=1) as service:
        pid = service.worker_pids[0]
        os.kill(pid, getattr(signal, sign))
        try:
            if sign == "SIGSTOP":
                until(lambda: sum(worker.state == "idle" for worker in service.workers()) == 1)
            added = service.add_worker()
            assert added in service.worker_pids
            until(lambda: sum(worker.state == "idle" for worker in service.workers()) >= 2)
        finally:
            if sign == "SIGSTOP":
                os.kill(pid, signal.SIGCONT)


def test_a_state_resumes_on_the_service(service):
    ds = fb.range(500).shuffle().filter(fb.col("id") % 3 != 0).batch(16)
    job = name()
    it = ds.distribute(service, job=job, seed=5, epochs=2).iter()
    for _ in range(9):
        next(it)
    state = json.loads(json.dumps(it.state_dict()))
    rest = [next(it)["id"].tolist() for _ in range(6)]
    it.close()
    again = ds.distribute(service, job=job, seed=5, epochs=2).iter()
    again.load_state_dict(state)
    got = [b["id"].tolist() for b in again]
    assert got[:6] == rest
    assert got == [b["id"].tolist() for b in ds.iter(seed=5, epochs=2)][9:]


def test_a_pyarrow_flight_client_reads_a_workers_stream(service, until):
    ds = fb.from_numpy({"id": np.arange(640), "x": np.arange(640 * 6, dtype=np.float32).reshape(640, 2, 3)}).batch(64)
    tables = []

    def holds_a_batch() -> bool:
        """Reads on until a worker holds a batch of this job: the reader may have taken all of them."""
        next(it)
        for worker in service.workers():
            with contextlib.suppress(pa.ArrowException, KeyError), flight.connect(f"grpc://{worker.address}") as client:
                for info in client.list_flights():
                    tables.append(client.do_get(info.endpoints[0].ticket).read_all())
        return any({"id", "x"} <= set(table.column_names) for table in tables)

    with ds.distribute(service, job=name(), epochs=None).iter() as it:
        until(holds_a_batch)
    table = next(t for t in tables if {"id", "x"} <= set(t.column_names))
    ids = table["id"].to_numpy()
    assert len(ids)
    x = np.stack(
        table["x"].combine_chunks().to_numpy_ndarray()
        if hasattr(table["x"].combine_chunks(), "to_numpy_ndarray")
        else [np.asarray(v.as_py()) for v in table["x"]]
    )
    np.testing.assert_array_equal(x.reshape(-1, 6), np.arange(640 * 6, dtype=np.float32).reshape(640, 6)[ids])


def test_jobs_and_workers_are_listed(service, until):
    ds = fb.range(100).batch(10)
    job = name()
    it = ds.distribute(service, job=job, epochs=3, seed=8).iter()
    next(it)
    (status,) = [j for j in service.jobs() if j.name == job]
    assert (status.epochs, status.seed, status.dataset) == (3, 8, ds.dataset_id)
    assert status.consumers[0].attached
    list(it)
    until(lambda: [j.state for j in service.jobs() if j.name == job] == ["finished"])
    until(lambda: sum(worker.state != "lost" for worker in service.workers()) == 2)
    assert fb.connect(service.address).jobs()


def test_a_finished_job_says_so(service):
    ds = fb.range(10).batch(5)
    job = name()
    assert len(list(ds.distribute(service, job=job))) == 2
    with pytest.raises(fb.errors.ClosedError, match=job):
        list(ds.distribute(service, job=job))


def test_a_job_name_that_is_taken_shows_the_difference(service):
    job = name()
    it = fb.range(1000).batch(5).distribute(service, job=job).iter()
    next(it)
    with pytest.raises(fb.errors.ConflictError, match=job) as caught:
        next(fb.range(1000).batch(6).distribute(service, job=job).iter())
    assert "batch(6)" in str(caught.value)
    assert "batch(5)" in str(caught.value)
    it.close()


def test_a_cancelled_job_tells_its_reader(service):
    job = name()
    it = fb.range(100_000).map(slow, schema={"id": "int64"}).batch(5).distribute(service, job=job).iter()
    next(it)
    service.cancel(job)
    with pytest.raises(fb.errors.ClosedError):
        list(it)


def test_an_unreachable_dispatcher_is_named():
    with pytest.raises(fb.errors.UnavailableError, match=r"127\.0\.0\.1:1") as caught:
        fb.connect("forebay://127.0.0.1:1", timeout=0.3)
    assert "0.3" in str(caught.value)
    assert isinstance(caught.value, ConnectionError)


def explode(row):
    if row["id"] == 70:
        raise ValueError("bad sample")
    return row


def die(row):
    if row["id"] == 70:
        os._exit(9)
    return row


def hang(row):
    import time

    while row["id"] == 70:
        time.sleep(1)
    return row


@pytest.mark.parametrize(
    ("function", "says"),
    [(explode, "raised ValueError: bad sample"), (die, "exited with code 9"), (hang, r"no answer within 3(\.0)? s")],
)
def test_a_function_that_fails_on_a_worker_is_told_and_harms_no_other(service, function, says):
    ds = fb.range(100).map(function, schema={"id": "int64"}, timeout=3 if function is hang else 60)
    with pytest.raises(fb.errors.FunctionError, match=says) as caught:
        list(ds.distribute(service, job=name()))
    assert "test_service.py" in caught.value.context["line"]
    assert "70" in caught.value.context["sample"]
    assert len(stream(fb.range(50).map(slow).batch(10), service)) == 5


def test_bad_data_on_a_worker_is_the_error_of_the_reader(service, tmp_path):
    ds = fb.from_dict({"image": [b"no image"]}).decode_image("image")
    with pytest.raises(fb.errors.DataError) as caught:
        list(ds.distribute(service, job=name()))
    assert caught.value.context["op"] == "decode_image"


def test_a_large_batch_just_works(service):
    ds = fb.from_numpy({"x": np.arange(100, dtype=np.int64)}).map(
        lambda r: {"x": np.full((256, 1024), r["x"])}, schema={"x": ("int64", (256, 1024))}
    )
    (batch,) = list(ds.batch(100).distribute(service, job=name()))
    assert batch["x"].nbytes >= 200 << 20
    np.testing.assert_array_equal(batch["x"][:, 7, 9], np.arange(100))


def test_an_empty_and_a_tiny_epoch(service):
    assert stream(fb.range(0).batch(4), service) == []
    assert len(stream(fb.range(1).batch(4), service, epochs=5)) == 5


def running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nothing_stays_behind(how, until):
    script = textwrap.dedent(
        """
        import signal
        # Where the tests run in the background, SIGINT may be ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        import forebay as fb
        service = fb.up(workers=2, threads=1)
        print(service.dispatcher_pid, *service.worker_pids, flush=True)
        ds = fb.range(10**9).map(lambda row: row, schema={"id": "int64"}).batch(4)
        for i, batch in enumerate(ds.distribute(service, job="endless")):
            if i == 10:
                print("running", flush=True)
        """
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        pids = [int(p) for p in process.stdout.readline().split()]
        assert len(pids) == 3
        assert process.stdout.readline() == "running\n"
        functions = [
            int(p)
            for p in subprocess.run(
                ["pgrep", "-f", "forebay._src.functions.function_host"], capture_output=True, text=True
            ).stdout.split()
        ]
        mine = [p for p in functions if parent(p) in pids]
        process.send_signal(how)
        try:
            process.wait(90)
        finally:
            process.kill()
        if how == signal.SIGINT:
            assert "KeyboardInterrupt" in process.stderr.read()
    until(lambda: not any(running(p) for p in pids + mine))


def parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except FileNotFoundError:
        return 0
