"""Random pipelines against a naive model: the same ops on lists of dictionaries, in plain Python."""

from __future__ import annotations

import datetime as dt
import itertools
import random
import re
from collections.abc import Callable
from typing import Any

import forebay as fb
import numpy as np
import pytest
from pipelines import extended

Rows = list[dict[str, Any]]
#: An op on a dataset, and what it does to rows.
Step = tuple[Callable[[fb.Dataset], fb.Dataset], Callable[[Rows], Rows]]
WORDS = ["tide", "Ebb", None, "", " bay", "naïve 3", "tide tide"]
ID, GAP, WORD, NUMBERS, WHEN = (fb.col(name) for name in ("id", "gap", "word", "numbers", "when"))


def data(rng: random.Random) -> Rows:
    first, count = rng.randint(-5, 5), rng.choice([0, 1, 7, 30, 45])
    return [
        {
            "id": i,
            "gap": None if i % 3 == 1 else i * i,
            "word": WORDS[i % len(WORDS)],
            "numbers": [float(k) for k in range(i % 4)],
            "when": 86_400 * 11 * i + 3_671 * i,
        }
        for i in range(first, first + count)
    ]


def dataset(rows: Rows) -> fb.Dataset:
    schema = {"id": "int64", "gap": "int64?", "word": "string?", "numbers": ("float64", (None,)), "when": "int64"}
    return fb.from_map_dataset(rows or data(random.Random(1))[:1], schema=schema).take(len(rows))


def each(of: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[Rows], Rows]:
    return lambda rows: [{**row, **of(row)} for row in rows]


def put(name: str, value: fb.Expr, of: Callable[[dict[str, Any]], Any]) -> Step:
    return lambda ds: ds.with_column(name, value), each(lambda row: {name: of(row)})


def keep(value: fb.Expr, of: Callable[[dict[str, Any]], Any]) -> Step:
    return lambda ds: ds.filter(value), lambda rows: [row for row in rows if of(row)]


def of_word(function: Callable[[str], Any]) -> Callable[[dict[str, Any]], Any]:
    return lambda row: None if row["word"] is None else function(row["word"])


def of_numbers(function: Callable[[list[float]], Any]) -> Callable[[dict[str, Any]], Any]:
    return lambda row: function(row["numbers"])


def spelled(row: dict[str, Any]) -> str | None:
    return None if row["word"] is None else f"{row['id']}/{row['word']}"


def time(row: dict[str, Any]) -> dt.datetime:
    return dt.datetime(1970, 1, 1) + dt.timedelta(seconds=row["when"])


def columns(rng: random.Random) -> list[Step]:
    """Returns ops that compute columns, and filters."""
    n = rng.randint(2, 5)
    return [
        put("made", ID * n - 3, lambda row: row["id"] * n - 3),
        put("made", ID // n + ID % n, lambda row: row["id"] // n + row["id"] % n),
        put("made", GAP.fill_null(-1), lambda row: -1 if row["gap"] is None else row["gap"]),
        put("made", fb.where(GAP > 9, ID, -ID), lambda row: row["id"] if (row["gap"] or 0) > 9 else -row["id"]),
        put("made", GAP.is_null() | (ID > 3), lambda row: row["gap"] is None or row["id"] > 3),
        put("made", ID.clip(-2, n), lambda row: min(max(row["id"], -2), n)),
        put("made", ID.isin([1, 4, n]), lambda row: row["id"] in (1, 4, n)),
        put("made", ID.lookup({1: "one", n: "n"}, "none"), lambda row: {1: "one", n: "n"}.get(row["id"], "none")),
        put("made", ID.bucketize([0, n]), lambda row: (row["id"] >= 0) + (row["id"] >= n)),
        put("made", ID.cast(str), lambda row: str(row["id"])),
        put("made", fb.format("{id}/{}", WORD), spelled),
        put("made", WORD.str.upper().str.strip(), of_word(lambda word: word.upper().strip())),
        put("made", WORD.str.slice(-n), of_word(lambda word: word[-n:])),
        put("made", WORD.str.replace("tide", "t"), of_word(lambda word: word.replace("tide", "t"))),
        put("made", WORD.str.search(r"\d$"), of_word(lambda word: re.search(r"\d$", word) is not None)),
        put("made", WORD.str.len(), of_word(len)),
        put("made", WORD.str.contains("id"), of_word(lambda word: "id" in word)),
        put("made", NUMBERS.list.sum() + NUMBERS.len(), of_numbers(lambda xs: sum(xs) + len(xs))),
        put("made", NUMBERS.list.slice(1, None), of_numbers(lambda xs: xs[1:])),
        put(
            "made", WHEN.dt("s").year() * 100 + WHEN.dt("s").month(), lambda row: time(row).year * 100 + time(row).month
        ),
        put("made", WHEN.dt("s").weekday(), lambda row: time(row).weekday()),
        put("made", WHEN.dt("s").floor("1h"), lambda row: row["when"] // 3600 * 3600),
        keep(ID % n != 0, lambda row: row["id"] % n != 0),
        keep(GAP > 4, lambda row: row["gap"] is not None and row["gap"] > 4),
        keep(WORD.is_null() | (WORD != "tide"), lambda row: row["word"] != "tide"),
        keep(WHEN.dt("s") >= dt.date(1970, 3, 1), lambda row: time(row) >= dt.datetime(1970, 3, 1)),
    ]


def windows(rows: Rows, size: int, stride: int, drop: bool) -> Rows:
    starts = range(0, len(rows), stride)
    made = [rows[at : at + size] for at in starts]
    return [{"id": [row["id"] for row in part]} for part in made if len(part) == size or not drop]


def turns(parts: list[Rows], cycle: int, block: int) -> Rows:
    """As tf.data's interleave: a slot whose dataset has ended takes the next dataset when it is its turn again."""
    made: Rows = []
    waiting, at = [iter(part) for part in parts], 0
    slots: list[Any] = [None] * cycle
    while waiting or any(slots):
        if slots[at] is None and waiting:
            slots[at] = waiting.pop(0)
        taken = list(itertools.islice(slots[at] or (), block))
        made += taken
        if len(taken) < block:
            slots[at] = None
        at = (at + 1) % cycle
    return made


def orders(rng: random.Random) -> list[Step]:
    """Returns ops that choose and order rows, and make several of one."""
    n, at = rng.randint(1, 4), rng.randint(0, 12)
    more = data(rng)
    table = {key: f"row {key}" for key in rng.sample(range(-9, 40), 20)}
    joined = {"id": list(table), "joined": list(table.values())}
    down = rng.random() < 0.5
    pieces = {"id": "int64", "piece": "int64"}
    size, stride, drop = rng.randint(1, 4), rng.randint(1, 4), rng.random() < 0.5
    return [
        (lambda ds: ds.take(at), lambda rows: rows[:at]),
        (lambda ds: ds.skip(at), lambda rows: rows[at:]),
        (lambda ds: ds.shard(n, n - 1), lambda rows: rows[n - 1 :: n]),
        (lambda ds: ds.repeat(n), lambda rows: rows * n),
        (lambda ds: ds.enumerate(start=at), lambda rows: [{**row, "index": at + i} for i, row in enumerate(rows)]),
        (lambda ds: ds.sort("id", descending=down), lambda rows: sorted(rows, key=lambda r: r["id"], reverse=down)),
        (lambda ds: ds.unique("word"), firsts),
        (lambda ds: ds.concatenate(dataset(more)), lambda rows: rows + more),
        (
            lambda ds: fb.interleave([ds, dataset(more), dataset(more[:5])], cycle_length=2, block_length=n),
            lambda rows: turns([rows, more, more[:5]], 2, n),
        ),
        (
            lambda ds: fb.zip(ds, dataset(more).select("id").rename(id="other"), strict=False),
            lambda rows: [{**row, "other": other["id"]} for row, other in zip(rows, more, strict=False)],
        ),
        (lambda ds: ds.explode("numbers"), lambda rows: [{**r, "numbers": x} for r in rows for x in r["numbers"]]),
        (
            lambda ds: ds.flat_map(several, reads="id", schema=pieces),
            lambda rows: [piece for row in rows for piece in several(row)],
        ),
        (lambda ds: ds.join(joined, on="id"), each(lambda row: {"joined": table.get(row["id"])})),
        (
            lambda ds: ds.join(joined, on="id", how="inner"),
            lambda rows: [{**row, "joined": table[row["id"]]} for row in rows if row["id"] in table],
        ),
        (
            lambda ds: ds.select("id").window(size, stride=stride, drop_remainder=drop),
            lambda rows: windows(rows, size, stride, drop),
        ),
        (lambda ds: ds.select("id", "word"), lambda rows: [{k: row[k] for k in ("id", "word")} for row in rows]),
        (lambda ds: ds.drop("gap").rename(when="gap"), lambda rows: [renamed(row) for row in rows]),
        (lambda ds: ds.cache(), lambda rows: rows),
    ]


def renamed(row: dict[str, Any]) -> dict[str, Any]:
    return {"gap" if name == "when" else name: value for name, value in row.items() if name != "gap"}


def firsts(rows: Rows) -> Rows:
    return [row for at, row in enumerate(rows) if all(row["word"] != before["word"] for before in rows[:at])]


def several(row: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"id": row["id"], "piece": piece} for piece in range(row["id"] % 3)]


def plain(value: Any) -> Any:
    if value is None or value is np.ma.masked:
        return None
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def in_plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: plain(value) for name, value in row.items()}


def pipeline(rng: random.Random) -> tuple[fb.Dataset, Rows]:
    """Draws ops, and does each to the dataset and to the rows; an op that is refused is left out of both."""
    rows = data(rng)
    ds = dataset(rows)
    for _ in range(rng.randint(1, 6)):
        on_dataset, on_rows = rng.choice(columns(rng) if rng.random() < 0.5 else orders(rng))
        after = extended(ds, lambda ds, _, op=on_dataset: op(ds), rng)
        if after is not ds:
            ds, rows = after, on_rows(rows)
        if ds.schema["id"].shape:
            break  # The ops above compute with single ids.
    return ds, rows


def padded(values: list[Any], pad: float) -> list[Any]:
    most = max(map(len, values), default=0)
    return [value + [pad] * (most - len(value)) for value in values]


@pytest.mark.parametrize("block", range(4))
def test_rows_and_batches_are_those_of_the_model(block):
    for seed in range(60 * block, 60 * block + 60):
        rng = random.Random(f"model {seed}")
        ds, rows = pipeline(rng)
        assert [in_plain(row) for row in ds.iter(threads=1 + seed % 3)] == rows, (seed, ds.explain())
        lists = [name for name, column in ds.schema.items() if column.shape == (None,)]
        size = rng.randint(1, 9)
        batches = [in_plain(batch) for batch in ds.batch(size, pad=1 if lists else None)]
        for at, batch in enumerate(batches):
            part = rows[at * size : (at + 1) * size]
            for name, values in batch.items():
                want = [row[name] for row in part]
                assert values == (padded(want, 1) if name in lists else want), (seed, name, ds.explain())
        assert len(batches) == -(-len(rows) // size)
