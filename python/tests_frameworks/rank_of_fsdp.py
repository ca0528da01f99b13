"""One of two ranks that train a model that FSDP shards. Writes its rows and weights to <folder>/<rank>.json."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import Any

import forebay as fb
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

folder = Path(sys.argv[1])
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (world,))
rows = (
    fb.range(400)
    .shuffle()
    .filter(fb.col("id") % 7 < 2)
    .with_column("x", fb.stack([fb.col("id") / 400]))
    .cast(x="float32")
    .batch(8)
)


class Run:
    """A model with its data."""

    def __init__(self) -> None:
        torch.manual_seed(1)
        self.model = torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.Linear(8, 1))
        fully_shard(self.model, mesh=mesh)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)
        self.data = rows.to_torch(seed=5, consumers="auto", even="drop")

    def train(self, steps: int | None = None) -> list[int]:
        """Trains on an epoch, or on its first steps, and returns the rows."""
        seen: list[int] = []
        for batch in itertools.islice(self.data, steps):
            (self.model(batch["x"]) - 3 * batch["x"]).square().mean().backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            seen += batch["id"].tolist()
        return seen

    def weights(self) -> list[float]:
        """Returns all weights, of all ranks."""
        whole = [parameter.full_tensor() for parameter in self.model.parameters()]
        return [float(value) for tensor in whole for value in tensor.reshape(-1)]


def saved(run: Run) -> dict[str, Any]:
    """Returns the parts of a checkpoint. Behind a filter, ranks are at different places of their parts."""
    return {"model": get_model_state_dict(run.model), f"data-{rank}": run.data}


whole = Run()
out: dict[str, Any] = {"epochs": [whole.train(), whole.train()], "weights": whole.weights()}

first = Run()
out["before"] = first.train(3)
dcp.save(saved(first), checkpoint_id=folder / "checkpoint")
again = Run()
parts = saved(again)
dcp.load(parts, checkpoint_id=folder / "checkpoint")
set_model_state_dict(again.model, parts["model"])
out["after"] = [again.train(), again.train()]
out["weights again"] = again.weights()

(folder / f"{rank}.json").write_text(json.dumps(out))
dist.barrier()
dist.destroy_process_group()
