"""A shuffle over windows of files with uncounted rows: the same stream everywhere, from the first batch on."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import struct
import tarfile
import threading
import uuid
from collections.abc import Callable
from pathlib import Path

import crc32c
import forebay as fb
import numpy as np
import pytest
import zstandard
from buckets import credentials, put
from faulty import FaultProxy, none
from pipelines import fingerprint
from tar_shards import tar

E = fb.errors
FILES = (130, 0, 1, 257, 90, 90, 300)
ROWS = sum(FILES)


def frame(record: bytes) -> bytes:
    def masked(data: bytes) -> bytes:
        crc = crc32c.crc32c(data)
        return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)

    length = struct.pack("<Q", len(record))
    return length + masked(length) + record + masked(record)


WRITERS: dict[str, Callable[[range], bytes]] = {
    "tar": lambda ids: tar(ids, "d"),
    "tfrecord": lambda ids: b"".join(frame(str(i).encode() + b" " * (i * 37 % 300)) for i in ids),
    "text": lambda ids: "".join(f"{i} {'é' * (i * 37 % 150)}\n" for i in ids).encode(),
    "jsonl": lambda ids: "".join(json.dumps({"id": i, "x": "y" * (i * 37 % 300)}) + "\n" for i in ids).encode(),
}
READERS: dict[str, Callable[[str], fb.Dataset]] = {
    "tar": fb.from_tar,
    "tfrecord": fb.from_tfrecord,
    "text": fb.from_text,
    "jsonl": fb.from_jsonl,
}
KINDS = sorted(WRITERS)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of uneven lengths, one of them empty."""
    root = tmp_path_factory.mktemp("streamed")
    for kind in KINDS:
        (root / kind).mkdir()
        start = 0
        for number, rows in enumerate(FILES):
            ids = range(start, start + rows)
            (root / kind / f"{number}").write_bytes(WRITERS[kind](ids))
            start += rows
    return root


def ids(batches) -> list[int]:
    def of(row) -> int:
        for name in ("id", "text", "record"):
            if name in row:
                return int(row[name].split()[0] if isinstance(row[name], (str, bytes)) else row[name])
        raise AssertionError(row)

    return [of(row) for batch in batches for row in rows_of(batch)]


def rows_of(batch) -> list[dict]:
    columns = [c for c in batch.values() if isinstance(c, np.ndarray) and c.ndim > 0]
    return [{k: v[i] for k, v in batch.items()} for i in range(len(columns[0]))] if columns else [batch]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("window", ["1B", "20KiB", "1GiB"])
def test_each_row_comes_once_in_another_order_each_epoch(files, kind, window):
    plain = {i: fingerprint(row) for i, row in zip(range(ROWS), READERS[kind](f"{files}/{kind}/*").iter(), strict=True)}
    ds = READERS[kind](f"{files}/{kind}/*").shuffle(window=window)
    assert "rows are not counted" in ds.explain()
    epochs = [list(ds.iter(seed=2, epoch=epoch)) for epoch in range(2)]
    orders = [ids(epoch) for epoch in epochs]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(ROWS))
    assert orders[0] != orders[1]
    assert all(fingerprint(row) == plain[i] for i, row in zip(orders[0], epochs[0], strict=True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ending", [".gz", ".zst", ""])
def test_compressed_files_have_every_row_too(tmp_path, kind, ending):
    """Also rows past the length of the stored file, and rows of files whose names do not show the compression."""
    start = 0
    for number, rows in enumerate(FILES):
        data = WRITERS[kind](range(start, start + rows))
        packed = data if number == 4 else zstandard.compress(data) if ending == ".zst" else gzip.compress(data)
        (tmp_path / f"{number}{ending}").write_bytes(packed)
        start += rows
    ds = READERS[kind](f"{tmp_path}/*{ending}").shuffle(window="2KiB").batch(10)
    want = [fingerprint(b) for b in ds.iter(seed=3)]
    assert sorted(ids(ds.iter(seed=3))) == list(range(ROWS))
    it = ds.iter(seed=3)
    for _ in range(len(want) // 2):
        next(it)
    again = ds.iter(seed=3, threads=1)
    again.load_state_dict(it.state_dict())
    assert [fingerprint(b) for b in again] == want[len(want) // 2 :]


def test_a_line_of_a_compressed_file_may_begin_where_a_window_does(tmp_path):
    """Lines of four bytes begin at each place where a reader can start."""
    rng = np.random.default_rng(5)
    for number in range(5):
        lines = "".join(f"{line:03x}\n" for line in rng.permutation(4096)[:2000])
        (tmp_path / f"{number}.gz").write_bytes(gzip.compress(lines.encode()))
    ds = fb.from_text(f"{tmp_path}/*.gz").shuffle(window="2KiB").batch(250)
    it, want, states = ds.iter(seed=3), [], []
    for batch in it:
        want.append(fingerprint(batch))
        states.append(it.state_dict())
    assert len(want) == 40
    for at, state in enumerate(states):
        again = ds.iter(seed=3, threads=1)
        again.load_state_dict(state)
        assert [fingerprint(batch) for batch in itertools.islice(again, 2)] == want[at + 1 : at + 3]
        again.close()


def pipeline(files: Path, kind: str, seed: int) -> fb.Dataset:
    rng = np.random.default_rng(seed)
    ds = READERS[kind](f"{files}/{kind}/*").shuffle(window=f"{int(rng.integers(1, 60))}KiB")
    if seed % 2:
        ds = ds.repeat(2)
    if seed % 3 == 1:
        ds = ds.filter(lambda row: len(str(row)) % 5 != 0)
    if seed % 3 == 2:
        ds = ds.skip(int(rng.integers(0, 200))).take(int(rng.integers(300, 600)))
    return ds.batch(int(rng.integers(1, 70)), drop_remainder=bool(seed % 4 == 3))


@pytest.mark.parametrize("seed", range(8))
def test_threads_resume_kills_and_a_service_change_nothing(files, seed, service):
    rng = np.random.default_rng(seed)
    ds = pipeline(files, KINDS[seed % 4], seed)
    options = {"seed": seed, "epochs": 2}
    want = [fingerprint(b) for b in ds.iter(**options, threads=1)]
    assert [fingerprint(b) for b in ds.iter(**options, threads=3)] == want
    for at in rng.integers(0, len(want), 3):
        it = ds.iter(**options)
        for _ in range(at):
            next(it)
        state = json.loads(json.dumps(it.state_dict()))
        assert len(json.dumps(state)) < 1000
        again = ds.iter(**options)
        again.load_state_dict(state)
        assert [fingerprint(b) for b in again] == want[at:]
        it.close()
    there = ds.distribute(service, job=f"job-{uuid.uuid4().hex[:8]}", **options).iter()
    there.load_state_dict(state)
    got = []
    for batch in there:
        got.append(fingerprint(batch))
        if len(got) == 3 and seed % 2:
            service.kill_worker(0)
            service.add_worker()
    assert got == want[at:]


@pytest.mark.parametrize("shuffled", [True, False])
@pytest.mark.parametrize("ordered", [True, False])
def test_a_resumed_run_computes_no_chunk_that_was_delivered(tmp_path, shuffled, ordered):
    """Functions run on chunks of 64 rows, so up to 63 delivered rows are computed again."""
    path, computed = tmp_path / "lines.txt", []
    path.write_text("".join(f"{i}\n" for i in range(2000)))

    def note(row):
        computed.append(int(row["text"]))
        return row

    source = fb.from_text(path).shuffle(window="1MiB") if shuffled else fb.from_text(path)
    ds = source.map(note).batch(50)
    it = ds.iter(seed=1, threads=1, ordered=ordered)
    delivered = ids(next(it) for _ in range(25))
    state = it.state_dict()
    it.close()
    again = ds.iter(seed=1, threads=1, ordered=ordered)
    again.load_state_dict(state)
    computed.clear()
    rest = ids(again)
    assert sorted(delivered + rest) == list(range(2000))
    assert len(set(computed) - set(rest)) < 64


@pytest.mark.filterwarnings("ignore::forebay.RanksWarning")
def test_consumers_have_different_rows_and_all_of_them(files):
    ds = fb.from_tar(f"{files}/tar/*").shuffle(window="30KiB").batch(16)
    shares = [ids(ds.iter(seed=1, consumers=(i, 3))) for i in range(3)]
    assert sorted(itertools.chain(*shares)) == list(range(ROWS))
    assert min(len(share) for share in shares) > ROWS // 6


def test_ranks_of_a_service_end_together(files, service):
    ds = fb.from_jsonl(f"{files}/jsonl/*").shuffle(window="10KiB").batch(8)
    counts: dict[int, list[int]] = {}
    options = {"job": f"job-{uuid.uuid4().hex[:8]}", "seed": 1, "epochs": 1, "rank_timeout": 60}

    def read(rank: int) -> None:
        counts[rank] = [len(b["id"]) for b in ds.distribute(service, consumers=(rank, 2), **options).iter()]

    ranks = [threading.Thread(target=read, args=(rank,)) for rank in range(2)]
    [rank.start() for rank in ranks]
    [rank.join(120) for rank in ranks]
    assert len(counts[0]) == len(counts[1]) > 30


def test_a_store_is_shuffled_so_by_itself_and_the_first_batch_needs_no_pass_over_it(files, moto, monkeypatch):
    big = [WRITERS["tar"](range(i * 1000, i * 1000 + 1000)) for i in range(8)]
    put(moto, "streamed")
    for number, data in enumerate(big):
        put(moto, f"streamed/{number}.tar", data)
    for key, value in credentials(moto).items():
        monkeypatch.setenv(key, value)
    monkeypatch.setenv("FOREBAY_CACHE_SOURCE", "off")
    with FaultProxy(moto, none) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        ds = fb.from_tar("s3://streamed/*.tar")
        by_itself, said = ds.shuffle().batch(50), ds.shuffle(window="16MiB").batch(50)
        want = [fingerprint(b) for b in said.iter(seed=5)]
        before = proxy.bytes
        assert [fingerprint(b) for b in by_itself.iter(seed=5)] == want
        size = sum(map(len, big))
        assert size <= proxy.bytes - before < size * 1.1
        assert "rows are not counted" not in ds.shuffle(window=None).explain()
    assert "rows are not counted" not in fb.from_tar(f"{files}/tar/*").shuffle().explain(), "a local file has an index"


@pytest.mark.parametrize("kind", ["tar", "tfrecord"])
def test_ranks_of_a_process_share_the_reading(kind, moto, monkeypatch):
    shards = [WRITERS[kind](range(i * 1500, i * 1500 + 1500)) for i in range(8)]
    put(moto, f"ranks-{kind}")
    for number, data in enumerate(shards):
        put(moto, f"ranks-{kind}/{number}", data)
    for key, value in credentials(moto).items():
        monkeypatch.setenv(key, value)
    monkeypatch.setenv("FOREBAY_CACHE_SOURCE", "off")
    with FaultProxy(moto, none) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        ds = READERS[kind](f"s3://ranks-{kind}/*").shuffle(window="4MiB").batch(50)
        seen: list[bytes] = []
        before, size = proxy.bytes, sum(map(len, shards))
        for rank in range(3):
            for batch in ds.iter(seed=5, consumers=(rank, 3), even=False):
                seen += [bytes(value) for value in batch["id" if kind == "tar" else "record"]]
        assert len(seen) == 8 * 1500
        assert kind != "tar" or sorted(map(int, seen)) == list(range(8 * 1500))
        assert proxy.bytes - before < 2 * size, "each rank reads its windows, and little beside them"


@pytest.mark.parametrize("kind", ["tar", "tfrecord", "jsonl"])
def test_a_file_that_is_cut_off_is_an_error_of_that_file(files, tmp_path, kind):
    for path in (files / kind).iterdir():
        data = path.read_bytes()
        (tmp_path / path.name).write_bytes(data[: len(data) // 2 - 3] if path.name == "3" else data)
    ds = READERS[kind](f"{tmp_path}/*").shuffle(window="10KiB")
    seen: dict[int, list[str]] = {1: [], 4: []}
    for threads, rows in seen.items():
        with pytest.raises(E.DataError) as caught:
            rows.extend(fingerprint(row) for row in ds.iter(seed=1, threads=threads))
        assert caught.value.context["file"] == f"{tmp_path}/3"
        assert "offset" in caught.value.context
    assert seen[1] == seen[4], "the same rows come before the error"


def test_damaged_rows_are_left_out_and_named_by_their_place(tmp_path):
    lines = [json.dumps({"id": i}) if i % 50 else "{no json" for i in range(1, 400)]
    (tmp_path / "lines").write_text("\n".join(lines))
    ds = fb.from_jsonl(f"{tmp_path}/lines", schema={"id": "int64"}).shuffle(window="1KiB")
    with pytest.raises(E.DataError, match="json") as caught:
        list(ds.iter(seed=1))
    offset = int(caught.value.context["offset"])
    assert (tmp_path / "lines").read_text()[offset:].startswith("{no json")
    assert "at byte" in caught.value.context["sample"]
    it = ds.iter(seed=1, on_error="skip", error_budget=20)
    assert sorted(ids(it)) == [i for i in range(1, 400) if i % 50]


def test_a_row_larger_than_a_window_and_a_file_larger_than_all_others(tmp_path):
    (tmp_path / "0").write_bytes(tar(range(3), "d"))
    with tarfile.open(tmp_path / "1", "w") as archive:
        for i in range(3, 6):
            for suffix, data in (("id", str(i).encode()), ("bin", bytes(1 << 20))):
                info = tarfile.TarInfo(f"{i}.{suffix}")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    ds = fb.from_tar(f"{tmp_path}/*").shuffle(window="4KiB")
    assert sorted(ids(ds.iter(seed=1))) == list(range(6))


def test_what_needs_the_place_of_a_row_is_counted_first(files):
    ds = fb.from_tar(f"{files}/tar/*")
    for counted in (
        ds.take(200).shuffle(window="20KiB"),
        ds.shuffle(window="20KiB").cache(),
        ds.shuffle(window="20KiB").take(9).repeat(2),
        ds.shuffle(window=200),
    ):
        assert "rows are not counted" not in counted.explain()
    assert sorted(ids(ds.take(200).shuffle(window="20KiB").iter(seed=1))) == list(range(200))
