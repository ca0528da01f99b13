"""Joins with a table, look-ups and sorted datasets, against plain Python."""

from __future__ import annotations

import math
import random

import forebay as fb
import numpy as np
import pyarrow as pa
import pytest
from forebay._src.ops import join_ops
from pipelines import fingerprint, name

E = fb.errors
WORDS = ["", "a", "naïve", "tide", "Σ", "z"]


def plain(value):
    """A value of a sample as Python has it; None is missing, as nan is where a float is."""
    if value is None or value is np.ma.masked or value != value:
        return None
    return value.item() if hasattr(value, "item") else value


def rows(ds: fb.Dataset, **options) -> list[dict]:
    return [{column: plain(value) for column, value in row.items()} for row in ds.iter(**options)]


def joined(left: list[dict], right: dict[str, list], on: str, how: str) -> list[dict]:
    """The naive join."""
    table = {}
    others = [column for column in right if column != on]
    for number, key in enumerate(right[on]):
        if key is not None:
            table[key] = {column: right[column][number] for column in others}
    found = []
    for row in left:
        hit = table.get(row[on]) if row[on] is not None else None
        if hit is not None or how == "left":
            found.append({**row, **(hit or dict.fromkeys(others))})
    return found


@pytest.mark.parametrize("how", ["left", "inner"])
@pytest.mark.parametrize("seed", range(6))
def test_joins_are_those_of_plain_python(how, seed):
    rng = random.Random(seed)
    is_text = seed % 2
    keys = WORDS if is_text else list(range(-3, 12))
    left = [{"key": rng.choice([*keys, None]), "row": n} for n in range(200)]
    some = rng.sample(keys, rng.randint(1, len(keys)))
    right = {
        "key": [*some, None],
        "whole": [rng.choice([rng.randrange(-(2**63), 2**63), None]) for _ in range(len(some) + 1)],
        "real": [rng.choice([rng.random(), None]) for _ in range(len(some) + 1)],
        "word": [rng.choice([*WORDS, None]) for _ in range(len(some) + 1)],
        "flag": [rng.random() < 0.5 for _ in range(len(some) + 1)],
    }
    ds = fb.from_dict({column: [row[column] for row in left] for column in ("key", "row")})
    want = joined(left, right, "key", how)
    assert rows(ds.join(right, on="key", how=how)) == want
    table = fb.from_dict(right)
    assert (
        rows(ds.shuffle().join(table, on="key", how=how).batch(16).iter(seed=1) and ds.join(table, "key", how=how))
        == want
    )
    arrow = pa.table({**right, "whole": pa.array(right["whole"], pa.int64())})
    assert rows(ds.join(arrow, on="key", how=how), threads=1) == want


def test_types_of_the_table_are_kept_and_an_inner_join_has_none_missing():
    table = {
        "key": np.arange(4, dtype=np.uint8),
        "small": np.arange(4, dtype=np.int8),
        "half": np.array([0.5, math.nan, math.inf, -0.0], np.float16),
        "flag": np.array([True, False, True, True]),
        "name": ["a", "b", "c", "d"],
    }
    ds = fb.range(6).rename(id="key")
    inner, left = ds.join(table, on="key", how="inner"), ds.join(table, on="key")
    assert str(inner.schema) == "Schema(key: int64, small: int8, half: float16, flag: bool, name: string)"
    assert str(left.schema) == "Schema(key: int64, small: int8?, half: float16?, flag: bool?, name: string?)"
    half = [float(row["half"]) for row in inner]
    assert half[0] == 0.5
    assert math.isnan(half[1])
    assert half[2] == math.inf
    assert math.copysign(1, half[3]) == -1
    empty = fb.from_numpy({name: np.asarray(values)[:0] for name, values in table.items() if name != "name"})
    assert [plain(row["half"]) for row in fb.range(2).rename(id="key").join(empty, on="key")] == [None, None]
    assert list(fb.range(2).rename(id="key").join(empty, on="key", how="inner")) == []
    assert [plain(row["name"]) for row in left] == ["a", "b", "c", "d", None, None]


def test_a_join_stands_behind_filters_and_in_mixes_and_runs_on_a_service(service):
    table = {"key": list(range(0, 300, 2)), "value": [f"v{n}" for n in range(150)]}
    part = fb.range(300).rename(id="key").shuffle().join(table, on="key", how="inner")
    ds = fb.mix([part, part.filter(fb.col("key") > 50)], rows=400).batch(25)
    want = [fingerprint(batch) for batch in ds.iter(seed=2)]
    assert [fingerprint(batch) for batch in ds.distribute(service, job=name(), seed=2)] == want
    assert all(row["value"] == f"v{int(row['key']) // 2}" for row in part)


@pytest.mark.parametrize(
    ("table", "options", "says"),
    [
        ({"key": [1, 1], "x": [1, 2]}, {}, "two rows of the table have the key 1"),
        ({"key": [1, 2], "row": [1, 2]}, {}, "both have a column 'row'"),
        ({"key": [1, 2], "x": [b"a", b"b"]}, {}, "'x' of the table is no number or string"),
        ({"key": [1, 2], "x": [[1], [2]]}, {}, "'x' of the table is no number or string"),
        ({"other": [1, 2]}, {}, "no column 'key'"),
        ({"key": [1.5, math.nan], "x": [1, 2]}, {}, "is nan"),
        ({"key": ["a"], "x": [1]}, {}, "cannot be compared with texts"),
        ({"key": [1], "x": [1]}, {"how": "outer"}, "how"),
        ({"key": [1], "x": [1]}, {"on": "nowhere"}, "nowhere"),
    ],
)
def test_what_cannot_be_joined_is_refused_with_what_to_write(table, options, says):
    ds = fb.from_dict({"key": [1, 2], "row": [0, 1]})
    with pytest.raises(E.ForebayError, match=says):
        ds.join(table, **{"on": "key", **options})


def test_a_table_that_is_too_large_is_named(monkeypatch):
    monkeypatch.setattr(join_ops, "ROWS_MAX", 5000)
    with pytest.raises(E.InvalidPipelineError, match="more than 5000 rows"):
        fb.range(3).join(fb.range(10**12).with_column("x", fb.col("id")), on="id")
    with pytest.raises(E.InvalidPipelineError, match="more than 5000"):
        fb.range(6000).sort("id")


def test_look_ups_are_those_of_a_dictionary():
    X = fb.col("x")
    table = {"a": 1, "tide": -(2**63), "Σ": 2**63 - 1}
    ds = fb.from_dict({"x": [*WORDS, None]})
    found = [plain(row["x"]) for row in ds.with_column("x", X.lookup(table))]
    assert found == [table.get(word) for word in WORDS] + [None]
    found = [plain(row["x"]) for row in ds.with_column("x", X.lookup(table, default=0))]
    assert found == [table.get(word, 0) for word in WORDS] + [None]
    for dtype in ("int8", "uint64", "float32", "bool"):
        numbers = fb.range(4).with_column("x", fb.col("id").cast(dtype))
        want = [{0: "zero", 1.0: "one"}.get(min(n, 1) if dtype == "bool" else n) for n in range(4)]
        assert [plain(row["x"]) for row in numbers.with_column("x", X.lookup({0: "zero", 1.0: "one"}))] == want
    rng = random.Random(8)
    for keys in (range(-40, 40, 3), [rng.randrange(-(2**63), 2**63) for _ in range(200)], [0.0, 0.25, -7.5, 1e300]):
        values = {key: n for n, key in enumerate(keys)}
        asked = [*values, *(key + 1 for key in list(values)[:50] if key < 2**62), -0.0 if 0.0 in values else 2]
        rows = fb.from_dict({"x": asked}).with_column("in", X.isin(list(values))).with_column("x", X.lookup(values))
        assert [(plain(row["x"]), bool(row["in"])) for row in rows] == [(values.get(x), x in values) for x in asked]
    nans = fb.from_dict({"x": [0.5, math.nan, 2.0]}).with_column("x", X.lookup({0.5: 1.5}, default=math.nan))
    assert [str(float(row["x"])) for row in nans] == ["1.5", "nan", "nan"]
    assert repr(X.lookup({"a": 1})) == "col('x').lookup({1 keys})"
    for wrong in (["a"], {"a": None}, {"a": 1, "b": "c"}, {math.nan: 1}, {"a": [1]}, {"a": 2**63}):
        with pytest.raises((TypeError, OverflowError)):
            X.lookup(wrong)
    with pytest.raises(E.InvalidPipelineError, match="lookup"):
        fb.from_dict({"x": [[1, 2]]}).with_column("y", X.lookup({1: 2}))


@pytest.mark.parametrize("descending", [False, True])
def test_sorted_samples_are_those_of_sorted(descending):
    rng = random.Random(4)
    for make in (lambda: rng.randrange(9), lambda: rng.random(), lambda: rng.choice(WORDS), lambda: rng.random() < 0.5):
        values = [make() for _ in range(300)]
        ds = fb.from_dict({"x": values}).enumerate("n").sort("x", descending=descending)
        want = sorted(range(300), key=lambda n: values[n], reverse=descending)
        assert [int(row["n"]) for row in ds] == want
    assert [
        int(row["id"]) for row in fb.range(3).sort("id").batch(2).take(1).iter() for row in [{"id": row["id"][0]}]
    ] == [0]


def test_what_has_no_order_is_refused():
    for values in ([1, None], [1.0, math.nan]):
        with pytest.raises(E.InvalidPipelineError, match="missing or nan"):
            fb.from_dict({"x": values}).sort("x")
    with pytest.raises(E.InvalidPipelineError, match="neither numbers nor strings"):
        fb.from_dict({"x": [[1], [2]]}).sort("x")
    with pytest.raises(E.InvalidPipelineError, match="not known"):
        fb.range(9).filter(fb.col("id") > 2).sort("id")
