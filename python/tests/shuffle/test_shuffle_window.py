"""A shuffle over windows: the same stream everywhere, each block read once, rows far from where they were."""

from __future__ import annotations

import itertools
import json
import shutil
import uuid
from pathlib import Path

import forebay as fb
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from pipelines import fingerprint

ROWS = 6000


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Row groups of uneven lengths, an empty file, columns of every kind in which rows are gathered."""
    root = tmp_path_factory.mktemp("groups")
    rng = np.random.default_rng(4)
    start = 0
    for number, rows in enumerate((1000, 0, 1, 2499, 2500)):
        ids = np.arange(start, start + rows)
        small = pa.FixedSizeListArray.from_arrays(rng.random(rows * 3, np.float32), 3)
        wide = pa.FixedSizeListArray.from_arrays(rng.integers(0, 255, rows * 200).astype(np.uint8), 200)
        table = pa.table(
            {
                "id": ids,
                "byte": (ids % 251).astype(np.uint8),
                "half": (ids * 0.5).astype(np.float32),
                "flag": ids % 3 == 0,
                "text": [f"row {i}" for i in ids],
                "small": small,
                "wide": wide,
                "gaps": pa.array([None if i % 7 == 0 else int(i) for i in ids], pa.int64()),
            }
        )
        pq.write_table(table, root / f"{number}.parquet", row_group_size=300 + 150 * number)
        pyarrow.feather.write_feather(table, root / f"{number}.arrow", chunksize=300 + 150 * number)
        start += rows
    assert start == ROWS
    return root


def order(it) -> list[int]:
    return [int(i) for batch in it for i in np.atleast_1d(batch["id"])]


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
@pytest.mark.parametrize("window", [1, 700, 3000, "20KiB"])
def test_it_gives_each_row_once_and_whole(files, suffix, window):
    load = fb.from_parquet if suffix == "parquet" else fb.from_arrow
    plain = list(load(f"{files}/*.{suffix}").iter())
    ds = load(f"{files}/*.{suffix}").shuffle(window=window)
    first, second = list(ds.iter(seed=2)), list(ds.iter(seed=2, epoch=1))
    assert order(first) != order(second)
    assert sorted(order(first)) == sorted(order(second)) == list(range(ROWS))
    for row in first[::37]:
        assert fingerprint(row) == fingerprint(plain[int(row["id"])])


@pytest.mark.parametrize("seed", range(6))
def test_threads_resume_and_a_service_change_nothing(files, seed, service):
    rng = np.random.default_rng(seed)
    ds = fb.from_parquet(f"{files}/*.parquet")
    if seed % 3 == 1:
        ds = ds.skip(int(rng.integers(0, 500))).take(int(rng.integers(3000, 5000)))
    if seed % 3 == 2:
        ds = ds.shard(3, int(rng.integers(0, 3)))
    ds = ds.shuffle(window=int(rng.integers(1, 3500))).repeat(1 + seed % 2)
    if seed % 2:
        ds = ds.filter(fb.col("id") % 5 != 0)
    ds = ds.batch(int(rng.integers(1, 90)))
    options = {"seed": seed, "epochs": 2}
    want = [fingerprint(b) for b in ds.iter(**options, threads=1)]
    assert [fingerprint(b) for b in ds.iter(**options, threads=3)] == want
    it = ds.iter(**options)
    for _ in range(len(want) // 2):
        next(it)
    state = json.loads(json.dumps(it.state_dict()))
    there = ds.distribute(service, job=f"job-{uuid.uuid4().hex[:8]}", **options).iter()
    there.load_state_dict(state)
    assert [fingerprint(b) for b in there] == want[len(want) // 2 :]


@pytest.mark.filterwarnings("ignore::forebay.RanksWarning")
def test_consumers_share_the_same_batches(files):
    ds = fb.from_parquet(f"{files}/*.parquet").shuffle(window=900).batch(50)
    alone = [fingerprint(b) for b in ds.iter(seed=1)]
    shares = [[fingerprint(b) for b in ds.iter(seed=1, consumers=(i, 3))] for i in range(3)]
    assert [batch for step in zip(*shares, strict=True) for batch in step] == alone


def test_blocks_come_in_random_order_and_few_lie_in_two_windows(files):
    """Only the row group at the border of two windows has rows in both, so few row groups are read twice."""
    starts = np.cumsum([0] + [g for f in range(5) for g in groups(files / f"{f}.parquet")])
    ids = order(fb.from_parquet(f"{files}/*.parquet").shuffle(window=1200).iter(seed=3))
    block = np.searchsorted(starts, ids, side="right") - 1
    windows = [set(block[at : at + 1200]) for at in range(0, ROWS, 1200)]
    assert all(len(one & other) <= 1 for one, other in itertools.combinations(windows, 2))
    assert sum(map(len, windows)) <= len(np.unique(block)) + len(windows) - 1
    assert [int(block[i]) for i in range(0, ROWS, 1200)] != sorted(int(block[i]) for i in range(0, ROWS, 1200))
    assert np.abs(np.diff(ids)[np.diff(block) == 0]).mean() > 50, "rows of a group are shuffled"
    assert np.abs(np.array(ids) - np.arange(ROWS)).mean() / ROWS > 0.2, "a full shuffle moves rows by a third"


def groups(path: Path) -> list[int]:
    meta = pq.ParquetFile(path).metadata
    return [meta.row_group(i).num_rows for i in range(meta.num_row_groups)]


def test_explain_says_which_window_it_is(files):
    ds = fb.from_parquet(f"{files}/*.parquet")
    assert "windows of 500 rows" in ds.shuffle(window=500).explain()
    assert "windows" not in ds.shuffle().explain(), "it fits into memory"
    assert "windows" not in ds.shuffle(window=ROWS).explain(), "a window of all is no window"
    everything = order(ds.shuffle(window=None).iter(seed=1))
    assert everything == order(ds.shuffle().iter(seed=1)) == order(ds.shuffle(window=ROWS).iter(seed=1))


def test_a_row_that_its_column_lacks_is_an_error_of_that_row_alone(tmp_path):
    """A value is missing in a column that has no missing values according to the footers."""
    for number in range(40):
        values = [None if number == 37 and i == 7 else float(i) for i in range(50)]
        ids = np.arange(number * 50, number * 50 + 50)
        pq.write_table(pa.table({"id": ids, "x": pa.array(values, pa.float32())}), tmp_path / f"{number:02}.parquet")
    ds = fb.from_parquet(f"{tmp_path}/*.parquet").shuffle(window=300).batch(64)
    with pytest.raises(fb.errors.DataError, match="missing in this row") as caught:
        list(ds.iter(seed=1))
    assert caught.value.context["file"].endswith("37.parquet")
    it = ds.iter(seed=1, on_error="skip", error_budget=1)
    assert sorted(order(it)) == [i for i in range(2000) if i != 1857]


@pytest.fixture(scope="module")
def many_columns(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files of one row group, which is decoded in several steps, and of many pages."""
    rng, root, rows = np.random.default_rng(0), tmp_path_factory.mktemp("columns"), 20_000
    for number in range(2):
        columns = {f"c{i:02}": rng.integers(0, 1 << (i + 3), rows) for i in range(20)}
        table = pa.table(columns | {"text": [str(i) for i in range(rows)], "last": rng.random(rows)})
        pq.write_table(table, root / f"{number}.parquet", compression="gzip", data_page_size=1 << 13)
    return root


@pytest.mark.parametrize("seed", range(8))
def test_damage_is_told_as_it_is_without_a_window(many_columns, tmp_path, seed):
    """Columns are decoded in parallel when rows are packed: the error still names the first damaged one."""
    rng = np.random.default_rng(seed)
    shutil.copytree(many_columns, tmp_path, dirs_exist_ok=True)
    path = tmp_path / f"{seed % 2}.parquet"
    data, group = bytearray(path.read_bytes()), pq.ParquetFile(path).metadata.row_group(0)
    for place in rng.choice(group.num_columns, 1 + seed % 3, replace=False):
        column = group.column(int(place))
        at = column.data_page_offset + int(rng.integers(0, column.total_compressed_size // 2))
        data[at : at + 64] = rng.bytes(64)
    path.write_bytes(data)
    told = []
    for window in (None, 25_000):
        with pytest.raises(fb.errors.DataError) as caught:
            list(fb.from_parquet(f"{tmp_path}/*.parquet").shuffle(window=window).batch(100).iter(seed=1))
        told.append((str(caught.value).splitlines()[0], caught.value.context))
    assert told[0] == told[1]


def test_a_lack_is_found_wherever_it_is_in_a_group(tmp_path):
    """Groups are decoded in steps of some thousand rows."""
    lacking = {4000, 8191, 8192, 20_000, 29_999}
    values = [None if i in lacking else float(i) for i in range(30_000)]
    x = pa.array([float(i) for i in range(30_000)], pa.float32())
    for number in range(40):
        ids = np.arange(number * 30_000, number * 30_000 + 30_000)
        of = pa.array(values, pa.float32()) if number == 37 else x
        pq.write_table(pa.table({"id": ids, "x": of}), tmp_path / f"{number:02}.parquet")
    it = fb.from_parquet(f"{tmp_path}/*.parquet").shuffle(window=90_000).batch(1000)
    it = it.iter(seed=1, on_error="skip", error_budget=len(lacking))
    seen = {int(i): float(x) for batch in it for i, x in zip(batch["id"], batch["x"], strict=True)}
    assert set(range(1_200_000)) - set(seen) == {37 * 30_000 + i for i in lacking}
    assert all(x == i % 30_000 for i, x in seen.items())


def test_a_large_source_is_shuffled_over_windows_by_itself(tmp_path):
    """By its schema and rows it has 513 MiB in memory. Its files have a few kilobytes."""
    zeros = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(27 << 18, np.uint8)), 1 << 18)
    pq.write_table(pa.table({"x": zeros}), tmp_path / "0.parquet", compression="zstd")
    for number in range(1, 76):
        (tmp_path / f"{number}.parquet").hardlink_to(tmp_path / "0.parquet")
    ds = fb.from_parquet(f"{tmp_path}/*.parquet")
    assert "windows of 1024 rows, of 76 blocks" in ds.shuffle().explain()
    assert "windows" not in ds.repeat(2).shuffle().explain(), "blocks come twice there"
    assert "windows" not in ds.shuffle(window=None).explain()


def test_what_cannot_be_is_refused():
    ds = fb.range(10)
    with pytest.raises(fb.errors.InvalidPipelineError, match="repeat cannot come before this shuffle"):
        ds.repeat(2).shuffle(window=3).explain()
    with pytest.raises(fb.errors.InvalidPipelineError, match="shuffle cannot come before this shuffle"):
        ds.shuffle().shuffle(window=3).explain()
    for window in (0, -1, "", "many", 1.5, "0B"):
        with pytest.raises(fb.errors.InvalidPipelineError, match="window"):
            ds.shuffle(window=window)


@pytest.mark.parametrize("make", [fb.range, lambda rows: fb.from_numpy({"id": np.arange(rows)})])
def test_sources_in_memory_have_windows_too(make):
    rows = 3 * 65_536
    ids = order(make(rows).shuffle(window=70_000).batch(1024).iter(seed=1))
    assert sorted(ids) == list(range(rows))
    assert len({i // 65_536 for i in ids[:70_000]}) == 2
