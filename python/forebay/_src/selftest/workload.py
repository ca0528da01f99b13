"""A pipeline over written data, with what must come out of it."""

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
#: What computing a batch takes, at least: an epoch is then long enough to be struck in the middle.
BATCH_SECONDS = 0.002
#: Records that a cache keeps.
KEPT = "kept"
MAKE = {"records": pipelines.of_records, KEPT: pipelines.of_kept, "pictures": pipelines.of_pictures}
BATCH = {"records": 192, KEPT: 192, "pictures": 16}


@dataclass(frozen=True)
class Workload:
    """Data and what is made of it.

    Attributes:
        name: `records`, `kept` (records that a cache keeps) or `pictures`.
        source: The folder with the files.
        seed: Of the order and of what is drawn.
        expected: What must come out.
        units_per_split: Batches in a split.
        calls: What its function notes when nothing goes wrong, by line: some batches are computed twice, to see whether
            they are the same. Empty where calls do not follow batches, because of a cache.
    """

    name: str
    source: Path
    seed: int
    expected: oracle.Expected
    units_per_split: int
    calls: Counter[str]

    @property
    def batches(self) -> int:
        """How many there are, over all epochs."""
        return len(self.expected.stream.sizes)

    def config(self, log: Path) -> dict[str, Any]:
        """Returns what a trainer has to know to make the same dataset."""
        return {"data": self.name, "source": str(self.source), "log": str(log), "epochs": EPOCHS, "seed": self.seed}

    def dataset(self, log: Path) -> fb.Dataset:
        """Returns the dataset, whose function notes in a file what it was called with."""
        return dataset(self.name, self.source, str(log))


def dataset(name: str, source: Path, log: str, seconds: float = BATCH_SECONDS) -> fb.Dataset:
    """Makes the dataset of a workload."""
    return MAKE[name](source, BATCH[name], log, seconds)


def of_records(folder: Path, samples: int, seed: int) -> Workload:
    """Writes records, and computes what must come out."""
    written = data.records(folder, samples, seed)
    return _workload("records", folder, samples, seed, lambda b: pipelines.truth(written, b["id"], b["noise"]))


def of_kept(folder: Path, samples: int, seed: int) -> Workload:
    """As `of_records`, for a pipeline with a cache."""
    written = data.records(folder, samples, seed)
    work = _workload(KEPT, folder, samples, seed, lambda b: pipelines.truth_of_kept(written, b["id"]))
    return replace(work, calls=Counter())


def of_pictures(folder: Path, samples: int, seed: int) -> Workload:
    """Writes pictures, and computes what must come out."""
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
