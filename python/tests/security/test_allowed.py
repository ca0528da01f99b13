"""The sources that a tenant's pipelines may read: lists, links, redirecting servers, addresses of the machine."""

from __future__ import annotations

import contextlib
import json
import threading
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import forebay as fb
import pytest
from secured import new_token

E = fb.errors
LINES = "".join(f"line {i}\n" for i in range(40)).encode()


@contextlib.contextmanager
def server(leads_to: str = "") -> Iterator[str]:
    """Serves lines at /x.txt, and redirects any other path."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path != "/x.txt":
                self.send_response(302)
                self.send_header("location", leads_to or "/x.txt")
                self.send_header("content-length", "0")
                self.end_headers()
                return
            asked = self.headers.get("range")
            first, last = (int(n) for n in asked.removeprefix("bytes=").split("-")) if asked else (0, len(LINES) - 1)
            body = LINES[first : last + 1]
            self.send_response(206 if asked else 200)
            if asked:
                self.send_header("content-range", f"bytes {first}-{first + len(body) - 1}/{len(LINES)}")
            self.send_header("etag", '"one"')
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{httpd.server_address[1]}"
        httpd.shutdown()


def read(service: fb.Service, path: object) -> int:
    ds = fb.from_text(str(path)).batch(8)
    return sum(len(batch["text"]) for batch in ds.distribute(service, job=f"job-{uuid.uuid4().hex[:8]}"))


def denied(service: fb.Service, path: object, says: str) -> None:
    with pytest.raises(E.PermissionDeniedError, match=says) as caught:
        read(service, path)
    assert "--allow-source" in caught.value.hint


def test_a_tenant_reads_what_its_list_has_and_a_worker_what_its_own_has(fleet, tmp_path):
    for folder in ("data", "data2", "secret", "data/deep"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.txt").write_bytes(LINES)
    (tmp_path / "data" / "link.txt").symlink_to(tmp_path / "secret" / "x.txt")
    tokens = tmp_path / "tokens.json"
    token = {tenant: new_token(tokens, "client", tenant) for tenant in ("listed", "other")}
    worker = new_token(tokens, "worker")
    content = json.loads(tokens.read_text())
    content["tenants"] = {"listed": {"sources": [str(tmp_path / "data")]}}
    tokens.write_text(json.dumps(content))
    address = fleet.dispatcher(
        "--tokens", tokens, "--allow-source", tmp_path / "data2", "--allow-source", tmp_path / "data"
    )
    fleet.worker(
        address, "--allow-source", tmp_path / "data" / "deep", "--allow-source", tmp_path / "data2", token=worker
    )
    listed, other = (fb.connect(address, token=token[tenant]) for tenant in ("listed", "other"))
    assert read(listed, tmp_path / "data" / "deep" / "*.txt") == 40
    assert read(other, tmp_path / "data2" / "x.txt") == 40
    for path in ("data2/x.txt", "secret/x.txt", "data/link.txt", "data/../secret/x.txt", "data/l*.txt", "*/x.txt"):
        denied(listed, tmp_path / path, "may not read")
    # The dispatcher allows it and the worker does not.
    denied(listed, tmp_path / "data" / "x.txt", "may not read")
    # The service checks each dataset of a mix.
    inside = fb.from_text(str(tmp_path / "data" / "deep" / "x.txt"))
    for path in ("secret/x.txt", "data/x.txt"):
        mix = fb.mix([inside, fb.from_text(str(tmp_path / path))])
        with pytest.raises(E.PermissionDeniedError, match="may not read"):
            list(mix.distribute(listed, job=f"job-{uuid.uuid4().hex[:8]}"))
    assert read(other, tmp_path / "data2" / "x.txt") == 40, "others go on"


def test_a_tenant_does_not_reach_the_machine_itself_nor_follow_a_server_elsewhere(fleet, tmp_path):
    with server() as inner, server(leads_to=f"{inner}/x.txt") as outer, server() as around:
        tokens = tmp_path / "tokens.json"
        token = {tenant: new_token(tokens, "client", tenant) for tenant in ("bare", "listed")}
        worker = new_token(tokens, "worker")
        content = json.loads(tokens.read_text())
        content["tenants"] = {"listed": {"sources": [outer, around]}}
        tokens.write_text(json.dumps(content))
        address = fleet.dispatcher("--tokens", tokens)
        fleet.worker(address, token=worker)
        bare, listed = (fb.connect(address, token=token[tenant]) for tenant in ("bare", "listed"))
        denied(bare, f"{inner}/x.txt", "of the machine itself")
        denied(bare, f"{inner}/x.txt".replace("127.0.0.1", "localhost"), "of the machine itself")
        assert read(listed, f"{outer}/x.txt") == 40
        assert read(listed, f"{around}/away.txt") == 40, "the same host may lead to another path"
        denied(listed, f"{outer}/away.txt", "redirects to")
        denied(listed, f"{inner}/x.txt", "may not read")
        # A service without tenants belongs to one user, who may read everything.
        own = fleet.dispatcher()
        fleet.worker(own)
        assert read(fb.connect(own), f"{outer}/away.txt") == 40
