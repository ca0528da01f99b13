"""`from_parquet(filters=)`: the rows of `filter`, and no byte of row groups that cannot have a match."""

from __future__ import annotations

import datetime as dt
import decimal
from pathlib import Path

import forebay as fb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pipelines import fingerprint

E = fb.errors
ROWS, GROUP = 600, 25


def table(rng: np.random.Generator) -> pa.Table:
    """Columns of many types, whose row groups differ in their values."""
    rising = np.arange(ROWS)
    steps = rising // GROUP * 7 - 60

    def some(values, dtype: pa.DataType) -> pa.Array:
        """Removes some values, and in one row group all of them."""
        values = [v.item() if isinstance(v, np.generic) else v for v in values]
        missing = (rng.random(ROWS) < 0.05) | (rising // GROUP == 3)
        return pa.array([None if m else v for m, v in zip(missing, values, strict=True)], dtype)

    floats = (rising / 50).astype(np.float64)
    floats[rng.random(ROWS) < 0.02] = np.nan
    flat = np.where(rng.random(ROWS) < 0.1, np.nan, rising // GROUP * 0.5)
    day = dt.date(2024, 1, 1)
    return pa.table(
        {
            "id": rising,
            "i8": pa.array((steps % 120).astype(np.int8)),
            "u8": pa.array((rising // 3).astype(np.uint8)),
            "u32": pa.array((rising.astype(np.uint64) * 2**23).astype(np.uint32)),
            "u64": pa.array(rising.astype(np.uint64) << np.uint64(54)),
            "some": some(steps, pa.int64()),
            "f32": pa.array((rising / 10).astype(np.float32)),
            "f64": pa.array(floats),
            "somef": some(-floats, pa.float64()),
            "flat": pa.array(flat),
            "yes": pa.array(rising // GROUP % 3 == 0),
            "word": some([f"w{n // GROUP:03}é" * (n % 3) for n in rising], pa.string()),
            "kind": pa.array([f"k{n // 100}" for n in rising]).dictionary_encode(),
            "raw": pa.array([bytes([n // 4 % 256]) for n in rising]),
            "at": pa.array([dt.datetime(2024, 1, 1) + dt.timedelta(hours=int(n)) for n in rising]),
            "day": pa.array([day + dt.timedelta(days=int(n) // 30) for n in rising]),
            "d64": pa.array((rising // 30 * 86_400_000).astype("datetime64[ms]"), pa.date64()),
            "s": pa.array((rising * 60).astype("datetime64[s]")),
            "ms": pa.array(rising.astype("datetime64[ms]"), pa.timestamp("ms", "UTC")),
            "ns": pa.array((rising * 1001).astype("datetime64[ns]")),
            "t32": pa.array(rising.astype(np.int32), pa.time32("s")),
            "t64": pa.array(rising * 1000, pa.time64("ns")),
            "span": pa.array(rising - 300, pa.duration("us")),
            "i16": pa.array((rising * -3).astype(np.int16)),
            "u16": pa.array((rising * 100).astype(np.uint16)),
            "f16": pa.array((rising / 4).astype(np.float16)),
            "price": pa.array([decimal.Decimal(int(n)) / 4 for n in rising], pa.decimal128(9, 2)),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("filters")
    rng = np.random.default_rng(5)
    for day in range(3):
        (root / f"part={day}").mkdir()
        pq.write_table(
            table(rng),
            root / f"part={day}" / "0.parquet",
            row_group_size=GROUP,
            data_page_version=f"{1 + day % 2}.0",
        )
    return root


NUMBERS = ["id", "i8", "u8", "u32", "u64", "some", "f32", "f64", "somef", "flat", "at", "day", "part"]
NUMBERS += ["d64", "s", "ms", "ns", "t32", "t64", "span", "i16", "u16", "f16"]
TEXTS = ["word", "kind", "price"]


def condition(rng: np.random.Generator, rows: list[dict], depth: int = 2) -> fb.Expr:
    """A random condition, whose literals are values of the data or close to them."""
    choice = rng.integers(0, 9 if depth else 6)
    if choice >= 7:
        a, b = condition(rng, rows, depth - 1), condition(rng, rows, depth - 1)
        return a & b if choice == 7 else a | b
    if choice == 6:
        return ~condition(rng, rows, depth - 1)
    if choice == 5:
        name = str(rng.choice([*NUMBERS, *TEXTS]))
        return [fb.col(name).is_null(), fb.col("yes"), fb.lit(bool(rng.integers(2)))][rng.integers(3)]
    row = rows[rng.integers(len(rows))]
    if choice == 4:
        name = str(rng.choice(TEXTS))
        value = row[name] if isinstance(row[name], str) else "w"
        other = [value, value + "x", value[:-1], ""][rng.integers(4)]
    else:
        name = str(rng.choice(NUMBERS))
        value = row[name].item() if isinstance(row[name], np.generic) and row[name] is not np.ma.masked else 3
        value = 3 if np.isnan(value) else value
        near = [value, value + 1, -value, value * 2, float(value) + 0.1, np.float32(value).item(), 1e300, 2**40]
        other = near[rng.integers(len(near))]
        if isinstance(other, int) and not -(2**63) <= other < 2**63:
            other = 2**62
        if rng.random() < 0.2:
            other = fb.col(str(rng.choice(NUMBERS)))
        if rng.random() < 0.1:
            other = fb.lit(other) if not isinstance(other, fb.Expr) else other + 1
    left = fb.col(name)
    compared = [left == other, left != other, left < other, left <= other, left > other, left >= other]
    return compared[rng.integers(6)]


def names(ds: fb.Dataset) -> list[int]:
    """Returns the ids of the rows, in order."""
    return [n for batch in ds.batch(4096) for n in (batch["part"] * ROWS + batch["id"]).tolist()]


def test_random_conditions_have_the_rows_of_filter(folder):
    ds = fb.from_parquet(folder)
    rows, rng = list(ds), np.random.default_rng(11)
    counts = []
    for number in range(600):
        what = condition(rng, rows)
        # The other columns are read for some of the conditions: reading all 30 takes most of the time.
        kept = list(ds.schema) if number % 8 == 0 else ["part", "id"]
        try:
            want = names(ds.filter(what).select(kept))
        except (E.InvalidPipelineError, E.DataError):
            continue
        assert names(fb.from_parquet(folder, filters=what).select(kept)) == want, what
        counts.append(len(want))
    # Most expressions are conditions, and many of these are true of only some rows.
    assert len(counts) > 400
    assert sum(0 < n < len(rows) for n in counts) > 200


def test_row_groups_that_cannot_match_are_not_read(tmp_path):
    rng = np.random.default_rng(1)
    path = tmp_path / "0.parquet"
    pq.write_table(table(rng), path, row_group_size=GROUP, compression="zstd")
    footer = pq.read_metadata(path)
    conditions = {
        "sorted": (fb.col("id") >= 590, [590 // GROUP]),
        "both": ((fb.col("id") < 120) & (fb.col("u8") > 35), [4]),
        "either": ((fb.col("id") < 20) | (fb.col("f64") > 11.9), [0, 23]),
        "not": (~(fb.col("id") >= 20), [0]),
        "text": (fb.col("kind") == "k5", [20, 21, 22, 23]),
        "bytes are unsigned": (fb.col("u64") >= 580 << 54 >> 1, list(range(11, 24))),
        "missing": (fb.col("some").is_null() & (fb.col("id") < 99), [0, 1, 2, 3]),
        "time": (fb.col("at") < int(np.datetime64("2024-01-02T00", "us").astype(np.int64)), [0]),
        "none": (fb.col("id") > 600, []),
    }
    intact = path.read_bytes()
    for name, (what, needed) in conditions.items():
        want = [int(row["id"]) for row in fb.from_parquet(path).filter(what)]
        damaged = bytearray(intact)
        for group in set(range(footer.num_row_groups)) - set(needed):
            for column in range(footer.num_columns):
                chunk = footer.row_group(group).column(column)
                start = chunk.dictionary_page_offset or chunk.data_page_offset
                damaged[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
        other = tmp_path / f"{name}.parquet"
        other.write_bytes(damaged)
        ds = fb.from_parquet(other, filters=what)
        assert [int(row["id"]) for row in ds] == want, name
        assert sorted(int(row["id"]) for row in ds.shuffle().iter(seed=4)) == want, name


def test_columns_that_are_filtered_by_need_not_be_read_further(folder):
    ds = fb.from_parquet(folder, columns=["word", "id"], filters=(fb.col("some") > 50) & (fb.col("part") == 1))
    assert list(ds.schema) == ["word", "id"]
    want = pq.read_table(folder, filters=[("some", ">", 50), ("part", "=", 1)], columns=["id"])["id"].to_pylist()
    assert [int(row["id"]) for row in ds] == want
    assert len(want) > 10


def test_files_whose_path_cannot_match_are_not_opened(folder, tmp_path):
    for day in range(3):
        (tmp_path / f"part={day}").mkdir()
        data = (folder / f"part={day}" / "0.parquet").read_bytes()
        (tmp_path / f"part={day}" / "0.parquet").write_bytes(data if day != 2 else b"not parquet")
    ds = fb.from_parquet(tmp_path, filters=fb.col("part") < 2)
    assert sum(1 for _ in ds) == 2 * ROWS
    with pytest.raises(E.DataError):
        sum(1 for _ in fb.from_parquet(tmp_path, filters=fb.col("id") > 5))


def test_files_that_count_time_otherwise_are_refused_also_where_they_are_left_out(tmp_path):
    hours = np.arange(48) * 3600
    pq.write_table(pa.table({"t": pa.array(hours * 10**6, pa.timestamp("us"))}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"t": pa.array(hours * 10**3, pa.timestamp("ms"))}), tmp_path / "1.parquet")
    what = fb.col("t") >= 24 * 3600 * 10**6
    for ds in (fb.from_parquet(tmp_path).filter(what), fb.from_parquet(tmp_path, filters=what)):
        with pytest.raises(E.DataError, match="t"):
            list(ds)


def test_resume_ranks_and_a_service(folder, service):
    """A filtered row is filtered everywhere."""
    what = (fb.col("id") > 100) & (fb.col("id") < 400) & (fb.col("part") != 0)
    ds = fb.from_parquet(folder, filters=what).shuffle().batch(16)
    want = [fingerprint(batch) for batch in ds.iter(seed=3)]
    assert len(want) == -(-598 // 16)
    it = ds.iter(seed=3)
    for _ in range(11):
        next(it)
    again = ds.iter(seed=3, threads=1)
    again.load_state_dict(it.state_dict())
    assert [fingerprint(batch) for batch in again] == want[11:]
    served = ds.distribute(service, job="filters", seed=3)
    assert [fingerprint(batch) for batch in served] == want


@pytest.mark.parametrize("filtered_first", [False, True])
def test_a_cache_tells_rows_apart_that_are_counted_otherwise(tmp_path, filtered_first):
    """The condition is given by `filter` and by `filters=`: rows have the same names, though not the same places."""
    pq.write_table(table(np.random.default_rng(2)), tmp_path / "0.parquet", row_group_size=GROUP)
    what = (fb.col("id") % 50 < 30) & (fb.col("id") >= 310) & (fb.col("id") < 480)
    path = tmp_path / "0.parquet"
    both = [fb.from_parquet(path).filter(what), fb.from_parquet(path, filters=what)]
    for ds in reversed(both) if filtered_first else both:
        for _ in range(2):
            kept = ds.with_column("double", fb.col("id") * 2).cache().batch(64)
            ids = [int(n) for batch in kept.iter(seed=1) for n in batch["double"]]
            assert ids == [2 * n for n in range(310, 480) if n % 50 < 30]


def test_what_is_no_expression_is_refused_with_what_to_write(folder):
    for filters in ([("id", ">", 5)], lambda row: True, "id > 5"):
        with pytest.raises(E.InvalidPipelineError, match="must be an expression") as error:
            fb.from_parquet(folder, filters=filters)
        assert "fb.col" in error.value.context["hint"]
    with pytest.raises(E.NotFoundError, match="nothing"):
        fb.from_parquet(folder, filters=fb.col("nothing") > 5)
    with pytest.raises(E.InvalidPipelineError):
        fb.from_parquet(folder, filters=fb.col("id") + 5)
