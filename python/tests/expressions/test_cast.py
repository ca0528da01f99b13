"""Casts between numbers, strings and bytes, beside NumPy's and Python's; failing casts, on any side of the boundary."""

from __future__ import annotations

from itertools import chain

import forebay as fb
import numpy as np
import pytest
from forebay import errors
from pipelines import name

ROWS = 5000
NUMBERS = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = {"float16": np.uint16, "float32": np.uint32, "float64": np.uint64}


def cast(values: np.ndarray, to: str) -> np.ndarray:
    (batch,) = fb.from_dict({"x": values}).cast(x=to).batch(len(values))
    return batch["x"]


def every_kind_of(dtype: str) -> np.ndarray:
    """Returns numbers of any bits, those in common use, and the borders of the notations."""
    rng = np.random.default_rng(5)
    if dtype not in FLOATS:
        kind = np.dtype(dtype)
        return rng.integers(0, 2**63, ROWS, dtype=np.uint64).view(np.int64).astype(kind)
    bits = rng.integers(0, np.iinfo(FLOATS[dtype]).max, ROWS, dtype=FLOATS[dtype], endpoint=True).view(dtype)
    common = np.concatenate([np.arange(-50, 50) / 4, 10.0 ** np.arange(-8, 20), 10.0 ** np.arange(-8, 20) * 1.5])
    corners = [0.0, -0.0, np.inf, -np.inf, np.nan, 9999999999999998, 1e16, 0.0001, 0.00009999, 65504, 6e-8]
    with np.errstate(over="ignore"):
        return np.concatenate([bits, common.astype(dtype), np.array(corners).astype(dtype)])


def written(value: np.generic) -> str:
    """Writes a number as Python does: NumPy finds the digits of the smaller floats, which Python lacks."""
    if not isinstance(value, np.floating) or not np.isfinite(value):
        return str(value)
    if value == 0 or 1e-4 <= abs(float(np.format_float_scientific(value))) < 1e16:
        return np.format_float_positional(value, trim="0")
    return np.format_float_scientific(value, trim="-", exp_digits=2)


@pytest.mark.parametrize("dtype", [*NUMBERS, *FLOATS])
def test_numbers_are_written_as_python_writes_them_and_read_back(dtype):
    values = every_kind_of(dtype)
    want = [written(value) for value in values]
    assert dtype != "float64" or want == [repr(float(value)) for value in values]
    strings = cast(values, "string")
    assert strings.tolist() == want
    assert cast(values, "bytes").tolist() == [text.encode() for text in want]
    for texts in (strings, cast(values, "bytes")):
        back = cast(texts, dtype)
        np.testing.assert_array_equal(back, values)
        assert back.dtype == dtype


def test_strings_and_bytes_are_each_others_utf8_and_what_is_missing_stays_so():
    rows = [{"x": text} for text in ("", "ä", None, "日本", "a\0b")]
    given = fb.from_generator(lambda: iter(rows), schema={"x": "string?"})
    ds = given.with_column("raw", fb.col("x").cast(bytes)).with_column("y", fb.col("raw").cast(str))
    assert str(ds.schema["raw"]) == "bytes"
    assert ds.schema.nullable == {"x", "raw", "y"}
    for row, wanted in zip(ds, rows, strict=True):
        text = wanted["x"]
        assert (row["y"], row["raw"]) == (text, None if text is None else text.encode())


def test_literals_become_texts():
    ds = fb.range(2).select([]).with_column("a", fb.lit(3).cast(str)).with_column("b", fb.lit("ä").cast(bytes))
    ds = ds.with_column("c", fb.lit(0.5).cast(bytes)).with_column("d", fb.lit(True).cast(str))
    assert [tuple(row.values()) for row in ds] == [("3", "ä".encode(), b"0.5", "True")] * 2


def test_what_a_tensor_does_not_become_is_said_where_it_is_written():
    with pytest.raises(errors.InvalidPipelineError, match=r"cannot cast float64\[2\] to string"):
        fb.from_dict({"x": np.zeros((3, 2))}).cast(x=str)
    with pytest.raises(errors.InvalidPipelineError, match="unknown dtype 'object'"):
        fb.range(3).cast(id=list)


def test_bytes_that_are_not_utf8_fail_alone():
    rows = [b"fine", b"\xff\xfe", "ä".encode(), b"ab\xc3"]
    ds = fb.from_dict({"x": rows}).cast(x="string")
    with pytest.raises(errors.DataError, match=r'cannot read b"\\xff\\xfe" as string: byte 0 is not UTF-8'):
        list(ds)
    assert [row["x"] for row in ds.iter(on_error="skip", error_budget=2)] == ["fine", "ä"]


def test_a_cast_that_fails_is_left_out_on_a_service_as_in_process(service):
    """Ops at the end that only enlarge rows run at the consumer, where no op may fail."""
    rows = 64
    labels = ["no number" if i % 7 == 3 else str(i) for i in range(rows)]
    images = np.arange(rows * 64 * 64 * 3, dtype=np.uint64).astype(np.uint8).reshape(rows, 64, 64, 3)
    ds = fb.from_dict({"image": images, "label": np.array(labels, dtype=object)})
    ds = ds.cast(image="float32", label="int64").batch(8)
    skipped = {"on_error": "skip", "error_budget": rows}
    with ds.iter(**skipped) as here:
        want = [batch["label"].tolist() for batch in here]
    with ds.distribute(service, job=name(), **skipped).iter() as there:
        got = [batch["label"].tolist() for batch in there]
    assert got == want
    assert sorted(chain.from_iterable(got)) == [i for i in range(rows) if i % 7 != 3]
