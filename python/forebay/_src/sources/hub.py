"""Pins data sets of the Hugging Face hub to a commit, so that every epoch and every process reads the same bytes."""

from __future__ import annotations

import json
import os
import re
import time
import urllib.parse
from typing import TYPE_CHECKING, Any

from forebay._src.site import site
from forebay.errors import ForebayError, InvalidPipelineError, MissingFileError, UnavailableError

if TYPE_CHECKING:
    import urllib.request

_ADDRESS = re.compile(r"hf://datasets/([^/@]+)/([^/@]+)(?:@(refs/(?:convert|pr)/[^/]+|[^/]+))?(/.*)?", re.DOTALL)
_COMMIT = re.compile(r"[0-9a-f]{40}")
#: Seconds that an answer of the hub may take, and its bytes.
_TIMEOUT_S = 20
_ANSWER_MAX = 64 << 20
#: Attempts, and the seconds between the first two; each wait is twice as long as the one before it.
_ATTEMPTS, _WAIT_S = 4, 0.25
_PASSING = (429, 500, 502, 503, 504)
_USAGE = "write hf://datasets/ORG/NAME/path, or hf://datasets/ORG/NAME@REVISION/path"


def pinned(source: dict[str, Any], op: str) -> dict[str, Any]:
    """Returns a source whose addresses of the hub name a commit instead of a branch or a tag.

    >>> commit = "0123456789abcdef0123456789abcdef01234567"
    >>> path = f"hf://datasets/org/name@{commit}/data/*.parquet"
    >>> pinned({"source": "parquet", "paths": ["here.parquet", path]}, "from_parquet")["paths"][1] == path
    True
    """
    known: dict[tuple[str, str], str] = {}
    with_paths = {"paths": [_pinned(path, op, known) for path in source["paths"]]} if "paths" in source else {}
    with_root = {"root": _pinned(source["root"], op, known)} if isinstance(source.get("root"), str) else {}
    return {**source, **with_paths, **with_root}


def _pinned(path: str, op: str, known: dict[tuple[str, str], str]) -> str:
    if not path.startswith("hf://"):
        return path
    found = _ADDRESS.fullmatch(path)
    if found is None:
        raise InvalidPipelineError(f"{op}: this is no address of a data set of the hub", _context(path, op, _USAGE))
    organisation, name, revision, rest = found.groups()
    revision = urllib.parse.unquote(revision or "main")
    if _COMMIT.fullmatch(revision) is None:
        key = (f"{organisation}/{name}", revision)
        if key not in known:
            known[key] = _commit_of(*key, path, op)
        revision = known[key]
    return f"hf://datasets/{organisation}/{name}@{revision}{rest or '/'}"


def _commit_of(repository: str, revision: str, path: str, op: str) -> str:
    """Asks the hub for the commit of a branch, a tag or a reference."""
    import urllib.request

    endpoint = (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
    url = f"{endpoint}/api/datasets/{repository}/revision/{urllib.parse.quote(revision, safe='')}?expand=sha"
    if not url.startswith(("http://", "https://")):
        raise InvalidPipelineError(f"{op}: HF_ENDPOINT is no http address", _context(path, op, "https://host"))
    request = urllib.request.Request(url)
    if token := os.environ.get("HF_TOKEN"):
        # It stays with the hub: a redirected request does not have it.
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    try:
        commit = json.loads(_answer(request, path, op)).get("sha")
    except (ValueError, AttributeError):
        commit = None
    if not isinstance(commit, str) or _COMMIT.fullmatch(commit) is None:
        what = f"{op}: the hub's answer does not name the commit of {revision!r}"
        raise UnavailableError(what, _context(path, op, "name the commit: hf://datasets/ORG/NAME@COMMIT/path"))
    return commit


def _answer(request: urllib.request.Request, path: str, op: str) -> bytes:
    import urllib.error
    import urllib.request

    seen = ""
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(_WAIT_S * 2**attempt)
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
                return bytes(answer.read(_ANSWER_MAX))
        except urllib.error.HTTPError as error:
            # The error holds the connection.
            error.close()
            if error.code not in _PASSING:
                raise _refused(error.code, path, op) from None
            seen = f"status {error.code}"
        except OSError as error:
            seen = str(getattr(error, "reason", error))
    context = {**_context(path, op, "check HF_ENDPOINT and the network"), "attempts": str(_ATTEMPTS), "seen": seen}
    raise UnavailableError(f"{op}: the hub does not answer", context)


def _refused(status: int, path: str, op: str) -> ForebayError:
    hint = "check the names; for a private or gated data set, set HF_TOKEN to a token that may read it"
    context = {**_context(path, op, hint), "answer": f"status {status}"}
    # The hub answers 401 to anonymous users for a data set that is not there, too.
    if status in (401, 403, 404):
        return MissingFileError(f"{op}: the hub has no such data set and revision for this user", context)
    return UnavailableError(f"{op}: the hub refuses the request", context)


def _context(path: str, op: str, hint: str) -> dict[str, str]:
    file, line = site()
    return {"file": path, "op": op, "line": f"{file}:{line}", "hint": hint}
