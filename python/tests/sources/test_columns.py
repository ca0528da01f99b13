"""Only the columns that the pipeline needs are read from a file, in every way to select them, with the same output."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable
from pathlib import Path

import forebay as fb
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from forebay import errors as E
from sources.test_sources import example, record

ROWS = 240
#: In this row the column "bad" cannot be read.
BAD = 150


def ids(i: int) -> list[int] | None:
    return None if i == BAD else [i, i + 1]


def parquet(folder: Path) -> fb.Dataset:
    table = pa.table({"bad": [ids(i) for i in range(ROWS)], "a": range(ROWS), "b": [i * 0.5 for i in range(ROWS)]})
    pq.write_table(table, folder / "x.parquet", row_group_size=50)
    return fb.from_parquet(folder / "x.parquet")


def arrow(folder: Path) -> fb.Dataset:
    table = pa.table({"a": range(ROWS), "bad": [ids(i) for i in range(ROWS)], "b": [i * 0.5 for i in range(ROWS)]})
    pyarrow.feather.write_feather(table, folder / "x.arrow", chunksize=50)
    return fb.from_arrow(folder / "x.arrow")


def lines(folder: Path) -> fb.Dataset:
    rows = ({"a": i, "b": i * 0.5, "bad": "no number" if i == BAD else i} for i in range(ROWS))
    (folder / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return fb.from_jsonl(folder / "x.jsonl")


def records(folder: Path) -> fb.Dataset:
    rows = (record(example(a=[i], b=[i * 0.5], bad=[1, 2] if i == BAD else [1])) for i in range(ROWS))
    (folder / "x.tfrecord").write_bytes(b"".join(rows))
    features = {"a": ("int64", []), "b": ("float32", []), "bad": ("int64", [])}
    return fb.from_tfrecord(folder / "x.tfrecord", features=features)


#: Pipelines that do not need "bad".
WITHOUT: list[Callable[[fb.Dataset], fb.Dataset]] = [
    lambda ds: ds.drop("bad"),
    lambda ds: ds.select("a", "b"),
    lambda ds: ds.shuffle().filter(fb.col("a") < ROWS).with_column("c", fb.col("b") * 2).select("b", "c", "a"),
    lambda ds: ds.rename(bad="worse", a="z").drop("worse"),
    lambda ds: ds.map(lambda row: {"s": row["a"] + row["b"]}, reads=["a", "b"], writes=["s"]).drop("bad"),
    lambda ds: ds.drop("bad").batch(16).map(lambda batch: {"s": batch["a"]}, reads=["a"], writes=["s"]).select("s"),
    lambda ds: ds.drop("bad").cache(),
    lambda ds: ds.drop("bad").autocache().shuffle().batch(7),
    lambda ds: ds.with_column("bad", fb.col("a")).drop("bad"),
    lambda ds: ds.with_column("one", fb.lit(1) + fb.col("a") * 0).select("one"),
]
#: Pipelines that need it.
WITH: list[Callable[[fb.Dataset], fb.Dataset]] = [
    lambda ds: ds,
    lambda ds: ds.select("bad"),
    lambda ds: ds.rename(bad="a", a="bad").drop("bad"),
    lambda ds: ds.map(lambda row: row).select("a"),
    lambda ds: ds.map(lambda row: {"s": row["a"]}, reads=["a", "bad"], writes=["s"]).drop("bad"),
    lambda ds: ds.cache().drop("bad"),
]


def count(stream) -> int:
    return sum(len(next(iter(b.values()))) if np.ndim(next(iter(b.values()))) else 1 for b in stream)


@pytest.mark.parametrize("source", [parquet, arrow, lines, records])
def test_a_column_that_is_not_needed_fails_no_row(source, tmp_path, service):
    ds = source(tmp_path)
    for make in WITHOUT:
        made = make(ds)
        assert count(made.iter(epochs=2)) == 2 * ROWS, made.explain()
        assert count(made.distribute(service, job=str(uuid.uuid4()))) == ROWS, made.explain()
        assert count(made.iter(on_error="skip")) == ROWS
    for make in WITH:
        with pytest.raises(E.DataError, match="bad"):
            count(make(ds).iter())
    assert "not needed, so not read: bad" in WITHOUT[0](ds).explain(splits=False)


def test_nothing_but_the_count_of_rows_is_needed(tmp_path):
    ds = parquet(tmp_path).with_column("x", fb.lit(7)).select("x")
    assert [b["x"].tolist() for b in ds.batch(100).iter()] == [[7] * 100, [7] * 100, [7] * 40]


class Draw(random.Random):
    """Ops on columns, and their result in plain Python."""

    def ops(self, ds: fb.Dataset, rows: list[dict]) -> tuple[fb.Dataset, list[dict]]:
        for _ in range(self.randrange(1, 9)):
            names = list(rows[0])
            some = self.sample(names, self.randrange(1, len(names) + 1))
            one, other = self.choice(names), self.choice(names)
            kind = self.choice(["select", "drop", "rename", "swap", "add", "over", "filter", "map", "alone"])
            if kind == "select":
                ds, rows = ds.select(*some), [{n: r[n] for n in some} for r in rows]
            elif kind == "drop" and len(some) < len(names):
                ds, rows = ds.drop(*some), [{n: r[n] for n in names if n not in some} for r in rows]
            elif kind in ("rename", "swap"):
                both = kind == "swap" and one != other
                to = {one: other, other: one} if both else {one: f"{one}_{self.random():.6f}"}
                ds, rows = ds.rename(**to), [{to.get(n, n): r[n] for n in names} for r in rows]
            elif kind in ("add", "over"):
                name = f"n{self.randrange(10**6)}" if kind == "add" else one
                ds, rows = ds.with_column(name, fb.col(other) + 1), [{**r, name: r[other] + 1} for r in rows]
            elif kind == "filter":
                left = [r for r in rows if r[one] % 7 != 3]
                ds, rows = (ds.filter(fb.col(one) % 7 != 3), left) if left else (ds, rows)
            elif kind == "map":
                ds = ds.map(lambda row, one=one: {"m": row[one] * 2}, reads=[one], writes=["m"])
                rows = [{**r, "m": r[one] * 2} for r in rows]
            elif kind == "alone":
                ds = ds.map(lambda row, one=one: {one: row[one]}, reads=[one], schema={one: "int64"})
                rows = [{one: r[one]} for r in rows] if list(ds.schema) == [one] else rows
        return ds, rows


@pytest.mark.parametrize("block", range(4))
def test_random_pipelines_give_what_plain_python_gives(block, tmp_path, service):
    rng = np.random.default_rng(block)
    table = pa.table({name: rng.integers(0, 1000, 90) for name in "abcde"})
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=40)
    sources = [fb.from_parquet(tmp_path / "x.parquet"), fb.from_numpy({n: table[n].to_numpy() for n in "abcde"})]
    for seed in range(40):
        draw = Draw(block * 1000 + seed)
        ds, want = draw.ops(sources[seed % 2], table.to_pylist())
        for order in ("exact", "off"):
            got = list(ds.iter(order=order))
            assert [{n: int(v) for n, v in row.items()} for row in got] == want, (seed, ds.explain())
            assert [list(row) for row in got] == [list(row) for row in want], (seed, ds.explain())
        if seed % 10 == 0:
            got = ds.distribute(service, job=str(uuid.uuid4()))
            assert [{n: int(v) for n, v in row.items()} for row in got] == want, (seed, ds.explain())
