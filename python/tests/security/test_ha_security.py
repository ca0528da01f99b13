"""Several dispatchers over a real etcd with TLS and tokens: each of them is equally secured."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from forebay._src.selftest.etcd import Etcd, is_installed
from pipelines import fingerprint
from secured import Authority, Fleet, new_token, ready

pytestmark = pytest.mark.skipif(
    not is_installed(), reason="there is no etcd on this machine: apt-get install etcd-server"
)

DENIED = fb.errors.PermissionDeniedError


def slow(row: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    import time

    time.sleep(0.002)
    return {"twice": row["id"] * 2}


def pipeline(rows: int = 2000) -> fb.Dataset:
    """Returns a pipeline with a user's function, a blob of the tenant, and a source index, which is another."""
    return fb.range(rows).shuffle().map(slow, schema={"twice": "int64"}).batch(20)


class Several(Fleet):
    """Two dispatchers of mutual TLS over one etcd, with one file of tokens."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.etcd = Etcd(folder)
        authority = Authority(folder / "ours")
        self.tokens = folder / "tokens.json"
        self.token = {tenant: new_token(self.tokens, "client", tenant) for tenant in ("vision", "speech")}
        self.worker_token = new_token(self.tokens, "worker")
        own, server = authority.issue("trainer", "trainer.example"), authority.issue("dispatcher")
        self.tls = fb.Tls(authority.ca, own.cert, own.key)
        self.flags = ["--tls-ca", authority.ca, *authority.issue("worker").flags(), "--tls-client-ca", authority.ca]
        asks = [*server.flags(), "--tls-client-ca", authority.ca, "--tokens", self.tokens]
        self.dispatchers = [self.dispatcher("--store", self.etcd.url, *asks) for _ in range(2)]

    @property
    def addresses(self) -> str:
        return ",".join(self.dispatchers)

    def connect(self, address: str, tenant: str) -> fb.Service:
        return fb.connect(address, tls=self.tls, token=self.token[tenant], timeout=30)

    def one_more_worker(self) -> None:
        self.worker(self.addresses, *self.flags, token=self.worker_token)

    def leader(self) -> int:
        return self.dispatchers.index(str(self.etcd.leader()))

    def close(self) -> None:
        super().close()
        self.etcd.kill()


@pytest.fixture
def several(tmp_path: Path) -> Iterator[Several]:
    several = Several(tmp_path)
    try:
        yield several
    finally:
        several.close()


def test_a_stream_over_tls_with_a_token_does_not_change_when_the_leader_is_killed(several, until):
    several.one_more_worker()
    service = several.connect(several.addresses, "vision")
    until(lambda: ready(service, 1))
    first = several.leader()
    waits = several.dispatchers[1 - first]
    # A client that knows only the waiting dispatcher is redirected to the leader, with the same credentials.
    assert ready(several.connect(waits, "vision"), 1)
    with pytest.raises(DENIED, match="asks for a token"):
        fb.connect(waits, tls=several.tls)
    with pytest.raises(DENIED, match="speaks TLS, and this side does not"):
        fb.connect(several.addresses, token=several.token["vision"])

    got, name = [], uuid.uuid4().hex
    for batch in pipeline().distribute(service, job=name, seed=1):
        got.append(fingerprint(batch))
        if len(got) == 10:
            several.processes[first].kill()
        if len(got) == 40:
            # A new worker at a new leader: it finds the tenant's blobs in etcd.
            several.one_more_worker()
    assert got == [fingerprint(batch) for batch in pipeline().iter(seed=1)]
    assert several.leader() != first

    assert [(job.name, job.tenant) for job in service.jobs()] == [(name, "vision")]
    other = several.connect(several.addresses, "speech")
    assert other.jobs() == []
    # The same name is another job of another tenant, with blobs of its own.
    assert len(list(pipeline(100).distribute(other, job=name, seed=1))) == 5
