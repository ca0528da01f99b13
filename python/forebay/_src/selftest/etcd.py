"""An etcd of one member for one run, in which several dispatchers keep their state.

It is the real server, if that is installed (`apt-get install etcd-server`, `brew install etcd`).
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from forebay._src.selftest.relay import free_port

START_SECONDS_MAX = 90.0
#: For one request.
REQUEST_SECONDS_MAX = 10.0
LOOK_SECONDS = 0.02


def is_installed() -> bool:
    """Returns whether etcd is installed on this machine."""
    return shutil.which("etcd") is not None


class Etcd:
    """A running etcd; `kill` and `start` it as often as you like, over the same data."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._clients, self._peers = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        self._popen: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        """The value of a dispatcher's option for its state."""
        return f"etcd://{self._clients}/forebay"

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        clients, peers = f"http://{self._clients}", f"http://{self._peers}"
        addresses = ["--listen-client-urls", clients, "--advertise-client-urls", clients]
        addresses += ["--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers]
        command = [
            "etcd",
            "--data-dir",
            str(self._folder / "etcd"),
            *addresses,
            "--initial-cluster",
            f"default={peers}",
        ]
        with (self._folder / "etcd.txt").open("ab") as log:
            self._popen = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + START_SECONDS_MAX
        while True:
            try:
                self.leader()
                return
            except OSError:
                if time.monotonic() > deadline or self._popen.poll() is not None:
                    raise RuntimeError(
                        f"etcd did not start: {(self._folder / 'etcd.txt').read_text()[-2000:]}"
                    ) from None
                time.sleep(LOOK_SECONDS)

    def kill(self) -> None:
        """Kills it (SIGKILL)."""
        if self._popen is not None:
            self._popen.kill()
            self._popen.wait()

    def leader(self) -> str | None:
        """Returns the address of the dispatcher that leads, if one does."""
        key = base64.b64encode(b"forebay/leader").decode()
        request = urllib.request.Request(f"http://{self._clients}/v3/kv/range", json.dumps({"key": key}).encode())
        with urllib.request.urlopen(request, timeout=REQUEST_SECONDS_MAX) as answer:
            found = json.load(answer).get("kvs", [])
        return str(json.loads(base64.b64decode(found[0]["value"]))["address"]) if found else None
