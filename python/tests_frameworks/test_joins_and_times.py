"""Joins, sorted samples and times give what polars and pandas give."""

from __future__ import annotations

import datetime as dt
import random

import forebay as fb
import numpy as np
import pytest

pl = pytest.importorskip("polars")
pd = pytest.importorskip("pandas")

WHEN = fb.col("when")


def rows(ds: fb.Dataset) -> list[dict]:
    found = []
    for row in ds:
        plain = {name: value.item() if hasattr(value, "item") else value for name, value in row.items()}
        found.append({name: None if value is np.ma.masked else value for name, value in plain.items()})
    return found


@pytest.mark.parametrize("how", ["left", "inner"])
@pytest.mark.parametrize("seed", range(5))
def test_joins_are_those_of_polars(how, seed):
    rng = random.Random(seed)
    keys = [f"k{n}" for n in range(20)] if seed % 2 else list(range(20))
    left = pl.DataFrame({"key": [rng.choice([*keys, None]) for _ in range(300)], "row": list(range(300))})
    some = rng.sample(keys, 12)
    right = pl.DataFrame(
        {"key": [*some, None], "x": [rng.choice([n, None]) for n in range(13)], "s": [f"s{n}" for n in range(13)]},
        schema_overrides={"x": pl.Int16},
    )
    want = left.join(right, on="key", how=how, maintain_order="left").to_dicts()
    ds = fb.from_table(left)
    assert rows(ds.join(right, on="key", how=how)) == want
    assert rows(ds.join(right.to_pandas(), on="key", how=how).drop("x")) == [
        {name: value for name, value in row.items() if name != "x"} for row in want
    ]


@pytest.mark.parametrize("descending", [False, True])
def test_sorted_samples_are_those_of_polars(descending):
    rng = random.Random(1)
    frame = pl.DataFrame({"x": [rng.randrange(30) for _ in range(500)], "n": list(range(500))})
    want = frame.sort("x", descending=descending, maintain_order=True).to_dicts()
    assert rows(fb.from_table(frame).sort("x", descending=descending)) == want


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_times_are_those_of_polars_and_pandas(unit, tmp_path):
    rng = random.Random(unit)
    first, last = dt.datetime(1700, 1, 1), dt.datetime(2250, 1, 1)
    times = [(first + rng.random() * (last - first)).replace(microsecond=0) for _ in range(500)]
    frame = pl.DataFrame({"when": times}, schema={"when": pl.Datetime(unit)})
    frame.write_parquet(tmp_path / "t.parquet")
    ds = fb.from_parquet(tmp_path / "t.parquet")
    series, when = frame.to_pandas()["when"], WHEN.dt(unit)

    def computed(expr: fb.Expr) -> list[int]:
        return [int(value) for batch in ds.with_column("y", expr).batch(100) for value in batch["y"]]

    for part in ("year", "month", "day", "hour", "minute", "second", "ordinal_day"):
        own = computed(getattr(when, part)())
        assert own == frame.select(getattr(pl.col("when").dt, part)())["when"].to_list(), part
        assert own == getattr(series.dt, {"ordinal_day": "dayofyear"}.get(part, part)).tolist(), part
    assert computed(when.weekday()) == series.dt.weekday.tolist()
    for every in ("1d", "6h", "15m", "1w"):
        want = frame.select(pl.col("when").dt.truncate(every).dt.cast_time_unit(unit).cast(pl.Int64))["when"].to_list()
        assert computed(when.floor(every)) == want, every
    text = frame.select(pl.col("when").dt.to_string("iso:strict"))["when"].to_list()
    read = fb.from_dict({"when": text}).with_column("when", WHEN.str.to_time(unit))
    assert [int(row["when"]) for row in read] == frame.select(pl.col("when").cast(pl.Int64))["when"].to_list()
    bound = dt.datetime(1999, 12, 31, 23)
    assert len(list(ds.filter(when < bound))) == len(frame.filter(pl.col("when") < bound))


def test_patterns_words_and_joined_lists_are_those_of_polars():
    rng = random.Random(4)
    texts = ["".join(rng.choices("ab 1\té日", k=rng.randrange(9))) for _ in range(500)] + [None]
    lists = [rng.choices(range(9), k=rng.randrange(4)) for _ in texts]
    frame = pl.DataFrame({"x": texts, "l": lists, "n": [rng.randrange(9) for _ in texts]})
    ds, x, of = fb.from_table(frame), fb.col("x").str, pl.col("x").str
    pairs = [
        (x.replace("(a)(1)?", r"<\2\g<1>>", regex=True), of.replace_all("(a)(1)?", "<${2}${1}>")),
        (x.extract("(b)|1"), of.extract("(b)|1")),
        (x.extract("[é日]", 0), of.extract("[é日]", 0)),
        (x.findall("[ab]+"), of.extract_all("[ab]+")),
        (fb.concat_list(["l", "n", fb.col("l").list.slice(0, 1)]), pl.concat_list("l", "n", pl.col("l").list.head(1))),
    ]
    for own, other in pairs:
        want = frame.select(other.alias("y"))["y"].to_list()
        made = [row["y"] for row in ds.with_column("y", own)]
        assert [value.tolist() if isinstance(value, np.ndarray) else value for value in made] == want, str(own)
    numbers = pl.DataFrame({"f": [rng.uniform(-1, 1) for _ in range(300)]})
    real = ("sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "tanh", "cbrt", "degrees", "radians")
    for name in real:
        made = [row["y"] for row in fb.from_table(numbers).with_column("y", getattr(fb.col("f"), name)())]
        np.testing.assert_allclose(made, numbers.select(getattr(pl.col("f"), name)())["f"], rtol=1e-13, atol=1e-15)
    times = [dt.datetime(2000, 1, 1) + dt.timedelta(minutes=rng.randrange(10**7)) for _ in range(200)]
    frame = pl.DataFrame({"when": times}, schema={"when": pl.Datetime("us")})
    for format in ("%d/%m/%Y %H:%M", "%b %d, %Y %I:%M %p", "%Y-%j %H.%M"):
        text = frame.select(pl.col("when").dt.strftime(format))["when"].to_list()
        ds = fb.from_dict({"when": text}).with_column("t", WHEN.str.to_time("us", format))
        ds = ds.with_column("again", fb.col("t").dt.strftime(format))
        want = [(time - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1) for time in times]
        assert [(int(row["t"]), row["again"]) for row in ds] == list(zip(want, text, strict=True))
