"""Datasets for PyTorch: here, on a service, in other processes; and their length. Without torch, on a stand-in."""

from __future__ import annotations

import itertools
import pickle
import sys
import types

import forebay as fb
import pytest
from forebay.errors import ClosedError
from pipelines import name


class IterableDataset:
    """The relevant part of torch."""


@pytest.fixture(autouse=True)
def torch(monkeypatch):
    """Torch, or a stand-in whose tensors are NumPy's arrays."""
    try:
        import torch
    except ModuleNotFoundError:
        torch, utils, data = (types.ModuleType(name) for name in ("torch", "torch.utils", "torch.utils.data"))
        torch.utils, utils.data, torch.from_numpy = utils, data, lambda array: array
        data.IterableDataset, data.get_worker_info = IterableDataset, lambda: None
        for module in (torch, utils, data):
            monkeypatch.setitem(sys.modules, module.__name__, module)
        forget_importers()
        yield torch
        forget_importers()
    else:
        yield torch


def forget_importers() -> None:
    """Forgets the modules that have imported torch or its stand-in, so that they import it again."""
    for module in ("torch", "torch_device", "torch_finish", "torch_together"):
        sys.modules.pop(f"forebay._src.frameworks.{module}", None)


def ids(batches) -> list:
    return [batch["id"].tolist() for batch in batches]


def expected(ds: fb.Dataset, epochs: int, **options) -> list:
    return [ids(ds.iter(epoch=e, **options)) for e in range(epochs)]


def test_on_a_service_each_iteration_is_an_epoch_of_one_job(service, until):
    ds, job = fb.range(60).shuffle().batch(4), name()
    dataset = ds.to_torch(service, job=job, seed=3, epochs=3)
    assert [ids(dataset) for _ in range(3)] == expected(ds, 3, seed=3)
    until(lambda: [j.state for j in service.jobs() if j.name == job] == ["finished"])
    # A further iteration yields the next epochs, of a job of its own.
    assert [ids(dataset) for _ in range(2)] == expected(ds, 5, seed=3)[3:]
    assert [j.name for j in service.jobs() if j.name.startswith(f"{job}-")] == [f"{job}-epoch-3", f"{job}-epoch-4"]


def test_an_epoch_that_is_left_early_is_followed_by_the_next(service):
    ds = fb.range(60).shuffle().batch(4)
    dataset = ds.to_torch(service, job=name(), epochs=None)
    epochs = expected(ds, 3)
    assert ids(itertools.islice(dataset, 5)) == epochs[0][:5]
    assert [ids(dataset), ids(dataset)] == epochs[1:]


@pytest.mark.parametrize("on_service", [False, True])
def test_an_iterator_that_gave_no_batch_is_no_epoch(on_service, service):
    """Frameworks request iterators only to look, and set the epoch after that."""
    ds = fb.range(60).shuffle().batch(4)
    options = {"job": name(), "epochs": 4} if on_service else {}
    dataset, epochs = ds.to_torch(service if on_service else None, **options), expected(ds, 4)
    iter(dataset)
    seen = iter(dataset)
    iter(dataset)
    state = dataset.state_dict()
    assert ids(seen) == epochs[0]
    unused = iter(dataset)
    assert ids(dataset) == epochs[1]
    dataset.set_epoch(3)
    assert ids(unused) == epochs[3]
    dataset.set_epoch(0)
    assert ids(itertools.islice(dataset, 2)) == epochs[0][:2]
    dataset.set_epoch(0)
    assert ids(dataset) == epochs[0], "the sanity check of a framework eats no epoch"
    dataset.load_state_dict(state)
    iter(dataset)
    assert ids(dataset) == epochs[0]


def test_the_epoch_that_is_set_goes_before_a_state_of_another_one():
    ds = fb.range(60).shuffle().batch(4)
    epochs, dataset = expected(ds, 4), ds.to_torch()
    list(dataset)
    batches = iter(dataset)
    ids(itertools.islice(batches, 6))
    inside = dataset.state_dict()
    ids(batches)
    ended = dataset.state_dict()
    assert inside.keys() == ended.keys()

    def after(state, epoch) -> list:
        again = ds.to_torch()
        again.load_state_dict(state)
        again.set_epoch(epoch)
        return [ids(again), ids(again)]

    assert after(inside, 1) == [epochs[1][6:], epochs[2]]
    assert after(inside, 2) == [epochs[2], epochs[3]]
    assert after(ended, 1) == [[], epochs[2]]
    assert after(ended, 2) == [epochs[2], epochs[3]]
    with pytest.warns(fb.RanksWarning, match="the rest of epoch 1 does not come"):
        assert after(inside, 0) == [epochs[0], epochs[1]]


@pytest.mark.parametrize("taken", [0, 1, 6, 15])
@pytest.mark.parametrize("batch", [None, 4])
def test_on_a_service_a_state_goes_on_in_the_epoch(taken, batch, service):
    ds = fb.range(60).shuffle()
    ds = ds if batch is None else ds.batch(batch)
    make = lambda: ds.to_torch(service, job=name(), seed=3, epochs=4)  # noqa: E731
    epochs, dataset = expected(ds, 4, seed=3), make()
    assert ids(dataset) == epochs[0]
    batches = iter(dataset)
    assert ids(itertools.islice(batches, taken)) == epochs[1][:taken]
    state = dataset.state_dict()
    assert all(isinstance(value, (int, str)) for value in state.values())
    again = make()
    again.load_state_dict(state)
    assert again.state_dict() == state
    assert [ids(again), ids(again), ids(again)] == [epochs[1][taken:], epochs[2], epochs[3]]
    # At the end of an epoch, no batch of the next one has been taken, though it may have come.
    assert ids(batches) == epochs[1][taken:]
    later = make()
    later.load_state_dict(dataset.state_dict())
    assert [ids(later), ids(later)] == [epochs[2], epochs[3]]


LENGTHS = {
    "batches": lambda: fb.range(103).shuffle().batch(10),
    "whole batches": lambda: fb.range(103).batch(10, drop_remainder=True),
    "samples": lambda: fb.range(103).shuffle(),
    "repeat": lambda: fb.range(50).repeat(3).batch(8),
    "part": lambda: fb.range(1000).skip(11).take(90).shuffle().batch(7),
    "shard": lambda: fb.range(1000).shard(3, 1).batch(7),
    "unshuffled samples": lambda: fb.range(5003),
}


@pytest.mark.parametrize("which", LENGTHS)
@pytest.mark.parametrize("even", [None, True, False])
@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_its_length_is_what_a_consumer_gets(which, even, count):
    for index in range(count):
        dataset = LENGTHS[which]().to_torch(consumers=(index, count), even=even)
        assert len(dataset) == sum(1 for _ in dataset)


def test_its_length_counts_files(parquet, service):
    dataset = fb.from_parquet(f"{parquet}/*").batch(32).to_torch(service, job=name(), consumers=(1, 2))
    assert len(dataset) == len(list(dataset)) == 8


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: fb.range(9).filter(fb.col("id") > 3).to_torch(), "when it is computed"),
        (
            lambda: fb.range(9).filter(fb.col("id") > 3).batch(2).to_torch(consumers=(0, 2), even=False),
            "when it is computed",
        ),
        (lambda: fb.range(9).repeat().to_torch(), "never ends"),
        (lambda: fb.range(9).repeat().batch(2).to_torch(consumers=(0, 2)), "never ends"),
        (lambda: fb.range(9).to_torch(on_error="skip"), "left out"),
    ],
)
def test_what_is_not_known_is_no_length(make, why):
    dataset = make()
    with pytest.raises(TypeError, match=why):
        len(dataset)
    assert next(iter(dataset))


def test_a_copy_in_another_process_begins_with_the_next_epoch(service):
    ds = fb.range(60).shuffle().batch(4)
    epochs = expected(ds, 3, seed=3)
    for make in (lambda: ds.to_torch(seed=3), lambda: ds.to_torch(service, job=name(), seed=3, epochs=3)):
        dataset = make()
        list(dataset)
        batches = iter(dataset)
        next(batches)
        if dataset._epochs.options.get("job"):
            # A job has one process for each consumer.
            batches.close()
        assert ids(pickle.loads(pickle.dumps(dataset))) == epochs[2]


def test_a_closed_service_is_said_to_be(torch):
    with fb.up(workers=1, threads=1) as service:
        dataset = fb.range(10**6).batch(4).to_torch(service, job="closed")
        batches = iter(dataset)
        next(batches)
    with pytest.raises(ClosedError, match="the service"):
        list(batches)


def test_ranks_are_found_when_the_dataset_is_used(monkeypatch):
    ds = fb.range(24).batch(4)
    dataset = ds.to_torch(consumers="auto")
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert len(dataset) == 3
    assert ids(dataset) == ids(ds.iter(consumers=(1, 2)))
    monkeypatch.setenv("RANK", "0")
    assert ids(pickle.loads(pickle.dumps(dataset))) == ids(ds.iter(consumers=(0, 2), epoch=1))
    monkeypatch.delenv("RANK")
    assert ids(ds.to_torch(consumers="auto")) == ids(ds.iter())


def test_a_pipeline_with_a_shard_is_not_divided_once_more(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    ds = fb.range(24).shard(2, 1).batch(4)
    assert ids(ds.to_torch(consumers="auto")) == ids(ds.iter())


def test_columns_are_values_or_tuples():
    ds = fb.range(4).with_column("x", fb.col("id") * 2).batch(4)
    (pair,) = ds.to_torch(columns=("x", "id"))
    (one,) = ds.to_torch(columns="x")
    assert [part.tolist() for part in pair] == [[0, 2, 4, 6], [0, 1, 2, 3]]
    assert one.tolist() == [0, 2, 4, 6]
    with pytest.raises(fb.errors.NotFoundError, match='no column "z"'):
        ds.to_torch(columns=["z"])
    with pytest.raises(TypeError, match="consumers"):
        ds.to_torch(consumer=(0, 1))
