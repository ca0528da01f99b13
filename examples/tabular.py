"""Trains on a table in Parquet files: row groups that a filter excludes are not read, and features are expressions.

    python examples/tabular.py

The table is made here, partitioned by year and with missing values. Put the path of your own in its place.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import forebay as fb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROWS, BATCH, EPOCHS, RATE = 20_000, 256, 3, 0.3


def write_table(folder: Path) -> None:
    """Writes trips of three years, sorted by day; each fifth trip has no rating."""
    rng = np.random.default_rng(0)
    for year in (2022, 2023, 2024):
        distance, minutes = rng.gamma(2, 3, ROWS), rng.gamma(3, 6, ROWS)
        tip = rng.random(ROWS) < 1 / (1 + np.exp(-(0.4 * distance - 0.1 * minutes)))
        rating = [None if i % 5 == 0 else float(r) for i, r in enumerate(rng.integers(1, 6, ROWS))]
        day = np.sort(rng.integers(0, 365, ROWS))
        columns = {"day": day, "distance": distance, "minutes": minutes, "rating": rating, "tip": tip}
        (folder / f"year={year}").mkdir()
        pq.write_table(pa.table(columns), folder / f"year={year}" / "part-0.parquet", row_group_size=1000)


def pipeline(folder: Path) -> fb.Dataset:
    """Batches of three features, scaled, and a label, of the summers since 2023."""
    summer = (fb.col("year") >= 2023) & (fb.col("day") >= 150) & (fb.col("day") < 240)
    return (
        fb.from_parquet(str(folder), columns=["distance", "minutes", "rating", "tip"], filters=summer)
        .shuffle()
        .filter(fb.col("distance") < 40.0)
        .fill_null({"rating": 3.0})
        .with_column(
            "features",
            fb.stack([fb.col("distance") / 10.0, fb.col("minutes") / 30.0, fb.col("rating") / 5.0]).cast("float32"),
        )
        .select("features", "tip")
        .batch(BATCH)
    )


def main() -> None:
    """Fits a logistic regression, and prints its loss and its weights."""
    with tempfile.TemporaryDirectory(prefix="forebay-table-") as folder:
        write_table(Path(folder))
        ds = pipeline(Path(folder))
        print(ds.schema)
        weights = np.zeros(4)
        for epoch in range(EPOCHS):
            losses = []
            for batch in ds.iter(seed=5, epoch=epoch):
                inputs = np.column_stack([batch["features"], np.ones(len(batch["tip"]))])
                found = 1 / (1 + np.exp(-inputs @ weights))
                losses.append(-np.log(np.where(batch["tip"], found, 1 - found)).mean())
                weights -= RATE * inputs.T @ (found - batch["tip"]) / len(found)
            print(f"epoch {epoch}: {len(losses)} batches, loss {np.mean(losses):.3f}")
        print("weights of distance, minutes, rating and 1:", np.round(weights, 2))


if __name__ == "__main__":
    main()
