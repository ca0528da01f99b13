"""A `DataLoader` over a random dataset itself is warned of; over `to_torch()`, or a dataset without randomness, not."""

from __future__ import annotations

import warnings

import forebay as fb
import pytest
from forebay._src.iteration import repeats
from torch.utils.data import DataLoader, IterableDataset, Subset


def noisy(row, rng):
    return {"x": rng.random()}


@pytest.mark.parametrize("options", [{"batch_size": 4, "shuffle": True}, {"batch_size": None}])
def test_a_loader_by_index_is_warned_of_at_its_line(options, monkeypatch):
    monkeypatch.setattr(repeats, "_warned", {})
    loader = DataLoader(fb.range(12).map(noisy), **options)
    with pytest.warns(fb.RepeatedEpochWarning, match="to_torch") as warned:
        for _ in loader:
            pass
    assert [one.filename for one in warned] == [__file__]


def made_for_each_epoch(ds, times):
    for _ in range(times):
        for _batch in ds.to_torch():
            pass


def test_a_dataset_that_is_made_for_each_epoch_is_warned_of():
    ds = fb.range(12).shuffle().batch(4)
    with pytest.warns(fb.RepeatedEpochWarning, match="once, before the loop") as warned:
        made_for_each_epoch(ds, 3)
    assert [one.filename for one in warned] == [__file__]


def test_what_is_right_is_not_warned_of():
    ds = fb.range(12).map(noisy).shuffle().batch(4)
    by_index, anew, once = (
        DataLoader(fb.range(8), batch_size=4),
        DataLoader(ds.to_torch(), batch_size=None),
        ds.to_torch(),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for epoch in range(3):
            assert [len(list(by_index)), len(list(anew)), len(list(once))] == [2, 3, 3]
            told = ds.to_torch()
            told.set_epoch(epoch)
            assert len(list(told)) == len(list(ds.to_torch(epoch=0))) == 3


class Rows(IterableDataset):
    """Reads batches, and yields their rows."""

    def __iter__(self):
        for batch in fb.range(8).batch(4).to_torch():
            yield from batch["id"]


def test_a_loader_that_makes_batches_of_batches_is_refused():
    ds = fb.range(8).batch(4)
    for dataset in (ds, Subset(ds, [1, 0]), ds.to_torch()):
        with pytest.raises(fb.errors.InvalidPipelineError, match="are in batches already"):
            list(DataLoader(dataset, batch_size=2))
        assert [batch["id"].shape for batch in DataLoader(dataset, batch_size=None)] == [(4,), (4,)]
    assert [rows.tolist() for rows in DataLoader(Rows(), batch_size=2)] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    unpacked = DataLoader(ds, batch_size=1, collate_fn=lambda batches: batches[0])
    assert [batch["id"].shape for batch in unpacked] == [(4,), (4,)]
