"""Arbitrary input at the ports of a service does not affect its jobs."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import sys
import urllib.request
import uuid
from pathlib import Path

import forebay as fb
import pytest
from forebay._src.selftest.relay import free_port
from pipelines import fingerprint
from secured import Fleet, ready

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked at through /proc")

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def call(path: str, message: bytes) -> bytes:
    """Makes one gRPC call in plain HTTP/2 frames, with uncompressed headers."""
    headers = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "x", "te": "trailers"}
    fields = {**headers, "content-type": "application/grpc"}.items()
    block = b"".join(b"\0" + bytes([len(k)]) + k.encode() + bytes([len(v)]) + v.encode() for k, v in fields)
    return PREFACE + frame(4, 0, 0) + frame(1, 4, 1, block) + frame(0, 0, 1, message)


def rubbish(seed: int) -> bytes:
    """Returns the bytes that are sent to a port, different each time and the same in each run."""
    rng = random.Random(seed)
    noise = rng.randbytes(rng.choice([1, 9, 100, 5000]))
    service = rng.choice(["forebay.v1.Dispatcher/OpenJob", "arrow.flight.protocol.FlightService/DoGet"])
    return rng.choice(
        [
            noise,
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + noise,
            PREFACE + noise,
            PREFACE + frame(4, 0, 0) + frame(rng.randrange(12), rng.randrange(256), rng.randrange(4), noise),
            PREFACE + frame(4, 0, 0) + (2**24 - 1).to_bytes(3, "big") + b"\0\0\0\0\0\1" + noise,
            call(f"/{service}", b"\0" + struct.pack(">I", len(noise)) + noise),
            call(f"/{service}", b"\0" + struct.pack(">I", 2**32 - 1) + noise),
            call(f"/{service}", b"\1" + struct.pack(">I", len(noise)) + noise),
            call("/" + "n" * 100, noise),
        ]
    )


def lending_socket(address: str) -> str:
    """Requests the name of a worker's socket as a consumer does."""
    host, port = address.rsplit(":", 1)
    request = b'"Local"'
    with socket.create_connection((host, int(port)), timeout=90) as reader, reader.makefile("rb") as answer:
        reader.sendall(b"forebay\x01" + struct.pack("<I", len(request)) + request)
        kind, metadata, header, body = struct.unpack("<BIIQ", answer.read(17))
        assert (kind, metadata, header) == (3, 0, 0)
        return "\0" + answer.read(body).decode()


def throw(address: str, data: bytes, hold: list[socket.socket] | None = None) -> None:
    host, port = address.removeprefix("forebay://").rsplit(":", 1)
    thrown = socket.create_connection((host, int(port)), timeout=90)
    # The port may close the connection in the middle of the input.
    with contextlib.suppress(OSError):
        thrown.sendall(data)
    if hold is None:
        thrown.close()
    else:
        hold.append(thrown)


def state(pids: list[int]) -> list[tuple[int, int]]:
    """Descriptors and resident kilobytes of each process."""

    def resident(pid: int) -> int:
        text = Path(f"/proc/{pid}/status").read_text()
        return int(next(line.split()[1] for line in text.splitlines() if line.startswith("VmRSS")))

    return [(len(list(Path(f"/proc/{pid}/fd").iterdir())), resident(pid)) for pid in pids]


def numbers() -> fb.Dataset:
    return fb.range(4000).shuffle().with_column("x", fb.col("id") * 0.5).batch(16)


def test_rubbish_at_every_port_changes_nothing(capfd, until):
    ds = numbers()
    want = [fingerprint(batch) for batch in ds.iter(seed=3, epochs=4)]

    def job(service, while_reading=lambda i: None) -> list[str]:
        got = []
        for i, batch in enumerate(ds.distribute(service, job=f"job-{uuid.uuid4().hex[:8]}", seed=3, epochs=4)):
            got.append(fingerprint(batch))
            while_reading(i)
        return got

    with fb.up(workers=2, threads=1) as service:
        assert job(service) == want
        pids = [service.dispatcher_pid, *service.worker_pids]
        addresses = [service.address, *(worker.address for worker in service.workers())]
        sockets = [lending_socket(address) for address in addresses[1:]]
        before = state(pids)
        held: list[socket.socket] = []

        def disturb(i: int) -> None:
            for at, address in enumerate(addresses):
                throw(address, rubbish(3 * i + at))
            if i % 20 == 0:
                # Slow ones: half a preface and no more, and one that begins and is then silent.
                throw(addresses[i // 20 % 3], PREFACE[: 1 + i % 23], held)
                throw(addresses[i // 20 % 3], PREFACE + frame(4, 0, 0), held)
                lender = socket.socket(socket.AF_UNIX)
                lender.connect(sockets[i // 20 % 2])
                lender.sendall(random.Random(i).randbytes(17 * 500 + i % 17))
                held.append(lender)

        assert job(service, disturb) == want
        assert len(held) >= 3 * 40
        assert [service.dispatcher_pid, *service.worker_pids] == pids, "no process died"
        # The service closes silent connections by itself. Consumers of memory live as long as they are connected.
        for lender in (s for s in held if s.family == socket.AF_UNIX):
            lender.close()
        until(lambda: all(now[0] <= was[0] + 8 for now, was in zip(state(pids), before, strict=True)))
        assert all(now[1] < was[1] + (64 << 10) for now, was in zip(state(pids), before, strict=True))
        for kept in held:
            kept.close()
        assert job(service) == want
    said = capfd.readouterr().err
    assert len(said.splitlines()) < 200, said[:2000]


def test_silent_connections_hold_up_no_other(tmp_path, until):
    """While 300 connections were silent, all later ones waited for ten seconds."""
    with contextlib.ExitStack() as stack:
        fleet = stack.enter_context(contextlib.closing(Fleet(tmp_path)))
        metrics = f"127.0.0.1:{free_port()}"
        dispatcher = fleet.dispatcher("--metrics", metrics)
        worker = fleet.worker(dispatcher, "--no-lend")
        until(lambda: ready(fb.connect(dispatcher), 1))
        held: list[socket.socket] = []
        for address in (dispatcher, worker, metrics):
            for i in range(400):
                throw(address, PREFACE[: max(0, i - 300) % 24], held)
        stack.callback(lambda: [kept.close() for kept in held])
        service = fb.connect(dispatcher, timeout=9)
        assert len(list(numbers().distribute(service, job="beside"))) == 250
        with urllib.request.urlopen(f"http://{metrics}/metrics", timeout=9) as answer:
            assert b"forebay_build_info" in answer.read()
