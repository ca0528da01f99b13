"""Delta Lake tables, compared with the rows that the library itself reads."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import doctest
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import forebay as fb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from forebay import errors as E
from forebay._src.sources import delta_source

DAYS = [None if i % 5 == 0 else dt.date(2024, 1, 1 + i % 3) for i in range(40)]


def table(rows: int = 40, add: int = 0) -> pa.Table:
    """Each type, with missing values."""
    some = range(rows)
    return pa.table(
        {
            "x": pa.array([None if i % 7 == 3 else i + add for i in some], pa.int32()),
            "code": [f"{i % 4:03}" for i in some],
            "day": DAYS[:rows],
            "flag": [i % 2 == 0 for i in some],
            "ratio": pa.array([i % 3 + 0.5 for i in some], pa.float32()),
            "price": pa.array([decimal.Decimal(i % 2) / 4 for i in some], pa.decimal128(9, 2)),
            "time": pa.array([i % 2 * 10**6 + 5 for i in some], pa.timestamp("us", "UTC")),
            "small": pa.array([i % 3 for i in some], pa.int16()),
            "nested": [{"a": i, "b": {"c": f"ä{i}"}} for i in some],
            "ids": [list(range(i % 3)) for i in some],
            "name": ["a b/%=ü" if i % 2 else "z" for i in some],
            "raw": [bytes(i % 3) for i in some],
            "n": [i + add for i in some],
            "never": pa.array([None] * rows, pa.int64()),
        }
    )


def plain(value: Any) -> Any:
    """Returns a value of Python; nan, which stands for a missing float, as `None`, which equals itself."""
    value = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    return None if value != value else value


def rows(ds: fb.Dataset, names: Any = None, **how: Any) -> list[Any]:
    return [tuple(plain(row[name]) for name in names or ds.schema) for row in ds.iter(**how)]


def theirs(folder: Path, names: Any, version: int | None = None) -> list[Any]:
    """The rows of the library, in the engine's types."""
    return sorted(rows(fb.from_table(DeltaTable(folder, version).to_pyarrow_table()), names), key=repr)


def write_log(folder: Path, fields: list[Any], files: list[Any], features: Any = (), **more: Any) -> Path:
    """Writes a table with features that the library does not write."""
    (folder / "_delta_log").mkdir(parents=True)
    protocol = {"minReaderVersion": 2, "minWriterVersion": 5}
    if features:
        protocol = {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": features,
            "writerFeatures": features,
        }
    schema = json.dumps({"type": "struct", "fields": fields})
    about = {"id": "eb841893-e510-4ab9-8a8b-41d2e0bbf905", "format": {"provider": "parquet", "options": {}}}
    about |= {"schemaString": schema, "partitionColumns": [], "createdTime": 1, "configuration": {}, **more}
    actions: list[Any] = [{"protocol": protocol}, {"metaData": about}]
    for number, (path, content, values, facts) in enumerate(files):
        (folder / path).parent.mkdir(exist_ok=True)
        pq.write_table(content, folder / path)
        size, stats = os.path.getsize(folder / path), json.dumps({"numRecords": content.num_rows})
        add = {"path": path, "partitionValues": values, "size": size, "modificationTime": number, "dataChange": True}
        actions.append({"add": {**add, "stats": stats, **facts}})
    (folder / "_delta_log" / "00000000000000000000.json").write_text("\n".join(map(json.dumps, actions)))
    return folder


def field(name: str, kind: str, stored: str | None = None, number: int = 1, **facts: Any) -> dict[str, Any]:
    mapped = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": stored} if stored else {}
    return {"name": name, "type": kind, "nullable": True, "metadata": mapped | facts}


PARTITIONS = [[], ["code"], ["day"], ["flag", "small"], ["ratio"], ["price"], ["time"], ["name", "day"], ["never"]]


@pytest.mark.parametrize("by", PARTITIONS, ids=" ".join)
def test_partition_values_are_those_of_the_log(tmp_path, by):
    write_deltalake(tmp_path, table(), partition_by=by or None)
    write_deltalake(tmp_path, table(20, add=100), mode="append")
    ds = fb.from_delta(tmp_path)
    assert sorted(rows(ds), key=repr) == theirs(tmp_path, ds.schema)
    plain_files = fb.from_table(table()).schema
    assert {**ds.schema} == {**plain_files, "ids": ds.schema["ids"], "raw": ds.schema["raw"]}
    assert [*ds.schema] == [*plain_files]
    assert (ds.schema.nullable, ds.schema.times) == (frozenset({"x", "day", "never"}), plain_files.times)
    used = by or ["small"]
    for name in used:
        assert rows(fb.from_delta(tmp_path, columns=name), [name]) == rows(ds, [name])


def test_filters_keep_the_rows_that_filter_keeps_and_leave_files_out(tmp_path):
    write_deltalake(tmp_path, table(), partition_by=["day", "small"])
    ds = fb.from_delta(tmp_path)
    for condition in (
        fb.col("day").dt == dt.date(2024, 1, 2),
        (fb.col("day").dt >= dt.date(2024, 1, 2)) & (fb.col("n") > 20) & (fb.col("small") == 1),
        (fb.col("day").is_null()) | (fb.col("small") + fb.col("n") > 30),
        fb.where(fb.col("small") == 1, fb.col("flag"), fb.col("x") > 3) & fb.col("day").is_null(),
        fb.col("small") > 100,
    ):
        found = fb.from_delta(tmp_path, columns=["n", "small"], filters=condition)
        assert rows(found) == rows(ds.filter(condition), ["n", "small"])
    chosen = fb.from_delta(tmp_path, filters=(fb.col("day").dt == dt.date(2024, 1, 3)) & (fb.col("n") > 3))
    assert {path.split("/")[-3] for path in chosen._pipeline.files()} == {"day=2024-01-03"}


def test_a_version_stays_what_it_was(tmp_path):
    write_deltalake(tmp_path, table(), partition_by=["small"])
    ds = fb.from_delta(tmp_path)
    first = rows(ds)
    DeltaTable(tmp_path).delete("n < 10")
    DeltaTable(tmp_path).update({"name": "'new'"}, predicate="n = 11")
    write_deltalake(tmp_path, table(20, add=100), mode="append")
    assert rows(ds) == first == rows(fb.from_delta(tmp_path, version=0))
    changed = fb.from_delta(tmp_path)
    assert sorted(rows(changed), key=repr) == theirs(tmp_path, ds.schema)
    write_deltalake(tmp_path, table(3), mode="overwrite")
    for version in range(5):
        at = fb.from_delta(DeltaTable(tmp_path), version=version)
        assert sorted(rows(at), key=repr) == theirs(tmp_path, ds.schema, version)
    assert rows(changed) == rows(fb.from_delta(tmp_path, version=3))
    when = dt.datetime.now(dt.UTC)
    assert rows(fb.from_delta(tmp_path, version=when)) == rows(fb.from_delta(tmp_path, version=when.isoformat()))
    with pytest.raises(E.MissingFileError, match="no version as old"):
        fb.from_delta(tmp_path, version="2001-01-01")
    for missing in ({"version": 77}, {"table": tmp_path / "other"}):
        with pytest.raises(E.MissingFileError, match="there is no"):
            fb.from_delta(**{"table": tmp_path, **missing})


def test_rows_that_are_appended_come_last_and_columns_that_are_added_are_missing(tmp_path):
    write_deltalake(tmp_path, pa.table({"x": pa.array([1, 2], pa.int32()), "l": [[1], [2]]}))
    before = rows(fb.from_delta(tmp_path))
    new = pa.table({"x": pa.array([3], pa.int32()), "l": [[3]], "name": ["new"], "s": [{"a": 1.5}]})
    write_deltalake(tmp_path, new, mode="append", schema_mode="merge")
    DeltaTable(tmp_path).alter.add_columns(DeltaTable(tmp_path).schema().fields[0].__class__("later", "date"))
    ds = fb.from_delta(tmp_path)
    assert str(ds.schema) == "Schema(x: int32, l: int64[?], name: string?, s.a: float64?, later: int64? (D))"
    assert [row[:2] for row in rows(ds)][:2] == before
    assert [row[2:] for row in rows(ds)] == [(None, None, None)] * 2 + [("new", 1.5, None)]
    assert rows(fb.from_delta(tmp_path, filters=fb.col("later").is_null() & fb.col("name").is_null())) == rows(ds)[:2]
    assert rows(fb.from_delta(tmp_path, columns=["later"])) == [(None,)] * 3


def test_empty_tables_have_columns(tmp_path):
    write_deltalake(tmp_path, table(), partition_by=["small"])
    DeltaTable(tmp_path).delete()
    ds = fb.from_delta(tmp_path, filters=fb.col("small") > 0, columns=["n", "small"])
    assert (rows(ds.shuffle()), [*ds.schema]) == ([], ["n", "small"])


def test_columns_are_found_by_their_physical_names(tmp_path):
    how = {"configuration": {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "3"}}
    fields = [field("y", "long", "x"), field("x", "string", "y", 2), field("k", "date", "col-k", 3)]
    kept = pa.table({"x": [1, 2], "y": ["a", "b"]})
    at = write_log(
        tmp_path / "named",
        fields,
        [("col-k=2024-01-02/f", kept, {"col-k": "2024-01-02"}, {})],
        partitionColumns=["k"],
        **how,
    )
    ds = fb.from_delta(at, filters=fb.col("y") > 1)
    assert (str(ds.schema), rows(ds)) == ("Schema(y: int64, x: string, k: int64 (D))", [(2, "b", 19724)])
    flat = write_log(
        tmp_path / "flat", fields, [("ab/f", kept, {"col-k": "2024-01-02"}, {})], partitionColumns=["k"], **how
    )
    with pytest.raises(E.InvalidPipelineError, match="no folder col-k="):
        fb.from_delta(flat)
    assert rows(fb.from_delta(flat, columns=["x"])) == [("a",), ("b",)]
    by_id = write_log(
        tmp_path / "id",
        fields,
        [],
        configuration={"delta.columnMapping.mode": "id", "delta.columnMapping.maxColumnId": "3"},
    )
    with pytest.raises(E.InvalidPipelineError, match="mapped by id"):
        fb.from_delta(by_id)


def test_rows_that_cannot_be_read_exactly_are_refused(tmp_path):
    vector = base64.b85encode  # the log has Z85, of the same digits in another order
    letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    theirs_85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
    # A bitmap of Roaring with the number 1.
    bitmap = bytes.fromhex("3a300000010000000000000010000000") + b"\1\0"
    blob = (1681511377).to_bytes(4, "little") + (1).to_bytes(8, "little") + bytes(4) + bitmap
    text = vector(blob + bytes(-len(blob) % 4)).decode().translate(str.maketrans(theirs_85, letters))
    deleted = {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(blob), "cardinality": 1}
    content = pa.table({"x": pa.array([1, 2, 3], pa.int32())})
    features = ["deletionVectors"]
    whole = write_log(tmp_path / "whole", [field("x", "integer")], [("f", content, {}, {})], features)
    assert rows(fb.from_delta(whole)) == [(1,), (2,), (3,)]
    at = write_log(
        tmp_path / "dv", [field("x", "integer")], [("f", content, {}, {"deletionVector": deleted})], features
    )
    with pytest.raises(E.InvalidPipelineError, match=r"1 data files of version 0.* have deletion vectors"):
        fb.from_delta(at)

    def changed(old: str, new: str, kind: Any) -> Path:
        facts = {"delta.typeChanges": [{"fromType": old, "toType": new}]}
        one = ("f", pa.table({"x": kind}), {}, {})
        return write_log(tmp_path / f"{old} {new}", [field("x", new, **facts)], [one], ["typeWidening", "timestampNtz"])

    wider = fb.from_delta(changed("integer", "long", content["x"]), filters=fb.col("x") * 2**40 > 2**40)
    assert (str(wider.schema), rows(wider)) == ("Schema(x: int64)", [(2,), (3,)])
    day = pa.array([dt.date(2024, 1, 1)])
    for at in (
        changed("date", "timestamp_ntz", day),
        changed("decimal(4,1)", "decimal(6,3)", pa.array([decimal.Decimal(1)])),
    ):
        with pytest.raises(E.InvalidPipelineError, match="was widened"):
            fb.from_delta(at)
    for stored, kind in ((pa.array([1.5]), "integer"), (day, "timestamp"), (pa.array(["a"]), "long")):
        at = write_log(tmp_path / f"{kind}", [field("x", kind)], [("f", pa.table({"x": stored}), {}, {})])
        with pytest.raises(E.InvalidPipelineError, match="in the files, and"):
            fb.from_delta(at)
    at = write_log(tmp_path / "case", [field("x", "integer")], [("f", content.rename_columns(["X"]), {}, {})])
    with pytest.raises(E.InvalidPipelineError, match="named 'X' in some of the files"):
        fb.from_delta(at)


def test_nanoseconds_of_spark_are_microseconds(tmp_path):
    when = pa.array([1, None, 86_400_000_005], pa.timestamp("us"))
    at = write_log(tmp_path / "t", [field("t", "timestamp")], [("f", pa.table({"t": when}), {}, {})])
    pq.write_table(pa.table({"t": when}), at / "f", use_deprecated_int96_timestamps=True, store_schema=False)
    ds = fb.from_delta(at)
    assert (str(ds.schema), rows(ds)) == ("Schema(t: int64? (us))", [(1,), (None,), (86_400_000_005,)])


def test_files_that_were_removed_are_named(tmp_path):
    write_deltalake(tmp_path, table())
    ds = fb.from_delta(tmp_path)
    write_deltalake(tmp_path, table(), mode="overwrite")
    DeltaTable(tmp_path).vacuum(0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(E.MissingFileError, match=r"version 0 of .* is not there"):
        fb.from_delta(tmp_path, version=0)
    with pytest.raises(E.ForebayError, match=r"(?s)no such file.*\.parquet"):
        rows(ds)


def test_epochs_of_ranks_shuffles_and_states_are_those_of_files(tmp_path):
    write_deltalake(tmp_path, table(), partition_by=["day"])
    write_deltalake(tmp_path, table(20, add=100), mode="append")
    ds = fb.from_delta(tmp_path, columns=["n", "day"]).shuffle()
    whole = rows(ds, seed=5)
    assert whole != rows(ds, seed=6)
    parts = [rows(ds, seed=5, consumers=(rank, 2)) for rank in range(2)]
    assert sorted(map(repr, parts[0] + parts[1])) == sorted(map(repr, whole))
    it, resumed = ds.iter(seed=5), ds.iter(seed=5)
    first = [next(it) for _ in range(11)]
    shutil.rmtree(tmp_path / "_delta_log")
    resumed.load_state_dict(it.state_dict())
    assert [tuple(plain(row[name]) for name in ds.schema) for row in [*first, *resumed]] == whole


def test_workers_of_a_service_read_the_files(tmp_path):
    write_deltalake(tmp_path, table(), partition_by=["day"])
    ds = fb.from_delta(tmp_path, columns=["n", "day"]).shuffle().batch(8)
    here = [batch["n"].tolist() for batch in ds.iter(seed=3)]
    with fb.up(workers=2) as service:
        stream = ds.distribute(service, job="delta", seed=3)
        assert [batch["n"].tolist() for batch in stream] == here


def test_the_example_of_the_source_runs():
    assert doctest.testmod(delta_source, optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0


def test_a_folder_of_a_table_is_no_folder_of_files(tmp_path):
    write_deltalake(tmp_path, table())
    with pytest.raises(E.InvalidPipelineError, match="is a Delta table"):
        fb.from_parquet(tmp_path)


def test_without_the_package_its_name_is_said(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(E.UnavailableError, match=r"pip install forebay\[delta\]"):
        fb.from_delta(tmp_path)


def test_wrong_arguments_are_named(tmp_path):
    write_deltalake(tmp_path, table())
    for how, what in (
        ({"columns": ["xx"]}, 'no column "xx"'),
        ({"filters": fb.col("xx") > 1}, 'no column "xx"'),
        ({"nullable": ["xx"]}, 'no column "xx"'),
        ({"filters": 3}, "must be an expression"),
        ({"columns": ["x", "x"]}, "twice"),
        ({"version": "yesterday"}, "is no version"),
        ({"version": -1}, "version"),
    ):
        with pytest.raises(E.ForebayError, match=what):
            fb.from_delta(tmp_path, **how)
    with pytest.raises(TypeError, match=r"fb\.storage_options"):
        fb.from_delta(tmp_path, storage_options={})
