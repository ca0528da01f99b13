"""Lists of Python and JSON have any length, arrays keep their shape, and `batch` stacks lists of one length."""

from __future__ import annotations

import json
import random

import forebay as fb
import numpy as np
import pytest
from pipelines import fingerprint, name

E = fb.errors


def shape(ds: fb.Dataset) -> tuple:
    return ds.schema["x"].shape


def test_a_list_may_grow_after_the_first_rows_wherever_it_comes_from(tmp_path):
    rows = [{"x": [i]} for i in range(200)] + [{"x": [7, 8]}, {"x": []}]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ids = fb.range(len(rows))
    made = {
        "map dataset": fb.from_map_dataset(rows),
        "generator": fb.from_generator(lambda: iter(rows)),
        "map": ids.map(lambda row: rows[row["id"]]),
        "batched map": ids.map(lambda batch: {"x": [rows[i]["x"] for i in batch["id"]]}, batched=True),
        "flat_map": ids.flat_map(lambda row: [rows[row["id"]]]),
        "json": fb.from_jsonl(tmp_path / "rows.jsonl"),
        "dict": fb.from_dict({"x": [row["x"] for row in rows]}),
    }
    for of, ds in made.items():
        assert shape(ds) == (None,), of
        assert ds.schema["x"].dtype == "int64", of
        assert [row["x"].tolist() for row in ds] == [row["x"] for row in rows], of


def test_an_array_a_tuple_and_a_list_of_which_all_rows_are_seen_keep_their_shape():
    of = fb.from_map_dataset
    assert shape(of([{"x": np.zeros((2, 3))}])) == (2, 3)
    assert shape(of([{"x": (1, 2)}, {"x": (3, 4)}])) == (2,)
    assert shape(of([{"x": [[1, 2], [3, 4]]}])) == (None, 2)
    assert shape(of([{"x": [np.zeros(3)]}])) == (None, 3)
    assert shape(of([{"x": []}])) == (None,)
    assert shape(fb.from_dict({"x": [[1, 2], [3, 4]]})) == (2,)
    assert shape(of([{"x": [1, 2]}], schema={"x": ("int64", 2)})) == (2,)
    assert str(of([{"x": ["a"]}]).schema["x"]) == "string[?]"


def lists(lengths: list[int]) -> fb.Dataset:
    rows = [{"id": i, "x": [i] * n, "text": "a"} for i, n in enumerate(lengths)]
    return fb.from_map_dataset(rows)


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_a_batch_of_lists_of_one_length_is_the_array_that_numpy_stacks(on_error):
    rng = random.Random(0)
    for size in (1, 2, 3):
        lengths = [n for n in (rng.randrange(4) for _ in range(8)) for _ in range(size)]
        expected = [
            np.stack([[i] * n for i, n in list(enumerate(lengths))[a : a + size]]) for a in range(0, len(lengths), size)
        ]
        ds = lists(lengths).batch(size)
        assert "x" in ds.schema.padded
        for threads in (1, 4):
            got = [batch["x"] for batch in ds.iter(threads=threads, on_error=on_error)]
            assert [g.tolist() for g in got] == [e.tolist() for e in expected]
            assert all(g.dtype == np.int64 for g in got)
        doubled = [b["x"] for b in ds.with_column("x", fb.col("x") * 2).map(lambda b: {"x": b["x"] + 1})]
        assert [g.tolist() for g in doubled] == [(e * 2 + 1).tolist() for e in expected]
        short = lists([2] * 5).batch(2, pad_last=True)
        assert [b["x"].shape for b in short] == [(2, 2)] * 3


def test_stacked_lists_are_the_same_on_a_service_and_behind_a_saved_state(service):
    ds = fb.range(41).map(lambda row: {"id": row["id"], "x": [int(row["id"]) // 4] * (int(row["id"]) // 4 % 3)})
    ds = ds.batch(4).with_column("x", fb.col("x") + 1)
    whole = [fingerprint(b) for b in ds.iter(seed=1)]
    assert [fingerprint(b) for b in ds.distribute(service, job=name(), seed=1).iter()] == whole
    it = ds.iter(seed=1)
    for at in range(len(whole)):
        again = ds.iter(seed=1)
        again.load_state_dict(json.loads(json.dumps(it.state_dict())))
        assert [fingerprint(b) for b in again] == whole[at:], at
        next(it)


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_a_batch_of_lists_of_two_lengths_says_what_to_write(on_error):
    for ds in (lists([1, 1, 1, 2, 1]).batch(2), lists([1, 1, 1, 2, 1]).batch(2, pad_last=True)):
        with pytest.raises(E.InvalidPipelineError, match=r'column "x" is int64.*lists of 1 and of 2') as told:
            list(ds.iter(on_error=on_error))
        assert "pad=0" in told.value.context["hint"]
        assert (told.value.context["op"], told.value.context["sample"]) == ("batch", "row 3")
    assert [b["x"].tolist() for b in lists([1, 1, 1, 2]).batch(2, pad=-1)] == [[[0], [1]], [[2, -1], [3, 3]]]


def test_lists_behind_batch_are_arrays_where_the_first_ones_are():
    ds = fb.range(8).batch(4).map(lambda b: {"x": [[i, i] for i in b["id"].tolist()]})
    assert [b["x"].shape for b in ds] == [(4, 2)] * 2
    assert fingerprint(next(iter(ds))) == fingerprint({"x": np.array([[i, i] for i in range(4)])})


def test_a_number_pads_numbers_and_texts_stay_lists():
    ds = fb.from_map_dataset([{"x": [1], "tags": ["a"]}, {"x": [2, 3], "tags": ["b", "c"]}])
    (batch,) = ds.batch(2, pad=-1)
    assert (batch["x"].tolist(), batch["tags"].tolist()) == ([[1, -1], [2, 3]], [["a"], ["b", "c"]])
    (batch,) = ds.batch(2, pad=-1, pad_to=3, lengths="n")
    assert (batch["x"].shape, batch["n"].tolist()) == ((2, 3), [1, 2])
    (batch,) = ds.bucket_by_length("x", [4], [2, 2], pad=-1)
    assert batch["x"].tolist() == [[1, -1], [2, 3]]
    with pytest.raises(E.InvalidPipelineError, match=r'"tags" is string.*, and is not padded'):
        ds.batch(2, pad={"tags": 0})
