"""The figures of `describe` are those of pandas and polars."""

from __future__ import annotations

import forebay as fb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

SHARES = [0.0, 0.1, 0.25, 0.5, 0.9, 1.0]


def table(seed: int, rows: int = 3000) -> pa.Table:
    rng = np.random.default_rng(seed)
    lost = rng.random(rows) < 0.1
    return pa.table(
        {
            "whole": pa.array(rng.integers(-50, 50, rows), mask=lost),
            "real": pa.array(rng.normal(3, 100, rows), mask=lost),
            "single": pa.array(rng.normal(0, 1, rows).astype(np.float32)),
            "text": pa.array(rng.choice(["x", "y", "long one"], rows), mask=~lost),
        }
    )


@pytest.mark.parametrize("seed", range(3))
def test_figures_are_those_of_pandas(seed):
    frame = table(seed).to_pandas()
    stats = fb.from_table(frame).describe(quantiles=SHARES)
    for name in frame:
        of, theirs = stats[name], frame[name]
        assert (of.count, of.nulls) == (theirs.count(), theirs.isna().sum())
        if name == "text":
            assert dict(of.top) == theirs.value_counts().to_dict()
            continue
        assert (of.mean, of.std) == pytest.approx((theirs.mean(), theirs.std()), rel=1e-5)
        assert list(of.quantiles.values()) == pytest.approx(list(theirs.quantile(SHARES)), rel=1e-5)
    assert pd.DataFrame(stats.to_dict()["columns"]).shape[1] == 4


@pytest.mark.parametrize("seed", range(3))
def test_figures_are_those_of_polars(seed):
    frame = pl.from_arrow(table(seed))
    stats = fb.from_table(frame).describe(quantiles=SHARES)
    for name in frame.columns:
        of, theirs = stats[name], frame[name]
        assert (of.count, of.nulls, of.distinct or theirs.drop_nulls().n_unique()) == (
            theirs.count(),
            theirs.null_count(),
            theirs.drop_nulls().n_unique(),
        )
        if name == "text":
            continue
        assert (of.mean, of.std, of.min, of.max) == pytest.approx(
            (theirs.mean(), theirs.std(), theirs.min(), theirs.max()), rel=1e-5
        )
        mine = list(of.quantiles.values())
        assert mine == pytest.approx([theirs.quantile(share, "linear") for share in SHARES], rel=1e-5)
