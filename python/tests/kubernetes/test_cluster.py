"""`forebay cluster` without a cluster: kubeconfig files, credentials and arguments, against a small HTTPS server.

`test_cluster_kubernetes.py` has the real API server, and `test_ray.py` a real Ray cluster.
"""

from __future__ import annotations

import base64
import http.server
import json
import os
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import forebay as fb
import pytest
from forebay.errors import (
    DataError,
    ForebayError,
    InvalidPipelineError,
    NotFoundError,
    PermissionDeniedError,
    UnavailableError,
)
from secured import Authority

yaml = pytest.importorskip("yaml")


class Server:
    """Answers every list with nothing, and keeps the headers that it was sent."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder / "pki")
        own = self.authority.issue("server", host="api.example")
        self.seen: list[tuple[dict[str, str], bool]] = []
        self.answer, self.paths = b'{"items": []}', list[str]()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                peer = self.connection.getpeercert()  # type: ignore[attr-defined]
                outer.seen.append(({k.lower(): v for k, v in self.headers.items()}, bool(peer)))
                outer.paths.append(self.path)
                self.send_response(200)
                self.end_headers()
                self.wfile.write(outer.answer)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(own.cert, own.key)
        tls.load_verify_locations(self.authority.ca)
        tls.verify_mode = ssl.CERT_OPTIONAL
        self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def cluster(self) -> dict[str, Any]:
        ca = base64.b64encode(self.authority.ca.read_bytes()).decode()
        url = f"https://127.0.0.1:{self.server.server_address[1]}"
        return {"server": url, "certificate-authority-data": ca, "tls-server-name": "api.example"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    found = Server(tmp_path_factory.mktemp("server"))
    yield found
    found.server.shutdown()
    found.server.server_close()


def config(cluster: dict[str, Any], user: dict[str, Any], name: str = "here", **context: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, **context}}],
    }


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server) -> Any:
    """Writes a kubeconfig, lists the services with it, and returns the request that the server got."""
    monkeypatch.setenv("NO_PROXY", "*")

    def call(user: dict[str, Any], **cluster: Any) -> tuple[dict[str, str], bool]:
        path = tmp_path / "config"
        found = config({**server.cluster(), **cluster}, user)
        path.write_text(yaml.safe_dump({k: v for k, v in found.items() if v is not None}))
        monkeypatch.setenv("KUBECONFIG", str(path))
        server.seen.clear()
        assert fb.cluster.status() == []
        return server.seen[0]

    return call


def test_each_kind_of_credentials_reaches_the_server(listed: Any, server: Server, tmp_path: Path) -> None:
    assert listed({"token": "secret"})[0]["authorization"] == "Bearer secret"
    (tmp_path / "token").write_text("from-a-file\n")
    assert listed({"tokenFile": "token"})[0]["authorization"] == "Bearer from-a-file"
    basic = base64.b64encode(b"me:pass").decode()
    assert listed({"username": "me", "password": "pass"})[0]["authorization"] == f"Basic {basic}"
    own = server.authority.issue("me")
    cert, key = (base64.b64encode(it.read_bytes()).decode() for it in (own.cert, own.key))
    headers, presented = listed({"client-certificate-data": cert, "client-key-data": key})
    assert presented
    assert "authorization" not in headers
    assert listed({"client-certificate": str(own.cert), "client-key": str(own.key)})[1]


def test_a_program_gives_the_credentials(listed: Any, tmp_path: Path) -> None:
    program = tmp_path / "login"
    program.write_text(
        f"#!{sys.executable}\n"
        "import json, os, sys\n"
        "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        "token = '-'.join([os.environ['REALM'], sys.argv[1], info['apiVersion']])\n"
        "print(json.dumps({'kind': 'ExecCredential', 'status': {'token': token}}))\n"
    )
    program.chmod(0o755)
    api = "client.authentication.k8s.io/v1"
    env = [{"name": "REALM", "value": "eu"}]
    # A path is relative to the kubeconfig.
    user = {"exec": {"apiVersion": api, "command": "./login", "args": ["get-token"], "env": env}}
    assert listed(user)[0]["authorization"] == f"Bearer eu-get-token-{api}"
    with pytest.raises(NotFoundError, match=r"no program 'no-such-login'(.|\n)*brew install it"):
        listed({"exec": {"apiVersion": api, "command": "no-such-login", "installHint": "brew install it"}})
    with pytest.raises(PermissionDeniedError, match=r"ended with exit code 1(.|\n)*log in anew"):
        listed({"exec": {"apiVersion": api, "command": "false"}})
    with pytest.raises(DataError, match="printed no credentials"):
        listed({"exec": {"apiVersion": api, "command": "echo"}})


def test_a_server_that_is_not_the_one_of_the_file_is_refused(listed: Any, server: Server, tmp_path: Path) -> None:
    with pytest.raises(PermissionDeniedError, match="a certificate that is not trusted"):
        listed({"token": "secret"}, **{"tls-server-name": "other.example"})
    assert server.seen == []
    with pytest.raises(DataError, match="certificates of the kubeconfig cannot be read"):
        listed({"token": "secret"}, **{"certificate-authority-data": "bm9uZQ=="})
    server.answer = b"<html>"
    with pytest.raises(DataError, match="is this the address of an API server"):
        listed({})
    server.answer = b'{"items": []}'


def test_files_are_merged_and_the_first_wins(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    first = {"contexts": [{"name": "b", "context": {"cluster": "b", "user": "b", "namespace": "ml"}}]}
    (tmp_path / "first").write_text(json.dumps({**first, "current-context": "b"}))
    (tmp_path / "second").write_text(json.dumps(config(server.cluster(), {"token": "two"}, "b", namespace="other")))
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(str(tmp_path / it) for it in ("none", "first", "second")))
    assert fb.cluster.status() == []
    assert server.seen[-1][0]["authorization"] == "Bearer two"
    assert "/namespaces/ml/" in server.paths[-1]
    with pytest.raises(NotFoundError, match=r"no context 'c'(.|\n)*it has b"):
        fb.cluster.status(context="c")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "is no YAML"),
        ("[]", "is no kubeconfig file"),
        ("{}", "has no current context"),
        ("current-context: a", "has no context 'a'"),
        ("{current-context: a, contexts: [{name: a, context: {cluster: b}}]}", "has no cluster 'b'"),
        (yaml.safe_dump(config({}, {})), "a cluster without a server"),
        (yaml.safe_dump(config({"server": "https://a"}, {"auth-provider": {"name": "gcp"}})), "has an auth-provider"),
        (yaml.safe_dump(config({"server": "a b"}, {})), "does not answer"),
    ],
)
def test_files_that_say_no_cluster_are_errors(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_text(text)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    with pytest.raises(ForebayError, match=message):
        fb.cluster.status()


def test_without_a_file_it_says_where_it_looked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(NotFoundError, match=r"there is no kubeconfig file(.|\n)*none"):
        fb.cluster.status()
    command = [sys.executable, "-m", "forebay", "cluster", "status"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    assert (done.returncode, done.stdout) == (4, "")
    assert "set KUBECONFIG" in done.stderr


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"name": "Upper"}, "no name for a service"),
        ({"name": "a" * 31}, "at most 30"),
        ({"name": "a/../b"}, "no name for a service"),
        ({"on": "slurm"}, "no kind of cluster"),
        ({"workers": 0}, "workers=0 is out of range"),
        ({"workers": "many"}, "is no number"),
        ({"max_workers": 4}, "goes with workers='auto'"),
        ({"threads": 0}, "threads=0 is out of range"),
        ({"timeout": -1}, "is below 0"),
        ({"timeout": float("nan")}, "timeout"),
        ({"spec": {"workers": []}}, "spec= has workers"),
        ({"spec": [1]}, "a dict of fields"),
        ({"address": "ray://a:1"}, "address is nothing of on='kubernetes'"),
        ({"on": "ray", "namespace": "ml"}, "namespace is nothing of on='ray'"),
        ({"namespace": "a/b"}, "no name of a namespace"),
        ({"image": None}, "an image is needed"),
    ],
)
def test_arguments_are_checked_before_anything_is_asked(
    given: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_text(json.dumps(config({"server": "https://127.0.0.1:1"}, {})))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    whole = {"name": "pipes", "image": "i", **given}
    with pytest.raises(InvalidPipelineError, match=message):
        fb.cluster.start(whole.pop("name"), **whole)


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_a_ray_cluster_that_is_away_is_an_error_at_once(scheme: str) -> None:
    pytest.importorskip("ray")
    for call in (fb.cluster.status, partial(fb.cluster.stop, "pipes"), partial(fb.cluster.start, "pipes")):
        with pytest.raises(UnavailableError, match=r"no Ray cluster answers at 127\.0\.0\.1:1"):
            call(on="ray", address=f"{scheme}127.0.0.1:1")
