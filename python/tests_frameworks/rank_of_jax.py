"""One of two processes of JAX with two devices each. Writes the rows that it gets to <folder>/<process>.json."""

from __future__ import annotations

import itertools
import json
import os
import sys
from pathlib import Path

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

import forebay as fb
import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

folder, port, process = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
ds = fb.range(48).shuffle().batch(4, drop_remainder=True)
# A script may make the dataset before JAX knows its processes.
early = ds.to_jax(seed=5)
jax.distributed.initialize(f"127.0.0.1:{port}", 2, process)
total = jax.jit(lambda x: x.sum())


def local(array: jax.Array) -> list[int]:
    """Returns the rows of an array that this process has."""
    parts = {shard.index[0].start or 0: np.asarray(shard.data).tolist() for shard in array.addressable_shards}
    return [row for _, rows in sorted(parts.items()) for row in rows]


def sharded(**options) -> fb._src.jax.JaxDataset:
    mesh = jax.make_mesh((4,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    return ds.to_jax(seed=5, sharding=NamedSharding(mesh, PartitionSpec("data")), **options)


out: dict[str, object] = {"early": [np.asarray(batch["id"]).tolist() for batch in early]}
data = sharded()
out["length"] = len(data)
out["local"], out["totals"], out["shapes"] = [], [], []
for batch in itertools.chain(data, data):
    out["local"].append(local(batch["id"]))
    out["totals"].append(int(total(batch["id"])))
    out["shapes"].append(batch["id"].shape)
out["resumed"] = []
for cut in range(1, len(data)):
    first, again = sharded(), sharded(prefetch=cut % 3)
    seen = [local(batch["id"]) for batch in itertools.islice(first, cut)]
    again.load_state_dict(json.loads(json.dumps(first.state_dict())))
    out["resumed"].append(seen + [local(batch["id"]) for batch in again])
model = jax.make_mesh((2, 2), ("model", "data"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
both = ds.to_jax(seed=5, sharding=NamedSharding(model, PartitionSpec("data")))
out["of a model in parts"] = [local(batch["id"]) for batch in both]
(folder / f"{process}.json").write_text(json.dumps(out))
