"""Reads how to reach a Kubernetes cluster: from kubeconfig files, or from inside one of its pods.

As kubectl does: the files of `$KUBECONFIG`, or `~/.kube/config`, are merged, and the first file that has a name wins.
Credentials are a token, a token's file, a client certificate, a password, or the answer of a program (`exec`: EKS, GKE,
AKS). Bounds: a file of `FILE_MAX` bytes; the program has `EXEC_SECONDS`.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forebay.errors import DataError, NotFoundError, PermissionDeniedError, UnavailableError

Json = dict[str, Any]

#: The most bytes of a kubeconfig file.
FILE_MAX = 4 << 20
#: Seconds that a program of credentials may take: some of them ask the user.
EXEC_SECONDS = 60.0
#: Where a pod finds the credentials of its service account.
_POD = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True)
class Access:
    """How to reach a cluster.

    Attributes:
        server: The URL of the API server.
        namespace: The namespace of the context.
        context: The name of the context, or `in-cluster`.
        headers: The headers that identify the caller.
        tls: The certificates to trust and to present.
        proxy: The URL of a proxy. Default: that of the environment.
    """

    server: str
    namespace: str
    context: str
    headers: Mapping[str, str]
    tls: ssl.SSLContext
    proxy: str | None = None


def read(context: str | None = None) -> Access:
    """Returns how to reach the cluster of a context. Default: the current one; in a pod without a file, its own."""
    files = _files()
    if not files and context is None and (_POD / "token").exists() and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return _of_pod()
    if not files:
        raise NotFoundError(
            "cluster: there is no kubeconfig file",
            {"file": _names(), "hint": "set KUBECONFIG, or get the file from the cluster's administrator or provider"},
        )
    found = [(file, _parsed(file)) for file in files]
    name = context or next((str(c["current-context"]) for _, c in found if c.get("current-context")), None)
    if name is None:
        raise NotFoundError(
            "cluster: the kubeconfig has no current context", {"file": _names(), "hint": "name one with --context"}
        )
    _, chosen = _named(found, "contexts", "context", name)
    file, cluster = _named(found, "clusters", "cluster", str(chosen.get("cluster")))
    users_file, user = _named(found, "users", "user", str(chosen["user"])) if chosen.get("user") else (file, {})
    if not cluster.get("server"):
        raise DataError(f"cluster: context {name!r} has a cluster without a server", {"file": str(file)})
    answered = _executed(user["exec"], users_file, cluster) if user.get("exec") else {}
    return Access(
        server=str(cluster["server"]).rstrip("/"),
        namespace=str(chosen.get("namespace") or "default"),
        context=name,
        headers=_headers({**user, **answered}, users_file),
        tls=_tls(cluster, file, {**user, **answered}, users_file),
        proxy=cluster.get("proxy-url"),
    )


def _names() -> str:
    return os.environ.get("KUBECONFIG") or os.path.join("~", ".kube", "config")


def _files() -> list[Path]:
    paths = [Path(os.path.expanduser(it)) for it in _names().split(os.pathsep) if it]
    return [path for path in paths if path.is_file()]


def _parsed(file: Path) -> Json:
    try:
        if file.stat().st_size > FILE_MAX:
            raise DataError(f"cluster: a kubeconfig of more than {FILE_MAX} bytes", {"file": str(file)})
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError("cluster: a kubeconfig file cannot be read", {"file": str(file), "cause": str(error)}) from None
    try:
        found = json.loads(text)
    except ValueError:
        found = _yaml(text, file)
    if not isinstance(found, dict):
        raise DataError("cluster: this is no kubeconfig file", {"file": str(file)})
    return found


def _yaml(text: str, file: Path) -> Any:
    try:
        import yaml
    except ImportError:
        hint = {"hint": "pip install 'forebay[kubernetes]'"}
        raise UnavailableError("cluster: PyYAML is not installed, which reads kubeconfig files", hint) from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise DataError("cluster: a file is no YAML", {"file": str(file), "cause": str(error)}) from None


def of_yaml(file: Path) -> Any:
    """Returns the content of a YAML or JSON file."""
    try:
        text = file.read_text()
    except FileNotFoundError:
        raise NotFoundError(f"cluster: there is no file {str(file)!r}", {"hint": "give its path"}) from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError("cluster: a file cannot be read", {"file": str(file), "cause": str(error)}) from None
    return _yaml(text, file)


def _named(found: list[tuple[Path, Json]], kind: str, field: str, name: str) -> tuple[Path, Json]:
    """Returns an entry of a kubeconfig, and its file: relative paths are relative to it."""
    known = []
    for file, config in found:
        for entry in config.get(kind) or []:
            if isinstance(entry, dict) and entry.get("name") == name:
                return file, dict(entry.get(field) or {})
            known.append(str(entry.get("name")) if isinstance(entry, dict) else "?")
    hint = f"it has {', '.join(sorted(known)[:8])}" if known else f"it has no {kind}"
    raise NotFoundError(f"cluster: the kubeconfig has no {field} {name!r}", {"file": _names(), "hint": hint})


def _headers(user: Json, file: Path) -> dict[str, str]:
    if user.get("auth-provider"):
        raise DataError(
            "cluster: the kubeconfig has an auth-provider, which Kubernetes 1.26 removed",
            {"file": str(file), "hint": "let the provider's tool write the file anew: it then has an exec program"},
        )
    if user.get("tokenFile"):
        return {"authorization": f"Bearer {_near(file, user['tokenFile']).read_text().strip()}"}
    if user.get("token"):
        return {"authorization": f"Bearer {user['token']}"}
    if user.get("username"):
        pair = f"{user['username']}:{user.get('password', '')}".encode()
        return {"authorization": f"Basic {base64.b64encode(pair).decode()}"}
    return {}


def _near(file: Path, path: str) -> Path:
    return file.parent / path


def _tls(cluster: Json, file: Path, user: Json, users_file: Path) -> ssl.SSLContext:
    try:
        return _trusting(cluster, file, user, users_file)
    except (OSError, ValueError) as error:
        context = {"file": str(file), "cause": str(error)}
        raise DataError("cluster: the certificates of the kubeconfig cannot be read", context) from None


def _trusting(cluster: Json, file: Path, user: Json, users_file: Path) -> ssl.SSLContext:
    tls = _Named() if cluster.get("tls-server-name") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if isinstance(tls, _Named):
        tls.name = str(cluster["tls-server-name"])
    if cluster.get("certificate-authority-data"):
        tls.load_verify_locations(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    elif cluster.get("certificate-authority"):
        tls.load_verify_locations(_near(file, cluster["certificate-authority"]))
    else:
        tls.load_default_certs()
    if cluster.get("insecure-skip-tls-verify"):
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    if user.get("client-certificate-data") or user.get("client-certificate"):
        with tempfile.TemporaryDirectory() as folder:
            cert, key = (
                _written(user, field, users_file, Path(folder)) for field in ("client-certificate", "client-key")
            )
            tls.load_cert_chain(cert, key)
    return tls


class _Named(ssl.SSLContext):
    """Expects a name in the certificate that is not the host of the address."""

    name: str

    def __new__(cls) -> _Named:
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def wrap_socket(self, sock: Any, *positional: Any, **named: Any) -> ssl.SSLSocket:
        return super().wrap_socket(sock, *positional, **{**named, "server_hostname": self.name})


def _written(user: Json, field: str, users_file: Path, folder: Path) -> Path:
    """Returns the file of a certificate or key: `ssl` reads them from files only."""
    if not user.get(f"{field}-data"):
        return _near(users_file, str(user.get(field)))
    path = folder / field
    path.touch(0o600)
    path.write_bytes(base64.b64decode(user[f"{field}-data"]))
    return path


def _executed(program: Json, file: Path, cluster: Json) -> Json:
    """Runs the program that gives the credentials, and returns them as a user's entry has them."""
    info: Json = {"apiVersion": program.get("apiVersion"), "kind": "ExecCredential", "spec": {"interactive": False}}
    if program.get("provideClusterInfo"):
        info["spec"]["cluster"] = cluster
    own = {str(it["name"]): str(it["value"]) for it in program.get("env") or []}
    command = str(program.get("command"))
    # A path is relative to the file; a bare name is looked for in PATH.
    command = str(_near(file, command)) if os.sep in command else command
    environment = {**os.environ, **own, "KUBERNETES_EXEC_INFO": json.dumps(info)}
    whole = [command, *map(str, program.get("args") or [])]
    try:
        done = subprocess.run(whole, env=environment, stdout=subprocess.PIPE, timeout=EXEC_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        hint = {"file": str(file), "hint": "log in with the tool of your provider before"}
        raise UnavailableError(f"cluster: {command!r} gave no credentials within {EXEC_SECONDS:.0f} s", hint) from None
    except OSError as error:
        hint = {"file": str(file), "hint": str(program.get("installHint") or "install it, or put it into PATH")}
        message = f"cluster: there is no program {command!r}, which gives the credentials"
        raise NotFoundError(message, {"cause": str(error), **hint}) from None
    if done.returncode != 0:
        raise PermissionDeniedError(
            f"cluster: {command!r}, which gives the credentials, ended with exit code {done.returncode}",
            {"file": str(file), "hint": "log in anew with the tool of your provider"},
        )
    try:
        status = json.loads(done.stdout)["status"]
    except (ValueError, KeyError, TypeError) as error:
        context = {"file": str(file), "cause": f"{type(error).__name__}: {error}"}
        raise DataError(f"cluster: {command!r} printed no credentials", context) from None
    if not isinstance(status, dict):
        raise DataError(f"cluster: {command!r} printed no credentials", {"file": str(file)})
    data = {"token": status.get("token")}
    for field, given in (("client-certificate", "clientCertificateData"), ("client-key", "clientKeyData")):
        if status.get(given):
            data[f"{field}-data"] = base64.b64encode(str(status[given]).encode()).decode()
    return {name: value for name, value in data.items() if value}


def _of_pod() -> Access:
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    host = f"[{host}]" if ":" in host else host
    tls = ssl.create_default_context(cafile=str(_POD / "ca.crt"))
    token = (_POD / "token").read_text().strip()
    namespace = (_POD / "namespace").read_text().strip() if (_POD / "namespace").exists() else "default"
    headers = {"authorization": f"Bearer {token}"}
    return Access(f"https://{host}:{port}", namespace, "in-cluster", headers, tls)
