"""A real kube-apiserver over a real etcd, for tests: no kubelet, no scheduler.

The controller-manager runs if it is installed.

`make kubernetes` finds or builds the programs (`.ci/kube-apiserver`) and names their folder in FOREBAY_KUBE_APISERVER.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from forebay._src.selftest.relay import free_port

Json = dict[str, Any]
#: The seconds after which a condition must be true.
WAIT_SECONDS = 120.0
#: The seconds that the API server may take to start on a busy machine.
START_SECONDS = 180.0
CONTROLLERS = (
    "garbagecollector,persistentvolume-binder,pvc-protection,pv-protection,namespace,deployment,replicaset,statefulset"
)


class ApiError(Exception):
    """The API refused."""

    def __init__(self, code: int, said: str) -> None:
        super().__init__(f"{code}: {said}")
        self.code = code


def wait_for(what: str, condition: Callable[[], Any], seconds: float = WAIT_SECONDS) -> Any:
    """Polls until the condition is true, and returns its value."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.03)
    return found


class Cluster:
    """One control plane, and a client with all rights."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.programs, self.folder = programs, folder
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.port, self.etcd, self.peer = free_port(), free_port(), free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self.tokens = {"admin": secrets.token_hex(16), "operator": secrets.token_hex(16)}
        folder.mkdir(parents=True, exist_ok=True)
        self.open = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=ssl._create_unverified_context()), urllib.request.ProxyHandler({})
        ).open
        subprocess.run(["openssl", "genrsa", "-out", folder / "accounts.key", "2048"], check=True, capture_output=True)
        (folder / "tokens.csv").write_text(
            f"{self.tokens['admin']},admin,1,system:masters\n"
            f"{self.tokens['operator']},system:serviceaccount:forebay:forebay-operator,2,\n"
        )
        self.start("etcd", *self._etcd("etcd", self.etcd, self.peer))
        self.start_api()

    def start_another_etcd(self) -> int:
        """Starts an etcd for another user than the API server; returns its port."""
        port = free_port()
        self.start("another-etcd", *self._etcd("another-etcd", port, free_port()))
        return port

    def _etcd(self, name: str, port: int, peer_port: int) -> list[str]:
        client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer_port}"
        urls = ["--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer]
        peers = ["--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"]
        return ["etcd", "--data-dir", str(self.folder / name), "--unsafe-no-fsync", *urls, *peers]

    def start(self, name: str, *command: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def start_api(self) -> None:
        key = str(self.folder / "accounts.key")
        self.start(
            "kube-apiserver",
            str(self.programs / "kube-apiserver"),
            *("--etcd-servers", f"http://127.0.0.1:{self.etcd}", "--secure-port", str(self.port)),
            *("--bind-address", "127.0.0.1", "--cert-dir", str(self.folder / "pki")),
            *("--token-auth-file", str(self.folder / "tokens.csv"), "--authorization-mode", "RBAC"),
            *("--service-account-key-file", key, "--service-account-signing-key-file", key),
            *(
                "--service-account-issuer",
                "https://kubernetes.default.svc",
                "--service-cluster-ip-range",
                "10.0.0.0/24",
            ),
            *("--disable-admission-plugins", "ServiceAccount", "--watch-cache=true", "--allow-privileged=true"),
            *("--audit-policy-file", str(self._audit()), "--audit-log-path", str(self.folder / "audit.log")),
        )
        wait_for("the API server is ready", self._is_ready, START_SECONDS)

    def _audit(self) -> Path:
        policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"]}
        user = "system:serviceaccount:forebay:forebay-operator"
        path = self.folder / "audit.json"
        path.write_text(json.dumps({**policy, "rules": [{"level": "Metadata", "users": [user]}, {"level": "None"}]}))
        return path

    def start_controllers(self) -> bool:
        """Starts the controllers that caches depend on: those of owners, volumes and namespaces."""
        if not (self.programs / "kube-controller-manager").exists():
            return False
        self.start(
            "controllers",
            str(self.programs / "kube-controller-manager"),
            *("--kubeconfig", str(self.kubeconfig("admin")), "--leader-elect=false", "--controllers", CONTROLLERS),
            *(
                "--kube-api-qps=500",
                "--kube-api-burst=1000",
                "--pvclaimbinder-sync-period=1s",
                "--use-service-account-credentials=false",
            ),
            *("--service-account-private-key-file", str(self.folder / "accounts.key"), "--bind-address=127.0.0.1"),
            *("--secure-port", str(free_port())),
            # Before 1.24 there is a second port, the same for all clusters of a machine.
            *(["--port=0"] if self.minor < 24 else []),
        )
        return True

    def _is_ready(self) -> bool:
        assert self.running["kube-apiserver"].poll() is None, (self.folder / "kube-apiserver.log").read_text()[-3000:]
        try:
            return self.request("GET", "/readyz", raw=True) == b"ok"
        except (ApiError, OSError):
            return False

    def kubeconfig(self, user: str, server: str | None = None) -> Path:
        """Writes a kubeconfig of a user, who reaches the API at another address if one is given."""
        path = self.folder / (f"{user}.kubeconfig" if server is None else f"{user}-elsewhere.kubeconfig")
        cluster = {"server": server or self.url, "insecure-skip-tls-verify": True}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "clusters": [{"name": "here", "cluster": cluster}],
            "users": [{"name": "me", "user": {"token": self.tokens[user]}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me", "namespace": "forebay"}}],
        }
        path.write_text(json.dumps(config))
        return path

    def request(
        self, verb: str, path: str, body: Json | list[Json] | None = None, raw: bool = False, patch: str = "merge-patch"
    ) -> Any:
        kind = f"application/{patch}+json" if verb == "PATCH" else "application/json"
        headers = {"authorization": f"Bearer {self.tokens['admin']}", "content-type": kind}
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(self.url + path, data, headers, method=verb)
        try:
            with self.open(asked, timeout=90) as answer:
                said = answer.read()
        except urllib.error.HTTPError as error:
            raise ApiError(error.code, error.read().decode(errors="replace")) from None
        return said if raw else json.loads(said)

    def find(self, path: str) -> Json | None:
        try:
            found: Json = self.request("GET", path)
        except ApiError as error:
            if error.code == 404:
                return None
            raise
        return found

    def list(self, path: str) -> list[Json]:
        found = self.find(path)
        return [] if found is None else found["items"]

    def delete(self, path: str, **options: Any) -> None:
        try:
            self.request("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", **options})
        except ApiError as error:
            if error.code != 404:
                raise

    def kubectl(
        self, *arguments: str, stdin: str | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        cache = ["--cache-dir", str(self.folder / "kubectl")]
        command = ["kubectl", "--kubeconfig", str(self.kubeconfig("admin")), *cache, *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=180)
        assert done.returncode == 0, f"{arguments}: {done.stderr}"
        return done.stdout

    @property
    def minor(self) -> int:
        return int("".join(c for c in self.request("GET", "/version")["minor"] if c.isdigit()))

    def stop(self, name: str, how: signal.Signals = signal.SIGTERM) -> None:
        process = self.running.pop(name, None)
        if process is not None and process.poll() is None:
            process.send_signal(how)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def close(self) -> None:
        for name in list(self.running)[::-1]:
            self.stop(name, signal.SIGKILL)


class Operator:
    """The operator's process. It is started again when it ends by itself, as a kubelet does."""

    def __init__(
        self,
        cluster: Cluster,
        program: str,
        *,
        name: str = "operator",
        lease: int = 15,
        server: str | None = None,
    ) -> None:
        self.cluster, self.program, self.name, self.lease = cluster, program, name, lease
        self.server, self.metrics = server, free_port()
        self.port = free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self.starts = 0
        self._kept: threading.Thread | None = None

    def start(self) -> None:
        """Starts the operator. With the same identity it takes the Lease over at once, as the same pod does."""
        self._launch()
        self._kept = threading.Thread(target=self._keep, args=(self.starts,), daemon=True)
        self._kept.start()

    def _launch(self) -> None:
        self.starts += 1
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("FOREBAY_", "POD_"))}
        environment["KUBECONFIG"] = str(self.cluster.kubeconfig("operator", self.server))
        environment["FOREBAY_LOG"] = "info,forebay_operator=debug"
        arguments = ["--namespace", "forebay", "--identity", self.name, "--listen", f"127.0.0.1:{self.port}"]
        arguments += ["--metrics", f"127.0.0.1:{self.metrics}"]
        command = [self.program, "operate", *arguments, "--url", self.url, "--lease", str(self.lease)]
        with (self.cluster.folder / f"{self.name}.log").open("ab") as log:
            process = subprocess.Popen(command, stderr=log, stdout=log, env=environment, start_new_session=True)
        self.cluster.running[self.name] = process

    def _keep(self, since: int) -> None:
        while (process := self.cluster.running.get(self.name)) is not None and since == self.starts:
            if process.poll() is not None and self.cluster.running.get(self.name) is process:
                self._launch()
                since = self.starts
            time.sleep(0.1)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        self.cluster.stop(self.name, how)
        if self._kept is not None:
            self._kept.join(90)

    def kill(self) -> None:
        self.stop(signal.SIGKILL)

    def is_healthy(self) -> bool:
        try:
            with self.cluster.open(f"{self.url}/healthz", timeout=5) as answer:
                return bool(answer.read() == b"ok")
        except OSError:
            return False

    def figures(self) -> dict[str, float]:
        """Its metrics, by name and labels."""
        with self.cluster.open(f"http://127.0.0.1:{self.metrics}/metrics", timeout=90) as answer:
            lines = answer.read().decode().splitlines()
        return {name: float(value) for name, value in (it.rsplit(" ", 1) for it in lines if not it.startswith("#"))}

    def log(self) -> str:
        return (self.cluster.folder / f"{self.name}.log").read_text()
