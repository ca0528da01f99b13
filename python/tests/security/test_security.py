"""TLS, tokens, tenants and quotas, with real processes: the same stream for permitted callers, nothing for others."""

from __future__ import annotations

import collections
import contextlib
import itertools
import socket
import ssl
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import forebay as fb
import numpy as np
import pyarrow.flight as flight
import pytest
from pipelines import fingerprint
from secured import Authority, Fleet, Identity, edit, forebay, new_token, ready

DENIED = fb.errors.PermissionDeniedError


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("TLS_CA", "TLS_CERT", "TLS_KEY", "TLS_NAME", "TOKEN", "TOKEN_FILE"):
        monkeypatch.delenv(f"FOREBAY_{variable}", raising=False)


@pytest.fixture(scope="module")
def authority(tmp_path_factory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki") / "ours")


@pytest.fixture(scope="module")
def other(tmp_path_factory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki") / "another")


@pytest.fixture
def fleet(tmp_path) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path)
    yield fleet
    fleet.close()


class Mutual:
    """A service that speaks TLS and requires certificates and tokens; one worker lends memory, one does not."""

    def __init__(self, fleet: Fleet, authority: Authority) -> None:
        server, worker = authority.issue("dispatcher"), authority.issue("worker")
        self.tokens = fleet.folder / "tokens.json"
        self.token = new_token(self.tokens, "client", "vision")
        self.worker_token = new_token(self.tokens, "worker")
        own = authority.issue("trainer", "trainer.example")
        self.tls = fb.Tls(authority.ca, own.cert, own.key)
        ask = ["--tls-client-ca", authority.ca]
        self.address = fleet.dispatcher(*server.flags(), *ask, "--tokens", self.tokens)
        for more in ([], ["--no-lend"]):
            trust = ["--tls-ca", authority.ca, *worker.flags(), *ask]
            fleet.worker(self.address, *trust, *more, token=self.worker_token)


@pytest.fixture(scope="module")
def mutual(tmp_path_factory, authority) -> Iterator[Mutual]:
    fleet = Fleet(tmp_path_factory.mktemp("mutual"))
    try:
        mutual = Mutual(fleet, authority)
        service = fb.connect(mutual.address, tls=mutual.tls, token=mutual.token)
        deadline = time.monotonic() + 30
        while not ready(service, 2):
            assert time.monotonic() < deadline
        yield mutual
    finally:
        fleet.close()


def job() -> str:
    return f"job-{uuid.uuid4().hex[:8]}"


def wide(row: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {"x": np.full((64, 300), row["id"], np.uint8), "small": row["id"] * 2}


def pictures() -> fb.Dataset:
    """Returns large columns (lent, or sent apart) and small ones, and a function that travels as a blob."""
    return fb.range(300).shuffle().map(wide, schema={"x": ("uint8", (64, 300)), "small": "int64"}).batch(16)


def numbers(rows: int = 4000) -> fb.Dataset:
    return fb.range(rows).shuffle().with_column("x", fb.col("id") * 0.5).batch(16)


def test_the_stream_over_mutual_tls_is_the_same_as_here(mutual):
    ds = pictures()
    here = [fingerprint(b) for epoch in range(2) for b in ds.iter(seed=5, epoch=epoch)]
    service = fb.connect(mutual.address, tls=mutual.tls, token=mutual.token)
    assert [fingerprint(b) for b in ds.distribute(service, job=job(), seed=5, epochs=2)] == here


def test_the_environment_and_the_command_line_say_the_same(mutual, monkeypatch, tmp_path):
    token = tmp_path / "token"
    token.write_text(mutual.token + "\n")
    env = {
        "FOREBAY_TLS_CA": str(mutual.tls.ca),
        "FOREBAY_TLS_CERT": str(mutual.tls.cert),
        "FOREBAY_TLS_KEY": str(mutual.tls.key),
        "FOREBAY_TOKEN_FILE": str(token),
        "FOREBAY_SERVICE": f"forebay://{mutual.address}",
    }
    for variable, value in env.items():
        monkeypatch.setenv(variable, value)
    name = job()
    assert len(list(fb.range(32).batch(8).distribute(env["FOREBAY_SERVICE"], job=name))) == 4
    with fb.up(workers=1, threads=1) as here:
        assert here.jobs() == [], "a service on this machine needs none of it"
    listed = forebay("jobs", **env)
    assert name in listed.stdout, listed.stderr
    flags = ["--tls-ca", mutual.tls.ca, "--tls-cert", mutual.tls.cert, "--tls-key", mutual.tls.key]
    listed = forebay("jobs", "--service", mutual.address, *flags, "--token-file", token)
    assert name in listed.stdout, listed.stderr
    refused = forebay("jobs", "--service", mutual.address, *flags)
    assert (refused.returncode, "asks for a token" in refused.stderr) == (4, True), refused.stderr


def refused(says: str, address: str, **shown) -> None:
    start = time.monotonic()
    with pytest.raises(DENIED) as caught:
        fb.connect(address, timeout=20, **shown)
    assert says in caught.value.message, caught.value
    assert caught.value.hint, caught.value
    assert time.monotonic() - start < 10, "it is said at once, and not tried again and again"


@contextlib.contextmanager
def speaks_tls(identity: Identity) -> Iterator[str]:
    """A server that presents a certificate: a process of ours would not start with an invalid one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity.cert, identity.key)
    context.set_alpn_protocols(["h2"])
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor() as pool:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    with contextlib.suppress(ssl.SSLError):
                        context.wrap_socket(server.accept()[0], server_side=True).close()

        pool.submit(serve)
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


def test_a_process_that_nobody_would_trust_does_not_start(authority, tmp_path):
    late, soon = authority.issue("late", days=-1), authority.issue("soon")
    early = authority.issue("early", days=30, begins=10)
    listen = ["--listen", "127.0.0.1:0"]
    roles = [
        ["dispatcher", *listen, "--state-dir", tmp_path],
        ["worker", *listen, "--dispatcher", "127.0.0.1:1", "--tls-ca", authority.ca],
    ]
    for role in roles:
        for own, says in ((late, "has expired"), (early, "is not valid yet")):
            done = forebay(*role, *own.flags())
            assert (done.returncode, says in done.stderr, str(own.cert) in done.stderr) == (1, True, True), done.stderr
    # The certificate is accepted, and the next error is another one.
    done = forebay(*roles[0], *soon.flags(), "--store", "none")
    assert "expires on" in done.stderr, done.stderr
    assert "expired" not in done.stderr, done.stderr


def test_who_is_not_trusted_is_told_why(mutual, authority, other, fleet):
    own, good = mutual.tls, {"token": mutual.token}
    stranger = other.issue("stranger")
    refused("not signed by the authority", mutual.address, tls=fb.Tls(other.ca, own.cert, own.key), **good)
    refused("is for", mutual.address, tls=fb.Tls(own.ca, own.cert, own.key, name="elsewhere.example"), **good)
    refused("requires a client certificate", mutual.address, tls=fb.Tls(own.ca), **good)
    refused("refused the certificate", mutual.address, tls=fb.Tls(own.ca, stranger.cert, stranger.key), **good)
    late = authority.issue("late", days=-1)
    refused("refused the certificate", mutual.address, tls=fb.Tls(own.ca, late.cert, late.key), **good)
    refused("speaks TLS, and this side does not", mutual.address, **good)
    refused("asks for a token", mutual.address, tls=own)
    refused("does not know this token", mutual.address, tls=own, token="fbt_0123")
    with speaks_tls(late) as expired:
        refused("has expired", expired, tls=fb.Tls(authority.ca))
    plain = fleet.dispatcher()
    refused("does not speak TLS", plain, tls=fb.Tls(authority.ca))
    named = fleet.dispatcher(*authority.issue("named", "forebay.example").flags())
    refused("is for", named, tls=fb.Tls(authority.ca))
    assert fb.connect(named, tls=fb.Tls(authority.ca, name="forebay.example")).jobs() == []


def test_files_that_are_no_certificates_are_named(mutual, tmp_path):
    empty = tmp_path / "empty.pem"
    empty.touch()
    with pytest.raises(fb.errors.InvalidPipelineError, match=r"empty\.pem"):
        fb.connect(mutual.address, tls=fb.Tls(empty))
    with pytest.raises(fb.errors.MissingFileError, match=r"none\.pem"):
        fb.connect(mutual.address, tls=fb.Tls(tmp_path / "none.pem"))
    with pytest.raises(fb.errors.InvalidPipelineError, match="go together"):
        fb.Tls(mutual.tls.ca, cert=mutual.tls.cert)


@pytest.mark.parametrize("worker_is", ["plain", "another's"])
def test_a_worker_that_is_not_trusted_is_not_read(worker_is, authority, other, fleet):
    """Its dispatcher is trusted; the stream ends with the reason, and does not wait for ever."""
    address = fleet.dispatcher(*authority.issue("dispatcher-2").flags())
    own = other.issue("worker-2").flags() if worker_is == "another's" else []
    fleet.worker(address, "--tls-ca", authority.ca, *own)
    service = fb.connect(address, tls=fb.Tls(authority.ca))
    with pytest.raises(DENIED, match="does not speak TLS" if worker_is == "plain" else "not signed by"):
        list(numbers().distribute(service, job=job()))


def test_a_reader_in_the_clear_is_told_by_a_worker_that_speaks_tls(authority, fleet):
    address = fleet.dispatcher()
    # Its dispatcher requires TLS, too: a worker of another service, which this consumer reached by mistake.
    secured = fleet.dispatcher(*authority.issue("dispatcher-3").flags())
    worker = fleet.worker(secured, "--tls-ca", authority.ca, *authority.issue("worker-3").flags())
    host, port = worker.split(":")
    ours = fleet.worker(address, "--advertise", f"{host}:{port}")
    assert ours == worker
    with pytest.raises(DENIED, match="speaks TLS, and this side does not"):
        list(numbers().distribute(fb.connect(address), job=job()))


def test_a_worker_that_is_refused_ends_and_says_why(mutual, authority):
    flags = ["--dispatcher", mutual.address, "--listen", "127.0.0.1:0"]
    trust = ["--tls-ca", authority.ca, *authority.issue("worker-4").flags()]
    for shown, env, says in (
        ([], {}, "speaks TLS, and this side does not"),
        (trust, {}, "asks for a token"),
        (trust, {"FOREBAY_TOKEN": mutual.token}, "requires the token of a worker"),
    ):
        done = forebay("worker", *flags, *shown, **env)
        assert (done.returncode, says in done.stderr) == (4, True), done.stderr


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
    assert [j.state for j in a.jobs()] == ["cancelled", "finished"]
    assert [j.state for j in b.jobs()] == ["finished"]


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
    deadline = time.monotonic() + 60
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
        assert waiting.result(60) == 250


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


def test_a_token_is_shown_once_and_kept_by_its_hash(tmp_path):
    tokens = tmp_path / "tokens.json"
    token = new_token(tokens, "client", "vision")
    assert token.startswith("fbt_")
    assert token not in tokens.read_text()
    for wrong, says in ((["--role", "client"], "must name a tenant"), (["--tenant", "../x"], "no name of a tenant")):
        done = forebay("token", "new", *wrong)
        assert (done.returncode, says in done.stderr) == (1, True), done.stderr


def test_who_is_open_to_the_network_says_so(fleet, authority, capfd):
    tokens = fleet.folder / "tokens.json"
    new_token(tokens, "admin")
    flags = authority.issue("open").flags()
    for more, says in (
        ([], "run code on the workers"),
        (["--tokens", tokens], "travel unencrypted"),
        (flags, "unless --tls-client-ca is set"),
        ([*flags, "--tokens", tokens], None),
    ):
        state = fleet.folder / uuid.uuid4().hex
        fleet.start("dispatcher", "--listen", "0.0.0.0:0", "--state-dir", state, *more)
        said = capfd.readouterr().err
        assert ("NOT SECURED" in said, says is None or says in said) == (says is not None, True), said
