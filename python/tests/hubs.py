"""A small imitation of the Hugging Face hub, for tests without a network: branches, commits, lists in pages, redirects.

It answers as the documented API does: `revision`, `tree` with `Link` headers, `paths-info`, and `resolve`, which sends
large files to another address, as the hub's content network does.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import urllib.parse
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PAGE = 2


class Hub:
    """The state of one data set, `org/name`: files by commit, and branches."""

    def __init__(self) -> None:
        self.commits: dict[str, dict[str, bytes]] = {}
        self.branches: dict[str, str] = {}
        self.token: str | None = None
        self.asked: Counter[str] = Counter()
        #: Authorizations that came to the address to which large files are redirected.
        self.leaked: list[str] = []
        self.url = ""

    def commit(self, files: dict[str, bytes], branch: str = "main") -> str:
        """Adds a commit at the head of a branch, and returns its name."""
        name = hashlib.sha1(repr((branch, len(self.commits), sorted(files))).encode()).hexdigest()
        self.commits[name] = dict(files)
        self.branches[branch] = name
        return name


def _entry(path: str, content: bytes) -> dict[str, Any]:
    oid = hashlib.sha1(content).hexdigest()
    entry = {"type": "file", "path": path, "oid": oid, "size": len(content)}
    if len(content) > 1000:
        entry["lfs"] = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 130}
    return entry


@contextmanager
def hub() -> Iterator[Hub]:
    """Starts a hub and the host of its large files, and ends them."""
    state = Hub()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def _send(self, status: int, body: bytes = b"", **headers: str) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _content(self, content: bytes) -> None:
            wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            if not wanted:
                return self._send(200, content)
            first, last = int(wanted[1]), min(int(wanted[2]), len(content) - 1)
            sent = f"bytes {first}-{last}/{len(content)}"
            return self._send(206, content[first : last + 1], Content_Range=sent)

        def do_GET(self) -> None:
            address = urllib.parse.urlsplit(self.path)
            path = urllib.parse.unquote(address.path)
            if path.startswith("/large/"):
                state.leaked += [value for value in [self.headers.get("Authorization")] if value]
                _, _, commit, name = path.split("/", 3)
                return self._content(state.commits[commit][name])
            if state.token and self.headers.get("Authorization") != f"Bearer {state.token}":
                return self._send(401)
            if found := re.fullmatch(r"/api/datasets/org/name/revision/(.+)", path):
                state.asked["revision"] += 1
                commit = state.branches.get(found[1])
                return self._send(200, json.dumps({"sha": commit}).encode()) if commit else self._send(404)
            if found := re.fullmatch(r"/api/datasets/org/name/tree/([0-9a-f]{40})/?(.*)", path):
                state.asked["tree"] += 1
                files = state.commits.get(found[1], {})
                below = sorted(name for name in files if name.startswith(found[2]))
                at = int(dict(urllib.parse.parse_qsl(address.query)).get("cursor", "0"))
                body = [_entry(name, files[name]) for name in below[at : at + PAGE]]
                body.append({"type": "directory", "path": "data", "oid": "0" * 40, "size": 0})
                more = f'<{state.url}{address.path}?recursive=true&cursor={at + PAGE}>; rel="next"'
                return self._send(200, json.dumps(body).encode(), **({"Link": more} if at + PAGE < len(below) else {}))
            if found := re.fullmatch(r"/datasets/org/name/resolve/([0-9a-f]{40})/(.+)", path):
                state.asked["resolve"] += 1
                content = state.commits.get(found[1], {}).get(found[2])
                if content is None:
                    return self._send(404)
                if len(content) > 1000:
                    # Another name of this host: a client must not send its token there.
                    other = state.url.replace("127.0.0.1", "localhost")
                    return self._send(302, Location=f"{other}/large/{found[1]}/{urllib.parse.quote(found[2])}")
                return self._content(content)
            return self._send(404)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            state.asked["paths-info"] += 1
            commit = self.path.rsplit("/", 1)[-1]
            files = state.commits.get(commit, {})
            names = [value for key, value in urllib.parse.parse_qsl(body) if key == "paths"]
            self._send(200, json.dumps([_entry(name, files[name]) for name in names if name in files]).encode())

    server = ThreadingHTTPServer(("", 0), Handler)
    # Its end waits for the answers that it is sending.
    server.daemon_threads = False
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
