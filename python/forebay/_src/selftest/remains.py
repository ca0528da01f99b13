"""The leftovers of a run: processes, shared memory, sockets, files, leases.

Processes and connections that end by themselves get a moment: a process that was told to end, a connection whose other
side is gone. Without /proc, only files and leases are checked.
"""

from __future__ import annotations

import gc
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from forebay._src.selftest.fleet import Fleet

#: Seconds that processes and connections may take to end by themselves.
SETTLE_SECONDS = 5.0
LOOK_SECONDS = 0.02
PROC = Path("/proc")
SHARED = Path("/dev/shm")


@dataclass(frozen=True)
class Own:
    """The resources that this process holds.

    Attributes:
        sockets: Its open sockets.
        memories: Its descriptors and mappings of workers' memory.
        shared: The names in /dev/shm that are Forebay's.
    """

    sockets: int
    memories: int
    shared: frozenset[str]

    @classmethod
    def now(cls) -> Own:
        """Returns the current ones."""
        gc.collect()
        links = [_link(file) for file in _entries(PROC / "self" / "fd")]
        maps = (PROC / "self" / "maps").read_text().splitlines() if PROC.exists() else []
        memories = sum(link.startswith("/memfd:forebay") for link in links)
        memories += sum("/memfd:forebay" in line for line in maps)
        names = frozenset(file.name for file in _entries(SHARED) if "forebay" in file.name)
        return cls(sum(link.startswith("socket:") for link in links), memories, names)


def processes(folder: Path) -> list[int]:
    """Returns the processes that were started with a folder in their environment, and their descendants."""
    marker = f"TMPDIR={folder}\0".encode()
    found = []
    for process in _entries(PROC):
        if process.name.isdigit() and int(process.name) != os.getpid():
            try:
                environment = (process / "environ").read_bytes()
            except OSError:
                continue
            if marker in environment:
                found.append(int(process.name))
    return found


def leases(fleet: Fleet) -> list[str]:
    """Returns the leases, consumers and unfinished jobs that the dispatcher still has."""

    def left() -> list[str]:
        said = [f"{w.leases} leases of the worker at {w.address}" for w in fleet.service.workers() if w.leases]
        for job in fleet.service.jobs():
            if job.state != "finished":
                said.append(f"job {job.name} is {job.state!r}")
            said += [f"{c.leased} leases of consumer {c.consumer}" for c in job.consumers if c.leased]
            said += [f"consumer {c.consumer} is attached" for c in job.consumers if c.attached]
        return said

    return _settle(left)


def after(fleet: Fleet, before: Own) -> list[str]:
    """Returns the leftovers after a fleet was closed. Ends processes among them."""

    def left() -> list[str]:
        now = Own.now()
        said = [f"process {pid}" for pid in processes(fleet.temporary)]
        said += [f"file {file.name}" for file in fleet.temporary.rglob("*")]
        if now.sockets > before.sockets:
            said.append(f"{now.sockets - before.sockets} sockets")
        if now.memories > before.memories:
            said.append(f"{now.memories - before.memories} shared memories")
        return said + [f"/dev/shm/{name}" for name in now.shared - before.shared]

    said = _settle(left)
    for pid in processes(fleet.temporary):
        os.kill(pid, signal.SIGKILL)
    return said


def _settle(left: Callable[[], list[str]]) -> list[str]:
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        said = left()
        if not said or time.monotonic() > deadline:
            return said
        time.sleep(LOOK_SECONDS)


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _link(file: Path) -> str:
    try:
        return os.readlink(file)
    except OSError:
        return ""
