"""Bad input of a shuffle over windows of files in a store.

Each input yields the right rows, or an error with the file, the place in it, and a hint.
"""

from __future__ import annotations

import gzip
import http.server
import io
import itertools
import json
import socket
import struct
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from xml.sax.saxutils import escape

import forebay as fb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from buckets import credentials
from tar_shards import tar

E = fb.errors


def jsonl(ids: range) -> bytes:
    return "".join(json.dumps({"id": i, "x": "y" * (i * 37 % 300)}) + "\n" for i in ids).encode()


def parquet(ids: range) -> bytes:
    file = io.BytesIO()
    columns = {"id": np.array(ids, np.int64), "x": np.zeros(len(ids))}
    pq.write_table(pa.table(columns), file, row_group_size=16)
    return file.getvalue()


WRITERS: dict[str, Callable[[range], bytes]] = {
    "tar": tar,
    "jsonl": jsonl,
    "jsonl.gz": lambda ids: gzip.compress(jsonl(ids), 1),
    "parquet": parquet,
}
KINDS = sorted(WRITERS)
#: For each kind, a window that holds a part of the files that tests make.
WINDOWS: dict[str, int | str] = {"tar": "40KiB", "jsonl": "4KiB", "jsonl.gz": "1KiB", "parquet": 60}


def dataset(kind: str, pattern: str, window: int | str | None = None) -> fb.Dataset:
    load = {"tar": fb.from_tar, "parquet": fb.from_parquet}.get(kind, fb.from_jsonl)
    return load(pattern).shuffle(window=WINDOWS[kind] if window is None else window).batch(16)


def ids(batches) -> list[int]:
    return [int(value) for batch in batches for value in batch["id"]]


class Store:
    """An S3 server of objects in memory, a few of them on a page, that can run a test's code before it answers.

    `before` gets the request: its method, the object's name (empty for a list), and the earlier part of the list. It
    returns a status to answer with and its headers, `"reset"` for a connection that breaks in the middle of the body,
    or nothing.
    """

    def __init__(self, page: int = 1000) -> None:
        self.objects: dict[str, bytes] = {}
        self.page = page
        self.before: Callable[[str, str, str], tuple[int, dict[str, str]] | str | None] = lambda *_: None
        self.requests: list[tuple[str, str, str]] = []
        store = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                store.answer(self)

            do_HEAD = do_GET

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request: http.server.BaseHTTPRequestHandler) -> None:
        path, _, query = request.path.partition("?")
        name = urllib.parse.unquote(path).removeprefix("/data").removeprefix("/")
        asked = dict(urllib.parse.parse_qsl(query))
        after = asked.get("continuation-token") or asked.get("start-after", "")
        self.requests.append((request.command, name, after))
        done = self.before(request.command, name, after)
        if isinstance(done, tuple):
            return self._say(request, done[0], done[1], b"")
        if not name:
            return self._say(request, 200, {}, self._list(asked.get("prefix", ""), after, asked.get("delimiter", "")))
        body = self.objects.get(name)
        if body is None:
            return self._say(request, 404, {}, b"")
        tag, size = f'"{hash(body):x}"', len(body)
        if request.headers.get("if-match", tag) != tag:
            return self._say(request, 412, {}, b"")
        said = {"etag": tag, "last-modified": "Sun, 01 Nov 2026 00:00:00 GMT"}
        wanted = request.headers.get("range")
        if wanted is None:
            return self._say(request, 200, said, body, done)
        first, last = wanted.removeprefix("bytes=").split("-")
        end = min(int(last) + 1 if last else size, size)
        said["content-range"] = f"bytes {first}-{end - 1}/{size}"
        return self._say(request, 206, said, body[int(first) : end], done)

    def _say(self, request, status: int, headers: dict[str, str], body: bytes, how: str | None = None) -> None:
        request.send_response(status)
        for key, value in {**headers, "content-length": str(len(body))}.items():
            request.send_header(key, value)
        request.end_headers()
        if request.command == "HEAD":
            return
        if how != "reset":
            request.wfile.write(body)
            return
        request.wfile.write(body[: len(body) * 2 // 3])
        request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        request.connection.close()
        request.close_connection = True

    def _list(self, prefix: str, after: str, delimiter: str) -> bytes:
        found = {}
        for name in sorted(name for name in self.objects if name.startswith(prefix)):
            below, _, rest = name[len(prefix) :].partition("/")
            folder = f"{prefix}{below}/"
            if delimiter and (rest or name == folder):
                found[folder] = f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>"
                continue
            found[name] = (
                f"<Contents><Key>{escape(name)}</Key><Size>{len(self.objects[name])}</Size>"
                f"<ETag>&quot;{hash(self.objects[name]):x}&quot;</ETag>"
                "<LastModified>2026-11-01T00:00:00.000Z</LastModified></Contents>"
            )
        names = [name for name in found if name > after]
        listed = "".join(found[name] for name in names[: self.page])
        more = len(names) > self.page
        token = f"<NextContinuationToken>{escape(names[self.page - 1])}</NextContinuationToken>" if more else ""
        told = f"<Name>data</Name><IsTruncated>{str(more).lower()}</IsTruncated>{token}{listed}"
        return f'<?xml version="1.0"?><ListBucketResult>{told}</ListBucketResult>'.encode()


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path) -> Iterator[Store]:
    store = Store()
    for key, value in {
        **credentials(store.url),
        "FOREBAY_STORE_TIMEOUT": "30",
        "FOREBAY_STORE_PATIENCE": "180",
        "FOREBAY_CACHE": str(tmp_path / "cache"),
        "FOREBAY_CACHE_SOURCE": "off",
    }.items():
        monkeypatch.setenv(key, value)
    yield store
    store.close()


def fill(store: Store, kind: str, sizes: list[int]) -> int:
    """Puts shards with these numbers of rows, and returns the number of all rows."""
    start = 0
    for number, rows in enumerate(sizes):
        store.objects[f"{kind}/{number:05}.{kind}"] = WRITERS[kind](range(start, start + rows))
        start += rows
    return start


def pattern(kind: str) -> str:
    return f"s3://data/{kind}/*.{kind}"


@pytest.mark.parametrize("kind", KINDS)
def test_a_store_that_throttles_and_breaks_connections_changes_no_row(kind, store):
    rows = fill(store, kind, [60, 90, 30, 120])
    want = ids(dataset(kind, pattern(kind)).iter(seed=3))
    assert sorted(want) == list(range(rows))
    number, faults = itertools.count(1), []

    def spoil(method: str, name: str, after: str) -> tuple[int, dict[str, str]] | str | None:
        done = {0: (503, {"retry-after": "0"}), 2: "reset"}.get(next(number) % 4)
        if done is not None and not (done == "reset" and (method == "HEAD" or not name)):
            faults.append(done)
            return done
        return None

    store.before = spoil
    assert ids(dataset(kind, pattern(kind)).iter(seed=3)) == want
    assert "reset" in faults
    assert (503, {"retry-after": "0"}) in faults


def test_a_store_that_goes_on_throttling_is_given_up_and_says_so(store, monkeypatch):
    fill(store, "tar", [60, 90])
    monkeypatch.setenv("FOREBAY_STORE_PATIENCE", "1")
    ds = dataset("tar", pattern("tar"))
    store.before = lambda method, name, after: (503, {"retry-after": "1"}) if name.endswith("1.tar") else None
    with pytest.raises(E.UnavailableError) as caught:
        ids(ds.iter(seed=3))
    assert caught.value.context["file"] == "s3://data/tar/00001.tar"
    assert "503" in str(caught.value)
    assert "FOREBAY_STORE_PATIENCE" in caught.value.hint


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["vanishes", "changes", "grows"])
def test_a_shard_that_is_another_one_in_the_next_epoch(kind, how, store):
    rows = fill(store, kind, [40, 40, 40])
    name = f"{kind}/00001.{kind}"
    it = dataset(kind, pattern(kind)).iter(seed=3, epochs=None)
    seen: list[int] = []
    while len(seen) < rows:
        seen += ids([next(it)])
    assert sorted(seen) == list(range(rows))
    if how == "vanishes":
        del store.objects[name]
    else:
        others = range(1000, 1040) if how == "changes" else range(40, 140)
        store.objects[name] = WRITERS[kind](others)
    with pytest.raises(E.MissingFileError if how == "vanishes" else E.DataError) as caught:
        # Some batches were computed before.
        ids(itertools.islice(it, 10_000))
    assert caught.value.context["file"] == f"s3://data/{name}"
    assert caught.value.hint


@pytest.mark.parametrize("kind", KINDS)
def test_shards_that_are_added_are_read_by_the_next_run_and_not_by_this_one(kind, store):
    fill(store, kind, [40, 40])
    it = dataset(kind, pattern(kind)).iter(seed=3, epochs=2)
    first = ids([next(it)])
    store.objects[f"{kind}/00002.{kind}"] = WRITERS[kind](range(80, 120))
    assert sorted([*first, *ids(it)]) == sorted([*range(80)] * 2)
    assert sorted(ids(dataset(kind, pattern(kind)).iter(seed=3))) == list(range(120))


@pytest.mark.parametrize("kind", ["tar", "jsonl", "jsonl.gz", "parquet"])
def test_a_shard_that_is_cut_off_is_named_with_the_place(kind, store):
    fill(store, kind, [40, 40, 40])
    name = f"{kind}/00001.{kind}"
    store.objects[name] = store.objects[name][: len(store.objects[name]) * 2 // 3 - 5]
    with pytest.raises(E.DataError) as caught:
        ids(dataset(kind, pattern(kind)).iter(seed=3))
    assert caught.value.context["file"] == f"s3://data/{name}"
    # The row positions of a Parquet file are in its footer, which is lost as a whole.
    assert kind == "parquet" or "offset" in caught.value.context
    assert caught.value.hint


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "sizes",
    [[0, 30, 0, 0, 50, 0], [1] * 40, [3, 3, 3000, 3, 3]],
    ids=["empty ones", "one row each", "one is 1,000 times the others"],
)
def test_shards_of_odd_sizes_give_each_row_once(kind, sizes, store):
    rows = fill(store, kind, sizes)
    if kind == "jsonl":
        store.objects["jsonl/nothing.jsonl"] = b""
    ds = dataset(kind, pattern(kind))
    orders = [ids(ds.iter(seed=3, epoch=epoch)) for epoch in range(2)]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(rows))
    assert orders[0] != orders[1]
    assert ids(ds.iter(seed=3, threads=1)) == orders[0]


def test_where_all_shards_are_empty_there_are_no_rows(store):
    for number in range(3):
        store.objects[f"jsonl/{number}.jsonl"] = b""
    ds = fb.from_jsonl("s3://data/jsonl/*.jsonl", schema={"id": "int64"}).shuffle(window="1KiB").batch(4)
    assert list(ds.iter(seed=1)) == []


def test_thousands_of_tiny_shards(store, tmp_path):
    """In a store and on this machine: the same rows in the same order."""
    count = 2000
    for i in range(count):
        body = jsonl(range(i, i + 1))
        store.objects[f"jsonl/{i:05}.jsonl"] = body
        (tmp_path / f"{i:05}.jsonl").write_bytes(body)
    there = ids(dataset("jsonl", pattern("jsonl"), "64KiB").iter(seed=3))
    assert sorted(there) == list(range(count))
    assert ids(dataset("jsonl", f"{tmp_path}/*.jsonl", "64KiB").iter(seed=3)) == there
    assert np.abs(np.array(there) - np.arange(count)).mean() / count > 0.28


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("window", ["1B", "1GiB"], ids=["smaller than a batch", "larger than the data"])
def test_any_window_gives_each_row_once(kind, window, store):
    rows = fill(store, kind, [40, 1, 60, 30])
    ds = dataset(kind, pattern(kind), {"1B": 1, "1GiB": 10**9}[window] if kind == "parquet" else window)
    batches = list(ds.iter(seed=3))
    assert [len(batch["id"]) for batch in batches] == [16] * (rows // 16) + ([rows % 16] if rows % 16 else [])
    assert sorted(ids(batches)) == list(range(rows))


@pytest.mark.parametrize("fault", ["500", "503", "reset"])
def test_a_list_that_fails_half_way_goes_on_where_it_failed(fault, store):
    store.page = 2
    rows = fill(store, "tar", [10] * 9)
    failures = iter(range(3))

    def before(method: str, name: str, after: str) -> tuple[int, dict[str, str]] | None:
        if not name and after and next(failures, None) is not None:
            if fault == "reset":
                raise ConnectionResetError
            return int(fault), {}
        return None

    store.before = before
    assert sorted(ids(dataset("tar", pattern("tar")).iter(seed=3))) == list(range(rows))
    assert next(failures, None) is None, "it failed as often as it was to"


@pytest.mark.parametrize(("status", "kind"), [(500, E.UnavailableError), (403, E.PermissionDeniedError)])
def test_a_list_that_fails_half_way_for_good_is_no_shorter_list(status, kind, store, monkeypatch):
    monkeypatch.setenv("FOREBAY_STORE_PATIENCE", "1")
    store.page = 2
    fill(store, "tar", [10] * 9)
    store.before = lambda method, name, after: (status, {}) if not name and after >= "tar/00003.tar" else None
    with pytest.raises(kind) as caught:
        ids(dataset("tar", pattern("tar")).iter(seed=3))
    assert caught.value.context["file"].startswith("s3://data/tar/")
    assert caught.value.hint


def test_folders_of_a_store_with_many_names_are_listed_side_by_side(store):
    want = []
    for name in [*(f"part={i}/{k:03}.txt" for i in range(7) for k in range(400)), "top.txt", "part=0.txt", "z/y/x.txt"]:
        store.objects[f"lines/{name}"] = f"{name}\n".encode()
        want.append(name)
    # Some tools mark folders this way, and some write other files next to the data.
    store.objects |= {"lines/": b"", "lines/part=3/": b"", "lines/_SUCCESS": b"", "lines/part=2/_started": b"x"}
    seen = [row["text"] for row in fb.from_text("s3://data/lines/").iter()]
    assert sorted(seen) == sorted(want)
    assert [row["text"] for row in fb.from_text("s3://data/lines/**/*.txt").iter()] == seen
    listed = [after for method, name, after in store.requests if method == "GET" and not name]
    assert sum(after.startswith("lines/part=") for after in listed) < len(listed) / 2, "most lists begin with a folder"
