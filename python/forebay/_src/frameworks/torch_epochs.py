"""The source of epochs of a dataset for a framework: this process, or a job on a service."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from forebay._src.iteration.state import epoch_of, position_of

if TYPE_CHECKING:
    from forebay._src.dataset import Dataset
    from forebay._src.iteration.distributed import Distributed
    from forebay._src.iteration.iterator import DatasetIterator
    from forebay._src.service.service import Service


class Epochs(Protocol):
    """A source of epochs: one after the other, from a saved state, or any of them."""

    dataset: Dataset
    options: Mapping[str, Any]

    def begin(self, epoch: int, state: Mapping[str, Any] | None) -> DatasetIterator:
        """Returns the iterator of an epoch, from its start or from a state."""

    def read(self, batches: DatasetIterator, epoch: int, /) -> Iterator[dict[str, Any]]:
        """Yields the rest of the epoch."""

    def state(self, epoch: int) -> dict[str, Any]:
        """Returns the state at the beginning of an epoch."""

    def check(self, state: Mapping[str, Any]) -> None:
        """Refuses a state of another pipeline or seed."""


class Here:
    """Each epoch is an iteration in this process."""

    def __init__(self, dataset: Dataset, options: Mapping[str, Any]) -> None:
        self.dataset, self.options = dataset, options

    def begin(self, epoch: int, state: Mapping[str, Any] | None) -> DatasetIterator:
        """Returns a new iterator."""
        batches = self._iter(epoch)
        if state is not None:
            batches.load_state_dict(state)
        return batches

    def again(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the next batch after a state, for the second time."""
        return _one(self.begin(epoch_of(state["position"]), state))

    def read(self, batches: DatasetIterator, _epoch: int, /) -> Iterator[dict[str, Any]]:
        """Yields all batches."""
        return batches

    def state(self, epoch: int) -> dict[str, Any]:
        """Returns the state of a new iterator."""
        return self._iter(epoch).state_dict()

    def check(self, state: Mapping[str, Any]) -> None:
        """Checks it with a new iterator."""
        self._iter(0).load_state_dict(state)

    def _iter(self, epoch: int) -> DatasetIterator:
        return self.dataset.iter(**{**self.options, "epoch": epoch})


def _one(batches: DatasetIterator) -> dict[str, Any]:
    batches._quiet = True
    with batches:
        return next(batches)


class There:
    """The epochs of one job on a service, one after the other, so that its workers compute ahead.

    An epoch after the last one of the job is a job of its own, named after both.
    """

    def __init__(self, dataset: Dataset, service: Service | str, options: Mapping[str, Any]) -> None:
        self.dataset, self.options, self._service = dataset, options, service
        self._job = dataset.distribute(service, **options)
        #: The iterator, and its job.
        self._reader: tuple[DatasetIterator, Distributed] | None = None
        #: The epoch after the one that it has read to the end.
        self._before: int | None = None

    def begin(self, epoch: int, state: Mapping[str, Any] | None) -> DatasetIterator:
        """Returns the iterator that has just ended the epoch before, or a new one."""
        if self._reader is not None:
            batches, _ = self._reader
            if state is None and self._before == epoch:
                return batches
            batches.close()
        job = self._job_of(epoch)
        batches = job.iter()
        if state is None and (epoch > 0 or self._reader is not None):
            state = self._at(batches, epoch)
        if state is not None:
            batches.load_state_dict(state)
        self._reader, self._before = (batches, job), None
        return batches

    def read(self, batches: DatasetIterator, epoch: int, /) -> Iterator[dict[str, Any]]:
        """Yields all batches before the first one of a later epoch, which is put back."""
        epochs = None if self._reader is None else self._reader[1].epochs
        self._before = None
        for batch in batches:
            if batches.epoch > epoch:
                batches._put_back(batch)
                break
            yield batch
        if epochs is None or epoch + 1 < epochs:
            self._before = epoch + 1

    def state(self, epoch: int) -> dict[str, Any]:
        """Returns the state of a new consumer."""
        return self._at(self._job.iter(), epoch)

    def check(self, state: Mapping[str, Any]) -> None:
        """Checks it with a new consumer."""
        self._job.iter().load_state_dict(state)

    def _at(self, batches: DatasetIterator, epoch: int) -> dict[str, Any]:
        return {**batches.state_dict(), "position": position_of(epoch, self._job.consumers)}

    def _job_of(self, epoch: int) -> Distributed:
        if self._job.epochs is None or epoch < self._job.epochs:
            return self._job
        more = {"job": f"{self._job.job}-epoch-{epoch}", "epochs": epoch + 1}
        return self.dataset.distribute(self._service, **{**self.options, **more})

    def __getstate__(self) -> dict[str, Any]:
        """Returns the attributes without the connections."""
        return {**self.__dict__, "_reader": None, "_before": None}
