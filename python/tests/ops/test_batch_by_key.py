"""Batches of one key equal those of a plain loop, on any threads and after a resume; consumers may share keys."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import forebay as fb
import numpy as np
import pytest

E = fb.errors
KEYS = [random.Random(key).choice([0, 1, 1, 2, 5, -3, 9, 7]) for key in range(150)]


def keyed(keys: list[Any] = KEYS) -> fb.Dataset:
    return fb.from_dict({"id": list(range(len(keys))), "key": keys})


def reference(keys: list[Any], size: int, max_keys: int = 10**9) -> list[list[int]]:
    """The numbers of the samples of each batch, computed sample by sample."""
    held: dict[Any, list[int]] = {}
    out = []
    for i, key in enumerate(keys):
        while held:
            oldest = min(held, key=lambda key: held[key][0])
            if len(set(keys[held[oldest][0] : i + 1])) <= max_keys:
                break
            out.append(held.pop(oldest))
        held.setdefault(key, []).append(i)
        if len(held[key]) == size:
            out.append(held.pop(key))
    return out + [held[key] for key in sorted(held)]


def numbers(batches: Any) -> list[list[int]]:
    return [batch["id"].tolist() for batch in batches]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("size", "max_keys"), [(4, 1024), (4, 3), (1, 1), (7, 1), (200, 5)])
def test_batches_are_those_of_a_plain_loop_also_after_a_resume(size, max_keys, threads):
    ds = keyed().batch_by_key("key", size, max_keys=max_keys)
    want = reference(KEYS, size, max_keys)
    batches = list(ds.iter(threads=threads))
    assert numbers(batches) == want
    assert all(len(set(batch["key"].tolist())) == 1 for batch in batches)
    full = ds.iter(threads=threads)
    for at in range(0, len(want), 1 + len(want) // 12):
        again = ds.iter(epochs=2, threads=threads)
        again.load_state_dict(json.loads(json.dumps(full.state_dict())))
        assert numbers(again) == (want + want)[at:], at
        list(itertools.islice(full, 1 + len(want) // 12))


@pytest.mark.parametrize("chosen", [slice(3, None), slice(0, 5), slice(2, 9), slice(0, 45)])
def test_take_and_skip_count_the_batches_of_each_epoch_also_after_a_resume(chosen):
    ds = keyed().batch_by_key("key", 4).skip(chosen.start)
    ds = ds if chosen.stop is None else ds.take(chosen.stop - chosen.start)
    want = reference(KEYS, 4)[chosen] * 2
    full = ds.iter(epochs=2)
    for at in range(len(want) + 1):
        again = ds.iter(epochs=2)
        again.load_state_dict(json.loads(json.dumps(full.state_dict())))
        assert numbers(again) == want[at:], at
        next(full, None)


def test_incomplete_batches_are_left_out_if_asked():
    for max_keys in (2, 1024):
        want = [ids for ids in reference(KEYS, 6, max_keys) if len(ids) == 6]
        assert numbers(keyed().batch_by_key("key", 6, max_keys=max_keys, drop_remainder=True)) == want


@pytest.mark.parametrize(
    "keys",
    [
        ["b", "a", "", "naïve", "b", "a", "b"],
        [True, False, True, True],
        np.array([2**63 + 5, 3, 2**63 + 5, 2**64 - 1, 3], np.uint64),
        np.array([-5, 3, -5, 3, -128], np.int8),
    ],
    ids=["texts", "truth values", "uint64", "int8"],
)
def test_keys_are_texts_truth_values_and_numbers(keys):
    plain = list(keys) if isinstance(keys, list) else keys.tolist()
    ds = fb.from_dict({"id": list(range(len(plain))), "key": keys})
    assert numbers(ds.batch_by_key("key", 2)) == reference(plain, 2)


def test_several_columns_are_one_key_and_a_missing_value_is_a_value():
    a, b = [1, None, 1, None, 1, None], ["x", "x", "x", "x", "y", "x"]
    ds = fb.from_dict({"id": list(range(6)), "a": a, "b": b})
    assert numbers(ds.batch_by_key(["a", "b"], 2)) == [[0, 2], [1, 3], [5], [4]]
    ds = ds.batch_by_key(["a", "b"], 2).drop("a", "b")
    assert list(ds.schema) == ["id"]
    assert numbers(ds) == [[0, 2], [1, 3], [5], [4]]


def test_images_of_one_size_are_one_array_and_functions_see_it():
    sides = [(2, 4), (4, 2), (2, 4), (3, 3), (4, 2), (3, 3)]
    image = lambda row: {**row, "x": np.full((*sides[row["id"]], 3), row["id"], np.uint8)}  # noqa: E731
    ds = fb.range(6).map(image, schema={"id": "int64", "x": ("uint8", (None, None, 3))})
    ds = ds.with_column("side", fb.col("x").len()).batch_by_key("side", 2)
    assert ds.schema.padded == {"x"}
    half = ds.map(lambda batch: {"half": batch["x"] / np.float32(2)}, writes=["half"])
    shapes = [(batch["x"].shape, batch["half"].shape, batch["half"].dtype.name) for batch in half]
    assert shapes == [((2, *sides[i], 3),) * 2 + ("float32",) for i in (0, 1, 3)]
    mixed = fb.range(6).map(image, schema={"id": "int64", "x": ("uint8", (None, None, 3))})
    mixed = mixed.with_column("one", fb.col("id") * 0).batch_by_key("one", 2)
    with pytest.raises(E.InvalidPipelineError, match=r"rows of \[2, 4, 3\] and of \[4, 2, 3\]") as caught:
        list(mixed)
    assert caught.value.context["line"].startswith(__file__)


def test_lists_are_padded_or_of_one_length():
    ids = [[1], [2, 3], [4], [5, 6, 7]]
    ds = fb.from_dict({"id": list(range(4)), "ids": ids}).with_column("n", fb.col("ids").len())
    padded = ds.with_column("one", fb.col("n") * 0).batch_by_key("one", 3, pad=-1)
    assert [batch["ids"].tolist() for batch in padded] == [[[1, -1], [2, 3], [4, -1]], [[5, 6, 7]]]
    assert [batch["ids"].tolist() for batch in ds.batch_by_key("n", 2)] == [[[1], [4]], [[2, 3]], [[5, 6, 7]]]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_coordinated_ranks_have_one_key_at_each_step_and_share_all_samples(count):
    ds = keyed().batch_by_key("key", 3, max_keys=4)
    ranks = [ds.iter(consumers=(rank, count), coordinated=True) for rank in range(count)]
    steps = list(zip(*ranks, strict=True))
    assert all(len({key for batch in step for key in batch["key"].tolist()}) == 1 for step in steps)
    shared = [ids[: len(ids) // count * count] for ids in reference(KEYS, 3 * count, 4)]
    assert [[i for batch in step for i in batch["id"].tolist()] for step in steps] == [ids for ids in shared if ids]


def test_what_is_no_key_is_refused_where_it_is_written():
    ds = fb.from_dict({"x": [0.5], "b": [b"a"], "ids": [[1, 2]], "k": [1]})
    wrong = [
        (("x", 2), {}, "float64, which is no key"),
        (("b", 2), {}, "bytes, which is no key"),
        (("ids", 2), {}, "which is no key"),
        (("nothing", 2), {}, "nothing"),
        (([], 2), {}, "a key of 0 columns"),
        (("k", 0), {}, "size"),
        (("k", 2), {"max_keys": 70_000}, "max_keys=70000 is out of range"),
        (("k", 2), {"pad": {"k": 1}}, "is not padded"),
    ]
    for arguments, options, says in wrong:
        with pytest.raises(E.ForebayError, match=says) as caught:
            ds.batch_by_key(*arguments, **options)
        assert {"hint", "columns"} & caught.value.context.keys(), says
    long = fb.from_dict({"id": [0, 1, 2], "key": ["a", "b" * 2000, "a"]}).batch_by_key("key", 2)
    with pytest.raises(E.DataError, match="2000 bytes"):
        list(long)
    assert numbers(long.iter(on_error="skip", error_budget=1)) == [[0, 2]]
