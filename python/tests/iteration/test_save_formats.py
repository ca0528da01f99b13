"""`save(format=)`: other libraries read the saved samples from its files, and so do our own sources."""

from __future__ import annotations

import gc
import io
import itertools
import json
import struct
import tarfile
import warnings
from pathlib import Path
from typing import Any

import forebay as fb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import webdataset as wds
from iteration.test_save import DTYPES, SHAPES, every_dtype, number, same
from pipelines import name

E = fb.errors


def texts() -> fb.Dataset:
    """Returns texts and bytes, and columns that may be missing."""
    data = {"text": ["", "naïve", "x" * 500] * 4, "raw": [b"", b"\0\xff", b"z" * 700] * 4}
    return fb.from_dict(
        {**data, "maybe": [None, "b", "c"] * 4, "count": [1, None, 3] * 4, "on": [True, False, None] * 4}
    )


@pytest.mark.parametrize("compression", [None, "zstd", "snappy"])
def test_pyarrow_reads_parquet_as_what_was_saved(compression, tmp_path):
    texts().save(tmp_path / "saved", format="parquet", compression=compression, file_bytes=2_000)
    files = sorted((tmp_path / "saved").glob("part-*.parquet"))
    assert len(files) > 1
    assert pq.ParquetFile(files[0]).metadata.row_group(0).column(0).compression == (compression or "zstd").upper()
    table = pa.concat_tables(pq.read_table(file) for file in files)
    kinds = {"text": pa.string(), "raw": pa.binary(), "maybe": pa.string(), "count": pa.int64(), "on": pa.bool_()}
    assert {field.name: field.type for field in table.schema} == kinds
    assert table.to_pylist() == [
        {key: value.item() if isinstance(value, np.generic) else value for key, value in row.items()} for row in texts()
    ]


def test_a_folder_whose_name_says_another_format_is_refused(tmp_path):
    for folder, said in (("a.parquet", "parquet"), ("a.json", "jsonl"), ("a.tfrecords", "tfrecord")):
        with pytest.raises(E.InvalidPipelineError, match="would be a folder of arrow files") as caught:
            fb.range(3).save(tmp_path / folder)
        assert f'write format="{said}"' in caught.value.hint
        assert fb.range(3).save(tmp_path / folder, format=said).rows == 3
    assert fb.range(3).save(tmp_path / "a.v2").rows == 3


@pytest.mark.parametrize("rows", [0, 9])
def test_every_type_comes_back_from_parquet(rows, tmp_path):
    ds = every_dtype(rows).drop(*(f"{dtype} empty" for dtype in DTYPES))
    ds.save(tmp_path / "saved", format="parquet")
    loaded = fb.load(tmp_path / "saved")
    assert repr(loaded.schema) == repr(ds.schema)
    expected, found = list(ds), list(loaded)
    assert len(found) == len(expected) == rows
    assert all(map(same, found, expected))
    assert all(map(same, fb.from_parquet(tmp_path / "saved" / "*.parquet"), expected))
    table = pq.read_table(tmp_path / "saved" / "part-00000000.parquet")
    for dtype in DTYPES:
        kind = pa.int8() if dtype == "bool" else pa.from_numpy_dtype(np.dtype(dtype))
        types = {shape: table.schema.field(f"{dtype} {shape}").type for shape in SHAPES if shape != "empty"}
        assert types["scalar"] == (pa.bool_() if dtype == "bool" else kind)
        assert types["fixed"].storage_type.list_size == 3
        assert (types["two"].shape, types["two"].value_type) == ([2, 3], kind)
        assert types["ragged"].value_type == kind
        for row in range(rows):
            two = np.asarray(table[f"{dtype} two"][row].as_py()).reshape(2, 3)
            assert (two == number(dtype, (2, 3), row)).all()
            assert table[f"{dtype} ragged"][row].as_py() == number(dtype, (None,), row).tolist()


def test_row_groups_are_bounded_in_bytes(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (20, 1 << 20), np.uint8)
    fb.from_numpy({"x": noise}).save(tmp_path / "saved", format="parquet")
    metadata = pq.ParquetFile(tmp_path / "saved" / "part-00000000.parquet").metadata
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [16, 4]


def digits() -> fb.Dataset:
    """Returns samples in WebDataset's form: bytes, a text, numbers, an array."""
    columns = {
        "png": [bytes([137, 80, i]) * i for i in range(20)],
        "txt": [f"caption {i} é" for i in range(20)],
        "cls": list(range(20)),
        "score": [i / 3 for i in range(20)],
        "seg.png": [None if i % 4 == 0 else b"mask" for i in range(20)],
        "on": [i % 2 == 0 for i in range(20)],
        "box.npy": np.arange(80, dtype=np.float32).reshape(20, 2, 2),
    }
    return fb.from_dict(columns)


def test_tarfile_webdataset_and_from_tar_read_tar(tmp_path):
    digits().save(tmp_path / "saved", format="tar", file_bytes=400)
    files = sorted((tmp_path / "saved").glob("part-*.tar"))
    assert len(files) > 1
    members = []
    for file in files:
        with tarfile.open(file) as tar:
            members += [(member.name, tar.extractfile(member).read(), member.mode) for member in tar]
    assert members[:3] == [
        ("000000000000.png", b"", 0o644),
        ("000000000000.txt", "caption 0 é".encode(), 0o644),
        ("000000000000.cls", b"0", 0o644),
    ]
    with warnings.catch_warnings(action="ignore"):
        # The library leaves its files to the garbage collector.
        samples = list(wds.WebDataset([str(file) for file in files], shardshuffle=False).decode())
        gc.collect()
    assert len(samples) == 20
    for i, (sample, row) in enumerate(zip(samples, digits(), strict=True)):
        assert (sample["__key__"], sample["cls"], sample["txt"]) == (f"{i:012}", i, row["txt"])
        assert float(sample["score"]) == row["score"]
        assert int(sample["on"]) == row["on"]
        assert sample["png"] == row["png"]
        assert same(sample["box.npy"], row["box.npy"])
        assert ("seg.png" in sample) == (row["seg.png"] is not None)
    ours = list(fb.load(tmp_path / "saved"))
    assert [set(row) for row in ours] == [{"__key__", *digits().schema}] * 20
    with_names = fb.from_tar(tmp_path / "saved" / "part-*.tar", extensions=["txt", "seg.png?"])
    assert [(row["txt"].decode(), row["seg.png"]) for row in with_names] == [(r["txt"], r["seg.png"]) for r in digits()]


def test_samples_of_tar_are_named_by_their_keys(tmp_path):
    keys = ["a/b", "a/c", "é" * 90, "d" * 300]
    fb.from_dict({"__key__": keys, "bin": [b"1", b"2", b"3", b"4"]}).save(tmp_path / "saved", format="tar")
    with tarfile.open(tmp_path / "saved" / "part-00000000.tar") as tar:
        assert tar.getnames() == [f"{key}.bin" for key in keys]
    assert [row["__key__"] for row in fb.load(tmp_path / "saved")] == keys
    for wrong in (["a.b", "c"], ["a", "a"], ["", "b"], ["/a", "b"]):
        with pytest.raises(E.DataError, match="the key") as caught:
            fb.from_dict({"__key__": wrong, "bin": [b"1", b"2"]}).save(tmp_path / "wrong", format="tar", overwrite=True)
        assert "part-00000000.tar" in caught.value.context["file"]


def mds(folder: Path) -> list[dict[str, Any]]:
    """Reads MDS files as their own library does (streaming 0.13), by the description of the format alone."""
    rows = []
    for shard in json.loads((folder / "index.json").read_text())["shards"]:
        data = (folder / shard["raw_data"]["basename"]).read_bytes()
        assert (len(data), shard["version"], shard["format"]) == (shard["raw_data"]["bytes"], 2, "mds")
        assert shard["column_names"] == sorted(shard["column_names"])
        (count,) = struct.unpack_from("<I", data)
        assert count == shard["samples"]
        places = struct.unpack_from(f"<{count + 1}I", data, 4)
        config = json.loads(data[8 + 4 * count : places[0]])
        assert config["column_encodings"] == shard["column_encodings"]
        assert places[-1] == len(data)
        for begin, end in itertools.pairwise(places):
            rows.append(_sample(shard, data[begin:end]))
    return rows


def _sample(shard: dict[str, Any], data: bytes) -> dict[str, Any]:
    at, sizes = 0, []
    for size in shard["column_sizes"]:
        sizes.append(size or struct.unpack_from("<I", data, at)[0])
        at += 0 if size else 4
    sample = {}
    for column, encoding, size in zip(shard["column_names"], shard["column_encodings"], sizes, strict=True):
        sample[column] = _value(encoding, data[at : at + size])
        at += size
    assert at == len(data)
    return sample


def _value(encoding: str, data: bytes) -> Any:
    if encoding in ("bytes", "str"):
        return data if encoding == "bytes" else data.decode()
    kind, *told = encoding.split(":")
    if kind != "ndarray":
        return np.frombuffer(data, kind)[0]
    if len(told) == 2:
        return np.frombuffer(data, told[0]).reshape([int(dim) for dim in told[1].split(",")])
    rank, width = data[0] >> 2, 1 << (data[0] & 3)
    shape = np.frombuffer(data[1 : 1 + rank * width], f"<u{width}")
    return np.frombuffer(data[1 + rank * width :], told[0]).reshape(shape)


def test_a_reader_of_mds_finds_what_was_saved(tmp_path):
    kinds = [dtype for dtype in DTYPES if dtype != "bool"]
    ds = every_dtype(9).select(
        "id", "bool scalar", *(f"{dtype} {shape}" for dtype in kinds for shape in SHAPES if shape != "empty")
    )

    def varying(row):
        n = int(row["id"])
        return {"text": "é" * n, "raw": bytes(300 * n), "long": np.zeros((n * 40, 2), np.int16)}

    schema = {"text": "string", "raw": "bytes", "long": ("int16", [None, 2])}
    ds = ds.map(varying, schema=schema, writes=list(schema))
    ds.save(tmp_path / "saved", format="mds", file_bytes=4_000)
    assert len(list((tmp_path / "saved").glob("part-*.mds"))) > 1
    found = mds(tmp_path / "saved")
    expected = [{**row, "bool scalar": np.uint8(row["bool scalar"])} for row in ds]
    assert all(same(a, {key: b[key] for key in sorted(b)}) for a, b in zip(found, expected, strict=True))
    with pytest.raises(E.InvalidPipelineError, match="StreamingDataset"):
        fb.load(tmp_path / "saved")
    ours = list(fb.from_mds(tmp_path / "saved"))
    names = ["id", "text", "raw", "long"]
    assert all(same({n: a[n] for n in names}, {n: b[n] for n in names}) for a, b in zip(ours, expected, strict=True))


def test_the_library_of_mds_reads_it(tmp_path):
    streaming = pytest.importorskip("streaming")
    digits().drop("seg.png").save(tmp_path / "saved", format="mds", file_bytes=500)
    found = streaming.StreamingDataset(local=str(tmp_path / "saved"), shuffle=False, batch_size=1)
    assert [row["txt"] for row in found] == [row["txt"] for row in digits()]


@pytest.mark.parametrize("format", ["arrow", "parquet", "mds"])
def test_several_writers_save_to_one_folder(format, tmp_path):
    ds, folder = fb.range(1000).shuffle().with_column("half", fb.col("id") / 2), tmp_path / "saved"
    with fb.up(workers=1) as service:
        saves = [lambda: ds.save(folder, consumers=(0, 3), format=format, seed=5, file_bytes=2_000)]
        saves += [lambda: ds.save(folder, consumers=(1, 3), format=format, seed=5, file_bytes=2_000)]
        job = name()
        there = {"service": service, "job": job}
        if format == "parquet":
            # Through a service and in this process each consumer has the same samples.
            saves[1] = lambda: ds.save(folder, consumers=(1, 3), format=format, seed=5, file_bytes=2_000, **there)
        saved = [save() for save in saves]
        with pytest.raises((E.UnavailableError, E.InvalidPipelineError)):
            fb.load(folder)
        saved.append(ds.save(folder, consumers=(2, 3), format=format, seed=5, file_bytes=2_000))
    assert sum(one.rows for one in saved) == 1000
    expected = [int(row["id"]) for i in range(3) for row in ds.iter(seed=5, consumers=(i, 3), even=False)]
    assert sorted(expected) == list(range(1000))
    rows = mds(folder) if format == "mds" else list(fb.load(folder))
    assert [int(row["id"]) for row in rows] == expected
    for other in ({}, {"consumers": (0, 2)}):
        with pytest.raises(E.ConflictError):
            ds.save(folder, format=format, seed=5, file_bytes=2_000, **other)
    with pytest.raises(E.ConflictError, match="this folder holds"):
        ds.save(folder, consumers=(0, 3), format=format, seed=6, file_bytes=2_000)


def refusals() -> list[tuple[str, dict[str, Any], str]]:
    array = np.zeros((2, 3), np.float32)
    return [
        ("tar", {"image": array, "cls": [1, 2]}, 'rename.. it to "npy"'),
        ("tar", {"JPG": [b"1", b"2"]}, "small letters"),
        ("tar", {".jpg": [b"1", b"2"]}, "small letters"),
        ("tar", {"txt": ["a", None]}, "never missing"),
        ("tar", {"__key__": [1, 2], "txt": ["a", "b"]}, "named by it"),
        ("mds", {"text": ["a", None]}, "ever missing"),
        ("mds", {"flags": np.zeros((2, 3), bool)}, "truth values"),
        ("mds", {"none": np.zeros((2, 0), np.int8)}, "no numbers"),
        ("parquet", {"none": np.zeros((2, 0), np.int8)}, "no numbers"),
        ("jsonl", {"raw": [b"1", b"2"]}, "JSON has no bytes"),
        ("jsonl", {"none": np.zeros((2, 0), np.int8)}, "no numbers"),
        ("csv", {"image": array}, "a text or a number"),
        ("csv", {"raw": [b"1", b"2"]}, "a text or a number"),
        ("tfrecord", {"x": [1.5, 2.5]}, '"float32"'),
        ("tfrecord", {"x": np.zeros(2, np.uint64)}, '"int64"'),
        ("tfrecord", {"none": np.zeros((2, 0), np.int8)}, "stored flat"),
    ]


@pytest.mark.parametrize(("format", "data", "says"), refusals())
def test_columns_without_a_form_are_refused_before_anything_is_written(format, data, says, tmp_path):
    with pytest.raises(E.InvalidPipelineError) as caught:
        fb.from_dict(data).save(tmp_path / "saved", format=format)
    assert any(says.replace("..", "()") in text for text in (str(caught.value), caught.value.hint))
    assert not (tmp_path / "saved").exists()


def test_options_that_cannot_be_are_refused(tmp_path):
    ds = fb.range(3)
    for wrong, says in (
        ({"format": "json"}, "unknown format"),
        ({"compression": "zstd"}, "not compressed"),
        ({"format": "parquet", "compression": "gzip"}, "unknown compression"),
        ({"format": "mds", "file_bytes": 1 << 40}, "too much for MDS"),
        ({"consumers": (3, 3)}, "consumers"),
    ):
        with pytest.raises(E.InvalidPipelineError, match=says):
            ds.save(tmp_path / "saved", **wrong)
    assert not (tmp_path / "saved").exists()
    npy = io.BytesIO()
    np.save(npy, np.arange(3))
    fb.from_dict({"npy": np.arange(3)[None]}).save(tmp_path / "npy", format="tar")
    with tarfile.open(tmp_path / "npy" / "part-00000000.tar") as tar:
        assert tar.extractfile("000000000000.npy").read() == npy.getvalue()
