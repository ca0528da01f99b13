"""The credentials of a program for a service, and the certificates that it trusts."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TypedDict

from forebay._src import arguments
from forebay.errors import InvalidPipelineError


@dataclass(frozen=True)
class Tls:
    """Certificates for the connections to a service, all files in PEM.

    Attributes:
        ca: The authority that signed the certificates of the dispatcher and its workers; no others are trusted.
        cert: The own certificate, for a service that requires one, followed by the chain to its authority.
        key: The key of the own certificate.
        name: The name that the certificates of the service must have. Default: the host of each address.

    >>> import forebay as fb
    >>> fb.Tls(ca="ca.pem")
    Tls(ca='ca.pem', cert=None, key=None, name=None)
    """

    ca: arguments.PathLike
    cert: arguments.PathLike | None = None
    key: arguments.PathLike | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        """Refuses a certificate without a key, or a key without a certificate."""
        if (self.cert is None) != (self.key is None):
            raise InvalidPipelineError(
                "Tls: a certificate and its key go together", {"hint": "give both cert= and key=, or neither"}
            )


class Credentials(TypedDict):
    """The credentials in the form of the native module."""

    tls: tuple[str, str | None, str | None, str | None] | None
    token: str | None
    token_file: str | None


#: The credentials for a service on this machine.
NOTHING: Credentials = {"tls": None, "token": None, "token_file": None}


def credentials(tls: Tls | None, token: str | None) -> Credentials:
    """Returns the given credentials, and those of the environment for the rest."""
    if tls is not None and not isinstance(tls, Tls):
        raise InvalidPipelineError(f"connect: tls={tls!r} is no fb.Tls", {"hint": "tls=fb.Tls(ca='ca.pem')"})
    if token is not None and not isinstance(token, str):
        raise InvalidPipelineError("connect: token= is no string")
    file = None if token is not None else _variable("TOKEN_FILE")
    return {"tls": _files(tls or _tls()), "token": _variable("TOKEN") if token is None else token, "token_file": file}


def _tls() -> Tls | None:
    ca = _variable("TLS_CA")
    return Tls(ca, _variable("TLS_CERT"), _variable("TLS_KEY"), _variable("TLS_NAME")) if ca else None


def _files(tls: Tls | None) -> tuple[str, str | None, str | None, str | None] | None:
    if tls is None:
        return None
    cert, key = (None if file is None else arguments.path(file, "Tls") for file in (tls.cert, tls.key))
    return arguments.path(tls.ca, "Tls"), cert, key, tls.name


def _variable(name: str) -> str | None:
    return os.environ.get(f"FOREBAY_{name}") or None
