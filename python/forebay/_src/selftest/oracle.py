"""The expected stream, and the differences of a stream from it.

Ids are checked against the numbers that were written; the bytes of records against NumPy; the bytes of pictures, the
random numbers and the order against one thread in this process, which is independent of the service.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from forebay._src.selftest.data import Array

#: The most ids that a message names.
NAMED_MAX = 5


@dataclass
class Stream:
    """The rows that a consumer was given.

    Attributes:
        epochs: The epoch of each batch.
        sizes: The rows of each batch.
        ids: The ids, batch by batch.
        digests: The digest of each row's bytes, batch by batch.
    """

    epochs: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    ids: list[Array] = field(default_factory=list)
    digests: list[Array] = field(default_factory=list)

    def add(self, epoch: int, batch: dict[str, Any]) -> None:
        """Adds a batch."""
        self.put(epoch, np.array(batch["id"], np.int64), digests(batch))

    def put(self, epoch: int, ids: Array, of_rows: Array) -> None:
        """Adds the ids and digests of a batch."""
        self.epochs.append(epoch)
        self.sizes.append(len(ids))
        self.ids.append(ids)
        self.digests.append(of_rows)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(self.sizes)

    def epoch(self, epoch: int) -> tuple[Array, Array]:
        """Returns the ids and digests of an epoch."""
        of = [i for i, e in enumerate(self.epochs) if e == epoch]
        return _joined([self.ids[i] for i in of], np.int64), _joined([self.digests[i] for i in of], np.uint64)


def _joined(parts: list[Array], dtype: Any) -> Array:
    return np.concatenate(parts) if parts else np.zeros(0, dtype)


def digests(batch: dict[str, Any]) -> Array:
    """Returns a digest of each row: of its columns' names, dtypes, shapes and bytes.

    >>> a, b = (digests({"id": np.arange(2), "x": np.zeros((2, width))}) for width in (3, 1))
    >>> a.shape, bool((a == b).any())
    ((2,), False)
    """
    names = sorted(batch)
    head = " ".join(f"{n}:{batch[n].dtype}{batch[n].shape[1:]}" for n in names).encode()
    rows = len(batch["id"])
    columns = [np.ascontiguousarray(batch[n]).reshape(rows, -1).view(np.uint8) for n in names]
    whole = np.ascontiguousarray(np.concatenate(columns, axis=1))
    start = hashlib.blake2b(head, digest_size=8)
    made = np.zeros(rows, np.uint64)
    for i in range(rows):
        row = start.copy()
        row.update(whole[i])
        made[i] = int.from_bytes(row.digest(), "little")
    return made


@dataclass(frozen=True)
class Expected:
    """The expected stream.

    Attributes:
        samples: Every epoch has the ids from 0 below this, each once.
        stream: The rows, in their order.
    """

    samples: int
    stream: Stream

    @property
    def epochs(self) -> int:
        """The number of epochs."""
        return max(self.stream.epochs) + 1


def expect(
    batches: Iterable[tuple[int, dict[str, Any]]],
    samples: int,
    truth: Callable[[dict[str, Any]], dict[str, Array]] | None,
) -> Expected:
    """Reads the undisturbed stream, and compares it with the truth if that is known without the engine.

    Raises:
        AssertionError: The engine computes a wrong stream, so faults have nothing to be compared with.
    """
    stream = Stream()
    for epoch, batch in batches:
        if truth is not None:
            for name, column in truth(batch).items():
                same = batch[name].dtype == column.dtype and np.array_equal(batch[name], column)
                assert same, f"column {name!r} is not what NumPy computes of the records that were written"
        stream.add(epoch, batch)
    expected = Expected(samples, stream)
    found = check(Expected(samples, stream), stream)
    assert not found.problems(), f"the undisturbed stream is wrong: {found.problems()}"
    return expected


@dataclass(frozen=True)
class Findings:
    """The differences of a stream from the expected one. Each list has (epoch, id).

    Attributes:
        samples: Rows that came.
        lost: Never came.
        doubled: Came more than once.
        foreign: Were never written.
        changed: Came with other bytes.
        misplaced: The first place where the order differs; `None` if it is the same.
        resized: The first batch of another length; `None` if all have the expected length.
    """

    samples: int
    lost: list[tuple[int, int]]
    doubled: list[tuple[int, int]]
    foreign: list[tuple[int, int]]
    changed: list[tuple[int, int]]
    misplaced: int | None
    resized: int | None

    @property
    def each_once(self) -> bool:
        """Returns whether every sample came exactly once in every epoch."""
        return not (self.lost or self.doubled or self.foreign)

    @property
    def in_order(self) -> bool:
        """Returns whether rows and batches are in the expected places."""
        return self.misplaced is None and self.resized is None

    def problems(self) -> list[str]:
        """Returns the differences as texts."""
        lists = {
            "lost": self.lost,
            "more than once": self.doubled,
            "never written": self.foreign,
            "changed": self.changed,
        }
        said = [f"{len(ids)} {what}: {_named(ids)}" for what, ids in lists.items() if ids]
        if self.misplaced is not None:
            said.append(f"the order differs from sample {self.misplaced} of the stream on")
        if self.resized is not None:
            said.append(f"batch {self.resized} has another length")
        return said


def _named(ids: list[tuple[int, int]]) -> str:
    named = ", ".join(f"id {i} of epoch {epoch}" for epoch, i in ids[:NAMED_MAX])
    return named + (", …" if len(ids) > NAMED_MAX else "")


def check(expected: Expected, got: Stream) -> Findings:
    """Compares a stream with the expected one."""
    lost, doubled, foreign, changed = [], [], [], []
    for epoch in sorted({*range(expected.epochs), *got.epochs}):
        ids, bytes_ = got.epoch(epoch)
        written = (ids >= 0) & (ids < expected.samples) & (epoch < expected.epochs)
        foreign += [(epoch, int(i)) for i in ids[~written]]
        if epoch >= expected.epochs:
            continue
        ids, bytes_ = ids[written], bytes_[written]
        times = np.bincount(ids, minlength=expected.samples)
        lost += [(epoch, int(i)) for i in np.flatnonzero(times == 0)]
        doubled += [(epoch, int(i)) for i in np.flatnonzero(times > 1)]
        right_ids, right_bytes = expected.stream.epoch(epoch)
        right = np.zeros(expected.samples, np.uint64)
        right[right_ids] = right_bytes
        changed += [(epoch, int(i)) for i in ids[right[ids] != bytes_]]
    return Findings(
        got.rows,
        lost,
        doubled,
        foreign,
        changed,
        _first_difference(_order(expected.stream), _order(got)),
        _first_difference(np.array(expected.stream.sizes), np.array(got.sizes)),
    )


def _order(stream: Stream) -> Array:
    epochs = np.repeat(np.array(stream.epochs, np.int64), stream.sizes)
    return np.stack([epochs, _joined(stream.ids, np.int64)], axis=1)


def _first_difference(a: Array, b: Array) -> int | None:
    shorter = min(len(a), len(b))
    differs = (a[:shorter] != b[:shorter]).reshape(shorter, -1).any(axis=1)
    if differs.any():
        return int(np.argmax(differs))
    return None if len(a) == len(b) else shorter


def computed(expected: Expected, lines: Iterable[str], calls: Counter[str], units_per_split: int) -> int:
    """Counts the splits of which a part was computed more often than `calls` says, by the notes of the functions.

    Raises:
        AssertionError: A note is of rows that are no part of any epoch.
    """
    places: dict[tuple[int, int, int], tuple[int, int]] = {}
    units = [0] * expected.epochs
    for epoch, ids in zip(expected.stream.epochs, expected.stream.ids, strict=True):
        second = int(ids[1]) if len(ids) > 1 else -1
        key = (int(ids[0]), second, len(ids))
        assert key not in places, f"two batches begin with the rows {key}: use another seed"
        places[key] = (epoch, units[epoch])
        units[epoch] += 1
    again: set[tuple[int, int]] = set()
    for line, times in Counter(lines).items():
        first, second, count = map(int, line.split())
        place = places.get((first, second, count))
        assert place is not None, f"the rows {line!r} were computed together, and are no batch"
        if times > calls[line]:
            again.add(place)
    return len({(epoch, unit // units_per_split) for epoch, unit in again})
