"""Columns in the paths of files: the result of pyarrow.dataset for the same folders."""

from __future__ import annotations

import itertools
import shutil
import tempfile
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import quote

import forebay as fb
import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from buckets import credentials, put
from hypothesis import given, settings
from hypothesis import strategies as st
from pipelines import fingerprint

E = fb.errors
MISSING = "__HIVE_DEFAULT_PARTITION__"
ROWS = 3


def write(
    root: Path, folders: list[str], write_file: Any = pq.write_table, name: str = "part.parquet", **more: Any
) -> None:
    """Writes a file of a few rows into each folder; `x` names the row."""
    for number, folder in enumerate(folders):
        (root / folder).mkdir(parents=True, exist_ok=True)
        x = pa.array(range(number * ROWS, (number + 1) * ROWS))
        write_file(pa.table({"x": x, **more}), str(root / folder / name))


def rows(ds: fb.Dataset) -> list[dict[str, Any]]:
    plain = lambda value: value.item() if isinstance(value, np.generic) else value  # noqa: E731
    return sorted(({k: plain(v) for k, v in row.items()} for row in ds), key=lambda row: row["x"])


def by_pyarrow(root: Path, format: str = "parquet") -> list[dict[str, Any]]:
    found = pads.dataset(root, format=format, partitioning="hive").to_table().to_pylist()
    return sorted(found, key=lambda row: row["x"])


VALUES = st.one_of(
    st.integers(-(10**6), 10**6).map(str),
    st.sampled_from(["007", "-0", "+5", "1.5", "", "a b", "ä/ö", "100%", "%41", "=", "a=b", "true", "1_000", MISSING]),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=4),
)
KEYS = st.sampled_from(["year", "k k", "Größe"])
LEVEL = st.tuples(KEYS, VALUES) | st.just(("plain", None))


@settings(max_examples=120, deadline=None)
@given(st.lists(st.lists(LEVEL, max_size=3, unique_by=lambda level: level[0]), min_size=1, max_size=4))
def test_columns_are_those_of_pyarrow(tree):
    part = lambda key, value: key if value is None else f"{quote(key, safe='')}={quote(value, safe='')}"  # noqa: E731
    folders = list(dict.fromkeys("/".join(part(*level) for level in path) or "." for path in tree))
    with tempfile.TemporaryDirectory() as root:
        write(Path(root), folders)
        ds = fb.from_parquet(root)
        values = {
            key: {value for path in tree for name, value in path if name == key} for path in tree for key, _ in path
        }
        if {MISSING} in values.values():
            # pyarrow has no type for a key without any value; here it is a text.
            with pytest.raises(pa.ArrowInvalid, match="No non-null segments"):
                by_pyarrow(Path(root))
            assert ": string?" in str(ds.schema)
            return
        want = by_pyarrow(Path(root))
        assert rows(ds) == want
        assert list(ds.schema) == list(want[0])
        for name in list(ds.schema)[1:]:
            kind = "int64" if any(isinstance(row[name], int) for row in want) else "string"
            assert f"{name}: {kind}" in str(ds.schema)


def test_arrow_files_and_names_that_are_not_decoded_twice(tmp_path):
    write(tmp_path, ["a=1/b=x%2Fy", "a=2/b=%2525"], feather.write_feather, "part.arrow")
    assert rows(fb.from_arrow(tmp_path)) == by_pyarrow(tmp_path, "feather")
    assert {row["b"] for row in fb.from_arrow(tmp_path)} == {"x/y", "%25"}


def test_only_what_the_path_leaves_open_is_a_column(tmp_path):
    root = tmp_path / "run=7"
    write(root, ["year=2023/m=1", "year=2024/m=2"])
    columns = lambda paths: list(fb.from_parquet(paths).schema)  # noqa: E731
    assert columns(root) == columns(f"{root}/**/*.parquet") == columns(f"{root}/year=*/*/*") == ["x", "year", "m"]
    assert columns(f"{root}/year={{2023,2024}}/*/*") == ["x", "year", "m"]
    assert columns(f"{root}/year=2023") == columns(f"{root}/year=2023/*/part.parquet") == ["x", "m"]
    assert columns(f"{root}/year=2023/m=1/part.parquet") == ["x"]
    both = fb.from_parquet([f"{root}/year=2023", f"{root}/year=*/m=2/*"])
    assert [(row["year"], row["m"]) for row in both] == [(None, 1)] * ROWS + [(2024, 2)] * ROWS
    assert list(fb.from_parquet(root, partitioning=None).schema) == ["x"]
    with pytest.raises(E.InvalidPipelineError, match="unknown partitioning 'date'"):
        fb.from_parquet(root, partitioning="date")


def test_columns_are_picked_from_paths_and_files(tmp_path):
    write(tmp_path, ["year=2023", "year=2024"], y=pa.array([1.0, None, 2.0]))
    picked = fb.from_parquet(tmp_path, columns=["year", "y"], nullable="y")
    assert str(picked.schema) == "Schema(year: int64, y: float64?)"
    assert [row["year"] for row in fb.from_parquet(tmp_path, columns="year").shuffle()].count(2024) == ROWS
    assert [row["year"] for row in fb.from_parquet(tmp_path).select("year")] == [2023] * ROWS + [2024] * ROWS
    assert "not read: x, year" in fb.from_parquet(tmp_path).select("y").explain()
    kept = fb.from_parquet(tmp_path).filter(fb.col("year") == 2024).iter(on_error="skip", error_budget=1.0)
    assert [row["x"] for row in kept] == [3, 4, 5]


@pytest.mark.parametrize(
    ("path", "stored", "kind"),
    [("k=1", pa.array([9] * ROWS, pa.int16()), "int64"), ("k=a", pa.array(["z"] * ROWS), "string")],
)
def test_a_column_that_is_also_in_the_files_has_the_value_of_the_path(path, stored, kind, tmp_path):
    write(tmp_path, [path], k=stored)
    ds = fb.from_parquet(tmp_path)
    assert str(ds.schema) == f"Schema(x: int64, k: {kind})"
    assert {str(row["k"]) for row in ds} == {path[2:]}
    assert {row["k"] for row in fb.from_parquet(tmp_path, partitioning=None)} == {stored[0].as_py()}


@pytest.mark.parametrize(("path", "stored"), [("k=1", ["a"] * ROWS), ("k=a", [1] * ROWS), ("k=1", [1.0] * ROWS)])
def test_a_column_of_two_types_is_refused(path, stored, tmp_path):
    write(tmp_path, [path], k=pa.array(stored))
    with pytest.raises(E.DataError, match=r'column "k" is .* in the files, and .* in their paths') as caught:
        fb.from_parquet(tmp_path)
    assert "partitioning=None" in caught.value.hint
    assert list(fb.from_parquet(tmp_path, columns="x").schema) == ["x"]


def test_what_is_there_later_and_does_not_fit_is_an_error_that_names_it(tmp_path):
    write(tmp_path, ["k=1", "k=2"])
    ds = fb.from_parquet(tmp_path)
    for folder, match in [("k=b", "k=b is no whole number"), (MISSING, 'has no "k"'), ("k=3/k=4", '"k" twice')]:
        write(tmp_path, [f"later/{folder}"])
        with pytest.raises(E.DataError, match=match) as caught:
            list(ds)
        assert caught.value.context["file"] == str(tmp_path / "later" / folder / "part.parquet")
        shutil.rmtree(tmp_path / "later")
    write(tmp_path, ["k=1", "j=1"])
    with pytest.raises(E.DataError, match='has no "j"') as caught:
        fb.from_parquet(tmp_path, nullable=[])
    assert "nullable=" in caught.value.hint
    assert str(fb.from_parquet(tmp_path, nullable=["k", "j"]).schema) == "Schema(x: int64, j: int64?, k: int64?)"
    write(tmp_path, ["k=%FF"])
    with pytest.raises(E.DataError, match="not utf-8"):
        fb.from_parquet(tmp_path)


@pytest.mark.parametrize("window", [None, 8])
def test_the_same_rows_everywhere(window, moto, monkeypatch, tmp_path):
    folders = [
        f"year={year}/name={quote(name, safe='')}" for year, name in itertools.product((1, 2), ("é/", "b", MISSING))
    ]
    write(tmp_path, folders)
    bucket = f"hive-{uuid.uuid4().hex[:8]}"
    put(moto, bucket)
    for path in tmp_path.rglob("*.parquet"):
        put(moto, quote(f"{bucket}/t/{path.relative_to(tmp_path)}"), path.read_bytes())
    for name, value in credentials(moto).items():
        monkeypatch.setenv(name, value)
    make = lambda at: fb.from_parquet(at).shuffle(window=window).batch(4)  # noqa: E731
    want = [fingerprint(batch) for batch in make(tmp_path).iter(seed=5)]
    assert [fingerprint(batch) for batch in make(f"s3://{bucket}/t/").iter(seed=5)] == want
    cached = fb.from_parquet(tmp_path).cache().shuffle(window=window).batch(4)
    for _ in range(2):
        assert sorted(str(batch["year"]) for batch in cached.iter(seed=5)) == sorted(
            str(batch["year"]) for batch in make(tmp_path).iter(seed=5)
        )
    half = make(tmp_path).iter(seed=5)
    for _ in range(2):
        next(half)
    resumed = make(tmp_path).iter(seed=5)
    resumed.load_state_dict(half.state_dict())
    assert [fingerprint(batch) for batch in resumed] == want[2:]
    with fb.up(workers=2, threads=1) as service:
        for at in (tmp_path, f"s3://{bucket}/t/"):
            there = make(at).distribute(service, job=f"job-{uuid.uuid4()}", seed=5)
            assert [fingerprint(batch) for batch in there] == want
