"""Compressed files yield the rows of the uncompressed ones, written by the libraries that people use."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import struct
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import crc32c
import forebay as fb
import numpy as np
import pytest
import zstandard

E = fb.errors
Pack = Callable[[bytes], bytes]


def bgzf(data: bytes) -> bytes:
    """Compresses as bgzip: members of at most 64 KiB, each with its length, and an empty one."""
    members = []
    for start in (*range(0, len(data), 60_000), len(data)):
        part = data[start : start + 60_000]
        deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
        body = deflate.compress(part) + deflate.flush()
        head = struct.pack("<4BIBBHBBHH", 31, 139, 8, 4, 0, 0, 255, 6, 66, 67, 2, len(body) + 25)
        members.append(head + body + struct.pack("<II", zlib.crc32(part), len(part)))
    return b"".join(members)


def parts(pack: Pack) -> Pack:
    """Several members, frames or streams, one after the other."""
    return lambda data: b"".join(pack(data[at : at + 50_000]) for at in range(0, len(data), 50_000))


def stream(data: bytes) -> bytes:
    """Makes a frame of zstd without its length, of several blocks."""
    out = io.BytesIO()
    with zstandard.ZstdCompressor(level=1).stream_writer(out, closefd=False) as writer:
        for at in range(0, len(data), 9_000):
            writer.write(data[at : at + 9_000])
    return out.getvalue()


PACKS: dict[str, Pack] = {
    "gzip": gzip.compress,
    "gzip members": parts(gzip.compress),
    "bgzf": bgzf,
    "zstd": zstandard.ZstdCompressor(write_checksum=True).compress,
    "zstd stream": stream,
    "zstd frames": parts(zstandard.compress),
    "bzip2": bz2.compress,
    "bzip2 streams": parts(bz2.compress),
    "xz": lzma.compress,
    "xz streams": parts(lambda data: lzma.compress(data, check=lzma.CHECK_SHA256)),
}


def framed(records: list[bytes]) -> bytes:
    def masked(data: bytes) -> bytes:
        crc = crc32c.crc32c(data)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    def frame(data: bytes) -> bytes:
        size = struct.pack("<Q", len(data))
        return size + masked(size) + data + masked(data)

    return b"".join(map(frame, records))


def archive(rng: np.random.Generator) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for i in range(60):
            for name, data in {"bin": rng.bytes(int(rng.integers(3000))), "cls": str(i % 7).encode()}.items():
                member = tarfile.TarInfo(f"{i:05}.{name}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


def contents(kind: str, seed: int) -> bytes:
    rng = np.random.default_rng(seed)
    if kind == "tar":
        return archive(rng)
    if kind == "tfrecord":
        return framed([rng.bytes(int(n)) for n in rng.integers(2000, size=120)])
    if kind == "jsonl":
        rows = ({"i": i, "x": float(rng.random()), "t": "ä" * int(rng.integers(90))} for i in range(700))
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    return "".join(f"{seed} {i} {rng.integers(1 << 40)}\n" for i in range(4000)).encode()


READ: dict[str, Callable[[Path], fb.Dataset]] = {
    "text": lambda folder: fb.from_text(folder / "*"),
    "jsonl": lambda folder: fb.from_jsonl(folder / "*"),
    "tfrecord": lambda folder: fb.from_tfrecord(folder / "*"),
    "tar": lambda folder: fb.from_tar(folder / "*"),
}


def plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def seen(rows: Any) -> list[Any]:
    return [{name: plain(value) for name, value in row.items()} for row in rows]


def written(folder: Path, kind: str, packs: list[Pack | None]) -> fb.Dataset:
    folder.mkdir()
    for number, pack in enumerate(packs):
        data = contents(kind, number)
        (folder / f"{number}").write_bytes(data if pack is None else pack(data))
    return READ[kind](folder)


@pytest.mark.parametrize("kind", READ)
def test_every_way_of_reading_gives_what_the_uncompressed_files_give(kind, tmp_path):
    want = written(tmp_path / "plain", kind, [None] * 3)
    # By the name of the codec: compressed, and with an uncompressed file among them.
    packs = PACKS | ({"zlib": zlib.compress} if kind == "tfrecord" else {})
    for name, pack in packs.items():
        got = written(tmp_path / name, kind, [pack, None, pack])

        def same(use: Callable[[fb.Dataset], Any], got: fb.Dataset = got, name: str = name) -> None:
            assert seen(use(got)) == seen(use(want)), name

        same(list)
        same(lambda ds: ds.shuffle(window=None).batch(16).iter(seed=3))
        same(lambda ds: ds.shuffle(window=100).iter(seed=4))
        same(lambda ds: ds.cache().batch(9).iter(consumers=(1, 3)))


def test_a_run_goes_on_in_the_middle_of_a_compressed_file(tmp_path):
    for name in ("gzip", "zstd stream", "xz"):
        got = written(tmp_path / name, "jsonl", [PACKS[name]] * 2)
        for ds in (got.batch(32), got.shuffle().batch(32)):
            whole = seen(ds.iter(seed=5))
            running = ds.iter(seed=5)
            before = seen(next(running) for _ in range(13))
            resumed = ds.iter(seed=5)
            resumed.load_state_dict(running.state_dict())
            assert before + seen(resumed) == whole, name


def test_a_service_reads_compressed_files(service, tmp_path):
    want = written(tmp_path / "plain", "text", [None] * 3)
    got = written(tmp_path / "packed", "text", [PACKS["gzip"], PACKS["zstd"], PACKS["bzip2"]])
    for number, shape in enumerate([lambda ds: ds.batch(50), lambda ds: ds.shuffle().batch(50)]):
        here = seen(shape(want).iter(seed=1))
        assert seen(shape(got).distribute(service, job=f"packed-{number}", seed=1)) == here


def test_archives_that_tarfile_compressed_are_read(tmp_path):
    for mode in ("gz", "bz2", "xz"):
        path = tmp_path / f"a.{mode}"
        with tarfile.open(path, f"w:{mode}") as tar:
            for i in range(30):
                member = tarfile.TarInfo(f"{i:03}.txt")
                member.size = 3000
                tar.addfile(member, io.BytesIO(f"{i:3000}".encode()))
        assert [int(row["txt"]) for row in fb.from_tar(path)] == list(range(30))
        assert sorted(int(row["txt"]) for row in fb.from_tar(path).shuffle()) == list(range(30))


def test_zeros_behind_gzip_are_passed_over_and_anything_else_is_an_error(tmp_path):
    data = contents("text", 0)
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(data) + bytes(1000))
    assert len(list(fb.from_text(path))) == 4000
    for rest in (b"x", bytes(10) + b"x", data):
        path.write_bytes(gzip.compress(data) + rest)
        for ds in (fb.from_text(path), fb.from_text(path).shuffle()):
            with pytest.raises(E.DataError, match="there is more behind the end") as info:
                list(ds)
            assert info.value.context["file"] == str(path)


@pytest.mark.parametrize("name", ["gzip", "bgzf", "zstd", "bzip2", "xz"])
def test_a_damaged_file_is_an_error_with_its_place(name, tmp_path):
    whole = PACKS[name](contents("text", 0))
    middle = len(whole) // 2
    flipped = whole[:middle] + bytes(byte ^ 0xFF for byte in whole[middle : middle + 4]) + whole[middle + 4 :]
    for number, damaged in enumerate([whole[:middle], whole[:-1], flipped]):
        path = tmp_path / f"{number}"
        path.write_bytes(damaged)
        for ds in (fb.from_text(path), fb.from_text(path).shuffle()):
            with pytest.raises(E.DataError, match="a file compressed with") as info:
                list(ds.iter(on_error="skip"))
            assert info.value.context["file"] == str(path)
            assert 0 <= int(info.value.context["offset"]) <= len(damaged)
