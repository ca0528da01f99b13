"""TLS and tokens, with real processes: the same stream for permitted callers, nothing for others."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import forebay as fb
import pytest
from pipelines import fingerprint
from pipelines import name as job
from secured import Authority, Fleet, Identity, forebay, new_token, numbers, pictures, ready, without_settings

DENIED = fb.errors.PermissionDeniedError


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    without_settings(monkeypatch)


@pytest.fixture(scope="module")
def authority(tmp_path_factory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki") / "ours")


@pytest.fixture(scope="module")
def other(tmp_path_factory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki") / "another")


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
        deadline = time.monotonic() + 90
        while not ready(service, 2):
            assert time.monotonic() < deadline
        yield mutual
    finally:
        fleet.close()


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
        fb.connect(address, timeout=120, **shown)
    assert says in caught.value.message, caught.value
    assert caught.value.hint, caught.value
    assert time.monotonic() - start < 90, "it is said at once, and not tried again and again"


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


def test_a_process_with_an_invalid_certificate_does_not_start(authority, tmp_path):
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
