"""Every type of Arrow, in Parquet and in Arrow files: each value equals pyarrow's."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
from pathlib import Path
from typing import Any

import forebay as fb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROWS = 23
"""Rows of each column, in groups of seven; every fifth is missing, except lists, which never are."""


def some(make: Any, missing: bool = True) -> list[Any]:
    return [None if missing and i % 5 == 3 else make(i) for i in range(ROWS)]


def ints(kind: pa.DataType) -> pa.Array:
    """Returns times as their numbers."""
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    step = 86_400_000 if kind == pa.date64() else 1
    return pa.array(some(lambda i: (i * 37 + (0 if pa.types.is_time(kind) else -200)) * step), width).view(kind)


def decimals(kind: pa.DataType, scale: int) -> pa.Array:
    with decimal.localcontext() as context:
        context.prec = 80
        big = decimal.Decimal("9" * (kind.precision - 4))
        return pa.array(some(lambda i: ((-1) ** i * (big + i)).scaleb(-scale)), kind)


def union(mode: str) -> pa.Array:
    parts = [pa.array(range(ROWS)), pa.array([f"t{i}" for i in range(ROWS)]), pa.nulls(ROWS, pa.float64())]
    tags = pa.array([i % 3 for i in range(ROWS)], pa.int8())
    if mode == "sparse":
        return pa.UnionArray.from_sparse(tags, parts)
    return pa.UnionArray.from_dense(tags, pa.array(range(ROWS), pa.int32()), parts)


NUMBERS = {
    str(kind): pa.array(some(lambda i: i * 3), kind)
    for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
}
FLOATS = {"half": np.float16, "float": np.float32, "double": np.float64}
PLAIN = {
    **NUMBERS,
    **{name: pa.array(some(lambda i, t=t: t(i / 7)), pa.from_numpy_dtype(t)) for name, t in FLOATS.items()},
    "bool": pa.array(some(lambda i: i % 2 == 0)),
    "string": pa.array(some(lambda i: f"é{i}" * i)),
    "large_string": pa.array(some(lambda i: f"é{i}" * i), pa.large_string()),
    "string_view": pa.array(some(lambda i: f"é{i}" * i), pa.string_view()),
    "binary": pa.array(some(lambda i: bytes([i] * i))),
    "large_binary": pa.array(some(lambda i: bytes([i] * i)), pa.large_binary()),
    "binary_view": pa.array(some(lambda i: bytes([i] * i)), pa.binary_view()),
    "fixed_binary": pa.array(some(lambda i: bytes([i] * 4)), pa.binary(4)),
    "null": pa.nulls(ROWS),
    "dictionary": pa.array(some(lambda i: f"w{i % 4}")).dictionary_encode(),
    "dictionary_int": pa.array(some(lambda i: 2**62 + i % 4)).dictionary_encode(),
    "run_ends": pa.RunEndEncodedArray.from_arrays(pa.array([9, 16, ROWS], pa.int32()), pa.array([1.5, None, 2.5])),
    "list": pa.array(some(lambda i: list(range(i % 4)), missing=False), pa.list_(pa.int32())),
    "large_list": pa.array(some(lambda i: list(range(i % 4)), missing=False), pa.large_list(pa.float64())),
    "list_view": pa.array(some(lambda i: list(range(i % 4)), missing=False), pa.list_view(pa.uint8())),
    "large_list_view": pa.array(some(lambda i: list(range(i % 4)), missing=False), pa.large_list_view(pa.int64())),
    "fixed_list": pa.array(some(lambda i: [i, i + 1], missing=False), pa.list_(pa.int16(), 2)),
}
TIMES = {
    str(kind): ints(kind)
    for kind in (
        pa.date32(),
        pa.date64(),
        *(pa.time32(unit) for unit in ("s", "ms")),
        *(pa.time64(unit) for unit in ("us", "ns")),
        *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")),
        pa.timestamp("us", "Europe/Berlin"),
        *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
    )
}
TIME_LISTS = {
    "time_list": pa.ListArray.from_arrays(pa.array(range(ROWS + 1), pa.int32()), TIMES["timestamp[us]"].fill_null(0)),
    "time_pairs": pa.FixedSizeListArray.from_arrays(pa.array(range(2 * ROWS), pa.int32()).view(pa.date32()), 2),
}
DECIMALS = {
    "decimal32": decimals(pa.decimal32(7, 2), 2),
    "decimal64": decimals(pa.decimal64(15, 3), 3),
    "decimal128": decimals(pa.decimal128(38, 10), 10),
    "decimal256": decimals(pa.decimal256(70, 0), 0),
}
CHAT = pa.struct([("role", pa.string()), ("n", pa.int64()), ("at", pa.timestamp("us")), ("p", pa.decimal128(9, 2))])
DAY = dt.datetime(2026, 11, 22, 3, 4, 5, 6)
NESTED = {
    "blobs": pa.array(some(lambda i: [bytes(range(j)) for j in range(i % 6)])),
    "truths": pa.array(some(lambda i: [[i % 2 == 0, None]])),
    "lists": pa.array(some(lambda i: [[1, None, i], [], None])),
    "halves": pa.array(some(lambda i: [[np.float16(i / 7)]]), pa.list_(pa.list_(pa.float16()))),
    "floats": pa.array(some(lambda i: [[i / 7, 1e300, float("inf"), -float("inf")]]), pa.list_(pa.list_(pa.float32()))),
    "rectangles": pa.array(some(lambda i: [[i, 1], [2, 3]]), pa.list_(pa.list_(pa.int16(), 2), 2)),
    "chat": pa.array(
        some(lambda i: [{"role": "user", "n": i, "at": DAY, "p": decimal.Decimal("1.20")}, None]), pa.list_(CHAT)
    ),
    "maps": pa.array(some(lambda i: [[("k", i)]]), pa.list_(pa.map_(pa.string(), pa.int32()))),
    "map": pa.array(some(lambda i: [("k", i), ("l", None)][: i % 3]), pa.map_(pa.string(), pa.int32())),
    "map_of_ints": pa.array(some(lambda i: [(i, "v"), (-1, None)]), pa.map_(pa.int64(), pa.string())),
}
TEXTS = {
    "fixed_texts": pa.array(some(lambda i: [f"{i}", None]), pa.list_(pa.string(), 2)),
    "texts": pa.array(some(lambda i: ['a\n"é\\' * j if j % 3 else None for j in range(i % 5)])),
    "large_texts": pa.array(some(lambda i: [f"{j}" for j in range(i % 5)]), pa.large_list(pa.large_string())),
    "view_texts": pa.array(some(lambda i: [f"{j}" * 20 for j in range(i % 5)]), pa.list_view(pa.string_view())),
    "words": pa.ListArray.from_arrays(
        pa.array(range(ROWS + 1), pa.int32()), pa.array(some(lambda i: f"w{i % 3}")).dictionary_encode()
    ),
    "dictionary_of_lists": pa.DictionaryArray.from_arrays(
        pa.array(some(lambda i: i % 2), pa.int8()), pa.array([["a"], ["b", "c"]])
    ),
}
ONLY_ARROW = {
    "sparse_union": union("sparse"),
    "dense_union": union("dense"),
    "interval": pa.array(some(lambda i: pa.MonthDayNano([i, -i, 10**12 + i]))),
    "run_ends_of_lists": pa.RunEndEncodedArray.from_arrays(
        pa.array([9, 16, ROWS], pa.int32()), pa.array([[b"a"], None, [b"b"]])
    ),
}


def write(table: pa.Table, kind: str, path: Path) -> None:
    """Writes groups of seven rows, and then one of one."""
    if kind == "parquet":
        pq.write_table(table, path, row_group_size=7)
        return
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        for batch in table.to_batches(max_chunksize=7):
            writer.write_batch(batch)


def is_written(name: str, array: pa.Array, kind: str, folder: Path) -> bool:
    """Returns whether pyarrow writes a type to such a file."""
    try:
        write(pa.table({name: array}), kind, folder / "try")
    except (NotImplementedError, pa.ArrowException):
        return False
    return True


def read(kind: str, path: Path, **options: Any) -> fb.Dataset:
    return (fb.from_parquet if kind == "parquet" else fb.from_arrow)(path, **options)


def plain(value: Any) -> Any:
    """Returns a value of a sample."""
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def numbers_of(array: pa.Array) -> list[Any]:
    """Returns times as their numbers, at any depth."""
    if pa.types.is_list(array.type) or pa.types.is_fixed_size_list(array.type):
        flat = iter(numbers_of(array.flatten()))
        return [None if row is None else [next(flat) for _ in row] for row in array.to_pylist()]
    width = pa.int32() if array.type.bit_width == 32 else pa.int64()
    return array.view(width).to_pylist()


def jsonable(value: Any) -> Any:
    """Returns a value of pyarrow in the form of JSON text."""
    if isinstance(value, list) and value and all(isinstance(pair, tuple) for pair in value):
        texts = all(isinstance(key, str) for key, _ in value)
        return {k: jsonable(v) for k, v in value} if texts else [[jsonable(k), jsonable(v)] for k, v in value]
    if isinstance(value, pa.MonthDayNano):
        return {"months": value.months, "days": value.days, "nanoseconds": value.nanoseconds}
    if isinstance(value, list):
        return [jsonable(item) for item in value]
    if isinstance(value, dict):
        return {key: jsonable(item) for key, item in value.items()}
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dt.datetime):
        return (value - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
    return str(value) if isinstance(value, decimal.Decimal) else plain(value)


def written(columns: dict[str, pa.Array], kind: str, folder: Path) -> tuple[pa.Table, Path]:
    """Writes the columns that pyarrow can write, and returns the table that it reads."""
    table = pa.table({n: a for n, a in columns.items() if is_written(n, a, kind, folder)})
    path = folder / f"a.{kind}"
    write(table, kind, path)
    back = pq.read_table(path) if kind == "parquet" else pa.ipc.open_file(path).read_all()
    return back, path


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
@pytest.mark.parametrize("shuffled", [False, True])
def test_every_value_is_pyarrows(tmp_path, kind, shuffled):
    columns = {**PLAIN, **TIMES, **TIME_LISTS, **DECIMALS, **NESTED, **TEXTS, **ONLY_ARROW}
    order = pa.array(range(ROWS))
    table, path = written({"order": order, **columns}, kind, tmp_path)
    assert set(columns) - set(table.column_names) <= {*ONLY_ARROW, "run_ends", "dictionary_of_lists"}
    ds = read(kind, path)
    rows = sorted(ds.shuffle() if shuffled else ds, key=lambda row: row["order"])
    assert len(rows) == ROWS
    for name in table.column_names:
        got, array = [plain(row[name]) for row in rows], table[name].combine_chunks()
        if name in PLAIN or name == "order":
            want = array.to_pylist()
            assert all(g == w or (w is None and np.isnan(g)) for g, w in zip(got, want, strict=True)), name
        elif name in TEXTS:
            assert got == array.to_pylist(), name
        elif name in TIMES or name in TIME_LISTS:
            # Parquet stores days of either date type; here, dates that were written as milliseconds are those again.
            assert got == numbers_of(columns[name] if name == "date64[ms]" else array), name
        elif name in DECIMALS:
            assert [None if g is None else decimal.Decimal(g) for g in got] == array.to_pylist(), name
        else:
            want = array.to_pylist()
            if pa.types.is_map(array.type) and pa.types.is_string(array.type.key_type):
                want = [None if row is None else dict(row) for row in want]
            assert [None if g is None else json.loads(g) for g in got] == [jsonable(w) for w in want], name


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_what_the_schema_says(tmp_path, kind):
    table, path = written({**TIMES, **DECIMALS, **NESTED, **TEXTS, "null": PLAIN["null"]}, kind, tmp_path)
    schema = read(kind, path).schema
    # Footers of Parquet count missing values, but not of lists and of types made of them.
    lists = {*NESTED, *TEXTS}
    there = {name for name in table.column_names if name not in lists and not table[name].null_count}
    assert schema.nullable == set(table.column_names) - (there if kind == "parquet" else set())
    for name in table.column_names:
        assert schema[name] == (("int64" if name in TIMES else "string"), (None,) if name in TEXTS else ()), name


def test_what_is_in_a_struct_is_missing_with_it(tmp_path):
    mask = [i % 4 == 1 for i in range(ROWS)]
    parts = {
        "n": pa.array(range(ROWS)),
        **ONLY_ARROW,
        "r": PLAIN["run_ends"],
        "z": PLAIN["null"],
        "t": NESTED["lists"],
        "w": TEXTS["texts"],
    }
    fields = [pa.field(name, array.type, nullable=name != "n") for name, array in parts.items()]
    outer = pa.StructArray.from_arrays(list(parts.values()), fields=fields, mask=pa.array(mask))
    write(pa.table({"o": outer, "i": range(ROWS)}), "arrow", tmp_path / "a.arrow")
    ds = fb.from_arrow(tmp_path / "a.arrow")
    assert ds.schema.nullable == {f"o.{name}" for name in parts} | {"i"}
    want = pa.table({"o": outer}).column("o").to_pylist()
    for row, value in zip(ds, want, strict=True):
        for name in parts:
            got = plain(row[f"o.{name}"])
            there = None if value is None else value[name]
            if name in ("n", "r"):
                assert got == there or (there is None and (got is None or np.isnan(got))), name
            elif name == "w":
                assert got == there
            else:
                assert (None if got is None else json.loads(got)) == jsonable(there), name


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_files_that_count_time_otherwise_are_not_mixed(tmp_path, kind):
    units = {"a": pa.timestamp("us"), "b": pa.timestamp("ms"), "c": pa.timestamp("us", "UTC"), "d": pa.int64()}
    for name, unit in units.items():
        write(pa.table({"n": pa.array([1, 2], pa.int64()).cast(unit), "m": [1, 2]}), kind, tmp_path / f"{name}.{kind}")
    for first, second in [("a", "b"), ("a", "c"), ("a", "d"), ("d", "a")]:
        paths = [tmp_path / f"{name}.{kind}" for name in (first, second)]
        with pytest.raises(fb.errors.DataError, match=r'column "n" is .* in this file, and .* in the first') as info:
            list(read(kind, paths))
        assert info.value.context["file"] == str(paths[1])
        assert [int(row["m"]) for row in read(kind, paths, columns=["m"])] == [1, 2, 1, 2]
    assert len(list(read(kind, [tmp_path / f"a.{kind}"] * 2))) == 4


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_a_column_that_a_file_has_only_as_missing_is_missing_there(tmp_path, kind):
    write(pa.table({"x": [1.5], "s": ["a"], "t": pa.array([3], pa.timestamp("s"))}), kind, tmp_path / f"a.{kind}")
    write(
        pa.table({name: pa.nulls(1) for name in "xs"} | {"t": TIMES["timestamp[s]"][:1]}), kind, tmp_path / f"b.{kind}"
    )
    rows = list(read(kind, tmp_path / f"*.{kind}"))
    assert [rows[0]["x"], rows[0]["s"]] == [1.5, "a"]
    assert np.isnan(rows[1]["x"])
    assert rows[1]["s"] is None


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_two_columns_of_one_name_do_not_make_the_others_unreadable(tmp_path, kind):
    table = pa.table([pa.array([1]), pa.array([2]), pa.array([3])], names=["a", "a", "b"])
    write(table, kind, tmp_path / "x")
    with pytest.raises(fb.errors.InvalidPipelineError, match='two columns are named "a"') as info:
        read(kind, tmp_path / "x")
    assert "columns=" in info.value.context["hint"]
    with pytest.raises(fb.errors.InvalidPipelineError, match='two columns are named "a"'):
        read(kind, tmp_path / "x", columns=["a", "b"])
    assert [int(row["b"]) for row in read(kind, tmp_path / "x", columns=["b"])] == [3]
