"""A network that can be cut: a port that forwards bytes to another, until `cut` holds them.

Held bytes are delivered later, as TCP does once a network works again. A cut never closes connections, which makes it
worse than the death of a process.
"""

from __future__ import annotations

import contextlib
import random
import socket
import threading

CHUNK_BYTES = 1 << 16
PORTS = (10_000, 32_768)
PORT_TRIES_MAX = 1000


def free_port() -> int:
    """Returns a port that no process listens on, for a process that starts later.

    The system gives such a port to no other process: it takes those of connections, and those of port 0, from 32768 on.
    """
    dice = random.SystemRandom()
    for _ in range(PORT_TRIES_MAX):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port := dice.randrange(*PORTS))):
            return port
    raise OSError("no port is free")


class Relay:
    """Passes connections on to `host:port`.

    >>> with socket.create_server(("127.0.0.1", 0)) as server:
    ...     relay = Relay(f"127.0.0.1:{server.getsockname()[1]}")
    ...     here = socket.create_connection(tuple(relay.address.split(":")))
    ...     there, _ = server.accept()
    ...     here.sendall(b"hello")
    ...     there.recv(5)
    ...     relay.close()
    ...     here.close(), there.close()
    b'hello'
    (None, None)
    """

    def __init__(self, to: str) -> None:
        self._to = to
        self._server = socket.create_server(("127.0.0.1", 0))
        self._whole = threading.Event()
        self._whole.set()
        self._open: list[socket.socket] = [self._server]
        self._threads: list[threading.Thread] = []
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        self._run(self._accept)

    def cut(self) -> None:
        """Holds everything from now on, new connections too."""
        self._whole.clear()

    def heal(self) -> None:
        """Delivers the held bytes, and forwards again."""
        self._whole.set()

    def close(self) -> None:
        """Ends all connections."""
        self.heal()
        for end in self._open:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        for thread in self._threads:
            thread.join()

    def _run(self, target: object, *arguments: socket.socket) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        host, _, port = self._to.rpartition(":")
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._server.accept()
                self._whole.wait()
                try:
                    far = socket.create_connection((host, int(port)))
                except OSError:
                    near.close()
                    continue
                self._open += [near, far]
                self._run(self._pass_on, near, far)
                self._run(self._pass_on, far, near)

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK_BYTES):
                self._whole.wait()
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
