"""The actor on a node of a Ray cluster: it starts one worker there, reads its output, and ends it.

The worker is a separate process, `python -m forebay worker`, and the actor is its parent. When the actor ends for any
reason, the system closes the worker's stdin, and the worker ends. The worker announces its address on stdout. The actor
keeps the last lines of its stderr to explain an early end, and passes all of it on to Ray's logs. Each method that
blocks is a call of Ray's, on a thread of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections import deque

#: Lines of stderr that are kept, and the characters of each.
TAIL_LINES = 40
LINE_CHARACTERS = 400
#: The most characters of a line that are read at once, because the output of functions has no limits.
READ_CHARACTERS = 1 << 16
#: Seconds to wait for the last output of a worker.
LAST_WORDS_SECONDS = 0.5
#: Seconds that a worker may take to end at once.
END_SECONDS = 3.0
#: A worker gets its credentials from its caller, so these variables of the node are removed.
_ELSEWHERE = ("ADVERTISE", "TLS_CA", "TLS_CERT", "TLS_KEY", "TLS_NAME", "TOKEN", "TOKEN_FILE")


class WorkerHost:
    """A worker on this node, which listens on any free port.

    Args:
        arguments: The arguments of `forebay worker`, except the address.
        shown: The variables with its credentials for the dispatcher; they are secret, so they are no arguments.
        loopback: Whether dispatcher, workers and consumers are all on this machine.
    """

    #: Two calls wait for the worker while others query it or give it commands.
    THREADS = 4

    def __init__(self, arguments: list[str], shown: dict[str, str], loopback: bool) -> None:
        self.host = "127.0.0.1" if loopback else _node_address()
        listen = f"[{self.host}]:0" if ":" in self.host else f"{self.host}:0"
        own = ["--listen", listen, "--announce", "--exit-with-parent"]
        environment = {k: v for k, v in os.environ.items() if k not in {f"FOREBAY_{name}" for name in _ELSEWHERE}}
        self.worker = subprocess.Popen(
            [sys.executable, "-m", "forebay", "worker", *arguments, *own],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env={**environment, **shown},
            process_group=0,
        )
        self.tail: deque[str] = deque(maxlen=TAIL_LINES)
        self.listener = threading.Thread(target=self._listen, daemon=True)
        self.listener.start()

    def _listen(self) -> None:
        assert self.worker.stderr is not None
        while line := self.worker.stderr.readline(READ_CHARACTERS):
            self.tail.append(line.rstrip()[:LINE_CHARACTERS])
            print(line, end="", file=sys.stderr, flush=True)

    def placed(self) -> tuple[str, int]:
        """Returns the node's address and the worker's process id, which shows that Ray has placed this actor."""
        return self.host, self.worker.pid

    def announced(self) -> str | None:
        """Waits until the worker listens, and returns its address, or `None` if it ends before."""
        assert self.worker.stdout is not None
        line = self.worker.stdout.readline(READ_CHARACTERS)
        return str(json.loads(line)["address"]) if line else None

    def ended(self) -> tuple[int, str]:
        """Waits until the worker has ended; returns its exit code and its last output."""
        code = self.worker.wait()
        self.listener.join(LAST_WORDS_SECONDS)
        return code, "\n".join(self.tail)

    def leave(self) -> None:
        """Tells the worker to leave (SIGTERM): it accepts no new lease, and ends when its data was read."""
        self.worker.terminate()

    def end(self) -> None:
        """Ends the worker at once, and waits for that."""
        assert self.worker.stdin is not None
        with contextlib.suppress(OSError):
            self.worker.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.worker.wait(END_SECONDS)
        self.worker.kill()
        self.worker.wait()


def _node_address() -> str:
    import ray.util

    return str(ray.util.get_node_ip_address())
