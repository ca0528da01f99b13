"""Iceberg tables, compared with the rows that the library itself reads."""

from __future__ import annotations

import datetime as dt
import decimal
import doctest
import sys
from pathlib import Path
from typing import Any

import forebay as fb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from forebay import errors as E
from forebay._src.sources import iceberg_source
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import FileScanTask
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, DecimalType, DoubleType, LongType, StringType

#: The types that the table has in the end, and its first ones.
FIRST = pa.schema(
    [
        ("x", pa.int32()),
        ("day", pa.date32()),
        ("ratio", pa.float32()),
        ("price", pa.decimal128(5, 2)),
        ("time", pa.timestamp("us")),
        ("zoned", pa.timestamp("us", "UTC")),
        ("nested", pa.struct([("a", pa.int64()), ("b", pa.struct([("c", pa.string())]))])),
        ("ids", pa.list_(pa.int64())),
        ("name", pa.string()),
        ("raw", pa.binary()),
        ("clock", pa.time64("us")),
    ]
)


def table(rows: int = 40, add: int = 0, schema: pa.Schema = FIRST) -> pa.Table:
    some = range(rows)
    values = {
        "x": [None if i % 7 == 3 else i + add for i in some],
        "day": [None if i % 5 == 0 else dt.date(2024, 1, 1 + i % 3) for i in some],
        "ratio": [i / 3 for i in some],
        "price": [decimal.Decimal(i % 2) / 4 for i in some],
        "time": [i * 10**6 + 5 for i in some],
        "zoned": [i * 10**6 for i in some],
        "nested": [{"a": i, "b": {"c": f"ä{i}"}} for i in some],
        "ids": [list(range(i % 3)) for i in some],
        "name": ["a b/%=ü" if i % 2 else "z" for i in some],
        "raw": [bytes(i % 3) for i in some],
        "clock": [dt.time(1, 2, 3, i) for i in some],
    }
    return pa.table({field.name: pa.array(values[field.name], field.type) for field in schema}, schema=schema)


@pytest.fixture
def lake(tmp_path: Path) -> SqlCatalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/lake")
    catalog.create_namespace("n")
    return catalog


def plain(value: Any) -> Any:
    """Returns a value of Python; nan, which stands for a missing float, as `None`, which equals itself."""
    value = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    return None if value != value else value


def rows(ds: fb.Dataset, names: Any = None, **how: Any) -> list[Any]:
    return [tuple(plain(row[name]) for name in names or ds.schema) for row in ds.iter(**how)]


def theirs(given: Any, names: Any, **how: Any) -> list[Any]:
    return sorted(rows(fb.from_table(given.scan(**how).to_arrow()), names), key=repr)


@pytest.mark.parametrize("by", [None, "day", "name"])
def test_rows_are_those_of_the_library(lake, by):
    made = lake.create_table("n.t", schema=FIRST)
    if by:
        with made.update_spec() as spec:
            spec.add_field(by, IdentityTransform())
    made.append(table())
    made.append(table(20, add=100))
    ds = fb.from_iceberg(made)
    assert sorted(rows(ds), key=repr) == theirs(made, ds.schema)
    of_table = fb.from_table(table()).schema
    assert ([*ds.schema.items()], ds.schema.times) == ([*of_table.items()], of_table.times)
    assert ds.schema.nullable == {"x", "day"}
    assert rows(fb.from_iceberg(made.metadata_location)) == rows(ds)
    condition = (fb.col("day").dt >= dt.date(2024, 1, 2)) & (fb.col("nested.a") > 5)
    found = fb.from_iceberg(made, columns=["x", "name"], filters=condition)
    assert rows(found) == rows(ds.filter(condition), ["x", "name"])


def test_a_snapshot_stays_what_it_was(lake):
    made = lake.create_table("n.t", schema=FIRST)
    assert rows(fb.from_iceberg(made)) == []
    made.append(table())
    ds, first = fb.from_iceberg(made), made.current_snapshot().snapshot_id
    made.manage_snapshots().create_tag(first, "gold").commit()
    before = rows(ds)
    made.delete("x < 10")
    made.overwrite(table(3, add=50), overwrite_filter="x > 30")
    made.append(table(20, add=100))
    assert (
        rows(ds)
        == before
        == rows(fb.from_iceberg(made, snapshot_id=first))
        == rows(fb.from_iceberg(made, snapshot_id="gold"))
    )
    for snapshot in made.snapshots():
        at = fb.from_iceberg(made, snapshot_id=snapshot.snapshot_id)
        assert sorted(rows(at), key=repr) == theirs(made, ds.schema, snapshot_id=snapshot.snapshot_id)
    with pytest.raises(E.NotFoundError, match="no snapshot 77"):
        fb.from_iceberg(made, snapshot_id=77)


def test_columns_that_were_added_and_widened(lake):
    made = lake.create_table("n.t", schema=FIRST)
    made.append(table())
    with made.update_schema() as change:
        change.update_column("x", LongType())
        change.update_column("ratio", DoubleType())
        change.update_column("price", DecimalType(9, 2))
        change.add_column("label", StringType())
        change.add_column(("nested", "later"), DateType())
        change.move_first("label")
    condition = (fb.col("x") * 2**40 > 2**41) & fb.col("label").is_null()
    for _ in range(2):
        ds = fb.from_iceberg(made)
        assert sorted(rows(ds), key=repr) == theirs(made, ds.schema)
        types = {name: str(ds.schema[name]) for name in ("label", "x", "ratio", "nested.later")}
        assert types == {"label": "string", "x": "int64", "ratio": "float64", "nested.later": "int64"}
        assert next(iter(ds.schema)) == "label"
        assert rows(fb.from_iceberg(made, filters=condition)) == rows(ds.filter(condition))
        arrow = made.schema().as_arrow()
        more = table(20, add=2**40, schema=pa.schema([*FIRST.remove(0), ("x", pa.int64())]))
        made.append(more.append_column("label", pa.array(["new"] * 20)).select(list(arrow.names)))


def test_columns_that_were_renamed_are_right_or_refused(lake):
    made = lake.create_table("n.t", schema=FIRST)
    made.append(table())
    with made.update_schema() as change:
        change.rename_column("x", "y")
        change.rename_column("nested.a", "aa")
        change.rename_column("name", "x")
    ds = fb.from_iceberg(made, filters=(fb.col("y") > 3) & (fb.col("x") == "z"))
    assert sorted(rows(ds), key=repr) == theirs(made, ds.schema, row_filter="y > 3 and x = 'z'")
    assert [*ds.schema][:1] == ["y"]
    assert "nested.aa" in ds.schema
    renamed = table(20, add=100).rename_columns(["y", *FIRST.names[1:]])
    with made.update_schema() as change:
        change.delete_column("nested")
        change.delete_column("x")
    made.append(renamed.drop(["nested", "name"]))
    with pytest.raises(E.InvalidPipelineError, match="'y' was renamed: files have it as 'x' and 'y'"):
        fb.from_iceberg(made)
    names = ["day", "ids"]
    assert sorted(rows(fb.from_iceberg(made, columns=names)), key=repr) == theirs(made, names)


def test_a_column_that_has_the_name_of_a_dropped_one_has_none_of_its_values(lake):
    made = lake.create_table("n.t", schema=FIRST)
    made.append(table())
    with made.update_schema() as change:
        change.delete_column("x")
    with made.update_schema() as change:
        change.add_column("x", LongType())
    with pytest.raises(E.InvalidPipelineError, match="other files have another column of that name"):
        fb.from_iceberg(made)
    names = [name for name in FIRST.names if name not in ("x", "nested")]
    assert sorted(rows(fb.from_iceberg(made, columns=names)), key=repr) == theirs(made, names)


def test_partition_columns_that_files_lack_are_refused(lake, tmp_path):
    made = lake.create_table("n.t", schema=pa.schema([("x", pa.int64()), ("k", pa.string())]))
    with made.update_spec() as spec:
        spec.add_identity("k")
    made.append(pa.table({"x": [1], "k": ["a"]}))
    path = next(iter(made.scan().plan_files())).file.file_path.removeprefix("file://")
    stored = pq.ParquetFile(path)
    pq.write_table(stored.read().drop(["k"]), path)
    with pytest.raises(E.InvalidPipelineError, match="partition column, and is not in all files"):
        fb.from_iceberg(made)
    assert rows(fb.from_iceberg(made, columns="x")) == [(1,)]
    pq.write_table(pa.table({"x": [1], "k": ["a"]}), path)
    with pytest.raises(E.InvalidPipelineError, match="no field ids"):
        fb.from_iceberg(made)
    made.transaction().set_properties(
        {"schema.name-mapping.default": made.schema().name_mapping.model_dump_json()}
    ).commit_transaction()
    assert rows(fb.from_iceberg(lake.load_table("n.t"))) == [(1, "a")]


def test_files_whose_rows_were_deleted_are_refused(lake, monkeypatch):
    made = lake.create_table("n.t", schema=FIRST)
    made.append(table())
    # The library writes no delete files, so they are put into its plan.
    planned = type(made.scan()).plan_files

    def plan(scan: Any) -> list[FileScanTask]:
        tasks = list(planned(scan))
        for task in tasks:
            task.delete_files.add(task.file)
        return tasks

    monkeypatch.setattr(type(made.scan()), "plan_files", plan)
    with pytest.raises(E.InvalidPipelineError, match=r"1 data files of snapshot .* have delete files"):
        fb.from_iceberg(made)


def test_files_that_were_removed_are_named(lake):
    made = lake.create_table("n.t", schema=FIRST)
    made.append(table())
    ds = fb.from_iceberg(made)
    Path(next(iter(made.scan().plan_files())).file.file_path.removeprefix("file://")).unlink()
    with pytest.raises(E.MissingFileError, match=r"a data file of snapshot .* is not there"):
        fb.from_iceberg(made)
    with pytest.raises(E.ForebayError, match=r"(?s)no such file.*\.parquet"):
        rows(ds)
    for wrong, kind in (
        (f"{made.location()}/metadata/none.metadata.json", E.MissingFileError),
        (made.location(), E.InvalidPipelineError),
    ):
        with pytest.raises(kind):
            fb.from_iceberg(wrong)


def test_the_example_of_the_source_runs(lake, monkeypatch):
    assert doctest.testmod(iceberg_source, optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0
    made = lake.create_table("n.t", schema=FIRST)
    with pytest.raises(E.InvalidPipelineError, match="is an Iceberg table"):
        fb.from_parquet(made.location())
    monkeypatch.setitem(sys.modules, "pyiceberg", None)
    monkeypatch.setitem(sys.modules, "pyiceberg.table", None)
    with pytest.raises(E.UnavailableError, match=r"pip install forebay\[iceberg\]"):
        fb.from_iceberg(made)


def test_ranks_and_services_read_the_rows(lake):
    made = lake.create_table("n.t", schema=FIRST)
    made.append(table())
    made.append(table(20, add=100))
    ds = fb.from_iceberg(made, columns=["nested.a", "day"]).shuffle()
    whole = rows(ds, seed=5)
    parts = [rows(ds, seed=5, consumers=(rank, 2)) for rank in range(2)]
    assert sorted(map(repr, parts[0] + parts[1])) == sorted(map(repr, whole))
    with fb.up(workers=2) as service:
        stream = ds.batch(8).distribute(service, job="iceberg", seed=5)
        assert [n for batch in stream for n in batch["nested.a"].tolist()] == [row[0] for row in whole]
