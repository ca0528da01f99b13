"""`save` to JSON lines, CSV and TFRecord: `load` gives what was saved, and other programs read the files."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import forebay as fb
import numpy as np
import pyarrow.csv as pa_csv
import pytest
from formats.test_examples import Example
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from iteration.test_save import DTYPES, SHAPES, every_dtype, same

E = fb.errors
TEXTS = st.one_of(
    st.text(max_size=8), st.sampled_from(["", "NA", "null", 'a"b', "a,b", "a\r\nb", " x ", "\ufeff", "1.5"])
)


def floats(width: int) -> st.SearchStrategy[float]:
    return st.floats(width=width, allow_nan=False, allow_infinity=False)


def columns(format: str) -> list[str]:
    """Returns the columns of `every_dtype` that a format holds."""
    refused = {"jsonl": {"ragged two"}, "csv": set(SHAPES) - {"scalar"}, "tfrecord": set()}[format] | {"empty"}
    dtypes = [dtype for dtype in DTYPES if format != "tfrecord" or dtype not in ("uint64", "float64")]
    return [f"{dtype} {shape}" for dtype in dtypes for shape in SHAPES if shape not in refused]


@pytest.mark.parametrize("rows", [0, 9])
@pytest.mark.parametrize("format", ["jsonl", "csv", "tfrecord"])
def test_every_type_that_a_format_holds_comes_back(format, rows, tmp_path):
    ds = every_dtype(rows).select("id", *columns(format))
    ds.save(tmp_path / "saved", format=format, file_bytes=3_000)
    loaded = fb.load(tmp_path / "saved")
    assert loaded.schema == ds.schema
    expected = list(ds)
    assert len(expected) == rows
    assert all(map(same, loaded, expected))
    assert len(list(loaded)) == rows
    assert sorted(int(row["id"]) for row in loaded.shuffle()) == list(range(rows))


@pytest.mark.parametrize("format", ["jsonl", "csv", "tfrecord"])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_values_come_back_missing_ones_too(format, data, tmp_path):
    values: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
        "text": ("string?", st.none() | TEXTS),
        "a.b": ("string", TEXTS),
        "int": ("int64?", st.none() | st.integers(-(2**63), 2**63 - 1)),
        "single": ("float32", floats(32)),
        "on": ("bool?", st.none() | st.booleans()),
    }
    if format != "tfrecord":
        values["double"] = ("float64?", st.none() | floats(64))
        values["id"] = ("uint64", st.integers(0, 2**64 - 1))
    if format != "csv":
        item = TEXTS if format == "tfrecord" else st.none() | TEXTS
        values["tags"] = (("string?", [None]), st.none() | st.lists(item, max_size=3))
        values["bits"] = (("int8", [None]), st.lists(st.integers(-128, 127), max_size=3))
    if format == "tfrecord":
        values["raw"] = ("bytes?", st.none() | st.binary(max_size=5))
    chosen = data.draw(st.lists(st.sampled_from(sorted(values)), min_size=1, unique=True))
    rows = data.draw(st.lists(st.fixed_dictionaries({name: values[name][1] for name in chosen}), max_size=6))
    folder = tmp_path / "saved"

    def made() -> Any:
        yield from rows

    ds = fb.from_generator(made, schema={name: values[name][0] for name in chosen})
    ds.save(folder, format=format, file_bytes=data.draw(st.sampled_from([1, 50, 10_000])), overwrite=folder.exists())
    assert fb.load(folder).schema == ds.schema
    found, expected = list(fb.load(folder)), list(ds)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        # Lists of texts have no bytes to compare.
        assert all(one[n] == other[n] if isinstance(other[n], list) else same(one[n], other[n]) for n in chosen)


def mixed() -> fb.Dataset:
    data = {"n": [1, None, 3], "x": np.float32([0.1, -0.0, 1e30]), "on": [True, False, True]}
    return fb.from_dict({**data, "text": ["", 'naïve, "quoted"\nline', "NA"], "maybe": [None, "", "b"]})


def test_pythons_json_reads_the_lines(tmp_path):
    ds = mixed().with_column("tags", fb.col("text").str.split(","))

    ds.save(tmp_path / "saved", format="jsonl")
    rows = [json.loads(line) for line in (tmp_path / "saved" / "part-00000000.jsonl").read_text("utf-8").splitlines()]
    assert [list(row) for row in rows] == [list(ds.schema)] * 3
    for row, expected in zip(rows, ds, strict=True):
        for name, value in row.items():
            wanted = expected[name].tolist() if isinstance(expected[name], (np.ndarray, np.generic)) else expected[name]
            assert np.float32(value) == np.float32(wanted) if name == "x" else value == wanted
    assert rows[0]["x"] == 0.1
    assert math.copysign(1, rows[1]["x"]) == -1


def test_a_number_that_json_lacks_names_its_sample_and_the_way_out(tmp_path):
    ds = fb.from_dict({"id": [5, 6, 7], "x": [1.0, math.nan, math.inf]})
    with pytest.raises(E.DataError, match='column "x" has NaN or an infinity') as caught:
        ds.save(tmp_path / "saved", format="jsonl")
    assert str(caught.value.context["row"]) == "1"
    assert "is_nan()" in (caught.value.hint or "")
    with pytest.raises(E.UnavailableError):
        fb.load(tmp_path / "saved")
    for format in ("csv", "parquet"):
        ds.save(tmp_path / format, format=format)
        assert all(map(same, fb.load(tmp_path / format), ds))


def test_other_readers_of_csv_read_the_same(tmp_path):
    mixed().save(tmp_path / "saved", format="csv")
    file = tmp_path / "saved" / "part-00000000.csv"
    with open(file, newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert [row["text"] for row in rows] == [row["text"] for row in mixed()]
    assert [row["n"] for row in rows] == ["1", "", "3"]
    options = pa_csv.ConvertOptions(
        strings_can_be_null=True, quoted_strings_can_be_null=False, true_values=["true"], false_values=["false"]
    )
    parsed = pa_csv.read_csv(file, parse_options=pa_csv.ParseOptions(newlines_in_values=True), convert_options=options)
    assert parsed["maybe"].to_pylist() == [None, "", "b"]
    assert parsed["on"].to_pylist() == [True, False, True]
    ours = fb.from_csv(file)
    assert str(ours.schema) == "Schema(n: int64?, x: float64, on: bool, text: string, maybe: string)"


def test_protobuf_reads_the_records(tmp_path):
    ds = mixed().with_column("tags", fb.col("text").str.split(","))
    ds.save(tmp_path / "saved", format="tfrecord")
    records = [bytes(row["record"]) for row in fb.from_tfrecord(tmp_path / "saved" / "*.tfrecord")]
    for record, row in zip(records, ds, strict=True):
        features = Example.FromString(record).features.feature
        assert set(features) == {name for name, value in row.items() if value is not None}
        assert list(features["x"].float_list.value) == [row["x"]]
        assert list(features["on"].int64_list.value) == [int(row["on"])]
        assert list(features["text"].bytes_list.value) == [row["text"].encode()]
        assert [tag.decode() for tag in features["tags"].bytes_list.value] == row["tags"]


@pytest.mark.parametrize("format", ["jsonl", "csv", "tfrecord"])
def test_several_writers_make_one_dataset(format, tmp_path: Path):
    ds = fb.range(1000).shuffle().with_column("text", fb.col("id").cast("string"))
    for rank in (1, 0):
        ds.save(tmp_path / "saved", consumers=(rank, 2), format=format, seed=5, file_bytes=2_000)
    expected = [int(row["id"]) for i in range(2) for row in ds.iter(seed=5, consumers=(i, 2), even=False)]
    assert [int(row["id"]) for row in fb.load(tmp_path / "saved")] == expected
    with pytest.raises(E.ConflictError):
        ds.save(tmp_path / "saved", format=format, seed=6, file_bytes=2_000)


def test_a_missing_text_in_a_list_has_no_place_in_a_record(tmp_path):
    ds = fb.from_dict({"tags": [["a"], ["b", None]]})
    with pytest.raises(E.DataError, match="a text in a list is missing"):
        ds.save(tmp_path / "saved", format="tfrecord")
    ds.save(tmp_path / "lines", format="jsonl")
    assert [row["tags"] for row in fb.load(tmp_path / "lines")] == [["a"], ["b", None]]
