"""A dispatcher and workers as separate processes, and the faults that can be applied to them.

Each is started as `forebay up` starts it: it announces its address, and ends with this process. All get one temporary
folder in `TMPDIR`, by which `remains` finds them and the processes that they started.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import forebay as fb
from forebay._src.selftest.etcd import Etcd
from forebay._src.selftest.relay import Relay, free_port

START_SECONDS_MAX = 90.0
END_SECONDS_MAX = 5.0
LOOK_SECONDS = 0.01


@dataclass
class Process:
    """A process that listens on a port.

    Attributes:
        popen: The process.
        address: Its address, `host:port`.
        listening: The time at which it listened, by `time.perf_counter`.
    """

    popen: subprocess.Popen[str]
    address: str
    listening: float

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.popen.pid

    @property
    def runs(self) -> bool:
        """Returns whether it has not ended."""
        return self.popen.poll() is None

    def signal(self, number: signal.Signals) -> None:
        """Sends it a signal."""
        self.popen.send_signal(number)

    def kill(self) -> None:
        """Kills it (SIGKILL), and waits until it has ended."""
        self.popen.kill()
        self.popen.wait()

    def end(self) -> None:
        """Closes its stdin, and waits until it has ended; kills it if that takes too long."""
        with contextlib.suppress(OSError):
            self.signal(signal.SIGCONT)
        for pipe in (self.popen.stdin, self.popen.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(END_SECONDS_MAX)
        self.kill()


class Fleet:
    """A dispatcher and `count` workers of one thread. Workers that were killed keep their place and address.

    With `relayed`, the first worker reaches the dispatcher through the first of `relays`, and is reached through the
    second. With several `dispatchers`, their state is in an etcd of this fleet's own, and one of them leads.
    """

    def __init__(
        self, folder: Path, count: int, relayed: bool = False, dispatchers: int = 1, cached: bool = False
    ) -> None:
        self.folder = folder
        #: Where workers keep the rows of a pipeline's cache, if there is one.
        self.kept = folder / "kept"
        self._cached = cached
        self.temporary = folder / "tmp"
        self.temporary.mkdir(parents=True)
        self.errors = folder / "stderr.txt"
        self.everyone: list[Process] = []
        self.etcd = Etcd(folder) if dispatchers > 1 else None
        self.dispatchers = [self._dispatcher(number, "127.0.0.1:0") for number in range(dispatchers)]
        self.workers: list[Process] = []
        self.relays: list[Relay] = []
        if relayed:
            self._start_relayed()
        self.start_workers(["127.0.0.1:0"] * (count - len(self.workers)))
        self._service: fb.Service | None = None

    @property
    def dispatcher(self) -> Process:
        """The first dispatcher, in most runs the only one."""
        return self.dispatchers[0]

    @property
    def address(self) -> str:
        """The addresses of all dispatchers of the service."""
        return ",".join(dispatcher.address for dispatcher in self.dispatchers)

    @property
    def service(self) -> fb.Service:
        """The service, once its dispatcher answers."""
        if self._service is None:
            self._service = fb.connect(f"forebay://{self.address}", timeout=START_SECONDS_MAX)
        return self._service

    def wait_for_workers(self) -> None:
        """Waits until every worker that runs is registered."""
        want = sum(worker.runs for worker in self.workers)
        deadline = time.monotonic() + START_SECONDS_MAX
        while sum(w.state in ("idle", "working") for w in self.service.workers()) < want:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{want} workers did not register in time")
            time.sleep(LOOK_SECONDS)

    def leases(self) -> dict[str, int]:
        """Returns how many leases the worker at each address holds."""
        return {w.address: w.leases for w in self.service.workers()}

    def kill_workers(self, which: list[int]) -> int:
        """Kills workers and returns how many splits they had; it stops them first, so that the number is final."""
        dead = [self.workers[i] for i in which]
        for worker in dead:
            worker.signal(signal.SIGSTOP)
        held = self.leases()
        for worker in dead:
            worker.kill()
        return sum(held.get(worker.address, 0) for worker in dead)

    def start_workers(self, addresses: list[str]) -> None:
        """Starts workers at the same time, in new places."""
        with ThreadPoolExecutor(max(1, len(addresses))) as pool:
            self.workers += pool.map(self._worker, addresses)

    def _start_relayed(self) -> None:
        listen = f"127.0.0.1:{free_port()}"
        self.relays = [Relay(self.dispatcher.address), Relay(listen)]
        to, of = (relay.address for relay in self.relays)
        self.workers.append(self._worker(listen, to, "--advertise", of))

    def restart_workers(self, which: list[int]) -> None:
        """Starts workers again, at the addresses and in the places of the workers that ended."""
        with ThreadPoolExecutor(max(1, len(which))) as pool:
            started = list(pool.map(self._worker, [self.workers[i].address for i in which]))
        for i, worker in zip(which, started, strict=True):
            self.workers[i] = worker

    def restart_dispatcher(self, number: int = 0) -> None:
        """Starts a dispatcher again, at its address and over its state."""
        self.dispatchers[number] = self._dispatcher(number, self.dispatchers[number].address)

    def leader(self) -> int:
        """Waits until one of the running dispatchers leads, and returns its number."""
        assert self.etcd is not None
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline:
            address = self.etcd.leader()
            found = [n for n, d in enumerate(self.dispatchers) if d.runs and d.address == address]
            if found:
                return found[0]
            time.sleep(LOOK_SECONDS)
        raise TimeoutError("no dispatcher was elected in time")

    def _dispatcher(self, number: int, listen: str) -> Process:
        state = str(self.folder / ("state" if number == 0 else f"state-{number}"))
        store = [] if self.etcd is None else ["--store", self.etcd.url]
        return self._start("dispatcher", "--listen", listen, "--state-dir", state, *store)

    def _worker(self, listen: str, dispatcher: str = "", *more: str) -> Process:
        at = dispatcher or self.address
        # Rows are read from the folder: memory has room for little more than the index. A small quota makes small
        # blocks, which are written soon.
        cache = ["--cache", str(self.kept), "--cache-memory", "64KiB", "--cache-disk", "1MiB"] if self._cached else []
        return self._start("worker", "--dispatcher", at, "--listen", listen, "--threads", "1", *cache, *more)

    def _start(self, *arguments: str) -> Process:
        command = [sys.executable, "-m", "forebay", *arguments, "--announce", "--exit-with-parent"]
        with self.errors.open("a") as errors:
            popen = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, "TMPDIR": str(self.temporary), "FOREBAY_LOG": "warn"},
                process_group=0,
            )
        process = Process(popen, "", 0.0)
        self.everyone.append(process)
        assert popen.stdout is not None
        line = popen.stdout.readline()
        if not line:
            raise RuntimeError(f"the {arguments[0]} ended before it listened: {self.last_words()}")
        process.address, process.listening = json.loads(line)["address"], time.perf_counter()
        return process

    def last_words(self) -> str:
        """Returns the last lines of stderr of all processes."""
        return "\n".join(self.errors.read_text(errors="replace").splitlines()[-8:])

    def close(self) -> None:
        """Ends all of them. The service's own connections go with it."""
        self._service = None
        with ThreadPoolExecutor(max(1, len(self.everyone))) as pool:
            list(pool.map(Process.end, self.everyone))
        if self.etcd is not None:
            self.etcd.kill()
        for relay in self.relays:
            relay.close()
