"""Files that were cut off: each is an error, or by its format a complete, shorter file; no row is lost silently."""

from __future__ import annotations

import io
import json
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import crc32c
import forebay as fb
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

SAMPLES = 3
FORMATS = {"ustar": tarfile.USTAR_FORMAT, "pax": tarfile.PAX_FORMAT, "gnu": tarfile.GNU_FORMAT}


def archive(format: str, samples: int = SAMPLES) -> bytes:
    """Writes samples of two members, with extended headers where the format has them."""
    stream = io.BytesIO()
    prefix = "d" * 120 if format == "gnu" else ""
    with tarfile.open(fileobj=stream, mode="w", format=FORMATS[format], bufsize=512) as tar:
        for i in range(samples):
            for ext in ("cls", "txt"):
                member = tarfile.TarInfo(f"{prefix}{i}.{ext}")
                member.size, member.mtime = 700, 1.5 if format == "pax" else 1
                tar.addfile(member, io.BytesIO(bytes([65 + i]) * 700))
    return stream.getvalue()


def outcome(make: Callable[[], fb.Dataset], shuffled: bool) -> list[dict[str, Any]] | fb.errors.ForebayError:
    """Reads all rows, or returns the error."""
    try:
        ds = make()
        return list(ds.shuffle() if shuffled else ds)
    except (fb.errors.DataError, fb.errors.NotFoundError) as e:
        return e


def read_by_tarfile(data: bytes) -> list[bytes] | None:
    try:
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            return [tar.extractfile(member).read() for member in tar]  # type: ignore[union-attr]
    except tarfile.ReadError:
        return None


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("format", FORMATS)
def test_a_tar_is_refused_wherever_tarfile_refuses_it(tmp_path, format, shuffled):
    whole, path = archive(format), tmp_path / "a.tar"
    refused = 0
    # Every place where a block begins or ends, and some places within blocks.
    cuts = sorted({at + by for at in range(0, len(whole), 512) for by in (0, 1, 188, 511)} & set(range(1, len(whole))))
    for cut in cuts:
        path.write_bytes(whole[:cut])
        want = read_by_tarfile(whole[:cut])
        rows = outcome(lambda: fb.from_tar(path, extensions=["cls?", "txt?"]), shuffled)
        if isinstance(rows, fb.errors.ForebayError):
            assert rows.context["file"] == str(path), cut
            assert "offset" in rows.context or "no sample" in rows.message, (cut, rows)
            refused += 1
            continue
        assert want is not None, f"cut at {cut}"
        found = sorted(v for row in rows for n, v in row.items() if n != "__key__" and v is not None)
        assert found == sorted(want), f"cut at {cut}"
    assert refused > len(cuts) // 2


def test_an_archive_may_lack_its_end_and_have_nothing_behind_it(tmp_path):
    whole, path = archive("ustar"), tmp_path / "a.tar"
    end = len(whole.rstrip(b"\0"))
    end += -end % 512
    for tail in (b"", bytes(512), bytes(1024), bytes(1024 + 100), bytes(20480)):
        path.write_bytes(whole[:end] + tail)
        assert len(list(fb.from_tar(path))) == SAMPLES
    for tail in (bytes(512) + whole, bytes(1024) + whole, bytes(200_000) + b"x"):
        path.write_bytes(whole[:end] + tail)
        for read in (list, lambda ds: list(ds.shuffle())):
            with pytest.raises(fb.errors.DataError, match="there is more behind the end of the archive") as info:
                read(fb.from_tar(path))
            behind = (whole[:end] + tail)[int(info.value.context["offset"]) :]
            assert behind[:1] != b"\0"
            assert "tar --concatenate" in (info.value.hint or "")


def record(payload: bytes) -> bytes:
    def masked(data: bytes) -> bytes:
        sum = crc32c.crc32c(data)
        return struct.pack("<I", ((sum >> 15 | sum << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    length = struct.pack("<Q", len(payload))
    return length + masked(length) + payload + masked(payload)


def parquet(codec: str) -> bytes:
    stream = io.BytesIO()
    table = pa.table({"a": range(50), "b": ["x" * 9] * 50})
    pq.write_table(table, stream, row_group_size=20, compression=codec)
    return stream.getvalue()


def arrow(codec: str | None) -> bytes:
    stream = io.BytesIO()
    table = pa.table({"a": range(50), "b": ["x" * 9] * 50})
    with pa.ipc.new_file(stream, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_table(table, max_chunksize=20)
    return stream.getvalue()


def is_json(data: bytes) -> bool:
    try:
        return all(json.loads(line) is not None for line in data.decode().splitlines())
    except ValueError:
        return False


RECORDS = [record(b"x" * n) for n in (0, 5, 300)]
# A file, its reader, and whether the rest after a cut is a complete file.
FILES: dict[str, tuple[bytes, Callable[[Path], fb.Dataset], Callable[[bytes], Any]]] = {
    "tfrecord": (b"".join(RECORDS), fb.from_tfrecord, lambda cut: cut in {b"".join(RECORDS[:n]) for n in range(4)}),
    "unverified": (
        b"".join(RECORDS),
        lambda path: fb.from_tfrecord(path, verify=False),
        lambda cut: cut in {b"".join(RECORDS[:n]) for n in range(4)},
    ),
    "text": ("eins\nzwei ä\n".encode() * 3, fb.from_text, lambda cut: cut.decode(errors="ignore").encode() == cut),
    "jsonl": (b'{"a": 12}\n{"a": "x"}\n' * 2, lambda path: fb.from_jsonl(path, schema={"a": "string"}), is_json),
    **{f"parquet {c}": (parquet(c), fb.from_parquet, lambda _: False) for c in ("none", "zstd", "snappy", "gzip")},
    **{f"arrow {c}": (arrow(c), fb.from_arrow, lambda _: False) for c in (None, "zstd", "lz4")},
}


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("format", FILES)
def test_a_file_that_is_cut_is_an_error_or_a_shorter_file(tmp_path, format, shuffled):
    whole, read, is_complete = FILES[format]
    path = tmp_path / "file"
    for cut in range(1, len(whole), 1 if len(whole) < 700 else len(whole) // 150):
        path.write_bytes(whole[:cut])
        rows = outcome(lambda: read(path), shuffled)
        if isinstance(rows, fb.errors.ForebayError):
            assert rows.context["file"] == str(path), (cut, rows)
        assert isinstance(rows, list) == bool(is_complete(whole[:cut])), f"cut at {cut}"
