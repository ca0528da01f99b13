"""A fleet of two versions of Forebay: this tree, and the package in `$UPGRADE_FROM` (see `.ci/upgrade`).

Each test starts real processes of both versions, kills some of them, and compares the stream with that of a service of
one version.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import pytest

OLD, NEW = "old", "new"
#: How long a process may take to start, or a stream to be read.
DEADLINE = 120.0
#: Batches that a reader gets before a process is killed.
BEFORE = 40

#: The stream, as a program that both versions run: `reader.py ADDRESS FOLDER JOB`. Prints a hash of each batch.
READER = """
import hashlib, sys, time
import forebay as fb

def doubled(row):
    row["double"] = row["id"] * 2
    return row

address, folder, job = sys.argv[1:4]
counted = fb.range(20_000).shuffle().map(doubled).batch(100)
streamed = fb.from_jsonl(folder + "/*.jsonl", schema={"id": "int64", "text": "string"})
streamed = streamed.shuffle(window=500).filter(fb.col("id") % 3 != 0).batch(64)
for name, ds in (("counted", counted), ("streamed", streamed)):
    for batch in ds.distribute(address, job=f"{job}-{name}", seed=7, epochs=1):
        digest = hashlib.blake2b(digest_size=8)
        for column in sorted(batch):
            digest.update(repr(batch[column].tolist()).encode())
        print(digest.hexdigest(), flush=True)
        time.sleep(0.002)
"""


@dataclass
class Fleet:
    """Processes of both versions."""

    folder: Path
    stack: ExitStack
    address: str = ""
    dispatcher: subprocess.Popen[str] | None = None
    workers: list[subprocess.Popen[str]] = field(default_factory=list)

    def run(self, version: str, *arguments: str) -> subprocess.Popen[str]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("FOREBAY_")}
        if version == OLD:
            environment["PYTHONPATH"] = os.environ["UPGRADE_FROM"]
        log = self.stack.enter_context((self.folder / "log").open("a"))
        process = subprocess.Popen(
            [sys.executable, *arguments],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment,
            cwd=self.folder,
        )
        self.stack.callback(process.wait)
        self.stack.callback(process.kill)
        return process

    def role(self, version: str, *arguments: str) -> tuple[subprocess.Popen[str], str]:
        process = self.run(version, "-m", "forebay", *arguments, "--announce")
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, (self.folder / "log").read_text()[-2000:]
        return process, json.loads(line)["address"]

    def start_dispatcher(self, version: str) -> None:
        listen = self.address or "127.0.0.1:0"
        state = str(self.folder / "state")
        self.dispatcher, self.address = self.role(version, "dispatcher", "--listen", listen, "--state-dir", state)

    def end_dispatcher(self, how: signal.Signals) -> None:
        assert self.dispatcher is not None
        self.dispatcher.send_signal(how)
        self.dispatcher.wait(DEADLINE)

    def start_worker(self, version: str) -> subprocess.Popen[str]:
        worker, _ = self.role(version, "worker", "--dispatcher", self.address, "--listen", "127.0.0.1:0")
        self.workers.append(worker)
        return worker

    def reader(self, version: str, job: str) -> subprocess.Popen[str]:
        return self.run(version, "reader.py", f"forebay://{self.address}", str(self.folder), job)

    def listed(self, version: str, what: str) -> list[dict[str, Any]]:
        process = self.run(version, "-m", "forebay", what, "--service", self.address, "--json")
        output, _ = process.communicate(timeout=DEADLINE)
        assert process.returncode == 0, (self.folder / "log").read_text()[-2000:]
        found: list[dict[str, Any]] = json.loads(output)
        return found


def first(reader: subprocess.Popen[str], count: int) -> list[str]:
    assert reader.stdout is not None
    return [reader.stdout.readline().strip() for _ in range(count)]


def rest(fleet: Fleet, process: subprocess.Popen[str]) -> list[str]:
    """What is left of a stream. `communicate` would lose lines that `readline` has buffered."""
    assert process.stdout is not None
    late = threading.Timer(DEADLINE, process.kill)
    late.start()
    output = process.stdout.read()
    late.cancel()
    assert process.wait(DEADLINE) == 0, (fleet.folder / "log").read_text()[-2000:]
    return output.split()


def made(folder: Path) -> Path:
    (folder / "reader.py").write_text(READER)
    for name in "abc":
        rows = (json.dumps({"id": i, "text": f"{name} {i}"}) for i in range(4_000))
        (folder / f"{name}.jsonl").write_text("\n".join(rows) + "\n")
    return folder


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with ExitStack() as stack:
        yield Fleet(made(tmp_path), stack)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The stream of a service of one version, which the other version computes, too."""
    streams = []
    for version in (OLD, NEW):
        with ExitStack() as stack:
            own = Fleet(made(tmp_path_factory.mktemp(version)), stack)
            found = own.run(version, "-c", "import forebay; print(forebay.__file__)").communicate()[0]
            assert found.startswith(os.environ["UPGRADE_FROM"]) == (version == OLD), found
            own.start_dispatcher(version)
            own.start_worker(version)
            streams.append(rest(own, own.reader(version, "own")))
    assert len(streams[0]) > 4 * BEFORE
    assert streams[0] == streams[1], "both versions compute the same bits"
    return streams[0]


@pytest.mark.parametrize(("dispatcher", "worker", "reader"), list(product((OLD, NEW), repeat=3)))
def test_two_versions_compute_one_stream_while_processes_are_killed(
    fleet: Fleet, expected: list[str], dispatcher: str, worker: str, reader: str
) -> None:
    fleet.start_dispatcher(dispatcher)
    fleet.start_worker(worker)
    fleet.start_worker(NEW if worker == OLD else OLD)
    process = fleet.reader(reader, "mixed")
    got = first(process, BEFORE)
    fleet.workers[0].kill()
    got += first(process, BEFORE)
    fleet.end_dispatcher(signal.SIGKILL)
    fleet.start_dispatcher(dispatcher)
    fleet.workers[1].kill()
    fleet.start_worker(worker)
    assert got + rest(fleet, process) == expected


#: A pipeline of an op that the earlier version may lack: `newer.py ADDRESS`.
NEWER = """
import itertools, sys
import numpy as np
import forebay as fb

images = np.arange(64 * 4 * 4 * 3, dtype=np.uint8).reshape(64, 4, 4, 3)
ds = fb.from_numpy({"image": images}).random_invert("image").batch(8)
for stream in ds.iter(seed=7, epochs=1), ds.distribute(sys.argv[1], job="newer", seed=7, epochs=2):
    print("".join(batch["image"].tobytes().hex() for batch in itertools.islice(stream, 8)))
"""


def test_a_worker_of_the_version_before_gets_no_splits_of_an_op_that_it_does_not_know(fleet: Fleet) -> None:
    knows = "import forebay; print(hasattr(forebay.Dataset, 'random_invert'))"
    if fleet.run(OLD, "-c", knows).communicate()[0].strip() == "True":
        pytest.skip("the earlier version knows the op")
    (fleet.folder / "newer.py").write_text(NEWER)
    fleet.start_dispatcher(NEW)
    fleet.start_worker(OLD)
    fleet.start_worker(NEW)
    reader = fleet.run(NEW, "newer.py", f"forebay://{fleet.address}")
    local, remote = reader.communicate(timeout=DEADLINE)[0].splitlines()
    assert reader.returncode == 0
    assert local == remote
    old, new = sorted(fleet.listed(NEW, "workers"), key=lambda worker: -len(worker["differs"]))
    assert old["differs"] == [{"job": "newer", "difference": "op random_invert (unknown)"}]
    assert (old["splits_done"], new["differs"]) == (0, [])
    assert new["splits_done"] > 0


def test_a_service_is_upgraded_and_taken_back_while_it_is_read(fleet: Fleet, expected: list[str]) -> None:
    fleet.start_dispatcher(OLD)
    before = [fleet.start_worker(OLD) for _ in range(2)]
    reader = fleet.reader(OLD, "rolling")
    got = first(reader, BEFORE)
    fleet.end_dispatcher(signal.SIGTERM)
    fleet.start_dispatcher(NEW)
    after = []
    for worker in before:
        got += first(reader, 20)
        after.append(fleet.start_worker(NEW))
        worker.send_signal(signal.SIGTERM)
    for worker in before:
        worker.wait(DEADLINE)
    jobs = {job["name"]: job for job in fleet.listed(NEW, "jobs")}
    assert jobs["rolling-counted"]["consumers"], "the new dispatcher has the job of the old one"
    # And back: workers first, then the dispatcher, over what the new one wrote.
    for worker in after:
        fleet.start_worker(OLD)
        worker.send_signal(signal.SIGTERM)
        got += first(reader, 20)
    fleet.end_dispatcher(signal.SIGTERM)
    fleet.start_dispatcher(OLD)
    assert got + rest(fleet, reader) == expected
    # A finished job is still there, and is read again.
    fleet.end_dispatcher(signal.SIGKILL)
    fleet.start_dispatcher(NEW)
    assert {"rolling-counted", "rolling-streamed"} <= {job["name"] for job in fleet.listed(NEW, "jobs")}
