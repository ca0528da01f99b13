"""Documents whose lists differ in length."""

from __future__ import annotations

import random

import forebay as fb
import numpy as np

N = 53
SCHEMA = {
    "id": "int64",
    "ids": ("int32", (None,)),
    "boxes": ("float32", (None, 4)),
    "text": "string",
}


def lengths(i: int) -> tuple[int, int]:
    rng = random.Random(i)
    return rng.choice([0, 1, 3, 7, 20]), rng.randrange(4)


def row_of(i: int) -> dict:
    ids, boxes = lengths(i)
    return {
        "id": i,
        "ids": np.arange(1, ids + 1, dtype=np.int32) * i,
        "boxes": np.full((boxes, 4), i / 2, np.float32),
        "text": "x" * ids,
    }


def fill(row):
    return row_of(int(row["id"]))


def documents() -> fb.Dataset:
    return fb.range(N).map(fill, schema=SCHEMA)
