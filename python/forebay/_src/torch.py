"""Datasets for PyTorch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from forebay._src import arguments
from forebay._src.iterator import position_of
from forebay.errors import InvalidPipelineError
from torch.utils.data import IterableDataset, get_worker_info

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset
    from forebay._src.iterator import DatasetIterator
    from forebay._src.service import Service


class Epochs(Protocol):
    """Where epochs come from: one after the other, or from a saved state."""

    dataset: Dataset
    options: Mapping[str, Any]

    def begin(self, epoch: int) -> DatasetIterator:
        """The iterator that gives an epoch next, not begun if it is a new one."""

    def read(self, batches: DatasetIterator, epoch: int, /) -> Iterator[dict[str, Any]]:
        """The rest of the epoch."""


class Here:
    """Each epoch is an iteration in this process."""

    def __init__(self, dataset: Dataset, options: Mapping[str, Any]) -> None:
        self.dataset, self.options = dataset, options

    def begin(self, epoch: int) -> DatasetIterator:
        """A new iterator."""
        return self.dataset.iter(**{**self.options, "epoch": epoch})

    def read(self, batches: DatasetIterator, _epoch: int, /) -> Iterator[dict[str, Any]]:
        """Everything."""
        return batches


class There:
    """The epochs of a job on a service, which go on one behind the other: its workers compute ahead."""

    def __init__(self, dataset: Dataset, service: Service | str, options: Mapping[str, Any]) -> None:
        self.dataset, self.options = dataset, options
        self._job = dataset.distribute(service, **options)
        #: Who reads the job.
        self._reader: DatasetIterator | None = None
        #: The epoch that it stands before, once it has read one to its end.
        self._before: int | None = None

    def begin(self, epoch: int) -> DatasetIterator:
        """The iterator that has just ended an epoch, or one that begins there."""
        if self._reader is not None and self._before == epoch:
            return self._reader
        if self._job.epochs is not None and epoch >= self._job.epochs:
            message = f"to_torch: job {self._job.job!r} has {self._job.epochs} epochs, and this would be one more"
            raise InvalidPipelineError(message, {"hint": "say epochs=, how many there are; None is without end"})
        if self._reader is not None:
            self._reader.close()
        batches, self._before = self._job.iter(), None
        self._reader = batches
        if epoch > 0:
            place = position_of(epoch, self._job.consumers)
            batches.load_state_dict({**batches.state_dict(), "position": place})
        return batches

    def read(self, batches: DatasetIterator, epoch: int, /) -> Iterator[dict[str, Any]]:
        """Everything until the first batch of a later epoch, which is left for later."""
        self._before = None
        for batch in batches:
            if batches.epoch > epoch:
                batches._put_back(batch)
                break
            yield batch
        if self._job.epochs is None or epoch + 1 < self._job.epochs:
            self._before = epoch + 1

    def __getstate__(self) -> dict[str, Any]:
        """Without the connections."""
        return {**self.__dict__, "_reader": None, "_before": None}


class TorchDataset(IterableDataset):  # type: ignore[type-arg,misc,unused-ignore]
    """Yields dictionaries of tensors; what is no number stays as it is. Its n-th iteration is the n-th epoch.

    The state is that of the iteration that began last: once it is loaded, the next iteration is the rest of that
    one, and those that follow are the epochs after it. A copy in another process begins with the epoch that comes next.
    """

    def __init__(self, epochs: Epochs) -> None:
        self._epochs = epochs
        self.epoch = int(epochs.options.get("epoch", 0))
        self._current: DatasetIterator | None = None
        self._loaded: Mapping[str, Any] | None = None
        self._length: int | None = None

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The next epoch, or the rest of the one whose state was loaded."""
        if get_worker_info() is not None:
            raise InvalidPipelineError(
                "the DataLoader has worker processes: each would read everything, and begin with the same epoch anew",
                {"hint": "use num_workers=0: Forebay computes on threads of its own, or on the workers of a service"},
            )
        # Where this iteration begins is settled here, not when its first batch is asked for.
        batches, self._loaded = self._next(), None
        self._current, self.epoch = batches, self.epoch + 1
        return ({name: _tensor(value) for name, value in b.items()} for b in self._epochs.read(batches, self.epoch - 1))

    def __len__(self) -> int:
        """How many batches (or samples) an epoch gives this consumer.

        Raises:
            TypeError: It is not known before they are computed, or there is no end.
        """
        if self._length is None:
            options = self._epochs.options
            index, count = options.get("consumers", (0, 1))
            even, coordinated = (
                options.get("even"),
                arguments.flag(options.get("coordinated", False), "to_torch", "coordinated"),
            )
            found = self._epochs.dataset._pipeline.share(index, count, even, coordinated)
            if options.get("on_error", "raise") != "raise":
                raise TypeError("this dataset has no length: samples that fail are left out")
            if found is None:
                raise TypeError("this dataset has no length: how much there is shows when it is computed")
            if found < 0:
                raise TypeError("this dataset has no length: an epoch of it never ends")
            self._length = found
        return self._length

    def _next(self) -> DatasetIterator:
        """The iteration that comes next."""
        batches = self._epochs.begin(self.epoch)
        if self._loaded is not None:
            batches.load_state_dict(self._loaded)
        return batches

    def state_dict(self) -> dict[str, Any]:
        """Returns where the iteration is: numbers and strings, a few hundred bytes."""
        batches = self._next() if self._current is None or self._loaded is not None else self._current
        return {"first": self.epoch - (batches is self._current), **batches.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Lets the next iteration go on from where `state_dict` was called."""
        rest = dict(state) if isinstance(state, Mapping) else {}
        first = rest.pop("first", None)
        if not isinstance(first, int):
            raise InvalidPipelineError(
                "this is not a state of to_torch(): it has no first epoch",
                {"hint": "give what state_dict() of such a dataset returned; to begin at the start, load nothing"},
            )
        self.epoch, self._loaded = first, rest
        self._next()

    def __getstate__(self) -> dict[str, Any]:
        """Without what reads here."""
        return {**self.__dict__, "_current": None}


def _tensor(value: Any) -> Any:
    """Shares memory where the array is ours alone; copies what is read-only."""
    if isinstance(value, np.generic):
        value = np.asarray(value)
    if isinstance(value, np.ma.MaskedArray) or not isinstance(value, np.ndarray) or value.dtype == object:
        return value
    return torch.from_numpy(value if value.flags.writeable else value.copy())
