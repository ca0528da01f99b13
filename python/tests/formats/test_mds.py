"""MosaicML's shards that mosaicml-streaming 0.13.0 wrote (golden/mds). Tests do not use it: it needs PyTorch."""

from __future__ import annotations

import io
import json
import shutil
import struct
import uuid
from pathlib import Path
from typing import Any

import forebay as fb
import numpy as np
import pytest
from buckets import credentials, put
from golden.mds.make_golden import COLUMNS, rows
from PIL import Image
from pipelines import fingerprint

E = fb.errors
GOLDEN = Path(__file__).parents[1] / "golden" / "mds"
ROWS = rows()


def same(got: Any, want: Any) -> None:
    """Compares a value with the written one, and the type of its numbers."""
    if isinstance(want, np.ndarray):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)
    elif isinstance(want, np.generic):
        assert np.asarray(got).dtype == want.dtype
        assert got == want
    else:
        assert got == want


@pytest.mark.parametrize("shuffled", [False, True])
def test_samples_are_what_the_library_was_given(shuffled):
    ds = fb.from_mds(GOLDEN / "plain")
    assert list(ds.schema) == sorted(COLUMNS)
    assert ds.schema["fixed"] == ("int32", (2, 3))
    assert ds.schema["free"] == ("uint16", (None, None, None))
    assert ds.schema["long"] == ("float32", (None,))
    assert ds.cardinality == len(ROWS)
    read = sorted((ds.shuffle() if shuffled else ds).iter(seed=3), key=lambda row: row["count"])
    for i, (got, want) in enumerate(zip(read, ROWS, strict=True)):
        texts = {"json": json.dumps(want["json"]), "exact": str(want["exact"])}
        for name, value in {**want, **texts}.items():
            if name != "pickled":
                same(got[name], value)
        for name in ("picture", "photo"):
            assert abs(int(np.asarray(Image.open(io.BytesIO(got[name])))[0, 0, 0]) - i * 10) <= 2
        assert got["pil"] == struct.pack("<3I", 4, 3, 3) + b"RGB" + bytes([i * 10] * 36)
    decoded = [row["picture"] for row in ds.select("picture").decode_image("picture")]
    assert [int(image[2, 3, 1]) for image in decoded] == [i * 10 for i in range(len(ROWS))]


@pytest.mark.parametrize("name", ["zstd", "gz"])
@pytest.mark.parametrize("window", ["auto", 7])
def test_compressed_shards_give_the_same_samples(name, window):
    plain = fb.from_mds(GOLDEN / "plain", columns=["count", "long", "text"])
    ds = fb.from_mds(GOLDEN / name)
    prints = lambda ds: [str(fingerprint(dict(row))) for row in ds.iter(seed=3)]  # noqa: E731
    assert prints(ds) == prints(plain)
    assert sorted(prints(ds.shuffle(window=window))) == sorted(prints(plain))


def test_columns_are_chosen_and_named_where_one_is_not_there():
    ds = fb.from_mds(GOLDEN / "plain", columns=["text", "count"])
    assert list(ds.schema) == ["text", "count"]
    assert [(row["text"], row["count"]) for row in ds] == [(row["text"], row["count"]) for row in ROWS]
    with pytest.raises(E.NotFoundError, match='no column "txt"') as caught:
        fb.from_mds(GOLDEN / "plain", columns=["txt"])
    assert caught.value.hint == 'did you mean "text"?'


@pytest.fixture
def folder(tmp_path):
    """A folder to damage."""
    shutil.copytree(GOLDEN / "plain", tmp_path / "train")
    return tmp_path / "train"


def changed(folder: Path, **entries: Any) -> None:
    """Rewrites the index, with other entries of each shard."""
    index = json.loads((GOLDEN / "plain" / "index.json").read_text())
    for shard in index["shards"]:
        shard.update(entries)
    (folder / "index.json").write_text(json.dumps(index))


def test_an_index_that_is_none_or_of_another_kind_is_said_to_be_that(folder):
    index = folder / "index.json"
    names = [str(i) for i in range(len(COLUMNS))]
    sized = {"raw_data": {"basename": "shard.00000.mds", "bytes": 7877}}
    for entries, kind, match in [
        ({"version": 1}, E.DataError, "shard of version 1"),
        ({"format": "json"}, E.InvalidPipelineError, 'format "json"'),
        ({"column_names": names[:-1]}, E.DataError, "not equally many"),
        ({"column_sizes": [3] * len(names)}, E.DataError, "such values have"),
        ({"column_encodings": ["mine"] * len(names)}, E.InvalidPipelineError, '"mine", which is not known'),
        ({"raw_data": {"basename": "../shard.00000.mds", "bytes": 1}}, E.DataError, "no file of the folder"),
        ({"raw_data": {"basename": "/etc/passwd", "bytes": 1}}, E.DataError, "no file of the folder"),
        ({"raw_data": {"basename": "shard.mds", "bytes": 1}}, E.NotFoundError, "no such file"),
        ({"samples": 7}, E.DataError, "its index counts 7"),
        ({"samples": 2**40}, E.DataError, "too short"),
        ({"samples": 0}, E.DataError, "no sample"),
        (
            {
                "compression": "br",
                "zip_data": {"basename": "x.mds.br", "bytes": 9},
                "raw_data": {"basename": "x", "bytes": 9},
            },
            E.InvalidPipelineError,
            'compressed with "br"',
        ),
        (
            {
                "compression": "zstd",
                "zip_data": {"basename": "x.mds.zstd", "bytes": 9},
                "raw_data": {"basename": "x", "bytes": 2**60},
            },
            E.ExhaustedError,
            "limit",
        ),
        ({**sized, "samples": 5}, E.DataError, "its index counts 5"),
    ]:
        changed(folder, **entries)
        with pytest.raises(kind, match=match) as caught:
            list(fb.from_mds(folder))
        assert "file" in caught.value.context, entries
    for text in ("", "[]", "{", '{"version": 3, "shards": []}', '{"version": 2, "shards": []}', "\x00" * 9):
        index.write_text(text)
        with pytest.raises(E.DataError) as caught:
            fb.from_mds(folder)
        assert caught.value.context["file"] == str(index)
    index.unlink()
    with pytest.raises(E.NotFoundError) as caught:
        fb.from_mds(folder)
    assert caught.value.context["file"] == str(index)


def test_a_shard_that_is_cut_or_damaged_is_an_error_and_never_other_samples(folder):
    path = folder / "shard.00002.mds"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(E.DataError, match="6532 bytes, and its index says 6533") as caught:
        list(fb.from_mds(folder))
    assert caught.value.context["file"] == str(path)
    count = struct.unpack_from("<I", whole)[0]
    for at, value, match in [(0, count + 1, "samples"), (4, 3, "not in order"), (8, 2**32 - 1, "not in order")]:
        path.write_bytes(whole[:at] + struct.pack("<I", value) + whole[at + 4 :])
        with pytest.raises(E.DataError, match=match):
            list(fb.from_mds(folder))
    # The length of a value of the shard's second sample, and the result for it alone.
    start = struct.unpack_from("<I", whole, 8)[0]
    path.write_bytes(whole[:start] + struct.pack("<I", 2**32 - 1) + whole[start + 4 :])
    ds = fb.from_mds(folder)
    with pytest.raises(E.DataError, match="ends before its values") as caught:
        list(ds)
    assert caught.value.context["sample"] == f"{path}#1"
    assert int(caught.value.context["offset"]) == start
    assert len(list(ds.iter(on_error="skip", error_budget=1.0))) == len(ROWS) - 1


@pytest.mark.parametrize("name", ["zstd", "gz"])
def test_a_compressed_shard_that_is_damaged_is_an_error(name, tmp_path):
    shutil.copytree(GOLDEN / name, tmp_path / name)
    path = tmp_path / name / f"shard.00001.mds.{name}"
    whole = path.read_bytes()
    other = (GOLDEN / name / f"shard.00000.mds.{name}").read_bytes()
    # The library's zstd writes no checksum, gzip has one.
    damaged = whole[:200] + bytes(20) + whole[220:]
    for wrong in (whole[:-30], b"", other, b"no" + whole[2:], damaged if name == "gz" else b"x"):
        path.write_bytes(wrong)
        with pytest.raises(E.DataError) as caught:
            list(fb.from_mds(tmp_path / name))
        assert caught.value.context["file"] == str(path)


def test_a_raw_shard_is_read_where_the_library_has_left_one(tmp_path):
    shutil.copytree(GOLDEN / "zstd", tmp_path / "a")
    want = [row["text"] for row in fb.from_mds(tmp_path / "a")]
    index = json.loads((tmp_path / "a" / "index.json").read_text())
    zipped = index["shards"][0]["zip_data"]["basename"]
    (tmp_path / "a" / zipped).unlink()
    with pytest.raises(E.NotFoundError):
        list(fb.from_mds(tmp_path / "a"))
    raw = decompressed(GOLDEN / "zstd" / zipped)
    (tmp_path / "a" / index["shards"][0]["raw_data"]["basename"]).write_bytes(raw)
    assert [row["text"] for row in fb.from_mds(tmp_path / "a")] == want


def decompressed(path: Path) -> bytes:
    import pyarrow as pa

    return pa.input_stream(str(path), compression="zstd").read()


@pytest.mark.parametrize("name", ["index.json", "shard.00001.mds"])
def test_no_byte_of_a_folder_makes_a_bug_of_ours(name, folder):
    whole, rng = (folder / name).read_bytes(), np.random.default_rng(7)
    refused = 0
    for _ in range(120):
        wrong = bytearray(whole[: rng.integers(0, len(whole)) if rng.random() < 0.2 else len(whole)])
        for at in rng.integers(0, max(len(wrong), 1), rng.integers(1, 4)):
            wrong[at : at + 1] = bytes([rng.integers(0, 256)]) if rng.random() < 0.5 else b"9"
        (folder / name).write_bytes(wrong)
        try:
            assert len(list(fb.from_mds(folder))) <= len(ROWS)
        except (E.DataError, E.InvalidPipelineError, E.NotFoundError, E.ExhaustedError):
            refused += 1
    assert refused > 30


def test_folders_in_a_bucket_and_on_a_service(moto, monkeypatch, tmp_path):
    put(moto, "mds")
    for path in sorted(GOLDEN.glob("*/*")):
        put(moto, f"mds/{path.parent.name}/{path.name}", path.read_bytes())
    for name, value in credentials(moto).items():
        monkeypatch.setenv(name, value)
    both = lambda at: fb.from_mds(f"{at}/{{zstd,gz}}").drop("long").shuffle().batch(4)  # noqa: E731
    plain = lambda at: fb.from_mds(f"{at}/plain/", columns=["count", "int8"]).shuffle().batch(5)  # noqa: E731
    with fb.up(workers=2, threads=1) as service:
        for source in (both, plain):
            here = [fingerprint(batch) for batch in source(GOLDEN).iter(seed=5)]
            assert [fingerprint(batch) for batch in source("s3://mds").iter(seed=5)] == here
            there = source("s3://mds").distribute(service, job=f"job-{uuid.uuid4()}", seed=5)
            assert [fingerprint(batch) for batch in there] == here
    with pytest.raises(E.DataError, match="other columns"):
        list(fb.from_mds([GOLDEN / "zstd", GOLDEN / "plain"]))
