"""The pipelines of the demo: two jobs with the same first ops, and the digits that are held out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from forebay._src.dataset import Dataset
from forebay._src.sources.file_sources import from_tar

BATCH = 64


class Labels:
    """A user's own function: it runs on the workers, in Python processes beside them."""

    def __init__(self, calls: Path) -> None:
        """Leaves a byte in `calls` for each sample that it is called for."""
        self.calls = calls

    def __call__(self, sample: dict[str, Any]) -> dict[str, Any]:
        """Reads the label."""
        with self.calls.open("ab") as calls:
            calls.write(b".")
        return {"label": np.int64(int(sample["cls"]))}

    def count(self) -> int:
        """Returns the number of calls so far, in all processes."""
        return self.calls.stat().st_size if self.calls.exists() else 0


def prefix(shards: Path, labels: Labels) -> Dataset:
    """Returns the ops that both jobs begin with: none is random, so each sample is computed once."""
    ds = from_tar(str(shards / "train-*.tar")).shuffle()
    return ds.map(labels, reads=["cls"], writes=["label"], name="labels").decode_image("png", mode="L")


def first(ds: Dataset) -> Dataset:
    """Adds the ops of the first job, which are random in each epoch: the same here and on the service."""
    ds = ds.random_resized_crop("png", 28, scale=(0.6, 1.0))
    return ds.normalize("png", mean=[0.13], std=[0.31], layout="CHW").batch(BATCH)


def second(ds: Dataset) -> Dataset:
    """Adds the ops of the second job."""
    ds = ds.resize("png", 28).random_rotation("png", 15)
    return ds.normalize("png", mean=[0.5], std=[0.5], layout="CHW").batch(BATCH)


def held_out(shards: Path, labels: Labels) -> Dataset:
    """The digits of test.tar, which no job trains on."""
    ds = from_tar(str(shards / "test.tar")).map(labels, reads=["cls"], writes=["label"]).decode_image("png", mode="L")
    return ds.resize("png", 28).normalize("png", mean=[0.13], std=[0.31], layout="CHW").batch(128)
