"""Certificates and processes of a service that is secured, for tests."""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = dt.timedelta(days=1)


def name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


@dataclass
class Identity:
    """A certificate and its key, in files."""

    cert: Path
    key: Path

    def flags(self) -> list[str]:
        return ["--tls-cert", str(self.cert), "--tls-key", str(self.key)]


class Authority:
    """Signs certificates. `ca` is the file of its own certificate."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder, self.key = folder, ec.generate_private_key(ec.SECP256R1())
        self.name = name(folder.name)
        self.ca = folder / "ca.pem"
        builder = self._builder(self.name, self.key.public_key(), 1)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self.ca.write_bytes(builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, days: int, begins: int = -3
    ) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self.name).public_key(key)
        builder = builder.serial_number(x509.random_serial_number())
        return builder.not_valid_before(now + begins * DAY).not_valid_after(now + days * DAY)

    def issue(self, who: str, host: str = "127.0.0.1", days: int = 1, begins: int = -3) -> Identity:
        """Returns a certificate for a host, whose validity starts and ends these numbers of days from now."""
        key = ec.generate_private_key(ec.SECP256R1())
        try:
            of: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(host))
        except ValueError:
            of = x509.DNSName(host)
        builder = self._builder(name(who), key.public_key(), days, begins)
        builder = builder.add_extension(x509.SubjectAlternativeName([of]), critical=False)
        cert = builder.sign(self.key, hashes.SHA256())
        made = Identity(self.folder / f"{who}.pem", self.folder / f"{who}.key")
        made.cert.write_bytes(cert.public_bytes(serialization.Encoding.PEM))
        form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        made.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, *form))
        return made


def without_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes the security settings from this process's environment."""
    for variable in ("TLS_CA", "TLS_CERT", "TLS_KEY", "TLS_NAME", "TOKEN", "TOKEN_FILE"):
        monkeypatch.delenv(f"FOREBAY_{variable}", raising=False)


def clean() -> dict[str, str]:
    """Returns this process's environment without its security settings."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("FOREBAY_TLS", "FOREBAY_TOKEN"))}


def forebay(*arguments: object, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "forebay", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=180, env={**clean(), **env})


def new_token(tokens: Path, role: str, tenant: str = "") -> str:
    done = forebay("token", "new", "--tokens", tokens, "--role", role, "--tenant", tenant)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def edit(tokens: Path, change) -> None:
    """Rewrites a file of tokens, as an administrator does."""
    content = json.loads(tokens.read_text())
    change(content)
    part = tokens.with_suffix(".part")
    part.write_text(json.dumps(content))
    part.replace(tokens)


@dataclass
class Fleet:
    """Processes that end with this one."""

    folder: Path
    processes: list[subprocess.Popen[str]] = field(default_factory=list)
    #: What each process announced.
    announced: list[dict[str, str]] = field(default_factory=list)

    def start(self, *arguments: object, **env: str) -> str:
        """Starts a process and returns its address."""
        command = [sys.executable, "-m", "forebay", *map(str, arguments), "--announce", "--exit-with-parent"]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**clean(), **env}
        )
        self.processes.append(process)
        assert process.stdout is not None
        self.announced.append(json.loads(process.stdout.readline()))
        return self.announced[-1]["address"]

    def dispatcher(self, *arguments: object) -> str:
        state = self.folder / f"state-{len(self.processes)}"
        return self.start("dispatcher", "--listen", "127.0.0.1:0", "--state-dir", state, *arguments)

    def worker(self, dispatcher: str, *arguments: object, token: str = "") -> str:
        env = {"FOREBAY_TOKEN": token} if token else {}
        return self.start("worker", "--dispatcher", dispatcher, "--threads", "1", *arguments, **env)

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            with process:
                process.wait(90)


def is_forgotten(service: fb.Service, job: str) -> bool:
    """Forgets a job, unless its consumer is just leaving."""
    try:
        service.forget(job)
    except fb.errors.ConflictError:
        return False
    return True


def ready(service: fb.Service, workers: int) -> bool:
    return sum(w.state in ("idle", "working") for w in service.workers()) >= workers


def wide(row: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {"x": np.full((64, 300), row["id"], np.uint8), "small": row["id"] * 2}


def pictures() -> fb.Dataset:
    """Returns large columns (lent, or sent apart) and small ones, and a function that travels as a blob."""
    return fb.range(300).shuffle().map(wide, schema={"x": ("uint8", (64, 300)), "small": "int64"}).batch(16)


def numbers(rows: int = 4000) -> fb.Dataset:
    return fb.range(rows).shuffle().with_column("x", fb.col("id") * 0.5).batch(16)
