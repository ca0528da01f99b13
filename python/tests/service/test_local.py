"""Local workers: the stream is the same if threads next to the trainer compute it. They yield to it and end with it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import forebay as fb
import numpy as np
import pyarrow.flight as flight
import pytest
from pipelines import fingerprint, make, name
from secured import Authority, Fleet, new_token

# Local workers run at idle priority: on cores that other tests keep busy they get no time at all.
pytestmark = pytest.mark.alone

CORES = len(os.sched_getaffinity(0))


@pytest.fixture(autouse=True)
def _no_children(until) -> None:
    """Waits until the local workers of the previous test have ended, for they end after their iterator is closed."""
    until(lambda: not children())


def children() -> list[int]:
    """Returns the local workers that this process has started and that have not ended."""
    return children_of(os.getpid())


def children_of(parent: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
            command = stat.with_name("cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if int(fields[1]) == parent and fields[0] != "Z" and b"--local" in command:
            found.append(int(stat.parent.name))
    return found


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def local_of(service: fb.Service) -> fb.WorkerStatus | None:
    """Returns the local worker of this process. The service may still list some of earlier tests."""
    return next((w for w in service.workers() if w.local and w.state != "lost"), None)


def process(batch):
    """Returns the id of the process that computes the row."""
    return {
        "pid": np.full(len(batch["id"]), os.getppid()),
        "policy": np.full(len(batch["id"]), os.sched_getscheduler(0)),
    }


def policies(pid: int) -> set[int]:
    """Returns the scheduling policies of the threads of a process."""
    found = set()
    for thread in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(ProcessLookupError):
            found.add(os.sched_getscheduler(int(thread)))
    return found


def read_until(it, condition, until) -> list:
    """Reads batches until a condition holds, and a hundred more. On a busy machine a local worker may take long."""
    got = []

    def reads() -> bool:
        got.append(fingerprint(next(it)))
        return condition()

    until(reads, 120)
    return got + [fingerprint(next(it)) for _ in range(100)]


def endless(ds: fb.Dataset, seed: int, batches: int) -> list:
    """Returns the first batches of a dataset in this process."""
    with ds.iter(seed=seed, epochs=None) as it:
        return [fingerprint(next(it)) for _ in range(batches)]


@pytest.mark.parametrize("seed", range(6))
def test_random_pipelines_give_the_same_stream_with_threads_beside_the_trainer(seed, shards, service, until):
    ds, options = make(seed, shards), {"seed": seed, "epochs": 3}
    want = [fingerprint(b) for b in ds.iter(**options)]
    it = ds.distribute(service, job=name(), local=CORES, **options).iter()
    got = [fingerprint(batch) for batch in [next(it, None)] if batch]
    if got:
        until(lambda: local_of(service) is not None)
    assert got + [fingerprint(b) for b in it] == want


def test_two_workers_elsewhere_and_two_threads_here_make_the_same_batches(service, until):
    ds = fb.range(2400).shuffle().with_column("half", fb.col("id") / 2).batch(20)
    streams = {}
    for local in (0, min(2, CORES)):
        with ds.distribute(service, job=name(), seed=5, epochs=None, local=local).iter() as it:
            done = lambda n=local: not n or ((w := local_of(service)) is not None and w.splits_done > 4)  # noqa: E731
            streams[local] = read_until(it, done, until)
    for stream in streams.values():
        assert stream == endless(ds, 5, len(stream))


def test_functions_run_there_at_idle_priority_and_for_no_other_job(service, until):
    ds = fb.range(400).batch(4).map(process, schema={"pid": "int64", "policy": "int64"}, writes=["pid", "policy"])
    mine, other = ds.distribute(service, job=name(), local=1, epochs=None).iter(), None
    with mine:
        seen = {}
        until(
            lambda: (
                (batch := next(mine))
                and seen.update(zip(batch["pid"], batch["policy"], strict=True)) is None
                and any(pid in seen for pid in children())
            ),
            120,
        )
        (pid,) = children()
        assert seen.pop(pid) == os.SCHED_IDLE
        assert set(seen.values()) <= {os.SCHED_OTHER}, "the service's workers have it, too"
        until(lambda: policies(pid) == {os.SCHED_IDLE, os.SCHED_OTHER})
        assert os.getpriority(os.PRIO_PROCESS, pid) == 19
        assert int(Path(f"/proc/{pid}/oom_score_adj").read_text()) == 800
        until(lambda: [j.local_threads for j in service.jobs() if j.local_threads] == [1])
        until(lambda: (worker := local_of(service)) is not None and worker.threads == 1)
        with ds.distribute(service, job=name()).iter() as other:
            assert pid not in {int(pid) for batch in other for pid in batch["pid"]}
    until(lambda: not children())


def holds(service: fb.Service, pid: int | None = None) -> bool:
    """Returns whether a local worker of this process (the one with this `pid`, if given) holds a split."""
    status = local_of(service)
    return bool(status and status.leases and (children() if pid is None else pid in children()))


def test_a_killed_local_worker_changes_nothing_and_is_told_once(until):
    ds = fb.range(3000).shuffle().batch(20)
    with fb.up(workers=1, threads=1) as service, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with ds.distribute(service, job="killed", seed=1, epochs=None, local=1).iter() as it:
            got = read_until(it, lambda: holds(service), until)
            killed = children()
            os.kill(killed[0], signal.SIGKILL)
            # It is restarted.
            got += read_until(it, lambda: any(holds(service, pid) for pid in set(children()) - set(killed)), until)
        assert got == endless(ds, 1, len(got))
        assert len([w for w in told if "the local worker" in str(w.message)]) == 1
        until(lambda: not children())


def test_one_that_stands_still_holds_nothing_up(until):
    ds = fb.range(3000).shuffle().batch(20)
    with fb.up(workers=1, threads=1) as service:
        with ds.distribute(service, job="stopped", seed=2, epochs=None, local=1).iter() as it:
            got = read_until(it, lambda: holds(service), until)
            (stopped,) = children()
            os.kill(stopped, signal.SIGSTOP)
            got += [fingerprint(next(it)) for _ in range(200)]
        assert got == endless(ds, 2, len(got))
        until(lambda: not lives(stopped))


def number_of_job(service: fb.Service, reader: fb.DatasetIterator, until) -> int:
    """Returns the number of the only job: the tickets of the batches that a worker holds have it.

    The reader takes batches meanwhile: the shared worker may hold none where the local worker is faster.
    """
    [shared] = [w.address for w in service.workers() if not w.local]
    found: list[flight.FlightInfo] = []

    def lists_a_batch() -> bool:
        next(reader)
        with flight.connect(f"grpc://{shared}") as client:
            found.extend(client.list_flights())
        return bool(found)

    until(lists_a_batch)
    return json.loads(found[0].endpoints[0].ticket.ticket)["job"]


def started(ds: fb.Dataset, service: fb.Service) -> fb.DatasetIterator:
    """Reads a job without end, with a local worker."""
    return ds.distribute(service, job="first", epochs=None, local=1).iter()


def key_of(pid: int) -> str:
    """Returns the key of a local worker, which its consumer has sent to it alone."""
    environment = dict(entry.partition("=")[::2] for entry in Path(f"/proc/{pid}/environ").read_text().split("\0"))
    return environment["FOREBAY_LOCAL_KEY"]


@contextlib.contextmanager
def another(
    service: fb.Service, job: int, key: str | None, until
) -> Iterator[tuple[Callable[[str], None], Callable[[], fb.WorkerStatus]]]:
    """A local worker of a job without a supervisor: its settings, and its status at the service."""
    command = [sys.executable, "-m", "forebay", "worker", "--dispatcher", service.address, "--local", f"{job}:0"]
    environment = os.environ | ({"FOREBAY_LOCAL_KEY": key} if key else {})
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([*command, "--announce"], env=environment, **pipes) as worker:
        address = json.loads(worker.stdout.readline())["address"]

        def say(line: str) -> None:
            worker.stdin.write(f"{line}\n")
            worker.stdin.flush()

        def status() -> fb.WorkerStatus:
            found: list[fb.WorkerStatus] = []
            until(lambda: found.extend(w for w in service.workers() if w.address == address) or found)
            return found[0]

        yield say, status
        say("")
        assert worker.wait(90) == 0


def test_threads_come_and_go_while_it_runs(until):
    ds = fb.range(3000).batch(20)
    with fb.up(workers=1, threads=1) as service, started(ds, service) as reader:
        assert next(reader)["id"].tolist() == [*range(20)]
        until(children)
        job = number_of_job(service, reader, until)
        with another(service, job, key_of(children()[0]), until) as (say, status):

            def reads_until(condition) -> None:
                until(lambda: next(reader) and condition(status()), 120)

            assert status().threads == 0
            until(lambda: status().state == "idle")
            for threads in (2, 1, 3):
                say(f"threads {threads}")
                done = status().splits_done
                reads_until(lambda w, n=threads, done=done: w.threads == n and w.splits_done > done)
            say("threads 0")
            reads_until(lambda w: w.threads == 0 and w.leases == 0)
            # The heartbeat after the last lease has the last count.
            since = time.monotonic()
            until(lambda: status().silent_ms < 1000 * (time.monotonic() - since) - 100)
            done = status().splits_done
            assert [next(reader) for _ in range(40)]
            assert status().splits_done == done, "it rests"


def test_a_worker_that_the_reader_did_not_start_is_given_nothing(until):
    """Otherwise any holder of a tenant's token could compute the batches of another consumer of the tenant."""
    ds = fb.range(3000).batch(20)
    with fb.up(workers=1, threads=1) as service, started(ds, service) as reader:
        assert next(reader)["id"].tolist() == [*range(20)]
        job = number_of_job(service, reader, until)
        for key in (None, "8" * 32):
            with another(service, job, key, until) as (say, status):
                say("threads 2")
                until(lambda status=status: status().threads == 2)
                assert [next(reader) for _ in range(200)]
                assert (status().leases, status().splits_done) == (0, 0)


def test_auto_gives_the_same_stream_with_any_spare_cores(service, until):
    ds = fb.range(1200).shuffle().batch(20)
    want = [fingerprint(b) for b in ds.iter(seed=3)]
    assert [fingerprint(b) for b in ds.distribute(service, job=name(), seed=3, local="auto")] == want
    until(lambda: not children())


TRAINER = """
    import sys, forebay as fb
    it = fb.range(10**9).batch(4).distribute(sys.argv[1], job="trainer", local=1).iter()
    print(next(it)["id"].tolist(), flush=True)
    sys.stdin.read()
"""


def test_it_ends_with_a_trainer_that_is_killed(service, until):
    command = [sys.executable, "-c", textwrap.dedent(TRAINER), service.address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as trainer:
        assert trainer.stdout.readline().strip() == "[0, 1, 2, 3]"
        until(lambda: children_of(trainer.pid))
        (pid,) = children_of(trainer.pid)
        trainer.kill()
    until(lambda: not lives(pid))


def test_it_ends_with_the_last_batch_and_when_the_iterator_is_closed(service, until):
    ds = fb.range(64).batch(4)
    it = ds.distribute(service, job=name(), local=1).iter()
    assert len(list(it)) == 16
    until(lambda: not children())
    endless = ds.distribute(service, job=name(), local=1, epochs=None).iter()
    until(lambda: next(endless) and children())
    endless.close()
    until(lambda: not children())


def test_over_tls_with_a_clients_token_it_computes_for_that_reader(tmp_path, until):
    authority, fleet = Authority(tmp_path / "ours"), Fleet(tmp_path)
    try:
        tokens = tmp_path / "tokens.json"
        token, own = new_token(tokens, "client", "vision"), authority.issue("trainer", "trainer.example")
        identity = authority.issue("dispatcher")
        address = fleet.dispatcher(*identity.flags(), "--tls-client-ca", authority.ca, "--tokens", tokens)
        service = fb.connect(address, tls=fb.Tls(authority.ca, own.cert, own.key), token=token)
        # There is no other worker, so all batches were computed here.
        ds = fb.range(40).batch(4).map(lambda b: {"id": b["id"] * 2}, schema={"id": "int64"})
        got = [b["id"].tolist() for b in ds.distribute(service, job="mine", local=1)]
        assert got == [b["id"].tolist() for b in ds]
    finally:
        fleet.close()
    until(lambda: not children())


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (-1, "local=-1 is out of range"),
        (CORES + 1, f"local={CORES + 1} is out of range"),
        ("lots", "local='lots' is no number"),
        (True, "local=True is no number"),
        (1.5, "local=1.5 is no number"),
        (None, "local=None is no number"),
    ],
)
def test_what_is_no_number_of_threads_is_refused(value, says):
    with pytest.raises(fb.errors.InvalidPipelineError, match=says) as refused:
        fb.range(4).distribute("forebay://127.0.0.1:1", job="x", local=value)
    assert "auto" in str(refused.value)


def test_without_a_service_there_is_nothing_beside_which_to_compute():
    with pytest.raises(fb.errors.InvalidPipelineError, match="is no service"):
        iter(fb.range(4).distribute(None, job="x", local=1))
