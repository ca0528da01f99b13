"""LitData's chunks that litdata 0.2.76 and 0.2.40 wrote (golden/litdata); no test uses litdata, as it needs PyTorch."""

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
from golden.litdata.make_golden import FOLDERS, rows
from PIL import Image
from pipelines import fingerprint

E = fb.errors
GOLDEN = Path(__file__).parents[1] / "golden" / "litdata"
ROWS = rows()
#: All but the pickle, which is refused.
COLUMNS = [*(name for name in ROWS[0] if name != "deep"), "deep.label", "deep.pair.0", "deep.pair.1", "photo"]
PACKED = [name for name, (compression, _) in FOLDERS.items() if compression] + ["old-zstd"]


def same(got: Any, want: Any) -> None:
    """Compares a value with the written one, and the type and shape of its numbers."""
    if isinstance(want, np.ndarray) and want.ndim:
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_array_equal(got, want)
    elif isinstance(want, np.ndarray):
        assert (got.dtype, got) == (want.dtype, want)
    else:
        assert got == want


@pytest.mark.parametrize("name", ["plain", "old"])
@pytest.mark.parametrize("shuffled", [False, True])
def test_samples_are_what_the_library_was_given(name, shuffled):
    ds = fb.from_litdata(GOLDEN / name, columns=COLUMNS)
    assert list(ds.schema) == COLUMNS
    assert ds.schema["matrix"] == ("float32", (None, None))
    assert ds.schema["mask"] == ("bool", (None,))
    assert ds.schema["grey"] == ("uint8", (None, None, None))
    assert ds.cardinality == len(ROWS)
    read = sorted((ds.shuffle() if shuffled else ds).iter(seed=3), key=lambda row: row["int"])
    for got, want in zip(read, ROWS, strict=True):
        deep = want["deep"]
        flat = {"deep.label": deep["label"], "deep.pair.0": deep["pair"][0], "deep.pair.1": deep["pair"][1]}
        for column, value in {**want, **flat}.items():
            if column != "deep":
                same(got[column], value)
        photo = np.asarray(Image.open(io.BytesIO(got["photo"])))
        assert abs(int(photo[0, 0, 0]) - int(want["pixels"][0, 0, 0])) <= 2
    assert [image["photo"].shape for image in ds.select("photo").decode_image("photo")] == [(3, 4, 3)] * len(ROWS)


@pytest.mark.parametrize("name", PACKED)
@pytest.mark.parametrize("window", ["auto", 5])
def test_compressed_chunks_give_the_same_samples(name, window):
    want = [str(fingerprint(dict(row))) for row in fb.from_litdata(GOLDEN / "plain", columns=["int", "text", "ids"])]
    ds = fb.from_litdata(GOLDEN / name)
    prints = lambda ds: [str(fingerprint(dict(row))) for row in ds.iter(seed=3)]  # noqa: E731
    assert prints(ds) == want
    assert sorted(prints(ds.shuffle(window=window))) == sorted(want)


def test_documents_are_rows():
    ds = fb.from_litdata(GOLDEN / "documents")
    assert str(ds.schema) == "Schema(value: int32[?])"
    assert [row["value"].tolist() for row in ds] == [row["tokens"].tolist() for row in ROWS]


def test_what_is_not_read_is_refused_and_can_be_left_out(tmp_path):
    with pytest.raises(E.InvalidPipelineError, match='"pickled" is stored as "pickle"') as caught:
        fb.from_litdata(GOLDEN / "plain")
    assert "columns=" in caught.value.hint
    with pytest.raises(E.NotFoundError, match='no column "txt"'):
        fb.from_litdata(GOLDEN / "plain", columns=["txt"])
    with pytest.raises(E.NotFoundError) as caught:
        fb.from_litdata(tmp_path)
    assert "litdata.optimize" in caught.value.hint


def changed(folder: Path, chunk: dict[str, Any], config: dict[str, Any]) -> None:
    """Rewrites the index, with other entries of each chunk and of the common part."""
    index = json.loads((GOLDEN / folder.name / "index.json").read_text())
    for entry in index["chunks"]:
        entry.update(chunk)
    index["config"].update(config)
    (folder / "index.json").write_text(json.dumps(index))


def test_an_index_that_is_none_or_of_another_kind_is_said_to_be_that(tmp_path):
    folder = tmp_path / "chunk"
    shutil.copytree(GOLDEN / "chunk", folder)
    none, first = {"compression": None}, {"filename": "chunk-0-0.zstd.bin"}
    for chunk, config, kind, match in [
        ({"filename": "../x.bin"}, {}, E.DataError, "no file of the folder"),
        ({"filename": "x.bin"}, {}, E.NotFoundError, "no such file"),
        ({"chunk_size": 6}, {}, E.DataError, "its index counts 6"),
        ({"chunk_size": 2**40}, {}, E.DataError, "too short"),
        ({"chunk_size": 0}, {}, E.DataError, "no sample"),
        ({"chunk_bytes": 17}, {}, E.DataError, "its index says 17"),
        ({"chunk_bytes": 2**60}, {}, E.ExhaustedError, "limit"),
        ({}, none, E.DataError, "137 bytes, and its index says 365"),
        ({}, {"compression": "lz4"}, E.InvalidPipelineError, '"lz4" by chunk'),
        ({**first, "chunk_bytes": 137}, {"compression_level": "batch"}, E.DataError, "no chunk of frames"),
        ({**first, "chunk_bytes": 137}, {"compression_level": "sample"}, E.DataError, "its index counts 7"),
        ({}, {"compression_level": "row"}, E.InvalidPipelineError, "by row"),
        ({}, {"encryption": {"algorithm": "fernet"}}, E.InvalidPipelineError, "encrypted"),
        ({}, {"item_loader": "ParquetLoader"}, E.InvalidPipelineError, "ParquetLoader"),
        ({}, {"item_loader": "TokensLoader"}, E.DataError, "several columns"),
        ({}, {"data_format": ["int"]}, E.DataError, "3 columns"),
        ({}, {"data_format": None}, E.DataError, "no data_format"),
        ({}, {"data_format": ["int", "str", "no_header_numpy:13"]}, E.InvalidPipelineError, '"no_header_numpy:13"'),
        ({}, {"data_spec": "[1, 2]"}, E.DataError, "no tree"),
    ]:
        shutil.copy(GOLDEN / "chunk" / "index.json", folder)
        changed(folder, chunk, config)
        with pytest.raises(kind, match=match) as caught:
            list(fb.from_litdata(folder))
        assert "file" in caught.value.context, (chunk, config)
    for text in ("", "[]", "{", '{"chunks": []}', "\x00" * 9):
        (folder / "index.json").write_text(text)
        with pytest.raises(E.DataError, match="no index of LitData") as caught:
            fb.from_litdata(folder)
        assert caught.value.context["file"] == str(folder / "index.json")


def test_a_chunk_that_is_cut_or_damaged_is_an_error_and_never_other_samples(tmp_path):
    folder = tmp_path / "plain"
    shutil.copytree(GOLDEN / "plain", folder)
    ds = fb.from_litdata(folder, columns=["int", "matrix"])
    path = folder / "chunk-0-1.bin"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(E.DataError, match=f"{len(whole) - 1} bytes, and its index says {len(whole)}") as caught:
        list(ds)
    assert caught.value.context["file"] == str(path)
    for at, value, match in [(0, 8, "samples"), (4, 3, "not in order"), (8, 2**32 - 1, "not in order")]:
        path.write_bytes(whole[:at] + struct.pack("<I", value) + whole[at + 4 :])
        with pytest.raises(E.DataError, match=match):
            list(ds)
    # The length of a value of the chunk's second sample, which affects it alone.
    start = struct.unpack_from("<I", whole, 8)[0]
    for wrong, match in [(2**32 - 1, "ends before its values"), (7, "7 bytes for int64|behind its values")]:
        path.write_bytes(whole[:start] + struct.pack("<I", wrong) + whole[start + 4 :])
        with pytest.raises(E.DataError, match=match) as caught:
            list(ds)
        assert caught.value.context["sample"] == f"{path}#1"
        assert int(caught.value.context["offset"]) == start
        assert len(list(ds.iter(on_error="skip", error_budget=1.0))) == len(ROWS) - 1


@pytest.mark.parametrize("name", ["plain", *PACKED, "documents"])
def test_no_byte_of_a_folder_makes_a_bug_of_ours(name, tmp_path):
    shutil.copytree(GOLDEN / name, tmp_path / name)
    rng = np.random.default_rng(7)
    refused = 0
    columns = COLUMNS if name == "plain" else None
    for number in range(60):
        path = sorted((tmp_path / name).iterdir())[-1 if number % 3 == 0 else 0]
        whole = (GOLDEN / name / path.name).read_bytes()
        wrong = bytearray(whole[: rng.integers(0, len(whole)) if rng.random() < 0.2 else len(whole)])
        for at in rng.integers(0, max(len(wrong), 1), rng.integers(1, 4)):
            wrong[at : at + 1] = bytes([rng.integers(0, 256)]) if rng.random() < 0.5 else b"9"
        path.write_bytes(wrong)
        try:
            assert len(list(fb.from_litdata(tmp_path / name, columns=columns))) <= len(ROWS)
        except (E.DataError, E.InvalidPipelineError, E.NotFoundError, E.ExhaustedError):
            refused += 1
        path.write_bytes(whole)
    assert refused > 10


def test_folders_in_a_bucket_and_on_a_service(moto, monkeypatch):
    bucket = f"litdata-{uuid.uuid4().hex[:8]}"
    put(moto, bucket)
    for path in sorted(GOLDEN.glob("*/*")):
        put(moto, f"{bucket}/{path.parent.name}/{path.name}", path.read_bytes())
    for name, value in credentials(moto).items():
        monkeypatch.setenv(name, value)
    both = lambda at: fb.from_litdata(f"{at}/{{chunk,old-zstd}}").drop("ids").shuffle().batch(4)  # noqa: E731
    plain = lambda at: fb.from_litdata(f"{at}/plain/", columns=["int", "point"]).shuffle().batch(5)  # noqa: E731
    with fb.up(workers=2, threads=1) as service:
        for source in (both, plain):
            here = [fingerprint(batch) for batch in source(GOLDEN).iter(seed=5)]
            assert [fingerprint(batch) for batch in source(f"s3://{bucket}").iter(seed=5)] == here
            there = source(f"s3://{bucket}").distribute(service, job=f"job-{uuid.uuid4()}", seed=5)
            assert [fingerprint(batch) for batch in there] == here
    with pytest.raises(E.DataError, match="other columns, or are compressed otherwise"):
        list(fb.from_litdata([GOLDEN / "sample", GOLDEN / "chunk"]))
