"""`save` directly to a store: the files of a local folder, through kills, faults and a second writer."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from buckets import credentials, objects, put
from faulty import FAULTS, FaultProxy, hang, reset_at_once
from pipelines import fingerprint

E = fb.errors


@pytest.fixture(scope="module")
def bucket(moto: str) -> str:
    put(moto, "saved")
    return "saved"


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Sets the variables of a user's own store."""

    def use(url: str) -> None:
        told = {"FOREBAY_STORE_TIMEOUT": "30", "FOREBAY_STORE_PATIENCE": "180", "FOREBAY_CACHE_SOURCE": "off"}
        for name, value in {**credentials(url), **told}.items():
            monkeypatch.setenv(name, value)

    return use


def parts(files: dict[str, bytes]) -> dict[str, bytes]:
    return {name: files[name] for name in sorted(files) if name.startswith("part-")}


def here(folder: Path) -> dict[str, bytes]:
    return parts({path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()})


def rows(ds: fb.Dataset) -> list[str]:
    return [fingerprint(row) for row in ds]


SAVE = """
import os, sys, forebay as fb
def work(row):
    return {"square": row["id"] ** 2, "text": str(row["id"]) * 3}
ds = fb.range(9000).map(work, schema={"square": "int64", "text": "string"}).shuffle()
folder, format, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
if __name__ == "__main__":
    print(ds.save(folder, seed=2, threads=threads, format=format, file_bytes=40_000))
"""


def start(url: str, folder: str, format: str, threads: int = 2) -> subprocess.Popen[str]:
    environment = {**os.environ, **credentials(url), "FOREBAY_STORE_PATIENCE": "180"}
    command = [sys.executable, "-c", SAVE, folder, format, str(threads)]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)


def ended(process: subprocess.Popen[str], *also: int) -> int:
    """Waits for its end with exit code 0, or one of these."""
    _, said = process.communicate(timeout=180)
    assert process.returncode in (0, *also), said
    return process.returncode


@pytest.mark.parametrize("format", ["arrow", "parquet", "tar", "mds", "jsonl", "csv", "tfrecord"])
def test_a_save_that_is_killed_at_any_request_goes_on_and_leaves_the_same(format, moto, bucket, tmp_path):
    """Each run dies at a random request, before or after the store has executed it; the last one may live."""
    ended(start(moto, str(tmp_path / "whole"), format))
    expected, folder = here(tmp_path / "whole"), f"killed-{format}-{uuid.uuid4()}"
    dice, kills = random.Random(format), 0
    for turn in range(4):
        victims: list[subprocess.Popen[str]] = []
        with FaultProxy(moto, lambda *_, victims=victims: victims[0].kill(), every=dice.randint(3, 12)) as proxy:
            victims.append(start(proxy.url, f"s3://{bucket}/{folder}", format, threads=1 + turn % 3))
            kills += ended(victims[0], -signal.SIGKILL) != 0
        there = objects(moto, bucket, folder)
        if "_forebay.json" in there:
            counted = json.loads(there["_forebay.json"])["so_far"]["parts"]
            assert list(parts(there).items())[:counted] == list(expected.items())[:counted]
    assert kills >= 3
    ended(start(moto, f"s3://{bucket}/{folder}", format))
    there, local = objects(moto, bucket, folder), tmp_path / "whole"
    assert parts(there) == expected
    for name in {"_forebay.json", "index.json"} & there.keys():
        assert there[name] == (local / name).read_bytes(), name


def test_what_is_loaded_from_a_store_is_what_was_saved(moto, bucket, use, tmp_path):
    use(moto)
    noise = np.random.default_rng(0).integers(0, 256, (40, 1 << 20), np.uint8)
    ds = fb.from_numpy({"x": noise, "n": np.arange(40)})
    for format in ("arrow", "parquet"):
        folder = f"s3://{bucket}/loaded-{format}"
        with FaultProxy(moto, reset_at_once, every=10**9) as proxy:
            use(proxy.url)
            saved = ds.save(folder, format=format, file_bytes=25 << 20)
            # In blocks: a file is more than three of them.
            assert proxy.requests > 2 * 4
        assert saved == fb.Saved(folder, 40, 2)
        ds.save(tmp_path / format, format=format, file_bytes=25 << 20)
        assert parts(objects(moto, bucket, f"loaded-{format}")) == here(tmp_path / format)
        assert rows(fb.load(folder)) == rows(ds)
        assert ds.save(folder, format=format, file_bytes=25 << 20) == saved, "all is there"


@pytest.mark.parametrize("fault", ["503 with retry-after", "500", "reset_at_once", "cut"])
def test_faults_of_the_network_do_not_show(fault, moto, bucket, use, tmp_path):
    ds = fb.range(3000).with_column("half", fb.col("id") / 2)
    ds.save(tmp_path / "here", file_bytes=2_000)
    folder = f"faulty-{uuid.uuid4()}"
    with FaultProxy(moto, FAULTS[fault], every=3) as proxy:
        use(proxy.url)
        ds.save(f"s3://{bucket}/{folder}", file_bytes=2_000)
        assert proxy.faults > 5
    assert parts(objects(moto, bucket, folder)) == here(tmp_path / "here")


def test_nothing_half_written_is_loaded(moto, bucket, use):
    use(moto)
    folder, ds = f"half-{uuid.uuid4()}", fb.range(5000)
    with FaultProxy(moto, FAULTS["500"], every=1, only=lambda method, answer: proxy.requests > 12) as proxy:
        use(proxy.url)
        os.environ["FOREBAY_STORE_PATIENCE"] = "0.1"
        with pytest.raises(E.UnavailableError) as caught:
            ds.save(f"s3://{bucket}/{folder}", file_bytes=4_000)
        assert f"s3://{bucket}/{folder}/" in caught.value.context["file"]
    use(moto)
    # A file in the folder that does not count.
    put(moto, f"{bucket}/{folder}/part-00000009.arrow", b"half of a file")
    with pytest.raises(E.UnavailableError, match="is being saved"):
        fb.load(f"s3://{bucket}/{folder}")
    partial = [int(row["id"]) for row in fb.load(f"s3://{bucket}/{folder}", partial=True)]
    assert 0 < len(partial) < 5000
    assert partial == list(range(len(partial)))
    assert ds.save(f"s3://{bucket}/{folder}", file_bytes=4_000).rows == 5000
    assert [int(row["id"]) for row in fb.load(f"s3://{bucket}/{folder}")] == list(range(5000))


def test_of_two_writers_one_is_told_and_nothing_is_mixed(moto, bucket, use, tmp_path):
    """The first is held at its third request until a second one has saved everything."""
    use(moto)
    folder = f"s3://{bucket}/two-{uuid.uuid4()}"
    ds = fb.range(4000).shuffle()

    def second(client, answer):
        use(moto)
        ds.save(folder, seed=1, file_bytes=8_000)
        client.sendall(answer.head() + answer.body)

    with FaultProxy(moto, second, every=8) as proxy:
        use(proxy.url)
        with pytest.raises(E.ConflictError, match="another process saves here") as caught:
            ds.save(folder, seed=1, file_bytes=8_000)
        assert caught.value.context["folder"] == folder
        assert proxy.faults == 1
    ds.save(tmp_path / "here", seed=1, file_bytes=8_000)
    assert parts(objects(moto, bucket, folder.removeprefix(f"s3://{bucket}/"))) == here(tmp_path / "here")


@pytest.fixture
def _interruptible() -> Iterator[None]:
    """A shell that starts the tests in the background ignores SIGINT for them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interruptible")
def test_ctrl_c_ends_a_save_that_waits_for_a_store(moto, bucket, use):
    def interrupted(client, answer):
        os.kill(os.getpid(), signal.SIGINT)
        hang(client, answer)

    with FaultProxy(moto, interrupted, every=3) as proxy:
        use(proxy.url)
        with pytest.raises(KeyboardInterrupt):
            fb.range(10).save(f"s3://{bucket}/interrupted")
        assert proxy.requests == 3


@contextmanager
def refuses(status: int, code: str) -> Iterator[str]:
    """The address of a store that has nothing, and accepts nothing."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            none = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
            self._say(*((200, none) if "list-type" in self.path else (404, b"<Error><Code>NoSuchKey</Code></Error>")))

        def do_PUT(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self._say(status, f"<Error><Code>{code}</Code><Message>No.</Message></Error>".encode())

        def _say(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_what_a_store_refuses_is_said_and_names_the_file(moto, bucket, use):
    use(moto)
    ds = fb.range(10)
    with pytest.raises(E.NotFoundError, match='there is no bucket "nowhere"'):
        ds.save("s3://nowhere/a")
    with pytest.raises(E.NotFoundError, match="nothing is saved here"):
        fb.load(f"s3://{bucket}/never")
    refused = {
        (403, "AccessDenied"): (E.PermissionDeniedError, "not allowed to write"),
        (507, "XMinioStorageFull"): (E.ExhaustedError, "no room"),
    }
    for (status, code), (kind, message) in refused.items():
        with refuses(status, code) as url:
            use(url)
            with pytest.raises(kind, match=message) as caught:
                ds.save(f"s3://{bucket}/refused")
        assert caught.value.context["file"].startswith(f"s3://{bucket}/refused/")
    use("http://127.0.0.1:1")
    with pytest.raises(E.UnavailableError, match="refused"):
        ds.save(f"s3://{bucket}/refused")
    use(moto)
    put(moto, f"{bucket}/mine/thesis.txt", b"all of it")
    with pytest.raises(E.ConflictError, match="not empty") as caught:
        ds.save(f"s3://{bucket}/mine")
    assert caught.value.context["for example"] == "thesis.txt"
    for wrong in (f"s3://{bucket}/a*", f"s3://{bucket}/a?b", "http://127.0.0.1:1/a", "ftp://x/a", "s3:/bucket/a"):
        with pytest.raises(E.InvalidPipelineError):
            ds.save(wrong)
    assert ds.save(f"s3://{bucket}/other").rows == 10
    with pytest.raises(E.ConflictError, match="this folder holds 1 epochs of dataset"):
        ds.save(f"s3://{bucket}/other", seed=1)
    with pytest.raises(E.ConflictError, match="files \\(parquet"):
        ds.save(f"s3://{bucket}/other", format="parquet")
    assert fb.range(3).save(f"s3://{bucket}/other", overwrite=True).rows == 3
    assert [int(row["id"]) for row in fb.load(f"s3://{bucket}/other")] == [0, 1, 2]
