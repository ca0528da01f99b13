"""The rows of cache() in a store that machines share: others find them, and the stream is the same after any fault."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import forebay as fb
import pyarrow as pa
import pytest
from buckets import credentials, put, s3_server
from command_line.test_cli import forebay
from faulty import FAULTS, FaultProxy, _status
from keeping import DEAR_ROWS, blocks, calls, dear, epochs, plain, run, said, stream
from pipelines import fingerprint, name

#: Memory has no room, so rows are found in the store.
NO_MEMORY = {"FOREBAY_CACHE_MEMORY": "0"}


@pytest.fixture(scope="module")
def want(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], str]:
    """Returns the expected digest of this number of epochs."""
    made: dict[int, str] = {}

    def want(count: int = 1) -> str:
        if count not in made:
            made[count] = plain(tmp_path_factory.mktemp("plain") / "log", count, "dear")
        return made[count]

    return want


@pytest.fixture
def bucket(moto, monkeypatch) -> str:
    """The url of a folder in a bucket of its own."""
    for variable, value in credentials(moto).items():
        monkeypatch.setenv(variable, value)
    bucket = f"kept-{uuid.uuid4()}"
    put(moto, bucket)
    return f"s3://{bucket}/forebay"


@pytest.fixture(params=["s3", "file"])
def store(request, tmp_path) -> str:
    """The url of a store: of an S3 server, of a file system."""
    return request.getfixturevalue("bucket") if request.param == "s3" else f"file://{tmp_path / 'share'}"


def test_another_process_and_another_service_compute_nothing_of_what_the_first_stored(store, want, tmp_path):
    log = tmp_path / "log"
    assert epochs(log, 2, "dear", FOREBAY_CACHE=store) == want(2)
    assert set(calls(log)) == {*range(DEAR_ROWS)}
    log.unlink()
    assert epochs(log, 2, "dear", FOREBAY_CACHE=store, **NO_MEMORY) == want(2)
    assert not log.exists(), "another process"
    expected = stream(dear(tmp_path / "here").iter(seed=1, epochs=2))
    for _ in range(2):
        with fb.up(workers=2, threads=1, cache=store, cache_memory="0", cache_store="1GiB") as service:
            assert stream(dear(log).distribute(service, job=name(), seed=1, epochs=2)) == expected
    assert not log.exists(), "other services"


def test_any_arrow_library_reads_a_block(want, tmp_path):
    url = f"file://{tmp_path / 'share'}"
    epochs(tmp_path / "log", 1, "dear", FOREBAY_CACHE=url)
    [block, *_] = blocks(tmp_path / "share")
    table = pa.ipc.open_file(block).read_all()
    assert {"id", "x"} <= set(table.column_names)
    assert block.parts[-3] == "1", "the format names the folder"


def test_what_a_machine_reads_often_comes_to_its_disk(bucket, want, tmp_path):
    log, disk = tmp_path / "log", tmp_path / "disk"
    epochs(log, 1, "dear", FOREBAY_CACHE=bucket)
    log.unlink()
    both = f"{disk},{bucket}"
    assert epochs(log, 3, "dear", FOREBAY_CACHE=both, **NO_MEMORY) == want(3)
    assert not log.exists()
    assert list(disk.rglob("*.arrow"))
    with s3_server() as server:
        unreached = {"AWS_ENDPOINT_URL": server.url.replace("127.0.0.1", "127.0.0.2")}
    assert epochs(log, 1, "dear", FOREBAY_CACHE=both, **NO_MEMORY, **unreached) == want(1)
    assert not log.exists(), "without the store"


def spoiling(log: Path, url: str, spoil: str, count: int = 2, **variables: str) -> str:
    """Returns the digest of a stream during which the blocks are changed."""
    script = f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parents[1])!r})
        from pathlib import Path
        from keeping import blocks, dear, digest

        def spoiling(batches):
            for i, batch in enumerate(batches):
                if i == 9:
                    for block in blocks(Path({url.removeprefix("file://")!r})):
                        {spoil}
                yield batch

        it = dear(Path({str(log)!r})).iter(seed=1, epochs={count})
        print(digest(spoiling(it)), it.stats()["cache"]["rows"]["unreadable"])
    """
    return run(script, FOREBAY_CACHE=url, **NO_MEMORY, **variables)


SPOILS = {
    "flipped": "data = bytearray(block.read_bytes()); "
    "data[len(data) // 5 : -8000 : 64] = bytes(b ^ 16 for b in data[len(data) // 5 : -8000 : 64]); "
    "block.write_bytes(data)",
    "truncated": "open(block, 'r+b').truncate(block.stat().st_size // 3)",
    "deleted": "block.unlink()",
}


@pytest.mark.parametrize("how", SPOILS)
def test_blocks_that_are_spoiled_in_mid_epoch_cost_time_and_no_truth(how, want, tmp_path):
    url, log = f"file://{tmp_path / 'share'}", tmp_path / "log"
    epochs(log, 1, "dear", FOREBAY_CACHE=url)
    log.unlink()
    said, unreadable = spoiling(log, url, SPOILS[how]).split()[-2:]
    assert said == want(2)
    assert int(unreadable) > 0
    assert calls(log), "what was lost is computed again"
    log.unlink()
    assert epochs(log, 1, "dear", FOREBAY_CACHE=url, **NO_MEMORY) == want(1)
    assert len(calls(log)) < DEAR_ROWS / 2, "and was stored again"


@pytest.mark.parametrize("fault", ["503 with retry-after", "reset_in_the_body", "too_long"])
def test_faults_of_the_network_fail_no_job(fault, moto, bucket, want, tmp_path):
    log = tmp_path / "log"
    epochs(log, 1, "dear", FOREBAY_CACHE=bucket)
    with FaultProxy(moto, FAULTS[fault], every=3) as proxy:
        assert epochs(log, 2, "dear", FOREBAY_CACHE=bucket, AWS_ENDPOINT_URL=proxy.url, **NO_MEMORY) == want(2)
        assert proxy.faults >= 2


def said_of(log: Path, url: str, **variables: str) -> tuple[str, dict]:
    """Returns the digest of a stream, and the figures of the store."""
    script = f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parents[1])!r})
        from pathlib import Path
        import forebay._native
        import json
        from keeping import dear, digest
        it = dear(Path({str(log)!r})).iter(seed=1, epochs=2)
        print(digest(it))
        forebay._native.flush_cache()
        print(json.dumps(it.stats()["cache"]["rows"]["store"]))
    """
    got, store = run(script, FOREBAY_CACHE=url, **NO_MEMORY, **variables).splitlines()[-2:]
    return got, json.loads(store)


@pytest.mark.parametrize(("status", "which"), [(503, None), (403, None), (403, "PUT"), (507, "PUT")])
def test_a_store_that_refuses_is_left_alone(status, which, moto, bucket, want, tmp_path):
    log = tmp_path / "log"
    refused = _status(status)
    with FaultProxy(moto, refused, every=1, only=lambda method, _: which in (None, method)) as proxy:
        got, store = said_of(log, bucket, AWS_ENDPOINT_URL=proxy.url)
        assert got == want(2)
        assert 1 <= proxy.faults < 60, "it is not asked again and again"
    assert set(calls(log)) == {*range(DEAR_ROWS)}
    if status == 403:
        assert "not allowed to write to this store" in store["not_written"]
        assert which is None or store["not_read"] is None, "who may not write reads"


def test_a_server_that_is_killed_in_mid_epoch_is_done_without(want, tmp_path, monkeypatch):
    log = tmp_path / "log"
    with s3_server() as server:
        for variable, value in credentials(server.url).items():
            monkeypatch.setenv(variable, value)
        put(server.url, "kept")
        epochs(log, 1, "dear", FOREBAY_CACHE="s3://kept/forebay")
        expected = stream(dear(tmp_path / "here").iter(seed=1, epochs=2))
        log.unlink()
        with fb.up(workers=2, threads=1, cache="s3://kept/forebay", cache_memory="0") as service:
            got = []
            for i, batch in enumerate(dear(log).distribute(service, job=name(), seed=1, epochs=2)):
                got.append(fingerprint(batch))
                if i == 9:
                    assert not log.exists(), "so far all was found"
                    server.process.kill()
            assert got == expected
    assert calls(log)


def test_two_that_write_at_once_find_each_other_s(store, want, tmp_path):
    log = tmp_path / "log"
    environment = {**os.environ, "FOREBAY_CACHE": store}
    script = f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parents[1])!r})
        from pathlib import Path
        from keeping import dear, digest
        print(digest(dear(Path({str(log)!r})).iter(seed=1)))
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    both = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate(timeout=120)[0].split()[-1] for process in both] == [want(1)] * 2
    log.unlink()
    assert epochs(log, 1, "dear", FOREBAY_CACHE=store, **NO_MEMORY) == want(1)
    assert not log.exists()


def test_workers_that_are_killed_while_they_store(store, tmp_path):
    log = tmp_path / "log"
    ds = dear(log)
    expected = stream(ds.iter(seed=1, epochs=2))
    with fb.up(workers=3, threads=1, cache=store, cache_memory="64KiB", cache_store="1GiB") as three:
        got = []
        for i, batch in enumerate(ds.distribute(three, job=name(), seed=1, epochs=2)):
            got.append(fingerprint(batch))
            if i in (6, 14):
                three.kill_worker(0)
        assert got == expected
    found = json.loads(forebay("cache", "verify", store, "--json").stdout)
    assert found["bad"] == [], "no block is there by half"
    with fb.up(workers=1, cache=store, cache_memory="0") as one:
        assert stream(ds.distribute(one, job=name(), seed=1, epochs=2)) == expected


@pytest.fixture
def kept(store, tmp_path) -> Iterator[str]:
    """A store with the samples of one pipeline."""
    epochs(tmp_path / "log", 1, "dear", FOREBAY_CACHE=store)
    return store


def test_the_command_lists_verifies_and_evicts_what_is_in_a_store(kept):
    [prefix] = said("ls", kept)
    assert (prefix["rows"], prefix["in_use"]) == (DEAR_ROWS, True), "an hour is not over"
    assert prefix["what"].startswith("map(")
    assert said("stats", kept)["rows"] == DEAR_ROWS
    assert (said("verify", kept)["rows"], said("verify", kept)["bad"]) == (DEAR_ROWS, [])
    both = forebay("cache", "ls", FOREBAY_CACHE=f"/somewhere,{kept}")
    assert (both.returncode, "name the one to look at" in both.stderr) == (1, True)
    assert said("evict", kept, "--prefix", prefix["prefix"][:8])["bytes"] == prefix["bytes"]
    assert said("ls", kept) == []
    assert said("evict", kept, "--all") == {"prefixes": [], "bytes": 0}


def test_what_a_script_keeps_is_stored_before_it_runs(store, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        f"import sys\nsys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
        f"from pathlib import Path\nfrom keeping import dear\nds = dear(Path({str(tmp_path / 'log')!r}))\n"
    )
    [warmed] = said("warm", script, "--cache", store, "--cache-memory", "1MiB")
    assert (warmed["computed"], warmed["on_disk"], warmed["in_store"]) == (DEAR_ROWS, 0, DEAR_ROWS)
    [again] = said("warm", script, "--cache", tmp_path / "disk", "--cache", store)
    assert (again["computed"], again["in_store"]) == (0, DEAR_ROWS)


def test_a_url_that_is_none_is_said_and_two_of_a_kind_are_refused(tmp_path):
    script = """
        import warnings
        import forebay as fb
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            print(len(list(fb.range(5).cache())), told[0].message)
    """
    said = run(script, FOREBAY_CACHE="ftp://far/away")
    assert said.startswith("5 not an address")
    with pytest.raises(fb.errors.InvalidPipelineError, match="one store, not in s3://a and gs://b"):
        fb.up(workers=1, cache=["s3://a", "gs://b"])
    two = forebay("worker", "--dispatcher", "127.0.0.1:1", "--cache", tmp_path / "a", "--cache", tmp_path / "b")
    assert "one folder" in two.stderr
