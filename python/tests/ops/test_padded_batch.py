"""Batches of lists: padded as tf.data's `padded_batch` and torch's `pad_sequence` do, wherever they run."""

from __future__ import annotations

import json
import random

import forebay as fb
import numpy as np
import pytest
from documents import N, documents, lengths, row_of
from pipelines import fingerprint, name

E = fb.errors


def padded(arrays: list[np.ndarray], value: float, length: int | None = None, multiple: int = 1) -> np.ndarray:
    """torch.nn.utils.rnn.pad_sequence(batch_first=True), and padded_batch's padded_shapes."""
    longest = max(len(a) for a in arrays) if length is None else length
    longest = -(-longest // multiple) * multiple
    out = np.full((len(arrays), longest, *arrays[0].shape[1:]), value, arrays[0].dtype)
    for to, a in zip(out, arrays, strict=True):
        to[: len(a)] = a[:longest]
    return out


def batches_of(order: list[int], size: int, drop: bool = False) -> list[list[int]]:
    batches = [order[at : at + size] for at in range(0, len(order), size)]
    return [b for b in batches if len(b) == size or not drop]


@pytest.mark.parametrize("seed", range(30))
def test_batches_are_those_of_padded_batch(seed):
    rng = random.Random(seed)
    size, drop, threads = rng.choice([1, 2, 5, 8, 64]), rng.random() < 0.3, rng.choice([1, 3])
    filtered, shuffled, fixed = rng.random() < 0.5, rng.random() < 0.5, rng.random() < 0.5
    value, multiple = rng.choice([0, -1, 9]), rng.choice([None, 1, 4])
    ds = documents()
    order = list(range(N))
    if shuffled:
        ds = ds.shuffle()
        order = [int(row["id"]) for row in fb.range(N).shuffle().iter(seed=seed)]
    if filtered:
        ds, order = ds.filter(fb.col("id") % 3 != 1), [i for i in order if i % 3 != 1]
    options: dict = {"pad": {"ids": value}, "lengths": {"ids": "n", "boxes": "m"}, "multiple_of": multiple}
    if fixed:
        options |= {"pad_to": {"ids": 6}, "truncate": True}
    batched = ds.batch(size, drop_remainder=drop, **options)
    assert batched.schema["ids"].shape == ((6,) if fixed else (None,))
    got = list(batched.iter(seed=seed, threads=threads))
    want = batches_of(order, size, drop)
    assert [b["id"].tolist() for b in got] == want
    for batch, ids in zip(got, want, strict=True):
        rows = [row_of(i) for i in ids]
        tokens = [row["ids"] for row in rows]
        expected = padded(tokens, value, 6) if fixed else padded(tokens, value, multiple=multiple or 1)
        np.testing.assert_array_equal(batch["ids"], expected, strict=True)
        boxes = padded([row["boxes"] for row in rows], 0, multiple=multiple or 1)
        np.testing.assert_array_equal(batch["boxes"], boxes, strict=True)
        assert batch["n"].tolist() == [min(len(t), 6) if fixed else len(t) for t in tokens]
        assert (batch["m"].dtype, batch["m"].tolist()) == (np.int32, [len(row["boxes"]) for row in rows])
        assert batch["text"].tolist() == [row["text"] for row in rows]


@pytest.mark.parametrize("filtered", [False, True])
def test_the_last_batch_is_filled_up_and_says_so(filtered):
    ds = documents().filter(fb.col("id") >= 0) if filtered else documents()
    ds = ds.batch(10, pad=-1, pad_last=True, valid="is_real")
    if not filtered:
        assert ds.cardinality == 6
    got = list(ds)
    assert [len(b["id"]) for b in got] == [10] * 6
    assert [b["is_real"].sum() for b in got] == [10] * 5 + [3]
    assert got[-1]["is_real"].tolist() == [True] * 3 + [False] * 7
    assert [i for b in got for i in b["id"][b["is_real"]].tolist()] == list(range(N))
    assert got[-1]["id"].tolist() == [50, 51, 52] + [52] * 7, "it is filled with its last row"
    plain = fb.range(5).batch(4, pad_last=True)
    assert [(b["id"].tolist(), b["valid"].tolist()) for b in plain][1] == ([4] * 4, [True, False, False, False])
    assert list(fb.range(0).batch(4, pad_last=True)) == []


def variants() -> list[fb.Dataset]:
    ds = documents()
    of_batch = lambda b: {"sum": b["ids"].sum(1)}  # noqa: E731
    return [
        ds.shuffle()
        .batch(8, pad={"ids": -1}, lengths={"ids": "n"})
        .map(of_batch, schema={"sum": "int64"}, writes=["sum"]),
        ds.filter(fb.col("id") % 4 != 1).batch(5, pad_to={"ids": 7}, truncate=["ids"], pad_last=True),
        ds.shuffle().batch(4, multiple_of=3).with_column("twice", fb.col("id") * 2),
    ]


@pytest.mark.parametrize("case", range(3))
def test_a_saved_state_gives_exactly_the_rest(case):
    ds = variants()[case]
    whole = [fingerprint(b) for b in ds.iter(seed=1, epochs=2)]
    it = ds.iter(seed=1, epochs=2)
    for at in range(len(whole) + 1):
        again = ds.iter(seed=1, epochs=2)
        again.load_state_dict(json.loads(json.dumps(it.state_dict())))
        assert [fingerprint(b) for b in again] == whole[at:], at
        if at < len(whole):
            next(it)


def test_a_service_gives_the_same_and_ranks_share_the_batches():
    with fb.up(workers=2, threads=1) as service:
        for ds in variants():
            want = [fingerprint(b) for b in ds.iter(seed=3, epochs=2)]
            assert [fingerprint(b) for b in ds.distribute(service, job=name(), seed=3, epochs=2)] == want
    ds = variants()[0]
    shares = [[fingerprint(b) for b in ds.iter(seed=3, consumers=(r, 2), even=False)] for r in range(2)]
    whole = [fingerprint(b) for b in ds.iter(seed=3)]
    assert [shares[i % 2][i // 2] for i in range(len(whole))] == whole


def test_rows_behind_a_cache_are_padded_the_same(tmp_path):
    ds = documents().cache().shuffle().batch(8, pad=2, lengths={"ids": "n"})
    plain = documents().shuffle().batch(8, pad=2, lengths={"ids": "n"})
    assert [fingerprint(b) for b in ds.iter(epochs=3)] == [fingerprint(b) for b in plain.iter(epochs=3)]
    with pytest.raises(E.InvalidPipelineError, match="sees whole batches"):
        next(documents().batch(8, pad=0).cache().iter())


def test_a_row_that_is_too_long_is_named_and_may_be_skipped():
    ds = documents().select(["id", "ids"]).batch(8, pad_to=7)
    with pytest.raises(
        E.DataError, match=r'column "ids" \(int32\[\?\]\) has length 20, and rows are padded to 7'
    ) as told:
        list(ds)
    first = next(i for i in range(N) if lengths(i)[0] > 7)
    assert (told.value.context["sample"], told.value.context["op"]) == (f"row {first}", "batch")
    assert "truncate=True" in str(told.value)
    seen = list(ds.iter(on_error="skip", error_budget=N))
    assert [i for b in seen for i in b["id"].tolist()] == [i for i in range(N) if lengths(i)[0] <= 7]
    assert {b["ids"].shape for b in seen[:-1]} == {(8, 7)}


@pytest.mark.parametrize("grouped", [False, True])
def test_padding_beyond_the_memory_bound_is_named_before_it_is_made(grouped):
    def one_is_long(row):
        return {"ids": np.zeros(4_000_000 if row["id"] == 9 else 1, np.int64)}

    ds = fb.range(64).map(one_is_long, schema={"ids": ("int64", (None,))}, writes=["ids"])
    ds = ds.bucket_by_length("ids", [1 << 23], [64, 64]) if grouped else ds.batch(64, pad=0)
    with pytest.raises(E.ForebayError, match='64 rows of column "ids" padded to 4000000 take 2048000000 bytes') as told:
        list(ds.iter(memory="1GiB"))
    assert told.value.context["sample"] == "row 9"


def test_columns_without_a_use_are_not_read_nor_padded():
    ds = documents().batch(8, pad={"ids": -1, "boxes": 2}, lengths={"ids": "n"}).select(["id", "n"])
    assert next(iter(ds))["n"].tolist() == [lengths(i)[0] for i in range(8)]
    bucketed = documents().bucket_by_length("ids", [4], [4, 4], pad={"ids": -1, "boxes": 2}).select(["ids"])
    assert all(set(b) == {"ids"} for b in bucketed)


def test_what_cannot_be_is_refused_where_it_is_written():
    ds = documents()
    wrong = [
        ({"pad": {"id": 0}}, "is int64, and is not padded"),
        ({"pad": {"ids": 0.5}}, "0.5 is none"),
        ({"pad": 1e400}, "out of range"),
        ({"pad_to": {"ids": 0}}, "pad_to=0 is out of range"),
        ({"pad_to": {"ids": 2**24 + 1}}, "pad_to=16777217 is out of range"),
        ({"pad_to": {"ids": 4}, "multiple_of": {"ids": 2}}, "is in pad_to and in multiple_of"),
        ({"truncate": True}, "without pad_to"),
        ({"truncate": "yes", "pad_to": 8}, "not a bool"),
        ({"truncate": ["ids"]}, "pad_to does not say where"),
        ({"truncate": ["yes"], "pad_to": 8}, "yes"),
        ({"lengths": "n"}, "is one name, and 2 columns are padded"),
        ({"lengths": {"ids": "id"}}, "there is a column"),
        ({"lengths": ["n"]}, "lengths is a dictionary"),
        ({"pad": 0, "pad_last": True, "valid": "id"}, "there is a column"),
        ({"pad": 0, "pad_last": True, "drop_remainder": True}, "pad_last fills up"),
        ({"pad": 0, "pad_last": 1}, "not a bool"),
    ]
    for options, says in wrong:
        with pytest.raises(E.ForebayError, match=says):
            ds.batch(8, **options)
    with pytest.raises(E.InvalidPipelineError, match="pad=0"):
        list(ds.batch(8))
    with pytest.raises(TypeError, match="pad=-1"):
        ds.bucket_by_length("ids", [4], [2, 2], padding=-1)
    images = fb.range(3).map(lambda row: {"x": np.zeros((2, 3, 3), np.uint8)}, schema={"x": ("uint8", (None, None, 3))})
    for options, says in [({}, "rows of different shapes make no batch"), ({"pad": 0}, "first dimension alone")]:
        with pytest.raises(E.InvalidPipelineError, match=says):
            images.batch(2, **options)
