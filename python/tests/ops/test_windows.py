"""Windows of samples, datasets that take turns, and folds, against naive models and scikit-learn's claims."""

from __future__ import annotations

import itertools
import json
import random

import forebay as fb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pipelines import fingerprint, name

E = fb.errors
RNG = random.Random(11)
CASES = [(RNG.randrange(40), RNG.randint(1, 9), RNG.randint(1, 7), RNG.random() < 0.5) for _ in range(24)]


def model(rows: list, size: int, stride: int, drop: bool) -> list[list]:
    """tf.data's `window(size, shift=stride, drop_remainder=drop)` with `batch`."""
    found = [rows[start : start + size] for start in range(0, len(rows), stride)]
    return [window for window in found if len(window) == size or not drop]


@pytest.mark.parametrize(("count", "size", "stride", "drop"), CASES)
def test_windows_are_those_of_tf_data(count, size, stride, drop):
    ds = fb.range(count).with_column("x", fb.col("id") * 0.5).window(size, stride=stride, drop_remainder=drop)
    want = model(list(range(count)), size, stride, drop)
    assert [row["id"].tolist() for row in ds] == want
    assert [row["x"].tolist() for row in ds.iter(threads=1)] == [[n * 0.5 for n in window] for window in want]
    assert len(ds) == len(want)
    shape = f"[{size}]" if drop else "[?]"
    assert str(ds.schema) == f"Schema(id: int64{shape}, x: float64{shape})"
    shuffled = [row["id"].tolist() for row in ds.shuffle().iter(seed=1)]
    assert sorted(shuffled) == sorted(want)


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> fb.Dataset:
    """500 steps in two files: a number, a vector, a text that may be missing."""
    folder = tmp_path_factory.mktemp("series")
    for part in range(2):
        steps = range(part * 250, part * 250 + 250)
        words = [None if n % 7 == 0 else f"step {n}" for n in steps]
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(500.0) + part * 500), 2)
        table = pa.table({"t": pa.array(steps, pa.int32()), "v": vectors, "word": words})
        pq.write_table(table, folder / f"{part}.parquet", row_group_size=60)
    return fb.from_parquet(folder / "*.parquet")


def noisy(row, rng):
    return {"noise": rng.random()}


def test_windows_of_files_have_all_kinds_of_columns_and_each_step_its_own_noise(series):
    ds = series.map(noisy, reads=["t"], writes=["noise"], schema={"noise": "float64"}).skip(3)
    windows = ds.window(10, stride=4, drop_remainder=True)
    assert str(windows.schema) == "Schema(t: int32[10], v: float64[10, 2], word: string[?], noise: float64[10])"
    noise: dict[int, float] = {}
    rows = list(windows.iter(seed=5))
    assert len(rows) == (497 - 10) // 4 + 1
    for number, row in enumerate(rows):
        steps = [3 + number * 4 + k for k in range(10)]
        assert row["t"].tolist() == steps
        assert row["v"].tolist() == [[2 * n, 2 * n + 1] for n in steps]
        assert list(row["word"]) == [None if n % 7 == 0 else f"step {n}" for n in steps]
        # A step that two windows share is computed alike in both.
        assert all(noise.setdefault(n, x) == x for n, x in zip(steps, row["noise"].tolist(), strict=True))
    only = windows.select("t")
    assert [row["t"].tolist() for row in only] == [row["t"].tolist() for row in rows]
    one = [int(row["t"][0]) for row in windows.with_column("t", fb.col("t").list.slice(0, 1))]
    assert one == [3 + n * 4 for n in range(len(rows))]


def test_windows_are_resumed_shared_kept_and_served(series, service):
    ds = series.drop("word").window(16, stride=3, drop_remainder=True).shuffle().batch(8)
    it = ds.iter(seed=3, epochs=2)
    states, want = [it.state_dict()], []
    for batch in it:
        want.append(fingerprint(batch))
        states.append(json.loads(json.dumps(it.state_dict())))
    for at in range(0, len(states), 3):
        again = ds.iter(seed=3, epochs=2)
        again.load_state_dict(states[at])
        assert [fingerprint(batch) for batch in again] == want[at:]
    epoch = want[: len(want) // 2]
    parts = [[fingerprint(b) for b in ds.iter(seed=3, consumers=(rank, 3), even=False)] for rank in range(3)]
    assert [b for step in itertools.zip_longest(*parts) for b in step if b is not None] == epoch
    kept = series.drop("word").window(16, stride=3, drop_remainder=True).cache().shuffle().batch(8)
    assert [fingerprint(batch) for batch in kept.iter(seed=3, epochs=2)] == want
    assert [fingerprint(batch) for batch in ds.distribute(service, job=name(), seed=3, epochs=2)] == want
    fives = series.select("t").window(5, drop_remainder=True)
    both = [row["t"].tolist() for row in fb.concatenate([fives.take(3), fives.skip(97)])]
    assert both == [[5 * n + k for k in range(5)] for n in (0, 1, 2, 97, 98, 99)]


def fails(row):
    if row["id"] == 17:
        raise ValueError("seventeen")
    return {"id": row["id"]}


def test_a_sample_that_fails_takes_its_windows_with_it():
    ds = fb.range(40).map(fails, schema={"id": "int64"}).window(4, stride=2, drop_remainder=True)
    with pytest.raises(E.FunctionError, match="seventeen") as raised:
        list(ds)
    assert "17" in raised.value.context["sample"]
    found = [int(row["id"][0]) for row in ds.iter(on_error="skip", error_budget=1.0)]
    assert found == [n for n in range(0, 38, 2) if not n <= 17 < n + 4]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda ds: ds.window(0), "size=0"),
        (lambda ds: ds.window(2, stride=0), "stride=0"),
        (lambda ds: ds.window(2**17), "size=131072 is out of range"),
        (lambda ds: ds.shuffle().window(2), "behind window"),
        (lambda ds: ds.filter(fb.col("id") > 1).window(2), "choose rows by number"),
        (lambda ds: ds.batch(2).window(2), "behind window"),
        (lambda ds: fb.mix([ds, ds]).window(2), "its order differs"),
        (
            lambda ds: fb.from_generator(lambda: iter([{"id": 1}]), schema={"id": "int64"}).window(2),
            "cannot be counted",
        ),
        (lambda ds: fb.from_dict({"x": [b"a", b"b"]}).window(2), "no list holds"),
        (lambda ds: fb.from_dict({"x": [1, None]}).window(2), "fill_null"),
        (lambda ds: fb.from_dict({"x": [[1], [1, 2]]}).window(2), "pad or cut"),
    ],
)
def test_what_has_no_windows_is_refused_with_what_to_write(make, says):
    with pytest.raises(E.InvalidPipelineError, match=f"(?s){says}") as raised:
        make(fb.range(9))
    assert raised.value.context.get("hint") or "out of range" in str(raised.value)


def test_an_argument_of_tf_data_is_explained():
    with pytest.raises(TypeError, match="write stride="):
        fb.range(4).window(2, shift=1)


def turns(lens: list[int], cycle: int, block: int) -> list[int]:
    """tf.data's interleave, sample by sample."""
    iterators = [iter(range(1000 * part, 1000 * part + rows)) for part, rows in enumerate(lens)]
    slots: list = [None] * cycle
    found, at, in_block = [], 0, 0
    while iterators or any(slot is not None for slot in slots):
        if slots[at] is None:
            if iterators:
                slots[at] = iterators.pop(0)
            else:
                at, in_block = (at + 1) % cycle, 0
            continue
        sample = next(slots[at], None)
        if sample is None:
            slots[at] = None
            at, in_block = (at + 1) % cycle, 0
            continue
        found.append(sample)
        in_block += 1
        if in_block == block:
            at, in_block = (at + 1) % cycle, 0
    return found


@pytest.mark.parametrize("seed", range(12))
def test_datasets_take_turns_as_in_tf_data(seed):
    rng = random.Random(seed)
    lens = [rng.choice([0, rng.randrange(60)]) for _ in range(rng.randint(2, 7))]
    cycle, block = rng.randint(1, 8), rng.randint(1, 9)
    parts = [fb.range(1000 * part, 1000 * part + rows) for part, rows in enumerate(lens)]
    ds = fb.interleave(parts, cycle_length=cycle, block_length=block, source="part")
    want = turns(lens, cycle, block)
    assert [int(row["id"]) for row in ds] == want
    assert [int(row["part"]) for row in ds] == [n // 1000 for n in want]
    assert len(ds) == sum(lens)
    batches = ds.batch(7)
    states, expected = [], []
    it = batches.iter(seed=1)
    for batch in it:
        expected.append(fingerprint(batch))
        states.append(it.state_dict())
    for at in range(0, len(states), 4):
        again = batches.iter(seed=1)
        again.load_state_dict(states[at])
        assert [fingerprint(batch) for batch in again] == expected[at + 1 :]


def test_interleaved_datasets_keep_their_shuffles(service):
    parts = [fb.range(100 * n, 100 * n + 50).shuffle() for n in range(4)]
    ds = fb.interleave(parts, cycle_length=2, block_length=3)
    found = [int(row["id"]) for row in ds.iter(seed=1)]
    assert [n // 100 for n in found[:12]] == [0, 0, 0, 1, 1, 1] * 2
    assert sorted(found) == sorted(n for part in range(4) for n in range(100 * part, 100 * part + 50))
    assert [int(row["id"]) for row in ds.iter(seed=2)] != found
    there = ds.batch(16).distribute(service, job=name(), seed=1)
    assert [int(n) for batch in there for n in batch["id"]] == found
    with pytest.raises(E.InvalidPipelineError, match="at least two"):
        fb.interleave([fb.range(3)])
    with pytest.raises(E.InvalidPipelineError, match="block_length=0"):
        fb.interleave(parts, block_length=0)
    with pytest.raises(E.InvalidPipelineError, match="once \\(save\\)"):
        fb.interleave([parts[0], parts[1].filter(fb.col("id") > 3)])


@pytest.mark.parametrize(("rows", "folds"), [(0, 2), (5, 3), (64, 32), (1000, 5), (1037, 7)])
def test_folds_are_disjoint_complete_and_the_same_in_each_epoch(rows, folds):
    pairs = fb.range(rows).k_fold(folds, seed=3)
    assert len(pairs) == folds
    tests = []
    for train, test in pairs:
        own = [int(row["id"]) for row in test]
        rest = [int(row["id"]) for row in train]
        assert sorted(own + rest) == list(range(rows))
        assert (len(test), len(train)) == (len(own), len(rest))
        assert abs(len(own) - rows / folds) <= 2
        assert sorted(int(row["id"]) for row in test.shuffle().iter(seed=9, epoch=4)) == own
        tests += own
    assert sorted(tests) == list(range(rows))
    if rows == 1000:
        assert [int(row["id"]) for row in fb.range(rows).k_fold(folds, seed=4)[0][1]] != tests[:200]


def test_folds_are_read_behind_filters_and_refused_out_of_range():
    train, test = fb.range(100).filter(fb.col("id") % 2 == 0).k_fold(4)[1]
    assert sorted(int(row["id"]) for ds in (train, test) for row in ds) == list(range(0, 100, 2))
    for n in (1, 33):
        with pytest.raises(E.InvalidPipelineError, match=f"n={n} is out of range"):
            fb.range(9).k_fold(n)
