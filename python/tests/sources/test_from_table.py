"""Tables in memory hold what `from_arrow` reads of the same table in a file."""

from __future__ import annotations

import datetime as dt
import decimal
import json

import forebay as fb
import numpy as np
import pyarrow as pa
import pytest
from forebay.errors import ForebayError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


def lists(values: st.SearchStrategy) -> st.SearchStrategy:
    return st.lists(values, max_size=3)


WHOLE = st.integers(-(2**31), 2**31 - 1)
REAL = st.floats(width=32)
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=4)
WHEN = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1))
#: Types, with their values. `None` is a value of the types that may be missing.
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy, bool]] = {
    "bool": (pa.bool_(), st.booleans(), True),
    "int8": (pa.int8(), st.integers(-128, 127), True),
    "uint64": (pa.uint64(), st.integers(0, 2**64 - 1), True),
    "float16": (pa.float16(), st.sampled_from([np.float16(1.5), np.float16("inf")]), True),
    "float32": (pa.float32(), REAL, True),
    "text": (pa.string(), TEXT, True),
    "large text": (pa.large_string(), TEXT, True),
    "view": (pa.string_view(), TEXT, True),
    "bytes": (pa.binary(), st.binary(max_size=4), True),
    "fixed bytes": (pa.binary(2), st.binary(min_size=2, max_size=2), True),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["a", "b"]), True),
    "date": (pa.date32(), WHEN.map(dt.datetime.date), True),
    "date64": (pa.date64(), WHEN.map(dt.datetime.date), True),
    "time": (pa.time32("s"), st.integers(0, 86399).map(lambda s: dt.time(s // 3600, s // 60 % 60, s % 60)), True),
    "timestamp": (pa.timestamp("us", "Europe/Paris"), WHEN.map(lambda t: t.replace(tzinfo=dt.UTC)), True),
    "duration": (pa.duration("ms"), st.integers(0, 10**9).map(lambda n: dt.timedelta(milliseconds=n)), True),
    "decimal": (pa.decimal128(9, 2), st.integers(-(10**6), 10**6).map(lambda n: decimal.Decimal(n) / 100), True),
    "null": (pa.null(), st.none(), True),
    "list": (pa.list_(pa.int32()), lists(WHOLE), False),
    "list of times": (pa.large_list(pa.timestamp("s")), lists(st.sampled_from([dt.datetime(2020, 1, 1)])), False),
    "fixed list": (pa.list_(pa.float32(), 2), st.tuples(REAL, REAL).map(list), False),
    "struct": (
        pa.struct({"a": pa.int32(), "b": pa.struct({"c": pa.string()})}),
        st.fixed_dictionaries({"a": WHOLE, "b": st.none() | st.fixed_dictionaries({"c": TEXT})}),
        True,
    ),
    "list of texts": (pa.list_(pa.string()), lists(st.none() | TEXT), True),
    "list of lists": (pa.list_(pa.list_(pa.float32())), lists(st.none() | lists(st.none() | REAL)), True),
    "list of structs": (
        pa.list_(pa.struct({"when": pa.date32(), "raw": pa.binary(), "price": pa.decimal128(5, 1)})),
        lists(
            st.fixed_dictionaries(
                {
                    "when": st.just(dt.date(2020, 1, 2)),
                    "raw": st.binary(max_size=3),
                    "price": st.just(decimal.Decimal("1.5")),
                }
            )
        ),
        True,
    ),
    "map": (
        pa.map_(pa.string(), pa.int32()),
        st.dictionaries(TEXT, WHOLE, max_size=2).map(lambda d: list(d.items())),
        True,
    ),
    "map of numbers": (
        pa.map_(pa.int32(), pa.string()),
        st.dictionaries(WHOLE, TEXT, max_size=2).map(lambda d: list(d.items())),
        True,
    ),
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    names = draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=4, unique=True))
    rows = draw(st.integers(1, 6))
    columns = {}
    for name in names:
        kind, values, may_miss = TYPES[name]
        drawn = draw(st.lists(st.none() | values if may_miss else values, min_size=rows, max_size=rows))
        columns[name] = pa.chunked_array([pa.array(drawn[:2], kind), pa.array(drawn[2:], kind)])
    table = pa.table(columns)
    return table.slice(draw(st.integers(0, rows - 1)))


def comparable(name: str, value: object) -> object:
    """Returns a value of a row; JSON text is parsed."""
    if value is np.ma.masked:
        return None
    if isinstance(value, np.ndarray):
        return value.dtype.name, repr(value.tolist())
    if isinstance(value, str) and name.startswith(("list of", "map")):
        return repr(json.loads(value))
    return repr(value)


@settings(max_examples=150, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(tables())
def test_a_table_holds_what_its_file_holds(tmp_path_factory, table):
    path = str(tmp_path_factory.mktemp("arrow") / "table.arrow")
    with pa.ipc.new_stream(path, table.schema) as file:
        file.write_table(table)
    here, there = fb.from_table(table), fb.from_arrow(path)
    assert list(here.schema) == list(there.schema)
    for name in here.schema:
        a, b = here.schema[name], there.schema[name]
        assert a.dtype == b.dtype or "null" in name
        # The type of a table's lists comes from their values, so a column without a list is a column of texts.
        assert len(a.shape) == len(b.shape) or not any(table[name].is_valid().to_pylist())
    rows = [{name: comparable(name, value) for name, value in row.items()} for row in here]
    assert rows == [{name: comparable(name, value) for name, value in row.items()} for row in there]
    # Numbers may be missing only where one is.
    assert here.schema.nullable == {name for name in rows[0] for row in [*here] if row[name] is None} | {
        name for name in here.schema.nullable if here.schema[name].dtype.startswith("float")
    }


REFUSED = {
    "a list": (lambda: fb.from_table([1]), "this is a list, and no table"),
    "a dictionary": (lambda: fb.from_table({"x": [1]}), "write from_dict"),
    "a path": (lambda: fb.from_table("x.parquet"), "name files with from_parquet"),
    "a missing list": (lambda: fb.from_table(pa.table({"x": [[1], None]})), r"in column 'x' a list.*row 1"),
    "a missing number": (lambda: fb.from_table(pa.table({"x": [[1], [2, None]]})), r"in column 'x' a list.*row 1"),
    "no such column": (lambda: fb.from_table(pa.table({"name": [1]}), columns=["nam"]), 'did you mean "name"'),
    "two of a name": (lambda: fb.from_table(pa.table([[1], [2]], ["x", "x"])), "two columns are named 'x'"),
    "no columns": (lambda: fb.from_table(pa.table({"x": [1]}), columns=[]), "no columns"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_table_is_refused_in_words(what):
    make, says = REFUSED[what]
    with pytest.raises(ForebayError, match=says):
        make()


def test_tensors_of_one_shape_stay_tensors():
    values = np.arange(12, dtype=np.float32).reshape(3, 2, 2)
    ds = fb.from_table(pa.table({"x": pa.FixedShapeTensorArray.from_numpy_ndarray(values)}))
    assert str(ds.schema) == "Schema(x: float32[2, 2])"
    np.testing.assert_array_equal(next(iter(ds.batch(3)))["x"], values)
