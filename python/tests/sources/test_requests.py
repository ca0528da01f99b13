"""How many requests readers send to a store, and how many of them are in flight together."""

from __future__ import annotations

import http.server
import threading
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import forebay as fb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pipelines import fingerprint

GROUPS, COLUMNS, ROWS = 6, 12, 900


class Server(http.server.ThreadingHTTPServer):
    """Serves ranges of files. An answer with rows waits until `together` of them are in flight, or for 10 s."""

    daemon_threads = True

    def __init__(self, folder: Path, together: int = 1) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder, self.together = folder, together
        self.ranges: list[tuple[str, int, int]] = []
        self.in_flight = self.most = 0
        self.changed = threading.Condition()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def answer(self, name: str, first: int, last: int) -> bytes:
        """Counts a request, and returns its bytes."""
        whole = (self.folder / name).read_bytes()
        with self.changed:
            self.ranges.append((name, first, last))
            if last == len(whole) - 1:
                return whole[first:]  # a footer
            self.in_flight += 1
            self.most = max(self.most, self.in_flight)
            self.changed.notify_all()
            self.changed.wait_for(lambda: self.most >= self.together, timeout=10)
            self.in_flight -= 1
        return whole[first : last + 1]


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_HEAD(self) -> None:
        """Says how long a file is."""
        self._head(200, len(self._file().read_bytes()))

    def do_GET(self) -> None:
        """Sends a range."""
        size = len(self._file().read_bytes())
        first, last = (int(n) for n in self.headers["range"].removeprefix("bytes=").split("-"))
        last = min(last, size - 1)
        body = self.server.answer(self._file().name, first, last)
        self._head(206, len(body), f"bytes {first}-{last}/{size}")
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Prints nothing."""

    def _file(self) -> Path:
        return self.server.folder / urllib.parse.unquote(self.path.lstrip("/"))

    def _head(self, status: int, length: int, content_range: str = "") -> None:
        self.send_response(status)
        self.send_header("content-length", str(length))
        self.send_header("etag", '"one"')
        if content_range:
            self.send_header("content-range", content_range)
        self.end_headers()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two files of row groups of several columns."""
    rng = np.random.default_rng(0)
    for file in range(2):
        columns = {f"c{n:02}": rng.random(ROWS) for n in range(COLUMNS)}
        table = pa.table({"n": np.arange(ROWS), **columns})
        pq.write_table(table, tmp_path / f"{file}.parquet", row_group_size=ROWS // GROUPS)
    return tmp_path


@pytest.fixture
def serve(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """Serves the files."""
    monkeypatch.setenv("FOREBAY_CACHE_SOURCE", "off")
    monkeypatch.setenv("FOREBAY_CACHE", str(tmp_path / "cache"))
    begun: list[Server] = []

    def serve(together: int = 1) -> Server:
        begun.append(Server(folder, together))
        threading.Thread(target=begun[-1].serve_forever, daemon=True).start()
        return begun[-1]

    yield serve
    for server in begun:
        server.shutdown()
        server.server_close()


def rows(batches: Any) -> list[Any]:
    """Returns all properties of the batches."""
    return [fingerprint(batch) for batch in batches]


PIPELINES = {
    "in order": lambda ds: ds,
    "shuffled": lambda ds: ds.shuffle(),
    "filtered": lambda ds: ds.filter(fb.col("n") % 7 < 3),
    "some columns": lambda ds: ds.select(["c02", "c03", "c09"]),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_the_columns_of_a_row_group_share_requests(serve, folder, name):
    server = serve()
    far, near = (fb.from_parquet(f"{at}/{{0,1}}.parquet") for at in (server.url, str(folder)))
    of_far, of_near = (rows(PIPELINES[name](ds).batch(64).iter(seed=1)) for ds in (far, near))
    assert of_far == of_near
    # A filter reads the column of its condition first. The footers are read at the end of each file.
    groups = {request for request in server.ranges if request[2] < (folder / request[0]).stat().st_size - 1}
    assert len(groups) <= 2 * GROUPS * (2 if name == "filtered" else 1)
    # The index reads each footer, and so does the reader.
    assert len(server.ranges) - len(groups) <= 6


def test_a_worker_of_four_threads_waits_for_nine_answers(serve, folder):
    """Eight waiting threads are replaced, and the ninth is not."""
    for file in range(48):
        pq.write_table(pa.table({"n": np.random.default_rng(file).random(20_000)}), folder / f"many-{file:02}.parquet")
    expected = rows(fb.from_parquet(f"{folder}/many-*.parquet").batch(20_000).iter(seed=1))
    server = serve(together=9)
    ds = fb.from_parquet([f"{server.url}/many-{file:02}.parquet" for file in range(48)]).batch(20_000)
    with fb.up(workers=1, threads=4) as service:
        assert rows(ds.distribute(service, job="far", seed=1).iter()) == expected
    assert server.most >= 9


def paused(batch):
    """Takes so long that both workers compute."""
    time.sleep(0.005)
    return batch


def test_two_workers_decode_each_row_group_of_a_window_once(serve, folder):
    """But for row groups at the border of two windows."""
    for file in range(16):
        rng = np.random.default_rng(file)
        table = pa.table({f"x{column}": rng.random(2000) for column in range(40)})
        pq.write_table(table, folder / f"many-{file:02}.parquet", row_group_size=250)
    server = serve()
    ds = fb.from_parquet([f"{server.url}/many-{file:02}.parquet" for file in range(16)])
    ds = ds.shuffle(window=4096).batch(64).map(paused)
    expected = rows(ds.iter(seed=1))
    alone = sum(last - first for _, first, last in server.ranges)
    server.ranges.clear()
    with fb.up(workers=2) as service:
        assert rows(ds.distribute(service, job="far", seed=1).iter()) == expected
    assert sum(last - first for _, first, last in server.ranges) < 1.4 * alone
