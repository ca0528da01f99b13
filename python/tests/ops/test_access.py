"""`ds[i]`, slices, chosen rows and parts give the rows that `iter` gives, and read no more than they need."""

from __future__ import annotations

import random

import forebay as fb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from forebay._src import habits, habits_expressions
from pipelines import fingerprint, name

E = fb.errors
HUGE = 10**9


def pipelines(n: int = 70) -> list[fb.Dataset]:
    ds = fb.range(n)
    twice = ds.shuffle().with_column("x", fb.col("id") * 2)
    noisy = ds.shuffle().map(lambda row, rng: {"x": rng.random()}, schema={"x": "float64"}, writes=["x"])
    return [
        ds,
        twice,
        ds.repeat(2).shuffle().take(90).skip(3),
        noisy.batch(8),
        noisy.batch(7, drop_remainder=True),
        ds.shard(3, 1).batch(4, pad_last=True),
        ds.filter(fb.col("id") % 3 != 0).batch(8),
        ds.filter(fb.col("id") % 3 != 0).shuffle().batch(8, drop_remainder=True),
    ]


@pytest.mark.parametrize("case", range(len(pipelines())))
def test_items_and_slices_are_those_of_iter(case):
    ds = pipelines()[case]
    whole = [fingerprint(item) for item in ds]
    rng = random.Random(case)
    for i in [0, len(whole) - 1, *rng.choices(range(len(whole)), k=6)]:
        assert fingerprint(ds[i]) == whole[i], i
        assert fingerprint(ds[np.int64(i)]) == whole[i], i
    counted = ds.cardinality is not None
    for _ in range(8):
        a, b = (rng.choice([None, 0, 1, 3, 9, len(whole), 500]) for _ in range(2))
        assert [fingerprint(item) for item in ds[a:b]] == whole[a:b], (a, b)
        if counted:
            assert fingerprint(ds[-1 - (a or 0) % len(whole)]) == whole[-1 - (a or 0) % len(whole)]
            assert [fingerprint(item) for item in ds[-3:b]] == whole[-3:b]
            assert len(ds[a:b]) == len(whole[a:b])
    with pytest.raises(IndexError, match="no sample or batch 500"):
        ds[500]
    if counted:
        with pytest.raises(IndexError):
            ds[-501]
    seeded = [fingerprint(item) for item in ds.iter(seed=3, epoch=2)]
    assert [fingerprint(item) for item in ds[2:5].iter(seed=3, epoch=2)] == seeded[2:5]


def test_only_what_is_asked_for_is_read(tmp_path):
    path = str(tmp_path / "calls")

    def seen(row):
        with open(path, "a") as calls:
            calls.write(".")
        return {"x": row["id"]}

    ds = fb.range(HUGE).shuffle().map(seen, schema={"x": "int64"}, writes=["x"])
    ds[HUGE - 7], ds[-1], ds.batch(8)[1000]
    assert len(list(ds[5_000_000:5_000_003])) == 3
    assert len((tmp_path / "calls").read_text()) == 1 + 1 + 8 + 3
    train, test = ds.split(0.9, seed=1)
    assert train[HUGE // 2]["x"] != test[HUGE // 20]["x"]
    assert len((tmp_path / "calls").read_text()) == 15


def test_places_that_cannot_be_known_say_what_to_write():
    filtered = fb.range(9).filter(fb.col("id") > 2)
    assert int(filtered[1]["id"]) == 4, "the rows before are passed over"
    with pytest.raises(E.InvalidPipelineError, match=r"ds\[-1\]: how many there are is not known: it shows"):
        filtered[-1]
    with pytest.raises(E.InvalidPipelineError, match="an epoch of it never ends"):
        fb.range(3).repeat()[-1]
    assert int(fb.range(3).repeat()[3 * 10**12 + 1]["id"]) == 1
    with pytest.raises(E.InvalidPipelineError, match="shard"):
        filtered[::2]
    for key in ("id", 1.0, True, [1, 2], (1, 2)):
        with pytest.raises(E.InvalidPipelineError, match="not a place or a slice"):
            filtered[key]  # type: ignore[call-overload]
    lists = fb.range(9).map(lambda row: {"ids": np.arange(3)}, schema={"ids": ("int64", (None,))})
    assert lists.bucket_by_length("ids", [4], [2, 2])[4]["ids"].tolist() == [[0, 1, 2]]


def test_files_without_an_index_have_places(tmp_path):
    (tmp_path / "a.txt").write_text("".join(f"{i}\n" for i in range(11)))
    ds = fb.from_text(tmp_path / "a.txt")
    assert (ds.cardinality, ds.batch(4).cardinality, len(list(ds))) == (11, 3, 11)
    assert (ds[-1]["text"], ds[3]["text"], [row["text"] for row in ds[4:6]]) == ("10", "3", ["4", "5"])
    assert [row["text"] for row in ds.select_rows([9, 0, 9])] == ["9", "0", "9"]
    train, test = ds.split(0.5)
    assert sorted(int(row["text"]) for part in (train, test) for row in part) == list(range(11))


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("filtered", [False, True])
def test_take_and_skip_behind_batch_count_batches(drop, filtered):
    rng = random.Random(drop + 2 * filtered)
    for _ in range(20):
        ds = fb.range(rng.randrange(60))
        ds = ds.filter(fb.col("id") % 4 != 1) if filtered else ds.shuffle()
        ds = ds.batch(rng.choice([1, 3, 8]), drop_remainder=drop)
        want = [fingerprint(b) for b in ds]
        for _ in range(rng.randrange(1, 4)):
            n = rng.randrange(8)
            if rng.random() < 0.5:
                ds, want = ds.take(n), want[:n]
            else:
                ds, want = ds.skip(n), want[n:]
            if rng.random() < 0.3:
                ds, want = ds.with_column("id", fb.col("id") + 1), None
                want = [fingerprint(b) for b in ds]
        assert [fingerprint(b) for b in ds] == want
        if not filtered:
            assert len(ds) == len(want)
        it = ds.iter()
        head = [fingerprint(next(it)) for _ in range(len(want) // 2)]
        again = ds.iter()
        again.load_state_dict(it.state_dict())
        assert head + [fingerprint(b) for b in again] == want


def test_batches_of_rows_that_may_be_skipped_are_counted_when_they_are_made():
    def odd_ones_fail(row):
        if row["id"] % 4 == 1:
            raise ValueError("odd")
        return {"x": row["id"]}

    ds = fb.range(60).map(odd_ones_fail, schema={"x": "int64"}, writes=["x"]).batch(4)
    options = {"on_error": "skip", "error_budget": 60}
    want = [b["id"].tolist() for b in ds.iter(**options)]
    assert [b["id"].tolist() for b in ds.skip(1).take(3).iter(**options)] == want[1:4]
    assert [b["id"].tolist() for b in ds[2:].iter(**options)] == want[2:]


@pytest.mark.parametrize("seed", range(8))
def test_parts_are_disjoint_complete_and_stable_wherever_split_is_written(seed):
    rng = random.Random(seed)
    n, share = rng.choice([1, 3, 64, 65, 1000, 4097]), rng.choice([0.5, 0.9, 0.01, 1 / 3])
    plain = [sorted(int(r["id"]) for r in part) for part in fb.range(n).split(share, seed=seed)]
    assert sorted(plain[0] + plain[1]) == list(range(n))
    assert len(plain[0]) == int(n * share + 1e-9)
    for part, want in zip(fb.range(n).split(share, seed=seed), plain, strict=True):
        assert [int(r["id"]) for r in part] == want, "in the order of the source"
    behind = fb.range(n).shuffle().with_column("x", fb.col("id") * 2).filter(fb.col("id") >= 0)
    for part, want in zip(behind.split(share, seed=seed), plain, strict=True):
        for epoch in (0, 1):
            assert sorted(int(r["id"]) for r in part.iter(seed=9, epoch=epoch)) == want
    if n > 100:
        other = [sorted(int(r["id"]) for r in part) for part in fb.range(n).split(share, seed=seed + 100)]
        assert other != plain
        grown = [int(r["id"]) for r in fb.range(n + 500).split(share, seed=seed)[0] if r["id"] < n // 64 * 64]
        assert grown == [i for i in plain[0] if i < n // 64 * 64], "rows at the end leave those before"


def test_a_service_gives_parts_and_chosen_rows_and_ranks_share_them():
    ds = fb.range(500).shuffle().split(0.7, seed=2)[0].batch(8).skip(3)
    chosen = fb.range(500).select_rows([499, 3, 3, 77]).shuffle().repeat(3).batch(2).take(5)
    with fb.up(workers=2, threads=1) as service:
        for pipeline in (ds, chosen):
            want = [fingerprint(b) for b in pipeline.iter(seed=4, epochs=2)]
            got = list(map(fingerprint, pipeline.distribute(service, job=name(), seed=4, epochs=2)))
            assert got == want
    whole = [fingerprint(b) for b in ds.iter(seed=4)]
    ranks = [[fingerprint(b) for b in ds.iter(seed=4, consumers=(r, 3), even=False)] for r in range(3)]
    assert [ranks[i % 3][i // 3] for i in range(len(whole))] == whole


def test_chosen_rows_are_those_of_a_list():
    rng = random.Random(2)
    for _ in range(20):
        n = rng.randrange(1, 50)
        rows = rng.choices(range(-n, n), k=rng.randrange(60))
        order = [int(r["id"]) for r in fb.range(n).shuffle().iter(seed=5)]
        got = [int(r["id"]) for r in fb.range(n).shuffle().select_rows(np.array(rows, int)).iter(seed=5)]
        assert got == [order[i] for i in rows]
    with pytest.raises(E.InvalidPipelineError, match="there is no row 9, for there are 9"):
        list(fb.range(9).select_rows([9]))
    with pytest.raises(E.InvalidPipelineError, match="out of range"):
        fb.range(9).select_rows([-10])


def test_what_cannot_be_is_refused_where_it_is_written():
    ds = fb.range(100)
    wrong = [
        (lambda: ds.split(1.0), "0 < share < 1"),
        (lambda: ds.split(0), "0 < share < 1"),
        (lambda: ds.split(0.5, seed=-1), "seed"),
        (lambda: ds.shuffle().take(9).split(0.5), "split comes after take"),
        (lambda: ds.repeat(2).split(0.5), "split comes after repeat"),
        (lambda: ds.filter(fb.col("id") > 3).take(9).split(0.5), "split comes after take"),
        (lambda: ds.batch(4).split(0.5), "split comes after batch"),
        (lambda: ds.filter(fb.col("id") > 3).select_rows([1]), "select_rows comes after filter"),
        (lambda: fb.from_generator(lambda: iter([{"x": 1}])).split(0.5), "cannot be read in any other order"),
        (lambda: ds.select([1, 2]), "select_rows"),
        (lambda: ds.select_rows(["a"]), "whole number"),
        (lambda: ds.select_rows(range(2**20 + 1)), "1048576"),
        (lambda: ds.batch(4).repeat(2), "a number of epochs"),
        (lambda: ds.batch(4).shard(2, 0), "consumers=\\(index, count\\)"),
        (lambda: ds.batch(4).shuffle(), "put it before batch"),
        (lambda: ds.batch(4).batch(2), "the size that you want"),
        (lambda: ds.batch(4).filter(fb.col("id") > 3), "put it before batch"),
    ]
    for make, says in wrong:
        with pytest.raises(E.InvalidPipelineError, match=says):
            make()


@pytest.mark.parametrize(
    ("owner", "method", "says"),
    [
        (fb.range(3), "padded_batch", "batch\\(n, pad=0\\)"),
        (fb.range(3), "map_batches", "map\\(fn, batched=True\\)"),
        (fb.range(3), "concat", "concatenate"),
        (fb.range(3), "train_test_split", "ds.split"),
        (fb.range(3), "shufle", "did you mean shuffle\\?"),
        (fb, "interleave_datasets", "fb.mix"),
        (fb, "concatenate_datasets", "fb.concatenate"),
        (fb, "from_parket", "did you mean from_parquet\\?"),
        (fb.range(3), "column_names", "list\\(ds.schema\\)"),
        (fb.range(3).iter(), "get_state", "state_dict"),
        (fb.range(3), "id", "fb.col\\('id'\\) in expressions"),
        (fb.col("x"), "lower", "\\.str\\.lower"),
        (fb.col("x"), "fill_nul", "did you mean fill_null\\?"),
        (fb, "TFRecordDataset", "from_tfrecord"),
        (fb.Dataset, "from_tensor_slices", "from_numpy"),
        (fb.Dataset, "from_generator", "fb.from_generator"),
    ],
)
def test_names_of_other_libraries_say_what_to_write(owner, method, says):
    with pytest.raises(AttributeError, match=says):
        getattr(owner, method)
    assert not hasattr(owner, "_no_such_name")


@pytest.mark.parametrize(
    ("owner", "names"),
    [
        (fb.range(3), habits.METHODS),
        (fb.range(3), habits.ELSEWHERE),
        (fb.range(3).iter(), habits.ITERATORS),
        (fb.col("x"), habits_expressions.EXPRESSIONS),
        (fb.col("x").str, habits_expressions.TEXTS),
        (fb.col("x").list, habits_expressions.LISTS),
        (fb.col("x").dt, habits_expressions.TIMES),
        (fb, habits.FUNCTIONS),
        (fb, habits.READERS),
    ],
)
def test_names_with_advice_are_not_there(owner, names):
    assert [name for name in names if hasattr(owner, name)] == []


def test_a_dataset_is_no_endless_sequence():
    # Python's protocol for sequences would ask for one item after another.
    assert [int(row["id"]) for row in reversed(fb.range(4))] == [3, 2, 1, 0]
    assert len(list(fb.range(4))) == 4


def test_parts_of_files_are_shuffled_over_windows(tmp_path):
    rows = pa.table({"id": np.arange(500)})
    pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=37)
    ds = fb.from_parquet(tmp_path / "rows.parquet")
    for part in ds.split(0.6, seed=3):
        plain = [int(row["id"]) for row in part]
        for window in (40, 150, None):
            shuffled = [int(row["id"]) for row in part.shuffle(window=window).iter(seed=2)]
            assert sorted(shuffled) == plain
            assert shuffled != plain
    behind = [sorted(int(r["id"]) for r in part) for part in ds.shuffle(window=40).split(0.6, seed=3)]
    assert behind == [[int(r["id"]) for r in part] for part in ds.split(0.6, seed=3)]
