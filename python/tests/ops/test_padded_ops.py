"""Ops after a padded batch get and return one array for each column, as NumPy does on the padded arrays."""

from __future__ import annotations

from typing import Any

import forebay as fb
import numpy as np
import pytest
from forebay import errors as E

LENGTHS = [1, 3, 2, 5, 4, 4, 0, 7]


def lists() -> fb.Dataset:
    """Returns rows with lists of these lengths, and other columns."""
    ids = [np.arange(1, n + 1, dtype=np.int64) for n in LENGTHS]
    other = [np.arange(n + 1, dtype=np.int64) * 10 for n in reversed(LENGTHS)]
    return fb.from_dict({"ids": ids, "other": other, "first": [n % 2 == 0 for n in LENGTHS]})


def padded(rows: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    out = np.zeros((len(rows), max(len(row) for row in rows)), rows[0].dtype)
    for at, row in enumerate(rows):
        out[at, : len(row)] = row
    return out


def batches() -> list[np.ndarray[Any, Any]]:
    """The padded batches of two rows."""
    ids = [np.arange(1, n + 1, dtype=np.int64) for n in LENGTHS]
    return [padded(ids[at : at + 2]) for at in range(0, len(ids), 2)]


def columns(ds: fb.Dataset, name: str = "y") -> list[np.ndarray[Any, Any]]:
    found = [batch[name] for batch in ds]
    assert all(column.dtype != object for column in found), [column.dtype for column in found]
    return found


EXPRESSIONS = [
    (fb.col("ids") * 2, lambda ids: ids * 2),
    (fb.col("ids") > 1, lambda ids: ids > 1),
    (fb.col("ids").cast("float32"), lambda ids: ids.astype(np.float32)),
    (fb.where(fb.col("ids") == 0, -100, fb.col("ids")), lambda ids: np.where(ids == 0, -100, ids)),
    (fb.col("ids") + fb.col("ids") * 3, lambda ids: ids * 4),
    (fb.col("ids").isin([1, 3]), lambda ids: np.isin(ids, [1, 3])),
    (fb.col("ids").list.slice(0, 2), lambda ids: ids[:, :2]),
    (fb.col("ids").clip(0, 2), lambda ids: ids.clip(0, 2)),
]


@pytest.mark.parametrize(("expr", "want"), EXPRESSIONS, ids=[str(expr) for expr, _ in EXPRESSIONS])
@pytest.mark.parametrize("bucketed", [False, True])
def test_expressions_keep_the_padding(expr: fb.Expr, want: Any, bucketed: bool) -> None:
    ds = lists().select("ids")
    ds = ds.bucket_by_length("ids", [100], [2, 2]) if bucketed else ds.batch(2, pad=0)
    ds = ds.with_column("y", expr)
    assert "y" in ds.schema.padded
    found = columns(ds)
    assert len(found) == len(batches())
    for column, ids in zip(found, batches(), strict=True):
        np.testing.assert_array_equal(column, want(ids), strict=True)


@pytest.mark.parametrize("options", [{}, {"on_error": "skip"}, {"threads": 3}])
def test_functions_see_the_padding_when_they_are_tried_and_when_they_run(options: dict[str, Any]) -> None:
    def double(batch: dict[str, Any]) -> dict[str, Any]:
        assert batch["ids"].dtype == np.int64, "no array of objects"
        assert batch["ids"].ndim == 2
        return {"y": batch["ids"] * 2, "mask": batch["ids"] > 0, "total": batch["ids"].sum(axis=1)}

    ds = lists().batch(2, pad=0).map(double)
    assert ds.schema.padded == {"y", "mask"}
    assert str(ds.schema["y"]) == "int64[?]"
    assert str(ds.schema["total"]) == "int64"
    made = list(ds.iter(**options))
    for batch, ids in zip(made, batches(), strict=True):
        np.testing.assert_array_equal(batch["y"], ids * 2, strict=True)
        np.testing.assert_array_equal(batch["mask"], ids > 0, strict=True)


def test_a_declared_column_is_one_array_and_rows_that_differ_are_an_error() -> None:
    schema = {"y": ("int64", (None,))}
    ds = lists().batch(2, pad=0).map(lambda batch: {"y": batch["ids"] + 1}, schema=schema)
    for column, ids in zip(columns(ds), batches(), strict=True):
        np.testing.assert_array_equal(column, ids + 1, strict=True)
    cut = lists().batch(2, pad=0).map(lambda batch: {"y": [ids[ids > 0] for ids in batch["ids"]]}, schema=schema)
    with pytest.raises(E.FunctionError, match="rows of shapes") as caught:
        list(cut)
    assert caught.value.context["column"] == "y"
    assert "pad its rows" in caught.value.context["hint"]


def test_a_function_behind_mixup_is_tried_on_a_batch() -> None:
    images = fb.from_numpy({"image": np.ones((8, 4, 4, 3), np.float32), "label": np.arange(8)})
    ds = images.batch(4).mixup("image", label="label", classes=8).map(lambda batch: {"y": batch["label"].sum(axis=1)})
    assert str(ds.schema["y"]) == "float32"


def test_rows_of_several_lengths_behind_a_batch_are_ragged() -> None:
    ds = lists().batch(2, pad=0).with_column("y", fb.where(fb.col("first"), fb.col("ids"), fb.col("other")))
    assert ds.schema.ragged == {"y"}
    for batch in ds:
        rows = zip(batch["ids"], batch["other"], batch["first"], strict=True)
        assert batch["y"].tolist() == [(ids if first else other).tolist() for ids, other, first in rows]


def test_where_takes_one_list_or_the_other() -> None:
    ds = lists()
    kinds = {
        "same": (fb.col("ids"), fb.col("other"), np.int64),
        "wider": (fb.col("ids").cast("int16"), fb.col("other").cast("float32"), np.float32),
        "cut": (fb.col("ids"), fb.col("other").list.slice(0, 1), np.int64),
        "number": (fb.col("ids"), 7, np.int64),
    }
    for name, (yes, no, dtype) in kinds.items():
        rows = list(ds.with_column("y", fb.where(fb.col("first"), yes, no)))
        for row in rows:
            other = {"cut": row["other"][:1], "number": np.full_like(row["ids"], 7)}.get(name, row["other"])
            want = (row["ids"] if row["first"] else other).astype(dtype)
            np.testing.assert_array_equal(row["y"], want, strict=True)


def test_where_takes_a_list_of_fixed_length_or_one_of_any() -> None:
    ds = lists().map(lambda row: {**row, "three": np.array([7, 8, 9])})
    rows = list(ds.with_column("y", fb.where(fb.col("first"), fb.col("three"), fb.col("ids"))))
    assert [row["y"].tolist() for row in rows] == [[7, 8, 9] if row["first"] else row["ids"].tolist() for row in rows]
    with pytest.raises(E.InvalidPipelineError, match="shapes do not match"):
        fb.from_numpy({"a": np.zeros((2, 3, 4)), "b": np.zeros((2, 3, 5)), "t": [True, False]}).with_column(
            "y", fb.where(fb.col("t"), fb.col("a"), fb.col("b"))
        )


def test_numbers_in_pairs_need_lists_of_one_length() -> None:
    ds = lists().with_column("y", fb.col("ids") + fb.col("other"))
    with pytest.raises(E.DataError, match=r"shapes \[1\] and \[8\] in one row do not match") as caught:
        list(ds)
    assert caught.value.context["sample"] == "row 0"
    equal = fb.col("ids").len() == fb.col("other").len()
    assert len(list(lists().filter(equal).with_column("y", fb.col("ids") + fb.col("other")))) == sum(
        a == b + 1 for a, b in zip(LENGTHS, reversed(LENGTHS), strict=True)
    )


@pytest.mark.parametrize("threads", [1, 3])
def test_batches_of_buckets_are_taken_and_skipped_as_slices_of_all(threads: int) -> None:
    ds = lists().bucket_by_length("ids", [3, 5], [2, 2, 1])
    whole = [batch["ids"].tolist() for batch in ds.iter(threads=threads)]
    assert len(whole) > 3
    for start in range(len(whole) + 2):
        for stop in range(start, len(whole) + 2):
            part = ds.skip(start).take(stop - start)
            assert [batch["ids"].tolist() for batch in part.iter(threads=threads)] == whole[start:stop]
    later = ds.skip(1).with_column("n", fb.col("ids").len()).take(2).iter(epochs=2, threads=threads)
    assert [batch["ids"].tolist() for batch in later] == whole[1:3] * 2
    assert ds[1]["ids"].tolist() == whole[1]


def test_a_state_resumes_taken_buckets_at_their_batch() -> None:
    ds = lists().bucket_by_length("ids", [3, 5], [2, 2, 1]).skip(1).take(3)
    whole = [batch["ids"].tolist() for batch in ds]
    for given in range(len(whole) + 1):
        first = ds.iter()
        for _ in range(given):
            next(first)
        rest = ds.iter()
        rest.load_state_dict(first.state_dict())
        assert [batch["ids"].tolist() for batch in rest] == whole[given:]
