"""The actor of a service on a Ray cluster: it runs the dispatcher, and keeps the workers.

The actor is detached, so it outlives the program that made it. The dispatcher is a process of its own on the actor's
node, and ends with the actor; the workers are actors of `forebay.ray`, which end with their owner, this actor. A
dispatcher that dies is started again over its state, at the same address, after a pause of 1 s, then 2, up to 60.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from typing import Any

from forebay import _native
from forebay._src.service.ray_host import LINE_CHARACTERS, READ_CHARACTERS, TAIL_LINES, _node_address
from forebay._src.service.ray_workers import RayWorkers, workers

#: Seconds that a dispatcher may take to listen, and to end.
START_SECONDS = 60.0
END_SECONDS = 10.0
#: Pauses before a dispatcher is started again: the first, the longest, and the life after which they begin anew.
PAUSE_SECONDS, PAUSE_MAX_SECONDS, LIVES_SECONDS = 1.0, 60.0, 10.0
#: The most events and lines of a report.
TOLD_MAX = 8


class ServiceHead:
    """A dispatcher on this node, and workers on the cluster.

    Args:
        asked: What the user asked for, the fewest and the most of each: `workers`, and their `threads`.
    """

    #: The actor answers calls for its state while another call ends the service.
    THREADS = 4

    def __init__(self, asked: dict[str, tuple[int, int]]) -> None:
        self.asked, self.host = asked, _node_address()
        self.folder = tempfile.mkdtemp(prefix="forebay-")
        self.tail: deque[str] = deque(maxlen=TAIL_LINES)
        self.stopping = threading.Event()
        self.restarts = 0
        self.workers: RayWorkers | None = None
        self.dispatcher = self._launch(0)
        self.address = self._announced()
        self.keeper = threading.Thread(target=self._keep, daemon=True)
        self.keeper.start()
        fewest, most = asked["workers"]
        fixed = fewest == most
        self.workers = workers(
            self.address,
            num_cpus=asked["threads"][0],
            count=most if fixed else None,
            max_workers=None if fixed else most,
        )

    def _launch(self, port: int) -> subprocess.Popen[str]:
        host = f"[{self.host}]" if ":" in self.host else self.host
        own = ["--listen", f"{host}:{port}", "--state-dir", self.folder, "--announce", "--exit-with-parent"]
        command = [sys.executable, "-m", "forebay", "dispatcher", *own]
        command += ["--max-workers", str(self.asked["workers"][1])]
        started = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            process_group=0,
        )
        threading.Thread(target=self._listen, args=(started,), daemon=True).start()
        return started

    def _listen(self, of: subprocess.Popen[str]) -> None:
        assert of.stderr is not None
        while line := of.stderr.readline(READ_CHARACTERS):
            self.tail.append(line.rstrip()[:LINE_CHARACTERS])
            print(line, end="", file=sys.stderr, flush=True)

    def _announced(self) -> str:
        """Waits until the dispatcher listens, and returns its address. Ends a dispatcher that does not listen."""
        late = threading.Timer(START_SECONDS, self.dispatcher.kill)
        late.start()
        assert self.dispatcher.stdout is not None
        line = self.dispatcher.stdout.readline(READ_CHARACTERS)
        late.cancel()
        if not line:
            self._remove()
            said = "\n".join(self.tail) or f"it did not listen within {START_SECONDS:.0f} s"
            raise RuntimeError(f"the dispatcher did not start on {self.host}: {said}")
        return str(json.loads(line)["address"]).removeprefix("forebay://")

    def _keep(self) -> None:
        """Starts the dispatcher again when it ends."""
        pause, port = PAUSE_SECONDS, int(self.address.rpartition(":")[2])
        while True:
            since = time.monotonic()
            self.dispatcher.wait()
            if time.monotonic() - since > LIVES_SECONDS:
                pause = PAUSE_SECONDS
            if self.stopping.wait(pause):
                return
            pause = min(2 * pause, PAUSE_MAX_SECONDS)
            self.restarts += 1
            self.dispatcher = self._launch(port)

    def state(self) -> dict[str, Any]:
        """Returns the state of the service in plain values: client and cluster may have different versions."""
        there, events = (self.workers.workers, self.workers.events) if self.workers is not None else ([], [])
        runs = self.dispatcher.poll() is None
        told = [f"{it.kind}: {it.message}" + (f": {it.cause}" if it.cause else "") for it in events[-TOLD_MAX:]]
        if not runs:
            told.append("the dispatcher has ended, and is started again: " + "\n".join(list(self.tail)[-TOLD_MAX:]))
        return {
            "version": _native.VERSION,
            "asked": self.asked,
            "address": f"forebay://{self.address}",
            "dispatcher": runs,
            "restarts": self.restarts,
            "workers": [worker.state for worker in there],
            "told": told,
        }

    def stop(self) -> None:
        """Ends the workers, which first serve the data that they hold, and then the dispatcher."""
        self.stopping.set()
        if self.workers is not None:
            self.workers.close()
        assert self.dispatcher.stdin is not None
        self.dispatcher.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.dispatcher.wait(END_SECONDS)
        self.dispatcher.kill()
        self.dispatcher.wait()
        self._remove()

    def _remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
