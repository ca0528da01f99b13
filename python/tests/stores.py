"""An S3 server of this run, and what is put into it."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def started() -> Iterator[str]:
    """The address of an S3 server."""
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as server:
        try:
            said = iter(server.stderr)
            address = next(found[1] for line in said if (found := re.search(r"Running on (http://[0-9.:]+)", line)))
            # What it says of each request must not fill the pipe.
            threading.Thread(target=lambda: [None for _ in said], daemon=True).start()
            yield address
        finally:
            server.kill()


def put(server: str, key: str, body: bytes = b"") -> None:
    """Makes a bucket, or an object in it."""
    # Whoever is anonymous may not overwrite; who one is, this server does not check.
    who = "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
    headers = {"Content-Type": "application/octet-stream", "Authorization": who}
    request = urllib.request.Request(f"{server}/{key}", data=body, headers=headers, method="PUT")
    urllib.request.urlopen(request, timeout=120).close()
