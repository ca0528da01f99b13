"""Bytes of remote files are fetched once for a machine, and the rows are those of the files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from buckets import delete, put
from command_line.test_cli import forebay
from faulty import FAULTS, Answer, FaultProxy, none
from keeping import said
from pipelines import name
from source_streams import HARM, SOURCES, digest, pages

E = fb.errors
#: A page of a remote file.
PAGE = 1 << 20


def files() -> dict[str, bytes]:
    """The contents of the bucket: small files, and some of several pages."""
    rng = np.random.default_rng(11)
    small = {f"small/{i:03}.bin": rng.bytes(1000 + 997 * i) for i in range(60)}
    large = {f"large/{i}.bin": rng.bytes(2 * PAGE + 12_345 * i) for i in range(3)}
    lines = "".join(f'{{"n": {n}, "text": "{"é" * (n % 60)}"}}\n' for n in range(30_000))
    return {**small, **large, "lines/a.jsonl": lines.encode()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, shards, parquet) -> Path:
    """The files, here."""
    root = tmp_path_factory.mktemp("files")
    for key, body in files().items():
        (root / key).parent.mkdir(exist_ok=True)
        (root / key).write_bytes(body)
    (root / "shards").symlink_to(shards)
    (root / "parquet").symlink_to(parquet)
    return root


@pytest.fixture(scope="module")
def bucket(moto, folder) -> str:
    """The same files in a bucket."""
    put(moto, "far")
    for path in folder.glob("*/*"):
        put(moto, f"far/{path.relative_to(folder)}", path.read_bytes())
    return "s3://far"


@pytest.fixture
def proxy(moto, bucket, monkeypatch):
    """Counts the bytes from the store."""
    with FaultProxy(moto, none, every=1 << 60) as proxy:
        for variable, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": proxy.url}.items():
            monkeypatch.setenv(variable, value)
        yield proxy


CREDENTIALS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}


def size(folder: Path, pattern: str) -> int:
    return sum(path.stat().st_size for path in folder.glob(pattern))


def reading(source: str, at: str, **options: object) -> str:
    """Returns the digest of a stream."""
    return digest(SOURCES[source][0](at).batch(16).iter(**{"seed": 3, "epochs": 2, **options}))


def alone(source: str, at: str, **variables: object) -> tuple[str, dict]:
    """Returns the digest of a stream that a separate process reads, and its figures."""
    with start(source, at, **variables) as process:
        return finish(process)


def start(source: str, at: str, before: str = "", epochs: int = 2, **variables: object) -> subprocess.Popen:
    script = f"""
        import json, sys
        sys.path.insert(0, {str(Path(__file__).parents[1])!r})
        from source_streams import SOURCES, digest
        it = SOURCES[{source!r}][0]({at!r}).batch(16).iter(seed=3, epochs={epochs})
        {before}
        said = digest(it)
        print(said, json.dumps(it.stats().get("source", {{}})))
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    environment = {**os.environ, **{key: str(value) for key, value in variables.items()}}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen) -> tuple[str, dict]:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    said, stats = out.splitlines()[-1].split(" ", 1)
    return said, json.loads(stats)


# Once.


@pytest.mark.parametrize("source", SOURCES)
def test_every_byte_is_fetched_once_for_all_epochs_and_processes(source, proxy, bucket, folder, tmp_path):
    want, kept = reading(source, str(folder)), tmp_path / "kept"
    said, stats = alone(source, bucket, FOREBAY_CACHE=kept)
    assert said == want
    # The columns, the index and the rows are read from the same fetched bytes.
    assert stats["fetched"] == size(folder, SOURCES[source][1])
    assert stats["bytes"] == stats["fetched"] == proxy.bytes
    assert (stats["pages_corrupt"], stats["pages_not_kept"]) == (0, 0)
    said, stats = alone(source, bucket, FOREBAY_CACHE=kept)
    assert (said, stats["fetched"]) == (want, 0)
    assert stats["from_disk"] >= stats["bytes"]


def test_it_can_be_turned_off(proxy, bucket, folder, tmp_path):
    kept = tmp_path / "kept"
    assert alone("files", bucket, FOREBAY_CACHE=kept, FOREBAY_CACHE_SOURCE="off") == (reading("files", str(folder)), {})
    assert proxy.bytes == 2 * size(folder, "*/*.bin"), "each epoch"
    assert pages(kept) == []


def test_processes_that_read_at_once_fetch_each_byte_once(proxy, bucket, folder, tmp_path):
    want = reading("files", str(folder))
    processes = [start("files", bucket, FOREBAY_CACHE=tmp_path / "kept") for _ in range(3)]
    for process in processes:
        with process:
            assert finish(process)[0] == want
    assert proxy.bytes == size(folder, "*/*.bin")


def test_workers_of_a_service_share_what_is_fetched_and_one_that_dies_takes_nothing_with_it(
    proxy, bucket, folder, tmp_path
):
    want = reading("files", str(folder))
    ds = SOURCES["files"][0](bucket).batch(16)
    with fb.up(workers=4, threads=1, cache=tmp_path / "kept") as service:
        assert digest(ds.distribute(service, job=name(), seed=3, epochs=2)) == want
    assert proxy.bytes == size(folder, "*/*.bin")
    with fb.up(workers=2, threads=1, cache=tmp_path / "kept") as service:
        assert digest(ds.distribute(service, job=name(), seed=3, epochs=2)) == want
    assert proxy.bytes == size(folder, "*/*.bin"), "nor by the next service"
    with fb.up(workers=2, threads=1, cache=tmp_path / "dies") as service:
        got = []
        for i, batch in enumerate(ds.distribute(service, job=name(), seed=3, epochs=2)):
            got.append(batch)
            if i == 1:
                service.kill_worker(0)
                service.add_worker()
        assert digest(got) == want
    done = forebay("cache", "verify", tmp_path / "dies", "--json")
    assert (done.returncode, json.loads(done.stdout)["bad"]) == (0, [])
    before = proxy.bytes
    with fb.up(workers=1, cache=tmp_path / "kept", cache_source=False) as service:
        assert digest(ds.distribute(service, job=name(), seed=3, epochs=2)) == want
    assert proxy.bytes == before + 2 * size(folder, "*/*.bin"), "each epoch"
    with pytest.raises(E.InvalidPipelineError, match="cache_source"):
        fb.up(workers=0, cache_source="off")


# Failures.


@pytest.mark.parametrize("fault", ["503 with retry-after", "500", "reset_in_the_body", "cut"])
def test_faults_of_the_network_do_not_show(fault, moto, bucket, folder, monkeypatch, tmp_path):
    with FaultProxy(moto, FAULTS[fault], every=3) as proxy:
        said, stats = alone("files", bucket, FOREBAY_CACHE=tmp_path / "kept", AWS_ENDPOINT_URL=proxy.url, **CREDENTIALS)
        assert said == reading("files", str(folder))
        assert stats["fetched"] == size(folder, "*/*.bin")
        assert proxy.faults >= 8


def test_a_file_that_changes_under_the_job_is_refused_and_is_another_afterwards(moto, bucket, monkeypatch):
    def write(what: bytes) -> None:
        for i in range(60):
            put(moto, f"far/changing/{i:02}.txt", b"%s %02d" % (what, i))

    def replaced(client, answer):
        write(b"new")
        client.sendall(answer.head() + answer.body)

    write(b"old")
    # The twentieth read of a file is the last one of the old content.
    with FaultProxy(moto, replaced, every=20, only=lambda _, answer: "content-range" in answer.headers) as proxy:
        for variable, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": proxy.url}.items():
            monkeypatch.setenv(variable, value)
        ds = fb.from_files(f"{bucket}/changing/*").drop("path").batch(4)
        with pytest.raises(E.DataError, match="changed since it was indexed") as caught:
            list(ds.iter(threads=1))
        assert caught.value.context["file"].startswith(f"{bucket}/changing/")
        again = [bytes(value) for batch in ds.iter() for column in batch.values() for value in column]
    assert again == [b"new %02d" % i for i in range(60)], "a new job has the new files, and nothing of the old"


def test_the_files_of_a_dataset_are_listed_once(moto, bucket, monkeypatch):
    lists = []

    def is_list(_: str, answer: Answer) -> bool:
        lists.extend([answer] * (b"<ListBucketResult" in answer.body))
        return False

    with FaultProxy(moto, none, every=1, only=is_list) as proxy:
        for variable, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": proxy.url}.items():
            monkeypatch.setenv(variable, value)
        made = fb.from_files(f"{bucket}/small/*")
        lists.clear()
        assert made.cardinality == 60
        ds = made.drop("path").shuffle().batch(8)
        streams = [digest(ds.iter(seed=3, epoch=epoch)) for epoch in range(3)]
        assert len(lists) == 1
        assert digest(ds.iter(seed=3, epochs=3)) == digest(b for e in range(3) for b in ds.iter(seed=3, epoch=e))
        assert (len(lists), len(set(streams))) == (1, 3)
        put(moto, "far/small/new.bin", b"new")
        try:
            assert len(list(made)) == 60, "it keeps its files"
            assert len(list(fb.from_files(f"{bucket}/small/*"))) == 61, "one that is made anew has them all"
        finally:
            delete(moto, "far/small/new.bin")


def test_a_dataset_whose_files_were_replaced_is_listed_anew_after_any_failure(moto, bucket, monkeypatch):
    def write(what: bytes) -> None:
        for i in range(3):
            put(moto, f"far/replaced/{i}.txt", b"%s %d" % (what, i))

    def length(row):
        return {"length": len(row["bytes"])}

    for variable, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": moto}.items():
        monkeypatch.setenv(variable, value)
    write(b"old")
    ds = fb.from_files(f"{bucket}/replaced/*").drop("path")
    changed = pytest.raises(E.DataError, match="changed since it was indexed")
    assert ds.cardinality == 3
    write(b"newer")
    # Its columns are found by a call of the function on its first rows.
    with changed:
        ds.map(length)
    lengths = ds.map(length)
    assert [int(row["length"]) for row in lengths.iter()] == [7, 7, 7]
    write(b"newest")
    with changed:
        lengths.optimize()
    assert [int(row["length"]) for row in lengths.optimize().iter()] == [8, 8, 8]


@pytest.mark.parametrize("harm", HARM)
def test_what_is_damaged_in_mid_epoch_is_fetched_again(harm, proxy, bucket, folder, tmp_path):
    kept = tmp_path / "kept"
    want, _ = alone("files", bucket, FOREBAY_CACHE=kept)
    assert want == reading("files", str(folder))
    assert pages(kept)
    before = f"""from source_streams import HARM, pages, Path
        def harmed(it):
            for i, batch in enumerate(it):
                if i == 1:
                    [HARM[{harm!r}](path) for path in pages(Path({str(kept)!r}))]
                yield batch
        own, digest = digest, lambda it: own(harmed(it))"""
    # Some batches are read before the damage.
    with start("files", bucket, before, epochs=12, FOREBAY_CACHE=kept) as process:
        said, stats = finish(process)
    assert said == reading("files", str(folder), epochs=12)
    assert 0 < stats["fetched"] <= size(folder, "*/*.bin")
    assert (stats["pages_corrupt"] > 0) == (harm != "gone")
    said, stats = alone("files", bucket, FOREBAY_CACHE=kept)
    assert (said, stats["fetched"], stats["pages_corrupt"]) == (want, 0, 0), "mended"


@pytest.mark.parametrize("settings", [{"FOREBAY_CACHE_DISK": "4MiB"}, {"FOREBAY_CACHE_DISK": "1000"}])
def test_a_small_quota_keeps_what_fits(settings, proxy, bucket, folder, tmp_path):
    kept = tmp_path / "kept"
    said, stats = alone("files", bucket, FOREBAY_CACHE=kept, **settings)
    assert said == reading("files", str(folder))
    assert sum(path.stat().st_size for path in pages(kept)) <= (4 << 20)
    assert stats["fetched"] <= 2 * size(folder, "*/*.bin"), "no more than is asked for"


def test_a_full_disk_is_said_and_fails_nothing(proxy, bucket, folder, tmp_path):
    """No file of this process may grow beyond 3 MiB."""
    limit = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    limit += "resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, 3 << 20))"
    with start("files", bucket, limit, FOREBAY_CACHE=tmp_path / "kept") as process:
        said, stats = finish(process)
    assert said == reading("files", str(folder))
    assert stats["pages_not_kept"] > 0
    assert stats["fetched"] <= 3 * size(folder, "*/*.bin")


# The command.


def test_files_are_brought_listed_verified_and_evicted(proxy, bucket, folder, tmp_path):
    kept, all_bytes = tmp_path / "kept", size(folder, "*/*.bin")
    urls = [f"{bucket}/small/*.bin", f"{bucket}/large/{{0..2}}.bin"]
    warmed = said("warm", *urls, "--cache", kept)
    assert warmed == {"files": 63, "bytes": all_bytes, "fetched": all_bytes, "found": 0, "pages_not_kept": 0}
    assert proxy.bytes == all_bytes
    again = said("warm", *urls, "--cache", kept)
    assert (again["fetched"], again["found"]) == (0, all_bytes)
    got, stats = alone("files", bucket, FOREBAY_CACHE=kept)
    assert (got, stats["fetched"]) == (reading("files", str(folder)), 0)

    [source] = said("ls", kept)
    assert (source["kind"], source["what"], source["in_use"]) == ("source", f"{bucket}/", False)
    count = 60 + 2 + 3 + 3
    assert (source["pages"], source["rows"]) == (count, 0)
    assert f"{bucket}/" in forebay("cache", "ls", kept).stdout
    assert said("stats", kept)["sources"] == 1
    assert said("verify", kept)["pages"] == count
    HARM["a bit"](pages(kept)[0])
    done = forebay("cache", "verify", kept, "--json")
    assert (done.returncode, json.loads(done.stdout)["bad"][0]["broken"]) == (5, True)
    assert said("evict", kept, "--prefix", source["prefix"][:9])["bytes"] == source["bytes"]
    assert (said("ls", kept), pages(kept)) == ([], [])

    off = forebay("cache", "warm", urls[0], "--cache", kept, "--cache-source", "off")
    assert (off.returncode, "keeps no bytes" in off.stderr) == (1, True)
    here = forebay("cache", "warm", urls[0], "/here/x", "--cache", kept)
    assert (here.returncode, "on this machine already" in here.stderr) == (1, True)
    small = forebay("cache", "warm", urls[1], "--cache", tmp_path / "small", "--cache-disk", "1MiB")
    assert (small.returncode, small.stdout.startswith("3 files")) == (0, True), small.stderr
