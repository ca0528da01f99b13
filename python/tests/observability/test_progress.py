"""The progress line of indexing: on a terminal, after a second, and erased when done."""

from __future__ import annotations

import http.server
import os
import pty
import re
import subprocess
import sys
import textwrap
import threading

import forebay as fb
import pytest

TEXT = b"one\ntwo\nthree\n"
DAY = "Sat, 21 Nov 2026 00:00:00 GMT"
SCRIPT = textwrap.dedent(
    """
    import sys, forebay as fb
    ds, service = fb.from_text(sys.argv[1]).shuffle(window=None), sys.argv[2]
    print(sum(1 for _ in (ds.distribute(service, job=sys.argv[1]) if service else ds)))
    """
)
LINE = re.compile(rb"\r\x1b\[Kforebay: indexing \xe2.* 0 of 1 files, \d+ s")


@pytest.fixture
def slow_file():
    """The url of a file whose server answers once an event allows it; and that event."""
    allowed = threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self):
            self.answer(TEXT, 200, {})

        def do_GET(self):
            allowed.wait(90)
            first, last = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"]).groups()
            part = TEXT[int(first) : int(last) + 1]
            self.answer(part, 206, {"Content-Range": f"bytes {first}-{int(first) + len(part) - 1}/{len(TEXT)}"})

        def answer(self, body, status, headers):
            fixed = {
                "Content-Length": len(body),
                "Accept-Ranges": "bytes",
                "ETag": '"1"',
                "Last-Modified": "Sat, 21 Nov 2026 00:00:00 GMT",
            }
            self.send_response(status)
            for name, value in {**fixed, **headers}.items():
                self.send_header(name, str(value))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/lines.txt", allowed
        allowed.set()
        server.shutdown()


@pytest.mark.parametrize("where", ["in process", "on a service"])
def test_a_terminal_sees_how_far_indexing_is_until_it_is_done(where, slow_file):
    url, allowed = slow_file
    with fb.up(workers=1 if where == "on a service" else 0, threads=1) as service:
        ours, theirs = pty.openpty()
        address = service.address if where == "on a service" else ""
        command = [sys.executable, "-c", SCRIPT, url, address]
        # The other process waits for the same file, begins earlier, and has no terminal. It must print nothing.
        quiet = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, url, ""], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        with quiet, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs) as process:
            os.close(theirs)
            seen = b""
            while not LINE.search(seen):
                seen += read_to_end(ours) or pytest.fail(f"the line was never drawn: {seen!r}")
            allowed.set()
            assert process.stdout.read() == b"3\n"
            assert quiet.communicate() == (b"3\n", b"")
        while part := read_to_end(ours):
            seen += part
        os.close(ours)
    assert seen.endswith(b"\r\x1b[K")
    assert b"\n" not in seen


def read_to_end(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # no process holds the terminal any more
        return b""
