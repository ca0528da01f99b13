"""A proxy in front of a store that corrupts every third answer, in one of many ways, and counts forwarded requests.

It forwards each request whole before it corrupts the answer, so that a fault is the network's, never the store's.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class Answer:
    """An answer of the store."""

    status: int
    headers: dict[str, str]
    body: bytes

    def head(self, **changed: str) -> bytes:
        headers = {**self.headers, **{k.replace("_", "-"): v for k, v in changed.items()}}
        lines = [f"HTTP/1.1 {self.status} Answer", *(f"{k}: {v}" for k, v in headers.items() if v), "", ""]
        return "\r\n".join(lines).encode()


def _reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _until_gone(client: socket.socket) -> None:
    """Waits until the client closes the connection."""
    while client.recv(1):
        pass


def _status(status: int, **headers: str) -> Callable[[socket.socket, Answer], None]:
    return lambda client, _: client.sendall(Answer(status, {"content-length": "0"}, b"").head(**headers))


def reset_at_once(client: socket.socket, answer: Answer) -> None:
    _reset(client)


def reset_in_the_body(client: socket.socket, answer: Answer) -> None:
    client.sendall(answer.head() + answer.body[: len(answer.body) * 2 // 3])
    _reset(client)


def cut(client: socket.socket, answer: Answer) -> None:
    client.sendall(answer.head() + answer.body[: len(answer.body) // 2])


def drip(client: socket.socket, answer: Answer) -> None:
    client.sendall(answer.head())
    client.settimeout(0.05)
    for at in range(len(answer.body)):
        client.sendall(answer.body[at : at + 1])
        try:
            client.recv(1)
        except TimeoutError:
            continue
        return


def hang(client: socket.socket, answer: Answer) -> None:
    _until_gone(client)


def hang_in_the_body(client: socket.socket, answer: Answer) -> None:
    client.sendall(answer.head() + answer.body[: len(answer.body) // 2])
    _until_gone(client)


def other_range(client: socket.socket, answer: Answer) -> None:
    sent = answer.headers.get("content-range", "")
    if sent:
        first, rest = sent.removeprefix("bytes ").split("-", 1)
        last, size = rest.split("/")
        sent = f"bytes {int(first) + 1}-{int(last) + 1}/{size}"
    client.sendall(answer.head(content_range=sent) + answer.body)


def too_long(client: socket.socket, answer: Answer) -> None:
    """Sends more bytes than requested. An answer without a range has no length to compare with."""
    if "content-range" not in answer.headers:
        return client.sendall(answer.head() + answer.body)
    body = b"\0" * 5 + answer.body
    return client.sendall(answer.head(content_length=str(len(body))) + body)


# The faults that a reader does not notice.
FAULTS: dict[str, Callable[[socket.socket, Answer], None]] = {
    "503 with retry-after": _status(503, retry_after="0"),
    "429": _status(429),
    "500": _status(500),
    **{f.__name__: f for f in (reset_at_once, reset_in_the_body, cut, drip, hang, hang_in_the_body)},
    **{f.__name__: f for f in (other_range, too_long)},
}


# Good answers to a request after which one more fault of it is allowed.
CALM = 8


def none(client: socket.socket, answer: Answer) -> None:
    """Causes no fault: for a proxy that only counts."""


class FaultProxy:
    """Listens on `url`; spoils every `every`-th answer with `fault`, if `only` returns true for it.

    With `every` above 1, two faults of one request may follow each other, and each further one needs `CALM` good
    answers to it before. Several threads may send the same request: the count alone would by chance spoil all attempts
    of one thread, which would rightly give up. Counts both, and the `bytes` of ranges that it forwarded.
    """

    def __init__(
        self,
        upstream: str,
        fault: Callable[[socket.socket, Answer], None],
        every: int = 3,
        only: Callable[[str, Answer], bool] = lambda method, answer: True,
    ) -> None:
        self._host, self._fault, self._every, self._only = upstream.removeprefix("http://"), fault, every, only
        self._lock = threading.Lock()
        self.requests = self.faults = self.bytes = 0
        self._recent: Counter[tuple[str, str]] = Counter()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> FaultProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            with client:
                while head := self._head(client):
                    headers = dict(line.split(": ", 1) for line in head[1:])
                    body = self._body(client, int(headers.get("content-length", 0)))
                    if not self._answer(client, head[0], headers, body):
                        return
        except OSError:
            pass

    @staticmethod
    def _head(client: socket.socket) -> list[str]:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            part = client.recv(1)
            if not part:
                return []
            head += part
        return head.decode().split("\r\n")[:-2]

    @staticmethod
    def _body(client: socket.socket, length: int) -> bytes:
        body = b""
        while len(body) < length and (part := client.recv(min(length - len(body), 1 << 20))):
            body += part
        return body

    def _answer(self, client: socket.socket, line: str, headers: dict[str, str], body: bytes) -> bool:
        """Forwards a request; returns whether the connection lives."""
        method, path, _ = line.split(" ")
        with contextlib.closing(http.client.HTTPConnection(self._host)) as upstream:
            upstream.request(method, path, body or None, headers)
            response = upstream.getresponse()
            heads = response.getheaders()
            kept = {k.lower(): v for k, v in heads if k.lower() not in ("connection", "transfer-encoding")}
            answer = Answer(response.status, kept, response.read())
        kept.setdefault("content-length", str(len(answer.body)))
        with self._lock:
            self.requests += 1
            spoiled = self.requests % self._every == 0 and self._only(method, answer)
            request = (line, headers.get("range", ""))
            spoiled = spoiled and (self._every == 1 or self._recent[request] <= CALM)
            self._recent[request] = self._recent[request] + CALM if spoiled else max(0, self._recent[request] - 1)
            self.faults += spoiled
            self.bytes += 0 if spoiled or "content-range" not in kept else len(answer.body)
        if spoiled:
            self._fault(client, answer)
            return False
        client.sendall(answer.head() + answer.body)
        return True
