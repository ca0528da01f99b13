"""A column of times has a unit: it need not be named, and another one is an error."""

from __future__ import annotations

import datetime as dt
import pickle
from pathlib import Path

import forebay as fb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

E = fb.errors
WHEN = fb.col("when")
FIRST = dt.datetime(2024, 2, 29, 13, 7, 9)
TIMES = [FIRST, FIRST + dt.timedelta(days=300), None]
UNITS = ["s", "ms", "us", "ns"]


def table(unit: str) -> pa.Table:
    return pa.table({"when": pa.array(TIMES, pa.timestamp(unit)), "day": pa.array(TIMES, pa.date32())})


def stored(folder: Path, unit: str, kind: str, **options) -> fb.Dataset:
    path = folder / f"{unit}.{kind}"
    if kind == "parquet":
        pq.write_table(table(unit), path)
        return fb.from_parquet(path, **options)
    feather.write_feather(table(unit), path)
    return fb.from_arrow(path, **options)


def values(ds: fb.Dataset, expr: fb.Expr) -> list:
    return [value for batch in ds.with_column("y", expr).batch(8) for value in batch["y"].tolist()]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("made", ["arrow", "parquet", "merged", "table"])
def test_the_unit_is_that_of_the_column(tmp_path, unit, made):
    options = {"merge_schemas": True} if made == "merged" else {}
    kind = "parquet" if made == "merged" else made
    ds = fb.from_table(table(unit)) if made == "table" else stored(tmp_path, unit, kind, **options)
    if made in ("parquet", "merged") and unit == "s":
        unit = "ms"  # Parquet has no seconds.
    assert ds.schema.times == {"when": unit, "day": "D"}
    assert f"when: int64? ({unit})" in repr(ds)
    for dataset in (
        ds,
        pickle.loads(pickle.dumps(ds)),
        ds.shuffle().rename(when="t").rename(t="when").filter(WHEN > 0),
    ):
        assert sorted(v for v in values(dataset, WHEN.dt.hour()) if v is not None) == [13, 13]
    assert values(ds, WHEN.dt.floor("1d")) == values(ds, WHEN.dt(unit).floor("1d"))
    assert values(ds, fb.col("day").dt.month()) == [2, 12, None]
    after = ds.filter(WHEN.dt >= dt.date(2024, 3, 1))
    assert values(after, WHEN.dt.year()) == [2024]
    assert ds.with_column("y", WHEN.dt.year()).dataset_id == ds.with_column("y", WHEN.dt(unit).year()).dataset_id


def test_a_unit_that_the_column_has_not_is_an_error(tmp_path):
    ds = stored(tmp_path, "us", "parquet")
    for wrong in (lambda: WHEN.dt("ms").year(), lambda: WHEN.dt("s").floor("1d"), lambda: WHEN.dt("D") > FIRST.date()):
        with pytest.raises(E.InvalidPipelineError, match=r"with_column: column 'when' counts 'us', and \.dt"):
            ds.with_column("y", wrong())
    with pytest.raises(E.InvalidPipelineError, match="filter: column 'when' counts 'us'"):
        ds.filter(WHEN.dt("ms") > FIRST)
    assert values(ds, (WHEN // 1000).dt("ms").year()) == [2024, 2024, None]
    with pytest.raises(ValueError, match="is between two numbers"):
        stored(tmp_path, "ms", "arrow").filter(WHEN.dt > FIRST.replace(microsecond=5))


def test_columns_of_two_units_are_not_compared_or_subtracted(tmp_path):
    ds, when, day = stored(tmp_path, "ms", "parquet"), fb.col("when"), fb.col("day")
    for wrong in (when - day, (when + day) // 2, fb.where(when > day, 1, 0)):
        with pytest.raises(E.InvalidPipelineError, match="'when' counts 'ms', and column 'day' counts 'D'") as caught:
            ds.with_column("y", wrong)
        assert "fb.col('day') * 86400000, which counts 'ms'" in caught.value.context["hint"]
    assert values(ds, (WHEN - day * 86_400_000) // 3_600_000)[0] == 13
    assert values(ds.with_column("later", WHEN + 5), fb.col("later") - WHEN)[:2] == [5, 5]


def test_a_timestamp_of_pandas_keeps_its_nanoseconds():
    class Timestamp(dt.datetime):
        nanosecond = 1

    ds = fb.from_table(pa.table({"when": pa.array([1_000, 1_001], pa.timestamp("ns"))}))
    assert len(list(ds.filter(WHEN.dt >= Timestamp(1970, 1, 1, 0, 0, 0, 1)))) == 1


def test_without_a_unit_it_has_to_be_said(tmp_path):
    plain = fb.from_dict({"when": [0, 3600]})
    assert plain.schema.times == {}
    with pytest.raises(E.InvalidPipelineError, match="the unit of column 'when' is not known") as caught:
        plain.with_column("y", WHEN.dt.hour())
    assert ".dt('us').hour(" in caught.value.context["hint"]
    assert values(plain, WHEN.dt("s").hour()) == [0, 1]
    ds = stored(tmp_path, "ms", "parquet")
    with pytest.raises(E.InvalidPipelineError, match="the unit of the time is not known"):
        ds.with_column("y", (WHEN + 1).dt.hour())
    with pytest.raises(E.InvalidPipelineError, match="filter: the unit of column 'when' is not known"):
        ds.with_column("when", WHEN // 2).filter(WHEN.dt > FIRST)
    with pytest.raises(E.InvalidPipelineError, match="not known"):
        ds.map(lambda row: {"when": 3}, writes=["when"], schema={"when": "int64"}).with_column("y", WHEN.dt.hour())


def test_units_follow_the_numbers(tmp_path):
    ds = stored(tmp_path, "ms", "parquet")
    made = ds.with_column("begin", WHEN.dt.floor("1h")).with_column("filled", WHEN.fill_null(0))
    made = made.with_column("later", WHEN + 60_000).with_column("half", WHEN // 2)
    assert made.schema.times == {"when": "ms", "day": "D", "begin": "ms", "filled": "ms", "later": "ms"}
    assert values(made, fb.col("later").dt.minute()) == [8, 8, None]
    read = fb.from_dict({"text": ["2024-02-29T13:07:09"]}).with_column("t", fb.col("text").str.to_time("s"))
    assert values(read, fb.col("t").dt.ordinal_day()) == [60]
    assert values(read, fb.col("text").str.to_time("s").dt.hour()) == [13]


def test_datasets_that_count_differently_are_not_read_as_one(tmp_path):
    ms, us = (stored(tmp_path, unit, "parquet").select("when") for unit in ("ms", "us"))
    for combine in (fb.mix, fb.concatenate, fb.interleave):
        with pytest.raises(E.InvalidPipelineError, match='column "when" counts "us" in "1"'):
            combine([ms, us])
    both = fb.concatenate([ms, us.with_column("when", WHEN // 1000)])
    assert both.schema.times == {}, "a quotient says no unit"
    assert fb.concatenate([ms, ms]).schema.times == {"when": "ms"}
    zipped = fb.zip(ms, us.rename(when="other"))
    assert zipped.schema.times == {"when": "ms", "other": "us"}
