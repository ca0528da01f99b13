"""`save` and `load`: the same samples, each once, after any fault; and Arrow files of other libraries."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import forebay as fb
import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.ipc as ipc
import pytest
from pipelines import name


def same(a: object, b: object) -> bool:
    """Returns whether columns, dtypes, shapes and bytes are the same."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (bytes, str)) or a is None:
        return a == b
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def parts(folder: Path) -> dict[str, bytes]:
    """Returns the contents of the saved files."""
    return {path.name: path.read_bytes() for path in sorted(folder.glob("part-*"))}


def every_kind(images: Path) -> fb.Dataset:
    """Returns a column of each kind: number, truth, text, bytes, tensors of fixed and of variable shape."""
    ds = fb.from_image_folder(images).shuffle().with_column("even", fb.col("label") % 2 == 0)
    ds = ds.map(lambda row: {"raw": row["image"][:5]}, schema={"raw": "bytes"}, writes="raw")
    return ds.decode_image("image").map(
        lambda row: {"mean": row["image"].mean((0, 1)).astype(np.float32)},
        schema={"mean": ("float32", [3])},
        writes="mean",
    )


def test_what_is_loaded_is_what_was_saved(images, tmp_path):
    ds = every_kind(images)
    saved = ds.save(tmp_path / "saved", seed=4, epochs=2)
    loaded = fb.load(tmp_path / "saved")
    assert loaded.schema == ds.schema
    expected = list(ds.iter(seed=4, epochs=2))
    assert saved == fb.Saved(str(tmp_path / "saved"), len(expected), 1)
    found = list(loaded)
    assert len(found) == len(expected)
    assert all(map(same, found, expected))
    # It can be shuffled, sharded and read through a service as any source.
    shuffled = loaded.shuffle().select("label", "mean").batch(7, drop_remainder=True)
    with fb.up(workers=1) as service:
        there = list(shuffled.distribute(service, job=name(), seed=1))
    assert all(map(same, there, shuffled.iter(seed=1)))
    assert len(there) == len(expected) // 7


DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DTYPES += ["float16", "float32", "float64"]
SHAPES = {"scalar": (), "fixed": (3,), "two": (2, 3), "ragged": (None,), "ragged two": (None, 2), "empty": (0,)}


def number(dtype: str, shape: tuple, row: int) -> np.ndarray:
    """Returns the numbers of a row, different in each."""
    sizes = [row % 4 if size is None else size for size in shape]
    return (np.random.default_rng(row).integers(0, 256, sizes) % (2 if dtype == "bool" else 128)).astype(dtype)


def every_dtype(rows: int) -> fb.Dataset:
    """Returns a column of each dtype and shape, and of each that may be missing."""
    columns = {f"{dtype} {shape}": (dtype, SHAPES[shape]) for dtype in DTYPES for shape in SHAPES}

    def fill(row):
        return {column: number(dtype, shape, int(row["id"])) for column, (dtype, shape) in columns.items()}

    schema = {column: (dtype, shape) if shape else dtype for column, (dtype, shape) in columns.items()}
    ds = fb.range(max(rows, 1)).map(fill, schema=schema, writes=list(schema))
    return ds if rows else ds.filter(fb.col("id") < 0)


@pytest.mark.parametrize("rows", [0, 1, 9])
def test_every_dtype_and_shape_comes_back_as_it_was(rows, tmp_path):
    ds = every_dtype(rows)
    ds.save(tmp_path / "saved")
    loaded = fb.load(tmp_path / "saved")
    assert repr(loaded.schema) == repr(ds.schema)
    assert loaded.schema == ds.schema
    expected, found = list(ds), list(loaded)
    assert len(found) == len(expected) == rows
    assert all(map(same, found, expected))
    # Loaded rows can be saved again, and loaded truth values serve as masks.
    loaded.save(tmp_path / "again")
    assert all(map(same, fb.load(tmp_path / "again"), expected))
    for row in found:
        numbers = np.arange(row["bool ragged"].size)
        assert numbers[row["bool ragged"]].tolist() == [i for i in numbers if row["bool ragged"][i]]


@pytest.mark.parametrize("rows", [0, 12])
def test_what_may_be_missing_comes_back_missing(rows, tmp_path):
    def holes(values: list) -> list:
        return [None if i % 3 == 1 else value for i, value in enumerate(values)][:rows]

    kinds = {dtype: pa.from_numpy_dtype(np.dtype(dtype)) for dtype in DTYPES}
    columns = {
        dtype: pa.array(holes([number(dtype, (), i).item() for i in range(12)]), kind) for dtype, kind in kinds.items()
    }
    columns["text"] = pa.array(holes(["", "a", "naïve"] * 4), pa.string())
    columns["bytes"] = pa.array(holes([b"", b"\0", b"\xff\0"] * 4), pa.binary())
    feather.write_feather(pa.table(columns), str(tmp_path / "holes.arrow"), compression="uncompressed")
    ds = fb.from_arrow(str(tmp_path / "holes.arrow"))
    ds.save(tmp_path / "saved")
    loaded = fb.load(tmp_path / "saved")
    assert repr(loaded.schema) == repr(ds.schema)
    expected, found = list(ds), list(loaded)
    assert len(found) == rows
    assert all(map(same, found, expected))
    # Missing floats are NaN in a sample, and missing in the files.
    assert sum(value is None for row in found for value in row.values()) == (len(columns) - 3) * (rows // 3)
    table = pa.concat_tables([ipc.open_file(file).read_all() for file in (tmp_path / "saved").glob("*.arrow")])
    assert sum(column.null_count for column in table.columns) == len(columns) * (rows // 3)


def test_other_libraries_open_the_files(tmp_path):
    fb.range(5000).with_column("half", fb.col("id") / 2).save(tmp_path / "saved", file_bytes=20_000)
    files = sorted((tmp_path / "saved").glob("part-*.arrow"))
    assert len(files) > 1
    table = pa.concat_tables([ipc.open_file(file).read_all() for file in files])
    assert table["id"].to_pylist() == list(range(5000))
    assert table["half"][3].as_py() == 1.5


SAVE = """
import glob, os, signal, sys, time, forebay as fb
folder = sys.argv[1]
def work(row):
    if str(row["id"]) == os.environ["KILLS_AT"]:
        # Files of rows before this one may still be written.
        while len(glob.glob(folder + "/part-*.arrow")) <= int(os.environ["PARTS"]):
            time.sleep(0.005)
        os.kill(os.getpid(), signal.SIGKILL)
    return {"square": row["id"] ** 2}
ds = fb.range(20_000).map(work, schema={"square": "int64"}, writes="square").shuffle()
print(ds.save(folder, seed=2, threads=2, file_bytes=30_000))
"""


def save(folder: Path, kills: int) -> int:
    """Saves in a separate process, which dies at the sample `kills`, once there is another file: -1 is none."""
    done = subprocess.run(
        [sys.executable, "-c", SAVE, str(folder)],
        env={**os.environ, "KILLS_AT": str(kills), "PARTS": str(len([*folder.glob("part-*.arrow")]))},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


def test_a_save_that_was_killed_goes_on_and_leaves_the_same(tmp_path):
    assert save(tmp_path / "whole", -1) == 0
    whole = parts(tmp_path / "whole")
    order = [int(row["id"]) for row in fb.range(20_000).shuffle().iter(seed=2)]
    killed, counts = tmp_path / "killed", set()
    for place in (5_000, 12_000, 19_990):
        assert save(killed, order[place]) == -signal.SIGKILL
        there = parts(killed)
        counts.add(len([file for file in there if file.endswith(".arrow")]))
        assert all(whole[file] == there[file] for file in there if file.endswith(".arrow"))
    assert len(counts) == 3, "each time it got further"
    with pytest.raises(fb.errors.UnavailableError, match="is being saved"):
        fb.load(killed)
    partial = [int(row["id"]) for row in fb.load(killed, partial=True)]
    assert partial == order[: len(partial)]
    assert partial
    assert save(killed, -1) == 0
    assert parts(killed) == whole
    head = json.loads((killed / "_forebay.json").read_text())
    assert head["complete"] == {"parts": len(whole), "rows": 20_000}
    assert sorted(path.name for path in killed.iterdir()) == sorted([*whole, "_forebay.json", "_lock"])


def test_through_a_service_with_a_killed_worker_it_is_the_same(tmp_path, until):
    def slow(row):
        import time

        time.sleep(0.0005)
        return {"square": row["id"] ** 2}

    ds = fb.range(4000).map(slow, schema={"square": "int64"}, writes="square").shuffle()
    ds.save(tmp_path / "here", seed=3, file_bytes=5_000)
    with fb.up(workers=2, threads=1) as service:
        pid = os.fork()
        if pid == 0:
            # A separate process for the fault, so that no thread of this one disturbs the save.
            try:
                until(lambda: len(list((tmp_path / "there").glob("*.arrow"))) > 1)
                os.kill(service.worker_pids[0], signal.SIGKILL)
            finally:
                os._exit(0)
        saved = ds.save(tmp_path / "there", service=service, seed=3, file_bytes=5_000)
        os.waitpid(pid, 0)
    assert saved.rows == 4000
    assert [same(a, b) for a, b in zip(fb.load(tmp_path / "here"), fb.load(tmp_path / "there"), strict=True)] == [
        True
    ] * 4000


def test_a_folder_belongs_to_one_dataset_and_one_writer(tmp_path):
    folder = tmp_path / "saved"
    assert fb.range(10).save(folder).rows == 10
    before = parts(folder)
    assert fb.range(10).save(folder).rows == 10, "all is there"
    assert parts(folder) == before
    for other in (lambda: fb.range(11).save(folder), lambda: fb.range(10).save(folder, seed=1)):
        with pytest.raises(fb.errors.ConflictError, match="this folder holds 1 epochs of dataset"):
            other()
    assert fb.range(11).save(folder, overwrite=True).rows == 11
    assert len(list(fb.load(folder))) == 11
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("all of it")
    with pytest.raises(fb.errors.ConflictError, match="not empty"):
        fb.range(1).save(tmp_path / "mine")
    import fcntl

    with open(folder / "_lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(fb.errors.ConflictError, match="another process saves"):
            fb.range(11).save(folder)


def test_nothing_is_a_dataset_too(tmp_path):
    ds = fb.range(10).filter(fb.col("id") > 100)
    assert ds.save(tmp_path / "none") == fb.Saved(str(tmp_path / "none"), 0, 1)
    assert list(fb.load(tmp_path / "none")) == []
    assert fb.load(tmp_path / "none").schema == ds.schema


def test_what_cannot_be_saved_or_loaded_says_why(tmp_path):
    with pytest.raises(fb.errors.InvalidPipelineError, match="batches are not kept"):
        fb.range(10).batch(2).save(tmp_path / "a")
    with pytest.raises(fb.errors.InvalidPipelineError, match="a web server is read, not written to"):
        fb.range(10).save("http://127.0.0.1:1/a")
    with pytest.raises(fb.errors.NotFoundError, match="nothing is saved here"):
        fb.load(tmp_path / "a")
    with pytest.raises(fb.errors.InvalidPipelineError, match="never ends"):
        fb.range(10).shuffle().repeat().save(tmp_path / "a")
    with pytest.raises(fb.errors.InvalidPipelineError, match="no name"):
        fb.range(10).save("")
    assert fb.range(10).repeat().take(25).save(tmp_path / "some").rows == 25
    (tmp_path / "file").write_text("")
    with pytest.raises(fb.errors.InvalidPipelineError, match="not a folder that save"):
        fb.load(tmp_path / "file")
    with pytest.raises(fb.errors.InvalidPipelineError, match="a file is where a folder is needed"):
        fb.range(10).save(tmp_path / "file")
    fb.range(10).save(tmp_path / "b")
    head = tmp_path / "b" / "_forebay.json"
    whole = json.loads(head.read_text())
    head.write_text(json.dumps({**whole, "format": 9}))
    with pytest.raises(fb.errors.VersionMismatchError, match="format 9"):
        fb.load(tmp_path / "b")
    head.write_text(json.dumps(whole))
    (tmp_path / "b" / "part-00000000.arrow").unlink()
    with pytest.raises(fb.errors.DataError, match="0 of 1 parts"):
        fb.load(tmp_path / "b")


@pytest.fixture(scope="module")
def foreign() -> pa.Table:
    """Returns columns in the forms of other writers."""
    rng, rows = np.random.default_rng(1), 1000
    tensor = pa.fixed_shape_tensor(pa.float32(), [2, 3])
    flat = pa.FixedSizeListArray.from_arrays(pa.array(rng.standard_normal(6 * rows), pa.float32()), 6)
    return pa.table(
        {
            "i": pa.array(rng.integers(-5, 5, rows), pa.int16()),
            "flag": pa.array(rng.random(rows) < 0.5),
            "name": pa.array([f"row {i}" for i in range(rows)]),
            "word": pa.array([["a", "bc", "d"][i % 3] for i in range(rows)]).dictionary_encode(),
            "raw": pa.array([bytes([i % 256] * (i % 7)) for i in range(rows)], pa.large_binary()),
            "tensor": pa.ExtensionArray.from_storage(tensor, flat),
            "ragged": pa.array([list(range(i % 4)) for i in range(rows)], pa.large_list(pa.int32())),
            "maybe": pa.array([None if i % 10 == 0 else i / 4 for i in range(rows)], pa.float64()),
        }
    )


@pytest.mark.parametrize("compression", ["uncompressed", "lz4", "zstd"])
def test_files_of_other_writers_are_read_as_they_are(foreign, compression, tmp_path):
    file = tmp_path / "a.feather"
    feather.write_feather(foreign, file, compression=compression, chunksize=64)
    ds = fb.from_arrow(file)
    assert str(ds.schema["tensor"].shape) == "(2, 3)"
    assert ds.cardinality == foreign.num_rows
    rows = foreign.to_pylist()
    for found, row in zip(ds, rows, strict=True):
        assert all(found[column] == row[column] for column in ("i", "flag", "name", "word", "raw"))
        assert found["tensor"].ravel().tolist() == list(row["tensor"])
        assert found["ragged"].tolist() == row["ragged"]
        assert np.isnan(found["maybe"]) if row["maybe"] is None else found["maybe"] == row["maybe"]
    some = fb.from_arrow(file, columns=["word", "i"]).shuffle().batch(100)
    found = [pair for batch in some for pair in zip(batch["word"], batch["i"].tolist(), strict=True)]
    assert sorted(found) == sorted((row["word"], row["i"]) for row in rows)


def test_damaged_files_are_errors_or_the_rows_that_they_say(foreign, images, tmp_path):
    """For any changed byte: no crash, no hang, no unbounded memory."""
    every_kind(images).save(tmp_path / "ours")
    feather.write_feather(foreign, tmp_path / "theirs", compression="lz4", chunksize=200)
    rng, kinds = np.random.default_rng(2), []
    for source in (tmp_path / "ours" / "part-00000000.arrow", tmp_path / "theirs"):
        whole = source.read_bytes()
        for turn in range(150):
            damaged = bytearray(whole)
            if turn % 5 == 0:
                damaged = damaged[: rng.integers(0, len(whole))]
            else:
                # Most fields are in the headers and in the footer.
                near_end = turn % 5 in (1, 2)
                at = len(whole) - 1 - int(rng.integers(0, 3000)) if near_end else int(rng.integers(0, len(whole)))
                damaged[at] ^= int(rng.integers(1, 256))
            file = tmp_path / f"damaged-{source.name}-{turn}"
            file.write_bytes(damaged)
            try:
                for _ in fb.from_arrow(file).iter(threads=1):
                    pass
            except fb.errors.ForebayError as error:
                kinds.append(error.kind)
            file.unlink()
    assert "internal" not in kinds
    assert len(kinds) > 60
