"""Files whose columns differ, read together: pyarrow's result when it unifies their schemas."""

from __future__ import annotations

import tempfile
import uuid
from pathlib import Path
from typing import Any

import forebay as fb
import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pipelines import fingerprint

E = fb.errors
ROWS = 7
WHOLE = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
FLOATS = [pa.float16(), pa.float32(), pa.float64()]
OTHERS = [pa.string(), pa.large_string(), pa.binary(), pa.bool_(), pa.null(), pa.timestamp("ms"), pa.timestamp("us")]
TIMES = [pa.timestamp("ms"), pa.timestamp("us")]


def column(kind: pa.DataType, missing: bool) -> pa.Array:
    """Values at both ends of a type."""
    plain: list[Any] = [None] * ROWS
    if pa.types.is_integer(kind):
        signed = pa.types.is_signed_integer(kind)
        high = 2 ** (kind.bit_width - signed) - 1
        plain = [-high - 1 if signed else 0, high, 1, 2, 3, 4, 5]
    elif pa.types.is_floating(kind):
        plain = list(np.array([0.1, -3.5, 1e4, 0, 1, 2, 3], kind.to_pandas_dtype()))
    elif kind != pa.null():
        plain = {pa.bool_(): [True, False], pa.binary(): [b"\0", b""]}.get(kind, [1, 2] if kind in TIMES else ["é", ""])
        plain = (plain * ROWS)[:ROWS]
    return pa.array([None if missing and i == 4 else value for i, value in enumerate(plain)], kind)


KINDS = st.sampled_from(WHOLE) | st.sampled_from(FLOATS) | st.sampled_from(OTHERS)
TABLES = st.lists(
    st.dictionaries(st.sampled_from("abc"), st.tuples(KINDS, st.booleans()), max_size=3), min_size=2, max_size=4
)


def plain(value: Any) -> Any:
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.item()
    return None if isinstance(value, float) and np.isnan(value) else value


def together(kinds: list[pa.DataType]) -> pa.DataType | None:
    """Returns the type as which numbers of these types are read, by pyarrow if it loses nothing; None if refused."""
    known = [kind for kind in kinds if kind != pa.null()]
    ours = {pa.large_string(): pa.string()}
    known = list(dict.fromkeys(ours.get(kind, kind) for kind in known)) or [pa.null()]
    if len(known) == 1:
        return known[0]
    if not all(kind in WHOLE for kind in known) and not all(kind in FLOATS for kind in known):
        return None
    schemas = [pa.schema([("x", kind)]) for kind in known]
    kind = pa.unify_schemas(schemas, promote_options="permissive").field("x").type
    is_mixed = pa.uint64() in known and any(pa.types.is_signed_integer(k) for k in known)
    return None if is_mixed else kind


@settings(max_examples=150, deadline=None)
@given(TABLES, st.sampled_from(["parquet", "feather"]))
def test_files_together_are_what_pyarrow_makes_of_them(tables, format):
    kinds: dict[str, list[pa.DataType]] = {}
    for table in tables:
        for name, (kind, _) in table.items():
            kinds.setdefault(name, []).append(kind)
    want = {name: together(of) for name, of in kinds.items()}
    with tempfile.TemporaryDirectory() as root:
        for number, table in enumerate(tables):
            made = pa.table({"id": pa.array(range(ROWS)), **{name: column(*of) for name, of in table.items()}})
            path = f"{root}/{number}.{format}"
            pq.write_table(made, path, row_group_size=3) if format == "parquet" else feather.write_feather(made, path)
        read = fb.from_parquet if format == "parquet" else fb.from_arrow
        good = [name for name, kind in want.items() if kind is not None]
        if good != list(want):
            with pytest.raises(E.DataError) as caught:
                read(root, merge_schemas=True)
            assert Path(caught.value.context["file"]).parent == Path(root)
        ds = read(root, merge_schemas=True, columns=["id", *good])
        schema = pa.schema([("id", pa.int64())] + [(name, want[name]) for name in good])
        table = pads.dataset(root, format=format, schema=schema).to_table()
        table = pa.table(
            {
                n: c.cast(pa.int64()) if c.type in TIMES else c
                for n, c in zip(table.column_names, table.columns, strict=True)
            }
        )
        assert [{k: plain(v) for k, v in row.items()} for row in ds] == table.to_pylist()
        for name in good:
            present = [table[name] for table in tables if name in table]
            dtype, shape = str(ds.schema).split(f"{name}: ")[1].split(",")[0].split(" (")[0].rstrip(")"), want[name]
            lacks = len(present) < len(tables) or any(missing or kind == pa.null() for kind, missing in present)
            # Arrow files have no counts, so the writer's flag stands, and pyarrow sets it for all columns.
            assert dtype.endswith("?") == (lacks or format == "feather")
            if shape in WHOLE + FLOATS:
                assert dtype.rstrip("?") == np.dtype(shape.to_pandas_dtype()).name


@pytest.fixture
def grown(tmp_path):
    """Three files: the last has a column more, and wider numbers."""
    for number in range(3):
        kind = pa.int64() if number == 2 else pa.int32()
        columns = {"x": pa.array(range(number * ROWS, (number + 1) * ROWS), kind)}
        if number == 2:
            columns["y"] = pa.array([f"y{i}" for i in range(ROWS)])
        pq.write_table(pa.table(columns), tmp_path / f"{number}.parquet", row_group_size=3)
    return tmp_path


def test_it_has_to_be_asked_for(grown):
    with pytest.raises(E.DataError, match='column "x" is int64 in this file, and int32 in the first') as caught:
        list(fb.from_parquet(grown))
    assert "merge_schemas=True" in caught.value.hint
    with pytest.raises(E.InvalidPipelineError, match="merge_schemas='yes' is not a bool"):
        fb.from_parquet(grown, merge_schemas="yes")


@pytest.mark.parametrize("window", [None, 8])
def test_the_same_rows_in_every_order_and_on_a_service(grown, window):
    ds = fb.from_parquet(grown, merge_schemas=True)
    assert str(ds.schema) == "Schema(x: int64, y: string?)"
    assert ds.cardinality == 3 * ROWS
    want = {i: None if i < 2 * ROWS else f"y{i - 2 * ROWS}" for i in range(3 * ROWS)}
    shuffled = ds.shuffle(window=window).batch(4)
    batches = list(shuffled.iter(seed=3))
    assert {int(x): y for batch in batches for x, y in zip(batch["x"], batch["y"], strict=True)} == want
    assert [row["y"] for row in ds.select("y").shuffle(window=window).iter(seed=3)].count(None) == 2 * ROWS
    with fb.up(workers=2, threads=1) as service:
        there = shuffled.distribute(service, job=f"job-{uuid.uuid4()}", seed=3)
        assert [fingerprint(batch) for batch in there] == [fingerprint(batch) for batch in batches]


def test_what_may_not_be_missing_is_named(grown):
    with pytest.raises(E.DataError, match='column "y" is not in this file, and string in others') as caught:
        fb.from_parquet(grown, merge_schemas=True, nullable=[])
    assert caught.value.context["file"] == str(grown / "0.parquet")
    assert "nullable=" in caught.value.hint
    ds = fb.from_parquet(grown, merge_schemas=True, nullable="y")
    pq.write_table(pa.table({"y": ["a"]}), grown / "3.parquet")
    with pytest.raises(E.DataError, match='column "x" is not in this file') as caught:
        list(ds)
    assert caught.value.context["file"] == str(grown / "3.parquet")
    pq.write_table(pa.table({"x": [1], "v": [[1, 2]]}), grown / "3.parquet")
    with pytest.raises(E.DataError, match=r'column "v" is not in this file, and int64\[\?\] in others'):
        fb.from_parquet(grown, merge_schemas=True)


def test_times_are_of_one_unit_also_where_the_first_files_have_none(tmp_path):
    write = lambda name, **columns: pq.write_table(pa.table({"x": [1], **columns}), tmp_path / name)  # noqa: E731
    when = lambda unit: pa.array([5], pa.timestamp(unit))  # noqa: E731
    write("0.parquet")
    write("1.parquet", at=when("ms"))
    ds = fb.from_parquet(tmp_path, merge_schemas=True)
    assert [row["at"] for row in ds] == [None, 5]
    for other, says in [(when("us"), r"timestamp\[us\]"), (pa.array([5]), "no time")]:
        write("2.parquet", at=other)
        for read in (lambda: list(ds), lambda: fb.from_parquet(tmp_path, merge_schemas=True)):
            with pytest.raises(
                E.DataError, match=f'column "at" is {says} in this file, and timestamp.ms. in'
            ) as caught:
                read()
            assert caught.value.context["file"] == str(tmp_path / "2.parquet")


def test_columns_of_paths_and_structs_that_grew(tmp_path):
    for year, point in [(1, {"lat": 1.0}), (2, {"lat": 2.0, "lon": 3.0})]:
        (tmp_path / f"year={year}").mkdir()
        pq.write_table(pa.table({"at": [point]}), tmp_path / f"year={year}" / "0.parquet")
    ds = fb.from_parquet(tmp_path, merge_schemas=True)
    assert str(ds.schema) == "Schema(at.lat: float64, at.lon: float64?, year: int64)"
    assert [(row["at.lat"], plain(row["at.lon"]), row["year"]) for row in ds] == [(1.0, None, 1), (2.0, 3.0, 2)]
