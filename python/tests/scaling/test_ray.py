"""Workers on a real Ray cluster of one node: they start and end as needed, and the stream stays the same."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import forebay as fb
import pytest
from forebay._src.service import ray_fleet
from forebay.errors import ConflictError, InvalidPipelineError, PermissionDeniedError, UnavailableError
from pipelines import fingerprint
from secured import Authority, Fleet, new_token

ray = pytest.importorskip("ray")

CPUS = 3
DEADLINE_S = 60.0


def test_without_ray_or_a_cluster_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnavailableError, match=r"not connected to a Ray cluster(.|\n)*call ray.init\(\)"):
        fb.ray.workers("forebay://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UnavailableError, match=r"Ray is not installed(.|\n)*pip install ray"):
        fb.ray.workers("forebay://127.0.0.1:1")


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a cluster of one node, with as many logical cores as a test needs at most."""
    ray.init(num_cpus=CPUS, include_dashboard=False, object_store_memory=80 << 20, log_to_driver=False)
    yield ray.get_runtime_context().gcs_address
    ray.shutdown()


@dataclass(frozen=True)
class Noted:
    """Logs the rows of its calls in a file: a row that is computed twice is there twice."""

    log: Path

    def __call__(self, columns: dict[str, Any]) -> dict[str, Any]:
        line = f"{columns['id'][0]}\n".encode()
        file = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(file, line)
        finally:
            os.close(file)
        # More than a pipe holds: the worker's stderr must be read.
        print("computed", columns["id"].tolist() * 5)
        return {"x": columns["id"] * 3}


def running(fleet: fb.ray.RayWorkers) -> int:
    """Returns the number of workers if all of them run, else 0."""
    states = [worker.state for worker in fleet.workers]
    return len(states) if set(states) == {"running"} else 0


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.alone
def test_workers_follow_what_is_wanted_and_nothing_is_computed_twice(cluster: str, tmp_path: Path) -> None:
    def ds(log: str) -> fb.Dataset:
        return fb.range(48_000).shuffle().batch(8).map(Noted(tmp_path / log), batched=True)

    here = [fingerprint(batch) for batch in ds("here").iter(seed=5)]
    firsts = [int(batch["id"][0]) for batch in fb.range(48_000).shuffle().batch(8).iter(seed=5)]
    there, pids = [], set()
    with fb.up(workers=0, policy="static:2") as service, fb.ray.workers(service, max_workers=3) as fleet:
        batches = ds("there").distribute(service, job="long", epochs=1, seed=5).iter()

        def train_until(workers: int) -> None:
            deadline = time.monotonic() + DEADLINE_S
            while running(fleet) != workers:
                assert time.monotonic() < deadline, (fleet.workers, fleet.events, service.scale())
                there.append(fingerprint(next(batches)))
                pids.update(worker.pid for worker in fleet.workers)
                # Prefetched batches are read within the time that a leaving worker waits for its consumers.
                time.sleep(0.005)

        train_until(2)
        # The jobs need two more workers, and at most three may run.
        second = fb.range(10**9).batch(8).distribute(service, job="second").iter()
        next(second)
        train_until(3)
        service.cancel("second")
        train_until(2)
        there += [fingerprint(batch) for batch in batches]
        job = service.jobs("long")[0]
        assert [e.kind for e in fleet.events if e.kind in ("leaving", "ended", "failed")] == ["leaving", "ended"]
    assert there == here
    assert fleet.workers == []
    assert not any(map(is_alive, pids)), "nothing is left behind"
    calls = [Counter((tmp_path / log).read_text().splitlines()) for log in ("here", "there")]
    # A worker's first split waits for the process of the function, and so may be given to another one, too.
    batches_of_split = math.ceil(len(firsts) / job.consumers[0].splits)
    again = {firsts.index(int(first)) // batches_of_split for first in calls[1] - calls[0]}
    assert len(again) <= job.raced, f"splits {again} were computed again, and {job.raced} were raced"


def test_a_worker_or_an_actor_that_is_killed_is_replaced(cluster: str, until: Callable[..., None]) -> None:
    ds = fb.range(4_000).shuffle().batch(8)
    here = [fingerprint(batch) for batch in ds.iter(seed=2)]
    with fb.up(workers=0) as service, fb.ray.workers(service, max_workers=1) as fleet:
        batches, there = ds.distribute(service, job="killed", seed=2).iter(), []
        for place in ("worker", "actor"):
            until(lambda: running(fleet) == 1)
            worker = fleet.workers[0].pid
            there += [fingerprint(next(batches)) for _ in range(100)]
            os.kill(worker if place == "worker" else parent(worker), signal.SIGKILL)
            until(lambda before=worker: not is_alive(before) and all(w.pid != before for w in fleet.workers))
        there += [fingerprint(batch) for batch in batches]
        told = [event for event in fleet.events if event.kind == "failed"]
        assert "Killed, signal 9" in told[0].message, told
        assert "is lost with its actor" in told[1].message, told
        assert "The actor died" in told[1].cause, told
        assert "another is started in" in told[0].message, told
    assert there == here


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_workers_that_cannot_start_are_told_of_and_the_job_goes_on(
    cluster: str, tmp_path: Path, until: Callable[..., None]
) -> None:
    missing = fb.Tls(*(tmp_path / name for name in ("no-ca.pem", "no.pem", "no.key")))
    with (
        fb.up(workers=1, threads=1) as service,
        fb.ray.workers(service, num_cpus=64) as huge,
        fb.ray.workers(service, max_workers=2, tls=missing) as broken,
    ):

        def failures() -> list[fb.ray.RayEvent]:
            return [event for event in broken.events if event.kind == "failed"]

        ds = fb.range(1_000).shuffle().batch(8)
        there = [fingerprint(batch) for batch in ds.distribute(service, job="goes on", seed=1)]
        assert there == [fingerprint(batch) for batch in ds.iter(seed=1)]
        until(lambda: len(failures()) >= 3, 90)
        assert "the worker on 127.0.0.1 (process" in failures()[0].message, failures()
        assert "ended (exit code" in failures()[0].message, failures()
        assert f"file: {tmp_path}/no.pem" in failures()[0].cause, failures()
        pauses = [event.message.rpartition(" in ")[2] for event in failures()[:3]]
        assert pauses == ["1 s", "2 s", "4 s"]
        until(lambda: [event.kind for event in huge.events] == ["waiting"])
        assert "takes 64 CPU on one node" in huge.events[0].cause, huge.events
        assert f"the most that one has is {CPUS} CPU" in huge.events[0].cause, huge.events
        assert [worker.state for worker in huge.workers] == ["waiting"]
        service.close()
        until(lambda: huge.events[-1].kind == "unknown")
        assert "did not answer" in huge.events[-1].message, huge.events
    assert huge.workers == broken.workers == []
    huge.close()


def test_a_worker_that_the_dispatcher_never_hears_of_is_told_of(
    cluster: str, monkeypatch: pytest.MonkeyPatch, until: Callable[..., None]
) -> None:
    monkeypatch.setattr(ray_fleet, "START_SECONDS", 4.0)
    # A node without a route to the dispatcher: no message of its worker arrives.
    monkeypatch.setattr(ray_fleet.Fleet, "_registered", lambda self: set())
    with fb.up(workers=0) as service, fb.ray.workers(service, max_workers=1) as fleet:
        # On a busy machine the actor may wait for room, and a worker may need more than its 4 s to listen.
        unheard = f"the dispatcher at {service.address} did not hear of it"
        until(lambda: any(event.kind == "failed" and unheard in event.message for event in fleet.events), 180)


def test_workers_end_with_the_program_that_has_them(cluster: str, until: Callable[..., None]) -> None:
    with fb.up(workers=0) as service:
        program = f"""
            import forebay as fb, ray, sys, time
            ray.init({cluster!r}, log_to_driver=False)
            fleet = fb.ray.workers({service.address!r})
            while [w.state for w in fleet.workers] != ["running"]:
                time.sleep(0.01)
            print(fleet.workers[0].pid, flush=True)
            sys.stdin.read()
        """
        command = [sys.executable, "-c", textwrap.dedent(program)]
        for how in ("ends", "is killed"):
            with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as driver:
                assert driver.stdin is not None
                assert driver.stdout is not None
                worker = int(driver.stdout.readline())
                assert is_alive(worker)
                if how == "is killed":
                    driver.kill()
                driver.stdin.close()
                assert driver.wait(90) == (0 if how == "ends" else -signal.SIGKILL)
            until(lambda worker=worker: not is_alive(worker))


def test_workers_are_reached_at_their_nodes(
    cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, until: Callable[..., None]
) -> None:
    dispatchers, node = Fleet(tmp_path), ray.util.get_node_ip_address()
    try:
        address = dispatchers.start("dispatcher", "--listen", f"{node}:0", "--state-dir", tmp_path / "state")
        ds = fb.range(1_000).shuffle().batch(8)
        with fb.ray.workers(f"forebay://{address}") as fleet:
            until(lambda: running(fleet) == 1)
            there = [fingerprint(batch) for batch in ds.distribute(f"forebay://{address}", job="there", seed=3)]
            assert [worker.address.rpartition(":")[0] for worker in fleet.workers] == [node]
        assert there == [fingerprint(batch) for batch in ds.iter(seed=3)]
        monkeypatch.setattr(
            ray, "nodes", lambda: [{"NodeManagerAddress": f"10.0.0.{n}", "Alive": True} for n in (1, 2)]
        )
        with pytest.raises(InvalidPipelineError, match=r"only this machine can reach(.|\n)*--listen 0\.0"):
            fb.ray.workers("forebay://" + dispatchers.dispatcher())
    finally:
        dispatchers.close()


def test_over_tls_and_with_tokens(cluster: str, tmp_path: Path) -> None:
    authority, dispatchers = Authority(tmp_path / "pki"), Fleet(tmp_path)
    try:
        tokens, own = tmp_path / "tokens.json", authority.issue("everyone")
        by_role = {
            role: new_token(tokens, role, "vision" * (role == "client")) for role in ("admin", "worker", "client")
        }
        address = "forebay://" + dispatchers.dispatcher(*own.flags(), "--tokens", tokens)
        tls = fb.Tls(authority.ca, own.cert, own.key)
        client = fb.connect(address, tls=tls, token=by_role["client"])
        with pytest.raises(PermissionDeniedError):
            fb.ray.workers(client)
        trusting = fb.connect(address, tls=fb.Tls(authority.ca), token=by_role["admin"])
        with pytest.raises(InvalidPipelineError, match="need a certificate of their own"):
            fb.ray.workers(trusting)
        admin = fb.connect(address, tls=tls, token=by_role["admin"])
        with pytest.raises(InvalidPipelineError, match="has max_restarts, name"):
            fb.ray.workers(admin, options={"name": "x", "max_restarts": 3})
        with pytest.raises(InvalidPipelineError, match="Ray refuses"):
            fb.ray.workers(admin, options={"num_cpu": 3})
        ds = fb.range(1_000).shuffle().batch(8)
        with fb.ray.workers(admin, token=by_role["worker"]):
            there = [fingerprint(batch) for batch in ds.distribute(client, job="secured", seed=3)]
        assert there == [fingerprint(batch) for batch in ds.iter(seed=3)]
    finally:
        dispatchers.close()


def test_workers_of_one_kind_are_as_many_as_are_wanted_of_it(
    cluster: str, tmp_path: Path, until: Callable[..., None]
) -> None:
    dispatchers = Fleet(tmp_path)
    try:
        offers = ["--offer", "kind=node,price=4,threads=1", "--offer", "kind=node,price=1,threads=1,spot"]
        service = fb.connect(dispatchers.dispatcher(*offers))
        with pytest.raises(InvalidPipelineError, match=r"of each kind(.|\n)*node, node \(spot\)"):
            fb.ray.workers(service)
        with pytest.raises(InvalidPipelineError, match="no workers of kind nodes"):
            fb.ray.workers(service, kind="nodes")
        with pytest.raises(InvalidPipelineError, match="spot=True goes with kind="):
            fb.ray.workers(service, spot=True)
        with fb.ray.workers(service, kind="node") as dear, fb.ray.workers(service, kind="node", spot=True) as cheap:
            until(lambda: (running(cheap), dear.workers) == (1, []))
            [worker] = service.workers()
            assert (worker.kind, worker.price, worker.spot) == ("node", 1.0, True)
    finally:
        dispatchers.close()


class NoService:
    """An actor that forebay did not make."""


# On a busy machine the dispatcher takes long to start again, and the consumer rightly reports that it waits.
@pytest.mark.filterwarnings("ignore:the dispatcher at .* does not answer")
def test_a_service_of_forebay_cluster_outlives_its_starter_and_its_dispatcher(
    cluster: str, until: Callable[..., None]
) -> None:
    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        whole = [sys.executable, "-m", "forebay", "cluster", *arguments, "--on", "ray", "--address", cluster]
        return subprocess.run(whole, capture_output=True, text=True, timeout=400)

    started = command("start", "pipes", "--workers", "2")
    assert started.returncode == 0, started.stderr
    assert "made the detached actor" in started.stderr
    service = fb.cluster.find("pipes", on="ray")
    assert started.stdout == f"{service.address}\n"
    assert (service.status().ready, service.status().workers) == (True, "2/2")
    assert fb.cluster.start("pipes", on="ray", workers=2).address == service.address
    with pytest.raises(ConflictError, match=r"now → asked\): workers 2 → 3"):
        fb.cluster.start("pipes", on="ray", workers=3)

    # The dispatcher dies in the middle of a job, and is back at its address with its state.
    ds = fb.range(2_000).shuffle().batch(8)
    batches = iter(ds.distribute(service, job="train", seed=3))
    got = [fingerprint(next(batches)) for _ in range(3)]
    (dispatcher,) = children("dispatcher", service.address)
    os.kill(dispatcher, signal.SIGKILL)
    until(lambda: children("dispatcher", service.address) not in ([], [dispatcher]))
    got += [fingerprint(batch) for batch in batches]
    assert got == [fingerprint(batch) for batch in ds.iter(seed=3)]

    processes = children("dispatcher", service.address) + children("worker", service.address)
    assert len(processes) == 3
    stopped = command("stop", "pipes")
    assert stopped.returncode == 0, stopped.stderr
    until(lambda: not any(map(is_alive, processes)))
    assert command("stop", "pipes").returncode == 4
    assert fb.cluster.status(on="ray") == []


def children(role: str, address: str) -> list[int]:
    """Returns the processes of a role whose arguments contain the port of the address."""
    port, found = address.rpartition(":")[2], []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (process / "cmdline").read_bytes().decode().split("\0")
            listens = role == "dispatcher" and "forebay" in arguments and role in arguments and owned_by(process, port)
        except OSError:
            # The process has ended.
            continue
        if listens or (role in arguments and any(it.endswith(f":{port}") for it in arguments)):
            found.append(int(process.name))
    return sorted(found)


def owned_by(process: Path, port: str) -> bool:
    """Whether a process listens at the port."""
    sockets = {os.readlink(it) for it in (process / "fd").iterdir() if it.is_symlink()}
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    entries = [line.split() for line in lines]
    inodes = {it[9] for it in entries if int(it[1].rpartition(":")[2], 16) == int(port) and it[3] == "0A"}
    return any(f"socket:[{inode}]" in sockets for inode in inodes)


def test_an_actor_of_the_name_that_is_no_service_is_left_alone(cluster: str) -> None:
    other = ray.remote(NoService).options(name="forebay-service-other", namespace="forebay", num_cpus=0).remote()
    for call in (fb.cluster.start, fb.cluster.stop):
        with pytest.raises(ConflictError, match="was not made by `forebay cluster`"):
            call("other", on="ray")
    ray.kill(other)
    with pytest.raises(InvalidPipelineError, match="image, plain is for on='kubernetes'"):
        fb.cluster.start("other", on="ray", image="i", plain=True)
