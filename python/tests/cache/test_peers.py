"""Workers with rows in memory, or on separate disks: each computes only rows that no other has, after any fault."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

import forebay as fb
import pytest
from keeping import DEAR_ROWS, calls, dear, stream
from pipelines import name
from secured import Authority, new_token, ready

#: A computed row is on its worker's disk at once, in small blocks, and in no other place.
KEEPS = ["--cache-memory", "0", "--cache-disk", "256KiB", "--cache"]
#: A computed row is in its worker's memory, and in no other place.
IN_MEMORY = ["--cache-memory", "64MiB"]
#: The most rows that are computed although a peer has them: on a busy machine, some answers of peers come late.
FEW = DEAR_ROWS // 4
PREFACE = b"forebay\x01"
FAILED = 2


def found(service: fb.Service, job: str) -> int:
    """Returns how many rows of a job workers found at each other."""
    return sum(cache["rows"]["found_at_peers"] for cache in service.jobs(job)[0].caching.values())


def fill(service: fb.Service, log: Path, until) -> None:
    """Makes the only worker cache all rows."""

    def is_kept() -> bool:
        stream(dear(log).distribute(service, job=name(), seed=1))
        log.unlink(missing_ok=True)
        stream(dear(log).distribute(service, job=name(), seed=1))
        return not log.exists()

    until(is_kept)


@dataclass
class Two:
    """A service whose first worker has all rows, and the second none; and the log of computed rows."""

    service: fb.Service
    first: subprocess.Popen[str]
    log: Path
    want: list


@pytest.fixture
def two(fleet, tmp_path, until, monkeypatch) -> Two:
    monkeypatch.setenv("FOREBAY_CACHE", "")
    address, log = fleet.dispatcher(), tmp_path / "log"
    fleet.worker(address, *KEEPS, tmp_path / "one")
    service = fb.connect(address)
    until(lambda: ready(service, 1))
    want = stream(dear(log).iter(seed=7, epochs=4))
    fill(service, log, until)
    fleet.worker(address, *KEEPS, tmp_path / "two")
    until(lambda: ready(service, 2))
    return Two(service, fleet.processes[1], log, want)


def test_what_one_worker_has_on_its_disk_another_does_not_compute(two):
    assert stream(dear(two.log).distribute(two.service, job=name(), seed=7, epochs=4)) == two.want
    assert calls(two.log).total() <= FEW, "half of all would be, on the second worker"


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_a_peer_that_is_gone_while_it_is_read_from_changes_nothing(two, sign):
    got = []
    for i, batch in enumerate(dear(two.log).distribute(two.service, job=name(), seed=7, epochs=4)):
        if i == 15:
            os.kill(two.first.pid, sign)
        got += stream([batch])
    assert got == two.want
    assert set(calls(two.log).values()) <= {1, 2}, (
        "the second keeps what it computes; the first may have been at it, too"
    )


def test_blocks_that_are_damaged_at_a_peer_are_computed(two, tmp_path):
    got = []
    for i, batch in enumerate(dear(two.log).distribute(two.service, job=name(), seed=7, epochs=4)):
        if i == 15:
            for block in (tmp_path / "one").rglob("*.arrow"):
                data = bytearray(block.read_bytes())
                data[len(data) // 3 : len(data) // 3 + 400] = bytes(400)
                block.write_bytes(data)
        got += stream([batch])
    assert got == two.want
    assert two.log.exists()


def test_workers_of_one_machine_with_one_folder_are_no_peers(fleet, tmp_path, until, monkeypatch):
    monkeypatch.setenv("FOREBAY_CACHE", "")
    address = fleet.dispatcher()
    for _ in range(2):
        fleet.worker(address, *KEEPS, tmp_path / "one")
    service = fb.connect(address)
    until(lambda: ready(service, 2))
    job = name()
    it = dear(tmp_path / "log").distribute(service, job=job, seed=1, epochs=None).iter()

    def on_disk() -> int:
        next(it)
        return sum(cache["rows"]["found_on_disk"] for cache in service.jobs(job)[0].caching.values())

    until(lambda: on_disk() > 4 * DEAR_ROWS)
    assert found(service, job) == 0


@dataclass
class Three:
    """A service of three workers with memory alone, after one epoch; how many rows each computed, by its process."""

    service: fb.Service
    log: Path
    rows: dict[int, int]


@pytest.fixture
def three(fleet, tmp_path, until, monkeypatch) -> Three:
    monkeypatch.setenv("FOREBAY_CACHE", "")
    address, log = fleet.dispatcher(), tmp_path / "log"
    pids = {fleet.worker(address, *IN_MEMORY): fleet.processes[-1].pid for _ in range(3)}
    service = fb.connect(address)
    until(lambda: ready(service, 3))
    job = name()
    it = iter(dear(log).distribute(service, job=job, seed=1))

    def kept() -> dict[str, dict]:
        return {worker: cache["rows"] for worker, cache in service.jobs(job)[0].caching.items()}

    # All rows are computed before the last batch is consumed; then each worker lists those of the others, except the
    # last one, which another makes after the last request. On a busy machine a late split is computed twice.
    for _ in range(DEAR_ROWS // 8 - 1):
        next(it)
    until(lambda: sum(rows["at_peers"] for rows in kept().values()) >= 2 * DEAR_ROWS - FEW)
    rows = {worker: rows["in_memory"] for worker, rows in kept().items()}
    stream(it)
    assert set(calls(log)) == set(range(DEAR_ROWS))
    log.unlink()
    return Three(service, log, {pids[w.address]: rows[w.worker] for w in service.workers()})


def test_workers_with_memory_alone_compute_nothing_in_the_second_epoch(three, tmp_path):
    want = stream(dear(tmp_path / "alone").iter(seed=7, epochs=2))
    job = name()
    assert stream(dear(three.log).distribute(three.service, job=job, seed=7, epochs=2)) == want
    assert calls(three.log).total() <= FEW, "two thirds of all would be"


def test_a_worker_that_is_killed_takes_its_own_rows_along_and_no_others(three, tmp_path):
    want = stream(dear(tmp_path / "alone").iter(seed=7, epochs=2))
    victim = max(three.rows, key=lambda pid: three.rows[pid])
    got = []
    for i, batch in enumerate(dear(three.log).distribute(three.service, job=name(), seed=7, epochs=2)):
        if i == 2:
            os.kill(victim, signal.SIGKILL)
        got += stream([batch])
    assert got == want
    assert len(calls(three.log)) <= three.rows[victim] + FEW, "only the rows that no other worker had"


def ask(address: str, request: dict) -> tuple[int, str]:
    """Returns a worker's answer to a stranger: the kind of its frame, and the body."""
    host, port = address.rsplit(":", 1)
    body = json.dumps(request).encode()
    with socket.create_connection((host, int(port)), timeout=10) as stranger, stranger.makefile("rb") as answer:
        stranger.sendall(PREFACE + struct.pack("<I", len(body)) + body)
        kind, _, _, length = struct.unpack("<BIIQ", answer.read(17))
        return kind, answer.read(length).decode()


def test_where_there_are_tokens_a_stranger_is_shown_nothing(fleet, tmp_path, until, monkeypatch):
    monkeypatch.setenv("FOREBAY_CACHE", "")
    tokens = tmp_path / "tokens.json"
    token, worker = new_token(tokens, "client", "vision"), new_token(tokens, "worker")
    address = fleet.dispatcher("--tokens", tokens)
    first = fleet.worker(address, *KEEPS, tmp_path / "one", token=worker)
    service = fb.connect(address, token=token)
    until(lambda: ready(service, 1))
    fill(service, tmp_path / "log", until)
    fleet.worker(address, *KEEPS, tmp_path / "two", token=worker)
    until(lambda: ready(service, 2))
    stream(dear(tmp_path / "log").distribute(service, job=name(), seed=7, epochs=4))
    assert calls(tmp_path / "log").total() <= FEW
    [block, *_] = (tmp_path / "one").rglob("*.arrow")
    prefix, key = block.parent.name, "0" * 32
    part = {"name": f"1/{prefix}/{block.name}", "start": 0, "end": 8}
    for guess in (key, "1" * 32):
        for request in (
            {"Blocks": {"prefix": prefix, "key": guess}},
            {"Parts": {"parts": [part], "key": guess}},
        ):
            kind, said = ask(first, request)
            assert kind == FAILED
            assert "the same service only" in said


def test_peers_speak_tls_where_the_service_does(fleet, tmp_path, until, monkeypatch):
    monkeypatch.setenv("FOREBAY_CACHE", "")
    authority = Authority(tmp_path / "pki")
    tokens = tmp_path / "tokens.json"
    token, worker = new_token(tokens, "client", "vision"), new_token(tokens, "worker")
    own, ask_all = authority.issue("trainer", "trainer.example"), ["--tls-client-ca", authority.ca]
    server, trusted = authority.issue("dispatcher"), authority.issue("worker")
    address = fleet.dispatcher(*server.flags(), *ask_all, "--tokens", tokens)
    trust = ["--tls-ca", authority.ca, *trusted.flags(), *ask_all]
    fleet.worker(address, *KEEPS, tmp_path / "one", *trust, token=worker)
    service = fb.connect(address, tls=fb.Tls(authority.ca, own.cert, own.key), token=token)
    until(lambda: ready(service, 1))
    fill(service, tmp_path / "log", until)
    fleet.worker(address, *KEEPS, tmp_path / "two", *trust, token=worker)
    until(lambda: ready(service, 2))
    stream(dear(tmp_path / "log").distribute(service, job=name(), seed=7, epochs=4))
    assert calls(tmp_path / "log").total() <= FEW
