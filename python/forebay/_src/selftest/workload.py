"""A pipeline over written data, with the expected stream."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import forebay as fb
from forebay._src.selftest import data, oracle, pipelines

EPOCHS = 2
#: The least seconds that a batch takes to compute, so that an epoch is long enough for a fault in the middle.
BATCH_SECONDS = 0.002
#: The name of the workload of cached records.
KEPT = "kept"
MAKE = {"records": pipelines.of_records, KEPT: pipelines.of_kept, "pictures": pipelines.of_pictures}
BATCH = {"records": 192, KEPT: 192, "pictures": 16}


@dataclass(frozen=True)
class Workload:
    """Data and a pipeline over it.

    Attributes:
        name: `records`, `kept` (records in a cache) or `pictures`.
        source: The folder with the files.
        seed: The seed of the order and of the random ops.
        expected: The expected stream.
        units_per_split: Batches in a split.
        calls: The notes of its function in an undisturbed run, by line: some batches are computed twice, to see whether
            they are the same. Empty if calls do not follow batches, because of a cache.
    """

    name: str
    source: Path
    seed: int
    expected: oracle.Expected
    units_per_split: int
    calls: Counter[str]

    @property
    def batches(self) -> int:
        """The number of batches of all epochs."""
        return len(self.expected.stream.sizes)

    def config(self, log: Path) -> dict[str, Any]:
        """Returns the configuration with which a trainer makes the same dataset."""
        return {"data": self.name, "source": str(self.source), "log": str(log), "epochs": EPOCHS, "seed": self.seed}

    def dataset(self, log: Path) -> fb.Dataset:
        """Returns the dataset, whose function writes its calls to a file."""
        return dataset(self.name, self.source, str(log))


def dataset(name: str, source: Path, log: str, seconds: float = BATCH_SECONDS) -> fb.Dataset:
    """Makes the dataset of a workload."""
    return MAKE[name](source, BATCH[name], log, seconds)


def of_records(folder: Path, samples: int, seed: int) -> Workload:
    """Writes records, and computes the expected stream."""
    written = data.records(folder, samples, seed)
    return _workload("records", folder, samples, seed, lambda b: pipelines.truth(written, b["id"], b["noise"]))


def of_kept(folder: Path, samples: int, seed: int) -> Workload:
    """As `of_records`, for a pipeline with a cache."""
    written = data.records(folder, samples, seed)
    work = _workload(KEPT, folder, samples, seed, lambda b: pipelines.truth_of_kept(written, b["id"]))
    return replace(work, calls=Counter())


def of_pictures(folder: Path, samples: int, seed: int) -> Workload:
    """Writes pictures, and computes the expected stream."""
    data.pictures(folder, samples, seed)
    return _workload("pictures", folder, samples, seed, None)


def _workload(name: str, folder: Path, samples: int, seed: int, truth: Any) -> Workload:
    log = folder.with_name(f"{folder.name}-calls.txt")
    ds = dataset(name, folder, str(log), 0.0)
    batches = ds.iter(seed=seed, epochs=EPOCHS, threads=1)

    def stream() -> Iterator[tuple[int, dict[str, Any]]]:
        for batch in batches:
            yield batches.epoch, batch

    expected = oracle.expect(stream(), samples, truth)
    sizing = json.loads(batches.state_dict()["position"])["sizing"]
    calls = Counter(log.read_text().splitlines())
    return Workload(name, folder, seed, expected, int(sizing["split_units"]), calls)
