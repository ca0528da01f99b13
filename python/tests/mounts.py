"""Mounts for tests, the processes that serve them, and the files of their sources."""

from __future__ import annotations

import mmap
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

PAGE = 1 << 20


def _contents() -> dict[str, bytes]:
    """Returns the bytes of small files, of files of several pages, of an empty one, and of one with an odd name."""
    rng = np.random.default_rng(7)
    small = {f"small/{i:03}.bin": rng.bytes(1000 + 997 * i) for i in range(60)}
    large = {f"large/{i}.bin": rng.bytes(3 * PAGE + 12_345 * i) for i in range(2)}
    return {**small, **large, "empty": b"", "a b/é%20?#.txt": b"odd", "deep/er/and/deeper": b"x" * 17}


def cannot_mount() -> str | None:
    """Why a mount cannot be made here."""
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        return f"/dev/fuse cannot be opened: {error}"
    # Root of a container may lack the capability to mount (CAP_SYS_ADMIN, number 21).
    capabilities = re.search(r"^CapEff:\s*([0-9a-f]+)$", Path("/proc/self/status").read_text(), re.MULTILINE)
    if capabilities is None or not int(capabilities[1], 16) >> 21 & 1:
        return "this process may not mount"
    return None


def until(is_so: Callable[[], bool], what: str, seconds: float = 90) -> None:
    """Polls until something is so."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


@contextmanager
def fails(*numbers: int) -> Iterator[None]:
    """Expects one of the system's errors."""
    with pytest.raises(OSError, match=rf"^\[Errno ({'|'.join(map(str, numbers))})\] "):
        yield


class Mount:
    """A mount, and the process that serves it."""

    def __init__(self, folder: Path, *arguments: object, **env: object) -> None:
        self.folder = folder
        self.said: list[str] = []
        command = [sys.executable, "-m", "forebay", "mount", *map(str, arguments), str(folder)]
        settings = {**os.environ, "FOREBAY_CACHE": "", "NO_COLOR": "1", **{k: str(v) for k, v in env.items()}}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=settings)
        self._reader = threading.Thread(target=lambda: self.said.extend(self.process.stderr), daemon=True)
        self._reader.start()
        self.ready = self.process.stdout.readline().strip()

    def log(self, text: str) -> None:
        """Waits for a line of the log."""
        until(lambda: any(text in line for line in self.said), f"{text!r} is not in {self.said}")

    def end(self, how: int = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.ended()

    def ended(self) -> int:
        """Waits for its end; returns the exit code."""
        code = self.process.wait(90)
        self._reader.join(90)
        self.process.stdout.close()
        self.process.stderr.close()
        return code


@contextmanager
def mounted(folder: Path, *arguments: object, **env: object) -> Iterator[Mount]:
    folder.mkdir(exist_ok=True)
    mount = Mount(folder, *arguments, **env)
    try:
        assert mount.ready == f"mounted at {folder}", mount.said
        yield mount
    finally:
        if mount.process.poll() is None:
            mount.end()
        mount.ended()
        subprocess.run(["umount", "-l", str(folder)], stderr=subprocess.DEVNULL, check=False)


def refused(folder: Path, *arguments: object, **env: object) -> tuple[int, str]:
    """Returns the exit code and the output of a mount that is refused."""
    mount = Mount(folder, *arguments, **env)
    assert mount.ready == ""
    return mount.ended(), "".join(mount.said)


def is_mount(folder: Path) -> bool:
    return f" {folder} " in Path("/proc/self/mountinfo").read_text()


def same(mount: Path, folder: Path) -> None:
    done = subprocess.run(["diff", "-r", str(folder), str(mount)], capture_output=True, text=True, timeout=180)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def read_anyhow(path: Path, body: bytes, seed: int) -> None:
    """Ranges in any order, a mapping, and from front to back."""
    dice = random.Random(seed)
    with path.open("rb", buffering=0) as file:
        for _ in range(40):
            at = dice.randrange(len(body) + 1)
            length = dice.choice([1, 4096, 128 << 10, PAGE + 1])
            assert os.pread(file.fileno(), length, at) == body[at : at + length], (at, length)
        with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
            for _ in range(40):
                at = dice.randrange(len(body))
                assert mapped[at : at + 5000] == body[at : at + 5000], at
        assert file.read() == body


#: The bytes of the files that a mount shows, by name.
FILES = _contents()
#: For tests that mount.
can_mount = pytest.mark.skipif(cannot_mount() is not None, reason=str(cannot_mount()))
