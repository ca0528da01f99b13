"""Parquet files of every codec that pyarrow writes; and the errors for codecs that are not supported."""

from __future__ import annotations

from pathlib import Path

import forebay as fb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROWS = 1000
CODECS = ["none", "snappy", "gzip", "brotli", "lz4", "zstd"]


def table() -> pa.Table:
    rng = np.random.default_rng(5)
    return pa.table(
        {
            "n": pa.array(np.arange(ROWS), pa.int64()),
            "x": pa.array(rng.standard_normal(ROWS), pa.float64()),
            "name": pa.array([None if i % 11 == 3 else f"name {i % 7}" * (i % 5) for i in range(ROWS)]),
            "list": pa.array([list(range(i % 4)) for i in range(ROWS)], pa.list_(pa.int32())),
        }
    )


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_that_pyarrow_writes(tmp_path, codec, version):
    path = tmp_path / "a.parquet"
    pq.write_table(table(), path, compression=codec, row_group_size=300, data_page_size=2000, data_page_version=version)
    used = pq.ParquetFile(path).metadata.row_group(0).column(0).compression
    assert used == ("UNCOMPRESSED" if codec == "none" else codec.upper())
    want = pq.read_table(path).to_pylist()
    for ds in (fb.from_parquet(path), fb.from_parquet(path).shuffle()):
        rows = sorted(ds, key=lambda row: row["n"])
        assert [{**row, "list": row["list"].tolist()} for row in rows] == want


def with_codec(path: Path, column: int, codec: int) -> None:
    """Changes the codec in the footer of a column chunk, which was written with gzip."""
    data = path.read_bytes()
    gzip, other = bytes([0x15, 2 << 1, 0x16]), bytes([0x15, codec << 1, 0x16])
    at = -1
    for _ in range(column + 1):
        at = data.index(gzip, at + 1)
    path.write_bytes(data[:at] + other + data[at + 3 :])


def test_a_codec_that_is_not_supported_is_named_and_other_columns_are_read(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(table(), path, compression="gzip")
    with_codec(path, 1, 3)
    with pytest.raises(fb.errors.DataError, match=r'column "x" is compressed with LZO, which is not supported') as info:
        list(fb.from_parquet(path))
    assert info.value.context["file"] == str(path)
    assert "corrupt" not in str(info.value)
    assert len(list(fb.from_parquet(path, columns=["n", "name"]))) == ROWS


def test_an_encrypted_file_is_said_to_be_one(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(table(), path)
    path.write_bytes(b"PARE" + path.read_bytes()[4:-4] + b"PARE")
    with pytest.raises(fb.errors.DataError, match="it is encrypted") as info:
        fb.from_parquet(path)
    assert "corrupt" not in str(info.value)
