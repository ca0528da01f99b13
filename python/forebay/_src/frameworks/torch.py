"""Datasets for PyTorch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from forebay._src import arguments
from forebay._src.arguments import Even
from forebay._src.frameworks import for_torch, torch_loaders
from forebay._src.frameworks.epoch_dataset import EpochDataset, chosen, inner
from forebay._src.frameworks.torch_device import Mover
from forebay._src.frameworks.torch_epochs import Here, There
from forebay._src.frameworks.torch_finish import divided
from forebay._src.frameworks.torch_ragged import TorchRagged
from forebay._src.frameworks.torch_together import initialised, together
from forebay._src.ragged import Ragged
from forebay.errors import InvalidPipelineError
from torch.utils.data import IterableDataset, get_worker_info

if TYPE_CHECKING:
    from forebay import _native
    from forebay._src.dataset import Dataset
    from forebay._src.iteration.iterator import DatasetIterator
    from forebay._src.service.service import Service

#: The number of recent batches whose states are kept: a loader prefetches one, and ranks yield one again.
_BEHIND = 3


def to_torch(
    dataset: Dataset,
    service: Service | str | None,
    columns: str | Iterable[str] | None,
    mover: Mover,
    options: dict[str, Any],
    *,
    finishes: bool,
) -> TorchDataset:
    """Returns the result of `Dataset.to_torch`; `finishes` says whether the device runs the ops at the end."""
    even = options.get("even")
    mode: Even | None = None
    if isinstance(even, str):
        mode = arguments.choice(even, "to_torch", "even", "drop", "pad", "error")  # type: ignore[assignment]
        if service is None:
            options = {**options, "even": arguments.dealt_and_ended(mode)[0]}
    dataset, parts = chosen(dataset, columns, "to_torch")
    for_torch.check_missing(dataset.schema, "to_torch")
    for_torch.check_shapes(dataset.schema, "to_torch")
    if finishes:
        dataset, mover.finish = divided(dataset, str(mover.device))
    return TorchDataset(dataset, service, options, mode, mover, parts)


class TorchDataset(EpochDataset, IterableDataset):  # type: ignore[type-arg,misc,unused-ignore]
    """Yields dictionaries of tensors (or tuples, or tensors); values that are no numbers stay as they are.

    A ragged column is a `TorchRagged`, whose values and offsets are tensors.

    Iterations are epochs, as `EpochDataset` describes.
    """

    #: Lightning reads both attributes of a loader, and calls `sampler.set_epoch` before each epoch.
    batch_sampler = None

    def __init__(
        self,
        dataset: Dataset,
        service: Service | str | None,
        options: dict[str, Any],
        even: Even | None,
        mover: Mover,
        parts: Callable[[dict[str, Any]], Any],
    ) -> None:
        EpochDataset.__init__(self, dataset, service, options)
        self._even, self._mover, self._parts = even, mover, parts

    @property
    def sampler(self) -> TorchDataset:
        """This dataset, which has `set_epoch` as a sampler has."""
        return self

    def __iter__(self) -> TorchIterator:
        """Returns an iterator over the epoch that comes next when its first batch is requested."""
        if get_worker_info() is not None:
            raise InvalidPipelineError(
                "the DataLoader has worker processes: each would read everything, and begin with the same epoch anew",
                {"hint": "use num_workers=0: Forebay computes on threads of its own, or on the workers of a service"},
            )
        torch_loaders.check_collation(self, self._source._pipeline.batch_size is not None)
        sharding = torch_loaders.sharding()
        if sharding is not None:
            self._check_dealt_once(*sharding)
        return TorchIterator(self, dealt=sharding is not None)

    def _check_dealt_once(self, library: str, processes: int) -> None:
        index, count = self._consumers
        if count == 1:
            return
        raise InvalidPipelineError(
            f"{library} divides this dataset among its {processes} processes, but consumers=({index}, {count}) "
            "has divided it already: each process would see only a part of its share",
            {
                "hint": "leave consumers= out; or keep it, and instead of prepare() make the loader with "
                "accelerate.data_loader.DataLoaderShard(dataset, device=accelerator.device, batch_size=None), which "
                "deals nothing"
            },
        )

    def _agreed(self) -> Even | None:
        """Returns how ranks agree to end together, or `None` if they need not agree."""
        count, options = self._consumers[1], self._options
        # On a service they end together without that.
        if self._even is None or isinstance(self._epochs, There) or count == 1 or options.get("coordinated"):
            return None
        pipeline = self._source._pipeline.tolerate(options.get("on_error", "raise"))
        known = pipeline.uneven(count) is None
        if known and (self._even == "drop" or self._is_even(pipeline)):
            return None
        if not initialised():
            message = f'to_torch(even="{self._even}"): how many batches the {count} consumers get differs, and they '
            message += "can ask each other over torch.distributed alone, which is not initialised"
            raise InvalidPipelineError(message, {"hint": "call torch.distributed.init_process_group() before"})
        return self._even

    def _is_even(self, pipeline: _native.Pipeline) -> bool:
        count = self._consumers[1]
        first, last = (pipeline.share(index, count, False, False) for index in (0, count - 1))
        return first == last


class TorchIterator(Iterator[Any]):
    """One epoch of a dataset for PyTorch, or the rest of one. It begins with its first batch."""

    def __init__(self, dataset: TorchDataset, *, dealt: bool) -> None:
        #: Whether a loader divides these batches among processes.
        self._dataset, self._dealt = dataset, dealt
        self._tensors: Iterator[dict[str, Any]] | None = None
        self._batches: DatasetIterator | None = None
        self._epoch = dataset.epoch
        self._ended = False
        #: The object that prefetches batches.
        self._fetcher: Any = None
        #: The states before the recent batches, if one of these will be requested.
        self._before: deque[dict[str, Any]] | None = None
        self._behind = False
        #: The batch that is yielded again, and how often it was.
        self._padding: dict[str, Any] | None = None
        self._padded = 0
        #: The batches that are on their way to the device.
        self._moving: deque[Any] = deque()

    def __next__(self) -> Any:
        """Returns the next batch; the first one decides which epoch this is."""
        if self._tensors is None:
            self._begin()
        assert self._tensors is not None
        try:
            return next(self._tensors)
        except StopIteration:
            self._ended = True
            raise

    def _begin(self) -> None:
        dataset = self._dataset
        following, self._epoch = dataset._next_epoch(), dataset.epoch
        if following is None:
            self._enter(iter(()))
            return
        self._epoch, loaded = following
        even = dataset._agreed()
        self._fetcher, self._behind = torch_loaders.prefetching(), even == "pad"
        # Where ranks ask each other before each batch, no batch is read before it is requested.
        ahead = dataset._mover.ahead if even is None else 0
        if self._fetcher is not None or self._behind or ahead:
            self._before = deque(maxlen=_BEHIND + ahead)
        batches = dataset._epochs.begin(self._epoch, None if loaded is None else inner(loaded))
        batches._quiet = self._dealt or even is not None
        self._batches = batches
        rows = self._noted(dataset._epochs.read(batches, self._epoch), batches)
        # The state is one batch behind: the batch was yielded before the state was saved.
        given = loaded is not None and bool(loaded["given"]) and next(rows, None) is not None
        if even is not None:
            rows = together(rows, even, given, self._again)
        tensors = ({name: _tensor(name, value) for name, value in batch.items()} for batch in rows)
        self._enter(map(dataset._parts, dataset._mover.moved(tensors, ahead, self._moving)))

    def _enter(self, tensors: Iterator[Any]) -> None:
        self._tensors = tensors
        self._dataset._entered(self, self._epoch)

    def _noted(self, rows: Iterator[dict[str, Any]], batches: DatasetIterator) -> Iterator[dict[str, Any]]:
        """Notes the state before each batch, if one will be requested."""
        while True:
            before = None if self._before is None else batches.state_dict()
            batch = next(rows, None)
            if batch is None:
                return
            if self._before is not None and before is not None:
                self._before.append(before)
            yield batch

    def _again(self) -> dict[str, Any]:
        """Returns the last batch once more, computed anew: the user may have written to it, and may do so again."""
        if self._padding is None:
            assert self._before is not None
            epochs = self._dataset._epochs
            assert isinstance(epochs, Here)
            self._padding = epochs.again(self._before[-1])
        self._padded += 1
        return {name: value.copy() if hasattr(value, "copy") else value for name, value in self._padding.items()}

    def close(self) -> None:
        """Stops the iterator behind it. It is not needed after the last batch."""
        if self._batches is not None:
            self._batches.close()

    def state_dict(self) -> dict[str, Any]:
        """Returns its position, without batches that were prefetched and not used yet."""
        if self._ended:
            return {"first": self._epoch, "given": 0, "ended": 1, **self._dataset._epochs.state(self._epoch + 1)}
        assert self._batches is not None
        before = self._before or ()
        ahead = 0 if self._fetcher is None else max(0, len(self._fetcher.batches) - self._padded)
        ahead = min(ahead + len(self._moving), len(before))
        given = int(self._behind and len(before) > ahead)
        back = ahead + given
        inner = before[-back] if back else self._batches.state_dict()
        return {"first": self._epoch, "given": given, "ended": 0, **inner}


def _tensor(name: str, value: Any) -> Any:
    """Returns a tensor: over the same memory if the array is ours alone, else a copy of a read-only array."""
    if isinstance(value, Ragged):
        return TorchRagged(_tensor(name, value.values), _tensor(name, value.offsets))
    if isinstance(value, np.generic):
        value = np.asarray(value)
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype == object:
        if any(isinstance(row, np.ndarray) for row in value.flat):
            raise for_torch.differing("to_torch", name, "rows of arrays")
        return value
    return torch.from_numpy(value if value.flags.writeable else value.copy())
