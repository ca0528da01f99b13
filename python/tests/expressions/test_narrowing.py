"""Columns that may be missing: columns without missing values, by files, conditions or filling, are plain arrays."""

from __future__ import annotations

import random
import uuid
from pathlib import Path

import forebay as fb
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from forebay import errors as E


def parts(folder: Path, *values: list[int | None], **options) -> Path:
    """One Parquet file for each list, in row groups of three, as a default writer makes it."""
    for i, column in enumerate(values):
        table = pa.table({"n": pa.array(column, pa.int64()), "s": ["a"] * len(column)})
        pq.write_table(table, folder / f"{i:03}.parquet", row_group_size=3, **options)
    return folder / "*.parquet"


def kinds(ds: fb.Dataset) -> set[tuple[type, str]]:
    """Returns the types of the columns of all batches."""
    return {(type(array), str(array.dtype)) for batch in ds.batch(4) for array in [batch["n"]]}


PLAIN, MASKED = {(np.ndarray, "int64")}, {(np.ma.MaskedArray, "int64")}


def test_what_the_footers_count_as_there_is_a_plain_array(tmp_path):
    whole = fb.from_parquet(parts(tmp_path, list(range(8)), list(range(5))))
    assert (str(whole.schema), kinds(whole)) == ("Schema(n: int64, s: string)", PLAIN)
    # Only the last row group of the last file has a missing value. Every batch has the same type.
    some = fb.from_parquet(parts(tmp_path, list(range(8)), [1, 2, 3, 4, None]))
    assert (some.schema.nullable, kinds(some)) == ({"n"}, MASKED)
    untold = fb.from_parquet(parts(tmp_path, [1, 2], [3], write_statistics=False))
    assert (untold.schema.nullable, kinds(untold)) == ({"n", "s"}, MASKED)
    said = fb.from_parquet(tmp_path / "*.parquet", nullable=[])
    assert (said.schema.nullable, kinds(said)) == (frozenset(), PLAIN)


def test_a_file_without_rows_or_that_is_none_says_nothing(tmp_path):
    ds = fb.from_parquet(parts(tmp_path, [], [1, 2], []))
    assert (ds.schema.nullable, kinds(ds)) == (frozenset(), PLAIN)
    assert fb.from_parquet(parts(tmp_path, [], [], [])).schema.nullable == {"n", "s"}
    parts(tmp_path, [1], [2], [3])
    (tmp_path / "001.parquet").write_bytes(b"PAR1 this is none PAR1")
    ds = fb.from_parquet(tmp_path / "*.parquet")
    assert ds.schema.nullable == frozenset()
    with pytest.raises(E.DataError, match="not a parquet file") as caught:
        list(ds)
    assert "001.parquet" in caught.value.context["file"]


def test_of_many_files_few_are_looked_at_and_one_that_breaks_what_they_say_is_named(tmp_path):
    files = [[i, i] for i in range(40)]
    files[6] = [6, None]  # not one of the files that are read for the types
    ds = fb.from_parquet(parts(tmp_path, *files))
    assert ds.schema.nullable == frozenset()
    with pytest.raises(E.DataError, match='"n" is missing in this row, and was found') as caught:
        list(ds)
    context = caught.value.context
    assert "006.parquet" in context["file"]
    assert 'nullable=["n"]' in context["hint"]
    assert len(list(ds.iter(on_error="skip", error_budget=1))) == 79
    rows = list(fb.from_parquet(tmp_path / "*.parquet", nullable=["n"]).fill_null("n", -1))
    assert sum(int(row["n"]) == -1 for row in rows) == 1
    with pytest.raises(E.NotFoundError, match='no column "m"'):
        fb.from_parquet(tmp_path / "*.parquet", nullable=["m"])
    # A column without values has no type in its file.
    pq.write_table(pa.table({"n": pa.nulls(2), "s": ["a", "b"]}), tmp_path / "006.parquet")
    with pytest.raises(E.DataError, match='"n" is missing in every row of this file') as caught:
        list(fb.from_parquet(tmp_path / "*.parquet"))
    assert 'nullable=["n"]' in caught.value.hint


def test_nested_and_listed_values_are_only_there_where_nothing_of_them_is_missing(tmp_path):
    structs = [{"a": 1, "b": None}, {"a": 2, "b": 3}]
    texts = pa.array([["x", None], []], pa.list_(pa.string()))
    table = pa.table({"s": structs, "t": texts, "u": pa.array([{"a": 1}, None], pa.struct([("a", pa.int64())]))})
    pq.write_table(table, tmp_path / "a.parquet")
    ds = fb.from_parquet(tmp_path / "a.parquet")
    assert ds.schema.nullable == {"s.b", "t", "u.a"}
    assert [(r["s.a"], r["s.b"], r["t"], r["u.a"]) for r in ds] == [(1, None, ["x", None], 1), (2, 3, [], None)]


def test_arrow_files_say_themselves_what_may_be_missing_unless_it_is_said(tmp_path):
    pyarrow.feather.write_feather(pa.table({"n": [1, 2, 3]}), tmp_path / "a.arrow", compression="uncompressed")
    assert kinds(fb.from_arrow(tmp_path / "a.arrow")) == MASKED
    assert kinds(fb.from_arrow(tmp_path / "a.arrow", nullable=[])) == PLAIN
    saved = tmp_path / "saved"
    fb.from_arrow(tmp_path / "a.arrow").fill_null("n", 0).save(saved)
    assert kinds(fb.load(saved)) == PLAIN


def test_filters_where_and_fillings_prove_that_nothing_is_missing(tmp_path):
    ds = fb.from_parquet(parts(tmp_path, [1, None, 3, 4, None]))
    n = fb.col("n")
    for made in (
        ds.filter(~n.is_null()),
        ds.filter(n > 1),
        ds.filter((n > 1) & (fb.col("s") == "a")),
        ds.with_column("n", fb.where(n.is_null(), 0, n)),
        ds.with_column("n", fb.where(~n.is_null(), n, 0)),
        ds.with_column("n", fb.where(n > 2, n, 0)),
        ds.with_column("n", n.fill_null(0)),
        ds.fill_null("n", 0),
        ds.fill_null({"n": 0, "s": ""}),
        ds.fill_null(["n"], 0).shuffle(),
    ):
        assert "n" not in made.schema.nullable
        assert kinds(made) == PLAIN
    for made in (ds.filter(n.is_null() | (n > 1)), ds.filter(lambda row: row["n"] is not None)):
        assert kinds(made) == MASKED
    assert [int(r["n"]) for r in ds.fill_null("n", fb.col("n").hash_mod(3).fill_null(7))] == [1, 7, 3, 4, 7]
    for value, text in ((0.5, "that is float64"), ("x", "that is string"), (2**40, "out of range")):
        with pytest.raises(E.InvalidPipelineError, match=text) as caught:
            ds.cast(n="int8").fill_null("n", value)
        assert caught.value.context["op"] == "fill_null"


def test_tensors_have_no_place_for_what_is_missing(tmp_path):
    ds = fb.from_parquet(parts(tmp_path, [1, None]))
    with pytest.raises(E.InvalidPipelineError, match="to_torch: column 'n' is int64, and may be missing") as caught:
        ds.batch(2).to_torch()
    assert ".fill_null('n', 0)" in caught.value.hint


def condition(draw: random.Random, depth: int) -> fb.Expr:
    columns = ["a", "b", "c"]
    if depth == 0:
        x, y = fb.col(draw.choice(columns)), fb.col(draw.choice(columns))
        return draw.choice(
            [x > 2, x == y, x.is_null(), ~x.is_null(), x.fill_null(y) > 1, (x + y).is_null(), x.cast("bool")]
        )
    left, right = condition(draw, depth - 1), condition(draw, draw.randint(0, depth - 1))
    return draw.choice([left & right, left | right, ~left, fb.where(left, right, ~right), left.fill_null(right)])


def test_nothing_is_missing_that_a_random_condition_is_taken_to_prove():
    rng = np.random.default_rng(0)
    data = {name: np.ma.array(rng.integers(0, 5, 200), mask=rng.random(200) < 0.4) for name in "abc"}
    ds = fb.from_numpy(data)
    draw, narrowed = random.Random(5), 0
    for _ in range(120):
        keep, cond, x, y = (
            condition(draw, draw.randint(0, 3)),
            condition(draw, draw.randint(0, 3)),
            fb.col(draw.choice("abc")),
            fb.col(draw.choice("abc")),
        )
        made = ds.filter(keep).with_column("z", fb.where(cond, x, y)).with_column("w", fb.where(cond, 0, x + y))
        checked = made
        for name in "abczw":
            checked = checked.with_column(f"{name}?", fb.col(name).is_null())
        whole = [name for name in "abczw" if name not in made.schema.nullable]
        narrowed += len(whole)
        # For the engine, the column of the flag may be missing, so it checks the values.
        for batch in checked.batch(64):
            assert not any(batch[f"{name}?"].any() for name in whole), (keep, cond, x, y, whole)
        wide = ds.with_column("k", keep).filter(lambda row: bool(row["k"]))
        assert [int(r["a"] or -1) for r in wide] == [int(r["a"] or -1) for r in ds.filter(keep)], keep
    assert narrowed > 50


def test_filters_that_narrow_still_move_and_give_the_same(tmp_path):
    values = [None if i % 5 == 1 else i for i in range(200)]
    ds = fb.from_parquet(parts(tmp_path, values))
    ds = ds.map(lambda row: {"m": row["s"] * 2}, reads=["s"], writes=["m"], schema={"m": "string"})
    ds = ds.with_column("d", fb.col("n") * 2).filter(fb.col("n") > 50)
    for made in (ds, ds.with_column("d", fb.col("d").fill_null(0))):
        a, b = ([(r["n"], r["d"], r["m"]) for r in made.iter(order=order)] for order in ("exact", "off"))
        assert a == b
        assert len(a) == sum(v is not None and v > 50 for v in values)


def test_a_service_has_the_types_that_its_reader_has(tmp_path, service):
    ds = fb.from_parquet(parts(tmp_path, [1, 2, 3], [4, None]))
    for made, want in ((ds, MASKED), (ds.filter(fb.col("n") > 1), PLAIN), (ds.fill_null("n", 0), PLAIN)):
        there = made.batch(2).distribute(service, job=uuid.uuid4().hex[:8])
        assert {(type(b["n"]), str(b["n"].dtype)) for b in there} == want == kinds(made)
