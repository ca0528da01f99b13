"""PyTorch itself: states within an epoch, torchdata's loader, checkpoints, and loaders with processes."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys

import forebay as fb
import numpy as np
import pytest
import torch
from forebay._src.frameworks.torch_device import Mover
from torch.distributed import checkpoint
from torchdata.stateful_dataloader import StatefulDataLoader

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def test_pytorch_saves_and_restores_in_an_epoch():
    def ids(batches) -> list:
        return [batch["id"].tolist() for batch in batches]

    dataset = fb.range(60).shuffle().batch(4).to_torch(seed=3)
    epochs = [ids(fb.range(60).shuffle().batch(4).iter(seed=3, epoch=e)) for e in range(4)]
    assert ids(dataset) == epochs[0]
    started = iter(dataset)
    assert ids(itertools.islice(started, 6)) == epochs[1][:6]
    state = dataset.state_dict()
    assert all(isinstance(value, (int, str)) for value in state.values())
    again = fb.range(60).shuffle().batch(4).to_torch(seed=3)
    again.load_state_dict(state)
    assert again.state_dict() == state
    assert [ids(again), ids(again)] == [epochs[1][6:], epochs[2]]
    assert isinstance(next(iter(again))["id"], torch.Tensor)


def test_a_stateful_data_loader_resumes():
    def loader():
        return StatefulDataLoader(fb.range(60).shuffle().batch(4).to_torch(seed=3), batch_size=None)

    first, again = loader(), loader()
    everything = [[b["id"].tolist() for b in first] for _ in range(3)]
    first = loader()
    list(first)
    for _ in itertools.islice(first, 6):
        state = first.state_dict()
    again.load_state_dict(json.loads(json.dumps(state)))
    assert [[b["id"].tolist() for b in again] for _ in range(2)] == [everything[1][6:], everything[2]]


@pytest.mark.parametrize("ahead", [0, 1, 3])
def test_batches_on_their_way_to_a_device_are_not_lost(ahead, monkeypatch):
    # This machine has no such device. The test leaves the copies out, and keeps the order of the other steps.
    monkeypatch.setattr(Mover, "_sent", lambda _, batch: (batch, None))
    monkeypatch.setattr(Mover, "_arrived", lambda _, batch, _event: batch)

    def made():
        dataset = fb.range(40).shuffle().batch(4).to_torch(seed=3, device="cpu", columns="id")
        dataset._mover._is_cuda, dataset._mover.ahead = True, ahead
        return dataset

    def ids(batches) -> list:
        return [batch.tolist() for batch in batches]

    want = ids(made())
    for cut in range(1, 11):
        dataset, again = made(), made()
        seen = ids(itertools.islice(dataset, cut))
        again.load_state_dict(dataset.state_dict())
        assert seen + ids(again) == want


def test_what_is_no_device_is_said_at_once():
    with pytest.raises(fb.errors.InvalidPipelineError, match="is no device"):
        fb.range(4).to_torch(device="gpu")
    if not torch.cuda.is_available():
        with pytest.raises(fb.errors.InvalidPipelineError, match="finds no CUDA device"):
            fb.range(4).to_torch(pin=True)


def test_torch_distributed_checkpoint_takes_an_iterator(tmp_path):
    ds = fb.range(60).shuffle().filter(fb.col("id") % 2 == 0).skip(3).batch(4)
    it = ds.iter(seed=3)
    list(itertools.islice(it, 3))
    checkpoint.save({"data": it}, checkpoint_id=tmp_path)
    again = ds.iter(seed=3)
    checkpoint.load({"data": again}, checkpoint_id=tmp_path)
    np.testing.assert_equal([b["id"].tolist() for b in again], [b["id"].tolist() for b in it])


SPAWNS = """
import forebay as fb
from torch.utils.data import DataLoader
if __name__ == "__main__":
    dataset = fb.range(60).batch(4).to_torch()
    print(len(DataLoader(dataset, batch_size=None)), sum(1 for _ in DataLoader(dataset, batch_size=None)))
    list(DataLoader(dataset, batch_size=None, num_workers=1, multiprocessing_context="spawn"))
"""


def test_a_data_loader_says_why_it_needs_no_processes(tmp_path):
    (tmp_path / "spawns.py").write_text(SPAWNS)
    done = subprocess.run([sys.executable, tmp_path / "spawns.py"], capture_output=True, text=True, timeout=300)
    assert done.stdout == "15 15\n"
    assert "each would read everything" in done.stderr
    assert "num_workers=0" in done.stderr


def test_columns_computed_behind_a_padded_batch_are_tensors():
    ids = [np.arange(n, dtype=np.int64) for n in (1, 3, 2, 0)]
    ds = fb.from_dict({"ids": ids}).batch(2, pad=0).with_column("y", fb.col("ids") * 2)
    batches = [batch["y"] for batch in ds.to_torch()]
    assert [batch.tolist() for batch in batches] == [[[0, 0, 0], [0, 2, 4]], [[0, 2], [0, 0]]]
