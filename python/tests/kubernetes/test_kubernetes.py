"""docs/kubernetes.md, as far as it can be tested without a cluster.

The commands of its manifests start, and the metrics that they read exist; `forebay-operator scale` (if it is built:
`make kubernetes`) scales the Deployment of a small HTTPS server.
"""

from __future__ import annotations

import http.server
import json
import os
import re
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from secured import Authority, Fleet, clean, forebay, new_token

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = os.environ.get("FOREBAY_OPERATOR")
#: The longest time that a worker takes to leave: its consumers, and its writes to the cache.
LEAVE_SECONDS = 12


def manifests() -> dict[tuple[str, str], Any]:
    text = (ROOT / "docs" / "kubernetes.md").read_text()
    blocks = re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return {(it["kind"], it["metadata"]["name"]): it for it in yaml.safe_load_all("---\n".join(blocks))}


def container(found: dict[tuple[str, str], Any], kind: str, name: str) -> dict[str, Any]:
    return found[kind, name]["spec"]["template"]["spec"]["containers"][0]


def test_the_manifests_start_what_there_is_and_read_what_is_served() -> None:
    found = manifests()
    dispatcher, worker = (
        container(found, *which) for which in (("StatefulSet", "forebay-dispatcher"), ("Deployment", "forebay-worker"))
    )
    for started in (dispatcher, worker):
        program, *command = [*started["command"], *started["args"]]
        assert program == "forebay"
        # Unknown arguments, or missing values, are refused before help is printed.
        checked = forebay(*command, "--help")
        assert checked.returncode == 0, checked.stderr
        assert f"0.0.0.0:{started['readinessProbe']['tcpSocket']['port']}" in started["args"]
    pod = found["Deployment", "forebay-worker"]["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > LEAVE_SECONDS
    assert "forebay-dispatcher:7070" in worker["args"]
    (trigger,) = found["ScaledObject", "forebay-worker"]["spec"]["triggers"]
    assert trigger["metadata"]["url"] == "http://forebay-dispatcher:7071/metrics"
    assert "0.0.0.0:7071" in dispatcher["args"]
    assert trigger["metadata"]["valueLocation"] == "forebay_workers_wanted"
    assert {port["port"] for port in found["Service", "forebay-dispatcher"]["spec"]["ports"]} == {7070, 7071}


class Api(http.server.BaseHTTPRequestHandler):
    """One Deployment, for callers with the token."""

    replicas = 5
    asked: set[tuple[str, str]] = set()  # noqa: RUF012

    def answer(self) -> None:
        verb = {"GET": "get", "PATCH": "patch"}[self.command]
        *_, name, part = self.path.split("/")
        assert self.path == f"/apis/apps/v1/namespaces/ml/deployments/forebay-worker/{part}", self.path
        assert name == "forebay-worker"
        allowed = self.headers["authorization"] == "Bearer of the account"
        Api.asked.add((f"deployments/{part}", verb))
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if allowed and self.command == "PATCH":
            Api.replicas = json.loads(body)["spec"]["replicas"]
        there = {
            "spec": {"replicas": Api.replicas},
            "status": {"replicas": Api.replicas, "readyReplicas": Api.replicas},
        }
        answer = json.dumps(there).encode()
        self.send_response(200 if allowed else 401)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_PATCH = answer

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def cluster(folder: Path) -> Iterator[Path]:
    """Serves it over TLS; yields its kubeconfig."""
    authority = Authority(folder / "pki")
    own = authority.issue("apiserver")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(own.cert, own.key)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Api)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"https://127.0.0.1:{server.server_address[1]}"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me", "namespace": "ml"}}],
        "clusters": [{"name": "here", "cluster": {"server": url, "certificate-authority": str(authority.ca)}}],
        "users": [{"name": "me", "user": {"token": "of the account"}}],
    }
    (folder / "kubeconfig").write_text(yaml.safe_dump(config))
    try:
        yield folder / "kubeconfig"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.skipif(PROGRAM is None, reason="`make kubernetes` builds it, and says where it is")
def test_the_program_scales_a_deployment(tmp_path: Path, until: Callable[..., None]) -> None:
    fleet, tokens = Fleet(tmp_path), tmp_path / "tokens.json"
    # Started as in the manifest, except for the dispatcher, which has another name there.
    arguments = container(manifests(), "Deployment", "forebay-scaler")["args"]
    try:
        env = {**clean(), "FOREBAY_TOKEN": new_token(tokens, "admin")}
        address = fleet.dispatcher("--tokens", tokens)
        scale, _, _, *others = arguments
        command = [str(PROGRAM), scale, "--dispatcher", address, *others]
        with cluster(tmp_path) as kubeconfig:
            program = subprocess.Popen(command, env={**env, "KUBECONFIG": str(kubeconfig)}, stderr=subprocess.PIPE)
            with program:
                # No job has a consumer, so one worker is enough.
                until(lambda: Api.replicas == 1)
                program.terminate()
                assert program.wait(90) == 0
        rules = manifests()["Role", "forebay-scaler"]["rules"]
        granted = {(what, verb) for rule in rules for what in rule["resources"] for verb in rule["verbs"]}
        assert Api.asked <= granted
    finally:
        fleet.close()
