"""The Trainer of transformers on two ranks: each row once an epoch, and runs that go on from a checkpoint."""

from __future__ import annotations

import forebay as fb
import pytest
from launch import on_ranks


def epoch_of(ids: list) -> int:
    """Returns the epoch that yields these rows in this order."""
    ds = fb.range(32).shuffle()
    return next(e for e in range(9) if [int(row["id"]) for row in ds.iter(seed=1, epoch=e)][: len(ids)] == ids)


@pytest.mark.parametrize("dispatch", ["True", "False"])
def test_the_trainer_trains_each_epoch_once_and_resumes_within_one(dispatch, tmp_path):
    """16 rows for each rank and epoch, in 4 steps of 4."""
    ranks = on_ranks("rank_of_trainer.py", tmp_path, dispatch)
    both = [[row for step in zip(*(rank[run] for rank in ranks), strict=True) for part in step for row in part]
            for run in ("whole", "resumed")]  # fmt: skip
    whole, resumed = both
    assert [epoch_of(whole[i : i + 32]) for i in (0, 32)] == [0, 1]
    assert resumed == whole[-len(resumed) :]
    assert len(resumed) == 16, "from step 6 of 8"
    assert all("leave consumers= out" in rank["refused"] for rank in ranks)
