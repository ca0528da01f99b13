"""Several dispatchers over a real etcd: the same stream under any leader, and after any end of a leader."""

from __future__ import annotations

import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import forebay as fb
import pytest
from forebay._src.selftest.etcd import is_installed
from forebay._src.selftest.fleet import Fleet
from pipelines import fingerprint

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="processes are looked at through /proc"),
    pytest.mark.skipif(not is_installed(), reason="there is no etcd on this machine: apt-get install etcd-server"),
]


def slow(row):
    import time

    time.sleep(0.002)
    return {"id": row["id"], "twice": row["id"] * 2}


def pipeline() -> fb.Dataset:
    """Returns a pipeline with a user's function, so that there is a blob; and a source index, which is another blob."""
    return fb.range(3000).shuffle().map(slow).batch(20)


def local(epochs: int) -> list:
    return [fingerprint(b) for b in pipeline().iter(seed=1, epochs=epochs)]


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path, 2, dispatchers=2)
    try:
        fleet.wait_for_workers()
        yield fleet
    finally:
        fleet.close()


def read(fleet: Fleet, strikes: dict[int, Callable[[], None]], epochs: int = 2) -> list:
    """Reads on the service; causes a fault before the batch of each number."""
    got = []
    for batch in pipeline().distribute(fleet.service, job=uuid.uuid4().hex, seed=1, epochs=epochs):
        got.append(fingerprint(batch))
        if len(got) in strikes:
            strikes[len(got)]()
    return got


def test_a_leader_that_is_killed_is_followed_and_the_stream_does_not_change(fleet, until):
    killed = []

    def kill():
        killed.append(fleet.leader())
        fleet.dispatchers[killed[-1]].kill()

    def follow():
        """The next dispatcher leads; a worker that is new to it finds everything that it needs in etcd."""
        assert fleet.leader() != killed[-1]
        fleet.start_workers(["127.0.0.1:0"])
        fleet.restart_dispatcher(killed[-1])

    assert read(fleet, {20: kill, 60: follow, 170: kill}) == local(2)
    assert len(killed) == 2
    new = fleet.workers[2].address

    def is_used() -> bool:
        return any(w.address == new and w.splits_done > 0 for w in fleet.service.workers())

    # The stream may have ended before that worker had started.
    until(lambda: is_used() or (read(fleet, {}, epochs=1) == local(1) and is_used()))


def test_the_last_word_of_a_reader_waits_for_the_next_leader(fleet, until):
    def kill():
        fleet.dispatchers[fleet.leader()].kill()

    batches = local(1)
    assert read(fleet, {len(batches): kill}, epochs=1) == batches
    said = lambda: [(job.state, [c.leased for c in job.consumers]) for job in fleet.service.jobs()]  # noqa: E731
    until(lambda: said() == [("finished", [0])])


def test_a_leader_that_stood_still_says_nothing_as_one_once_it_goes_on(fleet, until):
    stopped = fleet.leader()

    def stop():
        fleet.dispatchers[stopped].signal(signal.SIGSTOP)
        # Its lease ends in etcd, and another is elected, before it can notice.
        until(lambda: fleet.leader() != stopped)

    def go_on():
        fleet.dispatchers[stopped].signal(signal.SIGCONT)

    assert read(fleet, {20: stop, 120: go_on}) == local(2)
    assert fleet.leader() != stopped
    until(lambda: "no longer leads" in fleet.errors.read_text())
    # The other dispatcher redirects callers to the leader.
    waiting = fb.connect(fleet.dispatchers[stopped].address)
    until(lambda: [j.state for j in waiting.jobs()] == ["finished"])


def test_an_etcd_that_is_gone_for_a_while_stops_grants_and_nothing_else(fleet, until):
    etcd = fleet.etcd

    def kill():
        etcd.kill()
        # Without etcd no dispatcher can lead for longer than a term.
        until(lambda: "no longer leads" in fleet.errors.read_text())
        etcd.start()

    def blink():
        etcd.kill()
        etcd.start()

    assert read(fleet, {20: kill, 170: blink}) == local(2)


def test_a_leader_that_is_told_to_stop_gives_way_at_once(fleet):
    first = fleet.leader()

    def end():
        fleet.dispatchers[first].signal(signal.SIGTERM)
        assert fleet.dispatchers[first].popen.wait(90) == 0

    assert read(fleet, {20: end}, epochs=1) == local(1)
    assert fleet.leader() != first


def test_a_store_that_is_none_is_refused(tmp_path):
    command = [sys.executable, "-m", "forebay", "dispatcher", "--store", "redis://x", "--state-dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    assert done.returncode == 1
    assert "etcd://host:2379" in done.stderr
