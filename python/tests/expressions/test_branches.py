"""A row fails only for the branches that it takes, as with SQL's CASE. The rows beside it do not count."""

from __future__ import annotations

import random

import forebay as fb
import numpy as np
import pytest
from forebay import col, where
from pipelines import fingerprint

E = fb.errors
ROWS = 40


class Failed(Exception):
    """A row of the reference fails."""


def rows(rng: random.Random) -> list[dict]:
    def text() -> str | None:
        return rng.choice(["7", "-3", "x", "", None])

    return [
        {
            "i": i,
            "x": [rng.randrange(-3, 4) for _ in range(rng.randrange(3))],
            "t": text(),
            "c": rng.random() < 0.5,
            "m": rng.choice([None, 5, -5]),
        }
        for i in range(ROWS)
    ]


SCHEMA = {"i": "int64", "x": ("int64", [None]), "t": "string?", "c": "bool", "m": "int64?"}


def number(rng: random.Random, depth: int) -> tuple:
    """Returns a random expression of numbers, and what Python computes of it: `None` is missing."""

    def get(row, at):
        if at >= len(row["x"]):
            raise Failed
        return row["x"][at]

    def spelled(row):
        try:
            return None if row["t"] is None else int(row["t"])
        except ValueError:
            raise Failed from None

    at = rng.randrange(2)
    leaves = [
        (col("x").list.get(at), lambda row: get(row, at)),
        (col("t").str.to_int(), spelled),
        (col("m"), lambda row: row["m"]),
        (col("i"), lambda row: row["i"]),
        (col("x").list.get(at, default=9), lambda row: row["x"][at] if at < len(row["x"]) else 9),
        (col("x").list.get(at, default=None), lambda row: row["x"][at] if at < len(row["x"]) else None),
    ]
    if depth == 0:
        return rng.choice(leaves)
    (a, of_a), (b, of_b) = number(rng, depth - 1), number(rng, depth - 1)
    (c, of_c) = truth(rng, depth - 1)

    def plus(row):
        x, y = of_a(row), of_b(row)
        return None if x is None or y is None else x + y

    def filled(row):
        x = of_a(row)
        return of_b(row) if x is None else x

    return rng.choice(
        [
            (where(c, a, b), lambda row: of_a(row) if of_c(row) else of_b(row)),
            (where(c, a, 1), lambda row: of_a(row) if of_c(row) else 1),
            (fb.coalesce(a, b), filled),
            (a + b, plus),
        ]
    )


def truth(rng: random.Random, depth: int) -> tuple:
    leaves = [
        (col("c"), lambda row: row["c"]),
        (col("x").list.len() > 0, lambda row: len(row["x"]) > 0),
        (col("m") > 0, lambda row: None if row["m"] is None else row["m"] > 0),
    ]
    if depth == 0:
        return rng.choice(leaves)
    (a, of_a), (b, of_b), (n, of_n) = truth(rng, depth - 1), truth(rng, depth - 1), number(rng, depth - 1)

    def above(row):
        x = of_n(row)
        return None if x is None else x > 0

    def both(row):
        x = of_a(row)
        if x is False:
            return False
        y = above(row)
        return False if y is False else None if x is None or y is None else True

    def either(row):
        x = of_a(row)
        if x is True:
            return True
        y = of_b(row)
        return True if y is True else None if x is None or y is None else False

    return rng.choice(
        [(a & (n > 0), both), (a | b, either), (n > 0, above), (~a, lambda r: None if of_a(r) is None else not of_a(r))]
    )


def computed(row, of) -> object:
    try:
        return of(row)
    except Failed:
        return "failed"


def test_random_expressions_fail_in_the_rows_in_which_python_fails():
    failing = guarded = 0
    for seed in range(40):
        rng = random.Random(seed)
        data = rows(rng)
        expression, of = number(rng, rng.randrange(1, 4))
        expected = [computed(row, of) for row in data]
        failing += "failed" in expected
        ds = fb.from_map_dataset(data, schema=SCHEMA).with_column("y", expression).select(["i", "y"])
        kept = [row for row in data if expected[row["i"]] != "failed"]
        got = {
            int(r["i"]): None if r["y"] is None else int(r["y"]) for r in ds.iter(on_error="skip", error_budget=ROWS)
        }
        assert got == {row["i"]: expected[row["i"]] for row in kept}, (seed, expression)
        if len(kept) == ROWS:
            continue
        # Without the rows that fail there is no error with any neighbours, and the bits are the same.
        whole = fb.from_map_dataset(kept, schema=SCHEMA).with_column("y", expression).select(["i", "y"])
        guarded += 1
        assert [fingerprint(b) for b in whole.batch(len(kept) or 1)] == [
            fingerprint(b) for b in ds.batch(len(kept) or 1).iter(on_error="skip", error_budget=ROWS)
        ]
        with pytest.raises(E.DataError) as told:
            list(ds)
        assert told.value.context["sample"] == f"row {expected.index('failed')}"
    assert failing > 10 < guarded


def test_the_guards_that_people_write_work():
    ds = fb.from_map_dataset([{"x": [], "t": "n/a"}, {"x": [2, 3], "t": "5"}])
    first, number_of = col("x").list.get(0), col("t").str.to_int()
    assert [int(r["y"]) for r in ds.with_column("y", where(col("x").list.len() > 0, first, -1))] == [-1, 2]
    assert [int(r["y"]) for r in ds.with_column("y", where(col("t") == "n/a", 0, number_of))] == [0, 5]
    assert len(list(ds.filter((col("x").list.len() > 0) & (first > 1)))) == 1
    assert len(list(ds.filter((col("x").list.len() == 0) | (first > 1)))) == 2
    assert [int(r["y"]) for r in ds.with_column("y", col("x").list.get(0, default=-1))] == [-1, 2]
    missing = ds.with_column("y", col("x").list.get(0, default=None))
    assert str(missing.schema["y"]) == "int64"
    assert "y" in missing.schema.nullable
    assert [r["y"] for r in missing] == [None, 2]
    assert [int(r["y"]) for r in missing.with_column("y", fb.coalesce(col("y"), 7))] == [7, 2]


def test_a_side_whose_lists_give_the_result_its_shape_is_needed_in_all_rows():
    ds = fb.from_map_dataset([{"a": [1], "b": [2, 3], "ok": False}, {"a": [1], "b": [2], "ok": True}])
    both = ds.with_column("y", where(col("ok"), col("a") + col("b"), col("a")))
    assert [r["y"].tolist() for r in both] == [[1], [3]]
    with pytest.raises(E.DataError, match="do not match"):
        list(ds.with_column("y", where(col("ok"), col("a") + col("b"), 0)))


def test_branches_at_any_depth_are_computed_at_most_twice():
    ds = fb.from_map_dataset([{"i": i, "x": [i] if i % 2 else []} for i in range(400)])
    expression = col("x").list.get(0)
    for i in range(0, 400, 2):
        expression = where(col("i") == i, -1, expression)
    assert [int(r["y"]) for r in ds.with_column("y", expression)] == [i if i % 2 else -1 for i in range(400)]


def test_defaults_have_the_type_of_the_items():
    ds = fb.from_dict(
        {"n": [np.array([1, 2], np.uint8)], "r": [[0.5]], "b": [[True]], "t": [["a"]], "m": [np.ones((2, 2))]}
    )
    for name, default, want in [
        ("n", 200, 200),
        ("r", 1, 1.0),
        ("r", 0.5, 0.5),
        ("b", False, False),
        ("t", "z", "z"),
        ("t", None, None),
    ]:
        (row,) = ds.with_column("y", col(name).list.get(5, default=default))
        assert row["y"] == want, name
    (row,) = ds.with_column("y", col("m").list.get(5, default=7))
    assert row["y"].tolist() == [7.0, 7.0]
    for name, default, says in [
        ("n", 256, "an item is uint8, and default=256 is none"),
        ("n", 0.5, "default=0.5 is none"),
        ("n", "z", "is none"),
        ("b", 1, "is none"),
        ("t", 1, "is none"),
        ("m", None, "is none"),
    ]:
        with pytest.raises(E.InvalidPipelineError, match=says):
            ds.with_column("y", col(name).list.get(0, default=default))
    with pytest.raises(TypeError, match="default is a number"):
        col("n").list.get(0, default=[1])
    with pytest.raises(E.DataError, match=r"get\(5\): the list has 2 items"):
        list(ds.with_column("y", col("n").list.get(5)))
