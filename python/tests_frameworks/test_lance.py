"""Lance data sets, compared with the rows that the library itself reads."""

from __future__ import annotations

import itertools
import pickle
import shutil
import sys
import uuid
from pathlib import Path
from typing import Any

import forebay as fb
import lance
import numpy as np
import pyarrow as pa
import pytest
from forebay import errors as E

ROWS = 700


def table(rows: int = ROWS, add: int = 0) -> pa.Table:
    """Each type that can be read, with missing values in the columns that allow them."""
    rng = np.random.default_rng(rows + add)
    numbers = np.arange(rows) + add
    some = [None if n % 7 == 3 else n for n in numbers.tolist()]
    floats = rng.standard_normal(rows * 4)
    types = (pa.int8, pa.int16, pa.int32, pa.int64, pa.uint8, pa.uint16, pa.uint32, pa.uint64)
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(floats, pa.float32()), 4)
    nested = pa.FixedSizeListArray.from_arrays(pa.FixedSizeListArray.from_arrays(pa.array(floats, pa.float16()), 2), 2)
    return pa.table(
        {
            "n": numbers,
            **{str(t()): pa.array([None if n is None else n % 100 for n in some], t()) for t in types},
            "float16": pa.array([None if n is None else n / 2 for n in some], pa.float16()),
            "float32": pa.array([None if n is None else n / 3 for n in some], pa.float32()),
            "float64": pa.array(floats[:rows]),
            "bool": pa.array([None if n is None else n % 2 == 0 for n in some]),
            "text": pa.array([None if n is None else f"row {n} ä" for n in some]),
            "large_text": pa.array([f"row {n}" for n in numbers], pa.large_string()),
            "raw": pa.array([None if n is None else bytes(n % 9) for n in some], pa.binary()),
            "raw_of_4": pa.array([int(n).to_bytes(4, "big") for n in numbers], pa.binary(4)),
            "ids": pa.array([list(range(n % 5)) for n in numbers], pa.list_(pa.int32())),
            "flags": pa.array([[n % 2 == 0] * (n % 3) for n in numbers], pa.large_list(pa.bool_())),
            "fixed": fixed,
            "nested": nested,
            "mask": pa.array([[n % 2 == 0, True] for n in numbers], pa.list_(pa.bool_(), 2)),
        }
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three fragments, of which rows were deleted."""
    made = tmp_path / "train.lance"
    lance.write_dataset(table(), made, max_rows_per_file=300)
    lance.dataset(made).delete("n % 11 = 5")
    return made


def plain(value: Any) -> Any:
    """Returns a value as pyarrow gives it. NaN becomes `None`, because it does not equal itself."""
    value = value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
    return None if isinstance(value, float) and value != value else value


def rows(batches) -> list[dict[str, Any]]:
    return [{name: plain(value) for name, value in row.items()} for row in batches]


def theirs(folder: Path) -> list[dict[str, Any]]:
    return [{name: plain(value) for name, value in row.items()} for row in lance.dataset(folder).to_table().to_pylist()]


def numbers(batches) -> list[int]:
    return [int(n) for batch in batches for n in batch["n"]]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("executor", ["thread", "process"])
def test_every_row_comes_as_the_library_reads_it(folder, threads, executor):
    ds = fb.from_lance(folder)
    how = {"threads": threads, "executor": executor}
    want = theirs(folder)
    assert len(want) == ds.cardinality == lance.dataset(folder).count_rows() < ROWS
    assert rows(ds.iter(**how)) == want
    got = rows(ds.shuffle().iter(seed=3, **how))
    order = [int(row["id"]) for row in fb.range(len(want)).shuffle().iter(seed=3)]
    assert got == [want[row] for row in order]
    assert sorted(row["n"] for row in got) == [row["n"] for row in want]


def test_columns_have_the_types_of_the_data_set(folder):
    schema = str(fb.from_lance(folder).schema)
    for column in ("n: int64?", "uint16: uint16?", "float16: float16?", "bool: bool?", "raw_of_4: bytes?",
                   "large_text: string?", "ids: int32[?]", "flags: bool[?]", "fixed: float32[4]",
                   "nested: float16[2, 2]", "mask: bool[2]"):  # fmt: skip
        assert f" {column}," in f" {schema[7:-1]},"
    ds = fb.from_lance(folder, columns=["fixed", "n"], nullable=[])
    assert str(ds.schema) == "Schema(fixed: float32[4], n: int64)"
    batch = next(iter(ds.batch(8)))
    first = lance.dataset(folder).take(list(range(8)))
    assert batch["n"].tolist() == first["n"].to_pylist()
    assert batch["fixed"].tolist() == first["fixed"].to_pylist()
    assert not isinstance(batch["n"], np.ma.MaskedArray)


def test_a_run_goes_on_from_the_middle(folder):
    ds = fb.from_lance(folder, columns="n").shuffle().batch(16)
    it = ds.iter(seed=5, epochs=2)
    list(itertools.islice(it, 50))
    state = it.state_dict()
    rest = numbers(it)
    again = fb.from_lance(folder, columns="n").shuffle().batch(16).iter(seed=5, epochs=2, threads=3)
    again.load_state_dict(state)
    assert numbers(again) == rest
    assert len(rest) > 400


def test_a_service_gives_the_same(folder):
    ds = fb.from_lance(folder, columns=["n", "text", "fixed"]).shuffle().batch(16)
    want = numbers(ds.iter(seed=7))
    with fb.up(workers=2, threads=1) as service:
        assert numbers(ds.distribute(service, job=uuid.uuid4().hex, seed=7)) == want


def test_the_version_is_pinned(folder):
    ds = fb.from_lance(folder, columns=["n"])
    before = numbers(ds.batch(50))
    it = ds.batch(50).iter()
    first = numbers([next(it)])
    lance.write_dataset(table(90, add=5000), folder, mode="append")
    lance.dataset(folder).delete("n < 40")
    assert first + numbers(it) == before == numbers(ds.batch(50))
    again = fb.from_lance(folder, columns=["n"], version=2)
    assert again.dataset_id == ds.dataset_id == pickle.loads(pickle.dumps(ds)).dataset_id
    new = fb.from_lance(folder, columns=["n"])
    assert new.dataset_id != ds.dataset_id
    assert numbers(new.batch(50)) == [n for n in before if n >= 40] + list(range(5000, 5090))
    lance.dataset(folder).tags.create("old", 1)
    assert numbers(fb.from_lance(folder, columns=["n"], version="old").batch(50)) == list(range(ROWS))


def test_a_data_set_that_was_written_anew_is_another_one(folder):
    """The versions of the new data set have the numbers of the old versions."""
    ds = fb.from_lance(folder, columns=["n"], version=1)
    shutil.rmtree(folder)
    lance.write_dataset(table(add=1), folder)
    with pytest.raises(E.FunctionError, match="version 1 is another one"):
        list(ds.iter(on_error="skip", error_budget=1.0))
    assert fb.from_lance(folder, columns=["n"], version=1).dataset_id != ds.dataset_id
    shutil.rmtree(folder)
    with pytest.raises(E.FunctionError, match="version 1 cannot be opened"):
        list(ds)


UNREAD = {
    "time": pa.array([1, 2], pa.timestamp("us")),
    "decimal": pa.array([1, 2]).cast(pa.decimal128(21, 2)),
    "texts": pa.array([["a"], []]),
    "lists": pa.array([[[1]], []]),
    "pair": pa.array([{"a": 1}] * 2),
    "word": pa.array(["a", "b"]).dictionary_encode(),
}


@pytest.mark.parametrize("name", [*UNREAD, "blob"])
def test_a_column_of_another_type_is_refused_by_its_name(name, tmp_path):
    column = UNREAD.get(name, pa.array([b"a", b"b"], pa.large_binary()))
    is_blob = {"lance-encoding:blob": "true"} if name == "blob" else None
    schema = pa.schema([("x", pa.int64()), pa.field(name, column.type, metadata=is_blob)])
    # Later formats of files keep blobs as an extension type.
    options = {"data_storage_version": "2.0"} if name == "blob" else {}
    lance.write_dataset(pa.table([[1, 2], column], schema=schema), tmp_path / "other.lance", **options)
    with pytest.raises(E.InvalidPipelineError, match=f"column '{name}' is ") as caught:
        fb.from_lance(tmp_path / "other.lance")
    assert caught.value.context["column"] == name
    assert [int(row["x"]) for row in fb.from_lance(tmp_path / "other.lance", columns=["x"])] == [1, 2]


@pytest.mark.parametrize(("column", "options"), [("list", {}), ("part", {}), ("x", {"nullable": ["text"]})])
def test_a_row_that_lacks_what_it_must_have_is_to_blame_alone(column, options, tmp_path):
    vector = pa.list_(pa.float32(), 2)
    columns = {"x": [7, None, 9], "text": [None, "b", "c"], "list": pa.array([[1, 2], None, [3, 4]], vector)}
    columns["part"] = pa.array([[1, 2], [None, 3], []], pa.list_(pa.int32()))
    lance.write_dataset(pa.table(columns), tmp_path / "rows.lance")
    ds = fb.from_lance(tmp_path / "rows.lance", columns=[column, "text"], **options)
    with pytest.raises(E.FunctionError, match=f"column '{column}' of row 1 is missing"):
        list(ds)
    assert [row["text"] for row in ds.iter(on_error="skip", error_budget=1)] == [None, "c"]


def test_what_is_not_there_is_an_error(folder, monkeypatch):
    for nothing, version in ((folder.parent / "none.lance", None), (folder, 99), (folder, "none")):
        with pytest.raises(E.MissingFileError) as caught:
            fb.from_lance(nothing, version=version)
        assert caught.value.context["file"] == str(nothing)
    with pytest.raises(E.InvalidPipelineError, match="cannot be opened"):
        fb.from_lance("nowhere://bucket/train.lance")
    for columns in ({"columns": ["txt"]}, {"nullable": ["txt"]}):
        with pytest.raises(E.NotFoundError, match='did you mean "text"'):
            fb.from_lance(folder, **columns)
    for columns in ([], ["n", "n"]):
        with pytest.raises(E.InvalidPipelineError, match="column"):
            fb.from_lance(folder, columns=columns)
    ds = fb.from_lance(folder)
    monkeypatch.setitem(sys.modules, "lance", None)
    with pytest.raises(E.FunctionError, match="pip install pylance"):
        list(ds.iter(on_error="skip", error_budget=1.0))
    with pytest.raises(E.UnavailableError, match=r"pip install pylance") as caught:
        fb.from_lance(folder)
    assert caught.value.hint == "pip install pylance"


def test_storage_options_reach_the_library_wherever_it_opens_the_data_set(folder, monkeypatch):
    seen, real = [], lance.dataset

    def dataset(*arguments, **options):
        seen.append(options["storage_options"])
        return real(*arguments, **options)

    monkeypatch.setattr(lance, "dataset", dataset)
    options = {"timeout": "30s"}
    assert len(list(fb.from_lance(folder, columns=["n"], storage_options=options).iter(threads=1))) > 0
    assert seen == [options, options], "here, and where the rows are read"
