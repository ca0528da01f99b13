"""Filters right behind Parquet files: columns are decoded for the rows that stay, and no row differs by that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import forebay as fb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

X, Y, WORD = fb.col("x"), fb.col("y"), fb.col("word")
ROWS = 1000
CONDITIONS = {
    "half": X > 0,
    "all": X.is_null() | (X == X) | (X != X),
    "none": X > 100,
    "missing": X.is_null(),
    "parts": (Y > 0) & (X > -1) & WORD.str.ends_with("7"),
    "either": (X > 1) | (WORD == "word 3"),
    "negated": ~((X > 0) & (Y > 0)),
    "fails in some rows": (Y > 0) & (WORD.str.slice(5).cast("int64") > 9),
    "fails behind a missing value": (X > 0) & (WORD.str.slice(5).cast("int64") > 9),
    "fails, and then false": (WORD.str.slice(5).cast("int64") > 9) & (Y > 0),
    "constant": (X > 0) & True,
}


def _table() -> dict[str, list[Any]]:
    rng = np.random.default_rng(0)
    x = [None if draw < 0.1 else float("nan") if draw < 0.2 else float(rng.normal()) for draw in rng.random(ROWS)]
    words = [None if n == 0 else "word x" if n == 1 else f"word {n}" for n in rng.integers(0, 20, ROWS)]
    lists = [[float(i)] * int(n) for i, n in enumerate(rng.integers(0, 4, ROWS))]
    y = rng.normal(size=ROWS).tolist()
    return {"id": list(range(ROWS)), "x": x, "y": y, "word": words, "lists": lists, "other": words}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, table = tmp_path_factory.mktemp("tables"), pa.table(_table())
    # Small pages are skipped as a whole. The second file lacks a column, and has narrower numbers.
    pq.write_table(table.slice(0, 600), folder / "a.parquet", row_group_size=70, data_page_size=200)
    other = table.slice(600).drop_columns(["other"]).set_column(0, "id", table["id"].slice(600).cast("int16"))
    pq.write_table(other, folder / "b.parquet", use_dictionary=False)
    return folder


def _stream(ds: fb.Dataset, threads: int) -> tuple[list[dict[str, Any]], list[str]]:
    def plain(value: Any) -> Any:
        return repr(value.tolist() if hasattr(value, "tolist") else value)

    iterator = ds.iter(seed=3, threads=threads, on_error="skip", error_budget=1.0)
    rows = [{name: plain(value) for name, value in row.items()} for row in iterator]
    return rows, sorted(f"{lost.sample}: {lost.error.message}" for lost in iterator.skipped)


@pytest.mark.parametrize("name", CONDITIONS)
@pytest.mark.parametrize("order", ["files", "shuffle", "window"])
def test_rows_are_those_of_a_filter_that_reads_nothing(folder: Path, name: str, order: str) -> None:
    files = fb.from_parquet(str(folder / "*.parquet"), merge_schemas=True)
    ds = {"files": files, "shuffle": files.shuffle(), "window": files.shuffle(window=150)}[order]
    copied = ds.with_column("copy", Y)
    for before in (Y < 9, Y < 1):
        # Behind another op, a filter drops rows whose columns were all decoded.
        rows, lost = _stream(copied.filter(before).filter(CONDITIONS[name]).drop("copy"), 1)
        assert (rows == []) == (name == "none")
        assert (lost != []) == name.startswith("fails")
        assert _stream(ds.filter(before).filter(CONDITIONS[name]), 2) == (rows, lost)


def test_a_row_that_is_left_out_cannot_fail(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1, 2], "y": [1, 2]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": [3, None, 5], "y": [None, 4, 5]}), tmp_path / "b.parquet")
    ds = fb.from_parquet([str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet")], nullable=[])
    iterator = ds.filter(fb.col("y") > 4).iter(on_error="skip", error_budget=1.0)
    assert [int(row["x"]) for row in iterator] == [5]
    # The condition needs y, so the row without it fails; the row without x is left out.
    first = [f"{tmp_path}/b.parquet#0 (row group 0)"]
    assert [lost.sample for lost in iterator.skipped] == first
    # A later condition, which is false for that row, does not hide that it fails.
    iterator = ds.filter((fb.col("y") > 4) & (fb.col("x") > 3)).iter(on_error="skip", error_budget=1.0)
    assert [int(row["x"]) for row in iterator] == [5]
    assert [lost.sample for lost in iterator.skipped] == first
