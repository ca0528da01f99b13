"""Batches whose lists keep their lengths: the lists that went in, wherever the pipeline runs."""

from __future__ import annotations

import pickle
import random

import forebay as fb
import numpy as np
import pyarrow as pa
import pytest
from documents import N, documents, row_of
from pipelines import fingerprint, name

E = fb.errors


def check(column: fb.Ragged, rows: list[np.ndarray]) -> None:
    """Compares a column with the lists that it should hold, and with what Arrow makes of them."""
    assert isinstance(column, fb.Ragged)
    ends = np.cumsum([0, *map(len, rows)], dtype=np.int32)
    np.testing.assert_array_equal(column.offsets, ends, strict=True)
    np.testing.assert_array_equal(column.values, np.concatenate(rows), strict=True)
    assert len(column) == len(rows)
    for one, other in [(list(column), rows), ([column[i - len(rows)] for i in range(len(rows))], rows)]:
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b, strict=True)
    assert column.lengths.tolist() == [len(row) for row in rows]
    assert pa.array(column).to_pylist() == column.tolist() == [row.tolist() for row in rows]
    longest = max(map(len, rows))
    padded = np.full((len(rows), longest, *rows[0].shape[1:]), 7, rows[0].dtype)
    for to, row in zip(padded, rows, strict=True):
        to[: len(row)] = row
    np.testing.assert_array_equal(column.to_padded(7), padded, strict=True)
    np.testing.assert_array_equal(column[1:].to_padded(7, longest), padded[1:], strict=True)
    if longest:
        with pytest.raises(E.InvalidPipelineError, match="to_padded: a list has length"):
            column.to_padded(0, longest - 1)
    assert pickle.loads(pickle.dumps(column)).tolist() == column.tolist()


@pytest.mark.parametrize("seed", range(20))
def test_lists_keep_their_lengths(seed):
    rng = random.Random(seed)
    size, drop = rng.choice([1, 2, 5, 8, 64]), rng.random() < 0.3
    ds, order = documents(), list(range(N))
    if rng.random() < 0.5:
        ds = ds.shuffle()
        order = [int(row["id"]) for row in fb.range(N).shuffle().iter(seed=seed)]
    if rng.random() < 0.5:
        ds, order = ds.filter(fb.col("id") % 3 != 1), [i for i in order if i % 3 != 1]
    boxes_padded, last = rng.random() < 0.3, not drop and rng.random() < 0.3
    options: dict = {"ragged": ["ids"], "pad": 0} if boxes_padded else {"ragged": rng.choice([True, ["ids", "boxes"]])}
    ds = ds.batch(size, drop_remainder=drop, pad_last=last, **options)
    assert ds.schema.ragged == ({"ids"} if boxes_padded else {"ids", "boxes"})
    batches = [order[at : at + size] for at in range(0, len(order), size)]
    batches = [b for b in batches if len(b) == size or not drop]
    if last and batches:
        batches[-1] += [batches[-1][-1]] * (size - len(batches[-1]))
    got = list(ds.iter(seed=seed, threads=rng.choice([1, 3])))
    assert [b["id"].tolist() for b in got] == batches
    for batch, ids in zip(got, batches, strict=True):
        check(batch["ids"], [row_of(i)["ids"] for i in ids])
        if boxes_padded:
            assert batch["boxes"].shape[0] == len(ids)
        else:
            check(batch["boxes"], [row_of(i)["boxes"] for i in ids])
        assert batch["text"].tolist() == [row_of(i)["text"] for i in ids]


def halved(batch: dict) -> dict:
    """A function of batches: it gets ragged columns, and returns one and lists."""
    ids = batch["ids"]
    return {"ids": fb.Ragged(ids.values // 2, ids.offsets), "ends": [row[-1:] for row in ids]}


def test_functions_and_expressions_behind_the_batch_keep_lists_ragged():
    schema = {"ids": ("int32", (None,)), "ends": ("int32", (None,))}
    for declared in (None, schema):
        ds = documents().select(["id", "ids"]).batch(8, ragged=True)
        ds = ds.map(halved, writes=["ids", "ends"], schema=declared).with_column("twice", fb.col("ids") * 2)
        assert ds.schema.ragged == {"ids", "ends", "twice"}
        for batch in ds:
            rows = [row_of(int(i))["ids"] for i in batch["id"]]
            check(batch["ids"], [row // 2 for row in rows])
            check(batch["ends"], [row[-1:] for row in rows])
            check(batch["twice"], [row // 2 * 2 for row in rows])
    kept = documents().map(lambda batch: {"ids": batch["ids"]}, batched=True)
    assert [row["ids"].tolist() for row in kept] == [row_of(i)["ids"].tolist() for i in range(N)]


def test_ragged_batches_are_the_same_on_a_service_in_processes_and_behind_a_saved_state(service):
    ds = documents().shuffle().batch(7, ragged=True).map(halved, writes=["ids", "ends"])
    whole = [fingerprint(b) for b in ds.iter(seed=3)]
    assert [fingerprint(b) for b in ds.iter(seed=3, executor="process")] == whole
    assert [fingerprint(b) for b in ds.distribute(service, job=name(), seed=3).iter()] == whole
    it = ds.iter(seed=3)
    head = [fingerprint(next(it)) for _ in range(3)]
    state = it.state_dict()
    again = ds.iter(seed=3)
    again.load_state_dict(state)
    assert head + [fingerprint(b) for b in again] == whole


def test_what_cannot_be_ragged_is_refused_where_it_is_written():
    ds = documents().with_column("words", fb.col("text").str.split(" "))
    shaped = fb.from_numpy({"x": np.zeros((3, 2), np.float32)})
    images = fb.range(3).map(lambda row: {"x": np.zeros((2, 3, 3), np.uint8)}, schema={"x": ("uint8", (None, None, 3))})
    wrong = [
        (ds, {"ragged": ["words"]}, "lists of texts stay lists"),
        (ds, {"ragged": ["id"]}, "only lists of numbers are ragged"),
        (ds, {"ragged": ["idx"]}, "there is no column"),
        (ds, {"ragged": 1}, "not a bool"),
        (ds, {"ragged": ["ids"], "pad": {"ids": 0}}, "is ragged, and is not padded"),
        (ds, {"ragged": ["ids"], "lengths": {"ids": "n"}}, "is ragged, and is not padded"),
        (shaped, {"ragged": ["x"]}, "its rows have one shape"),
        (images, {"ragged": True}, "first dimension alone"),
    ]
    for of, options, says in wrong:
        with pytest.raises(E.ForebayError, match=says):
            of.batch(8, **options)
    with pytest.raises(E.InvalidPipelineError, match="ragged=True to keep their lengths"):
        list(documents().batch(8))
    for values, offsets in [([1, 2], [0, 1]), ([1], [1, 1]), ([1, 2], [0, 2, 1, 2]), ([1], [])]:
        with pytest.raises(E.InvalidPipelineError, match="do not rise from 0"):
            fb.Ragged(values, offsets)
    ragged = fb.Ragged([1, 2, 3], [0, 1, 3])
    for wrong_place in (2, -3, slice(None, None, 2)):
        with pytest.raises(IndexError):
            ragged[wrong_place]
