"""Datasets in other processes: a dataset that is pickled there is the same here."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from forebay.errors import ClosedError
from pipelines import name


def draw(row, rng):
    return {"id": row["id"], "noise": rng.random()}


class Squares:
    def __len__(self):
        return 40

    def __getitem__(self, i):
        return {"x": i, "y": i * i}


DATASETS = {
    "range": lambda table: fb.range(100).shuffle().map(draw).filter(fb.col("id") % 3 != 0).batch(8),
    "arrays": lambda table: fb.from_dict({"x": np.arange(30.0), "s": [str(i) for i in range(30)]}).batch(4),
    "files": lambda table: fb.from_parquet(table).select("i", "name").shuffle().batch(16),
    "objects": lambda table: fb.from_map_dataset(Squares()).shuffle(),
    "generator": lambda table: fb.from_generator(lambda: ({"i": i} for i in range(20))).batch(3),
    "optimized": lambda table: fb.range(200).with_column("y", fb.col("id") * 2).filter(fb.col("id") > 3).optimize(),
}


def text(ds: fb.Dataset) -> list[str]:
    return [repr({name: np.asarray(value).tolist() for name, value in batch.items()}) for batch in ds.iter(seed=3)]


IN_ANOTHER = """
import pickle, sys
ds = pickle.load(sys.stdin.buffer)
import numpy as np
print(ds.dataset_id)
for batch in ds.iter(seed=3):
    print({name: np.asarray(value).tolist() for name, value in batch.items()})
"""


@pytest.mark.parametrize("which", DATASETS)
def test_a_dataset_is_the_same_in_another_process(which, parquet):
    ds = DATASETS[which](f"{parquet}/*")
    there = subprocess.run(
        [sys.executable, "-c", IN_ANOTHER], input=pickle.dumps(ds), capture_output=True, timeout=120, check=False
    )
    assert there.returncode == 0, there.stderr.decode()
    assert there.stdout.decode().splitlines() == [ds.dataset_id, *text(ds)]


@pytest.mark.parametrize("which", DATASETS)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_protocol_keeps_the_whole_pipeline(which, protocol, parquet):
    ds = DATASETS[which](f"{parquet}/*")
    again = pickle.loads(pickle.dumps(ds, protocol))
    assert type(again) is fb.Dataset
    assert (again.dataset_id, again.schema, again.explain()) == (ds.dataset_id, ds.schema, ds.explain())
    assert pickle.dumps(again, protocol) == pickle.dumps(ds, protocol)
    # It can be extended like any other.
    assert again.prefetch(3).dataset_id == ds.prefetch(3).dataset_id


def test_copies_share_what_never_changes():
    ds = fb.from_dict({"x": np.arange(1000)}).shuffle()
    for same in (copy.copy(ds), copy.deepcopy(ds), copy.deepcopy({"ds": [ds]})["ds"][0]):
        assert same.dataset_id == ds.dataset_id
        assert same._pipeline is ds._pipeline


def test_a_service_and_what_runs_on_it_pickle_as_a_connection(tmp_path: Path):
    ds = fb.range(40).batch(4)
    with fb.up(workers=1, threads=1) as service:
        job = pickle.loads(pickle.dumps(ds.distribute(service, job=name())))
        assert len(list(job)) == 10
        connection = pickle.loads(pickle.dumps(service))
        assert connection.address == service.address
        connection.close()
        assert len(service.workers()) == 1
    with pytest.raises(ClosedError):
        pickle.dumps(service)
