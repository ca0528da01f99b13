"""Tenants of a service with tokens: each sees, reads and uses its own, within its quota."""

from __future__ import annotations

import collections
import itertools
import time
from concurrent.futures import ThreadPoolExecutor

import forebay as fb
import pyarrow.flight as flight
import pytest
from pipelines import fingerprint
from secured import Fleet, edit, new_token, numbers, pictures, ready, without_settings

DENIED = fb.errors.PermissionDeniedError


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    without_settings(monkeypatch)


class Tenants:
    """A service with tokens, without encryption, and two tenants."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet, self.tokens = fleet, fleet.folder / "tokens.json"
        self.shown = {tenant: new_token(self.tokens, "client", tenant) for tenant in ("a", "b")}
        self.admin = new_token(self.tokens, "admin")
        self.of_workers = {tenant: new_token(self.tokens, "worker", tenant) for tenant in ("", "a")}
        self.address = fleet.dispatcher("--tokens", self.tokens)

    def worker(self, tenant: str = "", *more: str) -> str:
        return self.fleet.worker(self.address, *more, token=self.of_workers[tenant])

    def connect(self, tenant: str) -> fb.Service:
        return fb.connect(self.address, token=self.shown[tenant])


@pytest.fixture
def tenants(fleet) -> Tenants:
    return Tenants(fleet)


def test_two_tenants_have_each_their_own(tenants, until):
    tenants.worker()
    a, b = tenants.connect("a"), tenants.connect("b")
    until(lambda: ready(a, 1))
    of_a, of_b = numbers(), pictures()
    # The same name, at the same time, for another pipeline.
    first, second = (iter(ds.distribute(s, job="same", seed=1)) for ds, s in ((of_a, a), (of_b, b)))
    read = [fingerprint(next(first))], [fingerprint(next(second))]
    assert [[j.tenant for j in s.jobs()] for s in (a, b)] == [["a"], ["b"]]
    [seen] = b.workers()
    assert seen.splits_done is seen.rows_done is seen.rows_shared is None, "what others compute there is not told"
    admin = fb.connect(tenants.address, token=tenants.admin)
    assert sorted((j.tenant, j.name, j.key) for j in admin.jobs()) == [("a", "same", ""), ("b", "same", "")]

    # Arrow Flight: nothing is listed, found or served without the job's key.
    worker = flight.connect(f"grpc://{seen.address}")
    keys = [s.jobs()[0].key for s in (a, b)]
    assert len(keys[0]) == 32
    assert keys[0] not in repr(a.jobs())
    assert list(worker.list_flights()) == list(worker.list_flights(bytes(32))) == []
    [found, *_] = worker.list_flights(keys[0].encode())
    ticket = found.endpoints[0].ticket
    assert worker.do_get(ticket).read_all().num_rows > 0
    for wrong in ("", keys[1]):
        guessed = flight.Ticket(ticket.ticket.replace(keys[0].encode(), wrong.encode() or b"0" * 32))
        with pytest.raises(KeyError, match="does not hold that split"):
            worker.do_get(guessed).read_all()
    path = list(found.descriptor.path)
    assert worker.get_flight_info(found.descriptor).endpoints
    for wrong in (path[:-1], [*path[:-1], b"0" * 32]):
        with pytest.raises(KeyError):
            worker.get_flight_info(flight.FlightDescriptor.for_path(*wrong))

    for wrong in ("other", "none"):
        with pytest.raises(fb.errors.NotFoundError):
            b.cancel(wrong)
    only_a = numbers(64).distribute(a, job="other", seed=1)
    assert len(list(only_a)) == 4
    errors = []
    for wrong in ("other", "none"):
        with pytest.raises(fb.errors.NotFoundError) as caught:
            b.cancel(wrong)
        errors.append(str(caught.value).replace(wrong, "it"))
    assert errors[0] == errors[1], "another's is answered as what does not exist"
    with pytest.raises(DENIED):
        b.cancel("other", tenant="a")

    read[0].extend(fingerprint(batch) for batch in first)
    read[1].extend(fingerprint(batch) for batch in second)
    assert read == ([fingerprint(x) for x in of_a.iter(seed=1)], [fingerprint(x) for x in of_b.iter(seed=1)])
    admin.cancel("same", tenant="a")
    until(lambda: [j.state for j in a.jobs()] == ["cancelled", "finished"])
    until(lambda: [j.state for j in b.jobs()] == ["finished"])


def test_a_token_that_is_revoked_is_good_for_nothing_and_others_do_not_notice(tenants, until):
    tenants.worker()
    a, b = tenants.connect("a"), tenants.connect("b")
    until(lambda: ready(a, 1))
    want = [fingerprint(x) for x in numbers().iter(seed=2)]
    # Endless: no machine finishes it before the dispatcher has read the file again.
    mine = iter(numbers().distribute(a, job="x", epochs=None))
    theirs = iter(numbers().distribute(b, job="x", seed=2))
    next(mine)
    read = [fingerprint(next(theirs))]
    edit(tenants.tokens, lambda file: file["tokens"].pop(0))
    deadline = time.monotonic() + 90
    with pytest.raises(DENIED, match="does not know this token"):
        collections.deque(itertools.takewhile(lambda _: time.monotonic() < deadline, mine), maxlen=0)
    with pytest.raises(DENIED, match="does not know this token"):
        a.jobs()
    read += [fingerprint(x) for x in theirs]
    assert read == want
    # An invalid file changes nothing.
    tenants.tokens.write_text("{")
    time.sleep(1.5)
    assert b.jobs()


def test_workers_of_one_tenant_compute_for_no_other(tenants, until):
    tenants.worker("a")
    a, b = tenants.connect("a"), tenants.connect("b")
    until(lambda: ready(a, 1))
    assert len(list(numbers().distribute(a, job="x"))) == 250
    assert b.workers() == []
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: len(list(numbers().distribute(b, job="x"))))
        until(lambda: [j.state for j in b.jobs()] == ["waiting for workers"])
        tenants.worker()
        assert waiting.result(90) == 250


def test_quotas_are_kept_and_named(tenants, until):
    quota = {"jobs": 2, "consumers": 1}
    edit(tenants.tokens, lambda file: file["tenants"].update({"a": quota, "b": {"calls_per_second": 0}}))
    exhausted = fb.errors.ExhaustedError

    def is_taken_up() -> bool:
        try:
            fb.connect(tenants.address, token=tenants.shown["b"], timeout=0.2)
        except exhausted as error:
            return "more than 0 times a second" in error.message
        return False

    until(is_taken_up)
    a = tenants.connect("a")
    tenants.worker()
    until(lambda: ready(a, 1))
    first = iter(numbers().distribute(a, job="one"))
    next(first)
    with pytest.raises(exhausted, match="has 1 consumers that are attached, and its quota is 1"):
        list(numbers().distribute(a, job="two"))
    with pytest.raises(exhausted, match="has 2 unfinished jobs, and its quota is 2"):
        list(numbers().distribute(a, job="three"))
    assert len(list(first)) == 249
    assert len(list(numbers().distribute(a, job="two"))) == 250, "what has ended does not count"
