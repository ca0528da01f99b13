"""Sources that do not answer: they delay only their own jobs."""

from __future__ import annotations

import contextlib
import itertools
import re
import socket
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import forebay as fb
import pytest

#: Far less than the time limit of a store's read in these tests.
SOON = 90


#: A file of the server.
TEXT = b"".join(b"%099d\n" % line for line in range(1000))


class Server:
    """Answers requests for the size of a file; with `is_silent`, nothing. A file is sent once `gives` is set."""

    def __init__(self) -> None:
        self.is_silent = False
        self.gives = threading.Event()
        self.asked = 0
        self.reads = 0
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.open: list[socket.socket] = []
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self.listener.accept()
                self.open.append(peer)
                threading.Thread(target=self.answer, args=[peer], daemon=True).start()

    def answer(self, peer: socket.socket) -> None:
        with contextlib.suppress(OSError), peer.makefile("rb") as lines:
            # A peer that has closed its end gives empty lines for ever.
            while head := b"".join(itertools.takewhile(lambda line: line not in (b"\r\n", b""), lines)):
                self.asked += 1
                self.reads += head.startswith(b"GET")
                tag = b'Accept-Ranges: bytes\r\nETag: "1"\r\n'
                if head.startswith(b"HEAD") and not self.is_silent:
                    peer.sendall(b"HTTP/1.1 200 OK\r\n" + tag + b"Content-Length: %d\r\n\r\n" % len(TEXT))
                if head.startswith(b"GET"):
                    self.gives.wait()
                    peer.sendall(b"HTTP/1.1 " + tag.join(part(head)))

    def close(self) -> None:
        for peer in [self.listener, *self.open]:
            peer.close()


def part(head: bytes) -> tuple[bytes, bytes]:
    """Returns the answer to a request for a file, before and after the names of the file."""
    if found := re.search(rb"range: bytes=(\d+)-(\d*)", head, re.IGNORECASE):
        first, last = int(found[1]), min(int(found[2] or len(TEXT)), len(TEXT) - 1)
        body, of = TEXT[first : last + 1], b"Content-Range: bytes %d-%d/%d\r\n" % (first, last, len(TEXT))
        return b"206 Partial Content\r\n" + of, b"Content-Length: %d\r\n\r\n" % len(body) + body
    return b"200 OK\r\n", b"Content-Length: %d\r\n\r\n" % len(TEXT) + TEXT


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def service(monkeypatch) -> Iterator[fb.Service]:
    """One thread computes, and reads of a store have no time limit."""
    monkeypatch.setenv("FOREBAY_STORE_TIMEOUT", "600")
    monkeypatch.setenv("FOREBAY_STORE_PATIENCE", "600")
    with fb.up(workers=1, threads=1) as service:
        yield service


def name() -> str:
    return f"job-{uuid.uuid4().hex[:8]}"


def read(dataset: fb.Dataset, service: fb.Service, job: str) -> int | str:
    """Reads a job; returns its batches, or the error that ended it."""
    try:
        return len(list(dataset.distribute(service, job=job)))
    except fb.errors.ForebayError as error:
        return type(error).__name__


def test_sources_that_answer_nothing_delay_no_other_job_and_cancelling_ends_them(service, server, until):
    """Four of them kept every place for indexing, until the dispatcher was restarted."""
    jobs = {name(): fb.from_text(f"{server.url}/{i}.txt") for i in range(12)}
    asked, server.is_silent = server.asked, True
    with ThreadPoolExecutor(13) as pool:
        reads = [pool.submit(read, dataset, service, job) for job, dataset in jobs.items()]
        until(lambda: server.asked >= asked + 4)
        assert pool.submit(read, fb.range(64).batch(8), service, name()).result(SOON) == 8
        for job in jobs:
            service.cancel(job)
        assert {done.result(SOON) for done in reads} == {"ClosedError"}
    assert read(fb.range(64).batch(8), service, name()) == 8


def test_reads_that_hang_hold_no_thread_once_their_job_is_cancelled(service, server, until):
    """They occupied the worker's only thread until they came back."""
    urls = [f"{server.url}/{i}.txt" for i in range(12)]
    with ThreadPoolExecutor(1) as pool:
        job = name()
        hangs = pool.submit(read, fb.from_text(urls).batch(8), service, job)
        until(lambda: server.reads > 0)
        service.cancel(job)
        assert hangs.result(SOON) == "ClosedError"
        assert pool.submit(read, fb.range(640).batch(8), service, name()).result(SOON) == 80


def test_jobs_that_hang_leave_others_places_of_the_worker_and_go_on_by_themselves(service, server, until):
    """They occupied all places of the worker, so no other job was leased a split there until the server answered."""
    urls = [f"{server.url}/{i}.txt" for i in range(12)]
    jobs = {name(): fb.from_text(part).batch(8) for part in (urls, urls[:6])}
    with ThreadPoolExecutor(3) as pool:
        hang = [pool.submit(read, dataset, service, job) for job, dataset in jobs.items()]
        try:
            # One thread, so four places.
            until(lambda: server.reads > 0 and service.workers()[0].leases >= 4)
            assert pool.submit(read, fb.range(640).batch(8), service, name()).result(SOON) == 80
            assert not any(done.done() for done in hang)
            server.gives.set()
            assert [done.result(SOON) for done in hang] == [1500, 750]
        finally:
            for job in jobs:
                service.cancel(job)
