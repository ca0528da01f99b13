"""Texts of many scripts, and the values of a column that an expression computes."""

from __future__ import annotations

import random

import forebay as fb
import numpy as np

LETTERS = ["a", "B", "z", " ", "\t", "é", "É", "Σ", "ß", "日", "🐟", "-", "1", "\x1c", "ab", "İ"]
ROWS = 300


def texts(seed: int, missing: float = 0.2) -> list[str | None]:
    rng = random.Random(seed)
    some = ["".join(rng.choices(LETTERS, k=rng.randrange(8))) for _ in range(ROWS)]
    return [None if rng.random() < missing else text for text in some]


def computed(column: list, expr: fb.Expr, name: str = "x") -> list:
    rows = fb.from_dict({name: column}).with_column("y", expr).batch(64).iter()
    out: list = []
    for batch in rows:
        y = batch["y"]
        out += [
            None if m else v for v, m in zip(y.tolist(), np.ma.getmaskarray(y).reshape(len(y), -1).any(1), strict=True)
        ]
    return out


def each(function, column: list) -> list:
    return [None if value is None else function(value) for value in column]
