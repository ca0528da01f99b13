"""S3 servers for tests, and their contents."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

#: Anonymous callers may not overwrite; these servers do not check who the caller is.
WHO = "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"


@dataclass(frozen=True)
class Server:
    """An S3 server of this run: its address, and its process."""

    url: str
    process: subprocess.Popen[str]


@contextmanager
def s3_server() -> Iterator[Server]:
    """Starts a server, and ends it."""
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as server:
        said = iter(server.stderr)
        # Its output about each request must not fill the pipe.
        drain = threading.Thread(target=lambda: [None for _ in said], daemon=True)
        try:
            address = next(found[1] for line in said if (found := re.search(r"Running on (http://[0-9.:]+)", line)))
            drain.start()
            yield Server(address, server)
        finally:
            server.kill()
            if drain.ident:
                drain.join()


def put(server: str, key: str, body: bytes = b"") -> None:
    """Writes an object; a name without a slash makes a bucket."""
    headers = {"Content-Type": "application/octet-stream", "Authorization": WHO}
    request = urllib.request.Request(f"{server}/{key}", data=body, headers=headers, method="PUT")
    urllib.request.urlopen(request, timeout=120).close()


def delete(server: str, key: str) -> None:
    """Removes an object."""
    request = urllib.request.Request(f"{server}/{key}", headers={"Authorization": WHO}, method="DELETE")
    urllib.request.urlopen(request, timeout=120).close()


def credentials(url: str) -> dict[str, str]:
    """Returns the environment of a server's users."""
    return {"AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}


def objects(server: str, bucket: str, folder: str) -> dict[str, bytes]:
    """Returns the objects below a folder, by name there."""

    def get(path: str) -> bytes:
        request = urllib.request.Request(f"{server}/{bucket}{path}", headers={"Authorization": WHO})
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.read()

    names = re.findall("<Key>([^<]*)</Key>", get(f"?list-type=2&prefix={folder}/").decode())
    return {name.removeprefix(f"{folder}/"): get(f"/{name}") for name in names}
