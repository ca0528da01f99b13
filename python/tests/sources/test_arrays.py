"""Inputs come out unchanged: dtypes, shapes, missing values, and the ownership of memory."""

from __future__ import annotations

import gc

import forebay as fb
import numpy as np
import pytest

DTYPES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
]


def one_batch(ds: fb.Dataset, n: int = 100) -> dict:
    (batch,) = list(ds.batch(n))
    return batch


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,), (1, 1, 4)])
def test_every_dtype_and_shape_comes_back_as_it_went_in(dtype, shape):
    data = np.random.default_rng(0).integers(0, 2 if dtype == "bool" else 100, (7, *shape)).astype(dtype)
    ds = fb.from_numpy({"x": data})
    assert ds.schema["x"] == (dtype, shape)
    batch = one_batch(ds)
    assert batch["x"].dtype == data.dtype
    np.testing.assert_array_equal(batch["x"], data)
    row = next(iter(ds))
    assert np.asarray(row["x"]).dtype == data.dtype
    assert np.shape(row["x"]) == shape


def test_bytes_strings_and_ragged_arrays_are_object_arrays():
    data = {
        "b": [b"", b"\0\xff", b"abc"],
        "s": ["", "ä€😀", "x" * 1000],
        "r": [np.arange(i, dtype=np.int16) for i in (3, 0, 5)],
    }
    ds = fb.from_dict(data)
    assert ds.schema["r"] == ("int16", (None,))
    rows = list(ds)
    assert [r["b"] for r in rows] == data["b"]
    assert [r["s"] for r in rows] == data["s"]
    assert all(type(r["b"]) is bytes and type(r["s"]) is str for r in rows)
    for row, want in zip(rows, data["r"], strict=True):
        assert row["r"].dtype == np.int16
        np.testing.assert_array_equal(row["r"], want)
    batch = one_batch(ds.drop("r"))
    assert batch["b"].dtype == object
    assert batch["s"].tolist() == data["s"]


def test_missing_values_are_none_nan_or_masked():
    ds = fb.from_dict({"i": [1, None, 3], "f": [0.5, None, 2.5], "s": ["a", None, "c"], "b": [None, b"x", b""]})
    assert ds.schema.nullable == {"i", "f", "s", "b"}
    batch = one_batch(ds)
    assert isinstance(batch["i"], np.ma.MaskedArray)
    assert batch["i"].tolist() == [1, None, 3]
    np.testing.assert_array_equal(batch["f"], [0.5, np.nan, 2.5])
    assert batch["s"].tolist() == ["a", None, "c"]
    assert batch["b"].tolist() == [None, b"x", b""]
    rows = list(ds)
    assert rows[1]["i"] is None
    assert rows[1]["s"] is None
    assert np.isnan(rows[1]["f"])


def test_nested_dictionaries_have_dotted_names():
    ds = fb.from_dict({"a": {"b": [1, 2], "c": {"d": [b"x", b"y"]}}, "e": [0.5, 1.5]})
    assert list(ds.schema) == ["a.b", "a.c.d", "e"]
    mapped = fb.range(2).map(lambda row: {"x": {"id": row["id"], "half": row["id"] / 2}})
    assert list(mapped.schema) == ["x.id", "x.half"]
    assert [r["x.half"] for r in mapped] == [0.0, 0.5]


def test_batches_share_the_engines_memory():
    ds = fb.from_numpy({"x": np.arange(4096, dtype=np.float32)}).with_column("y", fb.col("x") * 2).batch(1024)
    batches = list(ds)
    base = batches[0]["y"]
    while isinstance(base.base, np.ndarray):
        base = base.base
    memory = base.base.obj if isinstance(base.base, memoryview) else base.base
    assert type(memory).__name__ == "Memory"


def test_computed_arrays_are_writable_and_changes_stay_with_the_caller():
    ds = fb.range(64).shuffle().with_column("y", fb.col("id") * 2).batch(32)
    first = [b["y"].copy() for b in ds]
    for batch in ds:
        if batch["y"].flags.writeable:
            batch["y"][:] = -1
    for batch, want in zip(ds, first, strict=True):
        np.testing.assert_array_equal(batch["y"], want)


def test_source_arrays_cannot_be_written_through_a_batch():
    data = np.arange(10)
    ds = fb.from_numpy({"x": data}).batch(10)
    for _ in range(2):
        batch = next(iter(ds))
        if batch["x"].flags.writeable:
            batch["x"][:] = 99
    np.testing.assert_array_equal(next(iter(ds))["x"], np.arange(10))
    np.testing.assert_array_equal(data, np.arange(10))


def test_arrays_outlive_their_iterator():
    ds = fb.range(1000).with_column("y", fb.col("id") + 1).batch(100)
    it = ds.iter(threads=2)
    kept = [next(it)["y"] for _ in range(3)]
    it.close()
    del it
    gc.collect()
    np.testing.assert_array_equal(np.concatenate(kept), np.arange(1, 301))


def test_rows_are_numpy_scalars_and_views():
    row = next(iter(fb.from_numpy({"x": np.ones((2, 3), np.float32), "y": np.array([5, 6], np.uint8)})))
    assert isinstance(row["y"], np.uint8)
    assert row["x"].shape == (3,)


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 1000])
def test_every_size_is_whole(n):
    ds = fb.from_numpy({"x": np.arange(n)})
    assert ds.cardinality == n
    assert [int(r["x"]) for r in ds] == list(range(n))
    assert [len(b["x"]) for b in ds.batch(64)] == [64] * (n // 64) + [n % 64] * (n % 64 > 0)
    assert [len(b["x"]) for b in ds.batch(64, drop_remainder=True)] == [64] * (n // 64)
